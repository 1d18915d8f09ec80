//! The command line.
//!
//! Commands that need no node:
//!
//! - [`check`]: compiles documents and shows faults with their place
//! - [`test`]: runs test cases with mocked tasks and skipped time
//! - [`proto`]: writes the `.proto` files of the gRPC services
//! - [`completion`]: for shells
//!
//! [`dev`] is a node with nothing to configure. Commands that speak to one; what they have in common stands in
//! [`remote`]:
//!
//! - [`deploy`], [`workflows`], [`start`], [`list`], [`show`], [`history`], [`watch`], [`workers`]
//! - [`signal`], [`query`], [`pause`] (also resume), [`redrive`], [`cancel`], [`delete`]: act on one execution; all but
//!   query, by [`many`], also on those that fit a filter
//! - [`batch`]: how far that is
//! - [`replay`]: decides a history again, from a node or a file
//! - [`worker`]: a worker without code
//! - [`bench`]: measures a node
//!
//! What they use:
//!
//! - [`source`], [`order`]: files as they are named on the command line, and documents in order of registration
//! - [`follow`], [`event`], [`why`]: waiting for an end, events as lines, and what is said beside them
//! - [`print`], [`table`], [`json`], [`time`], [`near`]: everything that is printed
//! - [`junit`]: results of cases for other tools
//!
//! Exit codes: 0 done, 1 refused or failed, 2 wrong usage, which includes files that are not there, 3 nobody was
//! reached or nobody knows what came of it.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod admin;
mod batch;
mod bench;
mod cancel;
mod check;
mod cluster;
mod completion;
mod delete;
mod deploy;
mod dev;
mod event;
mod follow;
mod history;
mod json;
mod junit;
mod list;
mod many;
mod near;
mod nodes;
mod order;
mod pause;
mod print;
mod probe;
mod proto;
mod query;
mod redrive;
mod remote;
mod replay;
mod server;
mod show;
mod signal;
mod source;
mod start;
mod table;
mod test;
mod time;
mod watch;
mod why;
mod worker;
mod workers;
mod workflows;

use crate::client;
use print::Output;
use remote::Asks as _;

/// Durable workflows that must finish, whatever fails.
#[derive(Debug, Parser)]
#[command(name = "orbit", version = env!("ORBIT_VERSION"), subcommand_required = true, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(check::Check),
    Dev(dev::Dev),
    Server(server::Server),
    Init(cluster::Init),
    Join(cluster::Join),
    Leave(cluster::Leave),
    Drain(cluster::Drain),
    Cluster(cluster::Cluster),
    Admin(admin::Admin),
    Probe(probe::Probe),
    Test(test::Test),
    Deploy(deploy::Deploy),
    Workflows(workflows::Workflows),
    Start(start::Start),
    List(list::List),
    Show(show::Show),
    History(history::History),
    Watch(watch::Watch),
    Signal(signal::Signal),
    Query(query::Query),
    Cancel(cancel::Cancel),
    Pause(pause::Pause),
    Resume(pause::Resume),
    Redrive(redrive::Redrive),
    Delete(delete::Delete),
    Batch(batch::Batch),
    Replay(replay::Replay),
    Workers(workers::Workers),
    Worker(worker::Worker),
    Bench(bench::Bench),
    Proto(proto::Proto),
    #[command(visible_alias = "completions")]
    Completion(completion::Completion),
}

impl Command {
    fn run(&self, output: &mut Output) -> Vec<Error> {
        match self {
            Self::Check(check) => check.run(output),
            Self::Dev(dev) => dev.run(output),
            Self::Server(server) => server.run(output),
            Self::Init(init) => init.run(output),
            Self::Join(join) => join.run(output),
            Self::Leave(leave) => leave.run(output),
            Self::Drain(drain) => drain.run(output),
            Self::Cluster(cluster) => cluster.run(output),
            Self::Admin(admin) => admin.run(output),
            Self::Probe(probe) => probe.run(output),
            Self::Test(test) => test.run(output),
            Self::Deploy(deploy) => deploy.run(output),
            Self::Workflows(workflows) => workflows.run(output),
            Self::Start(start) => start.run(output),
            Self::List(list) => list.run(output),
            Self::Show(show) => show.run(output),
            Self::History(history) => history.run(output),
            Self::Watch(watch) => watch.run(output),
            Self::Signal(signal) => signal.run(output),
            Self::Query(query) => query.run(output),
            Self::Cancel(cancel) => cancel.run(output),
            Self::Pause(pause) => pause.run(output),
            Self::Resume(resume) => resume.run(output),
            Self::Redrive(redrive) => redrive.run(output),
            Self::Delete(delete) => delete.run(output),
            Self::Batch(batch) => batch.run(output),
            Self::Replay(replay) => replay.run(output),
            Self::Workers(workers) => workers.run(output),
            Self::Worker(worker) => worker.run(output),
            Self::Bench(bench) => bench.run(output),
            Self::Proto(proto) => proto.run(output),
            Self::Completion(completion) => completion.run(output),
        }
    }
}

/// How a command ended; the higher one counts when it ended in several ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Done = 0,
    Failed = 1,
    WrongUsage = 2,
    Unknown = 3,
}

