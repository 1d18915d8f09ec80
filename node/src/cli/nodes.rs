//! `orbit dev --nodes N`: a cluster on one machine, for trying out. Each node is a process of its own, so that killing
//! one is as on many machines; one that ends by itself is started again.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use futures::future::join_all;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Error;
use super::dev::Signals;
use super::print::Output;
use crate::client::{Call, Client, Harm};
use crate::config::{Config, Flags};

/// From one node to the next.
const PORTS_APART: u16 = 10;
/// A node that ended by itself is started again after this.
const AGAIN_AFTER: Duration = Duration::from_secs(2);
/// How long the first node may take to make a cluster.
const INIT_WAIT: Duration = Duration::from_secs(30);

/// The nodes of a cluster on one machine.
pub(super) struct Nodes {
    program: PathBuf,
    data_dir: PathBuf,
    all: Vec<Node>,
}

/// One of them.
struct Node {
    name: String,
    http: SocketAddr,
    arguments: Vec<String>,
}

impl Nodes {
    pub(super) fn new(
        config: &Config,
        file: Option<&Path>,
        flags: &Flags,
        insecure_listen: bool,
        count: u16,
    ) -> Result<Self, Error> {
        let program = std::env::current_exe().map_err(Error::Runtime)?;
        let nodes = (0..count).map(|number| Node::new(config, file, flags, insecure_listen, (number, count)));
        Ok(Self { program, data_dir: config.data_dir.clone(), all: nodes.collect::<Result<_, _>>()? })
    }

    /// Runs them until somebody wants them to stop.
    pub(super) async fn run(self, output: &mut Output) -> Result<(), Error> {
        let mut signals = Signals::listen(false)?;
        let stop = CancellationToken::new();
        let (process, pids) = watch::channel(vec![0; self.all.len()]);
        let running = self.all.iter().enumerate().map(|(place, node)| node.keep(&self.program, place, &process, &stop));
        let running = join_all(running);
        tokio::pin!(running);
        let made = tokio::select! {
            made = self.all[0].init() => made,
            _ = &mut running => Ok(()),
            () = signals.stop() => Ok(()),
        };
        if made.is_ok() {
            self.greet(output, &pids.borrow());
            tokio::select! { _ = &mut running => {} () = signals.stop() => {} }
        }
        tracing::info!("stopping all nodes");
        stop.cancel();
        running.await;
        made
    }

    fn greet(&self, output: &mut Output, pids: &[u32]) {
        output.line(format_args!(
            "Orbit runs with {} nodes, their data in {}",
            self.all.len(),
            self.data_dir.display()
        ));
        for (node, pid) in self.all.iter().zip(pids) {
            output.line(format_args!("  {}  http://{}  process {pid}", node.name, node.http));
        }
        output.line("Any of them answers anything. Kill one (kill -9): the others go on. Ctrl-C stops them all.");
        output.flush();
    }
}

impl Node {
    fn new(
        config: &Config,
        file: Option<&Path>,
        flags: &Flags,
        insecure_listen: bool,
        (number, count): (u16, u16),
    ) -> Result<Self, Error> {
        let name = format!("orbit-{}", number + 1);
        let ports = [
            ("http-listen", config.http_listen),
            ("grpc-listen", config.grpc_listen),
            ("peer-listen", config.peer_listen),
            ("health-listen", config.health_listen),
        ];
        let mut arguments = vec!["server".to_owned(), "--until-stdin-ends".to_owned()];
        arguments.extend(file.map(|file| format!("--config={}", file.display())));
        arguments.extend(insecure_listen.then(|| "--insecure-listen".to_owned()));
        arguments.extend(flags.arguments());
        arguments.extend(
            ["--http-task-enabled=true".to_owned()].into_iter().filter(|_| config.http_task_enabled == Some(true)),
        );
        arguments.push(format!("--node-name={name}"));
        arguments.push(format!("--data-dir={}", config.data_dir.join(&name).display()));
        for (flag, address) in ports {
            arguments.push(format!("--{flag}={}", at(address, number)?));
        }
        let seeds = (0..count).map(|other| Ok(at(config.peer_listen, other)?.to_string()));
        arguments.push(format!("--cluster-seeds={}", seeds.collect::<Result<Vec<_>, Error>>()?.join(",")));
        // The last word on a key counts, so what is said once for all nodes gives way.
        let arguments = last_words(arguments);
        Ok(Self { name, http: at(config.http_listen, number)?, arguments })
    }

    /// Runs it, again and again, until it is to stop.
    async fn keep(&self, program: &Path, place: usize, pids: &watch::Sender<Vec<u32>>, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            match self.spawn(program) {
                Ok(mut child) => {
                    pids.send_modify(|pids| pids[place] = child.id().unwrap_or(0));
                    self.until_its_end(&mut child, stop).await;
                }
                Err(error) => tracing::error!(node = self.name, %error, "a node does not start"),
            }
            tokio::select! { () = tokio::time::sleep(AGAIN_AFTER) => {} () = stop.cancelled() => {} }
        }
    }

    fn spawn(&self, program: &Path) -> std::io::Result<Child> {
        let mut command = Command::new(program);
        command.args(&self.arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        // A Ctrl-C is for the process that keeps them all, which then stops them.
        command.process_group(0).kill_on_drop(true).spawn()
    }

    async fn until_its_end(&self, child: &mut Child, stop: &CancellationToken) {
        let log = child.stderr.take().map(BufReader::new);
        // Waiting for a child would close it.
        let mut input = child.stdin.take();
        let told = async {
            let Some(log) = log else { return };
            let mut lines = log.lines();
            while let Ok(Some(line)) = lines.next_line().await {
                eprintln!("{} {line}", self.name);
            }
        };
        let ended = async {
            tokio::select! {
                ended = child.wait() => match ended {
                    Ok(status) => tracing::warn!(node = self.name, %status, "a node has ended; it is started again"),
                    Err(error) => tracing::warn!(node = self.name, %error, "a node is lost sight of"),
                },
                () = stop.cancelled() => {
                    // Its input ends, and so does the node.
                    drop(input.take());
                    let _ = child.wait().await;
                }
            }
        };
        tokio::join!(told, ended);
    }

    /// Makes a cluster of it, unless it belongs to one.
    async fn init(&self) -> Result<(), Error> {
        let client = Client::new(&format!("http://{}", self.http), None, INIT_WAIT)?;
        let call = Call::post(["v1", "cluster", "init"], Harm::None).json(&serde_json::json!({}));
        client.send(&call).await?;
        Ok(())
    }
}

fn at(address: SocketAddr, number: u16) -> Result<SocketAddr, Error> {
    let port = address.port().checked_add(number * PORTS_APART).filter(|_| address.port() != 0);
    let port = port.ok_or_else(|| {
        Error::Usage("with --nodes every port is a certain one, so that the nodes find each other again".to_owned())
    })?;
    Ok(SocketAddr::new(address.ip(), port))
}

/// Of several words on one flag the last.
fn last_words(arguments: Vec<String>) -> Vec<String> {
    let flag = |argument: &String| argument.split_once('=').map(|(flag, _)| flag.to_owned());
    let flags: Vec<_> = arguments.iter().map(flag).collect();
    let later = |place: usize| flags[place].is_some() && flags[place + 1..].contains(&flags[place]);
    let kept = (0..arguments.len()).filter(|place| !later(*place)).map(|place| arguments[place].clone());
    kept.collect()
}
