//! Commands that speak to a node, against a server that answers as the API says.

#![allow(clippy::expect_used)]

mod fake;

use std::io::Write;
use std::process::Stdio;

use fake::{Answer, Fake, ok, orbit, refusal, run};

const DONE: &str = concat!(
    r#"{"execution_id":"e1","run":1,"workflow":"w","version":"1.0.0","#,
    r#""definition_hash":"sha256:0","status":"COMPLETED","attention":0,"#,
    r#""created_at_ms":1769860800000,"updated_at_ms":1769860801500,"#,
    r#""finished_at_ms":1769860801500,"attributes":{},"input":{"n":9007199254740993},"#,
    r#""output":[1.10,9007199254740993],"units":{"a":{"status":"SUCCEEDED","attempt":2,"#,
    r#""redelivery":false,"worker_id":"w1","scheduled_at_ms":1769860800010,"#,
    r#""finished_at_ms":1769860801000}},"waiting_for":[],"last_seq":9}"#,
);

const FAILED: &str = concat!(
    r#"{"execution_id":"e1","run":1,"workflow":"w","version":"1.0.0","#,
    r#""definition_hash":"sha256:0","status":"FAILED","attention":0,"created_at_ms":0,"#,
    r#""updated_at_ms":0,"attributes":{},"error":{"code":"NO_STOCK","message":"none left"},"#,
    r#""units":{},"waiting_for":[],"last_seq":9}"#,
);

const STARTED: &str = r#"{"execution_id":"e1","run":1,"created":true}"#;

fn starts_and_ends(state: &'static str) -> impl Fn(&fake::Seen) -> Answer {
    move |seen| match (seen.method.as_str(), seen.path.as_str()) {
        ("POST", "/v1/executions") => Some((201, STARTED.to_owned())),
        ("GET", path) if path.starts_with("/v1/executions/e1/wait") => ok(state),
        _ => refusal(404, "NOT_FOUND", "no such route"),
    }
}

#[test]
fn json_is_what_the_server_said() {
    let server = Fake::new(|_| ok(DONE));
    let (out, err, code) = server.orbit(&["show", "e1", "--output", "json"]);
    assert_eq!((out.trim_end(), err.as_str(), code), (DONE, "", 0));
    let (out, _, code) = server.orbit(&["show", "e1", "--output", "yaml"]);
    assert_eq!(code, 0);
    assert!(out.contains("\"n\": 9007199254740993\n"), "{out}");
    let (out, _, code) = server.orbit(&["show", "e1", "--run", "3"]);
    assert_eq!(code, 0);
    assert!(out.starts_with("e1: COMPLETED\nworkflow  w 1.0.0\ncreated   2026-01-31 12:00:00Z\n"), "{out}");
    assert!(out.contains("a     SUCCEEDED  2        w1      +1s"), "{out}");
    assert_eq!(server.seen()[2].path, "/v1/executions/e1?run=3");
}

#[test]
fn a_start_carries_its_input_bit_for_bit() {
    let server = Fake::new(starts_and_ends(DONE));
    let (out, err, code) = server.orbit(&[
        "start",
        "w",
        "--id",
        "e1",
        "--version",
        "1.0.0",
        "--input",
        r#"{"n": 9007199254740993, "f": 1.10}"#,
    ]);
    assert_eq!((out.as_str(), err.as_str(), code), ("e1 started\n", "", 0));
    let request = &server.seen()[0];
    assert_eq!(
        request.body,
        r#"{"workflow":"w","version":"1.0.0","input":{"n": 9007199254740993, "f": 1.10},"execution_id":"e1"}"#
    );
    assert_eq!((request.media_type.as_str(), request.authorization.as_str()), ("application/json", ""));
}

