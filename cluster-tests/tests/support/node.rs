//! A node as a process.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use orbit_harness::{Addresses, binary};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{Instant, timeout};

/// Groups of a node here: the one above the shards, and the shards.
const SHARDS: usize = 2;
const START_TIME_MAX: Duration = Duration::from_secs(60);

/// A node that has said where it listens.
#[derive(Debug)]
pub struct Node {
    pub child: Child,
    pub at: Addresses,
    phase: PathBuf,
}

/// What a process was in the middle of when it ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Phases {
    /// The log was written and not synced.
    pub unsynced: bool,
    /// A snapshot was made.
    pub snapshot: bool,
}

/// Starts a process that may or may not come up. What it says goes into `log` in `dir`.
pub fn spawn(dir: &Path, data: &Path) -> Child {
    let log = OpenOptions::new().create(true).append(true).open(dir.join("log")).unwrap();
    let phase = File::create(dir.join("phase")).unwrap();
    phase.write_all_at(&[0; 2 + SHARDS], 0).unwrap();
    let mut command = Command::new(binary().unwrap_or_else(|error| panic!("{error}")));
    command.env_clear().arg("dev").arg("--data-dir").arg(data).args(["--cluster-shards", &SHARDS.to_string()]);
    for surface in ["http", "grpc", "peer", "health"] {
        command.args([format!("--{surface}-listen"), "127.0.0.1:0".to_owned()]);
    }
    // A disk that fills up slowly makes it careful in time (`condition`); here it is to run into the end.
    for level in ["warn", "full", "read-only"] {
        command.args([format!("--limits-disk-{level}-percent"), "100".to_owned()]);
    }
    command.env("ORBIT_PHASE_FILE", dir.join("phase")).env("ORBIT_SNAPSHOT_EVERY", "50").env("RUST_BACKTRACE", "1");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).kill_on_drop(true);
    command.spawn().unwrap()
}

impl Node {
    /// Starts one and waits until it says that it runs.
    pub async fn start(dir: &Path, data: &Path) -> Result<Self, String> {
        let mut child = spawn(dir, data);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let runs = async {
            while let Some(line) = lines.next_line().await.unwrap() {
                if line.contains("Ctrl-C") {
                    return true;
                }
            }
            false
        };
        let runs = timeout(START_TIME_MAX, runs).await.map_err(|_| "it does not start, and does not end".to_owned())?;
        if !runs {
            let ended = child.wait().await.unwrap();
            let log = std::fs::read_to_string(dir.join("log")).unwrap();
            let last: Vec<&str> = log.lines().rev().take(5).collect();
            return Err(format!("it did not start, {ended}: {last:?}"));
        }
        let at = Addresses::read(data).map_err(|error| error.to_string())?;
        Ok(Self { child, at, phase: dir.join("phase") })
    }

    /// Kills it with signal 9 once it is in a phase, or when the patience for that is over. Says what was hit.
    pub async fn kill_in(mut self, wanted: fn(Phases) -> bool, patience: Duration) -> Phases {
        let file = File::open(&self.phase).unwrap();
        let deadline = Instant::now() + patience;
        let kill = move || {
            // Anything that yields would be too late: a sync is over in less than a millisecond.
            while !wanted(phases(&file)) && Instant::now() < deadline {
                std::hint::spin_loop();
            }
            self.child.start_kill().unwrap();
            (self, file)
        };
        let (mut node, file) = tokio::task::spawn_blocking(kill).await.unwrap();
        let ended = timeout(START_TIME_MAX, node.child.wait()).await.expect("a killed process ends").unwrap();
        assert!(ended.code().is_none(), "it had ended before it was killed: {ended}");
        phases(&file)
    }

    /// Asks it to stop and waits until it has.
    pub async fn terminate(&mut self) -> (ExitStatus, Duration) {
        let asked = Instant::now();
        let id = self.child.id().unwrap().to_string();
        assert!(Command::new("kill").args(["-s", "TERM", &id]).status().await.unwrap().success());
        let ended = timeout(START_TIME_MAX, self.child.wait()).await.expect("it does not end").unwrap();
        (ended, asked.elapsed())
    }
}

fn phases(file: &File) -> Phases {
    let mut bytes = [0; 2 + SHARDS];
    let read = file.read_at(&mut bytes, 0).unwrap();
    Phases { unsynced: bytes[0] == 1, snapshot: bytes[1..read.max(1)].contains(&1) }
}
