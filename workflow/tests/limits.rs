//! Nothing grows without bound: histories and payloads (L12, L13).

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use workflow::command::{Batch, Cancel, Complete, OfferTaken, Redrive, Run, Start, Token};
use workflow::decide::Limits;
use workflow::document::{self, Format};
use workflow::event::{Event, Recorded, RedriveAction};
use workflow::state::RunStatus;
use workflow::value::Payload;

fn run(document: &str, limits: Limits) -> (Run, Vec<Recorded>) {
    let definition = document::compile(document, Format::Yaml).unwrap().remove(0).definition;
    let mut run = Run::new(Arc::new(definition), "x").with_limits(limits);
    let (_, batch) = run.handle(0, Start::with_input(Payload::parse("{}").unwrap())).unwrap();
    let mut history = Vec::new();
    take(&mut run, batch, &mut history);
    (run, history)
}

fn take(run: &mut Run, mut batch: Batch, history: &mut Vec<Recorded>) {
    loop {
        history.append(&mut batch.events);
        if !batch.unfinished {
            return;
        }
        batch = run.proceed(0);
    }
}

fn hand_over(run: &mut Run, unit: &str, history: &mut Vec<Recorded>) -> Token {
    let offer = OfferTaken { unit, worker_id: "w", worker_session: "s", nonce: [1; 8] };
    let (token, batch) = run.handle(0, offer).unwrap();
    take(run, batch, history);
    token
}

const ENDLESS: &str = r#"
name: endless
version: 1.0.0
tasks: {t.a: {version: 1.0.0}, t.undo: {version: 1.0.0}}
steps:
  - {id: paid, task: t.a, compensate: {task: t.undo}}
  - {id: spin, after: [paid], compute: "iteration", repeat: {until: "false", max: 10000}}
"#;

/// `repeat` is no attribute of a computation: the loop goes around a block.
const SPINNING: &str = r#"
name: spinning
version: 1.0.0
tasks: {t.a: {version: 1.0.0}, t.undo: {version: 1.0.0}}
steps:
  - {id: paid, task: t.a, compensate: {task: t.undo}}
  - id: spin
    after: [paid]
    repeat: {until: "false", max: 10000}
    steps: [{id: turn, compute: "1"}]
"#;

#[test]
fn a_history_at_its_limit_closes_the_run_and_undoes_what_happened() {
    assert!(document::compile(ENDLESS, Format::Yaml).is_err());
    let limits = Limits { history_events_max: 500, ..Limits::default() };
    let (mut run, mut history) = run(SPINNING, limits);
    let token = hand_over(&mut run, "paid", &mut history);
    let (_, batch) = run.handle(0, Complete { token: &token, output: Payload::null() }).unwrap();
    take(&mut run, batch, &mut history);
    let closing = history.iter().find_map(|recorded| match &recorded.event {
        Event::StepClosing(closing) if closing.step.is_empty() => Some((recorded.seq, closing)),
        _ => None,
    });
    let (seq, closing) = closing.expect("the root closes");
    assert_eq!(closing.error.as_ref().unwrap().code, "HISTORY_LIMIT");
    assert_eq!(seq, 501, "at the limit, not somewhere beyond");

    // Undo is exempt: it is how the run ends.
    let token = hand_over(&mut run, "compensate:paid", &mut history);
    let (_, batch) = run.handle(0, Complete { token: &token, output: Payload::null() }).unwrap();
    take(&mut run, batch, &mut history);
    assert_eq!(run.state().head.status, RunStatus::Failed);
    assert_eq!(run.state().head.error.as_ref().unwrap().code, "HISTORY_LIMIT");
}

#[test]
fn bytes_count_too_and_a_full_history_can_be_cancelled() {
    let limits = Limits { history_bytes_max: 1 << 16, ..Limits::default() };
    let (mut run, mut history) = run(SPINNING, limits);
    let token = hand_over(&mut run, "paid", &mut history);
    let (_, batch) = run.handle(0, Complete { token: &token, output: Payload::null() }).unwrap();
    take(&mut run, batch, &mut history);
    assert!(history.len() < 700, "100 bytes an event, at least: {}", history.len());
    let (_, batch) = run.handle(0, Cancel { reason: "enough".into(), force: true }).unwrap();
    take(&mut run, batch, &mut history);
    assert_eq!(run.state().head.status, RunStatus::Cancelled);
}

#[test]
fn a_computed_value_over_the_limit_fails_its_step() {
    let document = r#"
name: large
version: 1.0.0
steps:
  - {id: x, compute: "range(400000)", on_failure: continue}
result: {code: "${steps.x.error.code}"}
"#;
    let (run, _) = run(document, Limits::default());
    assert_eq!(run.state().head.output.as_ref().unwrap().as_str(), r#"{"code":"PAYLOAD_TOO_LARGE"}"#);
}

#[test]
fn an_output_over_the_limit_ends_the_attempt_and_leaves_the_outcome_unknown() {
    let document = r#"
name: large
version: 1.0.0
tasks: {t.a: {version: 1.0.0}}
steps: [{id: x, task: t.a}]
"#;
    let (mut run, mut history) = run(document, Limits::default());
    let token = hand_over(&mut run, "x", &mut history);
    let output = Payload::parse(&format!("\"{}\"", "a".repeat(3 << 20))).unwrap();
    let (answer, batch) = run.handle(0, Complete { token: &token, output }).unwrap();
    take(&mut run, batch, &mut history);
    assert_eq!((answer.accepted, answer.reason.as_deref()), (false, Some("PAYLOAD_TOO_LARGE")));
    assert!(run.state().unit("x").unwrap().unknown);
    assert_eq!(run.state().head.error.as_ref().unwrap().code, "PAYLOAD_TOO_LARGE", "not retried");
}

/// A redrive of a long execution counted every block of it anew and wrote them all: 49 MB for a million events, more
/// than an entry of the log may have.
#[test]
fn a_redrive_writes_what_it_changes_and_not_the_whole_execution() {
    let written = |iterations: u32| {
        let document = format!(
            "name: long\nversion: 1.0.0\nsteps:\n  - id: spin\n    repeat: {{until: 'iteration == {iterations}'}}\n    \
             steps: [{{id: turn, compute: '1'}}]\n  - {{id: bad, after: [spin], compute: '1 / 0'}}\n"
        );
        let (mut run, mut history) = run(&document, Limits::default());
        assert_eq!(run.state().head.status, RunStatus::Failed);
        run.take_changes();
        let redrive = Redrive { steps: None, action: RedriveAction::Retry, output: None };
        let (_, batch) = run.handle(0, redrive).unwrap();
        take(&mut run, batch, &mut history);
        run.take_changes().len()
    };
    assert_eq!(written(10), written(500));
}
