//! L1: what a step is, kind by kind.

use serde_json::json as js;

use crate::help::*;

#[test]
fn a_step_has_an_id_of_its_form() {
    let with = |id: &str| format!("steps: [{{id: '{id}', sleep: 1s}}]\n");
    let (longest, too_long) = ("a".repeat(64), "a".repeat(65));
    for good in ["a", "_", "a_9", &longest] {
        compile(&with(good));
    }
    for bad in ["", "A", "9a", "a-b", "a.b", "ä", "a b", &too_long] {
        fault(&with(bad));
    }
    fault("steps: [{sleep: 1s}]\n");
}

#[test]
fn an_id_is_unique_in_the_whole_document() {
    let steps = "steps: [{id: x, sleep: 1s}, {id: box, steps: [{id: y, sleep: 1s}]}]\n";
    let with = |id: &str| format!("{steps}handlers: {{exit: [{{id: {id}, sleep: 1s}}]}}\n");
    compile(&with("z"));
    for taken in ["x", "box", "y"] {
        assert!(fault(&with(taken)).contains(taken));
    }
    fault(&steps.replace("id: y", "id: x"));
    fault(&steps.replace("id: y", "id: box"));
}

#[test]
fn a_step_has_exactly_one_kind() {
    let kinds = [
        "task: t",
        "workflow: {name: c, version: 1.0.0}",
        "await: {signal: s}",
        "sleep: 1s",
        "sleep_until: 5",
        "compute: '1'",
        "signal: {execution: e, name: n}",
        "steps: [{id: y, sleep: 1s}]",
        "fail: {code: E}",
        "continue_as_new: {input: {}}",
    ];
    let with =
        |kinds: &str| format!("tasks: {{t: {{version: 1.0.0}}}}\nsignals: {{s: {{}}}}\nsteps: [{{id: x{kinds}}}]\n");
    assert!(fault(&with("")).contains("a step needs one of"));
    for (index, kind) in kinds.iter().enumerate() {
        compile(&with(&format!(", {kind}")));
        for other in &kinds[..index] {
            let told = fault(&with(&format!(", {other}, {kind}")));
            assert!(told.contains("a step has one kind"), "{other} and {kind}: {told}");
        }
    }
}

