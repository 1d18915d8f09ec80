//! L11: how units, timers and idempotency keys are named.

use sha2::{Digest, Sha256};
use workflow::command::{Redrive, Start, Uncertain};
use workflow::event::{RedriveAction, TaskError, UncertainReason};

use crate::help::*;

#[test]
fn undo_deadlines_and_graces_have_a_prefix() {
    let body = r#"
tasks: {t: {version: 1.0.0}, undo: {version: 1.0.0}}
steps:
  - {id: x, task: t, compensate: {task: undo}, deadline: 1m, on_failure: continue}
  - {id: y, task: t, after: [x], compensate: {task: undo}}
"#;
    let lines = "includes: [TimerStarted deadline:x, TimerFired deadline:x, TimerStarted grace:x, TimerFired grace:x, \
                 StepScheduled compensate:x, 'TimerStarted grace:', 'TimerFired grace:', \
                 StepScheduled compensate:y]";
    shows(body, &format!("mocks: {{t: {{never: true}}}}, cancel: 1h, expect: {{status: cancelled, {lines}}}"));
}

const HANDLERS: &str = r#"
tasks: {t: {version: 1.0.0}, undo: {version: 1.0.0}}
timeout: 1h
signals: {bell: {}}
steps: [{id: x, task: t, retry: {max_attempts: 1}}]
handlers:
  event: {bell: [{id: ring, compute: "1"}]}
  failure: [{id: a, task: undo, compensate: {task: undo}}, {id: b, after: [a], compute: "1 / input.n"}]
  cancel: [{id: c, sleep: 1s}]
  timeout: [{id: d, sleep: 1s}]
  exit: [{id: e, task: undo, deadline: 1m}]
"#;

#[test]
fn units_of_handlers_begin_with_their_handler() {
    let fails = "mocks: {t: {error: {code: E}}}, ";
    let lines = "includes: [StepScheduled on:failure.a, StepFailed on:failure.b, StepClosing on:failure failed, \
                 StepScheduled compensate:on:failure.a, HandlerFinished on:failure, \
                 TimerStarted deadline:on:exit.e, StepScheduled on:exit.e]";
    shows(HANDLERS, &format!("input: {{n: 0}}, {fails} expect: {{status: failed, {lines}}}"));
    let hangs = "input: {n: 1}, mocks: {t: {never: true}}, ";
    let lines = "includes: [TimerStarted on:cancel.c, StepScheduled on:exit.e]";
    shows(HANDLERS, &format!("{hangs} cancel: 1m, expect: {{status: cancelled, {lines}}}"));
    let lines = "includes: [TimerStarted on:timeout.d, StepScheduled on:exit.e]";
    shows(HANDLERS, &format!("{hangs} expect: {{status: timed_out, {lines}}}"));
    let lines = "includes: [SignalReceived bell, HandlerStarted on:event:bell@4, StepSucceeded on:event:bell@4.ring]";
    let rings = "signals: [{at: 0, name: bell}], ";
    shows(HANDLERS, &format!("input: {{n: 1}}, {rings} expect: {{status: completed, {lines}}}"));
}

#[test]
fn handlers_of_a_later_end_have_its_number() {
    let again = "mocks: {t: {error: {code: E}}}, redrive: [{at: 1m}, {at: 2m}], ";
    let lines = "includes: [StepScheduled on:failure.a, StepScheduled on:exit.e, WorkflowFailed, WorkflowRedriven, \
                 StepScheduled on:failure~2.a, StepScheduled on:exit~2.e, WorkflowFailed, WorkflowRedriven, \
                 StepScheduled on:failure~3.a, StepScheduled on:exit~3.e, WorkflowFailed]";
    shows(HANDLERS, &format!("input: {{n: 1}}, {again} expect: {{status: failed, {lines}}}"));
}

#[test]
fn a_segment_has_element_iteration_and_attempt() {
    let body = r#"
steps:
  - id: x
    for: {each: "[1, 2]"}
    repeat: {until: "iteration == 2"}
    retry: {}
    steps: [{id: y, for: {each: "[1]"}, steps: [{id: z, compute: "1"}]}]
"#;
    let driven = Driven::start(body);
    let units = driven.lines().into_iter().filter(|line| line.ends_with(".z")).collect::<Vec<_>>();
    let expected = ["x[0]#1~1.y[0].z", "x[1]#1~1.y[0].z", "x[0]#2~1.y[0].z", "x[1]#2~1.y[0].z"]
        .map(|key| format!("StepSucceeded {key}"));
    let mut sorted = (units, expected.to_vec());
    sorted.0.sort();
    sorted.1.sort();
    assert_eq!(sorted.0, sorted.1);
}

