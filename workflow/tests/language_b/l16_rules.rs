//! Fine print of handlers, `on_failure`, attempts, contracts, values, `done_when`, redrive (L16).

use workflow::event::RedriveAction;

use crate::help::{Play, faults, shows};

const EVENTS: &str = "
signals: {go: {type: object}, note: {type: object}}
steps: [{id: wait, await: {signal: go}}]
handlers: {event: {note: [{id: n, task: t.a, compensate: {task: t.undo, input: {}}}, {id: m, after: [n], task: t.b}]},
  failure: [{id: f, compute: '1'}]}";

#[test]
fn the_start_of_an_event_handler_takes_its_signal() {
    let mut play = Play::start(EVENTS);
    let before = play.history.len();
    play.signal("note", "{}").unwrap();
    let seq = before + 1;
    assert_eq!(
        play.since(before),
        [
            "SignalReceived note".to_owned(),
            format!("HandlerStarted on:event:note@{seq}"),
            format!("StepScheduled on:event:note@{seq}.n attempt=1")
        ]
    );
    assert_eq!(play.run.state().head.unconsumed_signals, 0);
}

#[test]
fn a_good_end_waits_for_running_event_handlers() {
    let mut play = Play::start(EVENTS);
    play.signal("note", "{}").unwrap();
    let handler = "on:event:note@4";
    play.signal("go", "{}").unwrap();
    assert_eq!(play.lines().last().unwrap(), "StepSucceeded wait");
    play.succeed(&format!("{handler}.n"), "1");
    play.succeed(&format!("{handler}.m"), "1");
    let count = play.history.len();
    assert_eq!(play.since(count - 2), [format!("HandlerFinished {handler}"), "WorkflowCompleted".to_owned()]);
}

#[test]
fn a_bad_end_closes_each_event_handler_and_none_starts_any_more() {
    let mut play = Play::start(EVENTS);
    play.signal("note", "{}").unwrap();
    let handler = "on:event:note@4";
    play.succeed(&format!("{handler}.n"), "1");
    let before = play.history.len();
    play.cancel(false).unwrap();
    let refused = play.signal("note", "{}");
    assert_eq!(refused.unwrap_err().code(), "EXECUTION_FINISHED", "nothing more comes in");
    play.succeed(&format!("compensate:{handler}.n"), "1");
    let lines = play.since(before);
    let expected = [
        "StepClosing (workflow) cancelled".to_owned(),
        format!("StepClosing {handler} cancelled"),
        format!("CompensationStarted {handler} {handler}.n"),
        format!("StepSucceeded compensate:{handler}.n"),
        format!("CompensationCompleted {handler}"),
        format!("HandlerFinished {handler}"),
        "WorkflowCancelled compensation=completed".to_owned(),
    ];
    let mut rest = lines.iter();
    for line in &expected {
        assert!(rest.any(|found| found.starts_with(line.as_str())), "no {line:?} in its place in {lines:#?}");
    }
}

#[test]
fn no_event_handler_starts_once_the_root_is_closing() {
    let steps = "
signals: {note: {type: object}}
steps: [{id: a, task: t.a}, {id: bad, after: [a], fail: {code: NO}}]
handlers: {event: {note: [{id: n, task: t.b}]}, exit: [{id: e, task: t.c}]}";
    let mut play = Play::start(steps);
    let token = play.hand_over("a");
    play.tell(workflow::command::Pause).unwrap();
    play.cancel(false).unwrap();
    assert!(play.signal("note", "{}").is_err());
    assert!(!play.complete(&token, "1").accepted);
    // Both at once: the signal is there when the root is told to close.
    let mut play = Play::start(steps);
    play.tell(workflow::command::Pause).unwrap();
    play.signal("note", "{}").unwrap();
    play.cancel(false).unwrap();
    assert!(!play.lines().iter().any(|line| line.starts_with("HandlerStarted on:event")), "{:#?}", play.lines());
}