#[test]
fn a_task_yields_what_the_worker_says() {
    let body = r#"
tasks: {payments.charge: {version: 1.0.0}}
steps: [{id: x, task: payments.charge, input: {amount: "${input.n}"}, language: python, timeout: 1m}]
result: "${steps.x.output}"
"#;
    let mut driven = Driven::start_with(body, r#"{"n": 5}"#).unwrap();
    let scheduled = driven.last_of("StepScheduled");
    assert_eq!(scheduled["queue"], js!({"task": "payments.charge", "version": "1.0.0", "language": "python"}));
    assert_eq!(scheduled["input"], js!({"amount": 5}));
    driven.now_ms = 30_000;
    let token = driven.hand_over("x");
    assert_eq!(driven.last_of("StepDispatched")["deadline_ms"], 90_000, "counted from the hand-over");
    driven.complete(&token, r#"{"id": "c1"}"#);
    assert_eq!(driven.result(), r#"{"id":"c1"}"#);
}

#[test]
fn a_child_yields_its_output() {
    let source = r#"
name: a
version: 1.0.0
workflows: {double: {version: 1.0.0}}
steps:
  - {id: x, workflow: {name: double}, input: {n: 4}}
  - {id: y, workflow: {name: double, version: 1.0.0}, input: {n: "${steps.x.output}"}}
result: "${steps.y.output}"
---
{name: double, version: 1.0.0, steps: [{id: z, compute: "input.n * 2"}], result: "${steps.z.output}"}
"#;
    shows(source.trim_start(), "expect: {status: completed, output: 16, of_lines: x.x, includes: [WorkflowCompleted]}");
}

#[test]
fn a_wait_yields_the_payload() {
    let body = "signals: {s: {}}\nsteps: [{id: x, await: {signal: s}}]\nresult: \"${steps.x.output}\"\n";
    shows(body, "signals: [{at: 1h, name: s, payload: {by: Ada}}], expect: {status: completed, output: {by: Ada}}");
}

#[test]
fn a_sleep_takes_its_time_and_yields_null() {
    let body = "steps: [{id: x, sleep: 10m}]\nresult: {x: \"${steps.x.output}\", status: \"${steps.x.status}\"}\n";
    let output = "{x: null, status: succeeded}";
    shows(body, &format!("expect: {{status: completed, output: {output}, not_before: 10m, ends_by: 10m}}"));
}

/// A case begins at 0 ms.
#[test]
fn sleep_until_takes_a_time_as_text_or_ms_and_what_is_past_is_at_once() {
    let body = "steps: [{id: x, sleep_until: \"${input.at}\"}]\nresult: {x: \"${steps.x.output}\"}\n";
    for (moment, wakes) in [("'1970-01-01T01:00:00Z'", "1h"), ("'1970-01-01T03:00:00+02:00'", "1h"), ("90000", "90s")] {
        let expected = format!("{{status: completed, output: {{x: null}}, not_before: {wakes}, ends_by: {wakes}}}");
        shows(body, &format!("input: {{at: {moment}}}, expect: {expected}"));
    }
    for past in ["'1969-12-31T00:00:00Z'", "-5", "0"] {
        shows(body, &format!("input: {{at: {past}}}, expect: {{status: completed, ends_by: 0}}"));
    }
    shows(body, "input: {at: soon}, expect: {status: failed, error: EXPRESSION_ERROR}");
    let fixed = "steps: [{id: x, sleep_until: '1970-01-01T00:00:05Z'}]\n";
    shows(fixed, "expect: {status: completed, not_before: 5s, ends_by: 5s}");
}

#[test]
fn a_computation_yields_its_value() {
    let body = r#"
tasks: {t: {version: 1.0.0}}
steps:
  - {id: ship, task: t}
  - {id: total, compute: "steps.ship.output.map(x, x.price).sum()"}
result: "${steps.total.output}"
"#;
    shows(body, "mocks: {t: {output: [{price: 2}, {price: 5.5}]}}, expect: {status: completed, output: 7.5}");
}

#[test]
fn a_block_yields_its_result() {
    let body = r#"
steps:
  - {id: box, steps: [{id: y, compute: "3"}], result: {n: "${steps.y.output}"}}
  - {id: bare, steps: [{id: z, compute: "3"}]}
result: ["${steps.box.output.n}", "${steps.bare.output}"]
"#;
    assert_eq!(Driven::start(body).result(), "[3,null]");
}

#[test]
fn a_fail_is_an_unhandled_failure_of_the_authors() {
    let body = r#"
steps:
  - {id: x, fail: {code: TOO_MANY, message: "${input.n} are too many", details: {n: "${input.n}"}}}
  - {id: y, after: [x], sleep: 1s}
"#;
    let driven = Driven::start_with(body, r#"{"n": 7}"#).unwrap();
    let failed = driven.last_of("StepFailed");
    assert_eq!((&failed["handled"], &failed["error"]["code"]), (&js!(false), &js!("TOO_MANY")));
    assert_eq!(failed["error"]["message"], "7 are too many");
    assert_eq!(failed["error"]["details"], js!({"n": 7}));
    assert_eq!(driven.last_of("WorkflowFailed")["error"]["code"], "TOO_MANY");
    assert!(!driven.lines().iter().any(|line| line.ends_with(" y")));
}

#[test]
fn the_code_of_a_fail_has_its_form_and_is_none_of_orbits() {
    let with = |code: &str| format!("steps: [{{id: x, fail: {{code: '{code}'}}}}]\n");
    let (longest, too_long) = ("A".repeat(64), "A".repeat(65));
    for good in ["E", "E_1", &longest] {
        compile(&with(good));
    }
    for bad in ["", "e", "1E", "_E", "A-B", &too_long] {
        fault(&with(bad));
    }
    for own in workflow::event::CODES {
        assert!(fault(&with(own)).contains(own), "{own}");
    }
}

#[test]
fn the_run_goes_on_in_a_new_one_from_the_root_alone() {
    let body = r#"
steps:
  - {id: more, when: "input.n < 3", continue_as_new: {input: {n: "${input.n + 1}"}}}
  - {id: all, when: "input.n >= 3", compute: "input.n"}
result: "${steps.all.output}"
"#;
    shows(
        body,
        "input: {n: 1}, expect: {status: completed, output: 3, runs: 3, includes: [WorkflowContinuedAsNew run=2]}",
    );
    fault("steps: [{id: box, steps: [{id: x, continue_as_new: {input: {}}}]}]\n");
    fault("steps: [{id: y, sleep: 1s}]\nhandlers: {exit: [{id: x, continue_as_new: {input: {}}}]}\n");
    fault("steps: [{id: x, continue_as_new: {input: {}}}, {id: y, after: [x], sleep: 1s}]\n");
    fault("steps: [{id: x, continue_as_new: {input: {}}}, {id: y, compute: steps.x.status}]\n");
}
