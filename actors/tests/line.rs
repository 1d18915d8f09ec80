//! The way of a task on one node: from a document to a result, with 1, 4 and 16 shards.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::time::Duration;

use orbit_actors::api::Delivery;
use orbit_actors::engine::Settings;
use orbit_actors::error::Code;
use support::{close, complete, deploy, events, open, poll, register, settings, start, within};

const CHAIN: &str = r#"
name: chain
version: 1.0.0
tasks:
  first: {version: 1.0.0}
  second: {version: 1.0.0}
steps:
  - id: one
    task: first
    input: {n: "${input.n}"}
  - id: two
    task: second
    after: [one]
    input: {n: "${steps.one.output.n}"}
result: "${steps.two.output}"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_document_becomes_work_done_by_a_worker() {
    for shards in [1, 4, 16] {
        let dir = tempfile::tempdir().unwrap();
        let node = open(dir.path(), settings(shards)).await;
        deploy(&node, CHAIN).await;
        let session = register(&node, "w", &["first", "second"]).await;
        for n in 0..8 {
            let id = format!("chain-{n}");
            let started = node.start(start("chain", &id, r#"{"n": 9007199254740993}"#)).await.unwrap();
            assert!(started.created);
            let one = poll(&node, &session).await;
            assert_eq!((one.step_id.as_str(), one.input.as_str()), ("one", r#"{"n":9007199254740993}"#));
            complete(&node, &one, r#"{"n": 9007199254740993}"#).await;
            let two = poll(&node, &session).await;
            assert_eq!(two.step_id, "two");
            complete(&node, &two, r#"{"sum": 9007199254740993}"#).await;
            let state = within(10, "the end", node.wait(&id, Duration::from_secs(8))).await.unwrap();
            assert_eq!(state.summary.status, "COMPLETED");
            assert_eq!(state.output.unwrap().as_str(), r#"{"sum":9007199254740993}"#);
        }
        assert_eq!(node.active_executions(), 0);
        let workers = node.workers().await.unwrap();
        assert_eq!((workers.len(), workers[0].in_flight), (1, 0), "what is done is held by nobody");
        close(node).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_may_be_repeated_and_another_one_with_its_id_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(4)).await;
    deploy(&node, CHAIN).await;
    assert!(node.start(start("chain", "a", r#"{"n": 1}"#)).await.unwrap().created);
    let again = node.start(start("chain", "a", r#"{ "n" : 1.0 }"#)).await.unwrap();
    assert_eq!((again.created, again.run), (false, 1));
    let other = node.start(start("chain", "a", r#"{"n": 2}"#)).await.unwrap_err();
    assert_eq!(other.code, Code::ExecutionExists);
    assert_eq!(node.start(start("none", "b", "{}")).await.unwrap_err().code, Code::WorkflowNotFound);
    assert_eq!(node.start(start("chain", "a/b", "{}")).await.unwrap_err().code, Code::InvalidExecutionId);
    assert_eq!(node.start(start("chain", "c", "[]")).await.unwrap_err().code, Code::InvalidInput);
    assert_eq!(node.show("c", None).await.unwrap_err().code, Code::NotFound);
    close(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_goes_on_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(4)).await;
    deploy(&node, CHAIN).await;
    let session = register(&node, "w", &["first", "second"]).await;
    node.start(start("chain", "a", r#"{"n": 1}"#)).await.unwrap();
    node.start(start("chain", "b", r#"{"n": 2}"#)).await.unwrap();
    let held = poll(&node, &session).await;
    close(node).await;

    let node = open(dir.path(), settings(4)).await;
    assert_eq!(node.active_executions(), 2);
    // The worker resumes its session and still holds what it held; the other task is handed over now.
    let resumed = orbit_actors::api::Register {
        tokens: vec![held.token.clone()],
        worker_session_id: Some(session.worker_session_id.clone()),
        ..support::worker("w", &["first", "second"])
    };
    let resumed = node.register(resumed).await.unwrap();
    assert_eq!(resumed.worker_session_id, session.worker_session_id);
    complete(&node, &held, r#"{"n": 1}"#).await;
    for _ in 0..3 {
        let task = poll(&node, &resumed).await;
        complete(&node, &task, r#"{"n": 7}"#).await;
    }
    for id in ["a", "b"] {
        let state = within(10, "the end", node.wait(id, Duration::from_secs(8))).await.unwrap();
        assert_eq!(state.summary.status, "COMPLETED", "{:?}", events(&node, id).await);
    }
    close(node).await;
}

/// The aim of the whole line: one commit per step. The next task rides on the commit of the result before it, if a slot
/// is free; otherwise each step would cost a second commit.
#[tokio::test(flavor = "multi_thread")]
async fn a_chain_costs_one_commit_per_step_and_one_for_its_start() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(1)).await;
    deploy(&node, CHAIN).await;
    let mut stream = node.connect(support::worker("w", &["first", "second"])).await.unwrap();
    let before = node.shards()[0].applied;
    stream.offer_slots(1);
    node.start(start("chain", "a", r#"{"n": 1}"#)).await.unwrap();
    for _ in 0..2 {
        let delivery = within(10, "a task", stream.deliveries.recv()).await;
        let Some(Delivery::Task(task)) = delivery else { panic!("{delivery:?}") };
        stream.received(std::slice::from_ref(&task.token));
        stream.offer_slots(1);
        complete(&node, &task, r#"{"n": 1}"#).await;
    }
    assert_eq!(node.show("a", None).await.unwrap().summary.status, "COMPLETED");
    assert_eq!(node.shards()[0].applied - before, 3);
    close(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_is_full_refuses_starts_and_takes_results() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), Settings { in_flight_max: 1, ..settings(1) }).await;
    deploy(&node, CHAIN).await;
    let starts = (0..200).map(|n| {
        let node = node.clone();
        tokio::spawn(async move { (n, node.start(start("chain", &format!("c{n}"), r#"{"n": 1}"#)).await) })
    });
    let (mut taken, mut refused) = (Vec::new(), 0);
    for start in starts.collect::<Vec<_>>() {
        match start.await.unwrap() {
            (n, Ok(started)) => {
                assert!(started.created);
                taken.push(n);
            }
            (_, Err(error)) => {
                assert_eq!(error.code, Code::Overloaded);
                refused += 1;
            }
        }
    }
    assert!(refused > 0 && !taken.is_empty(), "{refused} refused of 200");
    assert_eq!(node.active_executions(), taken.len() as u64, "what was refused left nothing behind");
    // Results are never refused for load: they wait for their turn.
    let session = register(&node, "w", &["first", "second"]).await;
    let works = (0..taken.len().min(20)).map(|_| async {
        let task = poll(&node, &session).await;
        complete(&node, &task, r#"{"n": 1}"#).await;
    });
    futures::future::join_all(works).await;
    close(node).await;
}

/// A document that goes on as new without ever waiting commits run after run; each batch came before anything that
/// waited, so that nobody could cancel it, and a restart went on with it.
#[tokio::test(flavor = "multi_thread")]
async fn what_goes_on_for_ever_without_waiting_can_be_cancelled() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(1)).await;
    let forever = "name: forever\nversion: 1.0.0\nsteps: [{id: again, continue_as_new: {input: {}}}]\n";
    deploy(&node, forever).await;
    node.start(start("forever", "a", "{}")).await.unwrap();
    while node.show("a", None).await.unwrap().summary.run < 5 {}
    node.cancel("a", "enough", false).await.unwrap();
    let state = within(20, "the end", node.wait("a", Duration::from_secs(18))).await.unwrap();
    assert_eq!(state.summary.status, "CANCELLED");
    assert_eq!(node.runs("a").await.unwrap().len() as u32, state.summary.run);
    let last = events(&node, "a").await;
    let cancelled =
        "WorkflowStarted, CancelRequested, StepClosing (workflow) cancelled, WorkflowCancelled compensation=none";
    assert_eq!(last[1..].join(", "), cancelled);
    close(node).await;
}
