//! `orbit worker exec` against a server that answers as the API says.

#![allow(clippy::expect_used)]

mod fake;

use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fake::{Answer, Fake, Running, Seen, ok, refusal};
use serde_json::Value;

/// Longest wait for anything that is bound to happen.
const SOON: Duration = Duration::from_secs(20);

/// A node with tasks to hand out, which tells what it is told.
struct Node {
    fake: Fake,
    told: Receiver<(String, Value)>,
}

/// How the node answers other calls than polls; none: the usual.
type Other = dyn Fn(&Seen) -> Option<Answer> + Send + Sync;

impl Node {
    /// Polls get one of these each, in this order.
    fn new(tasks: Vec<String>, other: impl Fn(&Seen) -> Option<Answer> + Send + Sync + 'static) -> Self {
        let (tell, told) = channel();
        let tasks = Mutex::new(tasks.into_iter());
        let (tell, other): (Mutex<Sender<_>>, Box<Other>) = (Mutex::new(tell), Box::new(other));
        let fake = Fake::new(move |seen| {
            let answer = other(seen).unwrap_or_else(|| usual(seen, &tasks));
            let told = serde_json::from_str(&seen.body).unwrap_or_default();
            let _ = tell.lock().expect("a sender").send((seen.path.clone(), told));
            answer
        });
        Self { fake, told }
    }

    /// The next call to this path.
    fn next(&self, path: &str) -> Value {
        loop {
            let (at, body) = self.told.recv_timeout(SOON).unwrap_or_else(|_| panic!("no call to {path}"));
            if at == path {
                return body;
            }
        }
    }

    fn worker(&self, arguments: &[&str], script: &str) -> Running {
        let mut all = vec!["worker", "exec", "--worker-id", "w1"];
        all.extend(arguments);
        all.extend(["--", "sh", "-c", script]);
        Running(spawn(&mut self.fake.command(&all)))
    }
}

fn spawn(command: &mut Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs")
}

