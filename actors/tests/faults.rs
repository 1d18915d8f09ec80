//! What goes wrong on the way of a task, and that everything ends all the same.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use orbit_actors::Dice;
use orbit_actors::api::{Complete, Delivery, Fail, Register};
use orbit_actors::engine::Settings;
use orbit_actors::error::Code;
use support::{Node, close, complete, deploy, events, eventually, json, open, poll, register, settings, start, within};

const SAGA: &str = r#"
name: saga
version: 1.0.0
tasks:
  reserve: {version: 1.0.0}
  charge: {version: 1.0.0}
  refund: {version: 1.0.0}
  release: {version: 1.0.0}
  ship: {version: 1.0.0}
steps:
  - id: reserve
    for: {each: input.items}
    task: reserve
    input: {item: "${item}"}
    compensate: {task: release, input: {item: "${item}"}}
  - id: charge
    task: charge
    after: [reserve]
    compensate: {task: refund}
  - id: ship
    task: ship
    after: [charge]
    timeout: 1h
    heartbeat_timeout: 300ms
    retry: {max_attempts: 2, initial_delay: 20ms}
"#;

/// Whether the dice of a node fail, as a bug somewhere in a decision would.
static DICE_FAIL: AtomicBool = AtomicBool::new(false);

fn failing_dice() -> [u8; 16] {
    assert!(!DICE_FAIL.load(Ordering::SeqCst), "the dice fell off the table");
    *uuid::Uuid::new_v4().as_bytes()
}

const WIDE: &str = r#"
name: wide
version: 1.0.0
tasks: {op: {version: 1.0.0}}
steps:
  - id: f
    for: {each: range(1100)}
    task: op
    input: {i: "${item}"}
"#;

const ALL: [&str; 5] = ["reserve", "charge", "refund", "release", "ship"];

async fn fail(node: &Node, token: &str, code: &str, retryable: bool) {
    let fail = Fail {
        token: token.to_owned(),
        error_code: code.to_owned(),
        error_message: "as the test wants".to_owned(),
        retryable,
        unknown: false,
        details: None,
        worker_session_id: None,
        free_slots: 0,
    };
    assert!(node.fail(fail).await.unwrap().accepted);
}

