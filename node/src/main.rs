//! `orbit`: one binary for everything. What it can do stands in [`orbit_node::cli`], one subcommand a file.

use std::process::ExitCode;

fn main() -> ExitCode {
    orbit_node::cli::run()
}
