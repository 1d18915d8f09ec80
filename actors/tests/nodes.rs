//! Several nodes: any of them answers anything, workers at one of them work for all.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use orbit_actors::api::{Complete, ListExecutions, Redrive, SendSignal};
use orbit_actors::error::Code;
use support::nodes::{Cluster, leads};
use support::{begin, complete, deploy, json, poll, register, settings, start, within};

const CHAIN: &str = r#"
name: chain
version: 1.0.0
input: {type: object}
tasks: {work: {version: 1.0.0}}
steps:
  - {id: one, task: work, input: "${input}"}
  - {id: two, after: [one], task: work, input: "${steps.one.output}"}
result: "${steps.two.output}"
"#;

const WAITS: &str = r#"
name: waits
version: 1.0.0
signals: {go: {type: object}}
queries: {gone: "steps.wait.status == 'succeeded' ? true : null"}
steps: [{id: wait, await: {signal: go}}, {id: after, after: [wait], compute: "1"}]
"#;

fn signal(id: &str) -> SendSignal {
    SendSignal { execution_id: id.to_owned(), signal: "go".to_owned(), payload: json("{}"), ..SendSignal::default() }
}

/// More executions than shards, so that every node leads some of them.
fn ids(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("x{n}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn any_node_answers_anything() {
    let cluster = Cluster::start(3, settings(6)).await;
    assert!((1..=3).all(|number| leads(cluster.node(number)) == 2));
    deploy(cluster.node(1), WAITS).await;
    for (n, id) in ids(24).iter().enumerate() {
        let at = |offset: usize| cluster.node(1 + ((n + offset) % 3) as u64);
        // A start at one node is seen at the next one, at once; so is a deploy that was a moment ago.
        assert!(begin(at(0), start("waits", id, "{}")).await);
        assert_eq!(at(1).show(id, None).await.unwrap().summary.status, "RUNNING");
        assert!(!at(2).start(start("waits", id, "{}")).await.unwrap().created);
        assert_eq!(at(2).pause(id).await.unwrap().summary.status, "PAUSED");
        assert_eq!(at(1).resume(id).await.unwrap().summary.status, "RUNNING");
        let waiting = tokio::spawn({
            let (node, id) = (at(2).clone(), id.clone());
            async move { node.wait(&id, Duration::from_secs(30)).await.unwrap().summary.status }
        });
        let asking = tokio::spawn({
            let (node, id) = (at(1).clone(), id.clone());
            async move { node.query(&id, "gone", Duration::from_secs(30)).await.unwrap().value }
        });
        at(0).signal(signal(id)).await.unwrap();
        assert_eq!(within(20, "the end", waiting).await.unwrap(), "COMPLETED");
        assert_eq!(within(20, "an answer", asking).await.unwrap(), Some(workflow::value::Value::from(true)));
        assert_eq!(
            at(1).history(id, None, 1, 100).await.unwrap().events.len(),
            at(2).history(id, None, 1, 100).await.unwrap().events.len()
        );
        let over = at(1).redrive(Redrive { execution_id: id.clone(), ..Redrive::default() }).await;
        assert_eq!(over.unwrap_err().code, Code::NotRedrivable);
    }
    for number in 1..=3 {
        let node = cluster.node(number);
        assert_eq!(node.show("no.such", None).await.unwrap_err().code, Code::NotFound);
        assert_eq!(node.count(ListExecutions::default()).await.unwrap(), (24, false));
        let (mut seen, mut cursor) = (Vec::new(), None);
        loop {
            let page = node.list(ListExecutions { limit: 5, cursor, ..ListExecutions::default() }).await.unwrap();
            seen.extend(page.executions.into_iter().map(|one| one.execution_id));
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        let distinct: BTreeSet<_> = seen.iter().cloned().collect();
        assert_eq!((seen.len(), distinct), (24, ids(24).into_iter().collect()));
    }
    assert_eq!(cluster.node(2).delete("x0").await, Ok(()));
    assert_eq!(cluster.node(3).show("x0", None).await.unwrap_err().code, Code::NotFound);
    cluster.assert_equal().await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_at_one_node_works_for_all() {
    let cluster = Cluster::start(3, settings(6)).await;
    deploy(cluster.node(3), CHAIN).await;
    let session = register(cluster.node(1), "w", &["work"]).await;
    for id in ids(30) {
        assert!(begin(cluster.node(2), start("chain", &id, r#"{"n": 1}"#)).await);
    }
    let node = cluster.node(1);
    for _ in 0..60 {
        let task = poll(node, &session).await;
        complete(node, &task, "7").await;
    }
    for id in ids(30) {
        let state = within(20, "the end", cluster.node(3).wait(&id, Duration::from_secs(30))).await.unwrap();
        assert_eq!(state.summary.status, "COMPLETED", "{id}");
        let redelivered = state.units.values().any(|unit| unit.redelivery);
        assert!(!redelivered, "nothing was lost, so nothing was handed over twice: {id}");
    }
    cluster.end().await;
}

/// The next task comes with the answer to a result, wherever the shard is led.
#[tokio::test(flavor = "multi_thread")]
async fn what_follows_from_a_result_comes_with_its_answer() {
    let cluster = Cluster::start(3, settings(6)).await;
    deploy(cluster.node(1), CHAIN).await;
    let node = cluster.node(1);
    let session = register(node, "w", &["work"]).await;
    for id in ids(12) {
        assert!(begin(node, start("chain", &id, "{}")).await);
        let first = poll(node, &session).await;
        let result = Complete {
            token: first.token,
            output: json("1"),
            worker_session_id: Some(session.worker_session_id.clone()),
            free_slots: 1,
        };
        let answer = within(10, "an answer", node.complete(result)).await.unwrap();
        let tasks = answer.tasks.unwrap();
        assert_eq!(tasks.len(), 1, "{id}");
        assert_eq!(tasks[0].step_id, "two");
        complete(node, &tasks[0], "2").await;
    }
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_goes_on_when_a_node_is_gone() {
    let mut cluster = Cluster::start(3, settings(6)).await;
    deploy(cluster.node(1), CHAIN).await;
    let session = register(cluster.node(1), "w", &["work"]).await;
    for id in ids(18) {
        assert!(begin(cluster.node(2), start("chain", &id, "{}")).await);
    }
    // Some of its tasks are held by the worker.
    let node = cluster.node(1).clone();
    let mut held = Vec::new();
    for _ in 0..6 {
        held.push(poll(&node, &session).await);
    }
    let address = cluster.address(3);
    cluster.stop(3).await;
    let tokens: Vec<_> = held.iter().map(|task| task.token.clone()).collect();
    let alive = node.heartbeat(&session.worker_session_id, Some(&tokens)).await.unwrap();
    assert_eq!(alive.cancel, [""; 0], "what it holds is live");
    for task in &held {
        complete(&node, task, "1").await;
    }
    for _ in 0..30 {
        let task = poll(&node, &session).await;
        assert!(!task.redelivery, "{}: a live worker held it", task.execution_id);
        complete(&node, &task, "1").await;
    }
    for id in ids(18) {
        let state = within(20, "the end", cluster.node(2).wait(&id, Duration::from_secs(30))).await.unwrap();
        assert_eq!(state.summary.status, "COMPLETED", "{id}");
    }
    drop(node);
    cluster.restart(3, &address).await;
    cluster.settled(3).await;
    cluster.assert_equal().await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_lost_is_replaced() {
    let mut cluster = Cluster::start(3, settings(4)).await;
    deploy(cluster.node(1), WAITS).await;
    for id in ids(8) {
        assert!(begin(cluster.node(1), start("waits", &id, "{}")).await);
    }
    let own = cluster.node(2).leave(2, false).await.unwrap_err();
    assert_eq!(own.code, Code::InvalidRequest, "{own}");
    cluster.stop(2).await;
    let early = cluster.node(1).leave(2, false).await.unwrap_err();
    assert_eq!(early.code, Code::InvalidRequest, "{early}");
    cluster.node(1).leave(2, true).await.unwrap();
    cluster.add(4).await;
    cluster.settled(3).await;
    for id in ids(8) {
        cluster.node(4).signal(signal(&id)).await.unwrap();
        let state = within(20, "the end", cluster.node(4).wait(&id, Duration::from_secs(30))).await.unwrap();
        assert_eq!(state.summary.status, "COMPLETED", "{id}");
    }
    let names: Vec<_> = cluster.node(3).nodes().await.unwrap().into_iter().map(|node| node.id).collect();
    assert_eq!(names, [1, 3, 4]);
    // A node that answers leaves, too; the rest counts on it no more when that is said.
    cluster.node(1).leave(3, false).await.unwrap();
    cluster.stop(3).await;
    let last = cluster.node(1).start(start("waits", "after", "{}")).await.unwrap();
    assert!(last.created);
    cluster.node(4).leave(1, false).await.unwrap();
    cluster.stop(1).await;
    cluster.node(4).signal(signal("after")).await.unwrap();
    let alone = cluster.node(4).leave(4, false).await.unwrap_err();
    assert_eq!(alone.code, Code::InvalidRequest, "{alone}");
    cluster.assert_equal().await;
    cluster.end().await;
}

/// A leader that had lost its majority and did not know it answered refusals from memory: of an execution that had
/// begun under its successor it said that there was none.
#[tokio::test(flavor = "multi_thread")]
async fn who_has_lost_the_majority_refuses_nothing_from_memory() {
    // Each of the three leads a shard, so all of them vote on all.
    let mut cluster = Cluster::start(3, settings(3)).await;
    deploy(cluster.node(1), WAITS).await;
    cluster.stop(2).await;
    cluster.stop(3).await;
    let asked = ids(12).into_iter().map(|id| cluster.node(1).signal(signal(&id)));
    for refused in within(60, "refusals", futures::future::join_all(asked)).await {
        let code = refused.unwrap_err().code;
        assert!(matches!(code, Code::NoLeader | Code::OutcomeUnknown), "{code} is said from memory");
    }
    cluster.end().await;
}