/// Why a command could not do its work: one sentence with a code and what to do.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Source(#[from] source::Error),
    #[error("INVALID_IR: {faults} in {files}; correct them and try again")]
    Faults { faults: String, files: String },
    #[error(transparent)]
    Client(#[from] client::Error),
    #[error("NOT_COMPLETED: {id} ended as {status}{why}; `orbit history {id}` shows what happened")]
    NotCompleted { id: String, status: String, why: String },
    #[error("OUTCOME_UNKNOWN: {message}; it may have happened all the same: {next}")]
    Doubtful { message: String, next: String },
    #[error(
        "STILL_NULL: {query} of {id} gave null for {waited}; wait longer, or see with `orbit show {id}` where it is"
    )]
    StillNull { query: String, id: String, waited: String },
    #[error(
        "TOO_LARGE: {query} of {id} gives more than the 3 MiB of an answer; declare a query that gives a part of it"
    )]
    TooLarge { query: String, id: String },
    #[error("INVALID_USAGE: {0}; `--help` tells more")]
    Usage(String),
    #[error("NOT_CONFIRMED: {0} Nothing was done, for there is no terminal to ask at; say --yes if that is meant")]
    NotConfirmed(String),
    #[error("NOT_CONFIRMED: nothing was done")]
    Declined,
    #[error("BATCH_FAILED: {failed} of {total} failed; `orbit batch {id}` names them")]
    BatchFailed { id: String, failed: u64, total: u64 },
    #[error("FINDINGS: {findings}: what is stored is not as it must be; what to do is told with each rule")]
    Findings { findings: String },
    #[error("NO_HISTORY: {file} holds no history: {why}; write one with `orbit history ID --output json`")]
    NoHistory { file: String, why: String },
    #[error("NOT_REPLAYED: {0}")]
    NotReplayed(workflow::replay::Error),
    #[error(
        "DIFFERENT: event {seq} of {id} is not what the rules decide; the history was changed, or this version decides \
         otherwise"
    )]
    Different { id: String, seq: u64 },
    #[error("INVALID_JSON: what came from {from} cannot be used: {why}; write JSON, @FILE, or @- for stdin")]
    Json { from: String, why: String },
    #[error("NO_DOCUMENT: only cases files were named, which `orbit test` runs; name the documents beside them")]
    OnlyCases,
    #[error(
        "INVALID_TASK: {0:?} is no task; write NAME, or NAME@VERSION with a version like 1.0.0; a name is 1 to 100 of \
         A-Z a-z 0-9 . _ - and begins with a letter or digit"
    )]
    Task(String),
    #[error("COMMAND_NOT_FOUND: there is no {0} that could be run; check its path")]
    NoCommand(String),
    #[error(transparent)]
    NotMeasured(#[from] crate::bench::Error),
    #[error("BENCH_FAILED: {0}")]
    Bench(String),
    #[error("SYSTEM_ERROR: {0}; see what the system lacks and try again")]
    System(String),
    #[error("NO_CASES: {0}")]
    NoCases(String),
    #[error("CASES_FAILED: {failed} of {cases} failed; `-v` shows what happened in them")]
    CasesFailed { failed: usize, cases: String },
    #[error("OUTPUT_FAILED: {file} could not be written: {error}; choose a place where it can")]
    Output { file: String, error: String },
    #[error("INVALID_CONFIG: {0}")]
    Config(#[from] crate::config::Error),
    #[error(transparent)]
    Server(#[from] crate::server::Error),
    #[error("NOT_READY: the node says: {0}")]
    NotWell(String),
    #[error("RUNTIME: the process gets no threads or signals: {0}; check the limits it runs under")]
    Runtime(std::io::Error),
}

impl Error {
    fn end(&self) -> End {
        match self {
            Self::Source(error) if error.is_usage() => End::WrongUsage,
            Self::NoCases(_)
            | Self::OnlyCases
            | Self::Json { .. }
            | Self::Task(_)
            | Self::NoCommand(_)
            | Self::Usage(_)
            | Self::NotConfirmed(_)
            | Self::NoHistory { .. } => End::WrongUsage,
            Self::Doubtful { .. } => End::Unknown,
            Self::Client(client::Error::Address { .. }) | Self::Config(_) => End::WrongUsage,
            Self::Client(error) | Self::NotMeasured(crate::bench::Error::Client(error)) if error.is_unknown() => {
                End::Unknown
            }
            _ => End::Failed,
        }
    }

    /// If nobody knows what came of a call: that it was about this execution.
    fn about(self, id: &str) -> Self {
        match self {
            Self::Client(client::Error::OutcomeUnknown { message, execution_id: None }) => {
                Self::Client(client::Error::OutcomeUnknown { message, execution_id: Some(id.to_owned()) })
            }
            other => other,
        }
    }

    /// If nobody knows what came of a call: what to do next, where the same call with an id is not the answer.
    fn doubted(self, next: impl FnOnce() -> String) -> Self {
        match self {
            Self::Client(client::Error::OutcomeUnknown { message, .. }) => Self::Doubtful { message, next: next() },
            other => other,
        }
    }
}

/// Runs the command that the arguments name.
pub fn run() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version go to stdout and are no errors; a closed pipe is nobody's fault.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { End::WrongUsage as u8 } else { End::Done as u8 });
        }
    };
    let mut output = Output::new();
    let errors = arguments.command.run(&mut output);
    let mut end = errors.iter().map(Error::end).max().unwrap_or(End::Done);
    for error in &errors {
        output.error(error);
    }
    if let Err(error) = output.finish() {
        Output::new().error(&Error::Output { file: "the output".to_owned(), error: error.to_string() });
        end = end.max(End::Failed);
    }
    ExitCode::from(end as u8)
}

/// `1 fault`, `2 faults`.
fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
