//! `orbit server`: a node of a cluster.

use std::path::PathBuf;

use tokio::sync::watch;

use super::Error;
use super::dev::{Signals, environment, on_a_runtime, prepare, until_stopped};
use super::print::Output;
use crate::config::{Config, Flags};
use crate::server::{self, Exposure};

/// Run a node of a cluster. Without data it waits for `orbit init`, or joins the cluster of a seed.
#[derive(Debug, clap::Args)]
pub(crate) struct Server {
    /// A configuration in TOML.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Listen also where others reach the node. Whoever does may do anything.
    #[arg(long)]
    insecure_listen: bool,
    /// End when standard input does: with the process that started this one.
    #[arg(long, hide = true)]
    until_stdin_ends: bool,
    #[command(flatten)]
    flags: Flags,
}

impl Server {
    pub(crate) fn run(&self, output: &mut Output) -> Vec<Error> {
        self.serve(output).err().into_iter().collect()
    }

    fn serve(&self, output: &mut Output) -> Result<(), Error> {
        let environment = environment();
        let config = Config::load(self.config.as_deref(), &environment, &self.flags)?;
        prepare(&config, &environment);
        let exposure = if self.insecure_listen { Exposure::Anywhere } else { Exposure::Loopback };
        on_a_runtime(async {
            let mut signals = Signals::listen(self.until_stdin_ends)?;
            let (stop, stopped) = watch::channel(false);
            let starting = server::Server::start_member(&config, exposure, stopped);
            tokio::pin!(starting);
            let started = tokio::select! {
                started = &mut starting => started?,
                () = signals.stop() => {
                    stop.send_replace(true);
                    // One that already opens its data is let finish that.
                    starting.await?
                }
            };
            let Some(server) = started else { return Ok(()) };
            until_stopped(server, &mut signals, |server| {
                let at = &server.addresses;
                output.line(format_args!(
                    "Orbit node {} runs, with its data in {}",
                    config.node_name,
                    config.data_dir.display()
                ));
                output.line(format_args!(
                    "  HTTP http://{}  gRPC http://{}  health http://{}/readyz",
                    at.http, at.grpc, at.health
                ));
                output.flush();
            })
            .await
        })
    }
}
