//! `orbit`: one binary for everything. What it can do stands in [`orbit_node::cli`], one subcommand a file.

use std::process::ExitCode;

/// Actors and entries come and go by the thousand a second; the system's allocator spends a tenth of a node on that.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    orbit_node::cli::run()
}