#[test]
fn input_comes_from_files_and_stdin_too() {
    let server = Fake::new(starts_and_ends(DONE));
    let place = tempfile::tempdir().expect("a directory");
    std::fs::write(place.path().join("in.json"), "{\"a\":1}\n").expect("a file");
    let (_, err, code) = run(server.command(&["start", "w", "--input", "@in.json"]).current_dir(place.path()));
    assert_eq!((err.as_str(), code), ("", 0));
    let mut command = server.command(&["start", "w", "--input", "@-"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it runs");
    child.stdin.take().expect("stdin").write_all(b"{\"b\":2}").expect("read");
    assert!(child.wait().expect("an end").success());
    assert!(server.seen()[0].body.contains(r#""input":{"a":1},"#), "{:?}", server.seen());
    assert!(server.seen()[1].body.contains(r#""input":{"b":2},"#), "{:?}", server.seen());
    let (_, err, code) = server.orbit(&["start", "w", "--input", "{"]);
    assert_eq!(code, 2);
    assert!(err.starts_with("error: INVALID_JSON: what came from the command line"), "{err}");
    let (_, err, code) = server.orbit(&["start", "w", "--input", "@nowhere.json"]);
    assert_eq!((err.as_str(), code), ("error: FILE_NOT_FOUND: there is no nowhere.json; check the path\n", 2));
}

#[test]
fn waiting_prints_the_result_and_judges_it() {
    let server = Fake::new(starts_and_ends(DONE));
    let (out, err, code) = server.orbit(&["start", "w", "--wait"]);
    assert_eq!((err.as_str(), code), ("", 0));
    assert_eq!(out, "e1 started\ne1 COMPLETED: [1.10,9007199254740993]\n");
}

#[test]
fn what_did_not_complete_ends_with_1() {
    let server = Fake::new(starts_and_ends(FAILED));
    let (out, err, code) = server.orbit(&["start", "w", "--id", "e1", "--wait", "--output", "json"]);
    assert_eq!((out.trim_end(), code), (FAILED, 1));
    assert_eq!(
        err,
        "error: NOT_COMPLETED: e1 ended as FAILED with NO_STOCK: none left; `orbit history e1` shows what happened\n"
    );
}

#[test]
fn a_refusal_is_one_sentence_with_its_code() {
    let server = Fake::new(|_| refusal(401, "UNAUTHENTICATED", "who are you?"));
    let (out, err, code) = server.orbit(&["list", "--token", "t0"]);
    assert_eq!((out.as_str(), code), ("", 1));
    assert_eq!(err, "error: UNAUTHENTICATED: who are you?; give a token with --token or ORBIT_TOKEN\n");
    assert_eq!(server.seen()[0].authorization, "Bearer t0");
    let (out, _, _) = server.orbit(&["list", "--output", "json"]);
    assert_eq!(out.trim_end(), r#"{"error":{"code":"UNAUTHENTICATED","message":"who are you?"}}"#);
}

#[test]
fn faults_of_an_input_are_shown_with_their_path() {
    let server = Fake::new(|_| {
        let faults = r#"[{"path":"/n","message":"is no integer"}]"#;
        Some((
            400,
            format!(r#"{{"error":{{"code":"INVALID_INPUT","message":"bad","details":{{"faults":{faults}}}}}}}"#),
        ))
    });
    let (out, err, code) = server.orbit(&["start", "w", "--input", "{}"]);
    assert_eq!((out.as_str(), err.as_str(), code), ("", "input: /n: is no integer\nerror: INVALID_INPUT: bad\n", 1));
}

#[test]
fn nobody_there_ends_with_3() {
    // A port that was free a moment ago.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    drop(listener);
    let (out, err, code) = run(&mut orbit(&["list", "--address", &address, "--retry-for", "100ms"]));
    assert_eq!((out.as_str(), code), ("", 3));
    assert!(err.starts_with(&format!("error: UNREACHABLE: no node answers at http://{address}: ")), "{err}");
    for address in ["ftp://h", "https://h", "http://"] {
        let (_, err, code) = run(&mut orbit(&["list", "--address", address]));
        assert_eq!(code, 2, "{address}: {err}");
    }
}

#[test]
fn a_call_is_repeated_while_nothing_was_done() {
    let server = Fake::new(|seen| match seen.before {
        0 => refusal(503, "NO_LEADER", "an election"),
        1 => refusal(429, "OVERLOADED", "busy"),
        _ => Some((201, STARTED.to_owned())),
    });
    let (out, err, code) = server.orbit(&["start", "w", "--id", "e1"]);
    assert_eq!((out.as_str(), err.as_str(), code), ("e1 started\n", "", 0));
    assert_eq!(server.seen().len(), 3);
}

#[test]
fn a_start_whose_answer_is_lost_is_repeated_with_the_same_id() {
    let server = Fake::new(|seen| if seen.before == 0 { None } else { Some((201, STARTED.to_owned())) });
    let (_, err, code) = server.orbit(&["start", "w"]);
    assert_eq!((err.as_str(), code), ("", 0));
    let bodies: Vec<_> = server.seen().into_iter().map(|seen| seen.body).collect();
    assert_eq!(bodies.len(), 2);
    assert_eq!(bodies[0], bodies[1]);
}

#[test]
fn an_unknown_outcome_is_no_failure() {
    let server = Fake::new(|_| refusal(503, "OUTCOME_UNKNOWN", "the leader was lost"));
    let (_, err, code) = server.orbit(&["start", "w", "--id", "e7", "--retry-for", "200ms"]);
    assert_eq!(code, 3);
    assert!(server.seen().len() > 1, "repeating a start with an id does no harm");
    assert_eq!(
        err,
        "error: OUTCOME_UNKNOWN: the leader was lost; it may have happened all the same: `orbit show e7` tells, and \
         the same call with --id e7 is safe\n"
    );
}

#[test]
fn what_is_no_id_never_becomes_a_path() {
    let server = Fake::new(|_| ok("{}"));
    for id in ["..", "", "a/b", "a?b"] {
        for command in ["show", "history", "watch", "cancel"] {
            let (_, err, code) = server.orbit(&[command, id]);
            assert_eq!(code, 2, "{command} {id:?}: {err}");
        }
    }
    assert!(server.seen().is_empty());
}

#[test]
fn lists_go_from_page_to_page() {
    let server = Fake::new(|seen| {
        let row = |id: &str| FAILED.replace("\"e1\"", &format!("\"{id}\"")).replace("FAILED", "RUNNING");
        if seen.path.contains("cursor=c%2F1") {
            Some((200, format!(r#"{{"executions":[{}],"as_of_ms":2}}"#, row("b"))))
        } else {
            Some((200, format!(r#"{{"executions":[{}],"next_cursor":"c/1","as_of_ms":1}}"#, row("a"))))
        }
    });
    let (out, err, code) = server.orbit(&["list", "--status", "running", "--limit", "1"]);
    assert_eq!((err.as_str(), code), ("more: --cursor c/1, or --all\n", 0));
    assert_eq!(
        out,
        "ID  WORKFLOW  STATUS   CREATED               ERROR\n\
         a   w 1.0.0   RUNNING  1970-01-01 00:00:00Z  NO_STOCK\n"
    );
    assert_eq!(server.seen()[0].path, "/v1/executions?status=running&limit=1");
    let (out, _, _) = server.orbit(&["list", "--all"]);
    assert_eq!(out.lines().count(), 3, "{out}");
    let (out, _, _) = server.orbit(&["list", "--all", "--output", "json"]);
    assert!(out.contains(r#"{"execution_id":"b""#) && out.ends_with("\"as_of_ms\":1}\n"), "{out}");
}

fn event(seq: u64, text: &str) -> String {
    format!(r#"{{"seq":{seq},"timestamp_ms":{},"type":{text}}}"#, 1000 + seq * 10)
}

const COMPLETED: &str = r#""WorkflowCompleted","output":null,"unconsumed_signals":0"#;

#[test]
fn a_history_can_be_replayed_without_a_node() {
    let server = Fake::new(|seen| match seen.path.as_str() {
        "/v1/executions/e1/history?from=1" => {
            let events = event(1, r#""WorkflowStarted""#);
            Some((200, format!(r#"{{"execution_id":"e1","run":2,"events":[{events}],"next":2}}"#)))
        }
        "/v1/executions/e1/history?run=2&from=2" => {
            let events = event(2, COMPLETED);
            Some((200, format!(r#"{{"execution_id":"e1","run":2,"events":[{events}]}}"#)))
        }
        "/v1/executions/e1?run=2" => ok(DONE),
        "/v1/workflows/w/1.0.0" => ok(r#"{"name":"w","version":"1.0.0","x":9007199254740993}"#),
        _ => refusal(404, "NOT_FOUND", "no such route"),
    });
    let (out, err, code) = server.orbit(&["history", "e1", "--output", "json"]);
    assert_eq!((err.as_str(), code), ("", 0));
    let events = [event(1, r#""WorkflowStarted""#), event(2, COMPLETED)].join(",");
    let definition = r#"{"name":"w","version":"1.0.0","x":9007199254740993}"#;
    let whole = format!(r#"{{"execution_id":"e1","run":2,"events":[{events}],"definition":{definition}}}"#);
    assert_eq!(out.trim_end(), whole);
    let (out, _, _) = server.orbit(&["history", "e1"]);
    assert!(out.contains("2    1970-01-01 00:00:01.020Z  WorkflowCompleted"), "{out}");
}

#[test]
fn watching_follows_runs_to_the_end() {
    let server = Fake::new(|seen| {
        let page =
            |run: u32, events: &str| Some((200, format!(r#"{{"execution_id":"e1","run":{run},"events":[{events}]}}"#)));
        match (seen.path.as_str(), seen.before) {
            ("/v1/executions/e1/history?from=1", _) => page(1, &event(1, r#""WorkflowStarted""#)),
            ("/v1/executions/e1/history?run=1&from=2", 0) => page(1, ""),
            ("/v1/executions/e1/history?run=1&from=2", _) => {
                page(1, &event(2, r#""WorkflowContinuedAsNew","run":2,"input":{},"unconsumed_signals":0"#))
            }
            ("/v1/executions/e1/history?run=2&from=1", _) => {
                let news = event(1, r#""SomethingNew","step":"a""#);
                page(2, &format!("{news},{}", event(2, COMPLETED)))
            }
            (path, _) if path.starts_with("/v1/executions/e1/wait") => ok(DONE),
            _ => refusal(404, "NOT_FOUND", "no such route"),
        }
    });
    let (out, err, code) = server.orbit(&["watch", "e1"]);
    assert_eq!((err.as_str(), code), ("", 0), "{out}");
    let lines: Vec<_> = out.lines().map(str::trim_start).collect();
    assert_eq!(lines[0], "+0s  WorkflowStarted");
    assert!(lines[1].starts_with("+10ms  WorkflowContinuedAsNew"), "{out}");
    assert!(lines[2].ends_with("SomethingNew a"), "an event of a newer node: {out}");
    assert_eq!(lines[4], "e1 COMPLETED: [1.10,9007199254740993]");
}

/// What a reader asks next stands beside each event; inputs and outputs on demand.
#[test]
fn a_history_says_why() {
    let server = Fake::new(|_| {
        let events = [
            event(
                1,
                r#""StepScheduled","step":"a","attempt":1,"input":{"n": 1},"idempotency_key":"k","redelivery":false"#,
            ),
            event(
                2,
                r#""StepDispatched","step":"a","attempt":1,"token":"t","worker_id":"w1","worker_session":"s",
                    "deadline_ms":6020"#,
            ),
            event(
                3,
                r#""StepAttemptFailed","step":"a","attempt":1,"error":{"code":"E1","message":"no\nanswer"},
                    "unknown":false"#,
            ),
            event(4, r#""RetryScheduled","step":"a","next_attempt":2,"delay_ms":2000,"fire_at_ms":3040"#),
            event(5, r#""CancelRequested","reason":"a typo","force":false"#),
            event(6, r#""SomethingNew","output":[1]"#),
        ];
        ok(&format!(r#"{{"execution_id":"e1","run":1,"events":[{}]}}"#, events.join(",")))
    });
    let golden = "SEQ  TIME                      EVENT                      WHY
1    1970-01-01 00:00:01.010Z  StepScheduled a attempt=1
2    1970-01-01 00:00:01.020Z  StepDispatched a           to w1, times out in 5s
3    1970-01-01 00:00:01.030Z  StepAttemptFailed a E1     no answer
4    1970-01-01 00:00:01.040Z  RetryScheduled a next=2    in 2s
5    1970-01-01 00:00:01.050Z  CancelRequested            a typo
6    1970-01-01 00:00:01.060Z  SomethingNew
";
    let (out, err, code) = server.orbit(&["history", "e1"]);
    assert_eq!((out.as_str(), err.as_str(), code), (golden, "", 0));
    let (out, _, _) = server.orbit(&["history", "e1", "-v"]);
    let values: Vec<_> = out.lines().filter(|line| line.starts_with(' ')).map(str::trim_start).collect();
    assert_eq!(values, [r#"input {"n": 1}"#, r#"error {"code":"E1","message":"no\nanswer"}"#, "output [1]"]);
}

#[test]
fn what_needs_somebody_is_shown_first() {
    let unit = |key: &str, status: &str, more: &str| {
        format!(r#""{key}":{{"status":"{status}","attempt":1,"redelivery":false{more}}}"#)
    };
    let begun = r#","scheduled_at_ms":5"#;
    let units = [
        unit("a[10]", "SUCCEEDED", begun),
        unit("a[2]", "SUCCEEDED", begun),
        unit("b", "DISPATCHED", r#","scheduled_at_ms":9,"deadline_ms":5009"#),
        unit("z", "FAILED", r#","scheduled_at_ms":8,"finished_at_ms":9,"error":{"code":"E1","message":"no"}"#),
    ];
    let server = Fake::new(move |seen| match seen.path.as_str() {
        "/v1/executions/e1" => {
            ok(&FAILED.replace(r#""units":{}"#, &format!(r#""units":{{{}}},"units_omitted":2"#, units.join(","))))
        }
        "/v1/executions/e1/units?run=1&prefix=a%5B" | "/v1/executions/e1/units?run=1" => {
            ok(&format!(r#"{{"units":{{{}}},"next_cursor":"a[10]"}}"#, units[0]))
        }
        path if path.ends_with("cursor=a%5B10%5D") => ok(&format!(r#"{{"units":{{{}}}}}"#, units[1])),
        _ => refusal(404, "NOT_FOUND", "no such route"),
    });
    let (out, err, code) = server.orbit(&["show", "e1"]);
    assert_eq!((err.as_str(), code), ("", 0));
    let golden = "
UNIT   STATUS      SINCE START  DEADLINE  ERROR
z      FAILED      +9ms                   E1 no
b      DISPATCHED  +9ms         +5s9ms
a[2]   SUCCEEDED   +5ms
a[10]  SUCCEEDED   +5ms
and 2 more units: `orbit show e1 --all`, or --units PREFIX
";
    assert!(out.ends_with(golden), "{out}");
    let (out, err, code) = server.orbit(&["show", "e1", "--units", "a["]);
    assert_eq!((err.as_str(), code), ("", 0));
    assert_eq!(out, "UNIT   STATUS     SINCE START\na[2]   SUCCEEDED  +5ms\na[10]  SUCCEEDED  +5ms\n");
    let (out, _, _) = server.orbit(&["show", "e1", "--units", "a[", "--output", "json"]);
    assert!(out.starts_with(r#"{"units":{"a[10]":{"status":"SUCCEEDED""#) && out.contains("a[2]"), "{out}");
    let (out, _, _) = server.orbit(&["show", "e1", "--all", "--output", "json"]);
    assert!(
        out.starts_with(r#"{"execution_id":"e1","#) && out.contains(r#""a[2]""#) && !out.contains("omitted"),
        "{out}"
    );
    let (out, _, _) = server.orbit(&["show", "e1", "--all"]);
    assert!(out.starts_with("e1: FAILED\n") && out.ends_with("a[10]  SUCCEEDED  +5ms\n"), "{out}");
}

const PARENT: &str = "name: parent
version: 1.0.0
steps:
  - {id: a, workflow: {name: child, version: 1.0.0}}
";
const CHILD: &str = "name: child
version: 1.0.0
steps:
  - {id: a, sleep: 1s}
";

fn registered(seen: &fake::Seen) -> Answer {
    let name = if seen.body.contains("name: parent") { "parent" } else { "child" };
    Some((
        201,
        format!(r#"{{"name":"{name}","version":"1.0.0","definition_hash":"sha256:1","created":true,"warnings":[]}}"#),
    ))
}

#[test]
fn deploying_registers_children_first() {
    let place = tempfile::tempdir().expect("a directory");
    std::fs::write(place.path().join("p.yaml"), PARENT).expect("a file");
    std::fs::write(place.path().join("c.yaml"), CHILD).expect("a file");
    let server = Fake::new(registered);
    let (out, err, code) = run(server.command(&["deploy", "p.yaml", "c.yaml"]).current_dir(place.path()));
    assert_eq!((err.as_str(), code), ("", 0));
    assert_eq!(out, "c.yaml: child 1.0.0 sha256:1 registered\np.yaml: parent 1.0.0 sha256:1 registered\n");
    let seen = server.seen();
    assert_eq!((seen[0].body.as_str(), seen[0].media_type.as_str()), (CHILD, "application/yaml"));
    let (out, _, _) =
        run(server.command(&["deploy", "p.yaml", "c.yaml", "--output", "json"]).current_dir(place.path()));
    assert!(out.starts_with(r#"{"workflows":[{"name":"child""#), "{out}");
}

#[test]
fn nothing_is_deployed_while_anything_has_a_fault() {
    let place = tempfile::tempdir().expect("a directory");
    std::fs::write(place.path().join("c.yaml"), CHILD).expect("a file");
    std::fs::write(place.path().join("bad.yaml"), CHILD.replace("sleep", "sleeep")).expect("a file");
    let server = Fake::new(registered);
    let (out, err, code) = run(server.command(&["deploy", "c.yaml", "bad.yaml"]).current_dir(place.path()));
    assert_eq!(code, 1);
    assert!(out.starts_with("bad.yaml:4:"), "{out}");
    assert!(err.starts_with("error: INVALID_IR: "), "{err}");
    assert!(server.seen().is_empty());
}

#[test]
fn what_only_the_node_finds_has_its_place_too() {
    let place = tempfile::tempdir().expect("a directory");
    std::fs::write(place.path().join("p.yaml"), PARENT).expect("a file");
    let server = Fake::new(|_| {
        let faults = r#"[{"path":"/steps/0","message":"nobody knows child","line":4,"column":6}]"#;
        Some((
            400,
            format!(r#"{{"error":{{"code":"INVALID_IR","message":"1 fault","details":{{"faults":{faults}}}}}}}"#),
        ))
    });
    let (out, err, code) = run(server.command(&["deploy", "p.yaml"]).current_dir(place.path()));
    assert_eq!(code, 1);
    assert_eq!(out, "p.yaml:4:6: /steps/0: nobody knows child\n");
    assert_eq!(err, "error: INVALID_IR: p.yaml: 1 fault\n");
}

#[test]
fn cancelling_says_why_and_workers_are_shown() {
    let server = Fake::new(|seen| match seen.path.as_str() {
        "/v1/executions/e1/cancel" => ok(&FAILED.replace("FAILED", "RUNNING")),
        "/v1/workers" => ok(concat!(
            r#"{"workers":[{"worker_id":"w1","runtime":"shell","contracts":[{"task_name":"a.do","#,
            r#""contract_version":"1.0.0"},{"task_name":"a.do","contract_version":"1.1.0"}],"#,
            r#""online":true,"sessions":1,"in_flight":2,"last_seen_ms":0}]}"#,
        )),
        _ => refusal(404, "NOT_FOUND", "no such route"),
    });
    let (out, err, code) = server.orbit(&["cancel", "e1", "--reason", "no more"]);
    assert_eq!((err.as_str(), code), ("", 0));
    assert_eq!(out, "e1 RUNNING, is being cancelled; `orbit watch` shows how\n");
    assert_eq!(server.seen()[0].body, r#"{"reason":"no more"}"#);
    let (out, _, code) = server.orbit(&["workers"]);
    assert_eq!(code, 0);
    assert!(out.ends_with("1970-01-01 00:00:00Z  a.do@1.0.0,1.1.0\n"), "{out}");
}
