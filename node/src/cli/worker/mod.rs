//! `orbit worker exec`: a worker without code, which runs a command for each task.
//!
//! - [`tasks`]: which versions of which tasks are worked for
//! - [`session`]: being known to the nodes, and staying so
//! - [`held`]: what has been taken and not been answered for
//! - [`work`]: takes tasks, runs them, reports what came of them
//! - [`process`]: one run of the command
//!
//! A token is listed in every sign of life from the moment it arrives until its result has been answered, so neither a
//! lost answer nor a lost node loses work: results are repeated until somebody takes them, and the session is resumed
//! through whichever node answers.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Error;
use super::print::Output;
use super::remote::{self, Asks, Remote};
use crate::client::Client;

mod held;
mod process;
mod session;
mod tasks;
mod work;

use held::Held;
use session::Session;
use tasks::Wanted;
use work::Work;

/// Lines that may wait to be printed.
const LINES_MAX: usize = 256;

/// Work for tasks.
#[derive(Debug, clap::Args)]
pub(crate) struct Worker {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Debug, clap::Subcommand)]
enum Kind {
    Exec(Exec),
}

impl Worker {
    pub(crate) fn run(&self, output: &mut Output) -> Vec<Error> {
        let Kind::Exec(exec) = &self.kind;
        exec.run(output)
    }
}

/// Run a command for each task: its input as JSON on stdin, its output as JSON from stdout.
///
/// Nothing on stdout means null. An exit code n other than 0 is the failure EXIT_n with the end of stderr as message.
/// The command finds ORBIT_EXECUTION_ID, ORBIT_UNIT, ORBIT_ATTEMPT and ORBIT_IDEMPOTENCY_KEY in its environment. A
/// cancelled task gets SIGTERM, and SIGKILL when it takes too long to stop.
#[derive(Debug, clap::Args)]
pub(crate) struct Exec {
    /// A task, NAME or NAME@VERSION; without a version all that any workflow uses. May be repeated.
    #[arg(long = "task", required = true, value_name = "NAME[@VERSION]")]
    tasks: Vec<String>,
    /// How many commands run at a time.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    slots: u32,
    /// Who this worker is, the same after a restart; the host's name and the process if not given.
    #[arg(long, value_name = "ID")]
    worker_id: Option<String>,
    /// The language that it announces.
    #[arg(long, default_value = "shell")]
    runtime: String,
    /// Exit codes after which no other attempt is made.
    #[arg(long, value_delimiter = ',', value_name = "CODE")]
    fatal: Vec<i32>,
    /// How long running commands may go on after Ctrl-C.
    #[arg(long, default_value = "30s", value_parser = remote::duration, value_name = "DURATION")]
    drain: Duration,
    /// How long a command may take to stop after SIGTERM.
    #[arg(long, default_value = "10s", value_parser = remote::duration, value_name = "DURATION")]
    grace: Duration,
    #[command(flatten)]
    remote: Remote,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Says a line to whoever looks at the worker; a line too many is not waited for.
#[derive(Clone)]
struct Say(mpsc::Sender<String>);

impl Say {
    fn line(&self, text: impl ToString) {
        let _ = self.0.try_send(text.to_string());
    }
}

impl Asks for Exec {
    fn remote(&self) -> &Remote {
        &self.remote
    }

    async fn ask(&self, client: &Client, output: &mut Output) -> Result<(), Error> {
        if !can_be_run(&self.command[0]) {
            return Err(Error::NoCommand(self.command[0].to_string_lossy().into_owned()));
        }
        let (say, mut lines) = mpsc::channel(LINES_MAX);
        let working = self.work(client, Say(say));
        tokio::pin!(working);
        loop {
            tokio::select! {
                Some(line) = lines.recv() => {
                    output.line(line);
                    output.flush();
                }
                done = &mut working => {
                    while let Ok(line) = lines.try_recv() {
                        output.line(line);
                    }
                    return done;
                }
            }
        }
    }
}

impl Exec {
    async fn work(&self, client: &Client, say: Say) -> Result<(), Error> {
        let mut stop = Stop::new()?;
        let wanted = Wanted::parse(&self.tasks)?;
        let held = Arc::new(Held::default());
        let worker_id = self.worker_id.clone().unwrap_or_else(own_name);
        let identity = session::Identity { worker_id, runtime: self.runtime.clone(), slots: self.slots };
        let session = tokio::select! {
            session = Session::open(client.clone(), identity, wanted, Arc::clone(&held), say.clone()) => session?,
            () = stop.asked() => return Ok(()),
        };
        let session = Arc::new(session);
        let work = Work::new(self, client.clone(), Arc::clone(&session), Arc::clone(&held), say.clone());
        let no_more = CancellationToken::new();
        let mut taking = tokio::spawn(work.clone().take(no_more.clone()));
        let alive = tokio::spawn(Arc::clone(&session).stay_alive());
        tokio::select! {
            () = stop.asked() => {}
            // Only a fault of its own ends it.
            ended = &mut taking => return Err(Error::System(format!("the worker stopped: {ended:?}"))),
        }
        say.line("stopping: no more tasks are taken, running ones may finish; Ctrl-C again stops them");
        no_more.cancel();
        let _ = taking.await;
        tokio::select! {
            _ = timeout(self.drain, work.idle()) => {}
            () = stop.asked() => {}
        }
        held.cancel_all();
        // What is left is being killed; its tasks go to others as soon as the session ends.
        let _ = timeout(self.grace + Duration::from_secs(2), work.idle()).await;
        alive.abort();
        session.close().await;
        Ok(())
    }
}

/// Whether somebody asked to stop, with Ctrl-C or SIGTERM.
struct Stop {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Stop {
    fn new() -> Result<Self, Error> {
        let listen = |kind| signal(kind).map_err(|error| Error::System(error.to_string()));
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    /// Waits for the next time that somebody asks.
    async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// A command that is nowhere would fail every task.
fn can_be_run(command: &OsString) -> bool {
    let path = Path::new(command);
    if path.components().count() > 1 {
        return path.is_file();
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(path).is_file())
}

/// A name that no other worker has at the same time.
fn own_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = if host.trim().is_empty() { "worker" } else { host.trim() };
    format!("{host}-{}", std::process::id())
}
