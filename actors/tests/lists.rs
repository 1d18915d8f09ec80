//! Finding executions, and removing them: filters, counts and cursors over the index; deletion and retention.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use orbit_actors::api::{Complete, Fail, ListExecutions, Redrive, SendSignal, Task};
use orbit_actors::engine::Settings;
use orbit_actors::error::Code;
use support::{Node, close, complete, deploy, eventually, json, open, poll, register, settings, start, within};

const ORDER: &str = r#"
name: order
version: VERSION
input:
  type: object
  properties: {customer: {type: string}, amount: {type: number}, express: {type: boolean}, due: {type: string}}
attributes:
  customer: {type: string, value: "input.customer"}
  amount: {type: number, value: "coalesce(input.amount, 0)"}
  express: {type: boolean, value: "coalesce(input.express, false)"}
  due: {type: time, value: "timestamp(coalesce(input.due, '2026-01-01T00:00:00Z'))"}
tasks: {pay: {version: 1.0.0}}
steps:
  - {id: pay, task: pay, retry: {max_attempts: 1}}
"#;

const QUICK: &str = r#"
name: quick
version: 1.0.0
retention: RETENTION
signals: {add: {type: object}}
steps:
  - {id: one, compute: "1"}
"#;

const ENTITY: &str = r#"
name: entity
version: 1.0.0
retention: 200ms
input: {type: object, properties: {n: {type: integer, default: 0}}}
attributes: {round: {type: integer, value: "input.n"}}
signals: {go: {type: object}}
steps:
  - {id: wait, await: {signal: go}}
  - {id: next, after: [wait], continue_as_new: {input: {n: "${input.n + 1}"}}}
"#;

fn all() -> ListExecutions {
    ListExecutions { limit: 1_000, ..ListExecutions::default() }
}

