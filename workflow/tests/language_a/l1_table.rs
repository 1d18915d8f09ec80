//! L1: the table of attributes, the attempts without `retry`, and the order of attributes around a body.

use serde_json::Value as Json;
use workflow::command::Answered;
use workflow::document::{self, Format};
use workflow::event::TaskError;

use crate::help::*;

/// The columns of the table, a body or two for each.
const BODIES: &[(&str, &[&str])] = &[
    ("task", &["task: t"]),
    ("workflow", &["workflow: {name: c, version: 1.0.0}"]),
    ("steps", &["steps: [{id: y, sleep: 1s}]"]),
    ("await", &["await: {signal: s}"]),
    ("signal", &["signal: {execution: e, name: n}"]),
    ("sleep, compute", &["sleep: 1s", "sleep_until: 5", "compute: '1'"]),
    ("fail, continue_as_new", &["fail: {code: E}", "continue_as_new: {input: {}}"]),
];

/// How a cell reads: not allowed, allowed, allowed from `orbit-ir/3`.
fn cell(body: &str, attribute: &str) -> char {
    let with = |more: &str| {
        let head = "tasks: {t: {version: 1.0.0}}\nsignals: {s: {}}\nsteps: [{id: before, sleep: 1s}, ";
        document::compile(&named(&format!("{head}{{id: x, {body}{more}}}]\n")), Format::Yaml)
    };
    let version = |compiled: &[document::Compiled]| {
        let form: Json = serde_json::from_str(&compiled[0].normal_form).unwrap();
        form["ir_version"].as_str().unwrap().to_owned()
    };
    let bare = version(&with("").unwrap());
    match with(&format!(", {attribute}")) {
        Ok(compiled) if version(&compiled) == bare => '●',
        Ok(compiled) => {
            assert_eq!(version(&compiled), "orbit-ir/3");
            '③'
        }
        Err(faults) => {
            let told = faults.list()[0].to_string();
            assert!(told.contains("is not allowed on a step of the kind"), "{told}");
            '–'
        }
    }
}

/// One row, as the table has it; the columns of `steps` and `fail` are `orbit-ir/3` by themselves.
fn row(attribute: &str) -> String {
    let cells = BODIES.iter().map(|(column, bodies)| {
        let all: Vec<char> = bodies.iter().map(|body| cell(body, attribute)).collect();
        assert!(all.iter().all(|cell| *cell == all[0]), "{column}: {all:?}");
        all[0]
    });
    cells.map(String::from).collect::<Vec<_>>().join(" ")
}

#[test]
fn every_step_may_wait_and_have_a_condition() {
    assert_eq!(row("when: 'true'"), "● ● ● ● ● ● ●");
    assert_eq!(row("after: [before]"), "● ● ● ● ● ● ●");
}

#[test]
fn on_failure_stands_on_everything_that_can_fail_otherwise() {
    assert_eq!(row("on_failure: continue"), "③ ③ ● ③ ③ ③ –");
    assert_eq!(row("on_failure: [{when: 'true', then: suspend}]"), "③ ③ ● ③ ③ ③ –");
}

#[test]
fn for_stands_on_what_takes_time() {
    assert_eq!(row("for: {each: '[1]'}"), "● ● ● ③ ③ – –");
}

#[test]
fn repeat_and_deadline_stand_on_what_takes_time() {
    assert_eq!(row("repeat: {until: 'true'}"), "③ ③ ● ③ ③ – –");
    assert_eq!(row("deadline: 1s"), "③ ③ ● ③ ③ – –");
}

#[test]
fn retry_stands_on_what_has_attempts() {
    assert_eq!(row("retry: {max_attempts: 2}"), "● ● ● – ● – –");
}

#[test]
fn compensate_stands_on_what_does_something_outside() {
    assert_eq!(row("compensate: {task: t}"), "● ● ● – ③ – –");
}

#[test]
fn result_and_done_when_stand_on_blocks() {
    assert_eq!(row("result: 1"), "– – ● – – – –");
    assert_eq!(row("done_when: 'false'"), "– – ● – – – –");
}

#[test]
fn without_retry_a_task_has_three_attempts_and_everything_else_one() {
    let failing = "mocks: {t: {error: {code: E}}}, expect: {status: failed, error: E, calls: {t: ";
    let task = "tasks: {t: {version: 1.0.0}}\nsteps: [{id: x, task: t}]\n";
    shows(task, &format!("{failing}3}}}}"));
    let block =
        "tasks: {t: {version: 1.0.0}}\nsteps: [{id: box, steps: [{id: x, task: t, retry: {max_attempts: 1}}]}]\n";
    shows(block, &format!("{failing}1}}}}"));
    let child = "name: a\nversion: 1.0.0\nsteps: [{id: x, workflow: {name: c, version: 1.0.0}}]\n---\n\
                 {name: c, version: 1.0.0, steps: [{id: y, fail: {code: E}}]}\n";
    shows(child, "expect: {status: failed, error: E, of_lines: x, count: {StepScheduled: 1, StepAttemptFailed: 1}}");
    let mut signal = Driven::start("steps: [{id: x, signal: {execution: e, name: n}}]\n");
    let lost = Err(TaskError::transient("SIGNAL_BUFFER_FULL", ""));
    signal.tell(Answered { unit: "x", attempt: 1, result: lost }).unwrap();
    assert_eq!(
        signal.lines()[3..],
        [
            "StepAttemptFailed x SIGNAL_BUFFER_FULL",
            "StepFailed x SIGNAL_BUFFER_FULL handled=false",
            "StepClosing (workflow) failed",
            "WorkflowFailed SIGNAL_BUFFER_FULL compensation=none",
        ]
    );
}

