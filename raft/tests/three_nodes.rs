//! Three nodes in one process, over real gRPC on loopback.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use orbit_raft::state_store::read::Reader;
use orbit_raft::state_store::{Hashing, Mark};
use orbit_raft::{NodeId, ProposeError, ReadError, Settings};
use support::{Served, get, leads, put, within};
use tempfile::TempDir;
use tokio::net::TcpListener;
use uuid::Uuid;

struct Cluster {
    dir: TempDir,
    addresses: BTreeMap<u64, String>,
    nodes: BTreeMap<u64, Served>,
    settings: Settings,
}

impl Cluster {
    async fn start(settings: Settings) -> Cluster {
        let mut cluster =
            Cluster { dir: tempfile::tempdir().unwrap(), addresses: BTreeMap::new(), nodes: BTreeMap::new(), settings };
        let mut listeners = BTreeMap::new();
        for id in 1..=3 {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            cluster.addresses.insert(id, listener.local_addr().unwrap().to_string());
            listeners.insert(id, listener);
        }
        for (id, listener) in listeners {
            let served = Served::start(&cluster.path(id), id, listener, cluster.settings.clone()).await;
            cluster.nodes.insert(id, served);
        }
        let members = support::members(&cluster.addresses);
        cluster.nodes[&1].group.initialize(members).await.unwrap();
        cluster
    }

    fn path(&self, id: u64) -> PathBuf {
        self.dir.path().join(id.to_string())
    }

    async fn stop(&mut self, id: u64) {
        self.nodes.remove(&id).unwrap().stop().await;
    }

    async fn restart(&mut self, id: u64) {
        let listener = TcpListener::bind(&self.addresses[&id]).await.unwrap();
        let served = Served::start(&self.path(id), id, listener, self.settings.clone()).await;
        self.nodes.insert(id, served);
    }

    /// Waits until one of the nodes may decide.
    async fn leader(&self) -> u64 {
        let waits = self.nodes.iter().map(|(id, n)| Box::pin(async { (leads(&n.group).await, *id).1 }));
        within(20, "an election", futures::future::select_all(waits)).await.0
    }

    async fn put(&self, key: &str, value: &str) {
        let group = &self.nodes[&self.leader().await].group;
        within(20, "a proposal", group.propose(vec![put(key, value)])).await.unwrap();
    }

    /// Waits until all are applied as far as the leader, and compares what they have.
    async fn assert_equal(&self) {
        let leader = &self.nodes[&self.leader().await].group;
        let upto = within(20, "a read", leader.read_index()).await.unwrap();
        let mut hashes = Vec::new();
        for node in self.nodes.values() {
            let caught_up = node.group.wait_for(|s| s.applied >= Some(upto));
            within(20, "catching up", caught_up).await.unwrap();
            hashes.push(node.group.state_hash().unwrap());
        }
        assert!(hashes.windows(2).all(|pair| pair[0] == pair[1]), "{hashes:?}");
    }

