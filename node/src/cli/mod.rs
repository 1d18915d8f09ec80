//! The command line.
//!
//! - [`check`]: compiles documents and shows faults with their place
//! - [`test`]: runs test cases with mocked tasks and skipped time
//! - [`source`]: files as they are named on the command line
//! - [`dev`]: a node with nothing to configure
//! - [`print`]: everything that is printed
//! - [`junit`]: results of cases for other tools
//!
//! Exit codes: 0 done, 1 refused or failed, 2 wrong usage, which includes files that are not there.

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{Parser, Subcommand};

mod check;
mod dev;
mod junit;
mod print;
mod source;
mod test;

use print::Output;

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
    Test(test::Test),
}

/// How a command ended; the higher one counts when it ended in several ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Done = 0,
    Failed = 1,
    WrongUsage = 2,
}

/// Why a command could not do its work: one sentence with a code and what to do.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Source(#[from] source::Error),
    #[error("INVALID_IR: {faults} in {files}; correct them and try again")]
    Faults { faults: String, files: String },
    #[error(
        "NOT_IN_THIS_VERSION: `orbit {0}` is not part of version {version}; it can `check`, `dev` and `test`, \
         see `orbit --help`",
        version = env!("CARGO_PKG_VERSION")
    )]
    NotYet(&'static str),
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
    #[error("RUNTIME: the process gets no threads or signals: {0}; check the limits it runs under")]
    Runtime(std::io::Error),
}

impl Error {
    fn end(&self) -> End {
        match self {
            Self::Source(error) if error.is_usage() => End::WrongUsage,
            Self::NoCases(_) | Self::NotYet(_) | Self::Config(_) => End::WrongUsage,
            _ => End::Failed,
        }
    }
}

/// Subcommands that the documentation speaks of and that this version does not have.
const PLANNED: [&str; 1] = ["deploy"];

/// The one of them that was called.
fn planned(error: &clap::Error) -> Option<&'static str> {
    match error.get(ContextKind::InvalidSubcommand)? {
        ContextValue::String(called) => PLANNED.into_iter().find(|name| name == called),
        _ => None,
    }
}

/// Runs the command that the arguments name.
pub fn run() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            if let Some(name) = planned(&error) {
                Output::new().error(&Error::NotYet(name));
                return ExitCode::from(End::WrongUsage as u8);
            }
            // Help and version go to stdout and are no errors; a closed pipe is nobody's fault.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { End::WrongUsage as u8 } else { End::Done as u8 });
        }
    };
    let mut output = Output::new();
    let errors = match arguments.command {
        Command::Check(check) => check.run(&mut output),
        Command::Dev(dev) => dev.run(&mut output),
        Command::Test(test) => test.run(&mut output),
    };
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
