//! Damaged and missing files: refused with a reason, or good. Never lost in silence, never deleted.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use orbit_raft::disk::{Disk, FatalHook};
use orbit_raft::identity::Error;
use orbit_raft::{Identity, Leadership, NodeId, RaftNode, Settings, Storage};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use support::{GROUP, identity, leads, open_storage, parts, put, row, within};
use uuid::Uuid;

/// How many stores are damaged.
const TRIALS: usize = 60;
const ROWS: usize = 150;

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

/// Fills a store in three lives, so that it has tables as well as write-ahead logs.
async fn fill(path: &Path) {
    for life in 0..3 {
        let storage = open_storage(path, 1);
        let node = RaftNode::start(parts(storage, settings(), |log| log)).await.unwrap();
        let group = node.open_group(GROUP).await.unwrap();
        if life == 0 {
            let addresses = BTreeMap::from([(1, "127.0.0.1:1".to_owned())]);
            group.initialize(support::members(&addresses)).await.unwrap();
        }
        within(10, "an election", leads(&group)).await;
        for n in life * ROWS / 3..(life + 1) * ROWS / 3 {
            group.propose(vec![put(&format!("k{n}"), &"x".repeat(300))]).await.unwrap();
        }
        drop(group);
        node.shutdown().await.unwrap();
    }
}

fn files(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![path.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(dir).unwrap().flatten() {
            if entry.path().is_dir() { left.push(entry.path()) } else { found.push(entry.path()) }
        }
    }
    found.sort();
    found
}

/// Files that hold data; the others are notes of the database for people.
fn data_files(path: &Path) -> Vec<PathBuf> {
    let notes = ["LOCK", "LOG", "OPTIONS"];
    let is_note = |f: &Path| notes.iter().any(|n| f.file_name().unwrap().to_str().unwrap().starts_with(n));
    files(path).into_iter().filter(|f| !is_note(f)).collect()
}

