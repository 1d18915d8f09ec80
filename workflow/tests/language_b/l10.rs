//! Runs, cancel, time-out, pause, redrive (L10).

use workflow::command::{Heartbeat, OfferTaken, Pause, Refusal, Resume, Run, Start, TimeoutDue, TimerDue};
use workflow::event::{Parent, RedriveAction};
use workflow::key::Key;
use workflow::state::Execution;

use crate::help::{Play, json, shows};

#[test]
fn continue_as_new_closes_the_root_like_done_when_and_carries_the_next_input() {
    let steps = "
input: {type: object, properties: {n: {default: 1}}}
steps:
  - {id: lock, task: t.a, compensate: {task: t.undo, input: {n: '${input.n}'}, always: true}}
  - {id: open, after: [lock], when: 'input.n == 1', sleep: 1h}
  - {id: again, after: [lock], when: 'input.n == 1', continue_as_new: {input: {n: '${input.n + 1}'}}}
handlers: {exit: [{id: e, task: t.note}]}";
    let case = "expect: {status: completed, runs: 2, inputs: {t.undo: [{n: 1}, {n: 2}]}, calls: {t.note: 1},
        includes: [StepClosing (workflow) continued, StepCancelled open, CompensationStarted (workflow) lock,
        CompensationCompleted (workflow), WorkflowContinuedAsNew run=2, WorkflowCreated run=2, WorkflowStarted,
        'HandlerStarted on:exit', WorkflowCompleted],
        excludes: [StepSucceeded again, StepOpened again]}";
    shows(steps, case);
    let mut play = Play::start(steps);
    play.succeed("lock", "1");
    let closing = play.last_of("StepClosing");
    assert_eq!((&closing["reason"], &closing["output"]), (&"continued".into(), &serde_json::json!({"n": 2})));
}

#[test]
fn a_cancel_and_the_time_out_of_the_run_close_the_root_whatever_is_open() {
    let steps =
        "timeout: 1h\nsteps: [{id: box, steps: [{id: nap, sleep: 9h}, {id: each, for: {each: '[1]'}, task: t.a}]}]";
    for cancel in [true, false] {
        let mut play = Play::start(steps);
        let before = play.history.len();
        if cancel {
            play.cancel(false).unwrap();
        } else {
            assert_eq!(play.tell(TimeoutDue), Err(Refusal::NotDue));
            play.now_ms += 3_600_000;
            play.tell(TimeoutDue).unwrap();
        }
        let (told, reason, end) = if cancel {
            ("CancelRequested", "cancelled", "WorkflowCancelled")
        } else {
            ("WorkflowTimeoutReached", "timeout", "WorkflowTimedOut")
        };
        assert_eq!(
            play.since(before),
            [
                told,
                &format!("StepClosing (workflow) {reason}"),
                "StepCancelled box.nap",
                "StepCancelled box.each[0]",
                "StepCancelled box",
                "StepCancelled box.each",
                &format!("{end} compensation=none")
            ]
        );
    }
}

#[test]
fn a_cancel_is_idempotent_and_refused_after_any_other_end() {
    let mut play =
        Play::start("steps: [{id: a, task: t.a, compensate: {task: t.undo, input: {}}}, {id: nap, sleep: 1h}]");
    play.succeed("a", "1");
    play.cancel(false).unwrap();
    let events = play.history.len();
    play.cancel(false).unwrap();
    assert_eq!(play.history.len(), events, "closing: nothing more");
    play.succeed("compensate:a", "1");
    let events = play.history.len();
    play.cancel(false).unwrap();
    assert_eq!(play.history.len(), events, "cancelled: nothing more");
    let mut play = Play::start("steps: [{id: a, compute: '1'}]");
    assert_eq!(play.cancel(false), Err(Refusal::Finished));
}

#[test]
fn the_time_out_of_the_run_ends_with_the_first_closing_of_the_root() {
    let steps = "timeout: 1h\nsteps: [{id: a, task: t.a, compensate: {task: t.undo, input: {}}}, {id: nap, sleep: 9h}]";
    let mut play = Play::start(steps);
    play.succeed("a", "1");
    play.cancel(false).unwrap();
    play.now_ms += 3_600_000;
    assert_eq!(play.tell(TimeoutDue), Err(Refusal::NotDue), "the undo may take as long as it needs");
}

