//! A cluster of one node is the same code with one voter.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::BoxFuture;
use orbit_proto::store::{self, precondition::Check};
use orbit_raft::disk::{Batch, Disk, Error, KeyRange, RocksDisk, View, Visit};
use orbit_raft::state_store::PartOutcome;
use orbit_raft::state_store::key;
use orbit_raft::{Part, ProposeError, RaftNode, Settings, StillOpen, Term};
use support::{GROUP, Served, check, get, leads, open_storage, parts, put, within};
use tokio::net::TcpListener;
use tokio::sync::watch;

async fn one(path: &std::path::Path) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addresses = BTreeMap::from([(1, listener.local_addr().unwrap().to_string())]);
    let served = Served::start(path, 1, listener, Settings::default()).await;
    if !served.group.is_initialized().await.unwrap() {
        served.group.initialize(support::members(&addresses)).await.unwrap();
    }
    within(10, "an election", leads(&served.group)).await;
    served
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_acknowledged_is_there_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let served = one(dir.path()).await;
    for n in 0..200 {
        served.group.propose(vec![put(&format!("k{n}"), &n.to_string())]).await.unwrap();
    }
    let before = served.group.state_hash().unwrap();
    served.stop().await;

    let served = one(dir.path()).await;
    assert_eq!(get(&served.group, "k199").as_deref(), Some("199"));
    let after = served.group.state_hash().unwrap();
    assert!(after.applied.unwrap().log_id > before.applied.unwrap().log_id, "the new term has an entry of its own");
    assert!(after.applied.unwrap().time_ms >= before.applied.unwrap().time_ms);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_fails_is_skipped_whole_and_the_others_stand() {
    let dir = tempfile::tempdir().unwrap();
    let served = one(dir.path()).await;
    let group = &served.group;
    let start = |id: &'static str| Part {
        execution_id: Bytes::from(id),
        run: 1,
        preconditions: vec![check(Check::Absent(store::Blank {}))],
        events: vec![Bytes::from_static(b"\x01started"), Bytes::from_static(b"\x01scheduled")],
        writes: vec![support::put_write(id, "head")],
        ..Part::default()
    };
    let applied = group.propose(vec![start("a"), start("a"), start("b")]).await.unwrap();
    let unmet = PartOutcome::Unmet { precondition: 0 };
    assert_eq!(applied.outcomes, [PartOutcome::Applied, unmet.clone(), PartOutcome::Applied]);

    let next = |run, seq, event: &'static [u8]| Part {
        execution_id: Bytes::from("a"),
        run,
        preconditions: vec![check(Check::Position(store::Position { run: 1, seq }))],
        events: vec![Bytes::from_static(event)],
        ..Part::default()
    };
    let applied = group.propose(vec![next(1, 1, b"\x01late"), next(1, 2, b"\x01done"), next(2, 3, b"\x01again")]).await;
    assert_eq!(applied.unwrap().outcomes, [unmet, PartOutcome::Applied, PartOutcome::Applied]);
    group.read(|reader| {
        let events = reader.events(b"a", 1, 1, 100).unwrap();
        let numbered: Vec<_> = events.iter().map(|(n, e)| (*n, &e[1..])).collect();
        assert_eq!(numbered, [(1, &b"started"[..]), (2, b"scheduled"), (3, b"done")]);
        assert_eq!(reader.events(b"a", 2, 1, 100).unwrap().len(), 1);
        assert_eq!(reader.position(b"a").unwrap(), Some(store::Position { run: 2, seq: 1 }));
    });

    // Removing a range counts for what comes behind it in the same entry.
    let range = key::events(b"a", 1);
    let range = store::KeyRange { from: range.from.into(), to: range.to.into() };
    let remove = store::Write { op: Some(store::write::Op::DeleteRange(range)) };
    let absent = check(Check::RowAbsent(key::event(b"a", 1, 1).into()));
    let applied = group
        .propose(vec![
            Part { writes: vec![remove], ..Part::default() },
            Part { preconditions: vec![absent], writes: vec![support::put_write("c", "x")], ..Part::default() },
        ])
        .await;
    assert_eq!(applied.unwrap().outcomes, [PartOutcome::Applied, PartOutcome::Applied]);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proposal_of_another_term_or_out_of_bounds_is_refused_before_it_is_in_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let served = one(dir.path()).await;
    let term = leads(&served.group).await;
    let last = served.group.status().last_index;
    let stale = served.group.propose_in(Term(term.0 + 1), vec![put("a", "1")]).await;
    assert!(matches!(stale, Err(ProposeError::NotLeader { .. })), "{stale:?}");
    let large = served.group.propose(vec![put("a", &"x".repeat(9 << 20))]).await;
    assert!(matches!(large, Err(ProposeError::TooLarge { .. })), "{large:?}");
    let closed = store::Put { key: key::position(b"a").into(), value: Bytes::from_static(b"\x01"), numbered: false };
    let closed = store::Write { op: Some(store::write::Op::Put(closed)) };
    let malformed = served.group.propose(vec![Part { writes: vec![closed], ..Part::default() }]).await;
    assert!(matches!(malformed, Err(ProposeError::Malformed(_))), "{malformed:?}");
    assert_eq!(served.group.status().last_index, last);
    served.group.propose_in(term, vec![put("a", "1")]).await.unwrap();
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_wait_for_what_was_acknowledged_and_marks_stay_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let served = one(dir.path()).await;
    for n in 0..50 {
        let applied = served.group.propose(vec![put("n", &n.to_string())]).await.unwrap();
        assert!(served.group.read_index().await.unwrap() >= applied.log_id);
        assert_eq!(get(&served.group, "n"), Some(n.to_string()));
        let state = served.group.read(|r| r.applied().unwrap()).unwrap();
        assert!(state.log_id >= applied.log_id && state.time_ms >= applied.time_ms);
    }
    served.group.take_snapshot().await.unwrap();
    let status = served.group.wait_for(|s| s.snapshot.is_some()).await.unwrap();
    served.group.purge_log(status.snapshot.unwrap().index).await.unwrap();
    let status = served.group.wait_for(|s| s.purged == s.snapshot).await.unwrap();
    assert!(status.snapshot <= status.applied && status.applied <= status.committed, "{status:?}");
    assert!(status.committed.map(|c| c.index) <= status.last_index, "{status:?}");
    served.stop().await;
    // What is purged is not needed to open again.
    let served = one(dir.path()).await;
    assert_eq!(get(&served.group, "n").as_deref(), Some("49"));
    served.stop().await;
}

