//! `orbit dev`: a node with nothing to configure.

use std::collections::BTreeMap;
use std::path::PathBuf;

use orbit_raft::StillOpen;
use orbit_raft::disk::end_process;
use tokio::io::Stdin;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Error;
use super::nodes::Nodes;
use super::print::Output;
use crate::config::{self, Config, Flags};
use crate::server::{Exposure, Server, log};

/// Run a node by itself, with its data in ./.orbit.
#[derive(Debug, clap::Args)]
pub(crate) struct Dev {
    /// A configuration in TOML.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Listen also where others reach the node. Whoever does may do anything.
    #[arg(long)]
    insecure_listen: bool,
    /// Run a cluster of so many nodes, each a process of its own, at ports 10 apart; one that ends is started again.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=9))]
    nodes: u16,
    #[command(flatten)]
    flags: Flags,
}

impl Dev {
    pub(crate) fn run(&self, output: &mut Output) -> Vec<Error> {
        let ended = match self.nodes {
            1 => self.serve(output),
            count => self.serve_many(count, output),
        };
        ended.err().into_iter().collect()
    }

    fn serve_many(&self, count: u16, output: &mut Output) -> Result<(), Error> {
        let environment = environment();
        let mut config = Config::load(self.config.as_deref(), &environment, &self.flags)?;
        config.http_task_enabled.get_or_insert(true);
        prepare(&config, &environment);
        let nodes = Nodes::new(&config, self.config.as_deref(), &self.flags, self.insecure_listen, count)?;
        on_a_runtime(nodes.run(output))
    }

    fn serve(&self, output: &mut Output) -> Result<(), Error> {
        let environment = environment();
        let mut config = Config::load(self.config.as_deref(), &environment, &self.flags)?;
        // Whoever deploys here is whoever runs it.
        config.http_task_enabled.get_or_insert(true);
        prepare(&config, &environment);
        let exposure = if self.insecure_listen { Exposure::Anywhere } else { Exposure::Loopback };
        on_a_runtime(async {
            let mut signals = Signals::listen(false)?;
            let server = tokio::select! {
                started = Server::start_alone(&config, exposure) => started?,
                () = signals.stop() => return Ok(()),
            };
            until_stopped(server, &mut signals, |server| greet(&config, server, output)).await
        })
    }
}

/// The log, and what in the environment looks like a slip.
pub(super) fn prepare(config: &Config, environment: &BTreeMap<String, String>) {
    log::start(config);
    for (name, meant) in config::doubtful(environment) {
        tracing::warn!(name, meant, "there is no such variable; did you mean the other?");
    }
}

/// Runs a node to its end.
pub(super) fn on_a_runtime(node: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Error::Runtime)?;
    let ended = runtime.block_on(node);
    // Nothing of the node is left; what still waits, waits for nothing.
    runtime.shutdown_background();
    ended
}

/// What tells a node to stop.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// Standard input, if its end is such a word.
    input: Option<Stdin>,
}

impl Signals {
    pub(super) fn listen(until_stdin_ends: bool) -> Result<Self, Error> {
        let listen = |kind| signal(kind).map_err(Error::Runtime);
        let input = until_stdin_ends.then(tokio::io::stdin);
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())?, input })
    }

    /// Returns when somebody wants it to stop.
    pub(super) async fn stop(&mut self) {
        let ends = async {
            match &mut self.input {
                // Whatever comes is not for a node.
                Some(input) => drop(tokio::io::copy(input, &mut tokio::io::sink()).await),
                None => std::future::pending().await,
            }
        };
        tokio::select! { _ = self.interrupt.recv() => {} _ = self.terminate.recv() => {} () = ends => {} }
    }
}

/// Serves until somebody wants the node to stop; `greet` once it takes requests.
pub(super) async fn until_stopped(
    server: Server,
    signals: &mut Signals,
    greet: impl FnOnce(&Server),
) -> Result<(), Error> {
    let early = tokio::select! {
        () = server.ready() => None,
        () = signals.stop() => Some(Ok(())),
        // A node with which nobody speaks never becomes ready.
        error = server.outgrown() => Some(Err(Error::from(error))),
    };
    let ended = match early {
        Some(ended) => ended,
        None => {
            greet(&server);
            tokio::select! {
                () = signals.stop() => Ok(()),
                () = server.told_to_drain() => Ok(()),
                error = server.outgrown() => Err(Error::from(error)),
            }
        }
    };
    tracing::info!("stopping; once more stops at once");
    tokio::select! {
        closed = server.stop() => match closed {
            Ok(()) => ended,
            // An ordinary end could become an abort. All that was acknowledged is on disk.
            Err(StillOpen) => end_process(0, || tracing::warn!("the data was not closed in time; nothing is lost")),
        },
        () = signals.stop() => end_process(i32::from(super::End::Failed as u8), || {
            tracing::warn!("stopped at once; what was acknowledged is on disk");
        }),
    }
}

fn greet(config: &Config, server: &Server, output: &mut Output) {
    let at = &server.addresses;
    output.line(format_args!("Orbit runs, with its data in {}", config.data_dir.display()));
    output.line(format_args!("  HTTP    http://{}", at.http));
    output.line(format_args!("  gRPC    http://{}", at.grpc));
    output.line(format_args!("  health  http://{}/readyz", at.health));
    output.line(format_args!("  metrics http://{}/metrics", at.health));
    output.line("No credential is asked for: only this machine reaches it. Ctrl-C stops it.");
    output.flush();
    tracing::info!(node = config.node_name, cluster = config.cluster_name, http = %at.http, grpc = %at.grpc, "open to \
        whoever reaches it: there is no credential");
}

pub(super) fn environment() -> BTreeMap<String, String> {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(text).filter(|(name, _)| name.starts_with("ORBIT_")).collect()
}
