//! `orbit dev` as a process: how it starts, what it says, when it refuses, how it stops.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

fn orbit() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orbit"));
    command.env_clear().arg("dev").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn free_ports(command: &mut Command) -> &mut Command {
    for surface in ["http", "grpc", "peer", "health"] {
        command.args([format!("--{surface}-listen"), "127.0.0.1:0".to_owned()]);
    }
    command
}

/// A node that has said where it listens.
struct Running {
    child: Child,
    said: String,
}

impl Running {
    fn start(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said = String::new();
        for line in lines.by_ref() {
            said += &(line.unwrap() + "\n");
            if said.contains("Ctrl-C") {
                return Self { child, said };
            }
        }
        let mut error = String::new();
        child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
        child.wait().unwrap();
        panic!("it did not start: {said}{error}");
    }

    /// Its exit code and what it wrote to stderr, after a signal.
    fn stop(mut self, signal: &str) -> (i32, String) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
        let mut error = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
        (self.child.wait().unwrap().code().expect("an exit code, not a signal"), error)
    }
}

/// Runs one that is not to start: its exit code and what it wrote to stderr.
fn refused(command: &mut Command) -> (i32, String) {
    let output = command.output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), error)
}

fn addresses(data: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(data.join("addresses.json")).unwrap()).unwrap()
}

fn get(address: &Value, path: &str) -> (u16, String) {
    let address = address.as_str().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), body.to_owned())
}

#[test]
fn it_says_where_to_look_and_stops_cleanly() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join(".orbit");
    for signal in ["TERM", "INT"] {
        let running = Running::start(free_ports(orbit().current_dir(dir.path())));
        let at = addresses(&data);
        for (surface, scheme) in [("http", "http://"), ("grpc", "http://"), ("health", "http://")] {
            let address = at[surface].as_str().unwrap();
            assert!(running.said.contains(&format!("{scheme}{address}")), "{surface}: {}", running.said);
            assert!(!address.ends_with(":0"), "a real port");
        }
        let (status, health) = get(&at["http"], "/v1/health");
        assert!(status == 200 && health.contains("\"status\":\"ok\""), "{health}");
        for path in ["/startupz", "/livez", "/readyz"] {
            assert_eq!(get(&at["health"], path), (200, "ok\n".to_owned()), "{path}");
        }
        let (status, metrics) = get(&at["health"], "/metrics");
        assert!(status == 200 && metrics.contains("orbit_ready 1"), "{metrics}");
        assert_eq!(get(&at["health"], "/v1/health").0, 404, "only probes are there");

        let (code, error) = running.stop(signal);
        assert_eq!(code, 0, "{error}");
        assert!(error.contains("there is no credential"), "{error}");
        assert!(!error.contains("in time"), "it stopped by itself: {error}");
    }
}

#[test]
fn a_second_one_on_the_same_data_is_refused_and_leaves_the_first_alone() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(free_ports(orbit().current_dir(dir.path())));
    let before = addresses(&dir.path().join(".orbit"));
    let (code, error) = refused(free_ports(orbit().current_dir(dir.path())));
    assert!(code == 1 && error.contains("error: DATA_NOT_OPENED: ") && error.contains("in use"), "{error}");
    assert_eq!(addresses(&dir.path().join(".orbit")), before);
    assert_eq!(running.stop("TERM").0, 0);
}

