//! What is started, what its tasks do, and how it may end.

use std::time::Duration;

use orbit_harness::{Job, Plan};
use rand::Rng;
use rand::rngs::SmallRng;
use serde_json::{Value, json};

/// Chains with failures that pass, sagas that fail and undo, fan-outs, sleeps, long tasks with signs of life,
/// children on other shards, signals.
pub const DOCUMENTS: &str = r#"
name: chain
version: 1.0.0
tasks: {do.step: {version: 1.0.0}, do.flaky: {version: 1.0.0}}
steps:
  - {id: a, task: do.step, input: {n: "${input.n}"}}
  - {id: b, task: do.flaky, input: {from: "${steps.a.output.by}"}, retry: {max_attempts: 5, initial_delay: 50ms}}
  - {id: c, task: do.step, input: {from: "${steps.b.output.by}"}}
result: {by: "${steps.c.output.by}"}
---
name: saga
version: 1.0.0
tasks: {do.step: {version: 1.0.0}, do.flaky: {version: 1.0.0}, do.decline: {version: 1.0.0}, do.undo: {version: 1.0.0}}
steps:
  - {id: flight, task: do.step, compensate: {task: do.undo, input: {by: "${output.by}", key: "${idempotency_key}"}}}
  - {id: hotel, after: [flight], task: do.flaky, retry: {max_attempts: 5, initial_delay: 50ms},
     compensate: {task: do.undo, input: {by: "${output.by}", key: "${idempotency_key}"}}}
  - {id: car, after: [hotel], task: do.step,
     compensate: {task: do.undo, input: {by: "${output.by}", key: "${idempotency_key}"}}}
  - {id: pay, after: [car], task: do.decline}
---
name: fan
version: 1.0.0
tasks: {do.step: {version: 1.0.0}}
steps:
  - {id: each, for: {each: "range(20)", as: i}, task: do.step, input: {i: "${i}"}}
  - {id: sum, task: do.step, input: {count: "${steps.each.output.size()}"}}
---
name: nap
version: 1.0.0
tasks: {do.step: {version: 1.0.0}}
steps:
  - {id: nap, sleep: "${input.ms}"}
  - {id: wake, after: [nap], task: do.step}
---
name: long
version: 1.0.0
tasks: {do.long: {version: 1.0.0}}
steps:
  - {id: work, task: do.long, heartbeat_timeout: 5s, retry: {max_attempts: 10, initial_delay: 50ms}}
---
name: leaf
version: 1.0.0
tasks: {do.step: {version: 1.0.0}}
steps:
  - {id: one, task: do.step}
  - {id: nap, after: [one], sleep: 30ms}
result: {by: "${steps.one.output.by}"}
---
name: tree
version: 1.0.0
workflows: {leaf: {version: 1.0.0}}
steps:
  - {id: leaves, for: {each: "range(5)", concurrency: 2}, workflow: {name: leaf}}
  - {id: last, after: [leaves], workflow: {name: leaf}}
result: {count: "${steps.leaves.output.size()}"}
---
name: log
version: 1.0.0
signals: {add: {type: object}}
steps:
  - {id: all, await: {signal: add, until: "count == 12"}}
result: {all: "${steps.all.output}"}
"#;

/// Task names with their versions.
pub const TASKS: [(&str, &str); 5] =
    [("do.step", "1.0.0"), ("do.flaky", "1.0.0"), ("do.decline", "1.0.0"), ("do.undo", "1.0.0"), ("do.long", "1.0.0")];

/// A workflow to start, with its input.
pub fn pick(dice: &mut SmallRng) -> (&'static str, Value) {
    match dice.random_range(0..13) {
        0..4 => ("chain", json!({"n": dice.random_range(0..1_000_000)})),
        4..6 => ("saga", json!({"n": dice.random_range(0..1_000_000)})),
        6 => ("fan", json!({"n": dice.random_range(0..1_000_000)})),
        7..9 => ("nap", json!({"ms": dice.random_range(50..=500)})),
        9 => ("long", json!({"n": dice.random_range(0..1_000_000)})),
        10..12 => ("tree", json!({"n": dice.random_range(0..1_000_000)})),
        _ => ("log", json!({"n": dice.random_range(0..1_000_000)})),
    }
}

/// Steps of a workflow that say how they are undone.
pub fn compensated(workflow: &str) -> &'static [&'static str] {
    if workflow == "saga" { &["flight", "hotel", "car"] } else { &[] }
}

/// Whether it may end like this. A child of a cancelled parent may have been done before.
pub fn may_end(workflow: &str, end: &str, cancelled: bool) -> bool {
    if workflow == "leaf" && cancelled && end == "WorkflowCompleted" {
        return true;
    }
    let due = if workflow == "saga" { "WorkflowFailed" } else { "WorkflowCompleted" };
    if cancelled { end == "WorkflowCancelled" } else { end == due }
}

/// How a task goes: the same for every hand-over of an attempt.
pub fn plan(job: &Job) -> Plan {
    let hash = u64::from_str_radix(&job.idempotency_key[..8], 16).unwrap();
    let failure = match job.task_name.as_str() {
        "do.flaky" if job.attempt == 1 && hash.is_multiple_of(2) => Some(("BUSY", true)),
        "do.decline" => Some(("DECLINED", false)),
        _ => None,
    };
    let long = job.task_name == "do.long";
    let work = Duration::from_millis(if long { 600 } else { hash % 15 });
    Plan {
        work,
        failure: failure.map(|(code, retryable): (&str, bool)| (code.to_owned(), retryable)),
        heartbeats: long,
        until: None,
    }
}

/// How many signals `log` waits for.
pub const SIGNALS: usize = 12;
