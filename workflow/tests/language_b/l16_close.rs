//! Fine print of closing: force, grace, side by side, timers, time-outs (L16).

use workflow::command::{OfferTaken, Pause, Refusal, Resume};
use workflow::event::RedriveAction;

use crate::help::{Play, shows};

const UNDOABLE: &str =
    "steps: [{id: a, task: t.a, compensate: {task: t.undo, input: {}}}, {id: b, after: [a], task: t.b}]";

#[test]
fn a_force_ends_at_once_whatever_is_closing_or_paused() {
    for (closing, paused) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut play = Play::start(UNDOABLE);
        play.succeed("a", "1");
        if closing {
            play.cancel(false).unwrap();
        }
        if paused {
            play.tell(Pause).unwrap();
        }
        let before = play.history.len();
        play.cancel(true).unwrap();
        let compensation = if closing { "failed" } else { "none" };
        let end = format!("WorkflowCancelled compensation={compensation}");
        play.tell(Resume).unwrap();
        assert_eq!(play.since(before), ["CancelRequested force", end.as_str()], "closing: {closing}, paused: {paused}");
    }
}

#[test]
fn an_undo_that_a_force_left_unfinished_makes_the_compensation_failed() {
    let mut play = Play::start(UNDOABLE);
    play.succeed("a", "1");
    play.give_up("b", "NO");
    play.hand_over("compensate:a");
    play.cancel(true).unwrap();
    assert_eq!(play.lines().last().unwrap(), "WorkflowCancelled compensation=failed");
}

#[test]
fn the_grace_is_that_of_what_closes_else_of_the_nearest_around_it_else_30_s() {
    for (root, outer, inner, ms) in
        [("", "", "", 30_000), ("1s", "", "", 1_000), ("1s", "2s", "", 2_000), ("1s", "2s", "3s", 3_000)]
    {
        let grace = |text: &str| if text.is_empty() { String::new() } else { format!("cancel_grace: {text}, ") };
        let head = if root.is_empty() { String::new() } else { format!("cancel_grace: {root}\n") };
        let steps = format!(
            "{head}steps: [{{id: outer, {}steps: [{{id: inner, {}deadline: 1m, steps: [{{id: a, task: t.a, \
             compensate: {{task: t.undo, input: {{}}}}}}]}}]}}]",
            grace(outer),
            grace(inner)
        );
        let mut play = Play::start(&steps);
        play.hand_over("outer.inner.a");
        play.fire("deadline:outer.inner");
        let timer = play.last_of("TimerStarted");
        assert_eq!(timer["step"], "grace:outer.inner");
        assert_eq!(timer["fire_at_ms"], play.now_ms + ms, "{steps}");
    }
}

#[test]
fn the_first_grace_that_fires_around_a_unit_ends_its_wait() {
    let steps = "
cancel_grace: 1s
steps:
  - {id: box, cancel_grace: 1h, deadline: 1m, steps: [{id: a, task: t.a, compensate: {task: t.undo, input: {}}}]}";
    let mut play = Play::start(steps);
    play.hand_over("box.a");
    play.fire("deadline:box");
    play.cancel(false).unwrap();
    let before = play.history.len();
    play.fire("grace:");
    assert_eq!(
        play.since(before)[..3],
        ["TimerFired grace:", "StepAttemptUncertain box.a stopped", "StepCancelled box.a"]
    );
}

#[test]
fn elements_of_the_outermost_for_are_undone_side_by_side_each_by_itself_one_by_one() {
    let steps = "
steps:
  - id: x
    for: {each: '[0, 1, 2]'}
    steps:
      - {id: first, task: t.a, compensate: {task: t.undo, input: {}}}
      - {id: inner, after: [first], for: {each: '[0, 1]'}, task: t.b, compensate: {task: t.undo, input: {}}}
  - {id: bad, after: [x], fail: {code: NO}}";
    let story = shows(steps, "mocks: {t.undo: {after: 10s}}, expect: {status: failed, calls: {t.undo: 9}}");
    let at = |unit: &str| story.at(&format!("StepScheduled compensate:{unit} attempt=1"));
    let t = at("x[2].inner[1]");
    for n in 0..3 {
        let element = ["inner[1]", "inner[0]", "first"].map(|unit| at(&format!("x[{n}].{unit}")));
        assert_eq!(element, [t, t + 10_000, t + 20_000], "x[{n}]");
    }
}

#[test]
fn an_undo_waits_for_all_before_it_but_other_elements_of_its_for() {
    let steps = "
steps:
  - {id: one, task: t.b, compensate: {task: t.undo2, input: {}}}
  - {id: x, after: [one], for: {each: '[0, 1]'}, task: t.a, compensate: {task: t.undo, input: {}}}
  - {id: two, after: [x], task: t.b, compensate: {task: t.undo2, input: {}}}
  - {id: bad, after: [two], fail: {code: NO}}";
    let mut play = Play::start(steps);
    for unit in ["one", "x[0]", "x[1]", "two"] {
        play.succeed(unit, "1");
    }
    assert_eq!(play.lines().last().unwrap(), "StepScheduled compensate:two attempt=1", "neither of x");
    play.succeed("compensate:two", "1");
    let both = ["StepScheduled compensate:x[1] attempt=1", "StepScheduled compensate:x[0] attempt=1"];
    assert_eq!(play.lines()[play.history.len() - 2..], both);
    play.succeed("compensate:x[0]", "1");
    assert_eq!(play.lines().last().unwrap(), "StepSucceeded compensate:x[0]", "`one` waits for both");
    play.succeed("compensate:x[1]", "1");
    assert_eq!(play.lines().last().unwrap(), "StepScheduled compensate:one attempt=1");
}

