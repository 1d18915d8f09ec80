//! Real processes: killed at any moment, and ended by the first sync that fails.
//!
//! The child is this test binary itself, started again with `ORBIT_CHILD` set.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use orbit_raft::disk::{Batch, Disk, EXIT_STORAGE, Error, KeyRange, RocksDisk, RocksRole, View, Visit};
use orbit_raft::{Group, GroupId, RaftNode, Settings};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use support::{WithLog, get, leads, open_storage, parts, put, within};

/// How many groups share the one log of a child.
const GROUPS: u16 = 8;
/// How many writers a group has.
const WRITERS: usize = 3;
/// How many times a child is killed.
const KILLS: u64 = 8;
/// How many children have a sync that fails.
const FAILURES: u64 = 8;

/// A disk that fails at one of its syncs, once the group has begun to work.
#[derive(Debug, Clone)]
struct Failing {
    rows: RocksDisk,
    syncs_left: Arc<AtomicU64>,
}

impl View for Failing {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Error> {
        self.rows.get(key)
    }
    fn scan(&self, range: &KeyRange, visit: &mut Visit<'_>) -> Result<(), Error> {
        self.rows.scan(range, visit)
    }
}

impl Disk for Failing {
    fn write(&self, batch: Batch) -> Result<(), Error> {
        self.rows.write(batch)
    }
    async fn sync(&self) -> Result<(), Error> {
        if self.syncs_left.fetch_sub(1, Ordering::Relaxed) == 1 {
            println!("\nfailed");
            return Err(Error::failed("syncing the store", "injected"));
        }
        self.rows.sync().await
    }
    fn last(&self, range: &KeyRange) -> Result<Option<(Vec<u8>, Bytes)>, Error> {
        self.rows.last(range)
    }
    fn closed(&self) -> BoxFuture<'static, ()> {
        self.rows.closed()
    }
}

fn settings() -> Settings {
    Settings {
        heartbeat: Duration::from_millis(20),
        election_min: Duration::from_millis(60),
        election_max: Duration::from_millis(100),
        snapshot_every: 100,
        log_kept: 50,
        purge_batch: 20,
        ..Settings::default()
    }
}

type Groups<L> = Vec<Group<WithLog<L>>>;

async fn node<L: Disk>(path: &Path, wrap: impl FnOnce(RocksDisk) -> L) -> (RaftNode<WithLog<L>>, Groups<L>) {
    let storage = open_storage(path, 1);
    let node = RaftNode::start(parts(storage, settings(), wrap)).await.unwrap();
    let mut groups = Vec::new();
    for id in 0..GROUPS {
        let group = node.open_group(GroupId::new(id).unwrap()).await.unwrap();
        if !group.is_initialized().await.unwrap() {
            let addresses = BTreeMap::from([(1, "127.0.0.1:1".to_owned())]);
            group.initialize(support::members(&addresses)).await.unwrap();
        }
        groups.push(group);
    }
    for group in &groups {
        within(10, "an election", leads(group)).await;
    }
    (node, groups)
}

/// Writes to all groups without end, and says what was acknowledged.
async fn write_on<L: Disk>(groups: Groups<L>, life: u64) {
    let writers = groups.iter().flat_map(|group| (0..WRITERS).map(move |writer| (group.clone(), writer)));
    let writers = writers.map(|(group, writer)| async move {
        for n in 0.. {
            let id = format!("{}.{life}.{writer}.{n}", group.id());
            match group.propose(vec![put(&id, &id)]).await {
                Ok(_) => println!("\nack {id}"),
                Err(error) => println!("\nerror {error}"),
            }
        }
    });
    futures::future::join_all(writers).await;
}

