//! The traps: what is easily done wrong, each once (L14).

use crate::help::{Play, shows};

#[test]
fn a_dependant_of_an_unhandled_failure_does_not_start() {
    let steps = "
steps:
  - {id: a, task: t.a}
  - {id: bad, after: [a], fail: {code: NO}}
  - {id: dependant, after: [bad], task: t.b}";
    shows(steps, "expect: {status: failed, error: NO, excludes: [StepScheduled dependant, StepSkipped dependant]}");
}

#[test]
fn a_sibling_that_is_ready_after_the_failure_does_not_start_in_the_same_fixpoint() {
    let steps = "
steps:
  - {id: a, task: t.a}
  - {id: bad, after: [a], fail: {code: NO}}
  - {id: sibling, after: [a], task: t.b}";
    let story = shows(steps, "expect: {status: failed, error: NO, excludes: [StepScheduled sibling]}");
    assert_eq!(
        story.part("StepSucceeded a", "WorkflowFailed NO compensation=none"),
        [
            "StepSucceeded a",
            "StepFailed bad NO handled=false",
            "StepClosing (workflow) failed",
            "WorkflowFailed NO compensation=none"
        ]
    );
}

#[test]
fn the_closed_root_does_not_cancel_the_steps_of_a_handler() {
    let steps = "
steps: [{id: bad, fail: {code: NO}}]
handlers: {failure: [{id: note, task: t.note}, {id: nap, after: [note], sleep: 1s}]}";
    let case = "expect: {status: failed, includes: [StepClosing (workflow) failed, 'StepScheduled on:failure.note',
        'StepSucceeded on:failure.note', 'StepSucceeded on:failure.nap', 'HandlerFinished on:failure', WorkflowFailed],
        excludes: ['StepCancelled on:failure']}";
    shows(steps, case);
}

#[test]
fn the_result_of_a_race_is_read_before_the_loser_succeeds_late() {
    let steps = "
steps:
  - id: race
    done_when: \"steps.a.status == 'succeeded'\"
    steps: [{id: a, task: t.a}, {id: b, task: t.b, compensate: {task: t.undo, input: {}}}]
    result: {a: '${steps.a.output}', b: '${steps.b.output}', b_is: '${steps.b.status}'}
result: '${steps.race.output}'";
    let case = "mocks: {t.a: {after: 1s, output: 1}, t.b: {after: 2s, output: 2}},
        expect: {status: completed, output: {a: 1, b: null, b_is: running},
        includes: [StepClosing race done, StepSucceeded race.b, 'StepSucceeded compensate:race.b',
        StepSucceeded race]}";
    shows(steps, case);
}

/// Branch `b` has finished `one` when `a` wins.
const LOSING_BRANCH: &str = "
steps:
  - id: race
    done_when: \"steps.a.status == 'succeeded'\"
    steps:
      - {id: a, task: t.a}
      - id: b
        steps:
          - {id: one, task: t.b, compensate: {task: t.undo, input: {}, always: ALWAYS}}
          - {id: two, after: [one], task: t.c}";

#[test]
fn finished_steps_of_a_losing_branch_are_undone() {
    let case = "mocks: {t.a: {after: 5s}, t.c: {never: true}}, expect: {status: completed, calls: {t.undo: 1},
        includes: [StepSucceeded race.b.one, StepClosing race done, StepCancelled race.b.two, StepCancelled race.b,
        CompensationStarted race race.b.one, 'StepSucceeded compensate:race.b.one', StepSucceeded race]}";
    shows(&LOSING_BRANCH.replace("ALWAYS", "false"), case);
}

#[test]
fn a_loser_with_always_is_undone_like_any_other() {
    let case = "mocks: {t.a: {after: 5s}, t.c: {never: true}}, expect: {status: completed, calls: {t.undo: 1},
        includes: [StepClosing race done, CompensationStarted race race.b.one, StepSucceeded race]}";
    shows(&LOSING_BRANCH.replace("ALWAYS", "true"), case);
    let open = "
