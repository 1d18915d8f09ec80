//! What can be set, and where from: flag before environment before file before default.
//!
//! There is one table of keys, [`KEYS`]; a file, the environment and the flags are read by it, so that a key that is
//! added there can be set everywhere.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

mod file;
mod flags;
mod key;

pub use flags::Flags;
pub use key::{KEYS, Key, Kind, find};

use orbit_actors::disk::DiskLimits;

use crate::builtin::allow::Rules;

/// How the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Everything that is set, each as its key in [`KEYS`] says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Config {
    pub data_dir: PathBuf,
    pub log_format: LogFormat,
    pub log_level: String,
    pub http_listen: SocketAddr,
    pub http_names: Vec<String>,
    pub grpc_listen: SocketAddr,
    pub peer_listen: SocketAddr,
    /// None: where it listens.
    pub peer_advertise: Option<String>,
    pub health_listen: SocketAddr,
    pub node_name: String,
    pub cluster_name: String,
    pub seeds: Vec<String>,
    pub shards: u16,
    /// Whether that number was set, and is not the default.
    pub shards_set: bool,
    pub payload_bytes_max: usize,
    pub request_bytes_max: usize,
    pub connections_max: usize,
    pub alive_max: usize,
    pub in_flight_max: usize,
    pub disk_limits: DiskLimits,
    pub heartbeat_interval: Duration,
    pub session_timeout: Duration,
    /// None: by the command that starts the node.
    pub http_task_enabled: Option<bool>,
    pub http_task_allow: Rules,
    pub http_task_secrets_dir: Option<PathBuf>,
    pub batch_rate: u32,
    pub retention: Duration,
}

/// Why a configuration is not taken.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("the configuration {path} cannot be read: {source}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The file is no TOML.
    #[error("the configuration {path} is no TOML: {reason}")]
    NotToml {
        /// The file.
        path: String,
        /// Where and why.
        reason: String,
    },
    /// There is no such key.
    #[error(
        "{place}: there is no key `{name}`{}",
        .suggestion.map(|s| format!("; did you mean `{s}`?")).unwrap_or_default()
    )]
    UnknownKey {
        /// The file.
        place: String,
        /// What was written.
        name: String,
        /// What was probably meant.
        suggestion: Option<&'static str>,
    },
    /// A value does not fit its key.
    #[error("{place}: {reason}")]
    Value {
        /// The key as it was written where.
        place: String,
        /// What is wrong.
        reason: String,
    },
    /// Values do not fit each other.
    #[error("{0}")]
    Together(String),
}

impl Default for Config {
    fn default() -> Self {
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut config = Self {
            data_dir: PathBuf::new(),
            log_format: LogFormat::Text,
            log_level: String::new(),
            http_listen: nowhere,
            http_names: Vec::new(),
            grpc_listen: nowhere,
            peer_listen: nowhere,
            peer_advertise: None,
            health_listen: nowhere,
            node_name: String::new(),
            cluster_name: String::new(),
            seeds: Vec::new(),
            shards: 0,
            shards_set: false,
            payload_bytes_max: 0,
            request_bytes_max: 0,
            connections_max: 0,
            alive_max: 0,
            in_flight_max: 0,
            disk_limits: DiskLimits::default(),
            heartbeat_interval: Duration::ZERO,
            session_timeout: Duration::ZERO,
            http_task_enabled: None,
            http_task_allow: Rules::default(),
            http_task_secrets_dir: None,
            batch_rate: 0,
            retention: Duration::ZERO,
        };
        for key in KEYS {
            let set = (key.set)(&mut config, key.default);
            debug_assert!(set.is_ok(), "the default of {} is not taken", key.name);
        }
        config.shards_set = false;
        config
    }
}

impl Config {
    /// Puts together what a file, the environment and the flags say.
    ///
    /// # Errors
    /// Something in one of them is not taken.
    pub fn load(file: Option<&Path>, environment: &BTreeMap<String, String>, flags: &Flags) -> Result<Self, Error> {
        let mut config = Self::default();
        if let Some(path) = file {
            file::read(path, &mut config)?;
        }
        for key in KEYS {
            let variable = key.variable();
            if let Some(text) = environment.get(&variable) {
                (key.set)(&mut config, text).map_err(|reason| Error::Value { place: variable, reason })?;
            }
            if let Some(text) = flags.get(key) {
                let place = format!("--{}", key.flag());
                (key.set)(&mut config, text).map_err(|reason| Error::Value { place, reason })?;
            }
        }
        if config.heartbeat_interval * 2 > config.session_timeout {
            return Err(Error::Together(
                "limits.session_timeout_ms is less than twice limits.heartbeat_interval_ms; \
                 workers would be lost between two heartbeats"
                    .to_owned(),
            ));
        }
        let DiskLimits { warn_percent, full_percent, read_only_percent } = config.disk_limits;
        if warn_percent > full_percent || full_percent > read_only_percent {
            return Err(Error::Together(format!(
                "limits.disk_warn_percent is {warn_percent}, limits.disk_full_percent {full_percent}, \
                 limits.disk_read_only_percent {read_only_percent}; each must be at least the one before it"
            )));
        }
        Ok(config)
    }
}

/// Variables of the environment that look like a slip of a key, with the right name. Others that begin with `ORBIT_`
/// belong to somebody else: clients, workers, or the platform the node runs on.
#[must_use]
pub fn doubtful(environment: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let known: Vec<String> = KEYS.iter().map(Key::variable).collect();
    let ours = environment.keys().filter(|name| name.starts_with("ORBIT_") && !known.contains(name));
    ours.filter_map(|name| {
        let near = known.iter().find(|known| strsim::osa_distance(name, known) <= 2)?;
        Some((name.clone(), near.clone()))
    })
    .collect()
}

/// The key whose name is nearest to what was written.
fn nearest(written: &str) -> Option<&'static str> {
    let far = |name: &str| strsim::osa_distance(&written.to_lowercase(), name);
    let near = KEYS.iter().map(|key| (far(key.name), key.name)).min()?;
    // The last part alone is often right and in the wrong table.
    let last = written.rsplit('.').next().unwrap_or(written);
    let same_last = KEYS.iter().map(|key| key.name).find(|name| name.rsplit('.').next() == Some(last));
    if near.0 <= written.len().div_ceil(4).clamp(2, 5) { Some(near.1) } else { same_last }
}

#[cfg(test)]
mod tests;
