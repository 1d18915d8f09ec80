//! L3: what lets a step start, and when an attempt is tried again.

use workflow::command::{Expiry, Redrive};
use workflow::event::{RedriveAction, TaskError};
use workflow::key;

use crate::help::*;

#[test]
fn succeeded_skipped_and_handled_failures_let_dependants_go() {
    let body = r#"
steps:
  - {id: good, compute: "1"}
  - {id: left, when: "false", compute: "1"}
  - {id: bad, compute: "1 / 0", on_failure: continue}
  - {id: all, after: [good, left, bad], compute: "1"}
  - {id: stuck, compute: "1 / 0", on_failure: suspend}
  - {id: never, after: [stuck], compute: "1"}
  - {id: failed, after: [all], compute: "1 / 0"}
  - {id: none, after: [failed], compute: "1"}
"#;
    let lines = "includes: [StepSucceeded all, StepFailed failed EXPRESSION_ERROR handled=false], \
                 excludes: [StepSucceeded never, StepSucceeded none]";
    shows(body, &format!("expect: {{status: failed, {lines}}}"));
}

const DIAMOND: &str = r#"
tasks: {t: {version: 1.0.0}}
steps:
  - {id: a, task: t}
  - {id: b, task: t}
  - {id: c, task: t, after: [a, b]}
"#;

#[test]
fn a_step_is_ready_when_all_its_dependencies_are_resolved() {
    let mut driven = Driven::start(DIAMOND);
    driven.do_it("a", "{}");
    assert!(!driven.lines().contains(&"StepScheduled c attempt=1".to_owned()), "only one of two");
    driven.do_it("b", "{}");
    assert_eq!(driven.lines().last().unwrap(), "StepScheduled c attempt=1");
}

#[test]
fn ready_steps_run_side_by_side() {
    let mut driven = Driven::start(DIAMOND);
    assert_eq!(driven.lines()[2..], ["StepScheduled a attempt=1", "StepScheduled b attempt=1"]);
    let (a, b) = (driven.hand_over("a"), driven.hand_over("b"));
    driven.complete(&b, "{}");
    driven.complete(&a, "{}");
    driven.do_it("c", "{}");
    assert_eq!(driven.result(), "null");
}

#[test]
fn after_an_unhandled_failure_nothing_more_of_the_block_is_scheduled() {
    let body = r#"
tasks: {t: {version: 1.0.0}}
steps:
  - id: box
    on_failure: continue
    steps:
      - {id: first, compute: "1"}
      - {id: bad, after: [first], fail: {code: E}}
      - {id: sibling, after: [first], task: t}
      - {id: dependant, after: [bad], task: t}
  - {id: outside, task: t, after: [box]}
"#;
    let lines = "includes: [StepFailed box.bad E, StepClosing box failed, StepFailed box E handled=true]";
    shows(body, &format!("expect: {{status: completed, calls: {{t: 1}}, count: {{StepScheduled: 1}}, {lines}}}"));
}

#[test]
fn a_cancelled_step_lets_nobody_go() {
    let body = r#"
tasks: {t: {version: 1.0.0}}
steps:
  - id: box
    done_when: "steps.won.status == 'succeeded'"
    steps:
      - {id: won, sleep: 1s}
      - {id: lost, sleep: 1h}
      - {id: dependant, after: [lost], compute: "1"}
      - {id: in_grace, task: t, compensate: {task: t}}
      - {id: later, after: [in_grace], compute: "1"}
"#;
    let lines = "includes: [StepClosing box done, StepCancelled box.lost, StepCancelled box.in_grace, \
                 StepSucceeded box], \
                 excludes: [StepSucceeded box.dependant, StepSucceeded box.later]";
    shows(body, &format!("mocks: {{t: [{{times: 1, never: true}}, {{}}]}}, expect: {{status: completed, {lines}}}"));
}

