//! What is undone, in which order, and that nothing is undone twice (L6).

use crate::help::{Play, shows};

const THREE: &str = "
steps:
  - id: box
    on_failure: continue
    ATTRIBUTES
    steps:
      - {id: a, task: t.a, compensate: {task: t.undo, input: {of: a}}}
      - {id: plain, after: [a], task: t.b}
      - {id: b, after: [a], task: t.c, compensate: {task: t.undo, input: {of: b}}}
      - {id: last, after: [b, plain], task: t.note, retry: {max_attempts: 1}}";

#[test]
fn a_bad_end_undoes_what_succeeded_below_a_good_end_keeps_it() {
    let bad = "mocks: {t.note: {error: {code: NO}}}, expect: {status: completed, calls: {t.undo: 2},
        includes: [CompensationStarted box box.b box.a, StepFailed box NO handled=true]}";
    shows(&THREE.replace("ATTRIBUTES", "cancel_grace: 1s"), bad);
    let good = "expect: {status: completed, calls: {t.undo: 0}, includes: [StepSucceeded box]}";
    shows(&THREE.replace("ATTRIBUTES", "cancel_grace: 1s"), good);
    let early = "mocks: {t.note: {never: true}}, expect: {status: completed, calls: {t.undo: 0},
        includes: [StepClosing box deadline, StepSucceeded box]}";
    shows(&THREE.replace("ATTRIBUTES", "deadline: 10s\n    on_deadline: continue"), early);
}

#[test]
fn a_good_end_undoes_what_was_open_what_is_inside_something_cancelled_and_always() {
    let steps = "
steps:
  - id: race
    done_when: \"steps.a.status == 'succeeded'\"
    retry: {max_attempts: 1}
    steps:
      - {id: kept, task: t.b, compensate: {task: t.undo, input: {of: kept}}}
      - {id: lock, task: t.b, compensate: {task: t.undo, input: {of: lock}, always: true}}
      - {id: a, after: [kept, lock], task: t.a, compensate: {task: t.undo, input: {of: a}}}
      - {id: open, task: t.c, compensate: {task: t.undo, input: {of: open}}}
      - {id: side, steps: [{id: x, task: t.b, compensate: {task: t.undo, input: {of: x}}}, {id: nap, after: [x],
          sleep: 1h}]}";
    let case = "mocks: {t.a: {after: 5s}, t.c: {never: true}}, expect: {status: completed,
        inputs: {t.undo: [{of: open}, {of: x}, {of: lock}]},
        includes: ['CompensationStarted race~1 race~1.open race~1.side.x race~1.lock', StepSucceeded race]}";
    shows(steps, case);
}

#[test]
fn unknown_ones_are_undone_first_the_one_first_scheduled_last_then_in_reverse_order_of_success() {
    let undo = "compensate: {task: t.undo, input: {}}";
    let steps = format!(
        "cancel_grace: 1s\nsteps:\n  - {{id: u1, task: t.a, {undo}}}\n  - {{id: s1, task: t.a, {undo}}}\n  \
         - {{id: u2, task: t.a, {undo}}}\n  - {{id: s2, task: t.a, {undo}}}\n  - {{id: s3, task: t.a, {undo}}}"
    );
    let mut play = Play::start(&steps);
    for unit in ["u2", "u1"] {
        play.hand_over(unit);
    }
    for unit in ["s2", "s1", "s3"] {
        play.succeed(unit, "1");
    }
    play.cancel(false).unwrap();
    play.fire("grace:");
    let order = ["u2", "u1", "s3", "s1", "s2"];
    let before = play.history.len();
    assert!(
        play.lines().contains(&format!("CompensationStarted (workflow) {}", order.join(" "))),
        "{:#?}",
        play.lines()
    );
    // One by one.
    for (unit, next) in order.iter().zip(&order[1..]) {
        play.succeed(&format!("compensate:{unit}"), "1");
        assert_eq!(play.lines().last().unwrap(), &format!("StepScheduled compensate:{next} attempt=1"));
    }
    play.succeed("compensate:s2", "1");
    let end = ["CompensationCompleted (workflow)", "WorkflowCancelled compensation=completed"];
    assert_eq!(play.since(before).iter().rev().take(2).rev().collect::<Vec<_>>(), end);
}

#[test]
fn elements_of_one_for_are_undone_side_by_side_up_to_its_concurrency() {
    let steps = "
steps:
  - {id: first, task: t.b, compensate: {task: t.undo2, input: {}}}
  - {id: many, after: [first], for: {each: 'range(5)', concurrency: 2}, task: t.a, compensate: {task: t.undo,
        input: {}}}
  - {id: bad, after: [many], fail: {code: NO}}";
    let case = "mocks: {t.undo: {after: 10s}}, expect: {status: failed, calls: {t.undo: 5},
        includes: ['CompensationStarted (workflow) many[4] many[3] many[2] many[1] many[0] first']}";
    let story = shows(steps, case);
    let started: Vec<_> =
        (0..5).rev().map(|n| story.at(&format!("StepScheduled compensate:many[{n}] attempt=1"))).collect();
    let t = started[0];
    assert_eq!(started, [t, t, t + 10_000, t + 10_000, t + 20_000]);
    assert_eq!(story.at("StepScheduled compensate:first attempt=1"), t + 30_000);
}

#[test]
fn a_failed_undo_is_recorded_and_the_rest_runs() {
    let steps = "
steps:
  - {id: a, task: t.a, compensate: {task: t.undo, input: {}}}
  - {id: b, after: [a], task: t.b, compensate: {task: t.undo2, input: {}, retry: {max_attempts: 1}}}
  - {id: bad, after: [b], fail: {code: NO}}";
    let case = "mocks: {t.undo2: {error: {code: LOCKED}}}, expect: {status: failed, error: NO,
        includes: [CompensationFailed b LOCKED, 'StepSucceeded compensate:a', CompensationCompleted (workflow),
        WorkflowFailed NO compensation=failed]}";
    shows(steps, case);
}

#[test]
fn nothing_is_undone_twice() {
    let steps = "
steps:
  - id: outer
    on_failure: continue
    steps:
      - id: inner
        on_failure: continue
        steps:
          - {id: a, task: t.a, compensate: {task: t.undo, input: {of: a}}}
          - {id: bad, after: [a], fail: {code: NO}}
      - {id: b, after: [inner], task: t.b, compensate: {task: t.undo, input: {of: b}}}
      - {id: worse, after: [b], fail: {code: WORSE}}
  - {id: end, after: [outer], fail: {code: END}}";
    let case = "expect: {status: failed, error: END, inputs: {t.undo: [{of: a}, {of: b}]},
        includes: [CompensationStarted outer.inner outer.inner.a, CompensationStarted outer outer.b],
        excludes: [CompensationStarted (workflow)]}";
    shows(steps, case);
}

#[test]
fn a_child_with_an_undo_is_undone_by_that_alone() {
    let steps = "
workflows: {kid: {version: 1.0.0}}
steps:
  - {id: a, workflow: {name: kid}, compensate: {task: t.undo, input: {out: '${output}'}}}
  - {id: bad, after: [a], fail: {code: NO}}
---
name: kid
version: 1.0.0
tasks: {t.a: {version: 1.0.0}, t.undo2: {version: 1.0.0}}
steps: [{id: x, task: t.a, compensate: {task: t.undo2, input: {}}}]
result: 7";
    shows(steps, "expect: {status: failed, of: x, error: NO, inputs: {t.undo: [{out: 7}]}, calls: {t.undo2: 0}}");
}