// Paused time passes by itself once all tasks wait, so nobody waits for long here.
#[tokio::test(start_paused = true)]
async fn a_node_whose_database_is_held_says_so_and_closes_it_later() {
    let dir = tempfile::tempdir().unwrap();
    let storage = open_storage(dir.path(), 1);
    let closed = futures::future::join(storage.log.closed(), storage.state.closed());
    let held = storage.state.clone();
    let node = RaftNode::start(parts(storage, Settings::default(), |log| log)).await.unwrap();
    assert_eq!(node.shutdown().await, Err(StillOpen));
    drop(held);
    closed.await;
    let storage = open_storage(dir.path(), 1);
    let node = RaftNode::start(parts(storage, Settings::default(), |log| log)).await.unwrap();
    tokio::time::resume();
    node.shutdown().await.unwrap();
    drop(open_storage(dir.path(), 1));
}

/// A disk whose syncs wait until a gate is open.
#[derive(Debug, Clone)]
struct Gated(RocksDisk, watch::Receiver<bool>);

impl View for Gated {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Error> {
        self.0.get(key)
    }
    fn scan(&self, range: &KeyRange, visit: &mut Visit<'_>) -> Result<(), Error> {
        self.0.scan(range, visit)
    }
}

impl Disk for Gated {
    fn write(&self, batch: Batch) -> Result<(), Error> {
        self.0.write(batch)
    }
    async fn sync(&self) -> Result<(), Error> {
        self.1.clone().wait_for(|open| *open).await.map_err(|_| Error::Closed)?;
        self.0.sync().await
    }
    fn last(&self, range: &KeyRange) -> Result<Option<(Vec<u8>, Bytes)>, Error> {
        self.0.last(range)
    }
    fn closed(&self) -> BoxFuture<'static, ()> {
        self.0.closed()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_finds_the_queue_full_until_its_deadline_is_refused_and_never_done() {
    let dir = tempfile::tempdir().unwrap();
    let storage = open_storage(dir.path(), 1);
    let (gate, open) = watch::channel(true);
    let settings = Settings {
        deadline: Duration::from_millis(300),
        entries_under_way_max: 1,
        proposals_waiting_max: 1,
        ..Settings::default()
    };
    let node = RaftNode::start(parts(storage, settings, |log| Gated(log, open))).await.unwrap();
    let group = node.open_group(GROUP).await.unwrap();
    let addresses = BTreeMap::from([(1, "127.0.0.1:1".to_owned())]);
    group.initialize(support::members(&addresses)).await.unwrap();
    within(10, "an election", leads(&group)).await;

    // The disk hangs with one entry under way; of those behind it one may wait, and nobody else.
    let last = group.status().last_index;
    gate.send_replace(false);
    let under_way = tokio::spawn({
        let group = group.clone();
        async move { group.propose(vec![put("under way", "1")]).await }
    });
    within(10, "appending", group.wait_for(|s| s.last_index > last)).await.unwrap();
    let ids = ["a", "b", "c", "d", "e"];
    let others = futures::future::join_all(ids.map(|id| group.propose(vec![put(id, "1")]))).await;
    assert_eq!(under_way.await.unwrap(), Err(ProposeError::OutcomeUnknown));
    let overloaded: Vec<_> = (0..5).filter(|n| others[*n] == Err(ProposeError::Overloaded)).collect();
    let unknown: Vec<_> = (0..5).filter(|n| others[*n] == Err(ProposeError::OutcomeUnknown)).collect();
    assert_eq!((overloaded.len(), unknown.len()), (4, 1), "{others:?}");

    gate.send_replace(true);
    group.propose(vec![put("after", "1")]).await.unwrap();
    assert_eq!(get(&group, "under way").as_deref(), Some("1"), "unknown, and done");
    for n in overloaded {
        assert_eq!(get(&group, ids[n]), None, "refused, and done all the same");
    }
    drop(group);
    node.shutdown().await.unwrap();
}

/// A disk on which each sync takes long.
#[derive(Debug, Clone)]
struct Slow(RocksDisk, Duration);

impl View for Slow {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Error> {
        self.0.get(key)
    }
    fn scan(&self, range: &KeyRange, visit: &mut Visit<'_>) -> Result<(), Error> {
        self.0.scan(range, visit)
    }
}

impl Disk for Slow {
    fn write(&self, batch: Batch) -> Result<(), Error> {
        self.0.write(batch)
    }
    async fn sync(&self) -> Result<(), Error> {
        #[allow(clippy::disallowed_methods, reason = "this is the slow disk; it has a thread of its own")]
        std::thread::sleep(self.1);
        self.0.sync().await
    }
    fn last(&self, range: &KeyRange) -> Result<Option<(Vec<u8>, Bytes)>, Error> {
        self.0.last(range)
    }
    fn closed(&self) -> BoxFuture<'static, ()> {
        self.0.closed()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_one_voter_too_no_answer_comes_before_the_sync() {
    let dir = tempfile::tempdir().unwrap();
    let storage = open_storage(dir.path(), 1);
    let delay = Duration::from_millis(300);
    let node = RaftNode::start(parts(storage, Settings::default(), |log| Slow(log, delay))).await.unwrap();
    let group = node.open_group(GROUP).await.unwrap();
    let addresses = BTreeMap::from([(1, "127.0.0.1:1".to_owned())]);
    group.initialize(support::members(&addresses)).await.unwrap();
    within(10, "an election", leads(&group)).await;
    for n in 0..5 {
        #[allow(clippy::disallowed_methods, reason = "what is measured is real time")]
        let begin = Instant::now();
        group.propose(vec![put("n", &n.to_string())]).await.unwrap();
        assert!(begin.elapsed() >= delay, "acknowledged after {:?}", begin.elapsed());
    }
    drop(group);
    node.shutdown().await.unwrap();
}

/// Rows that ask for a number lie in the order of the log, two of one entry too, and none of them takes the place of
/// another.
#[tokio::test(flavor = "multi_thread")]
async fn numbered_rows_lie_in_the_order_in_which_they_were_committed() {
    let dir = tempfile::tempdir().unwrap();
    let served = one(dir.path()).await;
    let numbered = |value: &'static [u8]| {
        let put = store::Put { key: support::row("box").into(), value: Bytes::from_static(value), numbered: true };
        store::Write { op: Some(store::write::Op::Put(put)) }
    };
    let first = Part { writes: vec![numbered(b"\x01a"), numbered(b"\x01b")], ..Part::default() };
    let unmet = Part {
        preconditions: vec![check(Check::RowAbsent(support::row("seen").into()))],
        writes: vec![numbered(b"\x01never")],
        ..Part::default()
    };
    served.group.propose(vec![put("seen", "x")]).await.unwrap();
    let one = served.group.propose(vec![first, unmet, Part { writes: vec![numbered(b"\x01c")], ..Part::default() }]);
    let one = one.await.unwrap().log_id.index;
    let two = served.group.propose(vec![Part { writes: vec![numbered(b"\x01d")], ..Part::default() }]).await.unwrap();
    let prefix = support::row("box");
    let rows = served.group.read(|reader| reader.range(&KeyRange::prefix(&prefix), 100)).unwrap();
    let place = |(key, value): &(Bytes, Bytes)| {
        let number = &key[prefix.len()..];
        let index = u64::from_be_bytes(number[..8].try_into().unwrap());
        (index, u32::from_be_bytes(number[8..].try_into().unwrap()), value[1])
    };
    let two = two.log_id.index;
    assert_eq!(
        rows.iter().map(place).collect::<Vec<_>>(),
        [(one, 0, b'a'), (one, 1, b'b'), (one, 2, b'c'), (two, 0, b'd')]
    );
    served.stop().await;
}