#[test]
fn paused_results_and_signals_are_taken_and_nothing_is_decided_or_handed_over() {
    let steps = "
signals: {s: {type: object}}
steps:
  - {id: a, task: t.a}
  - {id: b, after: [a], task: t.b}
  - {id: ready, task: t.c}
  - {id: nap, sleep: 1s}
  - {id: wait, await: {signal: s}}";
    let mut play = Play::start(steps);
    let token = play.hand_over("a");
    play.tell(Pause).unwrap();
    let paused = play.history.len();
    assert!(play.complete(&token, "1").accepted);
    play.signal("s", "{}").unwrap();
    play.now_ms += 5_000;
    assert_eq!(play.tell(TimerDue { timer: "nap" }), Err(Refusal::NotDue));
    let offer = OfferTaken { unit: "ready", worker_id: "w", worker_session: "s", nonce: [1; 8] };
    assert_eq!(play.tell(offer), Err(Refusal::NotReady));
    assert_eq!(play.since(paused), ["StepSucceeded a", "SignalReceived s"]);
    let resumed = play.history.len();
    play.tell(Resume).unwrap();
    play.fire("nap");
    let lines = play.since(resumed);
    assert_eq!(lines[0], "WorkflowResumed");
    for line in ["StepScheduled b attempt=1", "StepSucceeded wait", "TimerFired nap", "StepSucceeded nap"] {
        assert!(lines.iter().any(|found| found == line), "{line} in {lines:#?}");
    }
}

#[test]
fn a_cancel_resumes_also_when_the_root_is_closing() {
    let steps = "steps: [{id: a, task: t.a, compensate: {task: t.undo, input: {}}}, {id: b, after: [a], task: t.b}]";
    let mut play = Play::start(steps);
    play.succeed("a", "1");
    play.tell(Pause).unwrap();
    let before = play.history.len();
    play.cancel(false).unwrap();
    assert_eq!(play.since(before)[..3], ["CancelRequested", "WorkflowResumed", "StepClosing (workflow) cancelled"]);
    play.tell(Pause).unwrap();
    let before = play.history.len();
    play.cancel(false).unwrap();
    assert_eq!(play.since(before), ["WorkflowResumed"]);
}

const FAILED: &str = "
steps:
  - {id: good, task: t.a}
  - {id: handled, task: t.b, on_failure: continue}
  - id: box
    after: [good, handled]
    steps: [{id: bad, task: t.c}, {id: nap, sleep: 1h}]";

fn failed() -> Play {
    let mut play = Play::start(FAILED);
    play.succeed("good", "1");
    play.give_up("handled", "FINE");
    play.give_up("box.bad", "NO");
    assert_eq!(play.lines().last().unwrap(), "WorkflowFailed NO compensation=none");
    play
}

#[test]
fn a_redrive_goes_on_from_what_failed_or_was_cancelled_with_the_same_keys() {
    let mut play = failed();
    let key = play.run.state().unit("box.bad").unwrap().idempotency_key.clone();
    let before = play.history.len();
    play.redrive(&[], RedriveAction::Retry, None).unwrap();
    let lines = play.since(before);
    assert!(
        lines[0].starts_with("WorkflowRedriven retry ") && !lines[0].contains("good") && !lines[0].contains("handled")
    );
    for listed in ["box", "box.bad", "box.nap"] {
        assert!(lines[0].split(' ').any(|key| key == listed), "{listed}: {}", lines[0]);
    }
    assert!(lines.contains(&"StepScheduled box.bad attempt=2".to_owned()), "{lines:#?}");
    assert_eq!(play.run.state().unit("box.bad").unwrap().idempotency_key, key);
    for attempt in 3..=4 {
        let token = play.hand_over("box.bad");
        play.fail_for_now(&token, "NO");
        assert_eq!(play.lines().last().unwrap(), &format!("RetryScheduled box.bad next={attempt}"), "a fresh budget");
        play.fire("box.bad");
    }
    play.succeed("box.bad", "1");
    play.fire("box.nap");
    assert_eq!(play.lines().last().unwrap(), "WorkflowCompleted");
}

#[test]
fn a_redrive_starts_the_time_out_and_deadlines_over_and_the_next_end_has_handlers_of_its_own() {
    let steps = "
timeout: 1h
steps: [{id: box, deadline: 10m, steps: [{id: a, task: t.a, retry: {max_attempts: 1}}]}]
handlers: {failure: [{id: f, compute: '1'}]}";
    let mut play = Play::start(steps);
    play.give_up("box.a", "NO");
    play.now_ms += 7_200_000;
    play.redrive(&[], RedriveAction::Retry, None).unwrap();
    assert_eq!(play.run.state().head.timeout_at_ms, Some(play.now_ms + 3_600_000));
    assert_eq!(play.last_of("TimerStarted")["fire_at_ms"], play.now_ms + 600_000);
    play.give_up("box.a", "NO");
    assert!(play.lines().contains(&"StepSucceeded on:failure~2.f".to_owned()), "{:#?}", play.lines());
}

