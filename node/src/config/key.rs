//! The table of keys: what a configuration file, the environment and the flags are made from.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use workflow::expression::text::parse_duration_ms;

use super::{Config, LogFormat};
use crate::builtin::allow::Rules;

/// What a value looks like in TOML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A string.
    Text,
    /// A whole number.
    Number,
    /// A list of strings; separated by commas elsewhere.
    List,
    /// true or false.
    Switch,
}

/// One thing that can be set.
pub struct Key {
    /// As in TOML: `http.listen`.
    pub name: &'static str,
    /// What its value looks like.
    pub kind: Kind,
    /// What holds when nothing is said.
    pub default: &'static str,
    /// What it does.
    pub help: &'static str,
    /// Puts a value into the configuration, or says what is wrong with it.
    pub set: fn(&mut Config, &str) -> Result<(), String>,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Key {
    /// `ORBIT_HTTP_LISTEN`.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("ORBIT_{}", self.name.replace('.', "_").to_uppercase())
    }

    /// `http-listen`.
    #[must_use]
    pub fn flag(&self) -> String {
        self.name.replace(['.', '_'], "-")
    }
}

/// The key with this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// Every key.
pub const KEYS: &[Key] = &[
    Key {
        name: "data_dir",
        kind: Kind::Text,
        default: ".orbit",
        help: "Where the node keeps its data",
        set: |config, text| path(text).map(|path| config.data_dir = path),
    },
    Key {
        name: "log.format",
        kind: Kind::Text,
        default: "text",
        help: "How the log is written: text or json",
        set: |config, text| log_format(text).map(|format| config.log_format = format),
    },
    Key {
        name: "log.level",
        kind: Kind::Text,
        default: "info",
        help: "What is logged: error, warn, info, debug or trace, or a filter such as info,orbit_raft=debug",
        set: |config, text| log_level(text).map(|level| config.log_level = level),
    },
    Key {
        name: "http.listen",
        kind: Kind::Text,
        default: "127.0.0.1:7400",
        help: "Where the HTTP API listens",
        set: |config, text| address(text).map(|address| config.http_listen = address),
    },
    Key {
        name: "http.names",
        kind: Kind::List,
        default: "",
        help: "Names by which clients call this node, beside those of this machine alone",
        set: |config, text| names(text).map(|names| config.http_names = names),
    },
    Key {
        name: "grpc.listen",
        kind: Kind::Text,
        default: "127.0.0.1:7401",
        help: "Where the gRPC API listens",
        set: |config, text| address(text).map(|address| config.grpc_listen = address),
    },
    Key {
        name: "peer.listen",
        kind: Kind::Text,
        default: "127.0.0.1:7402",
        help: "Where the node listens for other nodes",
        set: |config, text| address(text).map(|address| config.peer_listen = address),
    },
    Key {
        name: "peer.advertise",
        kind: Kind::Text,
        default: "",
        help: "host:port at which other nodes reach this one; when nothing is said, where it listens for them",
        set: |config, text| advertised(text).map(|address| config.peer_advertise = address),
    },
    Key {
        name: "health.listen",
        kind: Kind::Text,
        default: "127.0.0.1:7403",
        help: "Where /startupz, /livez, /readyz and /metrics are served",
        set: |config, text| address(text).map(|address| config.health_listen = address),
    },
    Key {
        name: "node.name",
        kind: Kind::Text,
        default: "orbit-1",
        help: "What the node is called, for people",
        set: |config, text| name(text).map(|name| config.node_name = name),
    },
    Key {
        name: "cluster.name",
        kind: Kind::Text,
        default: "orbit",
        help: "What the cluster is called, for people",
        set: |config, text| name(text).map(|name| config.cluster_name = name),
    },
    Key {
        name: "cluster.seeds",
        kind: Kind::List,
        default: "",
        help: "host:port of other nodes, as they advertise them: a node without data joins the cluster that one of \
               them belongs to",
        set: |config, text| addresses(text).map(|seeds| config.seeds = seeds),
    },
    Key {
        name: "cluster.shards",
        kind: Kind::Number,
        default: "16",
        help: "How many shards a new cluster gets; an existing one keeps what it has",
        set: |config, text| {
            config.shards_set = true;
            number(text, 1, 256).map(|shards| config.shards = shards as u16)
        },
    },
    Key {
        name: "limits.payload_bytes",
        kind: Kind::Number,
        default: "2097152",
        help: "The longest input, output or details, in bytes",
        set: |config, text| number(text, 1_024, 2 << 20).map(|bytes| config.payload_bytes_max = bytes as usize),
    },
    Key {
        name: "limits.request_bytes",
        kind: Kind::Number,
        default: "4194304",
        help: "The longest request, in bytes",
        set: |config, text| number(text, 4_096, 4 << 20).map(|bytes| config.request_bytes_max = bytes as usize),
    },
    Key {
        name: "limits.connections",
        kind: Kind::Number,
        default: "10000",
        help: "How many connections each listener holds at a time; further ones wait",
        set: |config, text| number(text, 1, 1 << 20).map(|count| config.connections_max = count as usize),
    },
    Key {
        name: "limits.alive_executions",
        kind: Kind::Number,
        default: "1250",
        help: "How many executions each shard keeps in memory",
        set: |config, text| number(text, 1, 1 << 20).map(|count| config.alive_max = count as usize),
    },
    Key {
        name: "limits.waiting_commands",
        kind: Kind::Number,
        default: "4096",
        help: "How many commands wait in each shard before calls are refused with OVERLOADED",
        set: |config, text| number(text, 1, 1 << 20).map(|count| config.in_flight_max = count as usize),
    },
    Key {
        name: "limits.disk_warn_percent",
        kind: Kind::Number,
        default: "80",
        help: "How much of the disk of data_dir may be in use before the node warns, in percent",
        set: |config, text| number(text, 1, 100).map(|percent| config.disk_limits.warn_percent = percent as u8),
    },
    Key {
        name: "limits.disk_full_percent",
        kind: Kind::Number,
        default: "90",
        help: "Over this, with less than 4 GiB left, the node begins no executions and leads nothing, in percent",
        set: |config, text| number(text, 1, 100).map(|percent| config.disk_limits.full_percent = percent as u8),
    },
    Key {
        name: "limits.disk_read_only_percent",
        kind: Kind::Number,
        default: "95",
        help: "A shard of whose nodes a quorum is over this, with 4 GiB left or less, takes deletions only, in percent",
        set: |config, text| number(text, 1, 100).map(|percent| config.disk_limits.read_only_percent = percent as u8),
    },
    Key {
        name: "limits.heartbeat_interval_ms",
        kind: Kind::Number,
        default: "5000",
        help: "How often workers are told to send a heartbeat",
        set: |config, text| milliseconds(text).map(|time| config.heartbeat_interval = time),
    },
    Key {
        name: "limits.session_timeout_ms",
        kind: Kind::Number,
        default: "30000",
        help: "After how long a silence a worker counts as lost",
        set: |config, text| milliseconds(text).map(|time| config.session_timeout = time),
    },
    Key {
        name: "http_task.enabled",
        kind: Kind::Switch,
        default: "",
        help: "Whether this node sends the requests of orbit.http.request; when nothing is said, orbit dev does",
        set: |config, text| switch(text).map(|enabled| config.http_task_enabled = enabled),
    },
    Key {
        name: "http_task.allow",
        kind: Kind::List,
        default: "",
        help: "Hosts, addresses and networks, each with an optional port, that orbit.http.request may reach although \
               they are not out on the internet",
        set: |config, text| rules(text).map(|rules| config.http_task_allow = rules),
    },
    Key {
        name: "http_task.secrets_dir",
        kind: Kind::Text,
        default: "",
        help: "Where the secrets lie that orbit.http.request may send in headers, a file for each",
        set: |config, text| {
            config.http_task_secrets_dir = Some(PathBuf::from(text)).filter(|_| !text.is_empty());
            Ok(())
        },
    },
    Key {
        name: "limits.batch_rate",
        kind: Kind::Number,
        default: "200",
        help: "How many executions a batch acts on per second, at most",
        set: |config, text| number(text, 1, 10_000).map(|rate| config.batch_rate = rate as u32),
    },
    Key {
        name: "retention",
        kind: Kind::Text,
        default: "30d",
        help: "How long runs are kept after their end where their workflow does not say",
        set: |config, text| retention(text).map(|time| config.retention = time),
    },
];