/// The life of a child; does nothing when this is not one.
#[tokio::test(flavor = "multi_thread")]
async fn child() {
    let Ok(order) = std::env::var("ORBIT_CHILD") else { return };
    let mut words = order.split(' ');
    let (kind, life, path) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
    let life = life.parse().unwrap();
    match kind {
        "write" => {
            let (_node, groups) = node(Path::new(path), |log| log).await;
            write_on(groups, life).await;
        }
        "fail" => {
            let syncs_left = Arc::new(AtomicU64::new(u64::MAX));
            let left = Arc::clone(&syncs_left);
            let (_node, groups) = node(Path::new(path), |rows| Failing { rows, syncs_left: left }).await;
            // Opening and closing takes locks that an ordinary end of the process destroys.
            for n in 0..4 {
                let other = Path::new(path).with_file_name(format!("other{n}"));
                std::thread::spawn(move || {
                    loop {
                        drop(RocksDisk::create(&other, RocksRole::State).unwrap());
                    }
                });
            }
            syncs_left.store(120, Ordering::Relaxed);
            write_on(groups, life).await;
        }
        other => panic!("{other}"),
    }
}

fn start_child(order: &str) -> (Child, impl Iterator<Item = String> + use<>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--nocapture"])
        .env("ORBIT_CHILD", order)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, lines.map_while(Result::ok).filter(|line| !line.is_empty()))
}

fn group_of(id: &str) -> GroupId {
    GroupId::new(id.split('.').next().unwrap().parse().unwrap()).unwrap()
}

/// Everything acknowledged is in its group, and in no other.
async fn assert_there(path: &Path, acknowledged: &[String]) {
    let (node, groups) = node(path, |log| log).await;
    for id in acknowledged {
        for group in &groups {
            let expected = Some(id).filter(|id| group_of(id) == group.id());
            assert_eq!(get(group, id).as_ref(), expected, "{id} in group {}", group.id());
        }
    }
    let written: BTreeSet<_> = acknowledged.iter().map(|id| group_of(id)).collect();
    assert_eq!(written.len(), usize::from(GROUPS), "all groups have written");
    drop(groups);
    node.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_kill_9_at_any_moment() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    let mut dice = SmallRng::seed_from_u64(9);
    let mut acknowledged = Vec::new();
    for life in 0..KILLS {
        let (mut child, lines) = start_child(&format!("write {life} {}", path.display()));
        let after = dice.random_range(300..900);
        let mut seen = 0;
        for line in lines {
            assert!(!line.starts_with("error"), "{line}");
            if let Some(id) = line.strip_prefix("ack ") {
                acknowledged.push(id.to_owned());
                seen += 1;
            }
            // Killing does not stop the reading: what the child has said until then counts.
            if seen == after {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        assert!(seen >= after, "life {life} ended early");
        assert_there(&path, &acknowledged).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_failed_sync_ends_the_process_and_nothing_is_acknowledged_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    // Again and again: how a process ends while its other threads are in the middle of using RocksDB is a race.
    for life in 0..FAILURES {
        fail_a_sync(&path, life).await;
    }
}

async fn fail_a_sync(path: &Path, life: u64) {
    let (mut child, lines) = start_child(&format!("fail {life} {}", path.display()));
    let lines: Vec<_> = lines.collect();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(EXIT_STORAGE), "life {life}: {status}");
    let failed = lines.iter().position(|line| line == "failed").expect("the sync was injected");
    let acks = |lines: &[String]| -> Vec<_> {
        lines.iter().filter_map(|line| line.strip_prefix("ack ")).map(str::to_owned).collect()
    };
    // Those acknowledged by an earlier sync may still be on their way to the output; none of them may be of the round
    // that failed, and all of them must be there.
    let (before, after) = (acks(&lines[..failed]), acks(&lines[failed..]));
    assert!(!before.is_empty());
    assert!(
        after.len() <= usize::from(GROUPS) * WRITERS,
        "a writer was acknowledged twice after the failure: {after:?}"
    );
    assert!(!lines.iter().any(|line| line.starts_with("error")), "{lines:?}");
    assert_there(path, &[before, after].concat()).await;
}
