//! What the kernel counts about the nodes' processes.
//!
//! Syncs are counted in one of two ways, and a report says which:
//!
//! - `perf`: the processes' own calls of fdatasync and fsync, by `perf stat` on their tracepoints. Exact; needs `perf`
//!   and the right to use it.
//! - `device`: flushes of the block device that the data lies on (field 16 of its `stat`). Those of other processes are
//!   among them, and the kernel may answer several syncs with one flush.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::fs::{major, minor};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// How long perf may take to begin or to end.
const PERF: Duration = Duration::from_secs(10);
/// Place of the flushes in a device's `stat`.
const FLUSHES: usize = 15;
/// Place of the time in user code, before that in the kernel, behind the name in a process's `stat`.
const CPU_FIELD: usize = 11;

/// A running count of syncs.
pub(super) enum Syncs {
    Perf(Child),
    Device {
        stat: PathBuf,
        before: u64,
    },
    /// There is no way to count.
    Uncounted,
}

/// How many, and who counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) syncs: Option<u64>,
    pub(super) by: &'static str,
}

impl Syncs {
    /// Begins to count.
    pub(super) async fn begin(pids: &[u32], data: Option<&Path>) -> Self {
        if !pids.is_empty()
            && let Some(perf) = perf(pids).await
        {
            return Self::Perf(perf);
        }
        match data.and_then(device) {
            Some(stat) => flushes(&stat).map_or(Self::Uncounted, |before| Self::Device { stat, before }),
            None => Self::Uncounted,
        }
    }

    /// What was counted since the beginning.
    pub(super) async fn end(self) -> Counted {
        match self {
            Self::Perf(child) => Counted { syncs: perf_end(child).await, by: "perf" },
            Self::Device { stat, before } => {
                Counted { syncs: flushes(&stat).map(|after| after.saturating_sub(before)), by: "device" }
            }
            Self::Uncounted => Counted { syncs: None, by: "none" },
        }
    }
}

/// perf counts while a command runs: one that says a word when it begins, which is when counting has begun, and ends
/// when it is told to.
async fn perf(pids: &[u32]) -> Option<Child> {
    let pids: Vec<_> = pids.iter().map(u32::to_string).collect();
    let mut child = Command::new("perf")
        .args(["stat", "-x", ",", "-e", "syscalls:sys_enter_fdatasync,syscalls:sys_enter_fsync", "-p"])
        .arg(pids.join(","))
        .args(["--", "sh", "-c", "echo; read end"])
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .ok()?;
    let mut said = String::new();
    let mut stdout = BufReader::new(child.stdout.take()?);
    match timeout(PERF, stdout.read_line(&mut said)).await {
        Ok(Ok(1..)) => Some(child),
        _ => None,
    }
}

async fn perf_end(mut child: Child) -> Option<u64> {
    drop(child.stdin.take());
    let mut text = String::new();
    timeout(PERF, child.stderr.take()?.read_to_string(&mut text)).await.ok()?.ok()?;
    let _ = timeout(PERF, child.wait()).await;
    perf_sum(&text)
}

/// The sum of all events: lines like `1234,,syscalls:sys_enter_fdatasync,…`, or `<not counted>,…` for none.
fn perf_sum(text: &str) -> Option<u64> {
    let counts: Vec<u64> = text
        .lines()
        .filter(|line| line.contains("sys_enter_"))
        .map(|line| line.split(',').next().unwrap_or_default().parse().unwrap_or(0))
        .collect();
    (!counts.is_empty()).then(|| counts.iter().sum())
}

/// The counters of the device that a path lies on.
fn device(path: &Path) -> Option<PathBuf> {
    let device = std::fs::metadata(path).ok()?.dev();
    let stat = PathBuf::from(format!("/sys/dev/block/{}:{}/stat", major(device), minor(device)));
    stat.exists().then_some(stat)
}

fn flushes(stat: &Path) -> Option<u64> {
    std::fs::read_to_string(stat).ok()?.split_whitespace().nth(FLUSHES)?.parse().ok()
}

/// Bytes that a process has caused to be written to storage.
pub(super) fn written_bytes(pid: u32) -> Option<u64> {
    field(&format!("/proc/{pid}/io"), "write_bytes:")
}

/// Memory of a process that is in RAM.
pub(super) fn rss_bytes(pid: u32) -> Option<u64> {
    field(&format!("/proc/{pid}/status"), "VmRSS:").map(|kib| kib * 1024)
}

/// Time that a process has had on a processor, all its threads together.
pub(super) fn cpu_time(pid: u32) -> Option<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program stands in parentheses, and may hold anything.
    let (_, fields) = text.rsplit_once(')')?;
    let ticks: Vec<u64> =
        fields.split_whitespace().skip(CPU_FIELD).take(2).filter_map(|text| text.parse().ok()).collect();
    Some(Duration::from_millis(ticks.iter().sum::<u64>() * 1_000 / rustix::param::clock_ticks_per_second()))
}

fn field(file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{cpu_time, perf_sum, rss_bytes, written_bytes};

    #[test]
    fn what_perf_says_is_added_up() {
        let text = "12,,syscalls:sys_enter_fdatasync,100,100.00,,\n<not counted>,,syscalls:sys_enter_fsync,0,0.00,,\n";
        assert_eq!(perf_sum(text), Some(12));
        assert_eq!(perf_sum("No permission to enable syscalls event.\n"), None);
    }

    #[test]
    fn the_kernel_tells_about_a_process() {
        let own = std::process::id();
        assert!(rss_bytes(own).is_some_and(|bytes| bytes > 100_000));
        assert!(written_bytes(own).is_some());
        let before = cpu_time(own).unwrap();
        while cpu_time(own).unwrap() == before {
            std::hint::black_box([0_u64; 4096]);
        }
        assert_eq!((rss_bytes(u32::MAX), cpu_time(u32::MAX)), (None, None));
    }
}
