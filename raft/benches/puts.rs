//! How many rows a second one node takes, every one of them synced before it is acknowledged.
//!
//! `cargo bench -p orbit-raft --bench puts` measures 1, 64 and 256 writers, each waiting for its answer before it
//! proposes the next row of 256 bytes. One iteration is one row.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

#[path = "../tests/support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use orbit_raft::disk::RocksDisk;
use orbit_raft::{Group, RaftNode, Settings};
use support::{GROUP, WithLog, leads, open_storage, parts, put};
use tokio::runtime::Runtime;

type Env = WithLog<RocksDisk>;

async fn start(path: &std::path::Path) -> (RaftNode<Env>, Group<Env>) {
    let storage = open_storage(path, 1);
    let node = RaftNode::start(parts(storage, Settings::default(), |log| log)).await.unwrap();
    let group = node.open_group(GROUP).await.unwrap();
    let addresses = BTreeMap::from([(1, "127.0.0.1:1".to_owned())]);
    group.initialize(support::members(&addresses)).await.unwrap();
    leads(&group).await;
    (node, group)
}

/// Writes `rows` rows with that many writers at once and returns how long it took.
async fn write(group: &Group<Env>, writers: u64, rows: u64) -> Duration {
    let left = Arc::new(AtomicU64::new(rows));
    #[allow(clippy::disallowed_methods, reason = "what is measured is real time")]
    let begin = Instant::now();
    let tasks: Vec<_> = (0..writers)
        .map(|writer| {
            let (group, left) = (group.clone(), Arc::clone(&left));
            tokio::spawn(async move {
                let value = "x".repeat(256);
                while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok() {
                    group.propose(vec![put(&format!("w{writer}"), &value)]).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    begin.elapsed()
}

fn puts(c: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (node, group) = runtime.block_on(start(dir.path()));
    let mut bench = c.benchmark_group("puts, synced");
    bench.throughput(Throughput::Elements(1)).measurement_time(Duration::from_secs(10)).sample_size(20);
    for writers in [1, 64, 256] {
        bench.bench_function(format!("{writers} writers"), |b| {
            b.iter_custom(|rows| runtime.block_on(write(&group, writers, rows)));
        });
    }
    bench.finish();
    drop(group);
    runtime.block_on(node.shutdown()).unwrap();
}

criterion_group!(benches, puts);
criterion_main!(benches);
