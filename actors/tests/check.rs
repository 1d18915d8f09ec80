//! The check of a cluster: it finds whatever was changed by hand, and nothing where nothing was.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use orbit_actors::api::{BatchAction, CheckReport, Complete, Fail, ListExecutions, SendSignal, StartBatch};
use orbit_actors::error::Code;
use orbit_proto::engine::{Message, StopChild, message::Body};
use orbit_raft::Storage;
use orbit_raft::disk::{Batch, Disk, KeyRange, RocksDisk, View};
use orbit_raft::state_store::key::slot_of;
use prost::Message as _;
use support::nodes::Cluster;
use support::{
    Node, begin, close, complete, deploy, eventually, json, open_with_state, poll, register, settings, start, within,
};

const DOCUMENTS: &str = r#"
name: leaf
version: 1.0.0
tasks: {work: {version: 1.0.0}}
attributes: {kind: {type: string, value: "'leaf'"}}
steps:
  - {id: nap, sleep: 5ms}
  - {id: work, after: [nap], task: work, timeout: 1m}
result: "${steps.work.output}"
---
name: family
version: 1.0.0
workflows: {leaf: {version: 1.0.0}}
steps:
  - id: each
    for: {each: "range(3)", as: n}
    workflow: {name: leaf}
  - {id: tell, after: [each], signal: {execution: "${execution.id}.friend", name: go}, on_failure: continue}
---
name: friend
version: 1.0.0
signals: {go: {type: object}}
steps: [{id: wait, await: {signal: go}, deadline: 1h}]
---
name: undone
version: 1.0.0
tasks: {work: {version: 1.0.0}, fails: {version: 1.0.0}}
steps:
  - {id: one, task: work, compensate: {task: work}}
  - {id: two, after: [one], task: fails}
"#;

fn rules(report: &CheckReport) -> Vec<(&'static str, Option<&str>)> {
    let findings = report.shards.iter().flat_map(|shard| &shard.findings);
    findings.map(|finding| (finding.rule, finding.execution_id.as_deref())).collect()
}

async fn check(node: &Node) -> CheckReport {
    within(60, "a check", node.check_cluster(None)).await.unwrap()
}

async fn assert_clean(node: &Node) -> CheckReport {
    let report = check(node).await;
    assert_eq!(report.findings_total, 0, "{report:#?}");
    report
}

/// Rows of a table of a shard, as they lie on disk.
fn rows(state: &RocksDisk, shard: u16, table: u8) -> Vec<(Vec<u8>, Bytes)> {
    let mut rows = Vec::new();
    let prefix = [&(shard + 1).to_be_bytes()[..], &[table]].concat();
    let scanned = state.scan(&KeyRange::prefix(&prefix), &mut |key, value| {
        rows.push((key.to_vec(), Bytes::copy_from_slice(value)));
        ControlFlow::Continue(())
    });
    scanned.unwrap();
    rows
}

fn put(state: &RocksDisk, key: &[u8], value: Option<&[u8]>) {
    let mut batch = Batch::default();
    match value {
        Some(value) => batch.put(key.to_vec(), Bytes::copy_from_slice(value)),
        None => batch.delete(key.to_vec()),
    }
    state.write(batch).unwrap();
}

/// Works at a node until it is told to stop: one task of nine fails, and every `fails` does.
async fn work(node: Node, name: String, stop: Arc<AtomicBool>, done: Arc<AtomicU64>) {
    let session = register(&node, &name, &["work", "fails"]).await;
    while !stop.load(Ordering::Relaxed) {
        let tasks = node.poll(&session.worker_session_id, 4, Duration::from_millis(50)).await.unwrap();
        for task in tasks {
            let count = done.fetch_add(1, Ordering::Relaxed);
            if task.task_name == "fails" || count % 9 == 8 && task.attempt == 1 {
                let fail = Fail {
                    token: task.token,
                    error_code: "NO".to_owned(),
                    error_message: String::new(),
                    retryable: task.task_name != "fails",
                    unknown: false,
                    details: None,
                    worker_session_id: None,
                    free_slots: 0,
                };
                node.fail(fail).await.unwrap();
            } else {
                let complete = Complete { token: task.token, output: json("1"), ..Complete::default() };
                node.complete(complete).await.unwrap();
            }
        }
    }
}

