//! Nodes whose disks fill up or whose clocks are wrong.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::time::Duration;

use orbit_actors::api::{BatchAction, Complete, ListExecutions, SendSignal, StartBatch};
use orbit_actors::disk::DiskLevel;
use orbit_actors::error::{Code, Error};
use serde_json::json as details;
use support::nodes::{Cluster, leads};
use support::{Node, begin, complete, deploy, eventually, json, poll, register, settings, start, within};

const WORK: &str = r#"
name: work
version: 1.0.0
signals: {go: {type: object}}
tasks: {work: {version: 1.0.0}}
steps: [{id: one, task: work, input: "${input}"}]
"#;

const NAP: &str = r#"
name: nap
version: 1.0.0
input: {type: object}
steps: [{id: rest, sleep: "${input.for}"}]
"#;

const QUICK: &str = r#"
name: quick
version: 1.0.0
steps: [{id: one, compute: "1"}]
"#;

fn ids(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("x{n}")).collect()
}

fn is_disk(error: &Error) -> bool {
    error.code == Code::Overloaded && error.details.as_deref() == Some(&details!({ "reason": "DISK_FULL" }))
}

fn signal(id: &str, starts: bool) -> SendSignal {
    SendSignal {
        execution_id: id.to_owned(),
        signal: "go".to_owned(),
        payload: json("{}"),
        start: starts.then(|| start("work", id, "{}")),
        ..SendSignal::default()
    }
}