#[test]
fn a_redrive_does_not_take_event_handlers_up_again() {
    let steps = "
signals: {note: {type: object}}
steps: [{id: a, task: t.a, retry: {max_attempts: 1}}]
handlers: {event: {note: [{id: n, task: t.b}]}}";
    let mut play = Play::start(steps);
    play.signal("note", "{}").unwrap();
    play.give_up("a", "NO");
    assert_eq!(play.lines().last().unwrap(), "WorkflowFailed NO compensation=none");
    let before = play.history.len();
    play.redrive(&[], RedriveAction::Retry, None).unwrap();
    assert_eq!(play.since(before), ["WorkflowRedriven retry a", "StepScheduled a attempt=2"]);
    play.succeed("a", "1");
    assert_eq!(play.lines().last().unwrap(), "WorkflowCompleted");
}

#[test]
fn failure_is_null_at_a_good_end() {
    let steps = |body: &str| {
        format!("steps: [{body}]\nhandlers: {{exit: [{{id: e, task: t.note, input: {{f: '${{failure}}'}}}}]}}")
    };
    let good = "expect: {status: completed, inputs: {t.note: [{f: null}]}}";
    shows(&steps("{id: a, compute: '1'}"), good);
    let bad = steps("{id: a, fail: {code: NO}}").replace("${failure}", "${failure.reason}");
    shows(&bad, "expect: {status: failed, inputs: {t.note: [{f: failed}]}}");
}

#[test]
fn suspend_acts_on_the_element_or_iteration_that_failed() {
    for (around, unit) in [("for: {each: '[1, 2]'}", "x[0]"), ("repeat: {until: 'true'}", "x#1")] {
        let mut play = Play::start(&format!("steps: [{{id: x, {around}, task: t.a, on_failure: suspend}}]"));
        play.give_up(unit, "NO");
        assert_eq!(play.lines().last().unwrap(), &format!("StepSuspended {unit} NO"));
    }
}

#[test]
fn continue_acts_on_the_step_as_a_whole() {
    for (around, unit, failed) in [
        ("for: {each: '[1, 2]', concurrency: 1}", "x[0]", "StepFailed x[0] NO handled=false"),
        ("repeat: {until: 'true'}", "x#1", "StepFailed x#1 NO handled=false"),
    ] {
        let mut play = Play::start(&format!("steps: [{{id: x, {around}, task: t.a, on_failure: continue}}]"));
        play.give_up(unit, "NO");
        let count = play.history.len();
        let end = [failed, "StepClosing x failed", "StepFailed x NO handled=true", "WorkflowCompleted"];
        assert_eq!(play.since(count - 4), end);
    }
}

#[test]
fn a_unit_given_up_by_hand_is_not_looked_up_again() {
    let mut play = Play::start("steps: [{id: a, task: t.a, on_failure: suspend}]");
    play.give_up("a", "NO");
    let before = play.history.len();
    play.redrive(&["a"], RedriveAction::Fail, None).unwrap();
    assert_eq!(play.since(before)[1], "StepFailed a NO handled=false", "not suspended once more");
}

#[test]
fn max_failures_and_the_undo_of_unknown_units_apply_to_one_given_up_by_hand() {
    let steps = "
steps: [{id: x, for: {each: '[1, 2]', max_failures: 1}, task: t.a, timeout: 1s, retry: {max_attempts: 1},
  on_failure: suspend, compensate: {task: t.undo, input: {}}}]";
    let mut play = Play::start(steps);
    play.hand_over("x[0]");
    play.expire("x[0]", workflow::command::Expiry::Timeout);
    assert_eq!(play.lines().last().unwrap(), "StepSuspended x[0] TIMEOUT");
    let before = play.history.len();
    play.redrive(&["x[0]"], RedriveAction::Fail, None).unwrap();
    play.succeed("compensate:x[0]", "1");
    assert_eq!(
        play.since(before),
        [
            "WorkflowRedriven fail x[0]",
            "StepClosing x[0] failed",
            "CompensationStarted x[0] x[0]",
            "StepScheduled compensate:x[0] attempt=1",
            "StepDispatched compensate:x[0]",
            "StepSucceeded compensate:x[0]",
            "CompensationCompleted x[0]",
            "StepFailed x[0] TIMEOUT handled=true"
        ]
    );
}

/// Attempts until a step with this body fails for good.
fn attempts(body: &str) -> usize {
    let steps = format!("workflows: {{kid: {{version: 1.0.0}}}}\nsteps: [{{id: x, {body}}}]\n---\n{KID}");
    let story = shows(&steps, "mocks: {t.a: {error: {code: NO}}}, expect: {status: failed, of: x}");
    let starts = |line: &&(u64, String)| line.1.starts_with("StepScheduled x ") || line.1.starts_with("StepOpened x");
    story.lines().iter().filter(starts).count()
}

