//! Closing: its reasons, what is written, what stops, what is waited for (L6).

use workflow::command::{Answered, Heartbeat, OfferTaken, Refusal, TimeoutDue};
use workflow::event::TaskError;

use crate::help::{Play, shows};

/// What closes the block `box`, in which `kept` has succeeded and `open` runs.
const BOX: &str = "
steps:
  - id: box
    ATTRIBUTES
    steps:
      - {id: kept, task: t.a, compensate: {task: t.undo, input: {}}}
      - {id: open, task: t.b}
      - {id: bad, after: [kept], task: t.c, retry: {max_attempts: 1}}
      - {id: later, after: [open], compute: '1'}";

#[test]
fn every_reason_closes_by_the_same_procedure() {
    let done = "done_when: \"steps.bad.status == 'succeeded'\"";
    for (reason, key, attributes, end, undone) in [
        ("done", "box", done, "StepSucceeded box", false),
        ("deadline", "box", "deadline: 1s\n    on_deadline: continue", "StepSucceeded box", false),
        ("deadline_failed", "box", "deadline: 1s", "StepFailed box DEADLINE_EXCEEDED handled=false", true),
        ("failed", "box", "cancel_grace: 1s", "StepFailed box NO handled=false", true),
        ("cancelled", "(workflow)", "cancel_grace: 1s", "WorkflowCancelled compensation=completed", true),
        ("timeout", "(workflow)", "cancel_grace: 1s", "WorkflowTimedOut compensation=completed", true),
    ] {
        let head = if reason == "timeout" { "timeout: 10s\n" } else { "" };
        let mut play = Play::start(&format!("{head}{}", BOX.trim_start().replace("ATTRIBUTES", attributes)));
        play.succeed("box.kept", "1");
        play.hand_over("box.open");
        let before = play.history.len();
        match reason {
            "done" => play.succeed("box.bad", "1"),
            "failed" => play.give_up("box.bad", "NO"),
            "cancelled" => play.cancel(false).unwrap(),
            "timeout" => {
                play.now_ms += 10_000;
                play.tell(TimeoutDue).unwrap();
            }
            _ => play.fire("deadline:box"),
        }
        if undone {
            play.succeed("compensate:box.kept", "1");
        }
        let lines = play.since(before);
        let place = |line: &str| {
            let found = lines.iter().position(|found| found == line);
            found.unwrap_or_else(|| panic!("{reason}: no {line:?} in {lines:#?}"))
        };
        assert!(place(&format!("StepClosing {key} {reason}")) < place("StepCancelled box.open"));
        let undo = lines.iter().position(|line| line == &format!("CompensationStarted {key} box.kept"));
        assert_eq!(undo.is_some(), undone, "{reason}: {lines:#?}");
        assert!(undo.is_none_or(|undo| place("StepCancelled box.open") < undo));
        assert!(undo.unwrap_or_default() < place(end));
        assert!(!lines.iter().any(|line| line.contains("later")), "{reason}: below it nothing starts");
    }
}

#[test]
fn a_closing_carries_its_reason_and_what_comes_of_it() {
    let mut play = Play::start("steps: [{id: box, done_when: 'true', steps: [{id: a, task: t.a}], result: 7}]");
    let closing = play.last_of("StepClosing");
    assert_eq!((&closing["step"], &closing["reason"], &closing["output"]), (&"box".into(), &"done".into(), &7.into()));
    assert!(closing.get("error").is_none());
    assert_eq!(play.output(), "null");

    play = Play::start("steps: [{id: a, fail: {code: NO, message: never}}]");
    let closing = play.last_of("StepClosing");
    assert_eq!((&closing["step"], &closing["reason"]), (&"".into(), &"failed".into()));
    assert_eq!((&closing["error"]["code"], &closing["error"]["message"]), (&"NO".into(), &"never".into()));
    assert!(closing.get("output").is_none());
}

