//! `for` (L6).

use crate::help::{Play, faults, shows};

#[test]
fn each_must_yield_a_list() {
    for each in ["null", "'text'", "{'a': 1}", "7"] {
        let steps = format!("steps: [{{id: x, for: {{each: \"{each}\"}}, task: t.a}}]");
        let case = "expect: {status: failed, error: EXPRESSION_ERROR, calls: {t.a: 0}, excludes: [StepFanOut]}";
        shows(&steps, case);
    }
}

#[test]
fn items_are_recorded_once() {
    let steps = "
steps:
  - {id: r, compute: '[1, 2]'}
  - {id: x, for: {each: 'steps.r.output', concurrency: 1}, task: t.a, input: {n: '${item}'}, retry: {max_attempts: 2}}";
    let mut play = Play::start(steps);
    assert_eq!(play.last_of("StepFanOut")["items"], serde_json::json!([1, 2]));
    let token = play.hand_over("x[0]");
    play.fail_for_now(&token, "NO");
    play.fire("x[0]");
    play.succeed("x[0]", "1");
    play.succeed("x[1]", "1");
    assert_eq!(play.lines().iter().filter(|line| line.starts_with("StepFanOut")).count(), 1);
}

#[test]
fn its_own_success_carries_no_output_it_is_read_from_the_units() {
    let mut play = Play::start("steps: [{id: x, for: {each: '[1, 2]'}, task: t.a}]\nresult: '${steps.x.output}'");
    play.succeed("x[1]", "\"b\"");
    play.succeed("x[0]", "\"a\"");
    let own = play.last_of("StepSucceeded");
    assert_eq!(own["step"], "x");
    assert!(own.get("output").is_none(), "{own}");
    assert_eq!(play.output(), r#"["a","b"]"#);
}

#[test]
fn an_element_that_succeeds_after_the_closing_reads_null() {
    let steps = "
steps: [{id: x, for: {each: '[1, 2]', done_when: 'succeeded == 1'}, task: t.a, compensate: {task: t.undo, input: {}}}]
result: '${steps.x.output}'";
    let mut play = Play::start(steps);
    let late = play.hand_over("x[1]");
    play.succeed("x[0]", "1");
    let closing = play.last_of("StepClosing");
    assert!(closing.get("output").is_none(), "{closing}");
    assert!(play.complete(&late, "2").accepted);
    play.succeed("compensate:x[1]", "1");
    assert_eq!(play.output(), "[1,null]");
}

#[test]
fn units_are_numbered_from_0_and_outputs_stand_in_item_order() {
    let steps = "
steps: [{id: x, for: {each: \"['a', 'b', 'c']\", max_failures: 1}, task: t.a, input: {n: '${item}'},
        retry: {max_attempts: 1}}]
result: {out: '${steps.x.output}', units: '${steps.x.units}'}";
    let case = "mocks: {t.a: [{when: \"input.n == 'b'\", error: {code: NO}}, {when: \"input.n == 'a'\", after: 5s,
        output: 1},
        {output: 3}]}, expect: {status: completed, includes: ['StepFailed x[1]', 'StepSucceeded x[2]',
        'StepSucceeded x[0]']}";
    shows(steps, case);
    let mut play = Play::start(steps);
    play.succeed("x[2]", "3");
    play.give_up("x[1]", "NO");
    play.succeed("x[0]", "1");
    let output: serde_json::Value = serde_json::from_str(play.output()).unwrap();
    assert_eq!(output["out"], serde_json::json!([1, null, 3]));
    let error = output["units"][1]["error"].clone();
    assert_eq!(error["code"], "NO");
    let unit = |index: u32, status: &str, output: Option<u32>, error: serde_json::Value| {
        serde_json::json!({"index": index, "status": status, "output": output,
        "error": error})
    };
    let none = serde_json::Value::Null;
    let units = [
        unit(0, "succeeded", Some(1), none.clone()),
        unit(1, "failed", None, error),
        unit(2, "succeeded", Some(3), none),
    ];
    assert_eq!(output["units"], serde_json::json!(units));
}

#[test]
fn concurrency_counts_elements_from_scheduled_to_resolved_also_while_they_wait_for_a_retry() {
    let steps = "steps: [{id: x, for: {each: 'range(3)', concurrency: 2}, task: t.a}]";
    let mut play = Play::start(steps);
    let scheduled = |play: &Play| play.lines().iter().filter(|line| line.starts_with("StepScheduled x[2]")).count();
    let token = play.hand_over("x[0]");
    play.fail_for_now(&token, "NO");
    assert_eq!(play.lines().last().unwrap(), "RetryScheduled x[0] next=2");
    assert_eq!(scheduled(&play), 0, "x[0] is still in flight");
    play.succeed("x[1]", "1");
    assert_eq!(scheduled(&play), 1);
}