/// Starts all kinds of executions, a family when the last one is over, until it is told to stop.
async fn keep_beginning(node: Node, name: &'static str, stop: Arc<AtomicBool>, begun: Arc<AtomicU64>) {
    for n in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let id = format!("{name}{n}");
        assert!(begin(&node, start("friend", &format!("{id}.friend"), "{}")).await);
        assert!(begin(&node, start("family", &id, "{}")).await);
        assert!(begin(&node, start("undone", &format!("{id}.undone"), "{}")).await);
        if n % 5 == 4 {
            let filter = ListExecutions { workflow: Some("friend".to_owned()), ..ListExecutions::default() };
            let action = [BatchAction::Pause, BatchAction::Resume][(n / 5) % 2].clone();
            node.start_batch(StartBatch { filter, action, dry_run: false }).await.unwrap();
        }
        begun.fetch_add(3, Ordering::Relaxed);
        let over = node.wait(&id, Duration::from_secs(60)).await.unwrap();
        assert!(over.summary.finished_at_ms.is_some(), "{over:?}");
    }
}

/// Children on other shards, signals between executions, timers, undoing, batches: whatever moves, nothing is found.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_found_while_everything_moves() {
    let cluster = Cluster::start(3, settings(6)).await;
    deploy(cluster.node(1), DOCUMENTS).await;
    let (stop, done, begun) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)), Arc::default());
    let enough = Arc::new(AtomicBool::new(false));
    let (mut tasks, mut begin_tasks) = (Vec::new(), Vec::new());
    for number in 1..=3 {
        let node = cluster.node(number).clone();
        tasks.push(tokio::spawn(work(node.clone(), format!("w{number}"), Arc::clone(&stop), Arc::clone(&done))));
        let name = ["a", "b", "c"][number as usize - 1];
        begin_tasks.push(tokio::spawn(keep_beginning(node, name, Arc::clone(&enough), Arc::clone(&begun))));
    }
    let moving = async || (done.load(Ordering::Relaxed) > 20).then_some(());
    eventually("some work", moving).await;
    let mut seen = 0;
    for round in 0..3 {
        let node = cluster.node(1 + round);
        let report = assert_clean(node).await;
        assert_eq!(report.shards.len(), 6);
        for shard in &report.shards {
            let hashes: Vec<_> = shard.replicas.iter().map(|one| one.hash.clone()).collect();
            assert!(hashes.len() == 3 && hashes.iter().all(|hash| hash.is_some() && *hash == hashes[0]), "{shard:?}");
        }
        seen = report.shards.iter().map(|shard| shard.runs).sum();
    }
    let moved = (done.load(Ordering::Relaxed), begun.load(Ordering::Relaxed));
    // Those who wait for the end of a family need somebody who works.
    enough.store(true, Ordering::Relaxed);
    for task in begin_tasks {
        within(20, "the end of the starts", task).await.unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    for task in tasks {
        within(20, "the end of the load", task).await.unwrap();
    }
    println!("{} tasks and {} starts while it was checked; {seen} runs in the last check", moved.0, moved.1);
    assert!(moved.0 > 40 && seen > 20, "the load moved: {moved:?}, {seen}");
    assert_clean(cluster.node(2)).await;
    cluster.end().await;
}

/// A node with something of everything, which stands still.
async fn still(path: &std::path::Path) -> (Node, RocksDisk) {
    let (node, state) = open_with_state(path, settings(2)).await;
    deploy(&node, DOCUMENTS).await;
    for n in 0..4 {
        assert!(begin(&node, start("family", &format!("f{n}"), "{}")).await);
        assert!(begin(&node, start("friend", &format!("friend{n}"), "{}")).await);
    }
    let session = register(&node, "w", &["work"]).await;
    let first = poll(&node, &session).await;
    complete(&node, &first, "1").await;
    // It is kept.
    poll(&node, &session).await;
    let rest = async || {
        let count = ListExecutions { workflow: Some("leaf".to_owned()), ..ListExecutions::default() };
        let all = node.count(count).await.unwrap().0 == 12 && node.messages_under_way().unwrap() == 0;
        let naps = (0..2).map(|shard| rows(&state, shard, 8).len()).sum::<usize>();
        // The time-out of what is with a worker, and of each wait.
        (all && naps == 5).then_some(())
    };
    eventually("rest", rest).await;
    (node, state)
}

/// The first row of a table, wherever it has one that fits.
fn some_row(state: &RocksDisk, table: u8, fits: impl Fn(&[u8]) -> bool) -> (Vec<u8>, Bytes) {
    let all = (0..2).flat_map(|shard| rows(state, shard, table));
    all.into_iter().find(|(key, _)| fits(key)).expect("there is such a row")
}

