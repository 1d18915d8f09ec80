//! `repeat` (L6).

use crate::help::{faults, shows};

#[test]
fn a_repeat_does_then_asks() {
    let steps = "steps: [{id: x, repeat: {until: 'true'}, task: t.a}]";
    shows(steps, "expect: {status: completed, calls: {t.a: 1}, includes: ['StepSucceeded x#1', StepSucceeded x]}");
}

#[test]
fn iterations_are_numbered_from_1_the_accumulator_moves_on_and_the_last_output_is_kept() {
    let steps = "
steps: [{id: x, repeat: {until: 'output.sum >= 6'}, task: t.a, input: {sum: '${coalesce(previous.sum, 0)}',
        n: '${iteration}'}}]
result: '${steps.x.output}'";
    let case = "mocks: {t.a: {output: {sum: '${input.sum + input.n}'}}}, expect: {status: completed, output: {sum: 6},
        inputs: {t.a: [{sum: 0, n: 1}, {sum: 1, n: 2}, {sum: 3, n: 3}]},
        includes: ['StepSucceeded x#1', 'StepSucceeded x#2', 'StepSucceeded x#3', StepSucceeded x]}";
    shows(steps, case);
}

#[test]
fn the_delay_grows_by_its_multiplier_up_to_its_maximum() {
    let steps = "
steps: [{id: x, repeat: {until: 'iteration == 5', delay: 1s, multiplier: 3, max_delay: 5s}, steps: [{id: a,
        compute: '1'}]}]";
    let story = shows(steps, "expect: {status: completed}");
    let opened: Vec<_> = (1..=5).map(|n| story.at(&format!("StepOpened x#{n}"))).collect();
    assert_eq!(opened, [0, 1_000, 4_000, 9_000, 14_000]);
}

#[test]
fn a_failed_iteration_fails_the_repeat() {
    let steps = "steps: [{id: x, repeat: {until: 'false'}, task: t.a, retry: {max_attempts: 1}}]";
    let case = "mocks: {t.a: [{times: 1}, {error: {code: NO}}]}, expect: {status: failed, error: NO,
        includes: ['StepFailed x#2 NO handled=false', StepClosing x failed, StepFailed x NO handled=false]}";
    shows(steps, case);
}

#[test]
fn beyond_max_is_repeat_limit() {
    let steps =
        |max: &str| format!("steps: [{{id: x, repeat: {{until: 'false'{max}}}, steps: [{{id: a, compute: '1'}}]}}]");
    let limit = |max: &str, last: u32| {
        let case = format!(
            "expect: {{status: failed, error: REPEAT_LIMIT, includes: ['StepSucceeded x#{last}',
            StepFailed x REPEAT_LIMIT],
             excludes: ['StepOpened x#{}']}}",
            last + 1
        );
        shows(&steps(max), &case);
    };
    limit(", max: 3", 3);
    limit("", 1_000);
    assert!(faults(&steps(", max: 10001")).contains("max"), "{}", faults(&steps(", max: 10001")));
    shows(&steps(", max: 10000").replace("false", "iteration == 2"), "expect: {status: completed}");
}
