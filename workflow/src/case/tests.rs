//! A case that should fail, fails, and says why; a file that is none, is refused with its place.

use std::sync::Arc;

use super::{Case, Checks, Report, parse, run};
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
        "ends_by: expected 5 ms or earlier, came 20 ms",
        "not_before: expected 3600000 ms or later, came 20 ms",
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
        "start x at 0 ms: expected accepted, came refused EXECUTION_EXISTS
signal s at 1 ms: expected refused EXECUTION_FINISHED, came refused UNKNOWN_SIGNAL
query q at 1 ms: expected 1, came the workflow declares no such query
redrive at 3600000 ms: expected accepted, came refused NOT_REDRIVABLE
pause at 7200000 ms: expected accepted, came refused NOT_FOUND"
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
    assert!(text.contains("missing field `status`"), "{text}");
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