#[test]
fn an_ordinary_end_writes_no_closing_every_other_does() {
    let undo = "compensate: {task: t.undo, input: {}}";
    for (closed, steps) in [
        ("", "steps: [{id: box, steps: [{id: a, task: t.a, compensate: {task: t.undo, input: {}}}]}]".to_owned()),
        ("", "steps: [{id: box, retry: {max_attempts: 2}, steps: [{id: a, task: t.a}]}]".to_owned()),
        (
            "box done",
            format!(
                "steps: [{{id: box, steps: [{{id: a, task: t.a, {}}}]}}]",
                undo.replace(
                    "{}",
                    "{},
        always: true"
                )
            ),
        ),
        ("(workflow) done", format!("steps: [{{id: a, task: t.a, {}}}]", undo.replace("{}", "{}, always: true"))),
        ("(workflow) done", "steps: [{id: a, task: t.a}]\nhandlers: {exit: [{id: e, compute: '1'}]}".to_owned()),
        (
            "box done",
            "steps: [{id: box, done_when: 'false || steps.a.status == \"succeeded\"', steps: [{id: a,
        task: t.a}, {id: b, after: [a], task: t.b}]}]"
                .to_owned(),
        ),
    ] {
        let excludes = if closed.is_empty() { "excludes: [StepClosing]" } else { "excludes: []" };
        let includes = if closed.is_empty() { String::new() } else { format!("StepClosing {closed}") };
        shows(
            &steps,
            &format!(
                "expect: {{status: completed, {excludes},
        includes: ['{includes}']}}"
            )
            .replace("['']", "[]"),
        );
    }
}

#[test]
fn what_waits_is_scheduled_retries_or_runs_without_an_undo_is_cancelled_at_once() {
    let steps = "
steps:
  - {id: scheduled, task: t.a, compensate: {task: t.undo, input: {}}}
  - {id: waiting, sleep: 1h}
  - {id: retrying, task: t.b, compensate: {task: t.undo, input: {}}}
  - {id: running, task: t.c}";
    let mut play = Play::start(steps);
    let token = play.hand_over("retrying");
    play.fail_for_now(&token, "NO");
    let token = play.hand_over("running");
    let told = |play: &mut Play| play.tell(Heartbeat { token: &token, details: None }).unwrap().cancel;
    assert!(!told(&mut play));
    let before = play.history.len();
    play.cancel(false).unwrap();
    assert_eq!(
        play.since(before),
        [
            "CancelRequested",
            "StepClosing (workflow) cancelled",
            "StepCancelled scheduled",
            "StepCancelled waiting",
            "StepCancelled retrying",
            "StepCancelled running",
            "WorkflowCancelled compensation=none"
        ]
    );
    assert!(told(&mut play), "its worker is told");
}

#[test]
fn a_worker_is_told_to_stop_while_its_task_is_waited_for() {
    let mut play = Play::start("steps: [{id: a, task: t.a, compensate: {task: t.undo, input: {}}}]");
    let token = play.hand_over("a");
    play.cancel(false).unwrap();
    let answer = play.tell(Heartbeat { token: &token, details: None }).unwrap();
    assert!(answer.accepted && answer.cancel);
}

#[test]
fn below_a_closing_nothing_starts_while_it_waits() {
    let steps = "
steps:
  - {id: a, task: t.a, compensate: {task: t.undo, input: {}}}
  - {id: next, after: [a], task: t.b}
  - {id: many, for: {each: '[1, 2]', concurrency: 1}, task: t.c, compensate: {task: t.undo, input: {}}}
  - {id: queued, task: t.b}";
    let mut play = Play::start(steps);
    let (a, first) = (play.hand_over("a"), play.hand_over("many[0]"));
    play.cancel(false).unwrap();
    let taken = OfferTaken { unit: "queued", worker_id: "w", worker_session: "s", nonce: [1; 8] };
    assert_eq!(play.tell(taken), Err(Refusal::NotReady));
    play.complete(&a, "1");
    play.complete(&first, "1");
    let lines = play.lines();
    let started = |unit: &str| lines.iter().any(|line| line.starts_with(&format!("StepScheduled {unit}")));
    assert!(!started("next") && !started("many[1]"), "{lines:#?}");
    assert!(started("compensate:many[0]"), "{lines:#?}");
}

