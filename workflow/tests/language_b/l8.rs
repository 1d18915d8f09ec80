//! Children, as far as the parent decides about them (L8).

use std::sync::Arc;

use workflow::command::{Answered, Cancel, Run, Start, TimeoutDue, end_of_child};
use workflow::document::{self, Format};
use workflow::event::{Parent, TaskError};
use workflow::key::Key;

use crate::help::{Play, definitions, json, shows};

const KID: &str = "\n---\nname: kid\nversion: 1.0.0\nsteps: [{id: a, compute: '1'}]";

fn parent(steps: &str) -> String {
    format!("workflows: {{kid: {{version: 1.0.0}}}}\nsteps: [{steps}]{KID}")
}

fn child(play: &Play) -> serde_json::Value {
    play.last_of("StepScheduled")["child"].clone()
}

#[test]
fn the_id_of_a_child_is_made_of_the_parents_id_and_the_unit_key() {
    for (step, id) in [
        ("{id: a, workflow: {name: kid}}", "x.a"),
        ("{id: a, for: {each: '[1]'}, workflow: {name: kid}}", "x.a.0"),
        ("{id: a, repeat: {until: 'true'}, workflow: {name: kid}}", "x.a.1"),
        ("{id: b, retry: {max_attempts: 2}, steps: [{id: a, workflow: {name: kid}}]}", "x.b.1.a"),
    ] {
        let play = Play::start(&parent(step));
        assert_eq!(child(&play)["id"], id, "{step}");
        assert_eq!(child(&play)["workflow"], "kid");
        assert_eq!(child(&play)["version"], "1.0.0");
    }
}

#[test]
fn the_id_of_a_child_names_later_runs_and_attempts() {
    let steps = parent("{id: a, workflow: {name: kid}, retry: {max_attempts: 2, initial_delay: 1s}}");
    let start = Start { run: 2, first_created_at_ms: Some(1), ..Start::with_input(json("{}")) };
    let mut play = Play::begin(&steps, start);
    assert_eq!(child(&play)["id"], "x.a:r2");
    let error = TaskError::permanent("NO", "");
    play.tell(Answered { unit: "a", attempt: 1, result: Err(error) }).unwrap();
    play.fire("a");
    assert_eq!(child(&play)["id"], "x.a:r2:a2");
}

#[test]
fn a_failed_child_is_started_again_only_with_a_written_retry() {
    for (retry, again) in [("", false), (", retry: {max_attempts: 2}", true)] {
        let mut play = Play::start(&parent(&format!("{{id: a, workflow: {{name: kid}}{retry}}}")));
        let error = TaskError::permanent("NO", "");
        play.tell(Answered { unit: "a", attempt: 1, result: Err(error) }).unwrap();
        let last = if again { "RetryScheduled a next=2" } else { "WorkflowFailed NO compensation=none" };
        assert_eq!(play.lines().last().unwrap(), last);
    }
}

#[test]
fn a_closing_parent_waits_until_its_children_have_ended() {
    let mut play = Play::start(&parent("{id: a, for: {each: '[1, 2]'}, workflow: {name: kid}}"));
    play.cancel(false).unwrap();
    for (unit, result) in [("a[0]", Err(TaskError::permanent("CHILD_CANCELLED", ""))), ("a[1]", Ok(json("1")))] {
        assert!(!play.run.state().is_over(), "{unit} has not ended");
        play.tell(Answered { unit, attempt: 1, result }).unwrap();
    }
    assert_eq!(play.lines().last().unwrap(), "WorkflowCancelled compensation=none");
}

#[test]
fn an_id_of_a_child_has_at_most_a_thousand_characters() {
    let document = parent("{id: a, workflow: {name: kid}, on_failure: continue}");
    // Room for the attempt's number is part of it.
    for (characters, fits) in [(986, true), (987, false)] {
        let mut run = Run::new(definitions(&document).remove(0), "p".repeat(characters));
        let (_, batch) = run.handle(1, Start::with_input(json("{}"))).unwrap();
        let lines: Vec<_> = batch.events.iter().map(|recorded| recorded.event.to_string()).collect();
        let refused = lines.iter().any(|line| line == "StepFailed a PAYLOAD_TOO_LARGE handled=true");
        assert_eq!(refused, !fits, "{characters}: {lines:#?}");
    }
}

/// A child and its parent, each with what the other needs to know.
fn child_of(parent: &Play) -> Run {
    let created_at_ms = parent.history[0].timestamp_ms;
    let parent = Parent { execution_id: "x".into(), created_at_ms, run: 1, step: Key::from("a"), attempt: 1 };
    let kid = "name: kid\nversion: 1.0.0\ntimeout: 1h\nsteps: [{id: nap, sleep: 9h}]";
    let definition = document::compile(kid, Format::Yaml).unwrap().remove(0).definition;
    let mut run = Run::new(Arc::new(definition), "x.a");
    run.handle(1_000, Start { parent: Some(parent), ..Start::with_input(json("{}")) }).unwrap();
    run
}

#[test]
fn a_child_that_was_cancelled_or_timed_out_fails_its_unit_with_a_code_of_its_own() {
    for (code, cancelled) in [("CHILD_CANCELLED", true), ("CHILD_TIMED_OUT", false)] {
        let mut play = Play::start(&parent("{id: a, workflow: {name: kid}, on_failure: continue}"));
        let mut child = child_of(&play);
        assert_eq!(end_of_child(&child), None, "it runs");
        if cancelled {
            child.handle(2_000, Cancel { reason: "by hand".into(), force: false }).unwrap();
        } else {
            child.handle(1_000 + 3_600_000, TimeoutDue).unwrap();
        }
        let (told, result) = end_of_child(&child).expect("it is over");
        assert_eq!((&*told.execution_id, &*told.step, told.attempt), ("x", "a", 1));
        play.tell(Answered { unit: "a", attempt: 1, result }).unwrap();
        let failed = play.last_of("StepFailed");
        assert_eq!(failed["error"]["code"], code);
        assert_eq!(failed["error"]["details"]["child_execution_id"], "x.a");
    }
}

#[test]
fn a_parent_sees_the_last_run_of_a_child_that_continued_as_new() {
    let document = "
workflows: {laps: {version: 1.0.0}}
steps: [{id: a, workflow: {name: laps}, input: {n: 1}}]
result: '${steps.a.output}'
---
name: laps
version: 1.0.0
input: {type: object, properties: {n: {type: integer}}}
steps:
  - {id: nap, sleep: 1s}
  - {id: again, after: [nap], when: 'input.n < 3', continue_as_new: {input: {n: '${input.n + 1}'}}}
result: {last: '${input.n}'}";
    shows(document, "expect: {status: completed, of: x, output: {last: 3}, not_before: 3s}");
}