fn contains(key: &[u8], text: &str) -> bool {
    key.windows(text.len()).any(|window| window == text.as_bytes())
}

const POSITION: u8 = 1;
const HISTORY: u8 = 2;
const RUN_STATE: u8 = 3;
const LIST: u8 = 6;
const READY: u8 = 7;
const TIMER: u8 = 8;
const HELD: u8 = 9;
const OUTBOX: u8 = 11;
const INBOX: u8 = 12;
const FACET: u8 = 14;

/// Each rule finds the row that breaks it, and says whose it is.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_changed_by_hand_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let (node, state) = still(dir.path()).await;
    let report = assert_clean(&node).await;
    assert_eq!(report.shards.iter().map(|shard| shard.executions).sum::<u64>(), 20);

    let damaged = |value: &Bytes| [&value[..value.len() - 1], &[value[value.len() - 1] ^ 1]].concat();
    let farther = |key: &[u8]| [key, b"x"].concat();
    let waiting = |key: &[u8]| contains(key, "friend1");
    // What is changed, in which table, to what; and the rule that must find it.
    type Change<'a> = (&'a str, u8, Box<dyn Fn(&[u8]) -> bool>, Option<&'a str>);
    let any = || Box::new(|_: &[u8]| true) as Box<dyn Fn(&[u8]) -> bool>;
    let gone: Vec<Change<'_>> = vec![
        ("history", HISTORY, Box::new(waiting), Some("friend1")),
        ("fold", RUN_STATE, Box::new(waiting), Some("friend1")),
        ("list", LIST, Box::new(waiting), Some("friend1")),
        ("list", FACET, Box::new(waiting), Some("friend1")),
        ("timers", TIMER, Box::new(waiting), Some("friend1")),
        ("ready", READY, any(), None),
        ("held", HELD, any(), None),
    ];
    for (rule, table, fits, id) in &gone {
        let (key, value) = some_row(&state, *table, fits);
        put(&state, &key, None);
        let report = check(&node).await;
        let found = rules(&report);
        let of = |one: &&(&str, Option<&str>)| one.0 == *rule && (id.is_none() || one.1 == *id);
        assert!(found.iter().any(|one| of(&one)), "without a row of table {table}: {report:#?}");
        put(&state, &key, Some(&value));
        assert_clean(&node).await;
    }
    // A byte that is another one.
    for (rule, table) in [("fold", RUN_STATE), ("list", LIST), ("history", HISTORY)] {
        let (key, value) = some_row(&state, table, waiting);
        let changed = if rule == "history" { b"\x01\xff".to_vec() } else { damaged(&value) };
        put(&state, &key, Some(&changed));
        let report = check(&node).await;
        assert!(rules(&report).contains(&(rule, Some("friend1"))), "another byte in table {table}: {report:#?}");
        put(&state, &key, Some(&value));
    }
    // Rows that nobody has asked for.
    for (rule, table) in [("timers", TIMER), ("ready", READY), ("held", HELD), ("list", LIST), ("list", FACET)] {
        let (key, value) = some_row(&state, table, |key| contains(key, "f"));
        put(&state, &farther(&key), Some(&value));
        let report = check(&node).await;
        assert!(rules(&report).iter().any(|one| one.0 == rule), "a row too many in table {table}: {report:#?}");
        assert_eq!(report.findings_total, 1, "{report:#?}");
        put(&state, &farther(&key), None);
    }
    assert_clean(&node).await;
    drop(state);
    close(node).await;
}

/// A run whose history was cut off, position and all: the rules would decide what is missing.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_for_nothing_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let (node, state) = still(dir.path()).await;
    let of_friend = |key: &[u8]| contains(key, "friend1");
    let events: Vec<_> =
        (0..2).flat_map(|shard| rows(&state, shard, HISTORY)).filter(|(key, _)| of_friend(key)).collect();
    let (last, event) = events.last().unwrap();
    put(&state, last, None);
    let report = check(&node).await;
    let found = rules(&report);
    for rule in ["cause", "history", "fold"] {
        assert!(found.contains(&(rule, Some("friend1"))), "{rule}: {report:#?}");
    }
    put(&state, last, Some(event));
    assert_clean(&node).await;
    drop(state);
    close(node).await;
}

