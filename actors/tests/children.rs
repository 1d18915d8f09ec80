//! What executions tell each other: children, signals, ends; between shards, on a real disk, over restarts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod support;

use std::time::Duration;

use orbit_actors::api::ListExecutions;
use orbit_actors::error::Code;
use support::{Node, close, complete, deploy, events, eventually, open, poll, register, settings, start, within};

const FAMILY: &str = r#"
name: parent
version: 1.0.0
workflows: {child: {version: 1.0.0}}
input:
  type: object
  properties: {n: {type: integer, default: 1}, task: {type: boolean, default: false}, bad: {type: integer, default: -1}}
steps:
  - id: all
    for: {each: range(input.n), concurrency: 10000}
    workflow: {name: child}
    input: {i: "${item}", task: "${input.task}", bad: "${item == input.bad}"}
result: "${steps.all.output.map(x, x.i).sum()}"
---
name: child
version: 1.0.0
input: {type: object, required: [i, task, bad]}
tasks: {work: {version: 1.0.0}, undo: {version: 1.0.0}}
steps:
  - {id: work, when: "input.task", task: work, retry: {max_attempts: 1}, compensate: {task: undo}}
  - {id: bad, when: "input.bad", fail: {code: UNLUCKY, message: thirteen}}
result: {i: "${input.i}"}
"#;

async fn end(node: &Node, id: &str) -> &'static str {
    within(60, "the end", node.wait(id, Duration::from_secs(58))).await.unwrap().summary.status
}

async fn all(node: &Node) -> Vec<(String, &'static str)> {
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let page = node.list(ListExecutions { limit: 1_000, cursor, ..ListExecutions::default() }).await.unwrap();
        found.extend(page.executions.into_iter().map(|summary| (summary.execution_id, summary.status)));
        cursor = page.next_cursor;
        if cursor.is_none() {
            return found;
        }
    }
}

