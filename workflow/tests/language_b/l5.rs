//! Failure: what a step does about it, unknown outcomes, uncertain hand-overs, results (L5).

use workflow::command::{Expiry, Uncertain};
use workflow::event::{RedriveAction, UncertainReason};

use crate::help::{Play, shows};

#[test]
fn the_first_rule_that_matches_decides_and_without_one_the_step_fails() {
    let list = "[{when: \"error.code == 'A'\", then: continue}, {when: \"error.code in ['A', 'B']\", then: suspend}]";
    for (on_failure, code, line) in [
        ("fail", "A", "StepFailed a A handled=false"),
        ("continue", "A", "StepFailed a A handled=true"),
        ("suspend", "A", "StepSuspended a A"),
        (list, "A", "StepFailed a A handled=true"),
        (list, "B", "StepSuspended a B"),
        (list, "C", "StepFailed a C handled=false"),
        ("[{then: continue}]", "C", "StepFailed a C handled=true"),
    ] {
        let mut play = Play::start(&format!("steps: [{{id: a, task: t.a, on_failure: {on_failure}}}]"));
        play.give_up("a", code);
        assert_eq!(play.lines()[5], line, "{on_failure}");
    }
}

#[test]
fn on_failure_is_looked_at_when_the_retries_are_used_up() {
    let mut play = Play::start("steps: [{id: a, task: t.a, retry: {max_attempts: 2}, on_failure: continue}]");
    let token = play.hand_over("a");
    play.fail_for_now(&token, "NO");
    assert_eq!(play.since(4), ["StepAttemptFailed a NO", "RetryScheduled a next=2"]);
    play.fire("a");
    let token = play.hand_over("a");
    play.fail_for_now(&token, "NO");
    assert_eq!(play.since(9), ["StepAttemptFailed a NO", "StepFailed a NO handled=true", "WorkflowCompleted"]);
}

#[test]
fn a_handled_failure_has_no_output_its_error_is_read_and_dependants_go() {
    let steps = "
steps:
  - {id: a, task: t.a, on_failure: continue}
  - {id: b, after: [a], compute: '[steps.a.status, steps.a.output, steps.a.error.code, steps.a.error.message]'}
result: '${steps.b.output}'";
    let case = "mocks: {t.a: {error: {code: NO, message: never, retryable: false}}},
        expect: {status: completed, output: [failed, null, NO, never]}";
    shows(steps, case);
}

#[test]
fn an_unhandled_failure_closes_the_block() {
    let steps = "
steps:
  - {id: box, on_failure: continue, steps: [{id: a, task: t.a}, {id: open, sleep: 1h}]}
  - {id: b, after: [box], compute: '1'}";
    let mut play = Play::start(steps);
    play.give_up("box.a", "NO");
    assert_eq!(
        play.since(6),
        [
            "StepAttemptFailed box.a NO",
            "StepFailed box.a NO handled=false",
            "StepClosing box failed",
            "StepCancelled box.open",
            "StepFailed box NO handled=true",
            "StepSucceeded b",
            "WorkflowCompleted"
        ]
    );
}

const SUSPENDED: &str = "
steps:
  - {id: a, task: t.a, on_failure: suspend}
  - {id: beside, task: t.b}
  - {id: after, after: [a], task: t.c}
result: '${steps.a.output}'";

#[test]
fn a_suspended_unit_waits_while_all_else_goes_on() {
    let mut play = Play::start(SUSPENDED);
    play.give_up("a", "NO");
    assert_eq!(play.lines().last().unwrap(), "StepSuspended a NO");
    assert_eq!(play.run.state().head.attention, 1);
    play.succeed("beside", "1");
    assert_eq!(play.lines().last().unwrap(), "StepSucceeded beside");
    assert!(!play.run.state().is_over());
}

#[test]
fn redrive_retries_resolves_or_fails_a_suspended_unit() {
    let redriven = |action, output: Option<&str>| {
        let mut play = Play::start(SUSPENDED);
        play.give_up("a", "NO");
        let before = play.history.len();
        play.redrive(&["a"], action, output).unwrap();
        assert_eq!(play.run.state().head.attention, 0);
        play.since(before)
    };
    assert_eq!(redriven(RedriveAction::Retry, None), ["WorkflowRedriven retry a", "StepScheduled a attempt=2"]);
    let resolved = redriven(RedriveAction::Resolve, Some("7"));
    assert_eq!(resolved, ["WorkflowRedriven resolve a", "StepSucceeded a", "StepScheduled after attempt=1"]);
    let failed = redriven(RedriveAction::Fail, None);
    assert_eq!(failed[..2], ["WorkflowRedriven fail a", "StepFailed a NO handled=false"]);
    assert_eq!(failed.last().unwrap(), "WorkflowFailed NO compensation=none");
}

