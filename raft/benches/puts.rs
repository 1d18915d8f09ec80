//! How many rows a second one node takes, every one of them synced before it is acknowledged.
//!
//! `cargo bench -p orbit-raft --bench puts` measures one writer, 64 and 256, each waiting for its answer before it
//! proposes the next row of 256 bytes. One iteration is one row. Beside that it measures what the disk alone takes for
//! the same row, written and synced, and says how many rows shared an entry and how many entries a sync.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, missing_docs)]

#[path = "../tests/support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use futures::future::BoxFuture;
use orbit_raft::disk::{Batch, Disk, Error, KeyRange, RocksDisk, RocksRole, View, Visit};
use orbit_raft::{Group, RaftNode, Settings};
use support::{GROUP, WithLog, leads, open_storage, parts, put};
use tokio::runtime::Runtime;

/// A disk that counts its syncs.
#[derive(Debug, Clone)]
struct Counted {
    rows: RocksDisk,
    syncs: Arc<AtomicU64>,
}

impl View for Counted {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Error> {
        self.rows.get(key)
    }
    fn scan(&self, range: &KeyRange, visit: &mut Visit<'_>) -> Result<(), Error> {
        self.rows.scan(range, visit)
    }
}

impl Disk for Counted {
    fn write(&self, batch: Batch) -> Result<(), Error> {
        self.rows.write(batch)
    }
    async fn sync(&self) -> Result<(), Error> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.rows.sync().await
    }
    fn last(&self, range: &KeyRange) -> Result<Option<(Vec<u8>, Bytes)>, Error> {
        self.rows.last(range)
    }
    fn closed(&self) -> BoxFuture<'static, ()> {
        self.rows.closed()
    }
}

type Env = WithLog<Counted>;

async fn start(path: &std::path::Path, syncs: Arc<AtomicU64>) -> (RaftNode<Env>, Group<Env>) {
    let storage = open_storage(path, 1);
    let node = RaftNode::start(parts(storage, Settings::default(), |rows| Counted { rows, syncs })).await.unwrap();
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

/// What the disk takes for a row alone.
fn disk_alone(c: &mut Criterion) {
    let dir = tempfile::tempdir().unwrap();
    let disk = RocksDisk::create(dir.path(), RocksRole::Log).unwrap();
    let mut index = 0_u64;
    c.bench_function("disk alone, one row synced", |b| {
        b.iter(|| {
            index += 1;
            let mut batch = Batch::default();
            batch.put(index.to_be_bytes().to_vec(), Bytes::from(vec![b'x'; 300]));
            disk.write(batch).unwrap();
            futures::executor::block_on(disk.sync()).unwrap();
        });
    });
}

fn puts(c: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let syncs = Arc::new(AtomicU64::new(0));
    let (node, group) = runtime.block_on(start(dir.path(), Arc::clone(&syncs)));
    let mut bench = c.benchmark_group("puts, synced");
    bench.throughput(Throughput::Elements(1)).measurement_time(Duration::from_secs(10)).sample_size(20);
    for writers in [1, 64, 256] {
        let counted = || (group.status().last_index.unwrap_or(0), syncs.load(Ordering::Relaxed));
        let (before, mut all) = (counted(), 0);
        bench.bench_function(format!("{writers} writers"), |b| {
            b.iter_custom(|rows| {
                all += rows;
                runtime.block_on(write(&group, writers, rows))
            });
        });
        let after = counted();
        let (entries, synced) = (after.0 - before.0, after.1 - before.1);
        let per = |many: u64, of: u64| many as f64 / of.max(1) as f64;
        println!("{:.1} rows per entry, {:.1} entries per sync", per(all, entries), per(entries, synced));
    }
    bench.finish();
    drop(group);
    runtime.block_on(node.shutdown()).unwrap();
}

criterion_group!(benches, disk_alone, puts);
criterion_main!(benches);
