//! Executions that wait: on disk only, woken by the time of the log or by a signal of nobody but themselves.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::time::Duration;

use orbit_actors::api::ListExecutions;
use orbit_actors::engine::Settings;
use orbit_actors::error::Code;
use support::{Node, close, complete, deploy, events, open, poll, register, settings, start, within};

const NAP: &str = r#"
name: nap
version: 1.0.0
steps:
  - id: rest
    sleep: "${input.ms}ms"
"#;

const LAPS: &str = r#"
name: laps
version: 1.0.0
tasks:
  run: {version: 1.0.0}
steps:
  - id: lap
    task: run
    input: {left: "${input.left}"}
  - id: again
    after: [lap]
    when: input.left > 1
    continue_as_new: {input: {left: "${input.left - 1}"}}
"#;

async fn end(node: &Node, id: &str) -> &'static str {
    let state = within(20, "the end", node.wait(id, Duration::from_secs(18))).await.unwrap();
    state.summary.status
}

/// Waits until no execution is in memory.
async fn all_asleep(node: &Node) {
    let asleep = async {
        while node.awake_executions() > 0 {
            tokio::task::yield_now().await;
        }
    };
    within(20, "falling asleep", asleep).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_sleeps_is_not_in_memory_and_wakes_in_time() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(4)).await;
    deploy(&node, NAP).await;
    for n in 0..50 {
        node.start(start("nap", &format!("nap-{n}"), r#"{"ms": 1500}"#)).await.unwrap();
    }
    all_asleep(&node).await;
    assert_eq!(node.active_executions(), 50);
    for n in 0..50 {
        let id = format!("nap-{n}");
        assert_eq!(end(&node, &id).await, "COMPLETED");
        let page = node.history(&id, None, 1, 100).await.unwrap();
        let at = |name: &str| page.events.iter().find(|event| event.event.name() == name).unwrap().timestamp_ms;
        assert!(at("TimerFired") >= at("TimerStarted") + 1_500, "{:?}", events(&node, &id).await);
    }
    assert_eq!(node.active_executions(), 0);
    close(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_came_due_while_the_node_was_down_fires_at_its_start() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(4)).await;
    deploy(&node, NAP).await;
    node.start(start("nap", "a", r#"{"ms": 50}"#)).await.unwrap();
    node.start(start("nap", "b", r#"{"ms": 3600000}"#)).await.unwrap();
    close(node).await;
    let node = open(dir.path(), settings(4)).await;
    assert_eq!(end(&node, "a").await, "COMPLETED");
    assert_eq!(node.show("b", None).await.unwrap().waiting_for, ["rest WAITING"]);
    node.cancel("b", "enough", false).await.unwrap();
    assert_eq!(end(&node, "b").await, "CANCELLED");
    close(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_execution_goes_on_in_new_runs_and_callers_follow_it() {
    let dir = tempfile::tempdir().unwrap();
    // Nothing is kept awake, so every ask wakes the execution from its rows.
    let node = open(dir.path(), Settings { alive_max: 0, ..settings(4) }).await;
    deploy(&node, LAPS).await;
    let session = register(&node, "w", &["run"]).await;
    node.start(start("laps", "a", r#"{"left": 3}"#)).await.unwrap();
    let mut first = None;
    for lap in 1..=3 {
        let task = poll(&node, &session).await;
        assert_eq!(task.run, lap);
        complete(&node, &task, "{}").await;
        first.get_or_insert(task);
    }
    assert_eq!(end(&node, "a").await, "COMPLETED");
    let runs: Vec<_> = node.runs("a").await.unwrap().into_iter().map(|run| (run.run, run.status)).collect();
    assert_eq!(runs, [(1, "CONTINUED"), (2, "CONTINUED"), (3, "COMPLETED")]);
    // A result for a run that is over is answered as the first time.
    complete(&node, &first.unwrap(), "{}").await;
    let again = node.start(start("laps", "a", r#"{"left": 3}"#)).await.unwrap();
    assert_eq!((again.created, again.run), (false, 3));
    assert_eq!(node.history("a", Some(4), 1, 10).await.unwrap_err().code, Code::NotFound);
    assert_eq!(node.list(ListExecutions { limit: 10, ..ListExecutions::default() }).await.unwrap().executions.len(), 1);
    close(node).await;
}

/// A document that never waits once overflowed the stack: each run began inside the end of the one before.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_runs_without_a_wait_are_a_thousand_commits_and_no_stack() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(1)).await;
    let hurry = r#"
name: hurry
version: 1.0.0
steps:
  - id: again
    when: input.left > 0
    continue_as_new: {input: {left: "${input.left - 1}"}}
"#;
    deploy(&node, hurry).await;
    node.start(start("hurry", "a", r#"{"left": 1000}"#)).await.unwrap();
    assert_eq!(end(&node, "a").await, "COMPLETED");
    assert_eq!(node.runs("a").await.unwrap().len(), 1_001);
    assert_eq!(node.active_executions(), 0);
    close(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_paged_over_all_shards_newest_first() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(16)).await;
    deploy(&node, NAP).await;
    for n in 0..40 {
        let ms = if n % 4 == 0 { 1 } else { 3_600_000 };
        node.start(start("nap", &format!("nap-{n}"), &format!("{{\"ms\": {ms}}}"))).await.unwrap();
    }
    for n in (0..40).step_by(4) {
        assert_eq!(end(&node, &format!("nap-{n}")).await, "COMPLETED");
    }
    let running = ListExecutions { status: Some("RUNNING"), limit: 7, ..ListExecutions::default() };
    assert_eq!(node.count(running.clone()).await.unwrap(), (30, false));
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let page = node.list(ListExecutions { cursor: cursor.take(), ..running.clone() }).await.unwrap();
        assert!(page.executions.len() <= 7);
        found.extend(page.executions.into_iter().map(|one| (one.created_at_ms, one.execution_id)));
        match page.next_cursor {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    assert_eq!(found.len(), 30);
    assert!(found.windows(2).all(|pair| pair[0].0 >= pair[1].0), "newest first");
    close(node).await;
}