#[test]
fn data_that_is_foreign_or_damaged_is_refused_in_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let foreign = dir.path().join("photos");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(foreign.join("a.jpg"), "x").unwrap();
    let (code, error) = refused(free_ports(orbit().arg("--data-dir").arg(&foreign)));
    assert!(code == 1 && error.starts_with("error: DATA_NOT_OPENED: ") && error.lines().count() == 1, "{error}");
    let entries: Vec<_> = std::fs::read_dir(&foreign).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(entries, ["a.jpg"], "nothing was put there");

    assert_eq!(Running::start(free_ports(orbit().current_dir(dir.path()))).stop("TERM").0, 0);
    let identity = dir.path().join(".orbit/IDENTITY");
    let mut bytes = std::fs::read(&identity).unwrap();
    bytes[12] ^= 1;
    std::fs::write(&identity, &bytes).unwrap();
    let (code, error) = refused(free_ports(orbit().current_dir(dir.path())));
    assert!(code == 1 && error.contains("IDENTITY is damaged") && error.lines().count() == 1, "{error}");
    assert_eq!(std::fs::read(&identity).unwrap(), bytes, "it was not repaired");
}

#[test]
fn addresses_that_others_reach_need_a_word() {
    let dir = tempfile::tempdir().unwrap();
    for surface in ["http", "grpc", "health"] {
        let flag = format!("--{surface}-listen");
        let (code, error) = refused(orbit().current_dir(dir.path()).args([&flag, "0.0.0.0:0"]));
        assert!(code == 1 && error.contains("NOT_LOOPBACK") && error.contains("--insecure-listen"), "{error}");
        let mut command = orbit();
        command.current_dir(dir.path());
        free_ports(&mut command);
        // The last one of a flag counts nowhere: it may be said once.
        let mut all: Vec<String> = command.get_args().map(|a| a.to_str().unwrap().to_owned()).collect();
        let at = all.iter().position(|argument| *argument == flag).unwrap();
        all[at + 1] = "0.0.0.0:0".to_owned();
        let running = Running::start(
            Command::new(env!("CARGO_BIN_EXE_orbit"))
                .env_clear()
                .current_dir(dir.path())
                .args(&all)
                .arg("--insecure-listen")
                .stdout(Stdio::piped())
                .stderr(Stdio::piped()),
        );
        let (code, error) = running.stop("TERM");
        assert!(code == 0 && error.contains("anybody who reaches this address"), "{error}");
    }
    let (code, error) =
        refused(orbit().current_dir(dir.path()).args(["--peer-listen", "0.0.0.0:0", "--insecure-listen"]));
    assert!(code == 1 && error.contains("NOT_LOOPBACK"), "{error}");
}

#[test]
fn what_is_not_configured_rightly_is_wrong_usage() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("orbit.toml");
    std::fs::write(&file, "[http]\nlisen = \"127.0.0.1:0\"\n").unwrap();
    let (code, error) = refused(orbit().current_dir(dir.path()).arg("--config").arg(&file));
    assert!(code == 2 && error.contains("did you mean `http.listen`?"), "{error}");
    let (code, error) = refused(orbit().current_dir(dir.path()).args(["--http-listen", "nowhere"]));
    assert!(code == 2 && error.contains("--http-listen"), "{error}");
    let (code, error) = refused(orbit().current_dir(dir.path()).env("ORBIT_CLUSTER_SHARDS", "none"));
    assert!(code == 2 && error.contains("ORBIT_CLUSTER_SHARDS"), "{error}");
    let (code, error) = refused(orbit().current_dir(dir.path()).args(["--config", "nowhere.toml"]));
    assert!(code == 2 && error.contains("nowhere.toml"), "{error}");
    assert!(!dir.path().join(".orbit").exists(), "nothing was created");
}

#[test]
fn an_address_in_use_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, error) = refused(orbit().current_dir(dir.path()).args(["--http-listen", &address]));
    assert!(code == 1 && error.contains("CANNOT_LISTEN") && error.contains(&address), "{error}");
    assert!(!dir.path().join(".orbit").exists(), "nothing was created");
}

#[test]
fn the_log_can_be_json() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(free_ports(orbit().current_dir(dir.path())).env("ORBIT_LOG_FORMAT", "json"));
    let (code, log) = running.stop("TERM");
    assert_eq!(code, 0, "{log}");
    for line in log.lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(line["level"].is_string() && line["message"].is_string(), "{line}");
    }
}