    async fn end(mut self) {
        for id in 1..=3 {
            if self.nodes.contains_key(&id) {
                self.stop(id).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn they_elect_replicate_and_lose_a_leader() {
    let mut cluster = Cluster::start(Settings::default()).await;
    for n in 0..100 {
        cluster.put(&format!("k{n}"), "before").await;
    }
    cluster.assert_equal().await;

    // The leader goes; the others go on with all of it.
    let old = cluster.leader().await;
    cluster.stop(old).await;
    let new = cluster.leader().await;
    assert_ne!(new, old);
    assert_eq!(get(&cluster.nodes[&new].group, "k99").as_deref(), Some("before"));
    for n in 0..100 {
        cluster.put(&format!("k{n}"), "after").await;
    }

    // It comes back as a follower, refuses what only a leader may do, and names the leader.
    cluster.restart(old).await;
    cluster.assert_equal().await;
    let back = &cluster.nodes[&old].group;
    let leader = Some(NodeId(cluster.leader().await));
    assert_eq!(back.propose(vec![put("k", "v")]).await, Err(ProposeError::NotLeader { leader }));
    assert_eq!(back.read_index().await, Err(ReadError::NotLeader { leader }));
    assert_eq!(get(back, "k0").as_deref(), Some("after"));
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_that_was_away_too_long_comes_back_by_a_snapshot() {
    let settings = Settings { snapshot_every: 50, log_kept: 0, purge_batch: 1, ..Settings::default() };
    let mut cluster = Cluster::start(settings).await;
    cluster.put("first", "1").await;
    cluster.assert_equal().await;
    let leader = cluster.leader().await;
    let away = (1..=3).find(|id| *id != leader).unwrap();
    let had = cluster.nodes[&away].group.status().last_index;
    cluster.stop(away).await;
    for n in 0..300 {
        cluster.put(&format!("k{n}"), &"x".repeat(1000)).await;
    }
    let group = &cluster.nodes[&cluster.leader().await].group;
    let purged = group.wait_for(|s| s.purged.map(|p| p.index) > had);
    within(20, "purging", purged).await.unwrap();

    cluster.restart(away).await;
    cluster.assert_equal().await;
    let status = cluster.nodes[&away].group.status();
    assert!(status.snapshot.map(|s| s.index) > had, "{status:?}");
    assert_eq!(get(&cluster.nodes[&away].group, "first").as_deref(), Some("1"));

    // What came by a snapshot stands after a restart as well.
    cluster.stop(away).await;
    cluster.restart(away).await;
    cluster.put("last", "1").await;
    cluster.assert_equal().await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leadership_is_handed_over_and_voters_are_changed() {
    let cluster = Cluster::start(Settings::default()).await;
    cluster.put("a", "1").await;
    cluster.assert_equal().await;
    let old = cluster.leader().await;
    let new = (1..=3).find(|id| *id != old).unwrap();
    cluster.nodes[&old].group.transfer_leadership(NodeId(new)).await.unwrap();
    within(10, "handing over", leads(&cluster.nodes[&new].group)).await;

    let third = (1..=3).find(|id| *id != old && *id != new).unwrap();
    let group = &cluster.nodes[&new].group;
    group.change_voters(BTreeSet::from([NodeId(old), NodeId(new)])).await.unwrap();
    assert!(!group.status().voters.contains(&NodeId(third)));
    let address = cluster.addresses[&third].clone();
    group.add_learner(NodeId(third), orbit_raft::PeerAddress(address)).await.unwrap();
    group.change_voters((1..=3).map(NodeId).collect()).await.unwrap();
    cluster.put("b", "2").await;
    cluster.assert_equal().await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_lost_its_disk_is_not_taken_for_what_it_was() {
    let mut cluster = Cluster::start(Settings::default()).await;
    cluster.put("a", "1").await;
    cluster.assert_equal().await;
    let leader = cluster.leader().await;
    let wiped = (1..=3).find(|id| *id != leader).unwrap();
    cluster.stop(wiped).await;
    std::fs::remove_dir_all(cluster.path(wiped)).unwrap();

    // The same number with another incarnation: nobody talks to it, so it learns nothing and votes for nobody.
    let again = orbit_raft::Identity { incarnation: uuid::Uuid::from_u128(99), ..support::identity(wiped) };
    drop(orbit_raft::Storage::create(&cluster.path(wiped), again).unwrap());
    cluster.restart(wiped).await;
    for n in 0..20 {
        cluster.put(&format!("k{n}"), "1").await;
    }
    let status = cluster.nodes[&wiped].group.status();
    assert_eq!((status.last_index, status.applied, status.term.0), (None, None, 0), "{status:?}");
    cluster.end().await;
}

/// Replicas that watch for a mark hold the same state, however much is written around it; whoever does not watch does
/// nothing about it.
#[tokio::test(flavor = "multi_thread")]
async fn all_that_watch_for_a_mark_hold_the_state_behind_one_entry() {
    let cluster = Cluster::start(Settings::default()).await;
    let leader = cluster.nodes[&cluster.leader().await].group.clone();
    let written = Arc::new(AtomicU64::new(0));
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let (group, written) = (leader.clone(), Arc::clone(&written));
            tokio::spawn(async move {
                for n in 0_u64.. {
                    group.propose(vec![put(&format!("k{writer}.{}", n % 10), &n.to_string())]).await.unwrap();
                    written.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for round in 0..20 {
        let mark = Mark::new(Uuid::from_u128(round));
        let watched: Vec<_> = cluster.nodes.values().map(|node| node.group.watch(&mark).unwrap()).collect();
        leader.propose(vec![mark.part()]).await.unwrap();
        let mut seen = Vec::new();
        for watched in watched {
            let moment = within(20, "the mark", watched.taken()).await.unwrap();
            let hash = moment.read(|reader| reader.hash().unwrap()).await.unwrap();
            assert_eq!(hash.applied.unwrap().log_id, moment.at());
            // In pieces it is the same.
            let pieces = move |reader: &Reader<'_>| {
                let mut hashing = Hashing::default();
                while hashing.add(reader, 100).unwrap() {}
                (hashing.rows(), hashing.finish(reader).unwrap())
            };
            let (rows, again) = moment.read(pieces).await.unwrap();
            assert_eq!(again, hash);
            seen.push((rows, hash));
        }
        assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "{seen:?}");
    }
    writers.iter().for_each(tokio::task::JoinHandle::abort);
    assert!(written.load(Ordering::Relaxed) > 20, "something was written meanwhile");
    for writer in writers {
        assert!(writer.await.unwrap_err().is_cancelled());
    }
    // What is no longer watched for makes room.
    let marks = (100..110).map(|number| Mark::new(Uuid::from_u128(number)));
    assert!(marks.clone().all(|mark| leader.watch(&mark).is_ok()));
    let watched: Vec<_> = marks.map(|mark| leader.watch(&mark)).collect();
    assert_eq!(watched.iter().filter(|watched| watched.is_err()).count(), 6);
    drop((watched, leader));
    cluster.end().await;
}
