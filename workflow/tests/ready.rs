//! What a queue of ready tasks is ordered by: the age of an attempt, and priority and fairness of its execution.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use workflow::command::{Complete, Fail, OfferTaken, Run, SendSignal, Start, TimerDue, Token, Uncertain};
use workflow::definition::Definition;
use workflow::document::{self, Format};
use workflow::event::{Parent, TaskError, UncertainReason};
use workflow::key::Key;
use workflow::state::{RunStatus, Unit};
use workflow::value::Payload;

fn definition(document: &str) -> Arc<Definition> {
    Arc::new(document::compile(document, Format::Yaml).unwrap().remove(0).definition)
}

fn payload(text: &str) -> Payload {
    Payload::parse(text).unwrap()
}

fn hand_over(run: &mut Run, at_ms: u64) -> Token {
    let offer = OfferTaken { unit: "pay", worker_id: "w", worker_session: "s", nonce: [at_ms as u8; 8] };
    run.handle(at_ms, offer).unwrap().0
}

fn pay(run: &Run) -> &Unit {
    run.state().unit("pay").unwrap()
}

#[test]
fn a_redelivered_task_keeps_its_age_and_a_new_attempt_is_young() {
    let definition = definition(
        r"
name: age
version: 1.0.0
tasks: {p.pay: {version: 1.0.0}}
steps: [{id: pay, task: p.pay, retry: {initial_delay: 5ms, jitter: 0}}]
",
    );
    let mut run = Run::new(definition, "x");
    run.handle(100, Start::with_input(payload("{}"))).unwrap();
    assert_eq!(pay(&run).queued_at_ms, 100);
    let token = hand_over(&mut run, 200);
    assert_eq!(pay(&run).queued_at_ms, 100, "with a worker it still is as old");
    run.handle(300, Uncertain { token: &token, reason: UncertainReason::WorkerLost }).unwrap();
    assert_eq!(
        (pay(&run).queued_at_ms, pay(&run).at_ms),
        (100, 300),
        "its queue_timeout starts over, its age does not"
    );
    let token = hand_over(&mut run, 400);
    let error = TaskError::transient("DOWN", "");
    run.handle(500, Fail { token: &token, error, unknown: false }).unwrap();
    run.handle(505, TimerDue { timer: "pay" }).unwrap();
    assert_eq!((pay(&run).attempt, pay(&run).queued_at_ms), (2, 505));
    let token = hand_over(&mut run, 600);
    run.handle(700, Uncertain { token: &token, reason: UncertainReason::NotReceived }).unwrap();
    assert_eq!((pay(&run).attempt, pay(&run).queued_at_ms), (2, 505));
}

/// All that the next run is started with stands in the rows of the one that ended.
#[test]
fn what_a_caller_gave_at_the_start_moves_on_from_run_to_run() {
    let definition = definition(
        r#"
name: on
version: 1.0.0
tasks: {p.pay: {version: 1.0.0}}
signals: {note: {type: object}}
steps: [{id: pay, task: p.pay}, {id: again, after: [pay], continue_as_new: {input: {n: 2}}}]
"#,
    );
    let parent = Parent { execution_id: "p".into(), created_at_ms: 1, run: 1, step: Key::from("child"), attempt: 1 };
    let first = Start {
        parent: Some(parent.clone()),
        schedule: Some(("nightly".into(), 90)),
        traceparent: Some("00-1-2-01".into()),
        priority: Some(2),
        fairness_key: Some("tenant".into()),
        ..Start::with_input(payload(r#"{"n": 1}"#))
    };
    let mut run = Run::new(Arc::clone(&definition), "x");
    run.handle(100, first).unwrap();
    let signal = SendSignal { name: "note".into(), payload: payload(r#"{"a": 1.10}"#), dedup_id: Some("d".into()) };
    run.handle(110, signal).unwrap();
    let token = hand_over(&mut run, 120);
    run.handle(130, Complete { token: &token, output: Payload::null() }).unwrap();
    assert_eq!(run.state().head.status, RunStatus::Continued);

    let next = Start::next_run(run.state());
    let mut run = Run::new(definition, "x");
    run.handle(130, next).unwrap();
    let head = &run.state().head;
    assert_eq!((head.run, head.first_created_at_ms, head.created_at_ms), (2, 100, 130));
    assert_eq!(head.input.as_ref().unwrap().as_str(), r#"{"n":2}"#);
    assert_eq!(head.parent.as_ref(), Some(&parent));
    assert_eq!((head.schedule_id.as_deref(), head.scheduled_at_ms), (Some("nightly"), Some(90)));
    assert_eq!((head.priority, head.fairness_key.as_deref()), (Some(2), Some("tenant")));
    assert_eq!(head.traceparent.as_deref(), Some("00-1-2-01"));
    let carried = run.state().signals.iter().next().unwrap().1;
    assert_eq!((carried.payload.as_str(), carried.dedup_id.as_deref()), (r#"{"a": 1.10}"#, Some("d")));
}
