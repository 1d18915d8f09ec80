//! What nodes answer, as far as commands look into it. Unknown members are passed over: nodes may be newer.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

/// What became of a document.
#[derive(Debug, Deserialize)]
pub(crate) struct RegisteredWorkflow {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) definition_hash: String,
    pub(crate) created: bool,
    #[serde(default)]
    pub(crate) warnings: Vec<String>,
}

/// A workflow in a list.
#[derive(Debug, Deserialize)]
pub(crate) struct WorkflowSummary {
    pub(crate) name: String,
    pub(crate) version: String,
    #[serde(default)]
    pub(crate) description: Option<String>,
    pub(crate) definition_hash: String,
    #[serde(default)]
    pub(crate) tasks: Vec<String>,
}

/// All workflows.
#[derive(Debug, Deserialize)]
pub(crate) struct Workflows {
    pub(crate) workflows: Vec<WorkflowSummary>,
}

/// A started execution.
#[derive(Debug, Deserialize)]
pub(crate) struct Started {
    pub(crate) execution_id: String,
    pub(crate) run: u32,
    pub(crate) created: bool,
}

/// A signal that an execution has.
#[derive(Debug, Deserialize)]
pub(crate) struct Signalled {
    pub(crate) execution_id: String,
    pub(crate) run: u32,
    pub(crate) signal: String,
    pub(crate) seq: u64,
    #[serde(default)]
    pub(crate) created: Option<bool>,
}

/// The answer of a query.
#[derive(Debug, Deserialize)]
pub(crate) struct QueryAnswer {
    /// None when it would be too large for an answer; what is null is `null`.
    #[serde(default, deserialize_with = "given")]
    pub(crate) value: Option<Box<RawValue>>,
}

/// Not an option of it, for which `null` would be as if nothing was said.
fn given<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

/// Why something failed.
#[derive(Debug, Deserialize)]
pub(crate) struct Failure {
    pub(crate) code: String,
    #[serde(default)]
    pub(crate) message: String,
}

/// An execution in a list.
#[derive(Debug, Deserialize)]
pub(crate) struct Summary {
    pub(crate) execution_id: String,
    pub(crate) workflow: String,
    pub(crate) version: String,
    pub(crate) status: String,
    #[serde(default)]
    pub(crate) attention: u64,
    pub(crate) created_at_ms: u64,
    #[serde(default)]
    pub(crate) finished_at_ms: Option<u64>,
    #[serde(default)]
    pub(crate) attributes: BTreeMap<String, Box<RawValue>>,
    #[serde(default)]
    pub(crate) error: Option<Failure>,
}

/// A page of executions.
#[derive(Debug, Deserialize)]
pub(crate) struct ExecutionPage {
    pub(crate) executions: Vec<Box<RawValue>>,
    #[serde(default)]
    pub(crate) next_cursor: Option<String>,
    #[serde(default)]
    pub(crate) as_of_ms: u64,
}

/// A batch that has begun, or what it would be about.
#[derive(Debug, Deserialize)]
pub(crate) struct BatchStarted {
    #[serde(default)]
    pub(crate) batch_id: Option<String>,
    pub(crate) total: u64,
    #[serde(default)]
    pub(crate) at_least: bool,
}

/// How far a batch is.
#[derive(Debug, Deserialize)]
pub(crate) struct Batch {
    pub(crate) action: String,
    pub(crate) status: String,
    #[serde(default)]
    pub(crate) stopped: bool,
    pub(crate) total: u64,
    #[serde(default)]
    pub(crate) at_least: bool,
    pub(crate) done: u64,
    pub(crate) failed: u64,
    #[serde(default)]
    pub(crate) errors: Vec<BatchFault>,
}

/// An execution that a batch could not act on.
#[derive(Debug, Deserialize)]
pub(crate) struct BatchFault {
    pub(crate) execution_id: String,
    pub(crate) code: String,
    #[serde(default)]
    pub(crate) message: String,
}