#[test]
fn a_redriven_block_with_retry_opens_a_new_attempt() {
    let steps = "steps: [{id: box, retry: {max_attempts: 1}, steps: [{id: a, task: t.a, retry: {max_attempts: 1}}]}]";
    for on_failure in ["fail", "suspend"] {
        let mut play = Play::start(&steps.replace(
            "retry: {max_attempts: 1}, steps",
            &format!("on_failure: {on_failure}, retry: {{max_attempts: 1}}, steps"),
        ));
        play.give_up("box~1.a", "NO");
        let before = play.history.len();
        play.redrive(&[], RedriveAction::Retry, None).unwrap();
        let lines = play.since(before);
        assert_eq!(lines[1..], ["StepOpened box attempt=2", "StepScheduled box~2.a attempt=1"], "{on_failure}");
    }
}

#[test]
fn what_cannot_be_redriven_is_refused_with_not_redrivable() {
    let undone =
        "steps: [{id: a, task: t.a, compensate: {task: t.undo, input: {}}}, {id: b, after: [a], fail: {code: NO}}]";
    let mut play = Play::start(undone);
    play.succeed("a", "1");
    play.succeed("compensate:a", "1");
    let refused = |play: &mut Play, steps: &[&str]| play.redrive(steps, RedriveAction::Retry, None).unwrap_err().code();
    assert_eq!(refused(&mut play, &[]), "NOT_REDRIVABLE", "something has been undone");
    assert_eq!(refused(&mut failed(), &["good"]), "NOT_REDRIVABLE", "it succeeded");
    assert_eq!(refused(&mut failed(), &["no.such"]), "NOT_REDRIVABLE");
    let mut running = Play::start("steps: [{id: a, task: t.a}]");
    assert_eq!(refused(&mut running, &[]), "NOT_REDRIVABLE", "nothing is suspended");
    let mut over = Play::start("steps: [{id: a, compute: '1'}]");
    assert_eq!(refused(&mut over, &[]), "NOT_REDRIVABLE", "it completed");
}

/// Without steps a failed execution was tried again whatever the action was, and its output dropped: what an operator
/// had done by hand was handed to a worker once more.
#[test]
fn what_is_over_is_resolved_by_the_names_of_its_steps_alone() {
    for action in [RedriveAction::Resolve, RedriveAction::Fail] {
        let mut play = failed();
        let before = play.history.len();
        let output = (action == RedriveAction::Resolve).then_some("1");
        assert_eq!(play.redrive(&[], action, output).unwrap_err().code(), "NOT_REDRIVABLE");
        assert_eq!(play.since(before), [""; 0]);
    }
    let mut play = failed();
    assert_eq!(play.redrive(&["box.bad"], RedriveAction::Fail, None).unwrap_err().code(), "NOT_REDRIVABLE");
    let before = play.history.len();
    play.redrive(&["box.bad"], RedriveAction::Resolve, Some("1")).unwrap();
    assert!(play.since(before).contains(&"StepSucceeded box.bad".to_owned()), "{:#?}", play.since(before));
}

/// Redrives `key` of an execution that failed with an output by hand; what follows.
fn by_hand(document: &str, key: &str) -> Vec<String> {
    let mut play = Play::start(&format!("input: {{type: object}}\n{document}"));
    assert!(play.lines().last().unwrap().starts_with("WorkflowFailed"), "{:#?}", play.lines());
    let before = play.history.len();
    play.redrive(&[key], RedriveAction::Resolve, Some("7")).unwrap();
    play.since(before)
}

/// What fails without a worker often fails before it began, and leaves no unit when it is taken back: nobody could help
/// such an execution by hand.
#[test]
fn what_no_worker_carries_out_is_resolved_by_hand_too() {
    let sum = by_hand("steps: [{id: sum, compute: '1 / 0'}]\nresult: '${steps.sum.output}'", "sum");
    let expected =
        ["WorkflowRedriven retry sum", "WorkflowRedriven resolve sum", "StepSucceeded sum", "WorkflowCompleted"];
    assert_eq!(sum, expected);
    let unsure = by_hand("steps: [{id: a, when: '1 / 0 == 1', task: t.a}]", "a");
    assert_eq!(unsure[2..], ["StepSucceeded a", "WorkflowCompleted"], "its condition is asked no more");
    let one = by_hand("steps: [{id: x, for: {each: '[0]'}, task: t.a, input: {n: '${1 / item}'}}]", "x[0]");
    assert_eq!(one[2..], ["StepSucceeded x[0]", "StepSucceeded x", "WorkflowCompleted"]);
    let turn = by_hand("steps: [{id: x, repeat: {until: 'output == 7'}, task: t.a, input: {n: '${1 / 0}'}}]", "x#1");
    assert_eq!(turn[2..], ["StepSucceeded x#1", "StepSucceeded x", "WorkflowCompleted"]);
}

