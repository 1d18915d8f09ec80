//! Commands that act on one execution, against a server that answers as the API says.

#![allow(clippy::expect_used)]

mod fake;

use std::sync::atomic::{AtomicUsize, Ordering};

use fake::{Fake, ok, refusal};

const PAUSED: &str = concat!(
    r#"{"execution_id":"e1","run":1,"workflow":"w","version":"1.0.0","status":"PAUSED","attention":0,"#,
    r#""created_at_ms":0,"units":{},"waiting_for":[]}"#
);

/// A signal that was taken, with what else an answer says.
fn taken(more: &str) -> String {
    format!(r#"{{"execution_id":"e1","run":1,"signal":"tell","accepted":true,"seq":12{more}}}"#)
}

#[test]
fn a_signal_carries_its_payload_bit_for_bit() {
    let server = Fake::new(|_| ok(&taken("")));
    let payload = r#"{ "n": 9007199254740993 }"#;
    let (out, err, code) = server.orbit(&["signal", "e1", "tell", payload, "--dedup-id", "a b"]);
    assert_eq!((out.as_str(), err.as_str(), code), ("e1 has tell as event 12\n", "", 0));
    let (out, _, _) = server.orbit(&["signal", "e1", "tell", "--output", "json"]);
    assert_eq!(out.trim_end(), taken(""));
    let seen = server.seen();
    assert_eq!(
        (seen[0].path.as_str(), seen[0].body.as_str()),
        ("/v1/executions/e1/signals/tell?dedup_id=a+b", payload)
    );
    assert_eq!((seen[0].media_type.as_str(), seen[1].body.as_str()), ("application/json", ""));
    assert_eq!(server.orbit(&["signal", "e1", "tell", "{"]).2, 2);
    assert_eq!(server.orbit(&["signal", "e1", "tell", "--start-input", "{}"]).2, 2, "an input of nothing");
}

#[test]
fn a_signal_whose_answer_is_lost_is_repeated_under_the_same_name() {
    let server = Fake::new(|seen| if seen.before == 0 { None } else { ok(&taken("")) });
    let (_, err, code) = server.orbit(&["signal", "e1", "tell"]);
    assert_eq!((err.as_str(), code), ("", 0));
    let seen = server.seen();
    assert!(seen.len() == 2 && seen[0].path == seen[1].path && seen[0].path.contains("?dedup_id="), "{seen:?}");
    let server = Fake::new(|_| refusal(503, "OUTCOME_UNKNOWN", "the leader was lost"));
    let (_, err, code) = server.orbit(&["signal", "e1", "tell", "--dedup-id", "d", "--retry-for", "100ms"]);
    let said = "error: OUTCOME_UNKNOWN: the leader was lost; it may have happened all the same: the same call with \
                --dedup-id d is safe\n";
    assert_eq!((err.as_str(), code), (said, 3));
}

#[test]
fn a_signal_may_start_what_it_is_for() {
    let server = Fake::new(|_| Some((201, taken(r#","created":true"#))));
    let start = ["--start-workflow", "w", "--start-version", "1.0.0", "--start-input", r#"{"a":1.10}"#];
    let arguments = [&["signal", "e1", "tell", "7", "--dedup-id", "d"][..], &start].concat();
    let (out, err, code) = server.orbit(&arguments);
    assert_eq!((out.as_str(), err.as_str(), code), ("e1 started, has tell as event 12\n", "", 0));
    let seen = &server.seen()[0];
    assert_eq!(seen.path, "/v1/executions/e1/signals/tell:start");
    let body = r#"{"workflow":"w","version":"1.0.0","input":{"a":1.10},"payload":7,"dedup_id":"d"}"#;
    assert_eq!(seen.body, body);
}

#[test]
fn faults_of_a_signal_are_shown_with_their_path() {
    let server = Fake::new(|_| {
        let faults = r#"[{"path":"/n","message":"is no integer"}]"#;
        let error = format!(r#"{{"code":"INVALID_SIGNAL","message":"bad","details":{{"faults":{faults}}}}}"#);
        Some((400, format!(r#"{{"error":{error}}}"#)))
    });
    let (_, err, code) = server.orbit(&["signal", "e1", "tell"]);
    assert_eq!((err.as_str(), code), ("payload: /n: is no integer\nerror: INVALID_SIGNAL: bad\n", 1));
}

#[test]
fn a_query_prints_its_value_and_waits_for_one() {
    let tries = AtomicUsize::new(0);
    let answer = |value: &str| ok(&format!(r#"{{"execution_id":"e1","query":"q","value":{value}}}"#));
    let server = Fake::new(move |_| answer("[1.10,9007199254740993]"));
    assert_eq!(server.orbit(&["query", "e1", "q"]), ("[1.10,9007199254740993]\n".into(), String::new(), 0));
    assert_eq!(server.seen()[0].path, "/v1/executions/e1/queries/q");
    // A node that goes away says null before the time is over.
    let server = Fake::new(move |_| answer(if tries.fetch_add(1, Ordering::Relaxed) == 0 { "null" } else { "2" }));
    assert_eq!(server.orbit(&["query", "e1", "q", "--wait", "1m"]), ("2\n".into(), String::new(), 0));
    let server = Fake::new(move |_| answer("null"));
    assert_eq!(server.orbit(&["query", "e1", "q"]), ("null\n".into(), String::new(), 0));
    let (out, err, code) = server.orbit(&["query", "e1", "q", "--wait", "120ms"]);
    assert!(out == "null\n" && code == 1 && err.starts_with("error: STILL_NULL: q of e1 gave null for 120ms"), "{err}");
    assert!(server.seen().len() > 2 && server.seen()[1].path.contains("?wait_ms="), "{:?}", server.seen());
}

#[test]
fn a_value_that_no_answer_holds_is_an_error() {
    let server = Fake::new(|_| ok(r#"{"execution_id":"e1","query":"q","omitted":["value"]}"#));
    let (out, err, code) = server.orbit(&["query", "e1", "q", "--wait", "1m"]);
    assert!(out.is_empty() && code == 1 && err.starts_with("error: TOO_LARGE: q of e1 gives more than"), "{err}");
}

#[test]
fn pausing_twice_is_pausing_once() {
    let server = Fake::new(|seen| if seen.before == 0 { None } else { ok(PAUSED) });
    let (out, err, code) = server.orbit(&["pause", "e1"]);
    assert_eq!((out.as_str(), err.as_str(), code), ("e1 PAUSED; `orbit resume e1` lets it go on\n", "", 0));
    let server = Fake::new(|_| ok(&PAUSED.replace("PAUSED", "RUNNING")));
    assert_eq!(server.orbit(&["resume", "e1"]), ("e1 RUNNING\n".into(), String::new(), 0));
}

#[test]
fn a_redrive_is_not_repeated_blindly() {
    let server = Fake::new(|_| None);
    let (_, err, code) = server.orbit(&["redrive", "e1"]);
    assert!(code == 3 && err.contains("OUTCOME_UNKNOWN") && err.contains("WorkflowRedriven"), "{err}");
    assert_eq!((server.seen().len(), server.seen()[0].body.as_str()), (1, r#"{"action":"retry"}"#));
    let server = Fake::new(|_| ok(&PAUSED.replace("PAUSED", "RUNNING")));
    let resolve = ["redrive", "e1", "--step", "a", "--step", "b[1]", "--action", "resolve", "--value", "1.10"];
    let (out, err, code) = server.orbit(&resolve);
    assert_eq!((out.as_str(), err.as_str(), code), ("e1 RUNNING, goes on; `orbit watch e1` shows how\n", "", 0));
    assert_eq!(server.seen()[0].body, r#"{"steps":["a","b[1]"],"action":"resolve","output":1.10}"#);
    assert_eq!(server.orbit(&["redrive", "e1", "--action", "skip"]).2, 2);
}

#[test]
fn what_is_no_id_or_name_never_becomes_a_path() {
    let server = Fake::new(|_| ok("{}"));
    for id in ["..", "", "a/b", "a?b"] {
        for command in
            [&["signal", id, "n"][..], &["query", id, "n"], &["pause", id], &["resume", id], &["redrive", id]]
        {
            assert_eq!(server.orbit(command).2, 2, "{command:?}");
        }
    }
    for name in ["", "..", "."] {
        assert_eq!(server.orbit(&["signal", "e1", name]).2 + server.orbit(&["query", "e1", name]).2, 4, "{name:?}");
    }
    assert!(server.seen().is_empty());
}

#[test]
fn a_mistyped_workflow_is_told_the_one_that_was_meant() {
    let server = Fake::new(|seen| match seen.method.as_str() {
        "GET" => ok(r#"{"workflows":[{"name":"expenses","version":"1.0.0","definition_hash":"sha256:1"}]}"#),
        _ => refusal(404, "WORKFLOW_NOT_FOUND", "there is no such workflow"),
    });
    let (_, err, code) = server.orbit(&["signal", "e1", "tell", "--start-workflow", "expences"]);
    let said = "error: WORKFLOW_NOT_FOUND: there is no such workflow (did you mean `expenses`?)\n";
    assert_eq!((err.as_str(), code), (said, 1));
}