const KID: &str = "name: kid\nversion: 1.0.0\nsteps: [{id: no, fail: {code: NO}}]";

#[test]
fn attempts_without_retry_and_with_one_that_names_no_number() {
    let block = "steps: [{id: y, fail: {code: NO}}]";
    for (body, without, with) in [("task: t.a", 3, 3), ("workflow: {name: kid}", 1, 3), (block, 1, 3)] {
        assert_eq!(attempts(body), without, "{body}");
        assert_eq!(attempts(&format!("{body}, retry: {{initial_delay: 1s}}")), with, "{body} with retry");
        assert_eq!(attempts(&format!("{body}, retry: {{max_attempts: 2}}")), 2, "{body} with a number");
    }
}

#[test]
fn attempts_of_an_undo_go_by_its_kind() {
    for (undo, without) in [("task: t.undo", 3), ("workflow: {name: kid}", 1)] {
        for (retry, count) in [("", without), (", retry: {initial_delay: 1s}", 3), (", retry: {max_attempts: 2}", 2)] {
            let steps = format!(
                "workflows: {{kid: {{version: 1.0.0}}}}\nsteps: [{{id: a, task: t.a, compensate: {{{undo},
                input: {{}}{retry}}}}}, \
                 {{id: bad, after: [a], fail: {{code: END}}}}]\n---\n{KID}"
            );
            let case = format!(
                "mocks: {{t.undo: {{error: {{code: NO}}}}}}, expect: {{status: failed, of: x,
                 count: {{'StepScheduled compensate:a': {count}}}, includes: [CompensationFailed a NO]}}"
            );
            shows(&steps, &case);
        }
    }
}

#[test]
fn the_attempt_of_what_is_never_handed_over_is_1() {
    let steps = "
signals: {s: {type: object}}
steps:
  - {id: nap, sleep: 1s}
  - {id: wait, await: {signal: s}}
  - {id: sum, compute: '1'}
  - {id: each, for: {each: '[1]'}, task: t.a}
  - {id: again, repeat: {until: 'true'}, task: t.a}";
    let ended = |id: &str| format!("{{type: StepSucceeded, step: {id}, attempt: 1}}");
    let likes = ["sum", "wait", "again", "each", "nap"].map(ended);
    for like in likes {
        let case = format!("signals: [{{at: 0s, name: s}}], expect: {{status: completed, events_like: [{like}]}}");
        shows(steps, &case);
    }
}

#[test]
fn what_a_child_or_receiver_refuses_breaks_the_input_contract() {
    let child = "
workflows: {kid: {version: 1.0.0}}
steps: [{id: a, workflow: {name: kid}, input: {n: text}}]
---
name: kid
version: 1.0.0
input: {type: object, properties: {n: {type: integer}}}
steps: [{id: b, compute: '1'}]";
    shows(child, "expect: {status: failed, of: x, error: INPUT_CONTRACT_VIOLATION, includes: [StepScheduled a]}");
    let signal = "
steps: [{id: a, signal: {execution: other, name: go, payload: {n: text}}}]
---
name: other
version: 1.0.0
signals: {go: {type: object, properties: {n: {type: integer}}}}
steps: [{id: wait, await: {signal: go}}]";
    let case = "starts: [{id: other, workflow: other}, {id: x, workflow: w, at: 1s}], until: 1h,
        expect: {status: failed, of: x, error: INPUT_CONTRACT_VIOLATION, includes: [StepScheduled a],
        excludes: [SignalReceived]}";
    shows(signal, case);
}

#[test]
fn more_items_than_the_limit_are_an_expression_error() {
    let steps = "input: {type: object, properties: {l: {}}}
steps: [{id: x, for: {each: 'range(50000) + range(50001)'}, task: t.a}]";
    shows(steps, "expect: {status: failed, error: EXPRESSION_ERROR, excludes: [StepFanOut]}");
}

