//! The log: to stderr, for people or for programs.

use std::io;

use tracing_subscriber::EnvFilter;

use crate::config::{Config, LogFormat};

/// Lets the log of this process be written. Where one is written already, that goes on.
pub fn start(config: &Config) {
    let filter = filter(&config.log_level);
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    let started = match config.log_format {
        LogFormat::Text => log.with_ansi(io::IsTerminal::is_terminal(&io::stderr())).try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    };
    drop(started);
}

/// What is let through. The consensus library tells every election of every shard as news, and every heartbeat that a
/// node which is away has missed as a warning: it is heard from errors on, unless it is named.
fn filter(level: &str) -> EnvFilter {
    let level = if level.contains("openraft") { level.to_owned() } else { format!("{level},openraft=error") };
    // Checked when the configuration was read.
    level.parse().unwrap_or_else(|_| EnvFilter::new("info"))
}
