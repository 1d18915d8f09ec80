//! `compensate`, handlers (L9).

use workflow::event::RedriveAction;

use crate::help::{Play, faults, shows};

#[test]
fn an_undo_sees_the_output_the_key_the_loop_variables_and_the_steps_as_they_are_then() {
    let steps = "
steps:
  - {id: before, compute: '1'}
  - {id: a, for: {each: '[5]', as: n}, task: t.a, compensate: {task: t.undo, input: {out: '${output}',
        unknown: '${unknown}',
     key: '${idempotency_key}', n: '${n}', i: '${index}', before: '${steps.before.output}',
         bad: '${steps.bad.status}'}}}
  - {id: bad, after: [a], fail: {code: NO}}";
    let mut play = Play::start(steps);
    let key = play.last_of("StepScheduled")["idempotency_key"].clone();
    play.succeed("a[0]", "7");
    let input = play.last_of("StepScheduled")["input"].clone();
    let expected =
        serde_json::json!({"out": 7, "unknown": false, "key": key, "n": 5, "i": 0, "before": 1, "bad": "failed"});
    assert_eq!(input, expected);
}

#[test]
fn the_output_of_an_unknown_unit_is_null_to_its_undo() {
    let steps = "steps: [{id: a, task: t.a, retry: {max_attempts: 1}, compensate: {task: t.undo,
        input: {out: '${output}', unknown: '${unknown}'}}}]";
    let case = "mocks: {t.a: {error: {code: TIMEOUT}}}, expect: {status: failed, inputs: {t.undo: [{out: null,
        unknown: true}]}}";
    shows(steps, case);
}

#[test]
fn a_suspended_undo_waits_for_redrive() {
    let steps = "
steps:
  - {id: a, task: t.a, compensate: {task: t.undo, input: {}, retry: {max_attempts: 1}, on_failure: suspend}}
  - {id: bad, after: [a], fail: {code: NO}}";
    let mut play = Play::start(steps);
    play.succeed("a", "1");
    play.give_up("compensate:a", "LOCKED");
    assert_eq!(play.lines().last().unwrap(), "StepSuspended compensate:a LOCKED");
    assert_eq!(play.run.state().head.attention, 1);
    play.redrive(&["compensate:a"], RedriveAction::Retry, None).unwrap();
    play.succeed("compensate:a", "1");
    assert_eq!(play.lines().last().unwrap(), "WorkflowFailed NO compensation=completed");
    let failing = steps.replace(", on_failure: suspend", "");
    let mut play = Play::start(&failing);
    play.succeed("a", "1");
    play.give_up("compensate:a", "LOCKED");
    assert_eq!(play.lines().last().unwrap(), "WorkflowFailed NO compensation=failed");
}

#[test]
fn always_also_runs_at_the_good_end_and_its_failure_changes_nothing() {
    let steps = "
steps: [{id: box, steps: [{id: a, task: t.a, compensate: {task: t.undo, input: {}, always: true,
        retry: {max_attempts: 1}}}],
  result: '${steps.a.output}'}]
result: '${steps.box.output}'";
    for (mock, line) in
        [("{}", "StepSucceeded compensate:box.a"), ("{error: {code: NO}}", "CompensationFailed box.a NO")]
    {
        let case = format!(
            "mocks: {{t.a: {{output: 7}}, t.undo: {mock}}}, expect: {{status: completed, output: 7, includes: [
             StepClosing box done, CompensationStarted box box.a, '{line}', CompensationCompleted box,
             StepSucceeded box]}}"
        );
        shows(steps, &case);
    }
}

/// Ends in each of the three bad ways, with an undo; handlers for all ends.
const ENDS: &str = "
timeout: 1h
steps: [{id: a, task: t.a, compensate: {task: t.undo, input: {}}}, {id: b, after: [a], task: t.b,
        retry: {max_attempts: 1}}]
