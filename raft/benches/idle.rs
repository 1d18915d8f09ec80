//! What groups cost that do nothing.
//!
//! `cargo bench -p orbit-raft --bench idle` lets three nodes in one process hold 64 groups, and says what share of one
//! core they use and how many messages they send.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, missing_docs)]

#[path = "../tests/support/counted.rs"]
mod counted;
#[path = "../tests/support/mod.rs"]
mod support;

use std::time::Duration;

use counted::Three;
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Runtime;

const GROUPS: u16 = 64;
const MEASURED: Duration = Duration::from_secs(20);

/// The time this process has used on all cores.
fn cpu_seconds() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

fn main() {
    Runtime::new().unwrap().block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let three = Three::start(dir.path(), GROUPS).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let (cpu, before) = (cpu_seconds(), *three.counts.borrow());
        tokio::time::sleep(MEASURED).await;
        let (cpu, now) = (cpu_seconds() - cpu, *three.counts.borrow());
        let per_second = |count: u64| count as f64 / MEASURED.as_secs_f64();
        println!("{GROUPS} idle groups, 3 nodes together:");
        println!("  {:.1} % of one core", 100.0 * cpu / MEASURED.as_secs_f64());
        let (frames, messages) = (now.frames - before.frames, now.messages - before.messages);
        println!("  {:.0} questions/s in {:.0} messages/s", per_second(frames), per_second(messages));
        three.stop().await;
    });
}
