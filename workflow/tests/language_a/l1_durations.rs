//! L1: durations, where they may be evaluated, and names that are chosen by an expression.

use serde_json::json as js;
use workflow::command::Expiry;
use workflow::event::TaskError;

use crate::help::*;

#[test]
fn durations_have_five_units_or_none() {
    let sleep = |text: &str| format!("steps: [{{id: x, sleep: {text}}}]\n");
    for (text, ms) in [
        ("250ms", 250_u64),
        ("30s", 30_000),
        ("10m", 600_000),
        ("1h30m", 5_400_000),
        ("7d", 604_800_000),
        ("1500", 1_500),
        ("0", 0),
    ] {
        let form: serde_json::Value = serde_json::from_str(&compile(&sleep(text)).normal_form).unwrap();
        assert_eq!(form["steps"][0]["sleep"], js!(ms), "{text}");
    }
    for text in ["soon", "-1s", "10 m", "1w", "m", "''", "-1", "1.5", "'30'"] {
        fault(&sleep(text));
    }
}

const EVALUATED: &str = r#"
tasks: {t: {version: 1.0.0}}
signals: {s: {}}
steps:
  - {id: nap, sleep: "${input.ms}"}
  - {id: wait, await: {signal: s, timeout: "${input.ms * 2}", on_timeout: continue}}
  - {id: late, steps: [{id: rest, sleep: 1h}], deadline: "${input.ms * 3}", on_deadline: continue}
  - id: work
    task: t
    timeout: "${input.ms * 4}"
    queue_timeout: "${input.ms * 5}"
    heartbeat_timeout: "${input.ms * 6}"
    retry: {initial_delay: "${input.ms * 7}", max_delay: "${input.ms * 100}", jitter: 0}
  - {id: many, task: t, for: {each: "range(4)", concurrency: "${input.n}", max_failures: "${input.n + 1}"}}
  - {id: poll, steps: [{id: look, compute: "1"}], repeat: {until: "iteration == 2", delay: "${input.ms * 8}"}}
"#;

#[test]
fn durations_and_numbers_may_be_evaluated_and_are_recorded() {
    let mut driven = Driven::start_with(EVALUATED, r#"{"ms": 1000, "n": 2}"#).unwrap();
    let event = |kind: &str, step: &str| {
        let found =
            driven.history.iter().find(|e| e.event.name() == kind && e.event.step().is_some_and(|s| **s == *step));
        serde_json::from_str::<serde_json::Value>(&found.unwrap().to_json()).unwrap()
    };
    for (timer, ms) in [("nap", 1_000), ("wait", 2_000), ("deadline:late", 3_000), ("poll#2", 8_000)] {
        assert_eq!(event("TimerStarted", timer)["fire_at_ms"], js!(1_000 + ms), "{timer}");
    }
    let work = event("StepScheduled", "work");
    assert_eq!([&work["timeout_ms"], &work["queue_timeout_ms"], &work["heartbeat_timeout_ms"]], [4_000, 5_000, 6_000]);
    let many = event("StepFanOut", "many");
    assert_eq!([&many["concurrency"], &many["max_failures"]], [2, 3]);
    let token = driven.hand_over("work");
    driven.fail(&token, TaskError::transient("E", ""));
    assert_eq!(driven.last_of("RetryScheduled")["delay_ms"], 7_000);
}

/// `history_events` moves with every event, so a second evaluation would show.
#[test]
fn what_is_evaluated_is_evaluated_once() {
    let body = r#"
tasks: {t: {version: 1.0.0}}
steps:
  - id: x
    task: t
    timeout: "${execution.history_events * 1000}"
    for: {each: "[1, 2, 3]", concurrency: "${execution.history_events}"}
  - {id: nap, sleep: "${execution.history_events}"}
"#;
    let mut driven = Driven::start(body);
    let first = driven.last_of("StepScheduled")["timeout_ms"].clone();
    assert_eq!(driven.last_of("StepFanOut")["concurrency"], 2);
    driven.hand_over("x[1]");
    driven.expire("x[1]", Expiry::Timeout);
    driven.fire("x[1]");
    let again = driven.last_of("StepScheduled");
    assert_eq!((&again["step"], &again["attempt"], &again["timeout_ms"]), (&js!("x[1]"), &js!(2), &first));
    assert!(!driven.lines().contains(&"StepScheduled x[2] attempt=1".to_owned()), "two at a time, as at the beginning");
    driven.fire("nap");
    let started = driven.lines().iter().filter(|line| *line == "TimerStarted nap").count();
    assert_eq!(started, 1);
}

const CHOSEN: &str = r#"
name: a
version: 1.0.0
tasks: {t.one: {version: 1.0.0}, t.two: {version: 2.0.0}}
workflows: {c.one: {version: 1.0.0}}
steps:
  - {id: x, task: "t.${input.task}", retry: {max_attempts: 3}, on_failure: continue}
  - {id: y, workflow: {name: "${input.child}"}, retry: {max_attempts: 3}, on_failure: continue}
result: {x: "${steps.x.error.code}", y: "${steps.y.error.code}"}
---
{name: c.one, version: 1.0.0, steps: [{id: z, compute: "1"}]}
---
{name: c.two, version: 1.0.0, steps: [{id: z, compute: "1"}]}
"#;

#[test]
fn a_chosen_name_must_be_declared() {
    let body = CHOSEN.trim_start();
    shows(body, "input: {task: two, child: c.one}, expect: {status: completed, output: {x: null, y: null}}");
    let output = "{x: UNKNOWN_TASK, y: UNKNOWN_WORKFLOW}";
    let none = "excludes: [StepScheduled, StepAttemptFailed, RetryScheduled]";
    // c.two is registered, and not declared.
    shows(
        body,
        &format!("input: {{task: three, child: c.two}}, expect: {{status: completed, output: {output}, {none}}}"),
    );
}

#[test]
fn the_chosen_name_is_in_the_event() {
    let events = "[{type: StepScheduled, step: x, queue: {task: t.two, version: 2.0.0}}, \
                  {type: StepScheduled, step: y, child: {id: x.y, workflow: c.one, version: 1.0.0}}]";
    let case = format!("input: {{task: two, child: c.one}}, expect: {{status: completed, events_like: {events}}}");
    shows(CHOSEN.trim_start(), &case);
}

#[test]
fn built_in_tasks_need_no_contract_and_can_have_none() {
    let driven = Driven::start("steps: [{id: x, task: orbit.http.request, input: {url: 'http://a'}}]\n");
    assert_eq!(driven.last_of("StepScheduled")["queue"], js!({"task": "orbit.http.request"}));
    fault("steps: [{id: x, task: orbit.http.requests}]\n");
    fault("tasks: {orbit.http.request: {version: 1.0.0}}\nsteps: [{id: x, task: orbit.http.request}]\n");
    fault("tasks: {orbit.mine: {version: 1.0.0}}\nsteps: [{id: x, task: orbit.mine}]\n");
}