steps:
  - id: race
    done_when: \"steps.a.status == 'succeeded'\"
    cancel_grace: 1s
    steps: [{id: a, task: t.a}, {id: b, task: t.b, compensate: {task: t.undo, input: {}, always: true}}]";
    let case = "mocks: {t.a: {after: 5s}, t.b: {never: true}}, expect: {status: completed, calls: {t.undo: 1},
        includes: [StepClosing race done, StepCancelled race.b, CompensationStarted race race.b, StepSucceeded race]}";
    shows(open, case);
}

#[test]
fn a_handled_failure_with_unknown_outcome_is_undone_before_anything_goes_on() {
    let steps = "
steps:
  - {id: a, task: t.a, retry: {max_attempts: 1}, on_failure: continue, compensate: {task: t.undo, input: {}}}
  - {id: b, after: [a], task: t.b}";
    let story = shows(steps, "mocks: {t.a: {error: {code: TIMEOUT}}}, expect: {status: completed, calls: {t.undo: 1}}");
    assert_eq!(
        story.part("StepAttemptFailed a TIMEOUT unknown", "StepScheduled b attempt=1"),
        [
            "StepAttemptFailed a TIMEOUT unknown",
            "StepClosing a failed",
            "CompensationStarted a a",
            "StepScheduled compensate:a attempt=1",
            "StepDispatched compensate:a",
            "StepSucceeded compensate:a",
            "CompensationCompleted a",
            "StepFailed a TIMEOUT handled=true",
            "StepScheduled b attempt=1"
        ]
    );
}

#[test]
fn a_plain_task_with_a_deadline_is_resolved_once() {
    // One that can be undone is waited for: its result comes while it closes.
    for undo in ["", ", compensate: {task: t.undo, input: {}}"] {
        for (on_deadline, resolved) in [("continue", "StepSucceeded a"), ("fail", "StepFailed a DEADLINE_EXCEEDED")] {
            let task = format!("{{id: a, task: t.a, deadline: 1s, on_deadline: {on_deadline}, timeout: 2s{undo}}}");
            let mut play = Play::start(&format!("steps: [{task}]"));
            let token = play.hand_over("a");
            play.fire("deadline:a");
            assert!(!play.complete(&token, "1").accepted, "{task}");
            if !undo.is_empty() {
                play.succeed("compensate:a", "null");
            }
            let ends = |line: &&String| line.starts_with("StepSucceeded a") || line.starts_with("StepFailed a");
            let lines = play.lines();
            let found: Vec<_> = lines.iter().filter(ends).collect();
            assert_eq!(found.len(), 1, "{task}: {lines:#?}");
            assert!(found[0].starts_with(resolved), "{task}: {lines:#?}");
            assert_eq!(
                play.run.state().unit("a").unwrap().output.as_ref().map_or("null", |output| output.as_str()),
                "null"
            );
        }
    }
}

#[test]
fn the_closing_of_a_first_attempt_does_not_cover_the_second() {
    let steps = "
steps:
  - id: box
    retry: {max_attempts: 2, initial_delay: 1s}
    steps: [{id: a, task: t.a, retry: {max_attempts: 1}}, {id: b, after: [a], task: t.b}]";
    let case = "mocks: {t.a: [{times: 1, error: {code: NO}}, {}]}, expect: {status: completed, includes: [
        StepClosing box~1 failed, StepOpened box attempt=2, 'StepSucceeded box~2.a', 'StepScheduled box~2.b',
        'StepSucceeded box~2.b', StepSucceeded box]}";
    shows(steps, case);
}

#[test]
fn until_is_asked_after_each_iteration_also_the_first() {
    for (until, iterations) in [("iteration == 1", 1), ("iteration == 2", 2), ("output.last", 3)] {
        let steps =
            format!("steps: [{{id: r, task: t.a, input: {{i: '${{iteration}}'}}, repeat: {{until: '{until}'}}}}]");
        let case = format!(
            "mocks: {{t.a: {{output: {{last: '${{input.i == 3}}'}}}}}}, expect: {{status: completed,
            calls: {{t.a: {iterations}}}}}"
        );
        shows(&steps, &case);
    }
}