/// What lies within it stays as it ended, even if it is named as well.
#[test]
fn a_block_is_resolved_by_hand_as_a_whole() {
    let document = "
steps:
  - id: box
    steps: [{id: bad, compute: '1 / 0'}, {id: nap, sleep: 1h}]
    result: '${steps.bad.output}'
  - {id: after, after: [box], compute: 'steps.box.output'}
result: '${steps.after.output}'";
    let all = by_hand(document, "box");
    let expected = ["WorkflowRedriven retry box", "WorkflowRedriven resolve box", "StepSucceeded box"];
    assert_eq!(all[..3], expected);
    assert_eq!(all[3..], ["StepSucceeded after", "WorkflowCompleted"]);
    let mut play = Play::start(&format!("input: {{type: object}}\n{document}"));
    let before = play.history.len();
    play.redrive(&["box.bad", "box"], RedriveAction::Resolve, Some("7")).unwrap();
    assert_eq!(play.since(before), all);
}

#[test]
fn single_elements_and_iterations_are_moved_by_key() {
    for (around, unit) in [("for: {each: '[1, 2]'}", "x[1]"), ("repeat: {until: 'true'}", "x#1")] {
        let mut play = Play::start(&format!("steps: [{{id: x, {around}, task: t.a, on_failure: suspend}}]"));
        if unit == "x[1]" {
            play.give_up("x[0]", "NO");
        }
        play.give_up(unit, "NO");
        let before = play.history.len();
        play.redrive(&[unit], RedriveAction::Retry, None).unwrap();
        let expected = [format!("WorkflowRedriven retry {unit}"), format!("StepScheduled {unit} attempt=2")];
        assert_eq!(play.since(before), expected);
    }
}

/// A run that is a child and was begun by a schedule, with an undo, a time-out, and a signal that nobody took.
fn continued() -> Play {
    let steps = "
timeout: 1h
signals: {go: {}, left: {}}
steps:
  - {id: a, task: t.a, compensate: {task: t.undo, input: {}, always: true}}
  - {id: wait, await: {signal: go}}
  - {id: again, after: [a, wait], continue_as_new: {input: {n: 2}}}";
    let parent = Parent { execution_id: "p".into(), created_at_ms: 5, run: 3, step: Key::from("kid"), attempt: 2 };
    let schedule = Some(("nightly".into(), 7));
    let start = Start { parent: Some(parent), schedule, ..Start::with_input(json("{}")) };
    let mut play = Play::begin(steps, start);
    let token = play.hand_over("a");
    play.tell(Heartbeat { token: &token, details: Some(json("{\"at\": 1}")) }).unwrap();
    assert!(play.complete(&token, "1").accepted);
    play.now_ms += 600_000;
    play.signal("left", "7").unwrap();
    play.signal("go", "null").unwrap();
    play.succeed("compensate:a", "null");
    assert_eq!(play.lines().last().unwrap(), "WorkflowContinuedAsNew run=2");
    play
}

#[test]
fn links_move_on_to_the_next_run_the_undo_list_does_not_and_the_time_out_starts_over() {
    let before = continued();
    let mut next = Run::new(before.run.definition().clone(), "x");
    next.handle(before.now_ms, Start::next_run(before.run.state())).unwrap();
    let (old, new) = (&before.run.state().head, &next.state().head);
    assert_eq!((new.run, new.input.as_ref().map(|input| input.as_str())), (2, Some("{\"n\":2}")));
    assert_eq!((&new.parent, &new.schedule_id, new.scheduled_at_ms), (&old.parent, &old.schedule_id, Some(7)));
    assert!(new.parent.is_some() && new.schedule_id.is_some());
    assert!(!before.run.state().undo_lists.is_empty() && next.state().undo_lists.is_empty());
    assert_eq!(new.undo_total, 0);
    assert_eq!((old.timeout_at_ms, new.timeout_at_ms), (Some(1_000 + 3_600_000), Some(601_000 + 3_600_000)));
    assert_eq!(new.first_created_at_ms, 1_000);
}

#[test]
fn what_moves_on_is_in_events_and_nothing_else() {
    let before = continued();
    let mut next = Run::new(before.run.definition().clone(), "x");
    let (_, batch) = next.handle(before.now_ms, Start::next_run(before.run.state())).unwrap();
    // Built again from the events alone, with no row beside them, the last run begins the same next one.
    let mut again = Run::new(before.run.definition().clone(), "x");
    let told = again.handle(before.now_ms, Start::next_run(&Execution::fold(&before.history))).unwrap().1;
    assert_eq!(told, batch);
    assert_eq!(next.state(), &Execution::fold(&batch.events));
    assert!(next.results().is_empty() && next.last_heartbeat("a").is_none());
    let lines: Vec<_> = batch.events.iter().map(|recorded| recorded.event.to_string()).collect();
    assert_eq!(lines[..3], ["WorkflowCreated run=2", "SignalReceived left", "WorkflowStarted"]);
}