fn attributes(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

async fn ids(node: &Node, filter: ListExecutions) -> Vec<String> {
    let page = node.list(filter.clone()).await.unwrap();
    let count = node.count(filter).await.unwrap();
    assert_eq!(count, (page.executions.len() as u64, false));
    page.executions.into_iter().map(|summary| summary.execution_id).collect()
}

async fn sorted(node: &Node, filter: ListExecutions) -> Vec<String> {
    let mut ids = ids(node, filter).await;
    ids.sort();
    ids
}

/// Waits until an execution is no longer found, by an id or in a list.
async fn gone(node: &Node, id: &str) {
    let error = eventually("the removal", async || node.show(id, None).await.err()).await;
    assert_eq!(error.code, Code::NotFound);
}

async fn ended(node: &Node, id: &str) {
    within(20, "the end", node.wait(id, Duration::from_secs(18))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn executions_are_found_by_what_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(4)).await;
    deploy(&node, &ORDER.replace("VERSION", "1.0.0")).await;
    deploy(&node, &ORDER.replace("VERSION", "2.0.0")).await;
    deploy(&node, &QUICK.replace("RETENTION", "1h")).await;
    let long = "x".repeat(300);
    for (id, version, input) in [
        ("a", "1.0.0", r#"{"customer":"c1","amount":7}"#),
        ("b", "1.0.0", r#"{"customer":"c2","amount":7.0,"express":true}"#),
        ("c", "2.0.0", r#"{"customer":"c1","amount":7.5,"due":"2026-03-01T12:00:00Z"}"#),
        ("d", "2.0.0", &format!(r#"{{"customer":"{long}"}}"#)),
        ("e", "2.0.0", r#"{"customer":"7"}"#),
    ] {
        let mut request = start("order", id, input);
        request.version = Some(version.to_owned());
        node.start(request).await.unwrap();
    }
    node.start(start("quick", "q", "{}")).await.unwrap();
    ended(&node, "q").await;

    let by = |pairs: &[(&str, &str)]| ListExecutions { attributes: attributes(pairs), ..all() };
    assert_eq!(sorted(&node, by(&[("customer", "c1")])).await, ["a", "c"]);
    assert_eq!(sorted(&node, by(&[("customer", &long)])).await, ["d"]);
    assert_eq!(sorted(&node, by(&[("amount", "7")])).await, ["a", "b"]);
    assert_eq!(sorted(&node, by(&[("amount", "7.0")])).await, ["a", "b"]);
    assert_eq!(sorted(&node, by(&[("customer", "7")])).await, ["e"]);
    assert_eq!(sorted(&node, by(&[("express", "true")])).await, ["b"]);
    assert_eq!(sorted(&node, by(&[("due", "2026-03-01T12:00:00Z")])).await, ["c"]);
    assert_eq!(sorted(&node, by(&[("customer", "c1"), ("amount", "7")])).await, ["a"]);
    assert_eq!(sorted(&node, by(&[("customer", "c1"), ("express", "true")])).await, [""; 0]);
    assert_eq!(sorted(&node, by(&[("nobody", "c1")])).await, [""; 0]);
    let workflow = |name: &str| ListExecutions { workflow: Some(name.to_owned()), ..all() };
    assert_eq!(sorted(&node, workflow("order")).await, ["a", "b", "c", "d", "e"]);
    assert_eq!(sorted(&node, workflow("orde")).await, [""; 0]);
    let version = |version: &str| ListExecutions { version: Some(version.to_owned()), ..all() };
    assert_eq!(sorted(&node, version("1.0.0")).await, ["a", "b", "q"]);
    let both = ListExecutions { version: Some("1.0.0".to_owned()), ..workflow("order") };
    assert_eq!(sorted(&node, both).await, ["a", "b"]);
    let status = |status| ListExecutions { status: Some(status), ..all() };
    assert_eq!(sorted(&node, status("COMPLETED")).await, ["q"]);
    assert_eq!(sorted(&node, status("RUNNING")).await, ["a", "b", "c", "d", "e"]);
    node.pause("a").await.unwrap();
    assert_eq!(sorted(&node, status("PAUSED")).await, ["a"]);
    let narrow = ListExecutions { workflow: Some("order".to_owned()), ..by(&[("customer", "c1")]) };
    assert_eq!(sorted(&node, ListExecutions { status: Some("RUNNING"), ..narrow }).await, ["c"]);
    assert_eq!(sorted(&node, all()).await, ["a", "b", "c", "d", "e", "q"]);
    close(node).await;
}

/// While pages are read, executions that were already told end, others begin: none is told twice, and none that fits
/// all the time is left out.
#[tokio::test(flavor = "multi_thread")]
async fn pages_neither_skip_nor_repeat_while_things_change() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(4)).await;
    deploy(&node, &ORDER.replace("VERSION", "1.0.0")).await;
    for n in 0..60 {
        let customer = format!(r#"{{"customer":"c{}"}}"#, n % 2);
        node.start(start("order", &format!("o{n:02}"), &customer)).await.unwrap();
    }
    let filter = ListExecutions {
        status: Some("RUNNING"),
        attributes: attributes(&[("customer", "c1")]),
        limit: 4,
        ..ListExecutions::default()
    };
    let wanted: BTreeSet<String> = (0..60).filter(|n| n % 2 == 1).map(|n| format!("o{n:02}")).collect();
    let (mut told, mut cursor, mut round) = (Vec::new(), None, 0);
    loop {
        let page = node.list(ListExecutions { cursor: cursor.take(), ..filter.clone() }).await.unwrap();
        for summary in &page.executions {
            node.cancel(&summary.execution_id, "told", false).await.unwrap();
        }
        told.extend(page.executions.into_iter().map(|summary| summary.execution_id));
        round += 1;
        node.start(start("order", &format!("new{round}"), r#"{"customer":"c1"}"#)).await.unwrap();
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    let distinct: BTreeSet<String> = told.iter().cloned().collect();
    assert_eq!(distinct.len(), told.len(), "told twice: {told:?}");
    assert_eq!(distinct, wanted);
    close(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_deleted_is_gone_and_its_id_is_free() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(2)).await;
    deploy(&node, &ORDER.replace("VERSION", "1.0.0")).await;
    let session = register(&node, "w", &["pay"]).await;
    node.start(start("order", "x", r#"{"customer":"c1"}"#)).await.unwrap();
    let first = poll(&node, &session).await;
    assert_eq!(node.delete("x").await.unwrap_err().code, Code::ExecutionRunning);
    assert_eq!(node.delete("y").await.unwrap_err().code, Code::NotFound);
    complete(&node, &first, "1").await;
    ended(&node, "x").await;
    // The first answer to a result is remembered after the end, and no longer than the execution is.
    let again = || Complete { token: first.token.clone(), output: json("1"), ..Complete::default() };
    assert!(node.complete(again()).await.unwrap().accepted);
    node.delete("x").await.unwrap();
    assert!(!node.complete(again()).await.unwrap().accepted);
    assert_eq!(node.show("x", None).await.unwrap_err().code, Code::NotFound);
    assert_eq!(node.history("x", None, 1, 10).await.unwrap_err().code, Code::NotFound);
    assert_eq!(node.delete("x").await.unwrap_err().code, Code::NotFound);
    assert_eq!(ids(&node, all()).await, [""; 0]);
    // Another input, which would be a conflict if anything was remembered; and other keys.
    assert!(node.start(start("order", "x", r#"{"customer":"c2"}"#)).await.unwrap().created);
    let second = poll(&node, &session).await;
    assert_ne!(first.idempotency_key, second.idempotency_key);
    complete(&node, &second, "1").await;
    close(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_over_goes_after_its_retention_and_what_is_alive_stays() {
    let dir = tempfile::tempdir().unwrap();
    let settings = Settings { retention: Duration::from_millis(1_000), ..settings(2) };
    let node = open(dir.path(), settings.clone()).await;
    deploy(&node, &ORDER.replace("VERSION", "1.0.0")).await;
    deploy(&node, &QUICK.replace("RETENTION", "1h")).await;
    node.start(start("order", "alive", r#"{"customer":"c1"}"#)).await.unwrap();
    node.start(start("quick", "kept", "{}")).await.unwrap();
    node.start(start("order", "old", r#"{"customer":"c1"}"#)).await.unwrap();
    node.cancel("old", "the test wants it", false).await.unwrap();
    ended(&node, "old").await;
    gone(&node, "old").await;
    // It is counted after it is gone.
    eventually("a removed run", async || (node.removed_runs() >= 1).then_some(())).await;
    assert_eq!(sorted(&node, all()).await, ["alive", "kept"]);
    // It goes too when its end comes while the node is away.
    node.cancel("alive", "the test wants it", false).await.unwrap();
    ended(&node, "alive").await;
    close(node).await;
    let node = open(dir.path(), settings).await;
    gone(&node, "alive").await;
    assert_eq!(sorted(&node, all()).await, ["kept"]);
    assert!(node.start(start("order", "old", r#"{"customer":"c9"}"#)).await.unwrap().created);
    close(node).await;
}

/// A redrive that ended in the commit in which it began left no word of when the new end is to be forgotten: the
/// execution and its id stayed for ever.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_redrive_ends_at_once_goes_after_its_retention_too() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), Settings { retention: Duration::from_millis(2_000), ..settings(2) }).await;
    deploy(&node, "name: div\nversion: 1.0.0\nsteps: [{id: div, compute: '1 / 0'}]").await;
    node.start(start("div", "d", "{}")).await.unwrap();
    ended(&node, "d").await;
    node.redrive(Redrive { execution_id: "d".to_owned(), ..Redrive::default() }).await.unwrap();
    gone(&node, "d").await;
    close(node).await;
}

const STUBBORN: &str = r#"
name: stubborn
version: 1.0.0
signals: {go: {type: object}}
tasks: {pay: {version: 1.0.0}}
steps: [{id: pay, task: pay, retry: {max_attempts: 1}}]
"#;

/// What was said of an end does not count once there is another end, or another execution of that name.
#[tokio::test(flavor = "multi_thread")]
async fn what_goes_on_is_not_removed_for_an_end_that_it_had() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), Settings { retention: Duration::from_millis(2_500), ..settings(1) }).await;
    deploy(&node, STUBBORN).await;
    deploy(&node, WAITS).await;
    let session = register(&node, "w", &["pay"]).await;
    let go = || SendSignal {
        execution_id: "again".to_owned(),
        signal: "go".to_owned(),
        payload: json("{}"),
        dedup_id: Some("one".to_owned()),
        start: None,
    };
    node.start(start("stubborn", "s", "{}")).await.unwrap();
    fail(&node, &poll(&node, &session).await).await;
    node.start(start("waits", "again", "{}")).await.unwrap();
    node.signal(go()).await.unwrap();
    node.cancel("again", "to be another one", false).await.unwrap();
    ended(&node, "again").await;
    node.delete("again").await.unwrap();
    // It ends after both, so it goes when what was said of both has been looked at.
    node.start(start("stubborn", "witness", "{}")).await.unwrap();
    fail(&node, &poll(&node, &session).await).await;
    ended(&node, "witness").await;

    node.redrive(Redrive { execution_id: "s".to_owned(), ..Redrive::default() }).await.unwrap();
    let task = poll(&node, &session).await;
    node.start(start("waits", "again", "{}")).await.unwrap();
    // Time itself is what is tested: the second end and the second signal are to be of another moment than the first.
    tokio::time::sleep(Duration::from_millis(1_800)).await;
    let signalled_at_ms = node.list(all()).await.unwrap().as_of_ms;
    let second = node.signal(go()).await.unwrap();
    fail(&node, &task).await;
    ended(&node, "s").await;
    let ended_at_ms = node.show("s", None).await.unwrap().summary.finished_at_ms.unwrap();
    gone(&node, "witness").await;
    let is_there = node.show("s", None).await.is_ok();
    let is_known = node.signal(go()).await.unwrap() == second;
    // Each is kept for its time and no longer, so a slow machine may find neither.
    let now_ms = node.list(all()).await.unwrap().as_of_ms;
    assert!(is_there || now_ms >= ended_at_ms + 2_500, "removed {} ms after its end", now_ms - ended_at_ms);
    assert!(is_known || now_ms >= signalled_at_ms + 2_500, "forgotten {} ms after it came", now_ms - signalled_at_ms);
    gone(&node, "s").await;
    close(node).await;
}

async fn fail(node: &Node, task: &Task) {
    let fail = Fail {
        token: task.token.clone(),
        error_code: "NO".to_owned(),
        error_message: String::new(),
        retryable: false,
        unknown: false,
        details: None,
        worker_session_id: None,
        free_slots: 0,
    };
    assert!(node.fail(fail).await.unwrap().accepted);
}

const WAITS: &str = r#"
name: waits
version: 1.0.0
signals: {go: {type: object}}
steps: [{id: wait, await: {signal: go, until: "count == 9"}}]
"#;

const LOOP: &str = r#"
name: loop
version: 1.0.0
steps: [{id: again, continue_as_new: {input: {}}}]
"#;

/// Whoever asked something of an execution that never waits got no answer, and a deletion was carried out when it was
/// over at last, long after its caller had gone.
#[tokio::test(flavor = "multi_thread")]
async fn who_cannot_be_answered_is_turned_away() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(1)).await;
    deploy(&node, LOOP).await;
    node.start(start("loop", "l", "{}")).await.unwrap();
    assert_eq!(within(20, "an answer", node.delete("l")).await.unwrap_err().code, Code::ExecutionRunning);
    assert_eq!(within(20, "an answer", node.pause("l")).await.unwrap_err().code, Code::Overloaded);
    within(20, "a cancel", node.cancel("l", "enough", false)).await.unwrap();
    ended(&node, "l").await;
    assert_eq!(node.show("l", None).await.unwrap().summary.status, "CANCELLED");
    close(node).await;
}

/// An execution that runs for ever: its runs go one by one, the names of its signals too, and it stays.
#[tokio::test(flavor = "multi_thread")]
async fn runs_of_a_living_execution_go_one_by_one() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(2)).await;
    deploy(&node, ENTITY).await;
    node.start(start("entity", "e", "{}")).await.unwrap();
    let go = |dedup_id: &str| SendSignal {
        execution_id: "e".to_owned(),
        signal: "go".to_owned(),
        payload: json("{}"),
        dedup_id: Some(dedup_id.to_owned()),
        start: None,
    };
    let first = node.signal(go("one")).await.unwrap();
    assert_eq!(node.signal(go("one")).await.unwrap(), first);
    let of_round = |n: &str| ListExecutions { attributes: attributes(&[("round", n)]), ..all() };
    assert_eq!(ids(&node, of_round("1")).await, ["e"]);
    // The list is in the order of creation, and says so: the first run's, whatever run an execution is in.
    let (listed, runs) = (node.list(of_round("1")).await.unwrap(), node.runs("e").await.unwrap());
    assert_eq!(listed.executions[0].created_at_ms, runs[0].created_at_ms);
    assert_eq!(ids(&node, of_round("0")).await, [""; 0]);
    let runs = async || node.runs("e").await.unwrap().iter().map(|run| run.run).collect::<Vec<_>>();
    eventually("the removal of a run", async || (runs().await == [2]).then_some(())).await;
    assert_eq!(node.history("e", Some(1), 1, 10).await.unwrap_err().code, Code::NotFound);
    assert_eq!(node.show("e", None).await.unwrap().summary.status, "RUNNING");
    // The name is forgotten as well: it is another signal now.
    let anew = async || Some(node.signal(go("one")).await.unwrap()).filter(|again| *again != first);
    assert_eq!(eventually("a forgotten name", anew).await.run, 2);
    close(node).await;
}
