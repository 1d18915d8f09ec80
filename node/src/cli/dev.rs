//! `orbit dev`: a node with nothing to configure.

use std::collections::BTreeMap;
use std::path::PathBuf;

use orbit_raft::StillOpen;
use orbit_raft::disk::end_process;
use tokio::signal::unix::{SignalKind, signal};

use super::Error;
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
    #[command(flatten)]
    flags: Flags,
}

impl Dev {
    pub(crate) fn run(&self, output: &mut Output) -> Vec<Error> {
        self.serve(output).err().into_iter().collect()
    }

    fn serve(&self, output: &mut Output) -> Result<(), Error> {
        let environment = environment();
        let mut config = Config::load(self.config.as_deref(), &environment, &self.flags)?;
        // Whoever deploys here is whoever runs it.
        config.http_task_enabled.get_or_insert(true);
        log::start(&config);
        for (name, meant) in config::doubtful(&environment) {
            tracing::warn!(name, meant, "there is no such variable; did you mean the other?");
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Error::Runtime)?;
        let ended = runtime.block_on(self.until_stopped(&config, output));
        // Nothing of the node is left; what still waits, waits for nothing.
        runtime.shutdown_background();
        ended
    }

    async fn until_stopped(&self, config: &Config, output: &mut Output) -> Result<(), Error> {
        let exposure = if self.insecure_listen { Exposure::Anywhere } else { Exposure::Loopback };
        let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::Runtime)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(Error::Runtime)?;
        let mut stop = async || {
            tokio::select! { _ = interrupt.recv() => {} _ = terminate.recv() => {} }
        };
        let server = tokio::select! {
            started = Server::start_alone(config, exposure) => started?,
            () = stop() => return Ok(()),
        };
        let told_to_stop = tokio::select! {
            () = server.ready() => false,
            () = stop() => true,
        };
        if !told_to_stop {
            greet(config, &server, output);
            stop().await;
        }
        tracing::info!("stopping; once more stops at once");
        tokio::select! {
            closed = server.stop() => match closed {
                Ok(()) => Ok(()),
                // An ordinary end could become an abort. All that was acknowledged is on disk.
                Err(StillOpen) => end_process(0, || tracing::warn!("the data was not closed in time; nothing is lost")),
            },
            () = stop() => end_process(i32::from(super::End::Failed as u8), || {
                tracing::warn!("stopped at once; what was acknowledged is on disk");
            }),
        }
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

fn environment() -> BTreeMap<String, String> {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(text).filter(|(name, _)| name.starts_with("ORBIT_")).collect()
}