#[test]
fn a_refused_output_with_an_old_token_is_stale() {
    let mut play = Play::start("tasks: {t.a: {version: 1.0.0, output: {type: object}}}\nsteps: [{id: a, task: t.a}]");
    let old = play.hand_over("a");
    play.lose(&old);
    let before = play.history.len();
    assert!(!play.complete(&old, "7").accepted);
    assert_eq!(play.since(before), ["StaleResultIgnored a success"], "the attempt that runs is not ended");
    play.succeed("a", "{}");
}

#[test]
fn a_chosen_name_must_be_declared() {
    let task = "input: {type: object, properties: {t: {default: t.a}}}\nsteps: [{id: a, task: '${input.t}'}]";
    shows(task, "expect: {status: completed, calls: {t.a: 1}}");
    shows(task, "input: {t: t.other}, expect: {status: failed, error: UNKNOWN_TASK, excludes: [RetryScheduled a]}");
    let child = "workflows: {kid: {version: 1.0.0}}\ninput: {type: object, properties: {t: {default: kid}}}
steps: [{id: a, workflow: {name: '${input.t}'}, on_failure: suspend}]";
    let child = format!("{child}\n---\n{}", KID.replace("kid", "other"));
    shows(
        &child,
        "input: {t: other}, until: 1h, expect: {status: running, includes: [StepSuspended a UNKNOWN_WORKFLOW]}",
    );
}

#[test]
fn done_when_is_looked_at_at_the_opening_and_before_each_start() {
    let mut play = Play::start("steps: [{id: box, done_when: 'true', steps: [{id: a, task: t.a}]}]");
    assert_eq!(play.since(2), ["StepOpened box", "StepClosing box done", "StepSucceeded box", "WorkflowCompleted"]);
    let steps = "steps: [{id: box, done_when: \"steps.a.status == 'succeeded'\", steps: [{id: a, compute: '1'},
        {id: b, task: t.a}]}]";
    play = Play::start(steps);
    assert_eq!(play.since(3)[..3], ["StepSucceeded box.a", "StepClosing box done", "StepSucceeded box"]);
    assert!(faults("done_when: '1 +'\nsteps: [{id: a, task: t.a}]").contains("done_when"));
}

#[test]
fn an_unhandled_failure_comes_before_done_when() {
    let steps = "steps: [{id: box, on_failure: continue, done_when: \"steps.a.status == 'failed'\", steps: [{id: a,
        task: t.a}]}]";
    let mut play = Play::start(steps);
    play.give_up("box.a", "NO");
    assert!(play.lines().contains(&"StepClosing box failed".to_owned()), "{:#?}", play.lines());
}

#[test]
fn what_was_undone_in_part_can_only_be_resolved_or_failed() {
    let steps = "
steps:
  - id: box
    on_failure: suspend
    steps: [{id: a, task: t.a, compensate: {task: t.undo, input: {}}}, {id: bad, after: [a], fail: {code: NO}}]
result: '${steps.box.output}'";
    for (action, end) in [
        (RedriveAction::Resolve, "WorkflowCompleted"),
        (RedriveAction::Fail, "WorkflowFailed NO compensation=completed"),
    ] {
        let mut play = Play::start(steps);
        play.succeed("box.a", "1");
        play.succeed("compensate:box.a", "1");
        assert_eq!(play.lines().last().unwrap(), "StepSuspended box NO");
        let refused = play.redrive(&["box"], RedriveAction::Retry, None).unwrap_err();
        assert_eq!(refused.code(), "NOT_REDRIVABLE");
        play.redrive(&["box"], action, Some("7")).unwrap();
        assert_eq!(play.lines().last().unwrap(), end);
    }
}

#[test]
fn a_for_resolved_by_hand_is_the_one_whose_success_carries_an_output() {
    let steps = "
steps: [{id: x, for: {each: '7'}, task: t.a, on_failure: suspend}]
result: '${steps.x.output}'";
    let mut play = Play::start(steps);
    assert_eq!(play.lines().last().unwrap(), "StepSuspended x EXPRESSION_ERROR");
    play.redrive(&["x"], RedriveAction::Resolve, Some("[1,2]")).unwrap();
    let own = play.last_of("StepSucceeded");
    assert_eq!((&own["step"], &own["output"]), (&"x".into(), &serde_json::json!([1, 2])));
    assert_eq!(play.output(), "[1,2]");
}