fn path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err("a directory is expected".to_owned()) } else { Ok(PathBuf::from(text)) }
}

fn log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err(format!("{text:?} is neither text nor json")),
    }
}

fn log_level(text: &str) -> Result<String, String> {
    match text.parse::<tracing_subscriber::EnvFilter>() {
        Ok(_) if !text.trim().is_empty() => Ok(text.to_owned()),
        _ => Err(format!("{text:?} is no level; write error, warn, info, debug or trace")),
    }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("{text:?} is no address; write address:port, for example 127.0.0.1:7400"))
}

/// A name or address with a port; nothing is none.
fn advertised(text: &str) -> Result<Option<String>, String> {
    if text.is_empty() { Ok(None) } else { host_and_port(text).map(Some) }
}

fn addresses(text: &str) -> Result<Vec<String>, String> {
    text.split(',').map(str::trim).filter(|one| !one.is_empty()).map(host_and_port).collect()
}

fn host_and_port(text: &str) -> Result<String, String> {
    let wrong = || format!("{text:?} is no host:port; write for example orbit-1.internal:7402");
    let uri: axum::http::uri::Authority = text.parse().map_err(|_| wrong())?;
    let named = uri.port_u16().is_some_and(|port| port > 0) && !uri.host().is_empty() && !text.contains('@');
    if named { Ok(text.to_owned()) } else { Err(wrong()) }
}

