//! `done_when` implies no dependency (L2): what it names outside of its block may change while nothing happens inside.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use workflow::command::{Complete, OfferTaken, Run, Start};
use workflow::document::{self, Format};
use workflow::value::Payload;

fn ends_when_a_is_done(document: &str) -> Vec<String> {
    let definition = document::compile(document, Format::Yaml).unwrap().remove(0).definition;
    let mut run = Run::new(Arc::new(definition), "x");
    run.handle(0, Start::with_input(Payload::parse("{}").unwrap())).unwrap();
    let offer = OfferTaken { unit: "a", worker_id: "w", worker_session: "s", nonce: [1; 8] };
    let (token, _) = run.handle(0, offer).unwrap();
    let (_, batch) = run.handle(0, Complete { token: &token, output: Payload::null() }).unwrap();
    batch.events.iter().map(|recorded| recorded.event.to_string()).collect()
}

#[test]
fn a_block_closes_when_a_step_beside_it_is_done() {
    let events = ends_when_a_is_done(
        r#"
name: beside
version: 1.0.0
tasks: {t.a: {version: 1.0.0}, t.b: {version: 1.0.0}}
steps:
  - {id: a, task: t.a}
  - id: b
    done_when: "steps.a.status == 'succeeded'"
    steps: [{id: c, task: t.b}]
"#,
    );
    let expected =
        ["StepSucceeded a", "StepClosing b done", "StepCancelled b.c", "StepSucceeded b", "WorkflowCompleted"];
    assert_eq!(events, expected);
}

#[test]
fn a_fan_out_closes_when_a_step_beside_it_is_done() {
    let document = r#"
name: beside
version: 1.0.0
tasks: {t.a: {version: 1.0.0}, t.b: {version: 1.0.0}}
steps:
  - {id: a, task: t.a}
  - id: b
    for: {each: "[1, 2]", done_when: "steps.a.status == 'succeeded' && total == 2"}
    compute: "1"
"#;
    // A computation takes no `for`; a block does.
    assert!(document::compile(document, Format::Yaml).is_err());
    let document = document
        .replace("compute: \"1\"", "steps: [{id: c, compute: \"item\"}, {id: d, task: t.b, when: \"index == 1\"}]");
    let events = ends_when_a_is_done(&document);
    assert_eq!(events[0], "StepSucceeded a");
    assert_eq!(events[1], "StepClosing b done", "one element is resolved, the other is open: {events:?}");
}