/// The outbox is empty as soon as everything has arrived.
async fn nothing_under_way(node: &Node) {
    eventually("an empty outbox", async || (node.messages_under_way().unwrap() == 0).then_some(())).await;
    assert_eq!(node.check().unwrap(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn each_child_runs_once_and_its_end_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(16)).await;
    deploy(&node, FAMILY).await;
    node.start(start("parent", "p", r#"{"n": 13}"#)).await.unwrap();
    assert_eq!(end(&node, "p").await, "COMPLETED");
    let state = node.show("p", None).await.unwrap();
    assert_eq!(state.output.unwrap().as_str(), "78");
    let executions = all(&node).await;
    assert_eq!(executions.len(), 14);
    assert!(executions.iter().all(|(_, status)| *status == "COMPLETED"), "{executions:?}");
    let child = node.show("p.all.7", None).await.unwrap();
    assert_eq!(child.summary.parent.unwrap().execution_id, "p");
    nothing_under_way(&node).await;
    close(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_fails_fails_its_unit_with_its_code() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(4)).await;
    deploy(&node, FAMILY).await;
    node.start(start("parent", "p", r#"{"n": 14, "bad": 13}"#)).await.unwrap();
    assert_eq!(end(&node, "p").await, "FAILED");
    let error = node.show("p", None).await.unwrap().error.unwrap();
    assert_eq!((error.code.as_str(), error.message.as_str()), ("UNLUCKY", "thirteen"));
    assert_eq!(error.details.unwrap().as_str(), r#"{"child_execution_id":"p.all.13","index":13}"#);
    nothing_under_way(&node).await;
    close(node).await;
}

/// Every message lies on disk before anybody acts on it: a node that goes away at any moment sends what is not known to
/// have arrived again, and nothing happens twice.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_and_nothing_is_done_twice_when_the_node_goes_away_again_and_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut node = open(dir.path(), settings(16)).await;
    deploy(&node, FAMILY).await;
    let mut interrupted = 0;
    for n in 0..8 {
        node.start(start("parent", &format!("p{n}"), r#"{"n": 60}"#)).await.unwrap();
        interrupted += u32::from(node.messages_under_way().unwrap() > 0);
        close(node).await;
        node = open(dir.path(), settings(16)).await;
    }
    println!("{interrupted} of 8 restarts with messages under way");
    assert!(interrupted > 2, "{interrupted} restarts with messages under way are too few to be a test");
    for n in 0..8 {
        assert_eq!(end(&node, &format!("p{n}")).await, "COMPLETED");
    }
    nothing_under_way(&node).await;
    let executions = all(&node).await;
    assert_eq!(executions.len(), 8 * 61);
    assert!(executions.iter().all(|(_, status)| *status == "COMPLETED"), "{executions:?}");
    for (id, _) in &executions {
        let begun = events(&node, id).await.iter().filter(|event| event.starts_with("WorkflowCreated")).count();
        assert_eq!(begun, 1, "{id}");
    }
    assert_eq!(node.check().unwrap(), Vec::<String>::new());
    close(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_that_is_cancelled_leaves_no_orphan() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(16)).await;
    deploy(&node, FAMILY).await;
    let session = register(&node, "w", &["work", "undo"]).await;
    node.start(start("parent", "p", r#"{"n": 5, "task": true}"#)).await.unwrap();
    for _ in 0..5 {
        let task = poll(&node, &session).await;
        assert_eq!(task.task_name, "work");
        if task.execution_id == "p.all.3" {
            complete(&node, &task, "{}").await;
        }
    }
    assert_eq!(end(&node, "p.all.3").await, "COMPLETED");
    node.cancel("p", "enough", true).await.unwrap();
    assert_eq!(end(&node, "p").await, "CANCELLED");
    for n in [0, 1, 2, 4] {
        assert_eq!(end(&node, &format!("p.all.{n}")).await, "CANCELLED", "a force is passed on");
    }
    assert_eq!(node.active_executions(), 0);
    nothing_under_way(&node).await;
    close(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_parent_waits_for_its_children() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(16)).await;
    deploy(&node, FAMILY).await;
    let session = register(&node, "w", &["work", "undo"]).await;
    node.start(start("parent", "p", r#"{"n": 2, "task": true}"#)).await.unwrap();
    let tasks = [poll(&node, &session).await, poll(&node, &session).await];
    node.cancel("p", "enough", false).await.unwrap();
    // Both are waited for; what they did is undone before they say that they have ended.
    for task in &tasks {
        assert_eq!(node.show("p", None).await.unwrap().summary.status, "RUNNING");
        complete(&node, task, "{}").await;
        let undo = poll(&node, &session).await;
        assert_eq!((undo.task_name.as_str(), &undo.execution_id), ("undo", &task.execution_id));
        complete(&node, &undo, "{}").await;
        assert_eq!(end(&node, &task.execution_id).await, "CANCELLED");
    }
    assert_eq!(end(&node, "p").await, "CANCELLED");
    nothing_under_way(&node).await;
    close(node).await;
}

const SIGNALS: &str = r#"
name: sender
version: 1.0.0
input: {type: object, required: [to, n], properties: {to: {type: string}, n: {type: integer}}}
steps:
  - id: send
    repeat: {until: "iteration == input.n"}
    signal: {execution: "${input.to}", name: number, payload: {n: "${iteration}"}}
---
name: collector
version: 1.0.0
input: {type: object, required: [n], properties: {n: {type: integer}}}
signals: {number: {type: object}}
steps:
  - id: take
    repeat: {until: "iteration == input.n"}
    steps:
      - {id: one, await: {signal: number}}
    result: {seen: "${coalesce(previous.seen, []) + [steps.one.output.n]}"}
result: "${steps.take.output.seen}"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn signals_come_once_and_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(16)).await;
    deploy(&node, SIGNALS).await;
    node.start(start("collector", "c", r#"{"n": 30}"#)).await.unwrap();
    node.start(start("sender", "s", r#"{"to": "c", "n": 30}"#)).await.unwrap();
    assert_eq!(end(&node, "c").await, "COMPLETED");
    assert_eq!(end(&node, "s").await, "COMPLETED");
    let seen: Vec<_> = (1..=30).map(|n: u32| n.to_string()).collect();
    let output = node.show("c", None).await.unwrap().output.unwrap();
    assert_eq!(output.as_str(), format!("[{}]", seen.join(",")));
    node.start(start("sender", "lost", r#"{"to": "nobody", "n": 1}"#)).await.unwrap();
    assert_eq!(end(&node, "lost").await, "FAILED");
    assert_eq!(node.show("lost", None).await.unwrap().error.unwrap().code, "EXECUTION_NOT_FOUND");
    // What is no id can be nobody's: the sender is told, and nobody else waits.
    for (id, to) in [("empty", ""), ("nul", "a\\u0000b"), ("slash", "a/b"), ("long", &"x".repeat(1_001))] {
        node.start(start("sender", id, &format!(r#"{{"to": "{to}", "n": 1}}"#))).await.unwrap();
        assert_eq!(end(&node, id).await, "FAILED", "{id}");
        assert_eq!(node.show(id, None).await.unwrap().error.unwrap().code, "EXECUTION_NOT_FOUND", "{id}");
    }
    node.start(start("sender", "late", r#"{"to": "c", "n": 1}"#)).await.unwrap();
    assert_eq!(end(&node, "late").await, "FAILED");
    assert_eq!(node.show("late", None).await.unwrap().error.unwrap().code, "EXECUTION_FINISHED");
    nothing_under_way(&node).await;
    close(node).await;
}

/// A node that goes away after a signal has arrived, and before that is known, sends it again: the receiver's shard
/// knows its number.
#[tokio::test(flavor = "multi_thread")]
async fn signals_come_once_though_the_node_goes_away_in_between() {
    let dir = tempfile::tempdir().unwrap();
    let mut node = open(dir.path(), settings(16)).await;
    deploy(&node, SIGNALS).await;
    let pairs = 12;
    for n in 0..pairs {
        node.start(start("collector", &format!("c{n}"), r#"{"n": 150}"#)).await.unwrap();
        let input = format!(r#"{{"to": "c{n}", "n": 150}}"#);
        node.start(start("sender", &format!("s{n}"), &input)).await.unwrap();
    }
    let mut restarts = 0;
    while node.active_executions() > 0 && restarts < 12 {
        restarts += 1;
        close(node).await;
        node = open(dir.path(), settings(16)).await;
    }
    println!("{restarts} restarts");
    let seen: Vec<_> = (1..=150).map(|n: u32| n.to_string()).collect();
    for n in 0..pairs {
        assert_eq!(end(&node, &format!("c{n}")).await, "COMPLETED");
        let output = node.show(&format!("c{n}"), None).await.unwrap().output.unwrap();
        assert_eq!(output.as_str(), format!("[{}]", seen.join(",")), "c{n}");
    }
    close(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_is_taken_fails_the_unit_and_what_is_not_registered_the_deployment() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(4)).await;
    let parent = FAMILY.split("---").next().unwrap();
    let refused = node.deploy(parent, workflow::document::Format::Yaml).await.unwrap_err();
    assert_eq!(refused.code, Code::ChildNotRegistered);
    assert_eq!(refused.details.unwrap().to_string(), r#"{"children":[{"name":"child","version":"1.0.0"}]}"#);
    deploy(&node, FAMILY).await;
    node.start(start("child", "p.all.0", r#"{"i": 1, "task": true, "bad": false}"#)).await.unwrap();
    node.start(start("parent", "p", "{}")).await.unwrap();
    assert_eq!(end(&node, "p").await, "FAILED");
    assert_eq!(node.show("p", None).await.unwrap().error.unwrap().code, "CHILD_ID_TAKEN");
    assert_eq!(node.show("p.all.0", None).await.unwrap().summary.status, "RUNNING", "it is nobody's child");
    close(node).await;
}
