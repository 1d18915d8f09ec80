//! One action on many executions: what it does, how it is stopped, and that a restart in its middle loses nothing.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::collections::BTreeMap;

use orbit_actors::api::{BatchAction, BatchState, ListExecutions, StartBatch};
use orbit_actors::engine::Settings;
use orbit_actors::error::Code;
use support::{Node, close, deploy, events, eventually, json, open, settings, start};

const WAITER: &str = r#"
name: waiter
version: 1.0.0
input: {type: object, properties: {group: {type: string}, fails: {type: boolean, default: false}}}
attributes: {group: {type: string, value: "input.group"}}
signals: {go: {type: object}}
steps:
  - {id: bad, when: "input.fails", fail: {code: AS_WANTED}}
  - {id: wait, after: [bad], await: {signal: [go], until: "count >= 1000"}}
"#;

async fn waiters(node: &Node, group: &str, count: usize) {
    for n in 0..count {
        let input = format!(r#"{{"group":"{group}"}}"#);
        node.start(start("waiter", &format!("{group}{n:03}"), &input)).await.unwrap();
    }
}

fn of_group(group: &str) -> ListExecutions {
    let attributes = BTreeMap::from([("group".to_owned(), group.to_owned())]);
    ListExecutions { attributes, limit: 1_000, ..ListExecutions::default() }
}

async fn begin(node: &Node, filter: ListExecutions, action: BatchAction) -> String {
    let started = node.start_batch(StartBatch { filter, action, dry_run: false }).await.unwrap();
    started.batch_id.unwrap()
}

async fn until(node: &Node, id: &str, wanted: impl Fn(&BatchState) -> bool) -> BatchState {
    eventually("the batch", async || Some(node.batch(id).await.unwrap()).filter(|state| wanted(state))).await
}

fn is_done(state: &BatchState) -> bool {
    state.status == "DONE"
}

async fn count(node: &Node, filter: ListExecutions) -> u64 {
    node.count(filter).await.unwrap().0
}

fn cancel() -> BatchAction {
    BatchAction::Cancel { reason: "all of them".to_owned(), force: false }
}

fn go() -> BatchAction {
    BatchAction::Signal { name: "go".to_owned(), payload: json("{}") }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_action_reaches_all_that_fit_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(4)).await;
    deploy(&node, WAITER).await;
    waiters(&node, "a", 70).await;
    waiters(&node, "b", 3).await;
    let status = |status| ListExecutions { status: Some(status), ..of_group("a") };

    let counted = StartBatch { filter: of_group("a"), action: cancel(), dry_run: true };
    let counted = node.start_batch(counted).await.unwrap();
    assert_eq!((counted.batch_id, counted.total), (None, 70));
    assert_eq!(count(&node, status("RUNNING")).await, 70);

    for (action, filter, after) in [
        (BatchAction::Pause, status("RUNNING"), "PAUSED"),
        (BatchAction::Resume, status("PAUSED"), "RUNNING"),
        (go(), of_group("a"), "RUNNING"),
        (cancel(), of_group("a"), "CANCELLED"),
    ] {
        let id = begin(&node, filter, action).await;
        let state = until(&node, &id, is_done).await;
        assert_eq!((state.total, state.done, state.failed), (70, 70, 0), "{state:?}");
        assert_eq!(count(&node, status(after)).await, 70);
    }
    let signals = events(&node, "a000").await.iter().filter(|line| line.starts_with("SignalReceived")).count();
    assert_eq!(signals, 1);
    let id = begin(&node, of_group("a"), BatchAction::Delete).await;
    assert_eq!(until(&node, &id, is_done).await.done, 70);
    assert_eq!(count(&node, of_group("a")).await, 0);
    assert_eq!(count(&node, ListExecutions { status: Some("RUNNING"), ..of_group("b") }).await, 3);
    close(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_done_is_told_and_the_rest_is_done() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(4)).await;
    deploy(&node, WAITER).await;
    waiters(&node, "a", 5).await;
    node.start(start("waiter", "f", r#"{"group":"a","fails":true}"#)).await.unwrap();
    let everyone = |action| begin(&node, of_group("a"), action);
    let id = everyone(BatchAction::Redrive { steps: None, action: None, output: None }).await;
    let state = until(&node, &id, is_done).await;
    // The failed one fails again: it was done. The others have nothing to go on from.
    assert_eq!((state.done, state.failed), (1, 5), "{state:?}");
    assert!(state.errors.iter().all(|error| error.code == "NOT_REDRIVABLE" && error.execution_id != "f"));
    let id = everyone(BatchAction::Delete).await;
    let state = until(&node, &id, is_done).await;
    assert_eq!((state.done, state.failed), (1, 5), "{state:?}");
    assert!(state.errors.iter().all(|error| error.code == "EXECUTION_RUNNING"));
    close(node).await;
}

/// One execution that can answer nobody held up all that came after it.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_passes_by_what_cannot_answer() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(2)).await;
    deploy(&node, WAITER).await;
    deploy(&node, "name: loop\nversion: 1.0.0\nsteps: [{id: again, continue_as_new: {input: {}}}]").await;
    waiters(&node, "a", 60).await;
    node.start(start("loop", "l", "{}")).await.unwrap();
    waiters(&node, "b", 60).await;
    let everyone = ListExecutions { since_ms: Some(0), ..ListExecutions::default() };
    let id = begin(&node, everyone, BatchAction::Pause).await;
    let state = until(&node, &id, is_done).await;
    assert_eq!((state.done, state.failed), (120, 1), "{state:?}");
    assert_eq!((state.errors[0].execution_id.as_str(), state.errors[0].code.as_str()), ("l", "OVERLOADED"));
    node.cancel("l", "enough", true).await.unwrap();
    close(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_makes_no_sense_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(1)).await;
    let refused = async |filter: ListExecutions, action| {
        node.start_batch(StartBatch { filter, action, dry_run: false }).await.unwrap_err().code
    };
    assert_eq!(refused(ListExecutions::default(), cancel()).await, Code::InvalidRequest);
    let redrive = BatchAction::Redrive { steps: None, action: Some("undo".to_owned()), output: None };
    assert_eq!(refused(of_group("a"), redrive).await, Code::InvalidRequest);
    let nameless = BatchAction::Signal { name: String::new(), payload: json("1") };
    assert_eq!(refused(of_group("a"), nameless).await, Code::InvalidRequest);
    assert_eq!(node.batch("nobody").await.unwrap_err().code, Code::NotFound);
    assert_eq!(node.stop_batch("nobody").await.unwrap_err().code, Code::NotFound);
    close(node).await;
}

/// The node goes away again and again while a batch is at work, mostly between the signals and the word of them: it
/// goes on, everyone gets the signal exactly once, and who came later gets none.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_goes_on_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    // Without a pause between two lots: it is nearly always in the middle of one.
    let settings = Settings { batch_rate: 1_000_000, ..settings(4) };
    let mut node = open(dir.path(), settings.clone()).await;
    deploy(&node, WAITER).await;
    waiters(&node, "a", 400).await;
    let id = begin(&node, of_group("a"), go()).await;
    let (mut restarts, mut least) = (0, 0);
    loop {
        let state = until(&node, &id, |state| state.done > least || is_done(state)).await;
        if is_done(&state) {
            break;
        }
        least = state.done;
        node.shutdown().await.unwrap();
        node = open(dir.path(), settings.clone()).await;
        restarts += 1;
        node.start(start("waiter", &format!("late{restarts}"), r#"{"group":"a"}"#)).await.unwrap();
    }
    assert!(restarts >= 2, "it was too quick: {restarts} restarts");
    let state = node.batch(&id).await.unwrap();
    assert_eq!((state.done, state.failed, state.errors.len()), (400, 0, 0));
    let signals = async |id: &str| {
        let lines = events(&node, id).await;
        lines.iter().filter(|line| line.starts_with("SignalReceived")).count()
    };
    for n in 0..400 {
        assert_eq!(signals(&format!("a{n:03}")).await, 1, "a{n:03} after {restarts} restarts");
    }
    for n in 1..=restarts {
        assert_eq!(signals(&format!("late{n}")).await, 0);
    }
    close(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_batch_begins_nothing_more() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), Settings { batch_rate: 100, ..settings(2) }).await;
    deploy(&node, WAITER).await;
    waiters(&node, "a", 200).await;
    let id = begin(&node, of_group("a"), cancel()).await;
    until(&node, &id, |state| state.done >= 1).await;
    let stopped = node.stop_batch(&id).await.unwrap();
    assert!(stopped.stopped && stopped.status == "DONE");
    let cancelled = || count(&node, ListExecutions { status: Some("CANCELLED"), ..of_group("a") });
    // What was being worked on comes to its end and is counted.
    let settled = async || {
        let (state, cancelled) = (node.batch(&id).await.unwrap(), cancelled().await);
        (state.done == cancelled).then_some(cancelled)
    };
    let cancelled = eventually("the end of what was under way", settled).await;
    assert!((1..200).contains(&cancelled), "{cancelled}");
    assert_eq!(node.stop_batch(&id).await.unwrap().done, cancelled);
    close(node).await;
}
