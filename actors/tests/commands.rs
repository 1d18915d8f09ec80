//! What is said to an execution that is there: signals, queries, pause, redrive; on a real disk, over restarts.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::time::Duration;

use orbit_actors::api::{Fail, Redrive, Registered, SendSignal, Signalled, Task};
use orbit_actors::error::{Code, Error};
use support::{Node, close, complete, deploy, events, json, open, poll, register, settings, start, within};

const APPROVAL: &str = r#"
name: approval
version: 1.0.0
tasks: {pay: {version: 1.0.0}}
signals:
  decide: {type: object, required: [yes], properties: {yes: {type: boolean}}}
queries:
  decision: steps.wait.output
  broken: "steps.wait.output.yes + 1"
steps:
  - {id: wait, await: {signal: decide}}
  - {id: pay, after: [wait], task: pay, retry: {max_attempts: 1}}
"#;

async fn signal(node: &Node, id: &str, payload: &str, dedup_id: Option<&str>) -> Result<Signalled, Error> {
    let signal = SendSignal {
        execution_id: id.to_owned(),
        signal: "decide".to_owned(),
        payload: json(payload),
        dedup_id: dedup_id.map(str::to_owned),
        start: None,
    };
    node.signal(signal).await
}

async fn refused(node: &Node, id: &str, payload: &str, dedup_id: Option<&str>) -> Code {
    signal(node, id, payload, dedup_id).await.unwrap_err().code
}

async fn end(node: &Node, id: &str) -> &'static str {
    within(20, "the end", node.wait(id, Duration::from_secs(18))).await.unwrap().summary.status
}

async fn fail(node: &Node, task: &Task) {
    let fail = Fail {
        token: task.token.clone(),
        error_code: "NO_MONEY".to_owned(),
        error_message: "as the test wants".to_owned(),
        retryable: false,
        unknown: false,
        details: None,
        worker_session_id: None,
        free_slots: 0,
    };
    assert!(node.fail(fail).await.unwrap().accepted);
}

