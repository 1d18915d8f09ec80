//! L12: events, batches and what is written without a worker.

use std::sync::Arc;

use serde_json::{Value as Json, json as js};
use workflow::command::{BATCH_EVENTS_MAX, Cancel, Heartbeat, Run, SendSignal, Start};
use workflow::document::{self, Format};
use workflow::event::{Event, Recorded};
use workflow::state::{Execution, RunStatus};

use crate::help::*;

const TASK: &str = "tasks: {t: {version: 1.0.0}}\nsteps: [{id: x, task: t}]\n";

#[test]
fn every_event_has_its_place_its_time_and_its_type() {
    let mut driven = Driven::start(TASK);
    driven.now_ms = 2_000;
    driven.do_it("x", "{}");
    for (recorded, place) in driven.history.iter().zip(1_u64..) {
        let event: Json = serde_json::from_str(&recorded.to_json()).unwrap();
        assert_eq!(event["seq"], place);
        assert_eq!(event["timestamp_ms"], if place <= 3 { 1_000 } else { 2_000 });
        assert_eq!(event["type"], recorded.event.name());
    }
    // Places count anew in the next run.
    let start = Start { run: 2, first_created_at_ms: Some(1), ..Start::with_input(json("{}")) };
    assert_eq!(Driven::begin(TASK, start).unwrap().history[0].seq, 1);
}

/// The run that starts the child is the second; the time is that of the first.
#[test]
fn a_child_knows_when_its_parent_was_first_created() {
    let body = "name: a\nversion: 1.0.0\nsteps:\n  \
                - {id: nap, when: input.n == 1, sleep: 1h}\n  \
                - {id: more, after: [nap], when: input.n == 1, continue_as_new: {input: {n: 2}}}\n  \
                - {id: x, when: input.n == 2, workflow: {name: c, version: 1.0.0}}\n---\n\
                {name: c, version: 1.0.0, steps: [{id: y, sleep: 1s}]}\n";
    let parent = "{execution_id: x, created_at_ms: 0, run: 2, step: x, attempt: 1}";
    let created = format!("events_like: [{{type: WorkflowCreated, timestamp_ms: 3600000, parent: {parent}}}]");
    shows(body, &format!("input: {{n: 1}}, expect: {{status: completed, of: 'x.x:r2', {created}}}"));
}

#[test]
fn time_never_goes_back() {
    let mut driven = Driven::start(TASK);
    driven.now_ms = 10;
    driven.do_it("x", "{}");
    assert!(driven.history.iter().all(|recorded| recorded.timestamp_ms == 1_000));
}

#[test]
fn state_is_the_fold_of_the_history_alone() {
    let mut driven = Driven::start(TASK);
    assert_eq!(&Execution::fold(&driven.history), driven.run.state());
    driven.do_it("x", "{}");
    assert_eq!(&Execution::fold(&driven.history), driven.run.state());
    assert_eq!(Execution::fold(&driven.history).head.status, RunStatus::Completed);
}

/// Whatever event comes in whatever state, in histories that no run would write: there is a state after it.
#[test]
fn the_fold_is_total() {
    let events: Vec<Recorded> = include_str!("../golden/events.jsonl")
        .lines()
        .map(|line| Recorded::from_json(line.split_once('\t').unwrap().1).unwrap())
        .collect();
    assert!(events.len() > 40);
    for first in &events {
        for second in &events {
            let _ = Execution::fold(&[first.clone(), second.clone(), first.clone()]);
        }
    }
}

