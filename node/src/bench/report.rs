//! The figures of a bench.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::kernel::Counted;
use super::target::Target;

/// Longest time that is told apart.
const TIME_US_MAX: u64 = 3_600_000_000;

/// How times are spread, ms.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) count: u64,
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

/// A histogram of µs, good to three digits.
pub(super) fn histogram() -> Histogram<u64> {
    // Its bounds are constant and fit; a smaller one would do for any time as well.
    Histogram::new_with_bounds(1, TIME_US_MAX, 3).unwrap_or_else(|_| unreachable!("constant bounds"))
}

/// A time in µs.
pub(super) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Spread {
    pub(super) fn of(times: &Histogram<u64>) -> Self {
        #[allow(clippy::cast_precision_loss)] // an hour of µs is exact in a double
        let ms = |us: u64| us as f64 / 1_000.0;
        Self {
            count: times.len(),
            p50: ms(times.value_at_quantile(0.5)),
            p90: ms(times.value_at_quantile(0.9)),
            p99: ms(times.value_at_quantile(0.99)),
            max: ms(times.max()),
        }
    }
}

/// What was measured. Members without a value were not measured in this kind of bench.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Report {
    /// What was run, in words.
    pub(crate) what: String,
    pub(crate) time_ms: u64,
    /// Executions that ended in that time; for sleepers and timers: that were started.
    pub(crate) executions: u64,
    pub(crate) executions_per_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tasks_per_s: Option<f64>,
    /// From the call that starts it to the answer that says that it is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) execution_ms: Option<Spread>,
    /// From `StepScheduled` in the history to the worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ready_to_worker_ms: Option<Spread>,
    /// From when a timer was due to its `TimerFired`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timer_late_ms: Option<Spread>,
    /// Entries that the shards applied.
    pub(crate) commits: u64,
    pub(crate) commits_per_execution: f64,
    /// Counted by the kernel.
    pub(crate) syncs: Option<u64>,
    pub(crate) syncs_per_execution: Option<f64>,
    /// `perf`: the node's own calls; `device`: flushes of its disk; `none`.
    pub(crate) syncs_counted_by: &'static str,
    pub(crate) written_bytes_per_execution: Option<f64>,
    /// Time on a processor, of all nodes together.
    pub(crate) cpu_ms_per_execution: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rss_empty_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rss_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rss_bytes_per_execution: Option<f64>,
    /// Starts that the node asked to repeat later.
    pub(crate) busy: u64,
    pub(crate) failures: u64,
    /// Some of them in words.
    pub(crate) failed: Vec<String>,
    pub(crate) nodes: usize,
    pub(crate) server_pids: Vec<u32>,
    pub(crate) load_pid: u32,
    pub(crate) build_profile: &'static str,
    pub(crate) commit: &'static str,
    pub(crate) server_version: String,
    pub(crate) cores: usize,
}

impl Report {
    /// What is known before anything is measured.
    pub(super) fn about(what: String, node: &Target) -> Self {
        let version = env!("ORBIT_VERSION");
        Self {
            what,
            nodes: node.grpc.len(),
            server_pids: node.pids.clone(),
            load_pid: std::process::id(),
            build_profile: if cfg!(debug_assertions) { "debug" } else { "release" },
            commit: version.split(['(', ')']).nth(1).unwrap_or("unknown"),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            ..Self::default()
        }
    }

    /// Counts over a time, and what they come to per execution.
    #[allow(clippy::cast_precision_loss)] // figures for people
    pub(super) fn count(&mut self, executions: u64, time: Duration, counts: Counts) {
        let per_execution = |count: u64| count as f64 / executions.max(1) as f64;
        self.executions = executions;
        self.time_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.executions_per_s = executions as f64 / time.as_secs_f64().max(f64::MIN_POSITIVE);
        self.commits = counts.commits;
        self.commits_per_execution = per_execution(counts.commits);
        self.syncs = counts.syncs.syncs;
        self.syncs_counted_by = counts.syncs.by;
        self.syncs_per_execution = counts.syncs.syncs.map(per_execution);
        self.written_bytes_per_execution = counts.written_bytes.map(per_execution);
        self.cpu_ms_per_execution = counts.cpu_time.map(|time| time.as_secs_f64() * 1e3 / executions.max(1) as f64);
    }

    /// Whether the figures may be used: everything went well, and it went to disk.
    pub(crate) fn fault(&self) -> Option<String> {
        if self.failures > 0 {
            return Some(format!("there were {} failures, the first: {}", self.failures, self.failed.join("; ")));
        }
        match self.syncs {
            Some(0) => Some("nothing was synced to disk, so nothing was durable".to_owned()),
            None if self.server_pids.is_empty() => {
                Some("syncs were not counted; name the node's process with --server-pid".to_owned())
            }
            None => Some("syncs were not counted; that needs the right to use `perf`".to_owned()),
            Some(_) if self.executions == 0 => Some("no execution ended in this time".to_owned()),
            Some(_) => None,
        }
    }
}

/// What happened on the nodes' side in the meantime.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counts {
    pub(super) commits: u64,
    pub(super) syncs: Counted,
    pub(super) written_bytes: Option<u64>,
    pub(super) cpu_time: Option<Duration>,
}
