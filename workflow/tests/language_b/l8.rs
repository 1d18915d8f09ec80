//! Children, as far as the parent decides about them (L8).

use workflow::command::{Answered, Start};
use workflow::event::TaskError;

use crate::help::{Play, json};

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
