//! What commands do for somebody who slipped, and what they print for programs.

#![allow(clippy::expect_used)]

mod fake;

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use fake::{Fake, Running, ok, orbit, refusal, run};

const WORKFLOWS: &str = concat!(
    r#"{"workflows":[{"name":"expenses","version":"1.0.0","description":"Pay it back","definition_hash":"sha256:1","#,
    r#""steps":["scan"],"tasks":["expense.scan","expense.pay"]},{"name":"sleepy","version":"2.0.0","#,
    r#""definition_hash":"sha256:2","steps":["s"],"tasks":[]}]}"#,
);

/// A node with two workflows, of which none is called as asked.
fn server() -> Fake {
    Fake::new(|seen| match (seen.method.as_str(), seen.path.as_str()) {
        ("GET", "/v1/workflows") => ok(WORKFLOWS),
        ("POST", "/v1/executions") if seen.body.contains(r#""workflow":"expenses""#) => {
            Some((201, r#"{"execution_id":"e1","run":1,"created":true}"#.to_owned()))
        }
        ("POST", "/v1/executions") => refusal(404, "WORKFLOW_NOT_FOUND", "there is no such workflow"),
        ("GET", path) if path.starts_with("/v1/executions?") => ok(r#"{"executions":[],"as_of_ms":1}"#),
        _ => refusal(404, "NOT_FOUND", "no such route"),
    })
}

#[test]
fn what_is_deployed_is_listed() {
    let server = server();
    let (out, err, code) = server.orbit(&["workflows"]);
    let golden = "WORKFLOW  VERSION  DESCRIPTION  TASKS
expenses  1.0.0    Pay it back  expense.scan expense.pay
sleepy    2.0.0
";
    assert_eq!((out.as_str(), err.as_str(), code), (golden, "", 0));
    let (out, _, _) = server.orbit(&["workflows", "--output", "json"]);
    assert_eq!(out.trim_end(), WORKFLOWS);
}

#[test]
fn a_mistyped_workflow_is_told_the_one_that_was_meant() {
    let server = server();
    let (out, err, code) = server.orbit(&["start", "expences"]);
    let said = "error: WORKFLOW_NOT_FOUND: there is no such workflow (did you mean `expenses`?)\n";
    assert_eq!((out.as_str(), err.as_str(), code), ("", said, 1));
    let (_, err, _) = server.orbit(&["start", "something"]);
    assert_eq!(err, "error: WORKFLOW_NOT_FOUND: there is no such workflow\n");
}

#[test]
fn a_quiet_start_prints_the_id_alone() {
    let server = server();
    for quiet in ["-q", "--quiet"] {
        assert_eq!(server.orbit(&["start", "expenses", quiet]), ("e1\n".to_owned(), String::new(), 0));
    }
    assert_eq!(server.orbit(&["start", "expenses", "-q", "--output", "json"]).2, 2, "one form, not two");
}

#[test]
fn a_time_may_be_how_long_ago() {
    let server = server();
    server.orbit(&["list", "--since", "1h", "--until", "2026-01-31T12:00:00Z"]);
    let path = &server.seen()[0].path;
    let since = path.split("since=").nth(1).and_then(|rest| rest.split('&').next()).expect("a time");
    assert!(since.len() == 13 && since.bytes().all(|byte| byte.is_ascii_digit()), "{path}");
    assert!(path.contains("until=2026-01-31T12%3A00%3A00Z"), "{path}");
}

#[test]
fn faults_that_the_sentence_says_already_are_not_said_again() {
    let server = Fake::new(|_| {
        Some((
            400,
            r#"{"error":{"code":"INVALID_INPUT","message":"/n: is no integer","details":{"faults":[
            {"path":"/n","message":"is no integer"}]}}}"#
                .to_owned(),
        ))
    });
    let (out, err, _) = server.orbit(&["start", "w"]);
    assert_eq!((out.as_str(), err.as_str()), ("", "error: INVALID_INPUT: /n: is no integer\n"));
}

#[test]
fn deploying_passes_over_cases() {
    let place = tempfile::tempdir().expect("a directory");
    let document = "{name: w, version: 1.0.0, steps: [{id: a, sleep: 1s}]}";
    std::fs::write(place.path().join("w.yaml"), document).expect("a file");
    std::fs::write(place.path().join("w.test.yaml"), "- {name: x, expect: {status: completed}}").expect("a file");
    let server = Fake::new(|_| {
        let hash = "sha256:1";
        Some((201, format!(r#"{{"name":"w","version":"1.0.0","definition_hash":"{hash}","created":true}}"#)))
    });
    let (out, err, code) = run(server.command(&["deploy", "w.test.yaml", "w.yaml"]).current_dir(place.path()));
    assert_eq!(out, "w.yaml: w 1.0.0 sha256:1 registered\n");
    assert_eq!((err.as_str(), code), ("w.test.yaml: passed over, for cases are not deployed\n", 0));
    let (_, err, code) = run(server.command(&["deploy", "w.test.yaml"]).current_dir(place.path()));
    assert!(code == 2 && err.contains("error: NO_DOCUMENT: only cases files were named"), "{err}");
    assert_eq!(server.seen().len(), 1);
}

#[test]
fn a_worker_for_a_task_that_nobody_uses_says_so() {
    let server = server();
    let mut command = server.command(&["worker", "exec", "--task", "expence.scan", "--task", "x", "--", "true"]);
    let mut worker = Running(command.stdout(Stdio::piped()).spawn().expect("it runs"));
    let mut line = String::new();
    BufReader::new(worker.0.stdout.take().expect("stdout")).read_line(&mut line).expect("a line");
    let said = "no workflow uses expence.scan (did you mean `expense.scan`?), x yet; waiting for one that does\n";
    assert_eq!(line, said);
}

#[test]
fn what_can_be_no_task_is_refused_at_once() {
    let long = "a".repeat(101);
    for name in ["A b", "", ".a", "a/b", "A b@1.0.0", &long] {
        let (_, err, code) = run(&mut orbit(&["worker", "exec", "--task", name, "--", "true"]));
        assert!(code == 2 && err.starts_with("error: INVALID_TASK: "), "{name:?}: {err}");
    }
}

#[test]
fn shells_complete_commands() {
    for command in ["completion", "completions"] {
        for shell in ["bash", "zsh", "fish"] {
            let (out, err, code) = run(&mut orbit(&[command, shell]));
            assert_eq!((err.as_str(), code), ("", 0), "{shell}");
            assert!(out.contains("worker") && out.contains("deploy"), "{shell}");
        }
    }
    assert_eq!(run(&mut orbit(&["completion", "csh"])).2, 2);
}