#[test]
fn only_blocks_with_retry_count_attempts_in_their_keys() {
    let body = r#"
tasks: {t: {version: 1.0.0}, undo: {version: 1.0.0}}
steps:
  - {id: plain, steps: [{id: y, compute: "1"}]}
  - id: box
    after: [plain]
    retry: {max_attempts: 2, initial_delay: 1s}
    deadline: 1h
    steps: [{id: x, task: t, compensate: {task: undo}}, {id: w, task: t, after: [x], retry: {max_attempts: 1}}]
"#;
    let mocks = "mocks: {t: [{times: 1}, {times: 1, error: {code: E}}, {times: 1}, {never: true}]}";
    let lines = shows(body, &format!("{mocks}, expect: {{status: failed, error: DEADLINE_EXCEEDED}}"));
    let keys = order(&lines).into_iter().filter(|line| !line.starts_with("StepDispatched") && line.contains("box"));
    let expected = [
        "TimerStarted deadline:box",
        "StepOpened box",
        "StepScheduled box~1.x attempt=1",
        "StepSucceeded box~1.x",
        "StepScheduled box~1.w attempt=1",
        "StepAttemptFailed box~1.w E",
        "StepFailed box~1.w E handled=false",
        "StepClosing box~1 failed",
        "CompensationStarted box~1 box~1.x",
        "StepScheduled compensate:box~1.x attempt=1",
        "StepSucceeded compensate:box~1.x",
        "CompensationCompleted box~1",
        "RetryScheduled box next=2",
        "TimerFired box",
        "StepOpened box attempt=2",
        "StepScheduled box~2.x attempt=1",
        "StepSucceeded box~2.x",
        "StepScheduled box~2.w attempt=1",
        "TimerFired deadline:box",
        "StepClosing box deadline_failed",
        "StepCancelled box~2.w",
        "CompensationStarted box box~2.x",
        "StepScheduled compensate:box~2.x attempt=1",
        "StepSucceeded compensate:box~2.x",
        "CompensationCompleted box",
        "StepFailed box DEADLINE_EXCEEDED handled=false",
    ];
    assert_eq!(keys.collect::<Vec<_>>(), expected);
    assert!(order(&lines).contains(&"StepSucceeded plain.y"));
}

const TASK: &str = "tasks: {t: {version: 1.0.0}}\nsteps: [{id: x, task: t, retry: {}}]\n";

fn scheduled_keys(driven: &Driven) -> Vec<String> {
    let scheduled = driven.history.iter().filter(|recorded| recorded.event.name() == "StepScheduled");
    let events = scheduled.map(|recorded| serde_json::from_str::<serde_json::Value>(&recorded.to_json()).unwrap());
    events.map(|event| event["idempotency_key"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_idempotency_key_is_a_digest_of_execution_first_run_and_unit() {
    let digest = |created_at_ms: u64, run: u32| {
        let text = format!("x\0{created_at_ms}\0{run}\0x");
        Sha256::digest(text).iter().take(16).map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let first = Driven::start(TASK);
    assert_eq!(scheduled_keys(&first), [digest(1_000, 1)]);
    let start = Start { run: 2, first_created_at_ms: Some(300), ..Start::with_input(json("{}")) };
    let second = Driven::begin(TASK, start).unwrap();
    assert_eq!(scheduled_keys(&second), [digest(300, 2)]);
}

#[test]
fn the_idempotency_key_is_recorded_and_stays() {
    let mut driven = Driven::start(TASK);
    let token = driven.hand_over("x");
    driven.tell(Uncertain { token: &token, reason: UncertainReason::WorkerLost }).unwrap();
    for _ in 0..3 {
        let token = driven.hand_over("x");
        driven.fail(&token, TaskError::transient("E", ""));
        if driven.lines().last().unwrap().starts_with("RetryScheduled") {
            driven.fire("x");
        }
    }
    driven.tell(Redrive { steps: None, action: RedriveAction::Retry, output: None }).unwrap();
    let keys = scheduled_keys(&driven);
    assert_eq!(keys.len(), 5, "attempts 1 twice, 2, 3, and the redrive's: {:#?}", driven.lines());
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    // The same id, used again later.
    let start = Start { run: 1, first_created_at_ms: Some(9_000), ..Start::with_input(json("{}")) };
    assert_ne!(scheduled_keys(&Driven::begin(TASK, start).unwrap())[0], keys[0]);
}

#[test]
fn a_key_says_where_its_unit_stands() {
    let body = r#"
tasks: {t: {version: 1.0.0}, undo: {version: 1.0.0}}
steps:
  - id: order
    for: {each: "[1, 2, 3]"}
    repeat: {until: "iteration == 3"}
    retry: {max_attempts: 1}
    steps: [{id: charge, task: t, compensate: {task: undo}}]
  - {id: last, after: [order], fail: {code: E}}
"#;
    shows(body, "expect: {status: failed, includes: ['StepSucceeded compensate:order[2]#3~1.charge']}");
}