#[test]
fn a_cancel_waits_for_an_inner_undo_and_does_not_repeat_it() {
    let steps = "
steps:
  - {id: before, task: t.a, compensate: {task: t.undo2, input: {}}}
  - id: box
    after: [before]
    on_failure: continue
    steps:
      - {id: one, task: t.b, compensate: {task: t.undo, input: {}}}
      - {id: bad, after: [one], fail: {code: NO}}";
    let case = "mocks: {t.undo: {after: 10s}}, cancel: 5s, expect: {status: cancelled, calls: {t.undo: 1, t.undo2: 1},
        includes: [CompensationStarted box box.one, CancelRequested, StepClosing (workflow) cancelled,
        'StepSucceeded compensate:box.one', CompensationCompleted box, StepCancelled box,
        CompensationStarted (workflow) before, WorkflowCancelled compensation=completed]}";
    shows(steps, case);
}

#[test]
fn an_undo_may_be_a_child() {
    let steps = "
workflows: {undo-it: {version: 1.0.0}}
steps:
  - {id: a, task: t.a, compensate: {workflow: {name: undo-it}, input: {of: '${output}'}}}
  - {id: bad, after: [a], fail: {code: NO}}
---
name: undo-it
version: 1.0.0
input: {type: object, required: [of]}
tasks: {t.undo: {version: 1.0.0}}
steps: [{id: u, task: t.undo, input: {of: '${input.of}'}}]";
    let case = "mocks: {t.a: {output: 7}}, expect: {status: failed, of: x, error: NO, inputs: {t.undo: [{of: 7}]},
        includes: ['StepScheduled compensate:a', StepSucceeded u, WorkflowCompleted, 'StepSucceeded compensate:a',
        WorkflowFailed NO compensation=completed], excludes: ['StepDispatched compensate:a']}";
    shows(steps, case);
}

#[test]
fn an_undo_may_be_a_signal() {
    let steps = "
input: {type: object, properties: {to: {}}}
steps:
  - {id: a, task: t.a, compensate: {signal: {execution: other, name: gone, payload: {what: '${output}'}}}}
  - {id: bad, after: [a], fail: {code: NO}}
---
name: other
version: 1.0.0
signals: {gone: {type: object}}
steps: [{id: wait, await: {signal: gone}}]
result: '${steps.wait.output}'";
    let case = "mocks: {t.a: {output: 7}}, starts: [{id: other, workflow: other}, {id: x, workflow: w, at: 1s}],
        expect: {status: completed, of: other, output: {what: 7}, includes: ['StepScheduled compensate:a',
        SignalReceived gone, 'StepSucceeded compensate:a', WorkflowFailed NO compensation=completed]}";
    shows(steps, case);
}

#[test]
fn an_error_inside_on_failure_when_is_no_match() {
    for condition in ["error.details.no.such > 1", "1 / 0 == 1", "error.code"] {
        let steps = format!(
            "steps: [{{id: a, task: t.a, retry: {{max_attempts: 1}}, on_failure: [{{when: \"{condition}\",
            then: suspend}}, \
             {{when: \"error.code == 'NO'\", then: continue}}]}}]"
        );
        let case =
            "mocks: {t.a: {error: {code: NO}}}, expect: {status: completed, includes: [StepFailed a NO handled=true]}";
        shows(&steps, case);
    }
}

#[test]
fn an_error_inside_where_is_no_match() {
    let steps = "
signals: {s: {type: object}}
steps: [{id: wait, await: {signal: s, where: 'payload.n > 1'}}]
result: '${steps.wait.output.n}'";
    let case =
        "signals: [{at: 1s, name: s}, {at: 2s, name: s, payload: {n: text}}, {at: 3s, name: s, payload: {n: 2}}],
        expect: {status: completed, output: 2, not_before: 3s}";
    shows(steps, case);
}

#[test]
fn each_event_is_decided_on_before_the_next_is_taken() {
    let steps = "
done_when: \"steps.a.status == 'succeeded'\"
steps: [{id: a, task: t.a}, {id: b, task: t.b}]
result: ['${steps.a.output}', '${steps.b.output}']";
    let mut play = Play::start(steps);
    let (a, b) = (play.hand_over("a"), play.hand_over("b"));
    // Both results arrive before anything is committed; the first ends the workflow all the same.
    let first = play.complete(&a, "1");
    let second = play.complete(&b, "2");
    assert!(first.accepted && !second.accepted);
    assert_eq!(play.output(), "[1,null]");
}