async fn end(node: &Node, id: &str) -> &'static str {
    let state = within(20, "the end", node.wait(id, Duration::from_secs(18))).await.unwrap();
    state.summary.status
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_done_is_undone_in_reverse_order() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(4)).await;
    deploy(&node, SAGA).await;
    let session = register(&node, "w", &ALL).await;
    node.start(start("saga", "a", r#"{"items": ["x", "y"]}"#)).await.unwrap();
    let mut undone = Vec::new();
    loop {
        let task = poll(&node, &session).await;
        match task.task_name.as_str() {
            "ship" => {
                fail(&node, &task.token, "REFUSED", false).await;
                continue;
            }
            "refund" | "release" => undone.push(task.step_id.clone()),
            _ => {}
        }
        complete(&node, &task, "{}").await;
        if undone.len() == 3 {
            break;
        }
    }
    assert_eq!(end(&node, "a").await, "FAILED");
    assert_eq!(undone, ["compensate:charge", "compensate:reserve[1]", "compensate:reserve[0]"]);
    let state = node.show("a", None).await.unwrap();
    assert_eq!(state.error.unwrap().code, "REFUSED");
    close(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_worker_loses_its_task_and_another_try_follows() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(4)).await;
    deploy(&node, SAGA).await;
    let session = register(&node, "w", &ALL).await;
    node.start(start("saga", "a", r#"{"items": []}"#)).await.unwrap();
    let charge = poll(&node, &session).await;
    complete(&node, &charge, "{}").await;
    let first = poll(&node, &session).await;
    assert_eq!((first.task_name.as_str(), first.attempt), ("ship", 1));
    // Signs of life keep it; their details go to the next hand-over.
    for n in 0..4 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        let alive = node.task_heartbeat(&first.token, Some(json(&n.to_string()))).await.unwrap();
        assert!(alive.accepted && !alive.cancel);
    }
    let second = poll(&node, &session).await;
    assert_eq!((second.task_name.as_str(), second.attempt), ("ship", 2));
    assert_eq!(second.idempotency_key, first.idempotency_key);
    assert_eq!(second.last_heartbeat_details.as_ref().map(|details| details.as_str()), Some("3"));
    let alive = node.task_heartbeat(&first.token, None).await.unwrap();
    assert!(!alive.accepted && alive.cancel);
    // The work of the first try happened all the same: a success counts whichever try it is of.
    complete(&node, &first, "{}").await;
    assert_eq!(end(&node, "a").await, "COMPLETED");
    let late = Complete { token: second.token.clone(), output: json("{}"), ..Complete::default() };
    assert!(!node.complete(late).await.unwrap().accepted);
    close(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_a_lost_session_are_handed_over_again() {
    let dir = tempfile::tempdir().unwrap();
    let short = Settings { session_timeout: Duration::from_millis(600), ..settings(4) };
    let node = open(dir.path(), short).await;
    deploy(&node, SAGA).await;
    let lost = register(&node, "lost", &["charge"]).await;
    node.start(start("saga", "a", r#"{"items": []}"#)).await.unwrap();
    let first = poll(&node, &lost).await;
    let session = register(&node, "w", &ALL).await;
    let again = poll(&node, &session).await;
    assert_eq!((again.attempt, again.redelivery), (1, true));
    assert_eq!(again.idempotency_key, first.idempotency_key);
    assert_ne!(again.token, first.token);
    assert_eq!(node.heartbeat(&lost.worker_session_id, None).await.unwrap_err().code, Code::UnknownSession);
    let happened = events(&node, "a").await;
    assert!(happened.iter().any(|event| event.contains("worker_lost")), "{happened:?}");
    node.cancel("a", "enough", true).await.unwrap();
    assert_eq!(end(&node, "a").await, "CANCELLED");
    close(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_gets_one_task_per_slot_and_what_it_did_not_confirm_goes_to_others() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(4)).await;
    deploy(&node, SAGA).await;
    let mut stream = node.connect(support::worker("w", &ALL)).await.unwrap();
    stream.offer_slots(1);
    for id in ["a", "b"] {
        node.start(start("saga", id, r#"{"items": []}"#)).await.unwrap();
    }
    let Some(Delivery::Task(first)) = within(5, "a task", stream.deliveries.recv()).await else { panic!("a task") };
    assert!(stream.deliveries.try_recv().is_err(), "one slot, one task");
    stream.received(std::slice::from_ref(&first.token));
    stream.offer_slots(1);
    let Some(Delivery::Task(second)) = within(5, "a task", stream.deliveries.recv()).await else { panic!("a task") };
    drop(stream);
    // The second was not confirmed when the stream broke; the first is still with its worker.
    let session = register(&node, "other", &ALL).await;
    let again = poll(&node, &session).await;
    assert_eq!((again.execution_id.as_str(), again.redelivery), (second.execution_id.as_str(), true));
    complete(&node, &first, "{}").await;
    close(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_tells_the_worker_to_stop() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(4)).await;
    deploy(&node, SAGA).await;
    let mut stream = node.connect(support::worker("w", &ALL)).await.unwrap();
    stream.offer_slots(1);
    node.start(start("saga", "a", r#"{"items": []}"#)).await.unwrap();
    let Some(Delivery::Task(task)) = within(5, "a task", stream.deliveries.recv()).await else { panic!("a task") };
    stream.received(std::slice::from_ref(&task.token));
    node.cancel("a", "enough", false).await.unwrap();
    let told = within(5, "the order to stop", stream.deliveries.recv()).await;
    assert_eq!(told, Some(Delivery::Cancel(task.token.clone())));
    let session = stream.session.worker_session_id.clone();
    let held = [task.token.clone()];
    assert_eq!(node.heartbeat(&session, Some(&held)).await.unwrap().cancel, held);
    complete(&node, &task, "{}").await;
    stream.offer_slots(1);
    let Some(Delivery::Task(undo)) = within(5, "a task", stream.deliveries.recv()).await else { panic!("a task") };
    assert_eq!(undo.step_id, "compensate:charge");
    complete(&node, &undo, "{}").await;
    assert_eq!(end(&node, "a").await, "CANCELLED");
    assert_eq!(node.cancel("a", "again", false).await.unwrap().summary.status, "CANCELLED");
    close(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_restart_a_task_goes_to_others_unless_its_worker_still_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(4)).await;
    deploy(&node, SAGA).await;
    let (keeps, forgets) = (register(&node, "keeps", &ALL).await, register(&node, "forgets", &ALL).await);
    let gone = register(&node, "gone", &ALL).await;
    for id in ["a", "b", "c"] {
        node.start(start("saga", id, r#"{"items": []}"#)).await.unwrap();
    }
    let (kept, forgotten) = (poll(&node, &keeps).await, poll(&node, &forgets).await);
    let lost = poll(&node, &gone).await;
    close(node).await;

    let short = Settings { session_timeout: Duration::from_millis(800), ..settings(4) };
    let node = open(dir.path(), short).await;
    let resume = |worker: &str, session: &str, tokens: Vec<String>| Register {
        worker_session_id: Some(session.to_owned()),
        tokens,
        ..support::worker(worker, &ALL)
    };
    let keeps = resume("keeps", &keeps.worker_session_id, vec![kept.token.clone()]);
    let keeps = node.register(keeps).await.unwrap();
    // It lives and does not say that it holds its task: handed over at once.
    node.register(resume("forgets", &forgets.worker_session_id, Vec::new())).await.unwrap();
    let again = poll(&node, &keeps).await;
    assert_eq!((&again.execution_id, again.redelivery), (&forgotten.execution_id, true));
    // Nothing is heard of the third: handed over when its session has had its time.
    let again = poll(&node, &keeps).await;
    assert_eq!((&again.execution_id, again.redelivery), (&lost.execution_id, true));
    let happened = events(&node, &lost.execution_id).await;
    assert!(happened.iter().any(|event| event.contains("worker_lost")), "{happened:?}");
    let untouched = events(&node, &kept.execution_id).await;
    assert!(!untouched.iter().any(|event| event.contains("Uncertain")), "{untouched:?}");
    complete(&node, &kept, "{}").await;
    close(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wide_fan_out_survives_a_restart_in_the_middle() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(1)).await;
    deploy(&node, SAGA).await;
    let items: Vec<usize> = (0..3_000).collect();
    node.start(start("saga", "a", &format!("{{\"items\": {items:?}}}"))).await.unwrap();
    let session = register(&node, "w", &ALL).await;
    work(&node, &session.worker_session_id, 1_200).await;
    close(node).await;

    let node = open(dir.path(), settings(1)).await;
    let again = Register { worker_session_id: Some(session.worker_session_id), ..support::worker("w", &ALL) };
    let session = node.register(again).await.unwrap();
    work(&node, &session.worker_session_id, usize::MAX).await;
    assert_eq!(end(&node, "a").await, "COMPLETED");
    let happened = events(&node, "a").await;
    let reserved = happened.iter().filter(|event| event.starts_with("StepSucceeded reserve[")).count();
    assert_eq!(reserved, 3_000, "each element exactly once");
    close(node).await;
}

/// A start that makes more events than one commit takes is cut (L12). Whoever stops between the parts leaves the rest
/// to the next start, which must know of it.
#[tokio::test(flavor = "multi_thread")]
async fn the_rest_of_a_cut_batch_follows_after_a_restart() {
    const ITEMS: usize = 9_000;
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(1)).await;
    let wide = SAGA.replace("for: {each: input.items}", "for: {each: input.items, concurrency: 10000}");
    deploy(&node, &wide).await;
    let items: Vec<usize> = (0..ITEMS).collect();
    // Answered with the first part; the others are on their way.
    node.start(start("saga", "a", &format!("{{\"items\": {items:?}}}"))).await.unwrap();
    node.shutdown().await.unwrap();
    drop(node);

    let node = open(dir.path(), settings(1)).await;
    let begun = async {
        loop {
            let scheduled = events(&node, "a").await.iter().filter(|line| line.starts_with("StepScheduled")).count();
            if scheduled == ITEMS {
                return;
            }
        }
    };
    within(60, "scheduling every element", begun).await;
    close(node).await;
}

/// Completes tasks until there are no more.
async fn work(node: &Node, session: &str, mut upto: usize) {
    while upto > 0 {
        let tasks = node.poll(session, 100, Duration::from_millis(300)).await.unwrap();
        if tasks.is_empty() {
            return;
        }
        upto = upto.saturating_sub(tasks.len());
        let results = tasks.iter().map(|task| complete(node, task, "{}"));
        futures::future::join_all(results).await;
    }
}

/// A bug in a decision stops the execution that meets it, visibly, and nothing else: the task's slot goes to others,
/// the shard goes on, and after a restart the execution is tried again.
#[tokio::test(flavor = "multi_thread")]
async fn an_execution_that_fails_inside_is_stopped_alone_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), Settings { dice: Dice(failing_dice), ..settings(1) }).await;
    deploy(&node, SAGA).await;
    let session = register(&node, "w", &ALL).await;
    node.start(start("saga", "unlucky", r#"{"items": []}"#)).await.unwrap();
    DICE_FAIL.store(true, Ordering::SeqCst);
    let (asking, other) = (node.clone(), session.clone());
    let poll_meanwhile = tokio::spawn(async move { poll(&asking, &other).await });
    eventually("the failure", async || (node.broken_executions() > 0).then_some(())).await;
    DICE_FAIL.store(false, Ordering::SeqCst);

    let state = node.show("unlucky", None).await.unwrap();
    let error = state.internal_error.expect("it says so");
    assert_eq!((state.summary.status, error.code.as_str()), ("RUNNING", "INTERNAL"));
    assert!(error.message.contains("the dice fell off the table"), "{}", error.message);
    assert_eq!(node.cancel("unlucky", "", false).await.unwrap_err().code, Code::Internal);
    assert_eq!(node.broken_executions(), 1);

    node.start(start("saga", "lucky", r#"{"items": []}"#)).await.unwrap();
    let charge = within(10, "a task of another execution", poll_meanwhile).await.unwrap();
    assert_eq!(charge.execution_id, "lucky");
    complete(&node, &charge, "{}").await;
    let ship = poll(&node, &session).await;
    complete(&node, &ship, "{}").await;
    assert_eq!(end(&node, "lucky").await, "COMPLETED");
    close(node).await;

    let node = open(dir.path(), settings(1)).await;
    assert!(node.show("unlucky", None).await.unwrap().internal_error.is_none());
    let session = register(&node, "w", &ALL).await;
    for task in ["charge", "ship"] {
        let next = poll(&node, &session).await;
        assert_eq!((next.execution_id.as_str(), next.task_name.as_str()), ("unlucky", task));
        complete(&node, &next, "{}").await;
    }
    assert_eq!(end(&node, "unlucky").await, "COMPLETED");
    close(node).await;
}

/// Somebody looked at a fan-out of 1 100 elements that hung on one: it was not among the first thousand units, and
/// nothing was said to be waited for.
#[tokio::test(flavor = "multi_thread")]
async fn what_an_execution_waits_for_is_told_however_many_units_it_has() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(1)).await;
    deploy(&node, WIDE).await;
    let session = register(&node, "w", &["op"]).await;
    node.start(start("wide", "a", "{}")).await.unwrap();
    for _ in 0..1_100 {
        let task = poll(&node, &session).await;
        if task.step_id != "f[999]" {
            complete(&node, &task, "{}").await;
        }
    }
    let state = node.show("a", None).await.unwrap();
    assert!(state.waiting_for.contains(&"f[999] DISPATCHED".to_owned()), "{:?}", state.waiting_for);
    assert_eq!(state.units["f[999]"].worker_id.as_deref(), Some("w"));
    assert_eq!(state.units.len() as u64 + state.units_omitted.unwrap(), 1_101);
    close(node).await;
}

/// A worker under a closing block was told to stop by the leader of that time alone; after a restart it worked on, and
/// the cancel waited for the whole grace.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_should_stop_is_told_so_after_a_restart_too() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(1)).await;
    deploy(&node, SAGA).await;
    let session = register(&node, "w", &ALL).await;
    node.start(start("saga", "a", r#"{"items": []}"#)).await.unwrap();
    let charge = poll(&node, &session).await;
    let held = [charge.token.clone()];
    node.heartbeat(&session.worker_session_id, Some(&held)).await.unwrap();
    node.cancel("a", "enough", false).await.unwrap();
    close(node).await;

    let node = open(dir.path(), settings(1)).await;
    let again = Register {
        worker_session_id: Some(session.worker_session_id),
        tokens: held.to_vec(),
        ..support::worker("w", &ALL)
    };
    let session = node.register(again).await.unwrap();
    let told = node.heartbeat(&session.worker_session_id, Some(&held)).await.unwrap();
    assert_eq!(told.cancel, held);
    node.heartbeat(&session.worker_session_id, Some(&[])).await.unwrap();
    let refund = poll(&node, &session).await;
    assert_eq!(refund.step_id, "compensate:charge");
    complete(&node, &refund, "{}").await;
    assert_eq!(end(&node, "a").await, "CANCELLED");
    let happened = events(&node, "a").await;
    assert!(happened.iter().any(|event| event.contains("StepAttemptUncertain charge stopped")), "{happened:#?}");
    close(node).await;
}
