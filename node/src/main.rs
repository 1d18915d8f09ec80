//! `orbit`: one binary for everything. What it can do stands in [`cli`], one subcommand a file.

use std::process::ExitCode;

mod bench;
mod cli;
mod client;

fn main() -> ExitCode {
    cli::run()
}