#[test]
fn a_child_is_in_flight_from_its_step_scheduled_and_waited_for_without_an_undo() {
    let steps = "workflows: {kid: {version: 1.0.0}}\nsteps: [{id: a, workflow: {name: kid}}]";
    let steps = format!("{steps}\n---\nname: kid\nversion: 1.0.0\nsteps: [{{id: nap, sleep: 1h}}]");
    let mut play = Play::start(&steps);
    assert_eq!(play.since(2), ["StepScheduled a attempt=1"]);
    play.cancel(false).unwrap();
    assert_eq!(play.since(3), ["CancelRequested", "StepClosing (workflow) cancelled"]);
    let gone = Err(TaskError::permanent("CHILD_CANCELLED", ""));
    play.tell(Answered { unit: "a", attempt: 1, result: gone }).unwrap();
    assert_eq!(
        play.since(5),
        ["StepAttemptFailed a CHILD_CANCELLED", "StepCancelled a", "WorkflowCancelled compensation=none"]
    );
}

const SIGNAL: &str = "steps: [{id: a, signal: {execution: other, name: go}UNDO}]";

#[test]
fn a_signal_in_flight_is_waited_for_up_to_the_grace_only_if_it_has_an_undo() {
    let mut play = Play::start(&SIGNAL.replace("UNDO", ""));
    play.cancel(false).unwrap();
    assert_eq!(play.since(5), ["StepCancelled a", "WorkflowCancelled compensation=none"]);

    play = Play::start(&SIGNAL.replace("UNDO", ", compensate: {task: t.undo, input: {}}"));
    assert_eq!(play.since(2), ["StepScheduled a attempt=1"]);
    play.cancel(false).unwrap();
    assert_eq!(play.since(5), ["TimerStarted grace:"]);
    play.fire("grace:");
    assert_eq!(
        play.since(6),
        [
            "TimerFired grace:",
            "StepAttemptUncertain a stopped",
            "StepCancelled a",
            "CompensationStarted (workflow) a",
            "StepScheduled compensate:a attempt=1"
        ]
    );
}

#[test]
fn a_worker_that_fails_the_task_or_forgets_it_ends_the_wait_at_once() {
    for lost in [false, true] {
        let mut play = Play::start("steps: [{id: a, task: t.a, compensate: {task: t.undo, input: {}}}]");
        let token = play.hand_over("a");
        play.cancel(false).unwrap();
        let before = play.history.len();
        if lost {
            play.lose(&token);
            assert_eq!(
                play.since(before)[..3],
                ["StepAttemptUncertain a worker_lost", "StepCancelled a", "CompensationStarted (workflow) a"]
            );
        } else {
            play.fail(&token, "STOPPED");
            assert_eq!(
                play.since(before),
                ["StepAttemptFailed a STOPPED", "StepCancelled a", "WorkflowCancelled compensation=none"]
            );
        }
    }
}

#[test]
fn a_step_ends_after_its_undo_and_the_root_after_its_handlers() {
    let steps = "
steps:
  - id: box
    steps: [{id: a, task: t.a, compensate: {task: t.undo, input: {}}}, {id: bad, after: [a], fail: {code: NO}}]
handlers: {failure: [{id: f, compute: '1'}], exit: [{id: e, compute: '1'}]}";
    let story = shows(steps, "expect: {status: failed, error: NO}");
    assert_eq!(
        story.part("CompensationCompleted box", "WorkflowFailed NO compensation=completed"),
        [
            "CompensationCompleted box",
            "StepFailed box NO handled=false",
            "StepClosing (workflow) failed",
            "HandlerStarted on:failure",
            "StepSucceeded on:failure.f",
            "HandlerFinished on:failure",
            "HandlerStarted on:exit",
            "StepSucceeded on:exit.e",
            "HandlerFinished on:exit",
            "WorkflowFailed NO compensation=completed"
        ]
    );
    shows(
        "steps: [{id: box, done_when: 'true', steps: [{id: a, task: t.a}]}]",
        "expect: {status: completed,
        includes: [StepClosing box done, StepSucceeded box, WorkflowCompleted]}",
    );
}

#[test]
fn the_root_closes_as_continued() {
    let steps = "steps: [{id: again, when: 'input.n == null', continue_as_new: {input: {n: 1}}}]";
    let case = "expect: {status: completed, runs: 2, includes: [StepClosing (workflow) continued,
        WorkflowContinuedAsNew run=2, WorkflowCreated run=2, WorkflowCompleted]}";
    shows(steps, case);
}