async fn led(cluster: &Cluster, wanted: [usize; 3]) {
    let look = async || {
        let leads = [1, 2, 3].map(|number| leads(cluster.node(number)));
        (leads == wanted).then_some(())
    };
    eventually("leaders where they belong", look).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_disk_is_full_leads_nothing_and_the_others_take_starts() {
    let mut cluster = Cluster::start(3, settings(6)).await;
    deploy(cluster.node(1), WORK).await;
    cluster.disk(1, 91);
    // Nobody is turned away, also not while the leaderships move.
    for id in ids(60) {
        assert!(begin(cluster.node(1), start("work", &id, "{}")).await);
    }
    led(&cluster, [0, 3, 3]).await;
    assert!(begin(cluster.node(1), start("work", "one", "{}")).await);
    let told = async || {
        let nodes = cluster.node(3).nodes().await.unwrap();
        let condition = nodes[0].condition.clone()?;
        (condition.disk == "full" && condition.disk_used_ratio == 0.91).then_some(())
    };
    eventually("that the others know it", told).await;

    // A node that leads nothing takes nothing when another one is gone.
    let address = cluster.address(3);
    cluster.stop(3).await;
    eventually("the other one leads all", async || (leads(cluster.node(2)) == 6).then_some(())).await;
    cluster.restart(3, &address).await;
    led(&cluster, [0, 3, 3]).await;

    cluster.disk(1, 89);
    assert!(begin(cluster.node(1), start("work", "two", "{}")).await);
    assert_eq!(leads(cluster.node(1)), 0, "a little room is not enough");
    cluster.disk(1, 50);
    led(&cluster, [2, 2, 2]).await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_all_disks_are_full_starts_are_refused_and_all_else_goes_on() {
    let cluster = Cluster::start(1, settings(2)).await;
    deploy(cluster.node(1), WORK).await;
    let session = register(cluster.node(1), "w", &["work"]).await;
    assert!(begin(cluster.node(1), start("work", "before", "{}")).await);
    cluster.disk(1, 92);
    let node = cluster.node(1);
    let full = async || (node.condition().disk == DiskLevel::Full).then_some(());
    eventually("a look at the disk", full).await;
    let refused = node.start(start("work", "other", "{}")).await.unwrap_err();
    assert!(is_disk(&refused), "{refused}");
    assert!(is_disk(&node.signal(signal("other", true)).await.unwrap_err()));
    assert_eq!(node.show("other", None).await.unwrap_err().code, Code::NotFound);
    // What is there is there, also for those who ask once more to begin it.
    assert!(!node.start(start("work", "before", "{}")).await.unwrap().created);
    assert_eq!(node.signal(signal("before", true)).await.unwrap().created, Some(false));
    let task = poll(node, &session).await;
    complete(node, &task, "1").await;
    assert_eq!(node.wait("before", Duration::from_secs(30)).await.unwrap().summary.status, "COMPLETED");
    node.delete("before").await.unwrap();
    cluster.disk(1, 10);
    eventually("room", async || cluster.node(1).start(start("work", "new", "{}")).await.ok()).await;
    cluster.end().await;
}

/// Deletions come through, by one and by many.
async fn deletes(node: &Node) {
    node.delete("x0").await.unwrap();
    assert_eq!(node.show("x0", None).await.unwrap_err().code, Code::NotFound);
    let filter = ListExecutions { workflow: Some("quick".to_owned()), ..ListExecutions::default() };
    let purge = StartBatch { filter, action: BatchAction::Delete, dry_run: false };
    let batch = node.start_batch(purge).await.unwrap().batch_id.unwrap();
    let done = async || (node.batch(&batch).await.unwrap().done == 8).then_some(());
    eventually("a purge", done).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shards_whose_disks_are_nearly_used_up_take_deletions_only_and_lose_nothing() {
    let cluster = Cluster::start(3, settings(3)).await;
    for source in [WORK, NAP, QUICK] {
        deploy(cluster.node(1), source).await;
    }
    let session = register(cluster.node(1), "w", &["work"]).await;
    for id in ["a", "b", "c"] {
        assert!(begin(cluster.node(1), start("work", id, "{}")).await);
    }
    let held = [poll(cluster.node(1), &session).await, poll(cluster.node(1), &session).await];
    for id in ids(9) {
        assert!(begin(cluster.node(1), start("quick", &id, "{}")).await);
        cluster.node(1).wait(&id, Duration::from_secs(30)).await.unwrap();
    }
    cluster.disk(1, 96);
    cluster.disk(2, 96);
    // Its time comes while nothing is written.
    assert!(begin(cluster.node(3), start("nap", "sleeper", r#"{"for": "4s"}"#)).await);
    let read_only = async || {
        let all = (1..=3).all(|number| cluster.node(number).shards().iter().all(|shard| shard.read_only));
        all.then_some(())
    };
    eventually("shards that are read-only", read_only).await;

    let node = cluster.node(2);
    for refused in [
        node.signal(signal("c", false)).await.err(),
        node.cancel("c", "", false).await.err(),
        node.pause("c").await.err(),
        node.start(start("work", "new", "{}")).await.err(),
        node.deploy(QUICK, workflow::document::Format::Yaml).await.err(),
    ] {
        assert!(refused.as_ref().is_some_and(is_disk), "{refused:?}");
    }
    let at = |number: u64| cluster.node(number).clone();
    let results = held.clone().map(|task| {
        let complete = Complete { token: task.token, output: json("1"), ..Complete::default() };
        let node = at(3);
        tokio::spawn(async move { node.complete(complete).await })
    });
    // Though results wait.
    deletes(node).await;
    // Whoever works is told that it still should.
    let tokens = held.clone().map(|task| task.token);
    assert_eq!(at(1).heartbeat(&session.worker_session_id, Some(&tokens)).await.unwrap().cancel, [""; 0]);
    // The third task goes to nobody: the poll is answered, and in time.
    let none = within(10, "an answer", at(1).poll(&session.worker_session_id, 1, Duration::from_millis(100))).await;
    assert_eq!(none.unwrap(), []);
    // Nothing tells that nothing happens.
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(node.show("sleeper", None).await.unwrap().summary.status, "RUNNING", "it was due a second ago");
    assert!(results.iter().all(|result| !result.is_finished()));

    cluster.disk(2, 91);
    for result in results {
        assert!(within(10, "a result", result).await.unwrap().unwrap().accepted);
    }
    let waited = within(10, "the timer", at(2).wait("sleeper", Duration::from_secs(60))).await.unwrap();
    assert_eq!(waited.summary.status, "COMPLETED");
    let task = poll(cluster.node(1), &session).await;
    complete(cluster.node(1), &task, "1").await;
    for id in ["a", "b", "c"] {
        let over = at(3).wait(id, Duration::from_secs(30)).await.unwrap();
        assert_eq!(over.summary.status, "COMPLETED", "{id}");
        assert!(!over.units.values().any(|unit| unit.redelivery), "{id}");
    }
    cluster.assert_equal().await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_clock_is_off_leads_nothing_until_it_is_right() {
    let cluster = Cluster::start(3, settings(6)).await;
    deploy(cluster.node(1), NAP).await;
    for hour in [3_600_000, -3_600_000] {
        cluster.clock(2, hour);
        led(&cluster, [3, 0, 3]).await;
        let off = cluster.node(2).condition();
        assert!(off.clock_off && off.clock_ahead_us.unwrap().abs_diff(hour * 1000) < 500_000, "{off:?}");
        let others = [1, 3].map(|number| cluster.node(number).condition());
        assert!(others.iter().all(|other| !other.clock_off && other.is_well()), "{others:?}");
        // Time goes on as ever.
        for id in ids(6).iter().map(|id| format!("{id}{hour}")) {
            let begun = tokio::time::Instant::now();
            assert!(begin(cluster.node(2), start("nap", &id, r#"{"for": "1s"}"#)).await);
            let over = within(10, "a nap", cluster.node(2).wait(&id, Duration::from_secs(60))).await.unwrap();
            assert_eq!(over.summary.status, "COMPLETED");
            assert!(begun.elapsed() >= Duration::from_millis(900), "it slept for {:?}", begun.elapsed());
        }
        cluster.clock(2, 0);
        led(&cluster, [2, 2, 2]).await;
    }
    cluster.end().await;
}