/// The state of an execution.
#[derive(Debug, Deserialize)]
pub(crate) struct State {
    pub(crate) execution_id: String,
    pub(crate) run: u32,
    pub(crate) workflow: String,
    pub(crate) version: String,
    pub(crate) status: String,
    #[serde(default)]
    pub(crate) attention: u64,
    pub(crate) created_at_ms: u64,
    #[serde(default)]
    pub(crate) finished_at_ms: Option<u64>,
    #[serde(default)]
    pub(crate) error: Option<Failure>,
    #[serde(default)]
    pub(crate) input: Option<Box<RawValue>>,
    #[serde(default)]
    pub(crate) output: Option<Box<RawValue>>,
    #[serde(default)]
    pub(crate) units: BTreeMap<String, Unit>,
    #[serde(default)]
    pub(crate) units_omitted: Option<u64>,
    #[serde(default)]
    pub(crate) waiting_for: Vec<String>,
    #[serde(default)]
    pub(crate) omitted: Vec<String>,
}

impl State {
    /// Whether this run is over.
    pub(crate) fn is_over(&self) -> bool {
        !matches!(self.status.as_str(), "RUNNING" | "PAUSED")
    }
}

/// The state of a unit.
#[derive(Debug, Deserialize)]
pub(crate) struct Unit {
    pub(crate) status: String,
    pub(crate) attempt: u32,
    #[serde(default)]
    pub(crate) error: Option<Failure>,
    #[serde(default)]
    pub(crate) worker_id: Option<String>,
    #[serde(default)]
    pub(crate) scheduled_at_ms: Option<u64>,
    #[serde(default)]
    pub(crate) deadline_ms: Option<u64>,
    #[serde(default)]
    pub(crate) wake_at_ms: Option<u64>,
    #[serde(default)]
    pub(crate) finished_at_ms: Option<u64>,
}

/// A page of units.
#[derive(Debug, Deserialize)]
pub(crate) struct UnitPage {
    pub(crate) units: BTreeMap<String, Box<RawValue>>,
    #[serde(default)]
    pub(crate) next_cursor: Option<String>,
}

/// A page of a history.
#[derive(Debug, Deserialize)]
pub(crate) struct HistoryPage {
    pub(crate) execution_id: String,
    pub(crate) run: u32,
    pub(crate) events: Vec<Box<RawValue>>,
    #[serde(default)]
    pub(crate) next: Option<u64>,
}

/// A version of a task.
#[derive(Debug, Deserialize)]
pub(crate) struct TaskVersion {
    pub(crate) task_name: String,
    pub(crate) contract_version: String,
}

/// All workers.
#[derive(Debug, Deserialize)]
pub(crate) struct Workers {
    pub(crate) workers: Vec<Worker>,
}

/// A worker.
#[derive(Debug, Deserialize)]
pub(crate) struct Worker {
    pub(crate) worker_id: String,
    pub(crate) runtime: String,
    #[serde(default)]
    pub(crate) contracts: Vec<TaskVersion>,
    pub(crate) online: bool,
    #[serde(default)]
    pub(crate) sessions: u32,
    #[serde(default)]
    pub(crate) in_flight: u64,
    #[serde(default)]
    pub(crate) last_seen_ms: u64,
}

/// A worker's session.
#[derive(Debug, Deserialize)]
pub(crate) struct Registered {
    pub(crate) worker_session_id: String,
    pub(crate) heartbeat_interval_ms: u64,
    #[serde(default)]
    pub(crate) warnings: Vec<String>,
}

/// The answer to a heartbeat.
#[derive(Debug, Deserialize)]
pub(crate) struct Alive {
    pub(crate) accepted: bool,
    #[serde(default)]
    pub(crate) cancel: Vec<String>,
}

/// Tasks, as a poll with `max_tasks` answers.
#[derive(Debug, Deserialize)]
pub(crate) struct Tasks {
    pub(crate) tasks: Vec<Task>,
}

/// A unit handed to this worker.
#[derive(Debug, Deserialize)]
pub(crate) struct Task {
    pub(crate) token: String,
    pub(crate) execution_id: String,
    pub(crate) step_id: String,
    pub(crate) task_name: String,
    pub(crate) input: Box<RawValue>,
    pub(crate) idempotency_key: String,
    pub(crate) attempt: u32,
    /// The longest silence about the task.
    #[serde(default)]
    pub(crate) heartbeat_timeout_ms: Option<u64>,
}

/// What became of a result.
#[derive(Debug, Deserialize)]
pub(crate) struct ResultAnswer {
    pub(crate) accepted: bool,
    #[serde(default)]
    pub(crate) reason: Option<String>,
}

/// What a worker hears about one task.
#[derive(Debug, Deserialize)]
pub(crate) struct TaskAlive {
    pub(crate) cancel: bool,
}
