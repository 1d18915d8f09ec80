//! Commands on all executions that fit a filter, against a server that answers as the API says.

#![allow(clippy::expect_used)]

mod fake;

use fake::{Answer, Fake, ok, refusal};

const ROW: &str =
    r#"{"execution_id":"e1","run":1,"workflow":"w","version":"1.0.0","status":"RUNNING","created_at_ms":0}"#;

fn state(status: &str, more: &str) -> String {
    format!(r#"{{"batch_id":"b1","action":"cancel","status":"{status}","total":3{more},"created_at_ms":1}}"#)
}

/// A node with three executions that fit; the second look at the batch finds it done.
fn server(end: &'static str) -> Fake {
    Fake::new(move |seen| -> Answer {
        match (seen.method.as_str(), seen.path.split('?').next().unwrap_or_default()) {
            ("POST", "/v1/executions:batch") if seen.body.contains(r#""dry_run":true"#) => ok(r#"{"total":3}"#),
            ("POST", "/v1/executions:batch") => Some((202, r#"{"batch_id":"b1","total":3}"#.to_owned())),
            ("GET", "/v1/executions") => ok(&format!(r#"{{"executions":[{ROW}],"as_of_ms":1}}"#)),
            ("GET", "/v1/batches/b1") if seen.before == 0 => {
                ok(&state("RUNNING", r#","done":1,"failed":0,"errors":[]"#))
            }
            ("GET" | "POST", "/v1/batches/b1" | "/v1/batches/b1/stop") => ok(&state("DONE", end)),
            _ => refusal(404, "NOT_FOUND", "no such route"),
        }
    })
}

const WELL: &str = r#","done":3,"failed":0,"errors":[],"finished_at_ms":2"#;

#[test]
fn many_are_shown_begun_and_followed_to_their_end() {
    let server = server(WELL);
    let filter = "status=running,attr.customer=c1";
    let (out, err, code) = server.orbit(&["cancel", "--filter", filter, "--reason", "enough", "--yes"]);
    let said = "ID  WORKFLOW  STATUS\ne1  w 1.0.0   RUNNING\nand 2 more\n\
                batch b1: goes on also without this command; `orbit batch b1` tells how far\n";
    assert_eq!((out.as_str(), err.as_str(), code), ("cancel: 3 done, 0 failed, of 3\n", said, 0));
    let seen = server.seen();
    let body = r#"{"filter":{"attr.customer":"c1","status":"running"},"action":"cancel","reason":"enough"}"#;
    assert_eq!(seen[0].body, format!("{},\"dry_run\":true}}", body.strip_suffix('}').expect("an object")));
    assert_eq!(seen[1].path, "/v1/executions?limit=5&status=running&attr.customer=c1");
    assert_eq!(seen[2].body, body);
    assert_eq!(server.seen_at("/v1/batches/b1").len(), 2);
}

#[test]
fn nothing_is_done_to_many_unless_somebody_agrees() {
    let server = server(WELL);
    let (out, err, code) = server.orbit(&["delete", "--filter", "status=failed"]);
    let said = "error: NOT_CONFIRMED: Delete 3 executions? Nothing was done, for there is no terminal to ask at; say \
                --yes if that is meant\n";
    assert!(out.is_empty() && code == 2 && err.ends_with(said) && err.contains("\ne1  w 1.0.0"), "{err}");
    assert!(server.seen_at("/v1/executions:batch").iter().all(|seen| seen.body.contains("dry_run")));
}

#[test]
fn what_failed_is_named_and_is_a_failure_of_the_command() {
    let fault = |n: u32| format!(r#"{{"execution_id":"e{n}","code":"EXECUTION_FINISHED","message":"it is over"}}"#);
    let faults = (1..=7).map(fault).collect::<Vec<_>>().join(",");
    let end = format!(r#","done":0,"failed":9,"stopped":true,"at_least":true,"errors":[{faults}]"#);
    let server = server(end.leak());
    let (out, err, code) = server.orbit(&["pause", "--filter", "status=running", "--yes"]);
    assert!(out.starts_with("cancel: 0 done, 9 failed, of at least 3, stopped\n  e1 EXECUTION_FINISHED: it is over\n"));
    assert!(out.ends_with("  and 4 more; with --output json the first hundred are named\n"), "{out}");
    assert!(code == 1 && err.ends_with("error: BATCH_FAILED: 9 of 3 failed; `orbit batch b1` names them\n"), "{err}");
    let (out, _, code) = server.orbit(&["resume", "--filter", "status=running", "--yes", "--output", "json"]);
    assert!(code == 1 && out.starts_with(r#"{"batch_id":"b1""#) && out.contains(r#""e7""#), "{out}");
}

#[test]
fn a_batch_may_be_left_alone_looked_at_and_stopped() {
    let server = server(WELL);
    let (out, _, code) = server.orbit(&["cancel", "--filter", "status=running", "--yes", "--no-wait"]);
    assert_eq!((out.as_str(), code), ("b1\n", 0));
    let (out, err, code) = server.orbit(&["batch", "b1"]);
    assert_eq!((out.as_str(), err.as_str(), code), ("cancel: 1 done, 0 failed, of 3, goes on\n", "", 0));
    let (out, _, code) = server.orbit(&["batch", "b1", "--stop"]);
    assert_eq!((out.as_str(), code), ("cancel: 3 done, 0 failed, of 3\n", 0));
    assert_eq!(server.seen_at("/v1/batches/b1/stop").len(), 1);
}

#[test]
fn each_command_says_to_many_what_it_says_to_one() {
    let server = server(WELL);
    let of_failed = ["--filter", "status=failed", "--yes"];
    for (arguments, body) in [
        (&["cancel", "--force"][..], r#""action":"cancel","force":true}"#),
        (&["resume"], r#""action":"resume"}"#),
        (&["redrive"], r#""action":"redrive","redrive_action":"retry"}"#),
        (
            &["redrive", "--step", "a", "--action", "resolve", "--value", "1.10"],
            r#""action":"redrive","steps":["a"],"redrive_action":"resolve","output":1.10}"#,
        ),
        (&["signal", "tell"], r#""action":"signal","signal":"tell"}"#),
        (
            &["signal", "tell", r#"{ "n": 9007199254740993 }"#],
            r#""action":"signal","signal":"tell","payload":{ "n": 9007199254740993 }}"#,
        ),
        (&["delete"], r#""action":"delete"}"#),
    ] {
        let (_, err, code) = server.orbit(&[arguments, &of_failed].concat());
        assert_eq!(code, 0, "{arguments:?}: {err}");
        let last = server.seen_at("/v1/executions:batch").pop().expect("a batch").body;
        assert_eq!(last, format!(r#"{{"filter":{{"status":"failed"}},{body}"#), "{arguments:?}");
    }
}

#[test]
fn a_filter_that_says_nothing_or_something_else_is_refused_here() {
    let server = server(WELL);
    for arguments in [
        &["cancel"][..],
        &["cancel", "--filter", ""],
        &["cancel", "--filter", "statsu=running"],
        &["cancel", "--filter", "status"],
        &["cancel", "e1", "--filter", "status=running"],
        &["cancel", "e1", "--yes"],
        &["signal", "e1", "tell", "--no-wait"],
        &["delete", "..", "--yes"],
        &["signal", "--filter", "status=running"],
        &["signal", "e1", "tell", "{}", "--filter", "status=running", "--yes"],
        &["signal", "tell", "--filter", "status=running", "--yes", "--dedup-id", "d"],
        &["cancel", "--filter", "status=running,status=failed", "--yes"],
    ] {
        let (_, err, code) = server.orbit(arguments);
        assert_eq!(code, 2, "{arguments:?}: {err}");
        let meant = err.contains("did you mean `status`?");
        assert_eq!(meant, arguments.contains(&"statsu=running"), "{err}");
    }
    assert!(server.seen().is_empty());
}

#[test]
fn when_nothing_fits_nothing_is_asked() {
    let server = Fake::new(|_| ok(r#"{"total":0}"#));
    assert_eq!(
        server.orbit(&["cancel", "--filter", "attention=true"]),
        ("no execution fits\n".into(), String::new(), 0)
    );
    assert_eq!(server.seen().len(), 1);
}

#[test]
fn a_delete_is_not_repeated_blindly() {
    let server = Fake::new(|_| None);
    let (_, err, code) = server.orbit(&["delete", "e1"]);
    assert!(code == 3 && err.contains("`orbit show e1` tells whether it is still there"), "{err}");
    assert_eq!((server.seen().len(), server.seen()[0].method.as_str()), (1, "DELETE"));
    let server = Fake::new(|_| Some((204, String::new())));
    assert_eq!(server.orbit(&["delete", "e1"]), ("e1 deleted\n".into(), String::new(), 0));
    let server = Fake::new(|_| refusal(409, "EXECUTION_RUNNING", "e1 runs; cancel it first"));
    let (_, err, code) = server.orbit(&["delete", "e1"]);
    assert_eq!((err.as_str(), code), ("error: EXECUTION_RUNNING: e1 runs; cancel it first\n", 1));
}

#[test]
fn a_list_is_asked_for_by_attributes_and_shows_them() {
    let row = ROW.replace('}', r#","attributes":{"customer":"c 1","n":12}}"#);
    let server = Fake::new(move |_| ok(&format!(r#"{{"executions":[{row}],"as_of_ms":1}}"#)));
    let (out, err, code) = server.orbit(&["list", "--attr", "customer=c 1", "--attr", "n=12"]);
    assert_eq!((err.as_str(), code), ("", 0));
    assert!(out.contains("ATTRIBUTES") && out.contains("customer=c 1 n=12"), "{out}");
    assert_eq!(server.seen()[0].path, "/v1/executions?attr.customer=c+1&attr.n=12");
    assert_eq!(server.orbit(&["list", "--attr", "customer"]).2, 2);
}