fn copy(from: &Path, to: &Path) {
    for file in files(from) {
        let target = to.join(file.strip_prefix(from).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(&file, target).unwrap();
    }
}

fn damage(file: &Path, dice: &mut SmallRng) -> String {
    let mut bytes = fs::read(file).unwrap();
    let at = dice.random_range(0..bytes.len().max(1));
    let what = match dice.random_range(0..4) {
        0 | 1 if !bytes.is_empty() => {
            bytes[at] ^= 1 << dice.random_range(0..8);
            fs::write(file, &bytes).unwrap();
            format!("a bit flipped at {at} of {}", bytes.len())
        }
        2 => {
            bytes.truncate(at);
            fs::write(file, &bytes).unwrap();
            format!("cut to {at}")
        }
        _ => {
            fs::remove_file(file).unwrap();
            "removed".to_owned()
        }
    };
    format!("{}: {what}", file.file_name().unwrap().display())
}

/// Opens a store. `Err` says how it was refused; otherwise everything acknowledged is there.
async fn open(path: &Path) -> Result<(), String> {
    let storage = Storage::open(path, Some(support::CLUSTER)).map_err(|e| e.to_string())?;
    let closed = futures::future::join(storage.log.closed(), storage.state.closed());
    let opened = open_node(storage).await;
    within(10, "closing", closed).await;
    opened
}

async fn open_node(storage: Storage) -> Result<(), String> {
    let mut parts = parts(storage, settings(), |log| log);
    parts.fatal = FatalHook::new(|_| {});
    let node = RaftNode::start(parts).await.map_err(|e| e.to_string())?;
    let group = node.open_group(GROUP).await.map_err(|e| e.to_string())?;
    let mut leadership = group.leadership();
    let ready = leadership.wait_for(|l| !matches!(l, Leadership::Follower { .. }));
    let ready = *within(10, "an election", ready).await.map_err(|e| e.to_string())?;
    if ready == Leadership::Stopped {
        return Err("the group stopped".to_owned());
    }
    for n in 0..ROWS {
        let value = group.read(|reader| reader.get(&row(&format!("k{n}")))).map_err(|e| e.to_string())?;
        assert!(value.is_some(), "k{n} was acknowledged and is gone in silence");
    }
    drop(group);
    node.shutdown().await.map_err(|e| e.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_store_is_refused_or_good_and_nothing_is_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let whole = dir.path().join("whole");
    fill(&whole).await;
    let mut dice = SmallRng::seed_from_u64(4);
    let (mut refused, mut good) = (BTreeSet::new(), 0);
    for trial in 0..TRIALS {
        let path = dir.path().join(format!("trial{trial}"));
        copy(&whole, &path);
        let candidates = data_files(&path);
        let what = damage(&candidates[dice.random_range(0..candidates.len())], &mut dice);
        let before = data_files(&path);
        let opened = tokio::spawn({
            let path = path.clone();
            async move { open(&path).await }
        });
        match opened.await.unwrap_or_else(|e| panic!("trial {trial}, {what}: {e}")) {
            Ok(()) => good += 1,
            Err(reason) => {
                // A database that opens may tidy itself up; the one that does not must stay as it is.
                let after = data_files(&path);
                let closed =
                    |f: &PathBuf| reason.starts_with(&format!("{} does not open", f.parent().unwrap().display()));
                let gone: Vec<_> = before.iter().filter(|f| closed(f) && !after.contains(f)).collect();
                assert!(gone.is_empty(), "trial {trial}, {what}: refused ({reason}), and deleted {gone:?}");
                refused.insert(format!("{what} => {reason}"));
            }
        }
        fs::remove_dir_all(path).unwrap();
    }
    println!("{good} good, {} refused:\n{}", TRIALS - good, refused.into_iter().collect::<Vec<_>>().join("\n"));
    assert!(good < TRIALS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_others_is_refused_and_says_whose_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (dir.path().join("one"), dir.path().join("two"));
    drop(Storage::create(&one, identity(1)).unwrap());
    let other = Identity { cluster: Uuid::from_u128(7), node: NodeId(2), incarnation: Uuid::from_u128(8) };
    drop(Storage::create(&two, other).unwrap());

    let refused = Storage::open(&one, Some(Uuid::from_u128(7))).unwrap_err();
    assert!(matches!(refused, Error::OtherCluster { found, .. } if found == support::CLUSTER), "{refused}");
    assert!(matches!(Storage::create(&one, other).unwrap_err(), Error::Exists { .. }));
    let held = Storage::open(&one, None).unwrap();
    let in_use = Storage::open(&one, None).unwrap_err();
    assert!(in_use.to_string().contains("in use"), "{in_use}");
    drop(held);

    // A state that was put into another node's directory.
    fs::rename(one.join("state"), dir.path().join("kept")).unwrap();
    let missing = Storage::open(&one, None).unwrap_err();
    assert!(matches!(missing, Error::Disk { .. }), "{missing}");
    assert!(!one.join("state").join("CURRENT").exists(), "nothing is made anew");
    copy(&two.join("state"), &one.join("state"));
    let mixed = Storage::open(&one, None).unwrap_err();
    assert!(matches!(mixed, Error::Mixed { .. }), "{mixed}");

    // Without IDENTITY the data is not taken for nothing.
    fs::remove_file(two.join("IDENTITY")).unwrap();
    assert!(matches!(Storage::open(&two, None).unwrap_err(), Error::NotEmpty { .. }));
    assert!(matches!(Storage::create(&two, other).unwrap_err(), Error::NotEmpty { .. }));
    assert!(matches!(Storage::open_or_create(&two, || other).unwrap_err(), Error::NotEmpty { .. }));

    // Creation that was cut short is done again.
    fs::write(two.join("CREATING"), "").unwrap();
    drop(Storage::open_or_create(&two, || other).unwrap());
    drop(Storage::open(&two, Some(other.cluster)).unwrap());
    assert!(!two.join("CREATING").exists());
}
