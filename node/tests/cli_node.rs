//! Commands and the worker without code against a real node, which is lost and comes back.

#![allow(clippy::expect_used)]

mod fake;

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use fake::{Running, orbit, run};
use serde_json::Value;

/// Longest wait for anything that is bound to happen.
const SOON: Duration = Duration::from_secs(60);

const DOCUMENT: &str = "name: order
version: 1.0.0
tasks:
  pay.charge: {version: 1.0.0}
  ship.send: {version: 1.0.0}
steps:
  - {id: charge, task: pay.charge, input: {n: \"${input.n}\"}}
  - {id: ship, task: ship.send, input: {n: \"${input.n}\"}, after: [charge]}
result: \"${steps.ship.output}\"
";

/// A node with its data in a directory.
struct Node {
    process: Running,
    http: String,
}

impl Node {
    /// `http`: where it listens, if that is to be the same as before.
    fn start(home: &Path, http: Option<&str>) -> Self {
        let any = "127.0.0.1:0";
        let mut command = orbit(&["dev", "--data-dir", "data", "--http-listen", http.unwrap_or(any)]);
        for surface in ["--grpc-listen", "--peer-listen", "--health-listen"] {
            command.args([surface, any]);
        }
        let addresses = home.join("data/addresses.json");
        let _ = std::fs::remove_file(&addresses);
        let process = Running(command.current_dir(home).stdout(Stdio::null()).spawn().expect("it runs"));
        let text = until("it listens", || std::fs::read_to_string(&addresses).ok());
        let read: Value = serde_json::from_str(&text).expect("addresses");
        Self { process, http: read["http"].as_str().expect("an address").to_owned() }
    }

    fn orbit(&self, home: &Path, arguments: &[&str]) -> (String, String, i32) {
        let mut command = orbit(arguments);
        run(command.current_dir(home).env("ORBIT_ADDRESS", &self.http).args(["--retry-for", "30s"]))
    }
}

/// Looks again and again until there is something.
#[allow(clippy::disallowed_methods, reason = "files of other processes tell nobody that they are there")]
fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + SOON;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what} never");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The command of the worker: notes what it does, and charges as soon as it may.
const SCRIPT: &str = r#"
echo "$ORBIT_UNIT $ORBIT_ATTEMPT $ORBIT_IDEMPOTENCY_KEY" >> ran
if [ "$ORBIT_UNIT" = charge ]; then while [ ! -e go ]; do sleep 0.05; done; fi
cat
"#;

#[test]
fn a_worker_without_code_survives_the_loss_of_its_node() {
    let home = tempfile::tempdir().expect("a directory");
    let home = home.path();
    std::fs::write(home.join("order.yaml"), DOCUMENT).expect("a file");
    let mut node = Node::start(home, None);

    // Deployed twice it is there once.
    let (out, err, code) = node.orbit(home, &["deploy", "order.yaml"]);
    assert_eq!((err.as_str(), code), ("", 0), "{out}");
    let (out, _, _) = node.orbit(home, &["deploy", "order.yaml"]);
    assert!(out.contains(" was there already\n"), "{out}");

    // The worker takes the first task.
    let tasks = ["worker", "exec", "--task", "pay.charge", "--task", "ship.send@1.0.0", "--worker-id", "w1", "--"];
    let mut worker = orbit(&tasks);
    worker.args(["sh", "-c", SCRIPT]).current_dir(home).env("ORBIT_ADDRESS", &node.http);
    let _worker = Running(worker.stdout(Stdio::null()).spawn().expect("it runs"));
    let (out, err, code) = node.orbit(home, &["start", "order", "--id", "o1", "--input", r#"{"n":9007199254740993}"#]);
    assert_eq!((out.as_str(), err.as_str(), code), ("o1 started\n", "", 0));
    until("a task arrives", || std::fs::read_to_string(home.join("ran")).ok().filter(|ran| ran.ends_with('\n')));

    // The node is lost while the command runs, the result comes when it is gone, and another node takes it.
    node.process.0.kill().expect("killed");
    node.process.0.wait().expect("gone");
    std::fs::write(home.join("go"), "").expect("a file");
    let http = node.http.clone();
    node = Node::start(home, Some(&http));
    let (out, err, code) = node.orbit(home, &["watch", "o1"]);
    assert_eq!((err.as_str(), code), ("", 0), "{out}");
    assert!(out.ends_with("o1 COMPLETED: {\"n\":9007199254740993}\n"), "{out}");
    let ran = std::fs::read_to_string(home.join("ran")).expect("notes");
    assert_eq!(ran.lines().count(), 2, "each task ran once: {ran}");

    // Started again it is the same one; the history is all there.
    let again = ["start", "order", "--id", "o1", "--input", r#"{"n":9007199254740993}"#, "--wait"];
    let (out, _, code) = node.orbit(home, &again);
    assert!(code == 0 && out.starts_with("o1 is there already, run 1\n"), "{out}");
    let (out, _, code) = node.orbit(home, &["start", "order", "--id", "o1", "--input", "{}"]);
    assert_eq!((out.as_str(), code), ("", 1));
    let (out, _, code) = node.orbit(home, &["history", "o1", "--output", "json"]);
    let history: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, &history["definition"]["name"]), (0, &"order".into()));
    let (out, _, code) = node.orbit(home, &["list", "--status", "completed", "--workflow", "order"]);
    assert!(code == 0 && out.lines().count() == 2, "{out}");
    let (out, _, code) = node.orbit(home, &["workers"]);
    assert!(code == 0 && out.contains("w1") && out.contains("pay.charge@1.0.0 ship.send@1.0.0"), "{out}");
}

#[test]
fn a_bench_starts_its_own_node_and_counts_what_the_kernel_saw() {
    let home = tempfile::tempdir().expect("a directory");
    let bench = |arguments: &[&str]| {
        let all = [&["bench", "--data-dir", ".", "--output", "json", "--callers", "4"][..], arguments].concat();
        let (out, err, code) = run(orbit(&all).current_dir(home.path()));
        let report: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
        (report, err, code)
    };
    for hands in [&[][..], &["--poll"]] {
        let arguments = [&["--chain", "2", "--time", "5s", "--warm-up", "500ms"], hands].concat();
        let (report, err, code) = bench(&arguments);
        assert_eq!((err.as_str(), code), ("", 0), "{report}");
        assert_eq!(report["failures"], 0, "{report}");
        assert_ne!(report["server_pids"], serde_json::json!([report["load_pid"]]));
        for name in ["executions", "commits", "syncs", "nodes", "cores"] {
            assert!(report[name].as_u64().is_some_and(|count| count > 0), "{name}: {report}");
        }
        for name in ["execution_ms", "ready_to_worker_ms"] {
            let spread = &report[name];
            assert!(spread["count"].as_u64().is_some_and(|count| count > 0), "{name}: {report}");
            assert!(spread["p50"].as_f64() <= spread["max"].as_f64(), "{name}: {report}");
        }
    }
    let (report, err, code) = bench(&["--nodes", "1,3", "--shards", "4", "--chain", "2", "--time", "2s"]);
    assert_eq!((err.as_str(), code), ("", 0), "{report}");
    for (report, nodes) in report.as_array().expect("one for each").iter().zip([1, 3]) {
        assert_eq!(report["nodes"], nodes, "{report}");
        assert_eq!(report["server_pids"].as_array().map(Vec::len), Some(nodes), "{report}");
        let counts = ["executions", "commits"].map(|name| report[name].as_u64().unwrap_or_default());
        assert!(counts.iter().all(|count| *count > 0), "{report}");
        assert!(report["cpu_ms_per_execution"].as_f64().is_some_and(|time| time > 0.0), "{report}");
    }
    let (report, err, code) = bench(&["--timers", "20", "--within", "1s"]);
    assert_eq!((err.as_str(), code, &report["timer_late_ms"]["count"]), ("", 0, &20.into()), "{report}");
    let (report, err, code) = bench(&["--sleepers", "50"]);
    assert_eq!((err.as_str(), code), ("", 0), "{report}");
    assert!(report["rss_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{report}");
    assert_eq!(std::fs::read_dir(home.path()).expect("a directory").count(), 0, "nothing is left");
}