async fn pay(node: &Node, session: &Registered) {
    let task = poll(node, session).await;
    complete(node, &task, "{}").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_named_signal_counts_once_whatever_happens_between() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(4)).await;
    deploy(&node, APPROVAL).await;
    assert_eq!(refused(&node, "a", "{}", None).await, Code::NotFound);
    node.start(start("approval", "a", "{}")).await.unwrap();
    assert_eq!(refused(&node, "a", r#"{"yes": 1}"#, Some("d")).await, Code::InvalidSignal);
    let first = signal(&node, "a", r#"{"yes": true}"#, Some("d")).await.unwrap();
    assert_eq!((first.run, first.accepted, first.created), (1, true, None));
    // Members in another order are the same payload; the same name is another signal's own.
    assert_eq!(signal(&node, "a", r#"{ "yes":true }"#, Some("d")).await.unwrap(), first);
    assert_eq!(refused(&node, "a", r#"{"yes": false}"#, Some("d")).await, Code::DedupConflict);
    close(node).await;

    let node = open(dir.path(), settings(4)).await;
    assert_eq!(signal(&node, "a", r#"{"yes": true}"#, Some("d")).await.unwrap(), first);
    let session = register(&node, "w", &["pay"]).await;
    pay(&node, &session).await;
    assert_eq!(end(&node, "a").await, "COMPLETED");
    assert_eq!(signal(&node, "a", r#"{"yes": true}"#, Some("d")).await.unwrap(), first);
    assert_eq!(refused(&node, "a", r#"{"yes": true}"#, Some("e")).await, Code::ExecutionFinished);
    let other = SendSignal { execution_id: "a".into(), signal: "undeclared".into(), ..SendSignal::default() };
    assert_eq!(node.signal(other).await.unwrap_err().code, Code::UnknownSignal);
    let received = events(&node, "a").await.iter().filter(|event| event.starts_with("SignalReceived")).count();
    assert_eq!(received, 1);
    close(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_signal_many_times_at_once_is_one() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(1)).await;
    deploy(&node, APPROVAL).await;
    node.start(start("approval", "a", "{}")).await.unwrap();
    // While the pause is committed the signals gather: none of their rows is applied when the next one is looked at.
    let all = futures::future::try_join_all((0..50).map(|_| signal(&node, "a", r#"{"yes": true}"#, Some("d"))));
    let (paused, answers) = futures::future::join(node.pause("a"), all).await;
    paused.unwrap();
    let answers = answers.unwrap();
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    let received = events(&node, "a").await.iter().filter(|event| event.starts_with("SignalReceived")).count();
    assert_eq!(received, 1);
    close(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_starts_what_is_not_there_in_the_same_commit() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(1)).await;
    deploy(&node, APPROVAL).await;
    deploy(&node, "name: other\nversion: 1.0.0\nsignals: {decide: {}}\nsteps: [{id: s, sleep: 1h}]\n").await;
    let with_start = |workflow: &str, payload: &str| SendSignal {
        execution_id: "a".into(),
        signal: "decide".into(),
        payload: json(payload),
        dedup_id: Some("d".into()),
        start: Some(start(workflow, "a", "{}")),
    };
    let bad = node.signal(with_start("approval", r#"{"yes": "no"}"#)).await.unwrap_err();
    assert_eq!(bad.code, Code::InvalidSignal);
    assert_eq!(node.show("a", None).await.unwrap_err().code, Code::NotFound, "a bad signal starts nothing");
    let created = node.signal(with_start("approval", r#"{"yes": true}"#)).await.unwrap();
    assert_eq!((created.created, created.seq), (Some(true), 2));
    let before: Vec<_> = events(&node, "a").await.into_iter().take(3).collect();
    assert_eq!(before.join(", "), "WorkflowCreated run=1, SignalReceived decide, WorkflowStarted");
    let again = node.signal(with_start("approval", r#"{"yes": true}"#)).await.unwrap();
    assert_eq!(again, Signalled { created: Some(false), ..created });
    let other = node.signal(with_start("other", r#"{"yes": true}"#)).await.unwrap_err();
    assert_eq!(other.code, Code::ExecutionExists);
    close(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_is_answered_as_of_the_newest_commit_and_can_wait() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(1)).await;
    deploy(&node, APPROVAL).await;
    node.start(start("approval", "a", "{}")).await.unwrap();
    let now = node.query("a", "decision", Duration::ZERO).await.unwrap();
    assert_eq!(now.value.as_ref().unwrap().to_json(), "null");
    let waiting = node.clone();
    let waits = tokio::spawn(async move { waiting.query("a", "decision", Duration::from_secs(20)).await });
    let broken = node.query("a", "broken", Duration::ZERO).await.unwrap_err();
    assert_eq!(broken.code, Code::ExpressionError);
    signal(&node, "a", r#"{"yes": true}"#, None).await.unwrap();
    let now = node.query("a", "decision", Duration::ZERO).await.unwrap();
    assert_eq!(now.value.as_ref().unwrap().to_json(), r#"{"yes":true}"#, "an acknowledged signal is seen");
    assert_eq!(within(10, "the answer", waits).await.unwrap().unwrap().value, now.value);
    let unknown = node.query("a", "nothing", Duration::ZERO).await.unwrap_err();
    assert_eq!(unknown.code, Code::UnknownQuery);
    assert_eq!(node.query("b", "decision", Duration::ZERO).await.unwrap_err().code, Code::NotFound);
    node.cancel("a", "", true).await.unwrap();
    assert_eq!(node.query("a", "decision", Duration::ZERO).await.unwrap().value, now.value, "also after the end");
    close(node).await;
}

const ROUNDS: &str = r#"
name: rounds
version: 1.0.0
signals: {go: {}}
queries: {wait: steps.wait.status}
steps:
  - {id: wait, await: {signal: go}}
  - {id: again, after: [wait], continue_as_new: {input: {}}}
"#;

/// A query was now and then evaluated over the run before, or over parts of two commits.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_query_sees_one_commit_and_no_two() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(1)).await;
    deploy(&node, ROUNDS).await;
    node.start(start("rounds", "r", "{}")).await.unwrap();
    let asking = (0..6).map(|_| {
        let node = node.clone();
        tokio::spawn(async move {
            let mut answers = 0;
            while node.show("r", None).await.unwrap().summary.status == "RUNNING" {
                let answer = node.query("r", "wait", Duration::ZERO).await.unwrap();
                if answer.value.as_ref().map(ToString::to_string).as_deref() != Some("\"running\"") {
                    // Over by now, and then in whatever state it was cancelled.
                    assert_eq!(node.show("r", None).await.unwrap().summary.status, "CANCELLED", "{answer:?}");
                }
                answers += 1;
            }
            answers
        })
    });
    let asking: Vec<_> = asking.collect();
    for _ in 0..400 {
        let go = SendSignal { execution_id: "r".to_owned(), signal: "go".to_owned(), ..SendSignal::default() };
        node.signal(go).await.unwrap();
    }
    node.cancel("r", "enough", false).await.unwrap();
    for asking in asking {
        assert!(within(20, "an asker", asking).await.unwrap() > 0);
    }
    close(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_paused_hands_nothing_over_until_it_is_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(1)).await;
    deploy(&node, APPROVAL).await;
    let session = register(&node, "w", &["pay"]).await;
    node.start(start("approval", "a", "{}")).await.unwrap();
    for _ in 0..2 {
        assert_eq!(node.pause("a").await.unwrap().summary.status, "PAUSED");
    }
    signal(&node, "a", r#"{"yes": true}"#, None).await.unwrap();
    let none = node.poll(&session.worker_session_id, 1, Duration::from_millis(300)).await.unwrap();
    assert!(none.is_empty(), "{none:?}");
    close(node).await;

    let node = open(dir.path(), settings(1)).await;
    assert_eq!(node.show("a", None).await.unwrap().summary.status, "PAUSED");
    let session = register(&node, "w", &["pay"]).await;
    for _ in 0..2 {
        assert_eq!(node.resume("a").await.unwrap().summary.status, "RUNNING");
    }
    pay(&node, &session).await;
    assert_eq!(end(&node, "a").await, "COMPLETED");
    assert_eq!(node.pause("a").await.unwrap_err().code, Code::ExecutionFinished);
    close(node).await;
}

const ASKS: &str = r#"
name: asks
version: 1.0.0
signals: {yes: {}}
steps:
  - {id: ask, deadline: 1h, await: {signal: yes}}
  - {id: each, for: {each: '[1, 2]'}, await: {signal: yes}}
"#;

/// When does it escalate? That an approval waits, and until when, stood in the history alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_is_shown_as_one_with_its_deadline() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(1)).await;
    deploy(&node, ASKS).await;
    node.start(start("asks", "a", "{}")).await.unwrap();
    let state = node.show("a", None).await.unwrap();
    let ask = &state.units["ask"];
    assert_eq!((ask.status, ask.deadline_ms), ("WAITING", Some(state.summary.created_at_ms + 3_600_000)));
    assert_eq!((state.units["each"].status, state.units["each[1]"].status), ("RUNNING", "WAITING"));
    assert_eq!(state.waiting_for, ["ask WAITING", "each[0] WAITING", "each[1] WAITING"]);
    assert_eq!(node.units("a", None, "ask", None).await.unwrap().units["ask"], *ask);
    close(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_execution_goes_on_when_it_is_redriven() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(1)).await;
    deploy(&node, APPROVAL).await;
    let session = register(&node, "w", &["pay"]).await;
    node.start(start("approval", "a", "{}")).await.unwrap();
    let redrive = |action: Option<&str>| Redrive {
        execution_id: "a".into(),
        action: action.map(str::to_owned),
        ..Redrive::default()
    };
    assert_eq!(node.redrive(redrive(None)).await.unwrap_err().code, Code::NotRedrivable);
    assert_eq!(node.redrive(redrive(Some("again"))).await.unwrap_err().code, Code::InvalidRequest);
    signal(&node, "a", r#"{"yes": true}"#, None).await.unwrap();
    let task = poll(&node, &session).await;
    fail(&node, &task).await;
    assert_eq!(end(&node, "a").await, "FAILED");
    assert_eq!(node.active_executions(), 0);
    assert_eq!(node.redrive(redrive(None)).await.unwrap().summary.status, "RUNNING");
    assert_eq!(node.active_executions(), 1);
    close(node).await;

    let node = open(dir.path(), settings(1)).await;
    assert_eq!(node.active_executions(), 1);
    let session = register(&node, "w", &["pay"]).await;
    pay(&node, &session).await;
    assert_eq!(end(&node, "a").await, "COMPLETED");
    assert_eq!(node.active_executions(), 0);
    close(node).await;
}
