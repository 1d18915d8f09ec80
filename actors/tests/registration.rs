//! What is registered, and whom the tasks and runs of it belong to.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::time::Duration;

use orbit_actors::api::{Complete, Register, StartExecution, TaskVersion};
use orbit_actors::error::Code;
use support::{close, complete, deploy, json, open, poll, register, settings, start, within, worker};
use workflow::command::Token;
use workflow::document::Format;
use workflow::event::Event;

fn step(version: &str, value: u32) -> String {
    format!("name: w\nversion: {version}\nsteps: [{{id: s, compute: \"{value}\"}}]\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_document_again_is_no_news_and_another_under_its_name_and_version_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(1)).await;
    let first = node.deploy(&step("1.0.0", 1), Format::Yaml).await.unwrap();
    assert!(first[0].created);
    // A comment is not part of what the document means.
    let again = node.deploy(&format!("# again\n{}", step("1.0.0", 1)), Format::Yaml).await.unwrap();
    assert_eq!((again[0].created, &again[0].definition_hash), (false, &first[0].definition_hash));
    let other = node.deploy(&step("1.0.0", 2), Format::Yaml).await.unwrap_err();
    assert_eq!(other.code, Code::DefinitionConflict);
    close(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_latest_is_the_highest_release_and_a_pre_release_only_without_one() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(1)).await;
    for (deployed, latest) in [
        ("1.0.0-alpha.2", "1.0.0-alpha.2"),
        ("1.0.0-alpha.10", "1.0.0-alpha.10"),
        ("0.9.0", "0.9.0"),
        ("1.10.0", "1.10.0"),
        ("1.9.0", "1.10.0"),
        ("2.0.0-rc.1", "1.10.0"),
    ] {
        deploy(&node, &step(deployed, 1)).await;
        assert_eq!(node.workflow("w", None).await.unwrap().version, latest, "after {deployed}");
        let started = node.start(StartExecution { workflow: "w".into(), input: json("{}"), ..Default::default() });
        let id = started.await.unwrap().execution_id;
        assert_eq!(node.show(&id, None).await.unwrap().summary.version, latest, "after {deployed}");
    }
    close(node).await;
}

fn worker_of(id: &str, runtime: &str, version: &str) -> Register {
    let contract = TaskVersion { task_name: "work".to_owned(), contract_version: version.to_owned() };
    Register { runtime: runtime.to_owned(), contracts: vec![contract], ..worker(id, &[]) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_goes_only_to_workers_of_its_very_version_and_language() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(1)).await;
    let document = "name: w\nversion: 1.0.0\ntasks: {work: {version: 1.2.0}}\n\
                    steps: [{id: any, task: work}, {id: python, after: [any], task: work, language: python}]\n";
    deploy(&node, document).await;
    let others = [("older", "rust", "1.1.0"), ("newer", "rust", "1.2.1"), ("pre", "rust", "1.2.0-rc.1")];
    let mut wrong = Vec::new();
    for (id, runtime, version) in others {
        wrong.push(node.register(worker_of(id, runtime, version)).await.unwrap());
    }
    let rust = node.register(worker_of("rust", "rust", "1.2.0")).await.unwrap();
    let python = node.register(worker_of("python", "python", "1.2.0")).await.unwrap();
    node.start(start("w", "a", "{}")).await.unwrap();
    for session in &wrong {
        let none = node.poll(&session.worker_session_id, 1, Duration::from_millis(50)).await.unwrap();
        assert!(none.is_empty(), "{none:?}");
    }
    let any = poll(&node, &rust).await;
    assert_eq!((any.step_id.as_str(), any.contract_version.as_str()), ("any", "1.2.0"));
    complete(&node, &any, "{}").await;
    let none = node.poll(&rust.worker_session_id, 1, Duration::from_millis(50)).await.unwrap();
    assert!(none.is_empty(), "{none:?}");
    let task = poll(&node, &python).await;
    assert_eq!(task.step_id, "python");
    complete(&node, &task, "{}").await;
    assert_eq!(node.wait("a", Duration::from_secs(18)).await.unwrap().summary.status, "COMPLETED");
    close(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_next_run_keeps_its_id_and_the_definition_that_it_began_with() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(1)).await;
    let laps = |version: &str, last: &str| {
        let again = r#"when: input.n < 2, continue_as_new: {input: {n: "${input.n + 1}"}}"#;
        format!(
            "name: laps\nversion: {version}\ntasks: {{work: {{version: 1.0.0}}}}\nsteps:\n  \
             - {{id: lap, task: work}}\n  - {{id: again, after: [lap], {again}}}\nresult: {last}\n"
        )
    };
    deploy(&node, &laps("1.0.0", "old")).await;
    let session = register(&node, "w", &["work"]).await;
    node.start(start("laps", "a", r#"{"n": 1}"#)).await.unwrap();
    let task = poll(&node, &session).await;
    deploy(&node, &laps("1.1.0", "new")).await;
    complete(&node, &task, "{}").await;
    let task = poll(&node, &session).await;
    assert_eq!((task.execution_id.as_str(), task.run, task.workflow_version.as_str()), ("a", 2, "1.0.0"));
    complete(&node, &task, "{}").await;
    let end = node.wait("a", Duration::from_secs(18)).await.unwrap();
    assert_eq!((end.summary.run, end.output.unwrap().as_str()), (2, "\"old\""));
    close(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_shown_without_its_random_part_and_is_none_then() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(1)).await;
    let document = "name: w\nversion: 1.0.0\ntasks: {work: {version: 1.0.0}}\nsteps: [{id: s, task: work}]\n";
    deploy(&node, document).await;
    let session = register(&node, "w", &["work"]).await;
    node.start(start("w", "a", "{}")).await.unwrap();
    let task = poll(&node, &session).await;
    let token: Token = task.token.parse().unwrap();
    assert_ne!(token.nonce, [0; 8]);
    let history = node.history("a", None, 1, 100).await.unwrap().events;
    let told = history.iter().find_map(|recorded| match &recorded.event {
        Event::StepDispatched(dispatched) => Some(dispatched.token.clone()),
        _ => None,
    });
    let told = told.expect("it was handed over");
    assert_eq!(told.parse(), Ok(Token { nonce: [0; 8], ..token }), "all but the random part");
    let state = format!("{:?}", node.show("a", None).await.unwrap());
    assert!(!state.contains(&task.token), "{state}");
    let stolen = Complete { token: told, output: json("{}"), ..Default::default() };
    assert!(!node.complete(stolen).await.unwrap().accepted, "who reads a history completes nothing");
    complete(&node, &task, "{}").await;
    close(node).await;
}

/// Two parents whose children would have the same id: it belongs to the one that came first (L8).
#[tokio::test(flavor = "multi_thread")]
async fn a_child_knows_its_parent_and_is_nobody_elses() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), settings(4)).await;
    let family = "name: long\nversion: 1.0.0\nworkflows: {kid: {version: 1.0.0}}\n\
                  steps: [{id: x, steps: [{id: y, workflow: {name: kid}}]}]\n---\n\
                  name: short\nversion: 1.0.0\nworkflows: {kid: {version: 1.0.0}}\n\
                  steps: [{id: y, workflow: {name: kid}}]\n---\n\
                  name: kid\nversion: 1.0.0\nsignals: {go: {}}\nsteps: [{id: wait, await: {signal: go}}]\n";
    deploy(&node, family).await;
    node.start(start("long", "p", "{}")).await.unwrap();
    let begun = async { while node.show("p.x.y", None).await.is_err() {} };
    within(20, "the child", begun).await;
    node.start(start("short", "p.x", "{}")).await.unwrap();
    let end = node.wait("p.x", Duration::from_secs(18)).await.unwrap();
    assert_eq!((end.summary.status, end.error.unwrap().code.as_str()), ("FAILED", "CHILD_ID_TAKEN"));
    let created = node.history("p.x.y", None, 1, 1).await.unwrap().events.remove(0);
    let Event::WorkflowCreated(created) = created.event else { panic!("{created:?}") };
    let parent = created.parent.expect("it is a child");
    let since = node.history("p", None, 1, 1).await.unwrap().events[0].timestamp_ms;
    assert_eq!((&*parent.execution_id, parent.created_at_ms, parent.run), ("p", since, 1));
    assert_eq!((&*parent.step, parent.attempt), ("x.y", 1));
    assert_eq!(node.show("p.x.y", None).await.unwrap().summary.status, "RUNNING");
    node.cancel("p", "enough", false).await.unwrap();
    assert_eq!(node.wait("p", Duration::from_secs(18)).await.unwrap().summary.status, "CANCELLED");
    assert_eq!(node.wait("p.x.y", Duration::from_secs(18)).await.unwrap().summary.status, "CANCELLED");
    close(node).await;
}
