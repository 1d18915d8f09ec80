//! L13: the codes that only Orbit gives.

use serde_json::json as js;
use workflow::command::{Fail, Refusal};
use workflow::document::OWN_CODES;
use workflow::event::{CODES, TaskError};

use crate::help::*;

const LANGUAGE: &str = include_str!("../../../docs/language.md");

/// The reference itself is read, so that no code is left out on either side.
#[test]
fn orbits_codes_are_those_of_the_reference() {
    let chapter = LANGUAGE.split_once("## L13 Codes Orbit makes").unwrap().1.trim_start();
    let listed: Vec<&str> = chapter.split_once('.').unwrap().0.split_whitespace().collect();
    assert_eq!(listed, CODES);
    assert_eq!(listed, OWN_CODES);
}

#[test]
fn an_error_has_code_message_retryable_and_details() {
    let mut driven = Driven::start("tasks: {t: {version: 1.0.0}}\nsteps: [{id: x, task: t}]\n");
    let token = driven.hand_over("x");
    let details = Some(json(r#"{"n": 1}"#));
    driven.fail(&token, TaskError { code: "E".into(), message: "no".into(), retryable: false, details });
    let full = js!({"code": "E", "message": "no", "retryable": false, "details": {"n": 1}});
    assert_eq!(driven.last_of("StepAttemptFailed")["error"], full);
    let driven = Driven::start("steps: [{id: x, compute: '1 / 0'}]\n");
    let error = driven.last_of("StepFailed")["error"].clone();
    let members: Vec<_> = error.as_object().unwrap().keys().collect();
    assert_eq!(members, ["code", "message", "retryable"]);
}

#[test]
fn a_worker_may_use_none_of_orbits_codes() {
    let mut driven = Driven::start("tasks: {t: {version: 1.0.0}}\nsteps: [{id: x, task: t}]\n");
    let token = driven.hand_over("x");
    let before = driven.lines();
    for code in CODES {
        let fail = Fail { token: &token, error: TaskError::transient(code, ""), unknown: false };
        let refusal = driven.tell(fail).unwrap_err();
        assert_eq!(refusal, Refusal::ReservedCode((*code).to_owned()));
        assert_eq!(refusal.code(), "INVALID_REQUEST", "which is a 400");
    }
    assert_eq!(driven.lines(), before, "the attempt is in flight as before");
    assert!(driven.complete(&token, "{}").accepted);
}

/// The adapter is Orbit itself.
#[test]
fn a_built_in_task_fails_with_orbits_codes() {
    let mut driven = Driven::start("steps: [{id: x, task: orbit.http.request}]\n");
    let token = driven.hand_over("x");
    assert!(driven.fail(&token, TaskError::transient("HTTP_ERROR", "503")).accepted);
    assert_eq!(driven.lines().last().unwrap(), "RetryScheduled x next=2");
}

/// `Retry-After` honoured: never before the server wants to be asked again, and never later than an hour for that.
#[test]
fn an_http_error_is_tried_again_no_sooner_than_the_server_asked() {
    let fails = |code: &str, details: &str, retry: &str| {
        let mut driven = Driven::start(&format!("steps: [{{id: x, task: orbit.http.request, retry: {retry}}}]\n"));
        let token = driven.hand_over("x");
        let details = Some(json(details));
        assert!(driven.fail(&token, TaskError { details, ..TaskError::transient(code, "") }).accepted);
        driven.last_of("RetryScheduled")["delay_ms"].as_u64().unwrap()
    };
    let fast = "{initial_delay: 1s, jitter: 0, max_delay: 2s}";
    assert_eq!(fails("HTTP_ERROR", r#"{"status": 429, "retry_after_ms": 7000}"#, fast), 7_000, "also over `max_delay`");
    assert_eq!(fails("HTTP_ERROR", r#"{"status": 429, "retry_after_ms": 100}"#, fast), 1_000, "the longer one counts");
    assert_eq!(fails("HTTP_ERROR", r#"{"retry_after_ms": 86400000}"#, fast), 3_600_000, "an hour at most");
    for odd in
        [r#"{"retry_after_ms": -1}"#, r#"{"retry_after_ms": "soon"}"#, "[]", "null", r#"{"retry_after_ms": 1e300}"#]
    {
        assert_eq!(fails("HTTP_ERROR", odd, fast), 1_000, "{odd}");
    }
    assert_eq!(fails("HTTP_UNREACHABLE", r#"{"retry_after_ms": 7000}"#, fast), 1_000, "no answer asked for anything");
}

/// A name that an input chooses must stand in `tasks` (L16), and a built-in one cannot.
#[test]
fn no_input_chooses_a_built_in_task() {
    for name in ["orbit.http.request", "orbit.http.requests", "orbit."] {
        let document = format!("steps: [{{id: x, task: \"${{'{name}' + ''}}\", on_failure: continue}}]\n");
        let driven = Driven::start(&document);
        assert_eq!(driven.last_of("StepFailed")["error"]["code"], "UNKNOWN_TASK", "{name}");
    }
}