#[test]
fn a_skip_does_not_spread() {
    let body = r#"
steps:
  - {id: x, when: "false", compute: "1"}
  - {id: y, compute: "[steps.x.status, steps.x.output]"}
  - {id: z, after: [x, y], compute: "2"}
result: ["${steps.x.output}", "${steps.y.output}", "${steps.z.output}"]
"#;
    let driven = Driven::start(body);
    assert_eq!(driven.result(), r#"[null,["skipped",null],2]"#);
    assert_eq!(driven.lines().iter().filter(|line| line.starts_with("StepSkipped")).count(), 1);
}

/// The condition holds only before the first event of the step.
#[test]
fn a_condition_is_asked_once_before_the_fan_out() {
    let body = r#"
steps:
  - {id: x, when: "execution.history_events == 2", for: {each: "[1, 2, 3]"}, steps: [{id: y, compute: "item"}]}
  - {id: z, when: "false", for: {each: "1 / 0"}, steps: [{id: w, compute: "item"}]}
"#;
    let driven = Driven::start(body);
    assert_eq!(driven.result(), "null");
    let lines = driven.lines();
    assert_eq!(lines[2], "StepFanOut x 3 items");
    assert_eq!(lines.iter().filter(|line| line.starts_with("StepSucceeded x[") && line.ends_with(".y")).count(), 3);
    let skips: Vec<_> = lines.iter().filter(|line| line.starts_with("StepSkipped")).collect();
    assert_eq!(skips, ["StepSkipped z"], "not even the list is evaluated");
}

#[test]
fn suspended_is_not_resolved() {
    let body = "steps: [{id: x, compute: '1 / 0', on_failure: suspend}, {id: y, after: [x], compute: '1'}]\n";
    let mut driven = Driven::start(body);
    assert_eq!(driven.lines().last().unwrap(), "StepSuspended x EXPRESSION_ERROR");
    let output = Some(json("1"));
    driven.tell(Redrive { steps: None, action: RedriveAction::Resolve, output }).unwrap();
    assert_eq!(driven.lines()[4..], ["StepSucceeded x", "StepSucceeded y", "WorkflowCompleted"]);
}

#[test]
fn a_block_is_retried_whatever_its_error_says_of_itself() {
    let body = r#"
tasks: {t: {version: 1.0.0}}
steps:
  - id: box
    retry: {max_attempts: 3, initial_delay: 1s, jitter: 0, non_retryable: [STOP]}
    steps: [{id: x, task: t, retry: {max_attempts: 1}}]
"#;
    let refused = "error: {code: E, retryable: false}";
    let mocks = format!("mocks: {{t: [{{times: 2, {refused}}}, {{}}]}}");
    shows(
        body,
        &format!("{mocks}, expect: {{status: completed, calls: {{t: 3}}, includes: [StepOpened box attempt=3]}}"),
    );
    // Also when the engine itself says that no attempt can mend it.
    let fails = body.replace("task: t, retry: {max_attempts: 1}", "fail: {code: E}");
    shows(&fails, "expect: {status: failed, count: {RetryScheduled: 2}}");
}

#[test]
fn only_non_retryable_ends_the_attempts_of_a_block() {
    let body = r#"
steps:
  - id: box
    retry: {max_attempts: 3, initial_delay: 1s, non_retryable: [STOP]}
    steps: [{id: x, fail: {code: STOP}}]
"#;
    shows(body, "expect: {status: failed, error: STOP, excludes: [RetryScheduled]}");
}

/// Delays of a task that fails until its attempts are used up.
fn delays(retry: &str) -> Vec<u64> {
    let body = format!("tasks: {{t: {{version: 1.0.0}}}}\nsteps: [{{id: x, task: t{retry}}}]\n");
    let mut driven = Driven::start(&body);
    let mut delays = Vec::new();
    loop {
        let token = driven.hand_over("x");
        driven.fail(&token, TaskError::transient("E", ""));
        if driven.lines().last().unwrap().starts_with("WorkflowFailed") {
            return delays;
        }
        delays.push(driven.last_of("RetryScheduled")["delay_ms"].as_u64().unwrap());
        driven.fire("x");
    }
}

/// What L3 says, written down once more.
fn varied(delay_ms: f64, attempt: u32) -> u64 {
    (delay_ms * (1.0 + 0.1 * key::jitter("x", 1, "x", attempt))) as u64
}

#[test]
fn retries_have_defaults() {
    assert_eq!(delays(""), [varied(1_000.0, 1), varied(2_000.0, 2)], "three attempts");
    assert_eq!(delays(", retry: {}"), delays(""));
    let base = [1_000.0, 2_000.0, 4_000.0, 8_000.0, 16_000.0, 32_000.0, 60_000.0, 60_000.0];
    let expected: Vec<u64> = base.iter().zip(1..).map(|(base, attempt)| varied(*base, attempt)).collect();
    assert_eq!(delays(", retry: {max_attempts: 9}"), expected);
}

#[test]
fn jitter_comes_after_the_cap() {
    let expected: Vec<u64> = (1..6).map(|attempt| varied(5_000.0, attempt)).collect();
    assert_eq!(delays(", retry: {max_attempts: 6, initial_delay: 1h, max_delay: 5s}"), expected);
    assert!(expected.iter().any(|delay| *delay > 5_000), "this execution's chance must show it: {expected:?}");
}

#[test]
fn a_delay_grows_in_doubles_and_is_cut_each_time() {
    assert_eq!(
        delays(", retry: {max_attempts: 6, initial_delay: 1001, multiplier: 1.5, max_delay: 4s, jitter: 0}"),
        [1_001, 1_501, 2_252, 3_378, 4_000],
        "rounded down only at the end: 1501.5, 2252.25, 3378.375"
    );
}

#[test]
fn the_delay_starts_over_with_the_budget() {
    let body = "tasks: {t: {version: 1.0.0}}\n\
                steps: [{id: x, task: t, retry: {jitter: 0, multiplier: 3}, on_failure: suspend}]\n";
    let mut driven = Driven::start(body);
    let fail = |driven: &mut Driven| {
        let token = driven.hand_over("x");
        driven.fail(&token, TaskError::transient("E", ""));
        driven.last_of("RetryScheduled")["delay_ms"].as_u64().unwrap()
    };
    assert_eq!(fail(&mut driven), 1_000);
    driven.fire("x");
    assert_eq!(fail(&mut driven), 3_000);
    driven.fire("x");
    fail(&mut driven);
    assert_eq!(driven.lines().last().unwrap(), "StepSuspended x E");
    driven.tell(Redrive { steps: None, action: RedriveAction::Retry, output: None }).unwrap();
    assert_eq!(fail(&mut driven), 1_000, "attempt 4, the first of a new budget");
    assert_eq!(driven.last_of("RetryScheduled")["next_attempt"], 5);
}

#[test]
fn nothing_is_tried_again_that_the_worker_or_the_document_calls_hopeless() {
    let body = "tasks: {t: {version: 1.0.0}}\nsteps: [{id: x, task: t, retry: {non_retryable: [STOP]}}]\n";
    let one = "expect: {status: failed, calls: {t: 1}, excludes: [RetryScheduled]}";
    shows(body, &format!("mocks: {{t: {{error: {{code: E, retryable: false}}}}}}, {one}"));
    shows(body, &format!("mocks: {{t: {{error: {{code: STOP}}}}}}, {one}"));
    shows(body, "mocks: {t: {error: {code: E}}}, expect: {status: failed, calls: {t: 3}}");
}

#[test]
fn time_outs_are_tried_again() {
    let body = "tasks: {t: {version: 1.0.0}}\n\
                steps: [{id: x, task: t, timeout: 1m, queue_timeout: 1m, heartbeat_timeout: 1m}]\n";
    for expiry in [Expiry::Timeout, Expiry::Heartbeat, Expiry::Queue] {
        let mut driven = Driven::start(body);
        if expiry != Expiry::Queue {
            driven.hand_over("x");
        }
        driven.expire("x", expiry);
        assert_eq!(driven.lines().last().unwrap(), "RetryScheduled x next=2", "{expiry:?}");
    }
}

#[test]
fn faults_of_the_document_and_of_values_are_not_tried_again() {
    let body = r#"
tasks: {t: {version: 1.0.0, input: {type: integer}, output: {type: integer}}}
workflows: {c: {version: 1.0.0}}
steps:
  - {id: expression, task: t, input: "${1 / 0}", on_failure: continue}
  - {id: input, task: t, input: text, on_failure: continue}
  - {id: output, task: t, input: 1, on_failure: continue}
  - {id: name, task: "${'u'}", on_failure: continue}
  - {id: child, workflow: {name: "${'u'}"}, retry: {}, on_failure: continue}
"#;
    let codes = "includes: [StepFailed expression EXPRESSION_ERROR, StepFailed input INPUT_CONTRACT_VIOLATION, \
                 StepFailed name UNKNOWN_TASK, StepFailed child UNKNOWN_WORKFLOW, \
                 StepFailed output OUTPUT_CONTRACT_VIOLATION]";
    let mocks = "mocks: {t: {output: text}}";
    shows(
        body,
        &format!("{mocks}, expect: {{status: completed, calls: {{t: 1}}, {codes}, excludes: [RetryScheduled]}}"),
    );
}

/// Which class an HTTP error belongs to is the adapter's to say (L13); what it says is kept to.
#[test]
fn what_a_built_in_says_of_its_failure_decides_whether_it_is_tried_again() {
    let body = "steps: [{id: x, task: orbit.http.request, input: {method: GET, url: 'http://example.com/'}}]\n";
    for (code, retryable) in [
        ("HTTP_ERROR", true),
        ("HTTP_ERROR", false),
        ("HTTP_UNREACHABLE", true),
        ("INTERNAL", true),
        ("ADAPTER_DISABLED", false),
    ] {
        let mut driven = Driven::start(body);
        let token = driven.hand_over("x");
        let error = TaskError { retryable, ..TaskError::permanent(code, "") };
        assert!(driven.fail(&token, error).accepted, "{code}");
        let tried_again = driven.lines().last().unwrap() == "RetryScheduled x next=2";
        assert_eq!(tried_again, retryable, "{code}: {:#?}", driven.lines());
    }
}
