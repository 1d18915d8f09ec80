//! A case that should fail, fails, and says why; a file that is none, is refused with its place.

use std::sync::Arc;

use super::{Case, Checks, Report, parse, parse_for, run};
use crate::definition::Definition;
use crate::document::{self, Format};

const DOCUMENT: &str = "
name: two
version: 1.0.0
tasks:
  a.do: {version: 1.0.0}
  b.do: {version: 1.0.0}
steps:
  - {id: a, task: a.do, input: {n: \"${input.n}\"}, retry: {max_attempts: 1}}
  - {id: b, task: b.do, after: [a]}
result: {a: \"${steps.a.output}\"}
";

fn definitions(source: &str) -> Vec<Arc<Definition>> {
    let compiled = document::compile(source, Format::Yaml).unwrap_or_else(|faults| panic!("{faults}"));
    compiled.into_iter().map(|compiled| Arc::new(compiled.definition)).collect()
}

fn only(cases: &str) -> Case {
    parse(cases).unwrap_or_else(|faults| panic!("{faults}")).remove(0)
}

fn report(document: &str, cases: &str) -> Report {
    run(&only(cases), &definitions(document), Checks::Engine)
}

fn differences(cases: &str) -> String {
    report(DOCUMENT, cases).differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn what_came_otherwise_is_told_with_the_nearest_lines() {
    let text = differences(
        "- {name: x, mocks: {a.do: {error: {code: E1, message: no}}}, expect: {status: completed, output: 1, \
         includes: [StepFailed a E2], excludes: [WorkflowFailed], calls: {b.do: 1}, events: 3}}",
    );
    assert_eq!(
        text,
        "status: expected completed, came failed (E1: no)
output: expected 1, came null
events: expected 3, came 8
includes: expected \"StepFailed a E2\", in this order, came no such line
  nearest:
          0.010s x StepFailed a E1 handled=false
excludes: expected never \"WorkflowFailed\", came 1 times
  nearest:
          0.010s x WorkflowFailed E1 compensation=none
calls of b.do: expected 1, came 0"
    );
}

#[test]
fn the_order_of_lines_counts() {
    let text = differences("- {name: x, expect: {status: completed, includes: [StepSucceeded b, StepSucceeded a]}}");
    assert!(text.contains("only earlier than what stands before it in the list"), "{text}");
    assert!(text.contains("0.010s x StepSucceeded a"), "{text}");
}

#[test]
fn inputs_counts_times_and_batches_are_compared() {
    let text = differences(
        "- {name: x, input: {n: 5}, expect: {status: COMPLETED, inputs: {a.do: [{n: 6}]}, count: {StepDispatched: 3}, \
         ends_by: 5ms, not_before: 1h, first_batches: [7], runs: 2, events_like: [{type: StepScheduled, step: c}]}}",
    );
    for part in [
        "inputs of a.do: expected [{\"n\":6}], came [{\"n\":5}]",
        "count of \"StepDispatched\": expected 3, came 2",
        "ends_by: expected 5ms or earlier, came 20ms",
        "not_before: expected 1h or later, came 20ms",
        "first_batches: expected [7], came [3]",
        "runs: expected 2, came 1",
        "events_like: expected {step: \"c\", type: \"StepScheduled\"}, came none, in this order",
    ] {
        assert!(text.contains(part), "{part} is missing in:\n{text}");
    }
}

#[test]
fn answers_of_callers_are_compared() {
    let text = differences(
        "- {name: x, signals: [{at: 1, name: s, refused: EXECUTION_FINISHED}], redrive: [{at: 1h}], \
         pause: {at: 2h, to: \"y\"}, queries: [{at: 1ms, name: q, value: 1}], starts: [{id: x}, {id: x}], \
         expect: {status: completed, of: x}}",
    );
    assert_eq!(
        text,
        "start x at 0s: expected accepted, came refused EXECUTION_EXISTS
signal s at 1ms: expected refused EXECUTION_FINISHED, came refused UNKNOWN_SIGNAL
query q at 1ms: expected 1, came the workflow declares no such query
redrive at 1h: expected accepted, came refused NOT_REDRIVABLE (nothing to redrive: \
         only a failed or timed-out execution goes on)
pause at 2h: expected accepted, came refused NOT_FOUND"
    );
}

#[test]
fn a_document_that_never_ends_stops_at_a_bound() {
    let document = "{name: echo, version: 1.0.0, signals: {s: {}}, steps: [{id: w, await: {signal: s}}, \
                    {id: a, continue_as_new: {input: {}}, after: [w]}, {id: t, signal: {execution: x, name: s}}]}";
    let report = report(document, "- {name: x, signals: [{at: 1, name: s}], expect: {status: completed}}");
    let text = report.differences[0].to_string();
    assert!(text.contains("an execution that ends by itself, or `until`"), "{text}");
}

#[test]
fn a_mock_that_cannot_be_is_told() {
    let text = differences("- {name: x, mocks: {a.do: {error: {code: INTERNAL}}}, expect: {status: failed}}");
    assert!(
        text.starts_with("the mock of a: expected an outcome, came INTERNAL is one of Orbit's own codes"),
        "{text}"
    );
    let text = differences("- {name: x, mocks: {a.do: {when: input.n > 1}}, expect: {status: completed}}");
    assert!(text.starts_with("the mock of a: expected an outcome, came "), "{text}");
}

#[test]
fn a_start_that_is_refused_has_no_end() {
    let document = DOCUMENT.replace("tasks:", "input: {type: object, required: [n]}\ntasks:");
    let told = |case: &str| report(&document, case).differences.iter().map(ToString::to_string).collect::<Vec<_>>();
    let starts = "starts: [{id: x, input: {}, refused: INVALID_INPUT}]";
    for expect in ["", ", expect: {}", ", expect: {calls: {a.do: 0}, excludes: [StepScheduled]}"] {
        assert_eq!(told(&format!("- {{name: x, {starts}{expect}}}")), [""; 0], "{expect}");
    }
    let text = told("- {name: x, starts: [{id: x, input: {n: 1}, refused: INVALID_INPUT}]}");
    assert_eq!(text, ["start x at 0s: expected refused INVALID_INPUT, came accepted"]);
    let text = told(&format!("- {{name: x, {starts}, expect: {{output: 1}}}}"));
    assert_eq!(text, ["the end: expected an execution x, came none"]);
}

#[test]
fn a_file_that_is_none_is_refused_with_its_place() {
    let refused = |cases: &str| parse(cases).map(|_| ()).unwrap_err().to_string();
    let text = refused("- name: x\n  mocks:\n    a.do: [{}, {tims: 2}]\n  expect: {status: completed}");
    assert!(
        text.starts_with("3:23: /0/mocks/a.do/1/tims: case \"x\": unknown field `tims`, expected one of"),
        "{text}"
    );
    let text = refused("- {name: x, expect: {status: completed}, cancel: soon}");
    assert!(text.starts_with("1:50: /0/cancel: case \"x\": `soon` is no duration"), "{text}");
    let text = refused("- {name: x, expect: {}}");
    assert!(text.starts_with("1:21: /0/expect: case \"x\": missing field `status`; only where"), "{text}");
    let text = refused("- {name: x, starts: [{id: x, refused: INVALID_INPUT}, {id: y}]}");
    assert!(text.starts_with("1:3: /0: case \"x\": missing field `expect`; only where"), "{text}");
    let text = refused("name: x");
    assert!(text.contains("a cases file is a list of cases"), "{text}");
    let text = refused("- {name: x, expect: {status: a}, mocks: {a: {output: {k: \"${inputs.n}\"}}}}");
    assert!(text.contains("`inputs` is unknown here; an outcome sees input, attempt, unit and call"), "{text}");
    let text = refused("- {name: x, expect: {status: a}}\n- {name: x, expect: {status: a}}");
    assert!(text.contains("two cases are called \"x\""), "{text}");
}

#[test]
fn what_is_due_during_a_pause_is_due_on_resume() {
    let report = report(
        DOCUMENT,
        "- {name: x, mocks: {a.do: [{times: 1, lost: 2s}, {}], b.do: [{times: 1, error: {code: TIMEOUT}}, {}]}, \
         pause: [{at: 1s}, {at: 60015ms}], resume: [{at: 60s}, {at: 90s}], expect: {status: completed, \
         calls: {a.do: 2, b.do: 2}}}",
    );
    assert_eq!(report.differences, []);
    let at = |line: &str| report.timeline.iter().find(|moment| moment.line == line).map(|moment| moment.at_ms);
    assert_eq!(at("StepAttemptUncertain a worker_lost"), Some(60_000));
    assert_eq!(at("StepAttemptFailed b TIMEOUT unknown"), Some(90_000));
}

#[test]
fn an_outcome_is_chosen_once_though_a_pause_comes_between() {
    let report = report(
        DOCUMENT,
        "- {name: x, mocks: {a.do: [{times: 1, pickup: 10s, output: 1}, {error: {code: E1}}]}, pause: 5s, resume: 60s, \
         expect: {status: completed, output: {a: 1}, calls: {a.do: 1}, not_before: 60s}}",
    );
    assert_eq!(report.differences.iter().map(|difference| &*difference.what).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn a_child_needs_its_document() {
    let parent = "{name: p, version: 1.0.0, workflows: {c: {version: 2.0.0}}, steps: [{id: k, workflow: {name: c}}]}";
    let report = report(parent, "- {name: x, expect: {status: completed}}");
    let text = report.differences[0].to_string();
    assert_eq!(text, "the child of k: expected c 2.0.0 among the documents of the case, came none");
}

/// The one fault of a case on [`DOCUMENT`].
fn slip(case: &str) -> String {
    let refused = parse_for(&format!("- {{name: x, {case}}}"), &definitions(DOCUMENT));
    let faults = refused.map(|_| ()).expect_err(case);
    assert_eq!(faults.list().len(), 1, "{faults}");
    faults.to_string()
}

#[test]
fn names_that_the_document_does_not_have_are_refused_with_their_place() {
    let cases = "- name: x
  input: {}
  mocks:
    a.do: {output: 1}
    b.doo: {output: 1}
  expect: {status: completed}
";
    let faults = parse_for(cases, &definitions(DOCUMENT)).map(|_| ()).unwrap_err().to_string();
    assert_eq!(faults, "5:5: /0/mocks/b.doo: the workflow uses no task b.doo (did you mean `b.do`?)");
    for (expect, said) in [
        ("calls: {a.dp: 1}", "/0/expect/calls/a.dp: the workflow uses no task a.dp (did you mean"),
        ("inputs: {zzzzz: []}", "/0/expect/inputs/zzzzz: the workflow uses no task zzzzz"),
        ("includes: [StepSucceeded a, StepSuceeded b]", "/0/expect/includes/1: there is no event of the type"),
        ("excludes: [StepSucceeded compensate:c]", "/0/expect/excludes/0: the workflow has no step c"),
        ("count: {\"StepSucceeded a.q#2\": 1}", "/0/expect/count/StepSucceeded a.q#2: the workflow has no step q"),
        ("includes: [CompensationStarted (workflow) a c]", "the workflow has no step c"),
        ("includes: [WorkflowRedriven retry c]", "the workflow has no step c"),
        ("includes: [SignalReceived go]", "the workflow declares no signal go"),
    ] {
        let text = slip(&format!("expect: {{status: completed, {expect}}}"));
        assert!(text.contains(said), "{said} is not in {text}");
    }
    for (case, said) in [
        ("expect: {status: complete}", "/0/expect/status: no execution is ever complete; cancelled, completed, "),
        ("expect: {status: running}, signals: [{at: 1, name: go}]", "/0/signals/0/name: the workflow declares no "),
        ("expect: {status: running}, queries: [{at: 1, name: q, value: 1}]", "/0/queries/0/name: the workflow "),
        ("expect: {status: running}, workflow: to", "/0/workflow: no document beside the cases is called to"),
        ("expect: {status: running}, starts: [{id: x, workflow: to}]", "/0/starts/0/workflow: no document "),
        ("expect: {status: running}, redrive: [{at: 1, steps: [c]}]", "/0/redrive/0/steps/0: the workflow has no "),
    ] {
        let text = slip(case);
        assert!(text.contains(said), "{said} is not in {text}");
    }
}

#[test]
fn names_that_stand_for_more_than_a_step_are_known() {
    let case = "- {name: x, mocks: {orbit.http.request: {}}, signals: [{at: 1, name: z, refused: UNKNOWN_SIGNAL}], \
                expect: {status: Completed, excludes: [StepClosing (workflow) failed, 'TimerFired grace:', \
                'TimerFired deadline:a', 'StepSucceeded compensate:a[3].b#2~1', HandlerStarted on:failure, \
                WorkflowFailed E1, 'HandlerStarted on:event:go.on@5', 'StepSucceeded on:exit.a']}}";
    parse_for(case, &definitions(DOCUMENT)).unwrap_or_else(|faults| panic!("{faults}"));
}

#[test]
fn a_signal_that_nobody_takes_fails_the_case() {
    let text = differences(
        "- {name: x, signals: [{at: 1ms, name: goo}, {at: 1h, name: goo}], \
                            expect: {status: completed}}",
    );
    assert_eq!(
        text,
        "signal goo at 1ms: expected accepted, came refused UNKNOWN_SIGNAL
signal goo at 1h: expected accepted, came refused UNKNOWN_SIGNAL"
    );
    let text = differences("- {name: x, cancel: {at: 1h, to: z}, expect: {status: completed}}");
    assert_eq!(text, "cancel at 1h: expected accepted, came refused NOT_FOUND");
    assert_eq!(differences("- {name: x, cancel: 1h, expect: {status: completed}}"), "", "it may come too late");
}

#[test]
fn a_start_that_is_refused_says_why_and_nothing_else() {
    let document = "{name: n, version: 1.0.0, input: {type: object, required: [k]}, steps: [{id: a, compute: '1'}]}";
    let told = |cases: &str| {
        let differences = report(document, cases).differences;
        differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let text = told("- {name: x, expect: {status: completed, includes: [StepSucceeded a], events: 3}}");
    let begin = "start x at 0s: expected accepted, came refused INVALID_INPUT (the input breaks the contract: ";
    assert!(text.starts_with(begin) && text.lines().count() == 1, "{text}");
    let text = told("- {name: x, workflow: m, expect: {status: completed, output: 1}}");
    let said = "start x at 0s: expected accepted, came refused WORKFLOW_NOT_FOUND (the documents here are n)";
    assert_eq!(text, said);
}

#[test]
fn what_a_running_execution_waits_for_is_told() {
    let document = "
name: w
version: 1.0.0
signals: {go: {}}
tasks: {t.a: {version: 1.0.0}, t.b: {version: 1.0.0}}
steps:
  - {id: box, steps: [{id: a, task: t.a}]}
  - {id: b, task: t.b, retry: {max_attempts: 1}, on_failure: [{then: suspend}]}
  - {id: g, await: {signal: go}}
  - {id: n, sleep: 1h}
  - {id: n2, sleep: 2h}
";
    let mocks = "mocks: {t.a: {never: true}, t.b: {error: {code: E1}}}";
    let text =
        report(document, &format!("- {{name: x, {mocks}, expect: {{status: completed}}}}")).differences[0].clone();
    assert_eq!(
        text.came,
        "running, waiting for box.a (its mock never answers), b (suspended: E1), g (no signal go has come)"
    );
    let cut = format!("- {{name: x, {mocks}, until: 30m, pause: 20m, expect: {{status: completed}}}}");
    assert_eq!(
        report(document, &cut).differences[0].came,
        "running, waiting for a resume (it is paused), box.a (its mock has not answered yet), b (suspended: E1), \
         g (no signal go has come), n (asleep), 1 more"
    );
}

#[test]
fn a_call_that_no_outcome_fits_is_noted() {
    let document = "{name: n, version: 1.0.0, tasks: {t.a: {version: 1.0.0}}, \
                    steps: [{id: a, for: {each: '[1, 2, 3]', as: i}, task: t.a}]}";
    let report = report(document, "- {name: x, mocks: {t.a: [{times: 1}]}, expect: {status: completed}}");
    let note = "call 2 of t.a matched no outcome of its mock and succeeded with {}, so did another";
    assert_eq!(report.notes, [note]);
    assert!(report.passed());
}

#[test]
fn the_time_of_a_case_is_that_of_the_end() {
    let report = report(DOCUMENT, "- {name: x, mocks: {a.do: {sent: 2, again: 1h}}, expect: {status: completed}}");
    assert_eq!((report.simulated_ms, report.passed()), (20, true));
}

#[test]
fn values_stand_beside_lines() {
    let long = "y".repeat(300);
    let report = report(
        DOCUMENT,
        &format!(
            "- {{name: x, input: {{n: 5}}, mocks: {{a.do: {{output: {long}}}, b.do: {{error: {{code: E1, \
                  message: no, retryable: false}}}}}}, expect: {{status: failed}}}}"
        ),
    );
    let beside = |line: &str| report.timeline.iter().find(|moment| moment.line.starts_with(line)).map(|m| &*m.values);
    assert_eq!(beside("StepScheduled a"), Some("input={\"n\":5}"));
    assert_eq!(beside("StepSucceeded a"), Some(format!("output=\"{}…", "y".repeat(119)).as_str()));
    assert_eq!(beside("StepFailed b"), Some("message=\"no\""));
    assert_eq!(beside("StepDispatched a"), Some(""));
}