#[test]
fn what_may_have_happened_is_undone() {
    let worker = "task: t.a, timeout: 1s, heartbeat_timeout: 1s, queue_timeout: 1s, retry: {max_attempts: 1}";
    let http = "task: orbit.http.request, input: {method: GET, url: 'http://x'}, retry: {max_attempts: 1}";
    for (undone, body, mock) in [
        (1, worker, "t.a: {never: true}"),
        (1, worker, "t.a: {silent: true}"),
        (1, worker, "t.a: {error: {code: HEARTBEAT_TIMEOUT}}"),
        (1, worker, "t.a: {lost: 100ms}"),
        (1, worker, "t.a: [{times: 1, lost: 100ms}, {error: {code: NO}}]"),
        (1, worker, "t.a: [{times: 1, lost: 100ms, reason: not_received}, {error: {code: NO}}]"),
        (1, worker, "t.a: [{times: 1, lost: 100ms, reason: node_lost}, {error: {code: NO}}]"),
        (1, worker, "t.a: {output: text}"),
        (1, worker, "t.a: {error: {code: NO, unknown: true}}"),
        (1, http, "orbit.http.request: {error: {code: HTTP_UNREACHABLE}}"),
        (0, http, "orbit.http.request: {error: {code: HTTP_ERROR}}"),
        (0, worker, "t.a: {error: {code: NO}}"),
        (0, worker, "t.a: {pickup: 5s}"),
        (1, worker, "t.a: [{times: 1, lost: 100ms}, {pickup: 5s}]"),
    ] {
        let steps = format!(
            "tasks: {{t.a: {{version: 1.0.0, output: {{type: object}}}}, t.undo: {{version: 1.0.0}}}}\n\
             steps: [{{id: a, {body}, compensate: {{task: t.undo, input: {{unknown: '${{unknown}}'}}}}}}]"
        );
        let inputs = if undone == 1 { "inputs: {t.undo: [{unknown: true}]}" } else { "calls: {t.undo: 0}" };
        shows(&steps, &format!("mocks: {{{mock}}}, expect: {{status: failed, {inputs}}}"));
    }
}

#[test]
fn an_uncertain_attempt_comes_again_with_the_same_key_and_is_no_failure() {
    let mut play = Play::start("steps: [{id: a, task: t.a, retry: {max_attempts: 1}}]");
    let key = play.last_of("StepScheduled")["idempotency_key"].clone();
    for reason in [UncertainReason::WorkerLost, UncertainReason::NotReceived, UncertainReason::NodeLost] {
        let token = play.hand_over("a");
        let before = play.history.len();
        play.tell(Uncertain { token: &token, reason }).unwrap();
        let uncertain = format!("StepAttemptUncertain a {}", reason.as_str());
        assert_eq!(play.since(before), [uncertain.as_str(), "StepScheduled a attempt=1 redelivery"]);
        assert_eq!(play.last_of("StepScheduled")["idempotency_key"], key);
    }
    play.succeed("a", "1");
    assert_eq!(play.output(), "null");
}

#[test]
fn ten_hand_overs_without_a_result_fail_the_attempt() {
    let mut play = Play::start("steps: [{id: a, task: t.a, retry: {max_attempts: 2}}]");
    for n in 1..=10 {
        assert_eq!(play.run.state().unit("a").unwrap().attempt, 1, "hand-over {n}");
        let token = play.hand_over("a");
        play.tell(Uncertain { token: &token, reason: UncertainReason::Unregistered }).unwrap();
        let token = play.hand_over("a");
        play.lose(&token);
    }
    let failed = play.last_of("StepAttemptFailed");
    assert_eq!((&failed["error"]["code"], &failed["error"]["retryable"]), (&"WORKER_LOST".into(), &true.into()));
    assert_eq!(failed["unknown"], true);
    assert_eq!(play.lines().last().unwrap(), "RetryScheduled a next=2");
}

#[test]
fn a_success_with_any_token_counts_until_the_unit_is_resolved() {
    let steps =
        "steps: [{id: a, task: t.a, retry: {max_attempts: 2}, on_failure: suspend}]\nresult: '${steps.a.output}'";
    // While the attempt comes again, waits for its retry, runs a second time, is suspended.
    for stage in 0..4 {
        let mut play = Play::start(steps);
        let first = play.hand_over("a");
        match stage {
            0 => play.lose(&first),
            _ => assert!(play.fail_for_now(&first, "NO").accepted),
        }
        if stage >= 2 {
            play.fire("a");
            let second = play.hand_over("a");
            if stage == 3 {
                play.fail_for_now(&second, "NO");
            }
        }
        assert!(play.complete(&first, "7").accepted, "stage {stage}");
        assert_eq!(play.output(), "7", "stage {stage}");
        assert_eq!(play.last_of("StepSucceeded")["attempt"], 1, "credited to the attempt of the token");
    }
}