handlers:
  failure: [{id: hf, task: t.note, input: '${failure}'}]
  cancel: [{id: hc, task: t.note, input: '${failure}'}]
  timeout: [{id: ht, task: t.note, input: '${failure}'}]
  exit: [{id: he, compute: '1'}]";

#[test]
fn each_bad_end_has_its_handler_after_the_undo_and_exit_comes_last() {
    let failing = "{error: {code: NO, message: never, details: {n: 1}}}";
    for (end, last, mock, cancel, failure) in [
        ("failure", "WorkflowFailed NO", failing, "", "{reason: failed, code: NO, message: never, details: {n: 1}}"),
        ("cancel", "WorkflowCancelled", "{never: true}", "cancel: 1m,", "{reason: cancelled}"),
        ("timeout", "WorkflowTimedOut", "{never: true}", "", "{reason: timeout}"),
    ] {
        let status = match end {
            "failure" => "failed",
            "cancel" => "cancelled",
            _ => "timed_out",
        };
        let case = format!(
            "mocks: {{t.b: {mock}}}, {cancel} expect: {{status: {status}, inputs: {{t.note: [{failure}]}}, includes: [
             CompensationCompleted (workflow), 'HandlerStarted on:{end}', 'HandlerFinished on:{end}',
             'HandlerStarted on:exit', 'StepSucceeded on:exit.he', 'HandlerFinished on:exit', {last}],
             count: {{HandlerStarted: 2}}}}"
        );
        shows(ENDS, &case);
    }
}

#[test]
fn exit_runs_at_a_good_end_too_and_the_others_do_not() {
    shows(ENDS, "expect: {status: completed, includes: ['HandlerStarted on:exit'], calls: {t.note: 0}}");
}

#[test]
fn each_signal_of_an_event_handler_has_an_instance_of_its_own_beside_the_steps() {
    let steps = "
signals: {note: {type: object}}
steps: [{id: a, task: t.a}]
handlers: {event: {note: [{id: n, task: t.note, input: '${event}'}]}}";
    let mut play = Play::start(steps);
    play.signal("note", r#"{"i": 1}"#).unwrap();
    play.signal("note", r#"{"i": 2}"#).unwrap();
    let inputs: Vec<_> = play.since(3).into_iter().filter(|line| line.starts_with("StepScheduled")).collect();
    assert_eq!(inputs, ["StepScheduled on:event:note@4.n attempt=1", "StepScheduled on:event:note@7.n attempt=1"]);
    assert_eq!(play.last_of("StepScheduled")["input"]["i"], 2);
    let both = steps.replace("{id: a, task: t.a}", "{id: a, await: {signal: note}}");
    assert!(faults(&both).contains("note"), "{}", faults(&both));
}

#[test]
fn handlers_are_never_called_on() {
    assert!(faults("steps: [{id: a, compute: '1'}]\non: {exit: [{id: e, compute: '1'}]}").contains("on"));
}

#[test]
fn a_handler_is_a_block_that_closes_by_itself_and_tells_its_end() {
    let steps = "
steps: [{id: a, task: t.a, retry: {max_attempts: 1}}]
handlers: {failure: [{id: one, task: t.b, compensate: {task: t.undo, input: {}}}, {id: bad, after: [one],
        fail: {code: WORSE}}]}";
    let mut play = Play::start(steps);
    play.give_up("a", "NO");
    play.succeed("on:failure.one", "1");
    let before = play.history.len();
    play.succeed("compensate:on:failure.one", "1");
    assert_eq!(
        play.since(before - 4),
        [
            "StepFailed on:failure.bad WORSE handled=false",
            "StepClosing on:failure failed",
            "CompensationStarted on:failure on:failure.one",
            "StepScheduled compensate:on:failure.one attempt=1",
            "StepDispatched compensate:on:failure.one",
            "StepSucceeded compensate:on:failure.one",
            "CompensationCompleted on:failure",
            "HandlerFinished on:failure WORSE",
            "WorkflowFailed NO compensation=completed"
        ]
    );
}
