//! What is counted, and how Prometheus reads it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use orbit_actors::disk::DiskLevel;

use super::service::Health;

/// Through which surface a request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Surface {
    /// HTTP; the status is HTTP's.
    Http,
    /// gRPC; the status is the number of gRPC's code.
    Grpc,
}

/// How many requests there were. Routes come from the tables of the surfaces, so there are few of them.
#[derive(Debug, Default)]
pub struct Counters {
    requests: Mutex<BTreeMap<(Surface, String), BTreeMap<u16, u64>>>,
    under_way: AtomicU64,
}

/// A request over HTTP that is under way, until it is answered or given up.
#[derive(Debug)]
pub struct UnderWay<'a>(&'a Counters);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Counters {
    /// Counts a request as under way for as long as the guard lives.
    pub fn begin(&self) -> UnderWay<'_> {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        UnderWay(self)
    }

    /// Counts a request. `route` is the pattern, never what a caller wrote.
    pub fn request(&self, surface: Surface, route: &str, status: u16) {
        let mut counts = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry((surface, route.to_owned())).or_default().entry(status).or_default() += 1;
    }

    /// Everything as Prometheus text.
    #[must_use]
    pub fn text(&self, health: &Health) -> String {
        let mut text = String::new();
        let counts = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        for (surface, name, help, label) in [
            (Surface::Http, "orbit_http_requests_total", "Requests over HTTP by route and status.", "status"),
            (Surface::Grpc, "orbit_grpc_requests_total", "Requests over gRPC by method and status.", "code"),
        ] {
            head(&mut text, name, help, "counter");
            for ((_, route), statuses) in counts.iter().filter(|((of, _), _)| *of == surface) {
                for (status, count) in statuses {
                    let _ = writeln!(text, "{name}{{route=\"{route}\",{label}=\"{status}\"}} {count}");
                }
            }
        }
        let under_way = self.under_way.load(Ordering::Relaxed);
        for (name, help, value) in [
            ("orbit_http_requests_under_way", "Requests over HTTP that are not answered yet.", under_way),
            ("orbit_ready", "Whether this node takes requests.", u64::from(health.is_ok())),
            ("orbit_active_executions", "Executions that are not over, on shards led here.", health.active_executions),
            ("orbit_awake_executions", "Executions in memory, on shards led here.", health.awake_executions),
            ("orbit_worker_sessions", "Worker sessions known here.", health.worker_sessions),
            (
                "orbit_broken_executions",
                "Executions on shards led here that met an internal error and are not decided any more.",
                health.broken_executions,
            ),
        ] {
            head(&mut text, name, help, "gauge");
            let _ = writeln!(text, "{name} {value}");
        }
        for (name, help, value) in [
            (
                "orbit_removed_runs_total",
                "Runs removed on shards led here because their retention had passed.",
                health.removed_runs,
            ),
            (
                "orbit_long_histories_total",
                "Histories on shards led here that came to a fifth of their limit.",
                health.long_histories,
            ),
        ] {
            head(&mut text, name, help, "counter");
            let _ = writeln!(text, "{name} {value}");
        }
        condition(&mut text, health);
        shards(&mut text, health);
        text
    }
}

fn condition(text: &mut String, health: &Health) {
    let node = &health.condition;
    let level = DiskLevel::ALL.iter().position(|level| level.as_str() == node.disk).unwrap_or(0);
    for (name, help, value) in [
        ("orbit_disk_used_ratio", "How much of the disk of data_dir is in use, 0 to 1.", node.disk_used_ratio),
        ("orbit_disk_available_bytes", "What is left of the disk of data_dir.", health.disk_available_bytes as f64),
        (
            "orbit_disk_level",
            "0 ok, 1 warning, 2 full: no starts, no leaderships, 3 critical: no writes once a quorum is there.",
            level as f64,
        ),
        (
            "orbit_clock_off",
            "Whether the clock is over 500 ms off the median of the nodes, so that this node leads nothing.",
            f64::from(u8::from(node.clock_off)),
        ),
    ] {
        head(text, name, help, "gauge");
        let _ = writeln!(text, "{name} {value}");
    }
    // While too few others are heard nobody knows.
    if let Some(ahead_ms) = node.clock_ahead_ms {
        let name = "orbit_clock_ahead_seconds";
        head(text, name, "By how much the clock is ahead of the median of all nodes.", "gauge");
        let _ = writeln!(text, "{name} {}", ahead_ms as f64 / 1000.0);
    }
}

fn head(text: &mut String, name: &str, help: &str, kind: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn shards(text: &mut String, health: &Health) {
    head(text, "orbit_shard_leader", "Whether this node leads the shard.", "gauge");
    for shard in &health.shards {
        let _ = writeln!(text, "orbit_shard_leader{{shard=\"{}\"}} {}", shard.id, u8::from(shard.role == "leader"));
    }
    head(text, "orbit_shard_applied_index", "The last entry applied here.", "gauge");
    for shard in &health.shards {
        let _ = writeln!(text, "orbit_shard_applied_index{{shard=\"{}\"}} {}", shard.id, shard.applied);
    }
    head(text, "orbit_shard_read_only", "Whether the shard takes deletions only, for want of disk.", "gauge");
    for shard in &health.shards {
        let _ = writeln!(text, "orbit_shard_read_only{{shard=\"{}\"}} {}", shard.id, u8::from(shard.read_only));
    }
    head(text, "orbit_shard_lag_entries", "Entries committed and not yet applied here.", "gauge");
    for shard in &health.shards {
        let _ = writeln!(text, "orbit_shard_lag_entries{{shard=\"{}\"}} {}", shard.id, shard.lag);
    }
}