#[test]
fn while_the_unit_itself_closes_a_success_is_stale_and_ends_the_wait() {
    let steps =
        "steps: [{id: a, task: t.a, deadline: 1s, on_failure: continue, compensate: {task: t.undo, input: {}}}]";
    let mut play = Play::start(steps);
    let token = play.hand_over("a");
    play.fire("deadline:a");
    let before = play.history.len();
    let answer = play.complete(&token, "1");
    assert!(!answer.accepted);
    assert_eq!(
        play.since(before)[..3],
        ["StaleResultIgnored a success", "StepAttemptUncertain a stopped", "CompensationStarted a a"]
    );
}

#[test]
fn a_failure_counts_only_for_the_token_in_flight() {
    let mut play = Play::start("steps: [{id: a, task: t.a, retry: {max_attempts: 1}}]");
    let first = play.hand_over("a");
    play.lose(&first);
    let before = play.history.len();
    assert!(!play.fail(&first, "NO").accepted);
    assert_eq!(play.since(before), ["StaleResultIgnored a failure"]);
    let second = play.hand_over("a");
    assert!(play.fail(&second, "NO").accepted);
}

#[test]
fn a_result_after_the_unit_is_resolved_is_not_accepted_and_noted() {
    let mut play = Play::start("steps: [{id: a, task: t.a}, {id: b, task: t.b}]");
    let first = play.hand_over("a");
    play.lose(&first);
    play.succeed("a", "1");
    let before = play.history.len();
    assert!(!play.complete(&first, "2").accepted);
    assert_eq!(play.since(before), ["StaleResultIgnored a success"]);
    assert_eq!(play.run.state().unit("a").unwrap().output.as_ref().unwrap().as_str(), "1");
}

#[test]
fn the_same_result_with_the_same_token_is_answered_as_the_first_time() {
    let mut play = Play::start("steps: [{id: a, task: t.a}, {id: b, after: [a], task: t.b, on_failure: continue}]");
    let a = play.hand_over("a");
    assert!(play.complete(&a, "1").accepted);
    let events = play.history.len();
    assert!(play.complete(&a, "1").accepted, "the same");
    assert_eq!(play.history.len(), events, "and nothing is written");
    assert!(!play.complete(&a, "2").accepted, "another result is another question");
    let b = play.hand_over("b");
    assert!(play.fail(&b, "NO").accepted);
    assert!(play.run.state().is_over());
    assert!(play.complete(&a, "1").accepted && play.fail(&b, "NO").accepted, "also after the end");
    assert!(!play.complete(&b, "1").accepted);
}

const CONTRACT: &str = "
tasks: {t.a: {version: 1.0.0, input: {type: object}, output: {type: object}}}
input: {type: object, properties: {n: {default: {}}}}
steps: [{id: a, task: t.a, input: '${input.n}'}]";

#[test]
fn an_output_that_breaks_the_contract_is_refused_with_the_code_and_never_retried() {
    let mut play = Play::start(CONTRACT);
    let token = play.hand_over("a");
    let answer = play.complete(&token, "7");
    assert!(!answer.accepted);
    assert_eq!(answer.reason.as_deref(), Some("OUTPUT_CONTRACT_VIOLATION"));
    assert_eq!(play.last_of("StepAttemptFailed")["error"]["retryable"], false);
    let message = "the output of t.a for a breaks its contract: this is not of type \"object\"";
    assert_eq!(play.last_of("WorkflowFailed")["error"]["message"], message);
    assert_eq!(
        play.since(4)[..2],
        [
            "StepAttemptFailed a OUTPUT_CONTRACT_VIOLATION unknown",
            "StepFailed a OUTPUT_CONTRACT_VIOLATION handled=false"
        ]
    );
}

#[test]
fn an_input_that_breaks_the_contract_fails_the_step_and_is_never_retried() {
    let case = "input: {n: 7}, expect: {status: failed, error: INPUT_CONTRACT_VIOLATION, calls: {t.a: 0},
        excludes: [RetryScheduled a, StepScheduled a]}";
    shows(CONTRACT, case);
}

#[test]
fn a_result_that_breaks_the_output_closes_the_root_failed() {
    let mut play = Play::start("output: {type: object}\nsteps: [{id: a, task: t.a}]\nresult: '${steps.a.output}'");
    play.succeed("a", "7");
    assert_eq!(
        play.since(5),
        ["StepClosing (workflow) failed", "WorkflowFailed OUTPUT_CONTRACT_VIOLATION compensation=none"]
    );
}

#[test]
fn a_queue_time_out_takes_no_unknown_away() {
    let steps = "steps: [{id: a, task: t.a, queue_timeout: 1s, timeout: 1s, retry: {max_attempts: 2}}]";
    let mut play = Play::start(steps);
    play.hand_over("a");
    play.expire("a", Expiry::Timeout);
    play.fire("a");
    play.expire("a", Expiry::Queue);
    assert!(play.run.state().unit("a").unwrap().unknown);
    let mut play = Play::start(steps);
    play.expire("a", Expiry::Queue);
    assert!(!play.run.state().unit("a").unwrap().unknown);
}