/// A child that is gone, marks that are too high, messages that would be taken for others.
#[tokio::test(flavor = "multi_thread")]
async fn what_only_two_shards_together_can_say_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let (node, state) = still(dir.path()).await;

    // No parent would ever hear of it: its child is not there.
    let (key, value) = some_row(&state, POSITION, |key| contains(key, "f1."));
    put(&state, &key, None);
    let report = check(&node).await;
    assert!(rules(&report).contains(&("awaited", Some("f1"))), "{}: {report:#?}", key.escape_ascii());
    put(&state, &key, Some(&value));

    // A mark that nothing sent is below of.
    let (key, value) = some_row(&state, INBOX, |_| true);
    put(&state, &key, Some(&[&[1][..], &[0x7f; 12]].concat()));
    let report = check(&node).await;
    assert_eq!(rules(&report), [("inbox", None)], "{report:#?}");
    put(&state, &key, Some(&value));

    // Messages below the mark, for two executions: no parcel. None of them goes, for nobody looks for them.
    let slot = u16::from_be_bytes([key[5], key[6]]);
    let source = u16::from_be_bytes([key[7], key[8]]);
    let ids: Vec<_> = (0..).map(|n| format!("z{n}")).filter(|id| slot_of(id.as_bytes()) == slot).take(2).collect();
    let mut put_in = Vec::new();
    for (place, id) in (0_u32..).zip(&ids) {
        let body = Some(Body::Stop(StopChild { step: "s".to_owned(), force: false }));
        let message = Message { to: id.clone(), from: "f0".to_owned(), body };
        let number = [&0_u64.to_be_bytes()[..], &place.to_be_bytes()].concat();
        let row = [&(source + 1).to_be_bytes()[..], &[OUTBOX, 0, 0], &slot.to_be_bytes(), &number].concat();
        put(&state, &row, Some(&[&[1][..], &message.encode_to_vec()].concat()));
        put_in.push(row);
    }
    let report = check(&node).await;
    assert_eq!(rules(&report), [("outbox", Some("f0")), ("outbox", None)], "{report:#?}");
    put_in.iter().for_each(|row| put(&state, row, None));
    assert_clean(&node).await;
    drop(state);
    close(node).await;
}

/// One replica is another: its hash says so, at every node that asks; and what is away is no finding.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_was_changed_is_found_by_its_hash() {
    let mut cluster = Cluster::start(3, settings(2)).await;
    deploy(cluster.node(1), DOCUMENTS).await;
    for n in 0..4 {
        assert!(begin(cluster.node(1), start("friend", &format!("friend{n}"), "{}")).await);
    }
    assert_clean(cluster.node(1)).await;
    let address = cluster.address(3);
    cluster.stop(3).await;
    let report = assert_clean(cluster.node(1)).await;
    for shard in &report.shards {
        let away = shard.replicas.iter().find(|one| one.node == 3).unwrap();
        assert!(away.hash.is_none() && away.not_compared.is_some(), "{away:?}");
    }
    let closed = {
        let storage = Storage::open(&cluster.path(3), None).unwrap();
        let (key, _) = some_row(&storage.state, TIMER, |key| contains(key, "friend"));
        put(&storage.state, &key, Some(b"\x02"));
        let closed = futures::future::join(storage.log.closed(), storage.state.closed());
        drop(storage);
        closed
    };
    within(20, "the files closed", closed).await;
    cluster.restart(3, &address).await;
    cluster.settled(3).await;
    for number in 1..=3 {
        let report = check(cluster.node(number)).await;
        let found: Vec<_> = report.shards.iter().flat_map(|shard| &shard.findings).collect();
        assert_eq!(report.findings_total, 1, "{report:#?}");
        assert!(found[0].rule == "replicas" && found[0].place == "node 3 (n3)", "{found:?}");
    }
    let refused = cluster.node(1).check_cluster(Some(2)).await.unwrap_err();
    assert_eq!(refused.code, Code::NotFound);
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_makes_one_check_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let (node, state) = still(dir.path()).await;
    node.signal(SendSignal {
        execution_id: "friend0".to_owned(),
        signal: "go".to_owned(),
        payload: json("{}"),
        ..SendSignal::default()
    })
    .await
    .unwrap();
    let (one, other) = tokio::join!(node.check_cluster(Some(0)), node.check_cluster(Some(1)));
    assert_eq!(one.unwrap().shards.len(), 1);
    assert_eq!(other.unwrap_err().code, Code::Overloaded);
    assert_clean(&node).await;
    drop(state);
    close(node).await;
}