/// `when` → `deadline` → `for` → `repeat` → `retry` → body.
const AROUND: &str = "id: x, when: input.go, deadline: 1h, for: {each: '[7]'}, repeat: {until: 'true'}, \
                      retry: {max_attempts: 2}, on_failure: continue";

#[test]
fn attributes_lie_around_a_task_in_one_order() {
    let body = format!("tasks: {{t: {{version: 1.0.0}}}}\nsteps: [{{{AROUND}, task: t}}]\n");
    let mocks = "mocks: {t: [{times: 1, error: {code: E}}, {}]}";
    let lines = shows(&body, &format!("input: {{go: true}}, {mocks}, expect: {{status: completed}}"));
    assert_eq!(
        order(&lines)[2..],
        [
            "TimerStarted deadline:x",
            "StepFanOut x 1 items",
            "StepOpened x[0]",
            "StepScheduled x[0]#1 attempt=1",
            "StepDispatched x[0]#1",
            "StepAttemptFailed x[0]#1 E",
            "RetryScheduled x[0]#1 next=2",
            "TimerFired x[0]#1",
            "StepScheduled x[0]#1 attempt=2",
            "StepDispatched x[0]#1",
            "StepSucceeded x[0]#1",
            "StepSucceeded x[0]",
            "StepSucceeded x",
            "WorkflowCompleted",
        ]
    );
    let lines = shows(&body, "input: {go: false}, expect: {status: completed}");
    assert_eq!(order(&lines)[2..], ["StepSkipped x", "WorkflowCompleted"], "not even a deadline");
}

#[test]
fn attributes_lie_around_a_block_in_the_same_order() {
    let inside = "[{id: y, task: t, retry: {max_attempts: 1}}]";
    let body = format!("tasks: {{t: {{version: 1.0.0}}}}\nsteps: [{{{AROUND}, steps: {inside}}}]\n");
    let mocks = "mocks: {t: [{times: 1, error: {code: E}}, {}]}";
    let lines = shows(&body, &format!("input: {{go: true}}, {mocks}, expect: {{status: completed}}"));
    let opened = order(&lines).into_iter().filter(|line| !line.contains(".y")).collect::<Vec<_>>();
    assert_eq!(
        opened[2..],
        [
            "TimerStarted deadline:x",
            "StepFanOut x 1 items",
            "StepOpened x[0]",
            "StepOpened x[0]#1",
            "StepClosing x[0]#1~1 failed",
            "RetryScheduled x[0]#1 next=2",
            "TimerFired x[0]#1",
            "StepOpened x[0]#1 attempt=2",
            "StepSucceeded x[0]#1",
            "StepSucceeded x[0]",
            "StepSucceeded x",
            "WorkflowCompleted",
        ]
    );
}

/// A wait has no `retry`; a signal no block inside.
#[test]
fn attributes_lie_around_a_wait_and_a_signal_in_the_same_order() {
    let around = AROUND.replace("retry: {max_attempts: 2}, ", "");
    let body = format!("signals: {{s: {{}}}}\nsteps: [{{{around}, await: {{signal: s}}}}]\n");
    let lines = shows(&body, "input: {go: true}, signals: [{at: 1s, name: s}], expect: {status: completed}");
    assert_eq!(
        order(&lines)[2..],
        [
            "TimerStarted deadline:x",
            "StepFanOut x 1 items",
            "StepOpened x[0]",
            "StepOpened x[0]#1",
            "SignalReceived s",
            "SignalConsumed x[0]#1 signal_seq=7",
            "StepSucceeded x[0]#1",
            "StepSucceeded x[0]",
            "StepSucceeded x",
            "WorkflowCompleted",
        ]
    );
    let body = format!("steps: [{{{AROUND}, signal: {{execution: e, name: n}}}}]\n");
    let lines = shows(&body, "input: {go: true}, expect: {status: completed}");
    assert_eq!(
        order(&lines)[2..6],
        ["TimerStarted deadline:x", "StepFanOut x 1 items", "StepOpened x[0]", "StepScheduled x[0]#1 attempt=1",]
    );
}