/// Names for people: short and printable.
fn name(text: &str) -> Result<String, String> {
    let fits = |c: char| !c.is_control() && !c.is_whitespace();
    match text.chars().count() {
        1..=63 if text.chars().all(fits) => Ok(text.to_owned()),
        _ => Err(format!("{text:?} is no name; write 1 to 63 characters without spaces")),
    }
}

/// Host names, without port.
fn names(text: &str) -> Result<Vec<String>, String> {
    let fits = |name: &str| {
        let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c));
        plain || name.parse::<std::net::IpAddr>().is_ok()
    };
    let all = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    all.map(|name| match fits(name) {
        true => Ok(name.to_ascii_lowercase()),
        false => Err(format!("{name:?} is no host name; write it without scheme and port")),
    })
    .collect()
}

/// Nothing is neither.
fn switch(text: &str) -> Result<Option<bool>, String> {
    match text {
        "" => Ok(None),
        "true" => Ok(Some(true)),
        "false" => Ok(Some(false)),
        _ => Err(format!("{text:?} is neither true nor false")),
    }
}

fn rules(text: &str) -> Result<Rules, String> {
    let all = text.split(',').map(str::trim).filter(|rule| !rule.is_empty());
    all.map(str::parse).collect::<Result<_, _>>().map(Rules)
}

fn number(text: &str, min: u64, max: u64) -> Result<u64, String> {
    match text.parse() {
        Ok(number) if (min..=max).contains(&number) => Ok(number),
        _ => Err(format!("{text:?} is no whole number from {min} to {max}")),
    }
}

/// At least a second: what is over must be there for whoever waits for it.
fn retention(text: &str) -> Result<Duration, String> {
    match parse_duration_ms(text) {
        Some(ms) if ms >= 1_000 => Ok(Duration::from_millis(ms)),
        _ => Err(format!("{text:?} is no duration of at least 1s; write 30d, 12h or 90m")),
    }
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    number(text, 10, 3_600_000).map(Duration::from_millis)
}
