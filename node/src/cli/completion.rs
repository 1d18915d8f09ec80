//! `orbit completion SHELL`: what a shell needs to complete commands and options.

use clap::CommandFactory as _;
use clap_complete::{Shell, generate};

use super::print::Output;
use super::{Arguments, Error};

/// Print a script with which a shell completes commands and options.
#[derive(Debug, clap::Args)]
pub(crate) struct Completion {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

impl Completion {
    pub(crate) fn run(&self, output: &mut Output) -> Vec<Error> {
        let mut script = Vec::new();
        generate(self.shell, &mut Arguments::command(), "orbit", &mut script);
        output.line(String::from_utf8_lossy(&script).trim_end());
        Vec::new()
    }
}
