//! Every event in every shape that it has, as it stands in histories. A released line is never edited: histories that
//! were written with it must be read for ever. `UPDATE_GOLDEN=1` adds lines that are missing and changes none.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use workflow::event::*;
use workflow::key::Key;
use workflow::value::{Payload, Value};

fn payload(text: &str) -> Payload {
    Payload::parse(text).unwrap()
}

fn step() -> Key {
    Key::from("order[2]#3~1.charge")
}

fn full_error() -> TaskError {
    TaskError {
        code: "DB_DOWN".into(),
        message: "no answer".into(),
        retryable: true,
        details: Some(payload(r#"{"tries": 3,  "id": 12345678901234567890}"#)),
    }
}

fn queue() -> Queue {
    Queue { task: "pay.charge".into(), version: Some("1.0.0".into()), language: Some("python".into()) }
}

/// The shapes, by a name of their own.
fn shapes() -> Vec<(&'static str, Event)> {
    let mut shapes = workflow_shapes();
    shapes.extend(attempt_shapes());
    shapes.extend(step_shapes());
    shapes.extend(undo_shapes());
    shapes
}

fn workflow_shapes() -> Vec<(&'static str, Event)> {
    let created = WorkflowCreated {
        workflow: "order".into(),
        version: "1.2.0".into(),
        definition_hash: "sha256:00".into(),
        rules: 1,
        input: payload(r#"{"n": 1.10, "big": 9007199254740993}"#),
        run: 1,
        attributes: BTreeMap::new(),
        first_created_at_ms: None,
        parent: None,
        schedule_id: None,
        scheduled_at: None,
        timeout_at_ms: None,
        traceparent: None,
        priority: None,
        fairness_key: None,
    };
    let parent = Parent { execution_id: "p".into(), created_at_ms: 5, run: 2, step: Key::from("child[0]"), attempt: 3 };
    let created_full = WorkflowCreated {
        run: 2,
        attributes: BTreeMap::from([("customer".into(), Value::from("c1")), ("total".into(), Value::from(12_i64))]),
        first_created_at_ms: Some(7),
        parent: Some(parent),
        schedule_id: Some("nightly".into()),
        scheduled_at: Some(8),
        timeout_at_ms: Some(9),
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into()),
        priority: Some(1),
        fairness_key: Some("tenant".into()),
        ..created.clone()
    };
    let unconsumed_signals = 1;
    vec![
        ("created", created.into()),
        ("created, everything", created_full.into()),
        ("started", WorkflowStarted {}.into()),
        ("cancel", CancelRequested { reason: "by hand".into(), force: false }.into()),
        ("timeout", WorkflowTimeoutReached {}.into()),
        ("paused", WorkflowPaused {}.into()),
        ("resumed", WorkflowResumed {}.into()),
        ("redriven", WorkflowRedriven { steps: vec![step()], action: RedriveAction::Retry, output: None }.into()),
        (
            "redriven, resolved",
            WorkflowRedriven { steps: vec![step()], action: RedriveAction::Resolve, output: Some(payload("null")) }
                .into(),
        ),
        ("completed", WorkflowCompleted { output: payload("[1, 2]"), unconsumed_signals }.into()),
        (
            "failed",
            WorkflowFailed { error: full_error(), compensation: Compensation::Failed, unconsumed_signals }.into(),
        ),
        ("cancelled", WorkflowCancelled { compensation: Compensation::Completed, unconsumed_signals }.into()),
        ("timed out", WorkflowTimedOut { compensation: Compensation::None, unconsumed_signals }.into()),
        ("continued", WorkflowContinuedAsNew { run: 2, input: payload("{}"), unconsumed_signals }.into()),
        (
            "signal",
            SignalReceived { signal: "approve".into(), payload: payload("{}"), dedup_id: Some("d1".into()) }.into(),
        ),
        ("signal, anonymous", SignalReceived { signal: "go".into(), payload: payload("null"), dedup_id: None }.into()),
    ]
}

fn attempt_shapes() -> Vec<(&'static str, Event)> {
    let again = StepScheduled {
        step: step(),
        attempt: 2,
        input: None,
        idempotency_key: "0123456789abcdef0123456789abcdef".into(),
        redelivery: true,
        queue: Some(queue()),
        child: None,
        signal: None,
        timeout_ms: Some(1),
        queue_timeout_ms: Some(2),
        heartbeat_timeout_ms: Some(3),
    };
    let first = StepScheduled {
        attempt: 1,
        input: Some(payload(r#"{"amount": 1.50}"#)),
        redelivery: false,
        timeout_ms: None,
        queue_timeout_ms: None,
        heartbeat_timeout_ms: None,
        ..again.clone()
    };
    let child =
        Child { id: "p.c".into(), workflow: "c".into(), version: "1.0.0".into(), hash: Some("sha256:1".into()) };
    let target = SignalTarget { execution: "other".into(), name: "go".into() };
    let dispatched = StepDispatched {
        step: step(),
        attempt: 1,
        token: "AQ".into(),
        worker_id: "w1".into(),
        worker_session: "s1".into(),
        deadline_ms: Some(10),
    };
    vec![
        ("scheduled, a task", first.clone().into()),
        ("scheduled, a child", StepScheduled { queue: None, child: Some(child), ..first.clone() }.into()),
        ("scheduled, a signal", StepScheduled { queue: None, signal: Some(target), ..first }.into()),
        ("scheduled again", again.into()),
        ("dispatched", dispatched.clone().into()),
        ("dispatched, no time-out", StepDispatched { deadline_ms: None, ..dispatched }.into()),
        ("attempt failed", StepAttemptFailed { step: step(), attempt: 1, error: full_error(), unknown: true }.into()),
        ("uncertain", StepAttemptUncertain { step: step(), attempt: 1, reason: UncertainReason::WorkerLost }.into()),
        ("retry", RetryScheduled { step: step(), next_attempt: 2, delay_ms: 1_000, fire_at_ms: 2_000 }.into()),
        ("stale", StaleResultIgnored { step: step(), token: "AQ".into(), outcome: ResultKind::Success }.into()),
    ]
}

fn step_shapes() -> Vec<(&'static str, Event)> {
    let items = vec![payload("1"), payload(r#"{"a": 2.0}"#)];
    let fan_out =
        StepFanOut { step: step(), items: items.clone(), concurrency: Some(3), max_failures: Some(1), more: true };
    let plain = TaskError::permanent("SAID_SO", "");
    vec![
        ("opened", StepOpened { step: step(), attempt: 2 }.into()),
        ("fan-out", fan_out.into()),
        (
            "fan-out, the rest",
            StepFanOut { step: step(), items, concurrency: None, max_failures: None, more: false }.into(),
        ),
        ("skipped", StepSkipped { step: step(), reason: SkipReason::When }.into()),
        ("succeeded", StepSucceeded { step: step(), attempt: 1, output: Some(payload("null")) }.into()),
        ("succeeded, a for", StepSucceeded { step: step(), attempt: 1, output: None }.into()),
        ("step failed", StepFailed { step: step(), error: plain.clone(), handled: true }.into()),
        ("suspended", StepSuspended { step: step(), error: plain.clone() }.into()),
        ("step cancelled", StepCancelled { step: step() }.into()),
        (
            "closing, well",
            StepClosing { step: step(), reason: CloseReason::Done, output: Some(payload("null")), error: None }.into(),
        ),
        (
            "closing, badly",
            StepClosing { step: Key::root(), reason: CloseReason::Failed, output: None, error: Some(plain) }.into(),
        ),
        ("timer", TimerStarted { step: Key::from("deadline:x"), fire_at_ms: 5 }.into()),
        ("fired", TimerFired { step: Key::from("grace:") }.into()),
        ("consumed", SignalConsumed { step: step(), signal_seq: 4 }.into()),
    ]
}

fn undo_shapes() -> Vec<(&'static str, Event)> {
    let failure = Failure {
        reason: CloseReason::Failed,
        code: Some("DB_DOWN".into()),
        message: Some("no answer".into()),
        details: Some(payload("{}")),
    };
    let handler = Key::from("on:event:bell@7");
    let steps = vec![step(), Key::from("a")];
    let (reason, more) = (CloseReason::Timeout, true);
    vec![
        ("undo", CompensationStarted { step: Key::root(), reason, steps: steps.clone(), more }.into()),
        ("undo, the rest", CompensationStarted { step: Key::root(), reason, steps, more: false }.into()),
        ("undo failed", CompensationFailed { step: step(), error: full_error() }.into()),
        ("undo done", CompensationCompleted { step: Key::root() }.into()),
        (
            "handler, a signal",
            HandlerStarted { step: handler.clone(), event: Some(payload("{}")), failure: None }.into(),
        ),
        (
            "handler, the end",
            HandlerStarted { step: Key::from("on:failure"), event: None, failure: Some(failure) }.into(),
        ),
        ("handler done", HandlerFinished { step: handler.clone(), result: Some(payload("null")), error: None }.into()),
        ("handler failed", HandlerFinished { step: handler, result: None, error: Some(full_error()) }.into()),
    ]
}

#[test]
fn every_event_is_as_it_was_released() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/events.jsonl");
    let mut golden: BTreeMap<String, String> = std::fs::read_to_string(&path)
        .unwrap_or_default()
        .lines()
        .map(|line| line.split_once('\t').unwrap())
        .map(|(name, json)| (name.to_owned(), json.to_owned()))
        .collect();
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let (mut names, mut types) = (BTreeSet::new(), BTreeSet::new());
    for (name, event) in shapes() {
        assert!(names.insert(name), "{name} stands twice");
        types.insert(event.name());
        let ours = Recorded { seq: 3, timestamp_ms: 1_700_000_000_000, event }.to_json();
        if update {
            golden.entry(name.to_owned()).or_insert_with(|| ours.clone());
        }
        let released = golden.get(name).unwrap_or_else(|| panic!("{name} is new: UPDATE_GOLDEN=1 writes it down"));
        assert_eq!(&ours, released, "{name}");
        assert_eq!(&Recorded::from_json(released).unwrap().to_json(), released, "{name} read and written again");
    }
    assert_eq!(types.len(), Event::TYPES.len(), "not every type has a line: {types:?}");
    assert_eq!(golden.len(), names.len(), "a released shape is not written any more");
    if update {
        let lines: String = golden.iter().map(|(name, json)| format!("{name}\t{json}\n")).collect();
        std::fs::write(&path, lines).unwrap();
    }
}

#[test]
fn what_is_no_event_is_refused_with_a_reason() {
    let unknown = Recorded::from_json(r#"{"seq":1,"timestamp_ms":1,"type":"StepSolved","step":"a"}"#).unwrap_err();
    assert_eq!(unknown.to_string(), "unknown type of event \"StepSolved\"; a newer version of Orbit may know it");
    for text in ["", "{}", "[]", r#"{"seq":1,"timestamp_ms":1,"type":"StepOpened"}"#] {
        assert!(Recorded::from_json(text).is_err(), "{text}");
    }
    let field = r#"{"seq":1,"timestamp_ms":1,"type":"StepOpened","step":"a","attempt":1,"colour":"red"}"#;
    assert!(Recorded::from_json(field).unwrap_err().to_string().contains("colour"));
}