#[test]
fn concurrency_is_at_most_10_000() {
    let steps = |n: &str| format!("steps: [{{id: x, for: {{each: 'range(2)', concurrency: {n}}}, task: t.a}}]");
    shows(&steps("10000"), "expect: {status: completed}");
    assert!(faults(&steps("10001")).contains("concurrency"), "{}", faults(&steps("10001")));
    shows(&steps("'${5000 + 5001}'"), "expect: {status: failed, error: EXPRESSION_ERROR}");
}

#[test]
fn as_defaults_to_item() {
    let steps = "
steps:
  - {id: x, for: {each: '[7]'}, compute: 'item'}
  - {id: z, for: {each: '[8]', as: q}, compute: 'q'}";
    let in_blocks = steps.replace("compute: 'item'", "steps: [{id: x1, compute: item}], result: '${steps.x1.output}'");
    let in_blocks = in_blocks.replace("compute: 'q'", "steps: [{id: z1, compute: q}], result: '${steps.z1.output}'");
    let body = format!("{in_blocks}\nresult: ['${{steps.x.output}}', '${{steps.z.output}}']");
    shows(&body, "expect: {status: completed, output: [[7], [8]]}");
}

#[test]
fn max_failures_tolerates_that_many_and_one_more_closes_with_its_error_and_index() {
    // Of 10 elements, so many fail.
    for (max_failures, failing, good) in
        [("0", 1, false), ("2", 2, true), ("2", 3, false), ("'25%'", 2, true), ("'25%'", 3, false), ("all", 10, true)]
    {
        let steps = format!(
            "steps: [{{id: x, for: {{each: 'range(10)', concurrency: 1, max_failures: {max_failures}}}, task: t.a,
             retry: {{max_attempts: 1}}, input: {{n: '${{item}}'}}}}]\nresult: '${{steps.x.status}}'"
        );
        let mocks = format!("mocks: {{t.a: [{{when: 'input.n < {failing}', error: {{code: NO}}}}, {{}}]}}");
        let last = failing - 1;
        let expect = if good {
            format!("{{status: completed, output: succeeded, includes: ['StepFailed x[{last}] NO handled=true']}}")
        } else {
            format!(
                "{{status: failed, error: NO, includes: ['StepFailed x[{last}] NO handled=false', StepClosing x failed],
                 events_like: [{{type: StepFailed, step: x, error: {{code: NO, message: '',
                 retryable: true, details: {{index: {last}}}}}}}]}}"
            )
        };
        shows(&steps, &format!("{mocks}, expect: {expect}"));
    }
}

#[test]
fn done_when_of_a_for_sees_the_counts_and_the_last_element() {
    for done_when in [
        "succeeded == 1 && failed == 1 && total == 4",
        "last.index == 1 && last.status == 'failed' && last.error.code == 'NO' && last.output == null",
        "succeeded + failed == 2",
    ] {
        let steps = format!(
            "steps: [{{id: x, for: {{each: 'range(4)', concurrency: 1, max_failures: all, done_when: \"{done_when}\"}},
             task: t.a, retry: {{max_attempts: 1}}, input: {{n: '${{item}}'}}}}]\nresult: '${{steps.x.output}}'"
        );
        let case = "mocks: {t.a: [{when: 'input.n == 1', error: {code: NO}}, {output: 7}]}, expect: {status: completed,
            output: [7, null, null, null], includes: ['StepFailed x[1] NO handled=true', StepClosing x done],
            calls: {t.a: 2}}";
        shows(&steps, case);
    }
    let last = "steps: [{id: x, for: {each: 'range(4)', concurrency: 1, done_when: 'last.output == 7'}, task: t.a}]";
    shows(last, "mocks: {t.a: {output: 7}}, expect: {status: completed, calls: {t.a: 1}}");
}

#[test]
fn an_empty_list_succeeds_with_an_empty_list() {
    let steps = "steps: [{id: x, for: {each: '[]'}, task: t.a}]\nresult: '${steps.x.output}'";
    shows(
        steps,
        "expect: {status: completed, output: [], calls: {t.a: 0}, includes: [StepFanOut x 0 items, StepSucceeded x]}",
    );
}

#[test]
fn units_read_null_before_the_list_is_recorded() {
    let steps = "
queries: {units: 'steps.x.units'}
steps: [{id: n, sleep: 1m}, {id: x, after: [n], for: {each: '[1]'}, task: t.a}]";
    let case = "queries: [{at: 30s, name: units, value: null}, {at: 2m, name: units, value: [{index: 0,
        status: succeeded, output: {}, error: null}]}], expect: {status: completed}";
    shows(steps, case);
}