#[test]
fn heartbeats_are_no_events_and_their_last_details_are_kept_beside() {
    let mut driven = Driven::start(TASK);
    let token = driven.hand_over("x");
    let before = driven.history.len();
    for done in [1, 2] {
        let details = Some(json(&format!("{{\"done\": {done}}}")));
        assert!(driven.tell(Heartbeat { token: &token, details }).unwrap().accepted);
    }
    driven.tell(Heartbeat { token: &token, details: None }).unwrap();
    assert_eq!(driven.history.len(), before);
    assert_eq!(driven.run.last_heartbeat("x"), Some(&json(r#"{"done": 2}"#)));
}

fn started(body: &str, input: &str) -> (Run, Vec<Vec<Recorded>>) {
    let definition = document::compile(&named(body), Format::Yaml).unwrap().remove(0).definition;
    let mut run = Run::new(Arc::new(definition), "x");
    let (_, mut batch) = run.handle(0, Start::with_input(json(input))).unwrap();
    let mut batches = vec![std::mem::take(&mut batch.events)];
    while batch.unfinished {
        batch = run.proceed(0);
        batches.push(std::mem::take(&mut batch.events));
    }
    (run, batches)
}

#[test]
fn a_batch_is_cut_after_its_thousandth_event() {
    let body = |n: u32| format!("steps: [{{id: x, for: {{each: range({n})}}, steps: [{{id: y, compute: '1'}}]}}]\n");
    let (_, batches) = started(&body(10), "{}");
    assert_eq!(batches.len(), 1, "what follows from one command is one batch");
    let (run, batches) = started(&body(500), "{}");
    let sizes: Vec<_> = batches.iter().map(Vec::len).collect();
    assert_eq!(
        sizes,
        [BATCH_EVENTS_MAX, 505],
        "created, started, fan-out, three for each element, succeeded, completed"
    );
    assert_eq!(run.state().head.status, RunStatus::Completed);
}

#[test]
fn a_batch_is_cut_after_the_event_that_brings_it_to_a_mebibyte() {
    let body =
        "tasks: {t: {version: 1.0.0}}\nsteps: [{id: x, for: {each: range(5)}, task: t, input: \"${input.big}\"}]\n";
    let big = format!("{{\"big\": \"{}\"}}", "a".repeat(300 << 10));
    let (_, batches) = started(body, &big);
    // The input of the run, and of three elements: 1 200 KiB.
    let sizes: Vec<_> = batches.iter().map(Vec::len).collect();
    assert_eq!(sizes, [3 + 3, 2]);
}

#[test]
fn items_go_on_in_further_events_and_elements_start_after_the_last() {
    let body = "tasks: {t: {version: 1.0.0}}\n\
                steps: [{id: x, for: {each: \"range(8).map(i, input.big)\", concurrency: 3}, task: t}]\n";
    let big = format!("{{\"big\": \"{}\"}}", "a".repeat(400 << 10));
    let (_, batches) = started(body, &big);
    let events: Vec<_> = batches.into_iter().flatten().collect();
    let lines: Vec<_> = events.iter().map(|recorded| recorded.event.to_string()).collect();
    let fan_outs = lines.iter().filter(|line| line.starts_with("StepFanOut")).count();
    assert!(fan_outs > 1);
    let parts = events.iter().filter_map(|recorded| match &recorded.event {
        Event::StepFanOut(part) => Some((part.items.len(), part.more)),
        _ => None,
    });
    let parts: Vec<_> = parts.collect();
    assert_eq!(parts.iter().map(|(items, _)| items).sum::<usize>(), 8);
    assert!(parts.iter().rev().skip(1).all(|(_, more)| *more) && !parts.last().unwrap().1, "{parts:?}");
    assert!(events.iter().all(|recorded| recorded.to_json().len() <= 2 << 20));
    let first_element = lines.iter().position(|line| line.starts_with("StepScheduled")).unwrap();
    let last_part = lines.iter().rposition(|line| line.starts_with("StepFanOut")).unwrap();
    assert!(first_element > last_part, "{lines:?}");
}

/// Thousands of blocks that succeeded, far below the root, so that their keys are long.
fn much_to_undo() -> String {
    let long = |letter: char| String::from(letter).repeat(64);
    let each = "for: {each: range(2400), concurrency: 1}, steps: [{id: done, compute: '1'}]";
    let mut steps = format!("[{{id: each, {each}, compensate: {{task: undo}}}}]");
    for letter in ['a', 'b', 'c', 'd', 'e', 'f', 'g'] {
        steps = format!("[{{id: {}, steps: {steps}}}]", long(letter));
    }
    let last = long('g');
    let steps = steps.strip_suffix(']').unwrap();
    format!("tasks: {{undo: {{version: 1.0.0}}}}\nsteps: {steps}, {{id: bad, after: [{last}], fail: {{code: E}}}}]\n")
}

#[test]
fn steps_to_undo_go_on_in_further_events_and_undo_starts_after_the_last() {
    let (_, batches) = started(&much_to_undo(), "{}");
    let events: Vec<_> = batches.into_iter().flatten().collect();
    let parts = events.iter().enumerate().filter_map(|(at, recorded)| match &recorded.event {
        Event::CompensationStarted(part) => Some((at, part.steps.len(), part.more)),
        _ => None,
    });
    let parts: Vec<_> = parts.collect();
    assert_eq!(parts.iter().map(|part| part.1).sum::<usize>(), 2_400);
    assert!(parts.len() > 1 && parts.iter().rev().skip(1).all(|part| part.2) && !parts.last().unwrap().2, "{parts:?}");
    assert!(events.iter().all(|recorded| recorded.to_json().len() <= 2 << 20));
    let first_undo = events.iter().position(|recorded| recorded.event.name() == "StepScheduled").unwrap();
    assert!(first_undo > parts.last().unwrap().0);
}

#[test]
fn the_end_sums_up_all_undoing_and_counts_signals_that_nobody_took() {
    let body = r#"
tasks: {t: {version: 1.0.0}, undo: {version: 1.0.0}}
signals: {s: {}}
steps:
  - {id: x, task: t, compensate: {task: undo, input: "${output}"}, when: input.x}
  - {id: y, task: t, compensate: {task: undo, input: "${output}"}, when: input.y}
  - {id: z, after: [x, y], fail: {code: E}}
"#;
    let signals = "signals: [{at: 0, name: s}, {at: 1, name: s}]";
    let failing = "undo: [{when: input == 'x', error: {code: U, retryable: false}}, {}]";
    let mocks = format!("mocks: {{t: {{output: '${{unit}}'}}, {failing}}}");
    for (input, compensation) in [
        ("{x: false, y: false}", "none"),
        ("{x: false, y: true}", "completed"),
        ("{x: true, y: false}", "failed"),
        ("{x: true, y: true}", "failed"),
    ] {
        let signals = if compensation == "none" { "" } else { &format!("{signals}, ") };
        let unconsumed = if signals.is_empty() { 0 } else { 2 };
        let end = format!("{{type: WorkflowFailed, compensation: {compensation}, unconsumed_signals: {unconsumed}}}");
        shows(body, &format!("input: {input}, {signals}{mocks}, expect: {{status: failed, events_like: [{end}]}}"));
    }
}

#[test]
fn every_terminal_event_counts_signals_that_nobody_took() {
    let body = |more: &str| format!("signals: {{s: {{}}}}\ntimeout: 1h\n{more}\n");
    let signal = || SendSignal { name: "s".to_owned(), payload: json("{}"), dedup_id: None };
    let nap = body("steps: [{id: x, sleep: 1s}]");
    let mut driven = Driven::start(&nap);
    driven.tell(signal()).unwrap();
    driven.fire("x");
    assert_eq!(driven.last_of("WorkflowCompleted")["unconsumed_signals"], 1);
    let mut driven = Driven::start(&nap);
    driven.tell(signal()).unwrap();
    driven.tell(Cancel { reason: "enough".to_owned(), force: false }).unwrap();
    assert_eq!(driven.last_of("WorkflowCancelled")["unconsumed_signals"], 1);
    assert_eq!(driven.last_of("StepClosing")["step"], "", "the workflow");
    let mut driven = Driven::start(&nap);
    driven.tell(signal()).unwrap();
    driven.now_ms = 3_601_000;
    driven.tell(workflow::command::TimeoutDue).unwrap();
    assert_eq!(driven.last_of("WorkflowTimedOut")["unconsumed_signals"], 1);
    let mut driven =
        Driven::start(&body("steps: [{id: x, sleep: 1s}, {id: y, after: [x], continue_as_new: {input: {}}}]"));
    driven.tell(signal()).unwrap();
    driven.fire("x");
    assert_eq!(driven.last_of("WorkflowContinuedAsNew")["unconsumed_signals"], 1);
}

#[test]
fn the_version_of_the_rules_is_recorded() {
    assert_eq!(Driven::start(TASK).last_of("WorkflowCreated")["rules"], workflow::decide::RULES);
}

/// The lines that say `x`, in their order.
fn about_x(body: &str, case: &str) -> Vec<String> {
    let lines = shows(body, case);
    let about = |line: &&(u64, String)| line.1.split(' ').nth(1) == Some("x");
    lines.iter().filter(about).map(|(_, line)| line.clone()).collect()
}

#[test]
fn a_sleep_writes_timer_started_timer_fired_and_succeeded() {
    for sleep in ["sleep: 1s", "sleep_until: 5000"] {
        let lines = about_x(&format!("steps: [{{id: x, {sleep}}}]\n"), "expect: {status: completed}");
        assert_eq!(lines, ["TimerStarted x", "TimerFired x", "StepSucceeded x"]);
    }
}

#[test]
fn a_wait_and_a_repeat_write_opened_and_succeeded() {
    let wait = "signals: {s: {}}\nsteps: [{id: x, await: {signal: s}}]\n";
    let lines = about_x(wait, "signals: [{at: 1s, name: s}], expect: {status: completed}");
    assert_eq!(lines, ["StepOpened x", "SignalConsumed x signal_seq=4", "StepSucceeded x"]);
    let repeat = "steps: [{id: x, repeat: {until: 'iteration == 2'}, steps: [{id: y, compute: '1'}]}]\n";
    let lines = about_x(repeat, "expect: {status: completed}");
    assert_eq!(lines, ["StepOpened x", "StepSucceeded x"], "one of its own");
}

#[test]
fn a_computation_writes_succeeded_alone() {
    assert_eq!(about_x("steps: [{id: x, compute: '1'}]\n", "expect: {status: completed}"), ["StepSucceeded x"]);
}

#[test]
fn a_child_and_a_signal_write_scheduled_and_succeeded() {
    let child = "name: a\nversion: 1.0.0\nsteps: [{id: x, workflow: {name: c, version: 1.0.0}}]\n---\n\
                 {name: c, version: 1.0.0, steps: [{id: y, sleep: 1s}]}\n";
    let expected = ["StepScheduled x attempt=1", "StepSucceeded x"];
    assert_eq!(about_x(child, "expect: {status: completed}"), expected);
    let signal = "signals: {s: {}}\nsteps: [{id: x, signal: {execution: x, name: s}}]\n";
    assert_eq!(about_x(signal, "expect: {status: completed}"), expected);
}

#[test]
fn a_finished_for_writes_one_succeeded_of_its_own() {
    let body = "steps: [{id: x, for: {each: '[1, 2]'}, steps: [{id: y, compute: item}]}]\n";
    assert_eq!(about_x(body, "expect: {status: completed}"), ["StepFanOut x 2 items", "StepSucceeded x"]);
    let own = Driven::start(body).history.into_iter().find(|e| e.event.to_string() == "StepSucceeded x").unwrap();
    let own: Json = serde_json::from_str(&own.to_json()).unwrap();
    assert_eq!(own.as_object().unwrap().keys().collect::<Vec<_>>(), ["attempt", "seq", "step", "timestamp_ms", "type"]);
    assert_eq!(own["attempt"], js!(1));
}