fn usual(seen: &Seen, tasks: &Mutex<impl Iterator<Item = String>>) -> Answer {
    match seen.path.as_str() {
        "/v1/workers/register" => ok(concat!(
            r#"{"accepted":true,"worker_session_id":"s1","heartbeat_interval_ms":100,"#,
            r#""session_timeout_ms":30000,"warnings":[]}"#,
        )),
        "/v1/workers/heartbeat" => ok(r#"{"accepted":true,"cancel":[]}"#),
        "/v1/workers/poll" => match tasks.lock().expect("tasks").next() {
            Some(task) => Some((200, format!(r#"{{"tasks":[{task}]}}"#))),
            None => a_while_later(Some((204, String::new()))),
        },
        "/v1/tasks/complete" | "/v1/tasks/fail" | "/v1/workers/unregister" => ok(r#"{"accepted":true}"#),
        "/v1/tasks/heartbeat" => ok(r#"{"accepted":true,"cancel":false}"#),
        _ => refusal(404, "NOT_FOUND", "no such route"),
    }
}

/// A node lets those wait who ask for tasks when there are none.
#[allow(clippy::disallowed_methods, reason = "on a thread for answers that may block")]
fn a_while_later(answer: Answer) -> Answer {
    std::thread::sleep(Duration::from_millis(20));
    answer
}

fn task(token: &str, input: &str) -> String {
    let names = r#""execution_id":"e1","run":1,"workflow":"w","workflow_version":"1.0.0","step_id":"ship[3]""#;
    let of_task = r#""task_name":"a.do","contract_version":"1.0.0","idempotency_key":"k1","attempt":2"#;
    format!(r#"{{"token":"{token}",{names},{of_task},"input":{input},"redelivery":false}}"#)
}

const FIXED: [&str; 2] = ["--task", "a.do@1.0.0"];

/// What a worker reports of one task.
fn report(script: &str, arguments: &[&str], path: &str) -> Value {
    let node = Node::new(vec![task("t1", r#"{"n":9007199254740993}"#)], |_| None);
    let _worker = node.worker(&[&FIXED, arguments].concat(), script);
    node.next(path)
}

#[test]
fn a_command_gets_its_input_and_gives_its_output() {
    let node = Node::new(vec![task("t1", r#"{"n":9007199254740993,"f":1.10}"#)], |_| None);
    let script = r#"printf '{"in":%s,"env":"%s %s %s %s"}' "$(cat)" \
        "$ORBIT_EXECUTION_ID" "$ORBIT_UNIT" "$ORBIT_ATTEMPT" "$ORBIT_IDEMPOTENCY_KEY""#;
    let _worker = node.worker(&[&FIXED[..], &["--slots", "3"]].concat(), script);
    let register = node.next("/v1/workers/register");
    assert_eq!(register["worker_id"], "w1");
    assert_eq!(register["runtime"], "shell");
    assert_eq!(register["contracts"], serde_json::json!([{"task_name": "a.do", "contract_version": "1.0.0"}]));
    let poll = node.next("/v1/workers/poll");
    assert_eq!((&poll["worker_session_id"], &poll["max_tasks"]), (&"s1".into(), &3.into()));
    node.next("/v1/tasks/complete");
    let body = &node.fake.seen_at("/v1/tasks/complete")[0].body;
    assert_eq!(body, r#"{"token":"t1","output":{"in":{"n":9007199254740993,"f":1.10},"env":"e1 ship[3] 2 k1"}}"#);
}

#[test]
fn nothing_on_stdout_is_null() {
    assert_eq!(report("cat > /dev/null; echo", &[], "/v1/tasks/complete")["output"], Value::Null);
    assert_eq!(report("exit 0", &[], "/v1/tasks/complete")["token"], "t1");
}

#[test]
fn an_exit_code_is_a_failure_with_the_end_of_stderr() {
    let script = "head -c 20000 /dev/zero | tr '\\0' x >&2; echo ' the end' >&2; exit 7";
    let failure = report(script, &[], "/v1/tasks/fail");
    assert_eq!((&failure["error_code"], &failure["retryable"]), (&"EXIT_7".into(), &true.into()));
    let message = failure["error_message"].as_str().expect("a message");
    assert!(message.ends_with("x the end") && message.len() <= 8192, "{}", message.len());
    let failure = report("exit 7", &["--fatal", "3,7"], "/v1/tasks/fail");
    assert_eq!((&failure["retryable"], &failure["unknown"]), (&false.into(), &false.into()));
    let failure = report("kill -9 $$", &[], "/v1/tasks/fail");
    assert_eq!((&failure["error_code"], &failure["unknown"]), (&"EXIT_137".into(), &true.into()));
}

#[test]
fn what_is_no_json_or_too_long_is_no_output() {
    let failure = report("echo hello", &[], "/v1/tasks/fail");
    assert_eq!((&failure["error_code"], &failure["unknown"]), (&"OUTPUT_NOT_JSON".into(), &true.into()));
    let failure = report("yes", &[], "/v1/tasks/fail");
    assert_eq!((&failure["error_code"], &failure["retryable"]), (&"OUTPUT_TOO_LARGE".into(), &false.into()));
}

#[test]
fn what_a_command_leaves_behind_does_not_hold_its_result() {
    let node = Node::new(vec![task("t1", "{}")], |_| None);
    let _worker = node.worker(&FIXED, "sleep 15 & echo 1");
    assert_eq!(node.next("/v1/tasks/complete")["output"], 1);
}

#[test]
fn a_result_is_repeated_until_it_is_answered_and_listed_so_long() {
    let (tell, listed) = channel();
    let (tell, listed) = (Mutex::new(tell), Mutex::new(listed));
    let node = Node::new(vec![task("t1", "{}")], move |seen| match (seen.path.as_str(), seen.before) {
        ("/v1/tasks/complete", 0) => Some(None),
        ("/v1/tasks/complete", 1) => Some(refusal(503, "NO_LEADER", "an election")),
        ("/v1/tasks/complete", 2) => Some(refusal(503, "OUTCOME_UNKNOWN", "lost")),
        ("/v1/tasks/complete", 3) => {
            listed.lock().expect("a receiver").recv_timeout(SOON).expect("a sign of life that lists it");
            None
        }
        ("/v1/workers/heartbeat", _) if seen.body.contains(r#""tokens":["t1"]"#) => {
            tell.lock().expect("a sender").send(()).expect("a listener");
            None
        }
        _ => None,
    });
    let _worker = node.worker(&FIXED, "echo 1");
    for _ in 0..4 {
        assert_eq!(node.next("/v1/tasks/complete")["token"], "t1");
    }
    node.next("/v1/workers/heartbeat");
    assert_eq!(node.next("/v1/workers/heartbeat")["tokens"], serde_json::json!([]));
}

#[test]
fn an_unknown_session_is_registered_again_with_what_it_holds() {
    let node = Node::new(vec![task("t1", "{}")], |seen| match (seen.path.as_str(), seen.before) {
        ("/v1/workers/heartbeat", _) if seen.body.contains("t1") && seen.body.contains("s1") => {
            Some(refusal(404, "UNKNOWN_SESSION", "register again"))
        }
        ("/v1/workers/register", 1..) => Some(ok(
            r#"{"accepted":true,"worker_session_id":"s2","heartbeat_interval_ms":100,"session_timeout_ms":30000}"#,
        )),
        _ => None,
    });
    let _worker = node.worker(&FIXED, "sleep 15");
    assert_eq!(node.next("/v1/workers/register")["tokens"], serde_json::json!([]));
    let again = node.next("/v1/workers/register");
    assert_eq!((&again["tokens"], &again["worker_session_id"]), (&serde_json::json!(["t1"]), &"s1".into()));
    let beat = node.next("/v1/workers/heartbeat");
    assert_eq!((&beat["tokens"], &beat["worker_session_id"]), (&serde_json::json!(["t1"]), &"s2".into()));
}

/// The file in which a script notes what happens to it.
struct Notes(tempfile::TempDir);

impl Notes {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn path(&self) -> String {
        self.0.path().join("notes").display().to_string()
    }

    fn read(&self) -> String {
        std::fs::read_to_string(self.path()).unwrap_or_default()
    }
}

#[test]
fn a_cancelled_task_gets_sigterm_and_then_sigkill() {
    let notes = Arc::new(Notes::new());
    let ready = Arc::clone(&notes);
    let node = Node::new(vec![task("t1", "{}"), task("t2", "{}")], move |seen| {
        let listed = |token: &str| seen.path == "/v1/workers/heartbeat" && seen.body.contains(token);
        if listed("t1") && ready.read().contains("one") {
            return Some(ok(r#"{"accepted":true,"cancel":["t1"]}"#));
        }
        (listed("t2") && ready.read().contains("two")).then(|| ok(r#"{"accepted":true,"cancel":["t2"]}"#))
    });
    // The first stops when told to, the second, which comes when the first is gone, never does.
    let path = notes.path();
    let script = format!(
        "if [ ! -e {path} ]; then trap 'echo term >> {path}; exit 1' TERM; echo one >> {path};
         else trap '' TERM; echo two >> {path}; fi; while :; do sleep 0.05; done"
    );
    let _worker = node.worker(&[&FIXED[..], &["--grace", "300ms"]].concat(), &script);
    // A token is listed no longer once its command is gone.
    while !notes.read().contains("two") {
        node.next("/v1/workers/heartbeat");
    }
    assert_eq!(notes.read(), "one\nterm\ntwo\n");
    while node.next("/v1/workers/heartbeat")["tokens"] != serde_json::json!([]) {}
    // Who closes around it may wait for its worker, and need not wait for the next sign of life.
    let said = node.fake.seen_at("/v1/tasks/fail");
    let said: Vec<_> = said.iter().map(|seen| serde_json::from_str::<serde_json::Value>(&seen.body).unwrap()).collect();
    let told = |said: &serde_json::Value| (said["token"].clone(), said["error_code"].clone(), said["unknown"].clone());
    let stopped = |token: &str| (token.into(), "STOPPED".into(), true.into());
    assert_eq!(said.iter().map(told).collect::<Vec<_>>(), [stopped("t1"), stopped("t2")]);
    assert!(node.fake.seen_at("/v1/tasks/complete").is_empty());
}

#[test]
fn a_worker_told_to_stop_lets_commands_finish_and_unregisters() {
    let notes = Notes::new();
    let node = Node::new(vec![task("t1", "{}")], |_| None);
    let script = format!("echo begun >> {}; sleep 0.5; echo 1", notes.path());
    let mut worker = node.worker(&FIXED, &script);
    while !notes.read().contains("begun") {
        node.next("/v1/workers/heartbeat");
    }
    terminate(&worker.0);
    assert_eq!(node.next("/v1/tasks/complete")["output"], 1);
    assert_eq!(node.next("/v1/workers/unregister")["worker_session_id"], "s1");
    assert_eq!(worker.0.wait().expect("an end").code(), Some(0));
}

#[test]
fn a_worker_does_not_wait_for_ever_to_stop() {
    let notes = Notes::new();
    let node = Node::new(vec![task("t1", "{}")], |_| None);
    let script = format!("echo begun >> {}; sleep 15", notes.path());
    let mut worker = node.worker(&[&FIXED[..], &["--drain", "100ms", "--grace", "100ms"]].concat(), &script);
    while !notes.read().contains("begun") {
        node.next("/v1/workers/heartbeat");
    }
    terminate(&worker.0);
    node.next("/v1/workers/unregister");
    assert_eq!(worker.0.wait().expect("an end").code(), Some(0));
    assert!(node.fake.seen_at("/v1/tasks/").is_empty(), "its task goes to others");
}

fn terminate(child: &Child) {
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().expect("kill").success());
}

#[test]
fn without_a_version_all_that_are_used_are_worked_for() {
    let node = Node::new(vec![], |seen| match seen.path.as_str() {
        "/v1/workflows" => Some(ok(concat!(
            r#"{"workflows":[{"name":"w","version":"1.0.0","definition_hash":"h1","steps":[],"#,
            r#""tasks":["a.do"]},{"name":"w","version":"2.0.0","definition_hash":"h2","steps":[],"#,
            r#""tasks":["a.do","b.do"]},{"name":"x","version":"1.0.0","definition_hash":"h3","#,
            r#""steps":[],"tasks":["b.do"]}]}"#,
        ))),
        "/v1/workflows/w/1.0.0" => Some(ok(r#"{"tasks":{"a.do":{"version":"1.0.0"}}}"#)),
        "/v1/workflows/w/2.0.0" => Some(ok(r#"{"tasks":{"a.do":{"version":"1.1.0"},"b.do":{"version":"3.0.0"}}}"#)),
        _ => None,
    });
    let _worker = node.worker(&["--task", "a.do", "--task", "c.do@0.1.0"], "true");
    let contract = |name: &str, version: &str| serde_json::json!({"task_name": name, "contract_version": version});
    assert_eq!(
        node.next("/v1/workers/register")["contracts"],
        serde_json::json!([contract("a.do", "1.0.0"), contract("a.do", "1.1.0"), contract("c.do", "0.1.0")])
    );
}

#[test]
fn a_silent_task_is_kept_alive_while_its_command_runs() {
    let quiet = task("t1", "{}").replace(r#""redelivery""#, r#""heartbeat_timeout_ms":300,"redelivery""#);
    let node = Node::new(vec![quiet], |_| None);
    let _worker = node.worker(&FIXED, "sleep 15");
    assert_eq!(node.next("/v1/tasks/heartbeat")["token"], "t1");
    assert_eq!(node.next("/v1/tasks/heartbeat")["token"], "t1");
}

#[test]
fn wrong_usage_is_noticed_before_any_task_fails() {
    let server = Fake::new(|_| ok("{}"));
    for (arguments, said) in [
        (&["--task", "a@1", "--", "true"][..], "INVALID_TASK"),
        (&["--task", "a@1.0.0", "--", "no-such-command"], "COMMAND_NOT_FOUND"),
        (&["--task", "a@1.0.0"], "Usage"),
        (&["--", "true"], "--task"),
    ] {
        let (_, err, code) = server.orbit(&[&["worker", "exec"], arguments].concat());
        assert_eq!(code, 2, "{arguments:?}: {err}");
        assert!(err.contains(said), "{err}");
    }
    assert!(server.seen().is_empty());
}
