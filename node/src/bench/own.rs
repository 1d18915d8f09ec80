//! Nodes of our own: processes, and a directory with their data that is removed in the end.

use std::collections::BTreeSet;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use futures::future::join_all;
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use super::{Error, Options};
use crate::client::{Call, Client, Harm};

/// How long nodes may take to be ready.
const START: Duration = Duration::from_secs(60);
/// How long one may take to stop.
const STOP: Duration = Duration::from_secs(20);
/// How often it is looked whether it is ready.
const LOOK: Duration = Duration::from_millis(20);
/// How much of a log is shown when a node fails.
const LOG_LINES: usize = 5;
/// Where a node listens.
const SURFACES: [&str; 4] = ["peer", "http", "grpc", "health"];

pub(super) struct Own {
    nodes: Vec<Node>,
    home: Home,
}

struct Node {
    child: Child,
    dir: PathBuf,
    at: Addresses,
}

/// A directory that is removed in the end.
struct Home(PathBuf);

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a node writes down when it listens.
#[derive(Default, Deserialize)]
struct Addresses {
    http: String,
    grpc: String,
}

impl Own {
    /// Starts so many nodes, and returns once they are one cluster whose leaders are where they belong.
    pub(super) async fn start(options: &Options, nodes: u16) -> Result<Self, Error> {
        let parent = options.data_dir.clone().unwrap_or_else(std::env::temp_dir);
        let home = Home(parent.join(format!("orbit-bench-{}", std::process::id())));
        let ports = free_ports(usize::from(nodes) * SURFACES.len())?;
        let ports: Vec<_> = ports.chunks(SURFACES.len()).collect();
        let mut own = Self { nodes: Vec::new(), home };
        for place in 0..ports.len() {
            let dir = own.home.0.join(format!("n{}", place + 1));
            std::fs::create_dir_all(&dir)?;
            let child = spawn(&dir, &ports, place, options.shards)?;
            own.nodes.push(Node { child, dir, at: Addresses::default() });
        }
        for node in &mut own.nodes {
            node.at = node.listens().await?;
        }
        if timeout(START, own.one_cluster()).await.is_err() {
            let logs: Vec<_> = own.nodes.iter().map(|node| node.log()).collect();
            return Err(Error::Node(format!("they listen, but are not ready; the ends of their logs: {logs:?}")));
        }
        Ok(own)
    }

    /// Makes one cluster of them, if they are several, and waits until each answers and leads its share.
    async fn one_cluster(&self) {
        let clients = self.nodes.iter().map(|node| Client::new(&node.at.http, None, START));
        let clients: Vec<_> = clients.filter_map(Result::ok).collect();
        if clients.len() > 1 {
            let init = Call::post(["v1", "cluster", "init"], Harm::None).json(&json!({}));
            while clients[0].once(&init).await.is_err() {
                sleep(LOOK).await;
            }
        }
        while !are_even(&join_all(clients.iter().map(led)).await) {
            sleep(LOOK).await;
        }
    }

    pub(super) fn http(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(|node| &*node.at.http)
    }

    pub(super) fn grpc(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.at.grpc.clone()).collect()
    }

    pub(super) fn pids(&self) -> Vec<u32> {
        self.nodes.iter().filter_map(|node| node.child.id()).collect()
    }

    pub(super) fn data(&self) -> PathBuf {
        self.home.0.clone()
    }

    pub(super) async fn stop(mut self) {
        join_all(self.nodes.iter_mut().map(Node::stop)).await;
    }
}

/// Ports that are free now. They must be certain ones: the nodes of a cluster find each other again by them.
fn free_ports(count: usize) -> std::io::Result<Vec<SocketAddr>> {
    let held: Vec<_> = (0..count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<Result<_, _>>()?;
    held.iter().map(TcpListener::local_addr).collect()
}

fn spawn(dir: &Path, ports: &[&[SocketAddr]], place: usize, shards: Option<u16>) -> Result<Child, Error> {
    let log = File::create(dir.join("log"))?;
    let mut command = Command::new(std::env::current_exe()?);
    if ports.len() == 1 {
        command.arg("dev");
    } else {
        let seeds: Vec<_> = ports.iter().map(|ports| ports[0].to_string()).collect();
        command.args(["server", "--cluster-seeds", &seeds.join(",")]).arg(format!("--node-name=n{}", place + 1));
    }
    command.args(shards.map(|shards| format!("--cluster-shards={shards}")));
    command.args(["--log-level", "warn", "--data-dir"]).arg(dir.join("data"));
    for (surface, port) in SURFACES.iter().zip(ports[place]) {
        command.arg(format!("--{surface}-listen={port}"));
    }
    Ok(command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).kill_on_drop(true).spawn()?)
}

/// The shards that a node leads, and how many there are, if it answers.
async fn led(client: &Client) -> Option<(BTreeSet<u64>, usize)> {
    let health: Value = client.once(&Call::get(["v1", "health"])).await.ok()?.read().ok()?;
    let shards = health.get("shards")?.as_array()?;
    let own = shards.iter().filter(|shard| shard["role"] == "leader").filter_map(|shard| shard["id"].as_u64());
    Some((own.collect(), shards.len()))
}

/// Whether each shard has one leader, and no node leads two more than another.
fn are_even(nodes: &[Option<(BTreeSet<u64>, usize)>]) -> bool {
    let Some(nodes) = nodes.iter().cloned().collect::<Option<Vec<_>>>() else { return false };
    let led: BTreeSet<_> = nodes.iter().flat_map(|(led, _)| led).collect();
    let counts = || nodes.iter().map(|(led, _)| led.len());
    let apart = counts().max().unwrap_or_default() - counts().min().unwrap_or_default();
    counts().sum::<usize>() == led.len() && nodes.iter().all(|(_, all)| *all == led.len()) && apart <= 1
}

impl Node {
    async fn listens(&mut self) -> Result<Addresses, Error> {
        let (file, until) = (self.dir.join("data").join("addresses.json"), Instant::now() + START);
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

    fn log(&self) -> String {
        let log = std::fs::read_to_string(self.dir.join("log")).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join(" | ")
    }

    fn failed(&self, why: &str) -> Error {
        Error::Node(format!("{why}; the end of its log: {}", self.log()))
    }

    async fn stop(&mut self) {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            let _ = kill_process(pid, Signal::TERM);
        }
        if timeout(STOP, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
    }
}

/// The file is renamed into its place, so it is whole or not there.
fn read(file: &Path) -> Option<Addresses> {
    serde_json::from_slice(&std::fs::read(file).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::are_even;

    #[test]
    fn leaders_are_spread_when_each_shard_has_one_and_nobody_two_more() {
        let node = |led: &[u64]| Some((led.iter().copied().collect(), 4));
        assert!(are_even(&[node(&[0, 3]), node(&[1]), node(&[2])]));
        assert!(!are_even(&[node(&[0, 3]), node(&[1]), None]), "one does not answer");
        assert!(!are_even(&[node(&[0, 3]), node(&[1]), node(&[])]), "nobody leads 2");
        assert!(!are_even(&[node(&[0, 3]), node(&[1]), node(&[2, 3])]), "two say that they lead 3");
        assert!(!are_even(&[node(&[0, 1, 3]), node(&[2]), node(&[])]), "one has too many");
    }
}
