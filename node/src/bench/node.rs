//! The node that is measured: a process of its own, started here unless one is named.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use serde_json::Value;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use super::{Error, Options, number};
use crate::client::{Call, Client};

/// How long a node may take to be ready.
const START: Duration = Duration::from_secs(60);
/// How long it may take to stop.
const STOP: Duration = Duration::from_secs(20);
/// How often it is looked whether it is ready.
const LOOK: Duration = Duration::from_millis(20);
/// How much of its log is shown when it fails.
const LOG_LINES: usize = 5;

/// A node that answers.
pub(super) struct Node {
    pub(super) client: Client,
    /// `host:port` of its gRPC side.
    pub(super) grpc: String,
    pub(super) token: Option<String>,
    pub(super) pid: Option<u32>,
    own: Option<Own>,
}

/// A node of our own, with its data.
struct Own {
    child: Child,
    home: Home,
}

/// A directory that is removed in the end.
struct Home(PathBuf);

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a node writes down when it listens.
#[derive(Deserialize)]
struct Addresses {
    http: String,
    grpc: String,
}

impl Node {
    /// The node that was named, or a new one.
    pub(super) async fn get(options: &Options) -> Result<Self, Error> {
        let Some(foreign) = &options.node else { return Self::start(options).await };
        let client = Client::new(&foreign.address, foreign.token.clone(), Duration::from_secs(5))?;
        client.send(&Call::get(["v1", "health"])).await?;
        // With or without the scheme, as a node prints it and as it is written in `addresses.json`.
        let grpc = foreign.grpc_address.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let token = foreign.token.clone();
        Ok(Self { client, grpc, token, pid: foreign.pid, own: None })
    }

    async fn start(options: &Options) -> Result<Self, Error> {
        let parent = options.data_dir.clone().unwrap_or_else(std::env::temp_dir);
        let home = Home(parent.join(format!("orbit-bench-{}", std::process::id())));
        std::fs::create_dir_all(&home.0)?;
        let log = File::create(home.0.join("log"))?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["dev", "--log-level", "warn", "--data-dir"]).arg(home.data());
        for surface in ["http", "grpc", "peer", "health"] {
            command.arg(format!("--{surface}-listen")).arg("127.0.0.1:0");
        }
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).kill_on_drop(true);
        let mut own = Own { child: command.spawn()?, home };
        let addresses = own.addresses().await?;
        let client = Client::new(&addresses.http, None, Duration::from_secs(5))?;
        let ready = timeout(START, async {
            while client.once(&Call::get(["v1", "health"])).await.is_err() {
                sleep(LOOK).await;
            }
        });
        if ready.await.is_err() {
            return Err(own.failed("it listens, but does not become healthy"));
        }
        Ok(Self { client, grpc: addresses.grpc, token: None, pid: own.child.id(), own: Some(own) })
    }

    /// Where its data lies, if that is known.
    pub(super) fn data(&self) -> Option<PathBuf> {
        self.own.as_ref().map(|own| own.home.data())
    }

    /// Entries that its shards have applied since they exist, and executions that are not over.
    pub(super) async fn applied(&self) -> Result<(u64, u64), Error> {
        let health: Value = self.client.send(&Call::get(["v1", "health"])).await?.read()?;
        let shards = health.get("shards").and_then(Value::as_array);
        let applied = shards.into_iter().flatten().map(|shard| number(shard, "applied")).sum();
        Ok((applied, number(&health, "active_executions")))
    }

    /// What it says it is.
    pub(super) async fn version(&self) -> String {
        let health = self.client.once(&Call::get(["v1", "health"])).await.and_then(|answer| answer.read::<Value>());
        let version = health.ok().and_then(|health| health.get("runtime_version")?.as_str().map(str::to_owned));
        version.unwrap_or_default()
    }

    /// Stops it, if it was started here.
    pub(super) async fn stop(mut self) {
        let Some(mut own) = self.own.take() else { return };
        let pid = self.pid.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            let _ = kill_process(pid, Signal::TERM);
        }
        if timeout(STOP, own.child.wait()).await.is_err() {
            let _ = own.child.kill().await;
        }
    }
}

impl Home {
    fn data(&self) -> PathBuf {
        self.0.join("data")
    }
}

impl Own {
    async fn addresses(&mut self) -> Result<Addresses, Error> {
        let (file, until) = (self.home.data().join("addresses.json"), Instant::now() + START);
        loop {
            if let Some(addresses) = read(&file) {
                return Ok(addresses);
            }
            if let Some(status) = self.child.try_wait()? {
                return Err(self.failed(&format!("it ended with {status}")));
            }
            if Instant::now() > until {
                return Err(self.failed("it does not say where it listens"));
            }
            sleep(LOOK).await;
        }
    }

    fn failed(&self, why: &str) -> Error {
        let log = std::fs::read_to_string(self.home.0.join("log")).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        let end = lines[lines.len().saturating_sub(LOG_LINES)..].join(" | ");
        Error::Node(format!("{why}; the end of its log: {end}"))
    }
}

/// The file is renamed into its place, so it is whole or not there.
fn read(file: &Path) -> Option<Addresses> {
    serde_json::from_slice(&std::fs::read(file).ok()?).ok()
}