fn running(play: &Play) -> Vec<String> {
    let timers = play.run.state().timers.iter();
    let mut names: Vec<_> =
        timers.filter(|(_, timer)| timer.fire_at_ms.is_some()).map(|(name, _)| name.to_string()).collect();
    names.sort();
    names
}

#[test]
fn a_timer_is_gone_when_it_fires_its_step_is_resolved_its_unit_is_scheduled_and_at_the_end() {
    let steps = "
steps:
  - {id: nap, sleep: 1s}
  - {id: a, task: t.a, deadline: 1h, retry: {initial_delay: 1m}, compensate: {task: t.undo, input: {}}}
  - {id: long, sleep: 2h}
  - {id: bad, task: t.b}";
    let mut play = Play::start(steps);
    assert_eq!(running(&play), ["deadline:a", "long", "nap"]);
    play.fire("nap");
    assert_eq!(running(&play), ["deadline:a", "long"], "fired");
    let token = play.hand_over("a");
    play.fail_for_now(&token, "NO");
    assert_eq!(running(&play), ["a", "deadline:a", "long"]);
    play.fire("a");
    assert_eq!(running(&play), ["deadline:a", "long"], "scheduled again");
    play.succeed("a", "1");
    assert_eq!(running(&play), ["long"], "resolved");
    play.give_up("bad", "NO");
    play.succeed("compensate:a", "1");
    assert!(play.run.state().is_over());
    assert!(running(&play).is_empty(), "the end");

    // A success with an older token, while the unit waits for its retry.
    let mut play = Play::start(steps);
    let token = play.hand_over("a");
    play.lose(&token);
    let second = play.hand_over("a");
    play.fail_for_now(&second, "NO");
    play.complete(&token, "1");
    assert_eq!(running(&play), ["long", "nap"]);
}

#[test]
fn what_itself_closes_leaves_the_queue_and_its_timers_at_its_closing() {
    let steps = "steps: [{id: a, task: t.a, deadline: 1s, retry: {initial_delay: 1h}, on_failure: suspend,
        compensate: {task: t.undo, input: {}}}]";
    let mut play = Play::start(steps);
    play.fire("deadline:a");
    let offer = OfferTaken { unit: "a", worker_id: "w", worker_session: "s", nonce: [1; 8] };
    assert_eq!(play.tell(offer), Err(Refusal::NotReady));
    let mut play = Play::start(steps);
    let token = play.hand_over("a");
    play.fail_for_now(&token, "NO");
    play.fire("deadline:a");
    assert!(running(&play).is_empty(), "the retry is off: {:#?}", play.lines());
}

#[test]
fn a_due_retry_writes_timer_fired_then_starts_again() {
    let mut play = Play::start("steps: [{id: a, task: t.a}]");
    let token = play.hand_over("a");
    play.fail_for_now(&token, "NO");
    let before = play.history.len();
    play.fire("a");
    assert_eq!(play.since(before), ["TimerFired a", "StepScheduled a attempt=2"]);
    let steps = "steps: [{id: box, retry: {max_attempts: 2}, steps: [{id: a, task: t.a}]}]";
    let mut play = Play::start(steps);
    play.give_up("box~1.a", "NO");
    let before = play.history.len();
    play.fire("box");
    assert_eq!(play.since(before)[..2], ["TimerFired box", "StepOpened box attempt=2"]);
}

#[test]
fn a_suspended_undo_keeps_its_closing_and_a_cancel_open_until_redrive_or_force() {
    let steps = "
steps:
  - id: box
    on_failure: continue
    steps:
      - {id: a, task: t.a, compensate: {task: t.undo, input: {}, retry: {max_attempts: 1}, on_failure: suspend}}
      - {id: bad, after: [a], fail: {code: NO}}";
    for force in [true, false] {
        let mut play = Play::start(steps);
        play.succeed("box.a", "1");
        play.give_up("compensate:box.a", "LOCKED");
        assert_eq!(play.lines().last().unwrap(), "StepSuspended compensate:box.a LOCKED");
        play.cancel(false).unwrap();
        assert_eq!(play.lines().last().unwrap(), "StepClosing (workflow) cancelled", "the cancel waits");
        if force {
            play.cancel(true).unwrap();
            assert_eq!(play.lines().last().unwrap(), "WorkflowCancelled compensation=failed");
        } else {
            play.redrive(&[], RedriveAction::Resolve, None).unwrap();
            assert_eq!(play.lines().last().unwrap(), "WorkflowCancelled compensation=completed");
        }
    }
}

#[test]
fn the_queue_time_out_counts_from_what_queued_it_and_the_time_out_from_each_hand_over() {
    // Twice 4 s in the queue, and 3 s with a worker that is lost: neither time-out passes.
    let steps = "steps: [{id: a, task: t.a, queue_timeout: 5s, timeout: 5s, retry: {max_attempts: 1}}]";
    let lost = "mocks: {t.a: [{times: 1, pickup: 4s, lost: 3s}, {pickup: 4s, after: 4s}]}";
    shows(steps, &format!("{lost}, expect: {{status: completed, not_before: 15s, ends_by: 15s}}"));
    shows(steps, "mocks: {t.a: {pickup: 5001ms}}, expect: {status: failed, error: QUEUE_TIMEOUT, ends_by: 5s}");
    let slow =
        "mocks: {t.a: {pickup: 4s, after: 6s}}, expect: {status: failed, error: TIMEOUT, not_before: 9s, ends_by: 9s}";
    shows(steps, slow);
}
