//! What can be asked of a node, and what it answers: the words of every surface.
//!
//! Answers serialize as the JSON of the HTTP surface; payloads are embedded byte for byte.

use std::collections::BTreeMap;

use serde::Serialize;
use workflow::event::{Compensation, Parent, TaskError};
use workflow::value::{Payload, Value};

mod batch;
mod check;
mod node;

pub use crate::check::RULES as CHECK_RULES;
pub use batch::{BatchAction, BatchFault, BatchStarted, BatchState, StartBatch};
pub use check::{CheckReport, Finding, ReplicaCheck, ShardCheck};
pub use node::{NodeCondition, NodeSummary, ShardHealth};

/// Starts an execution.
#[derive(Clone, Debug, Default)]
pub struct StartExecution {
    /// The workflow's name.
    pub workflow: String,
    /// Its version; the latest if absent.
    pub version: Option<String>,
    /// JSON.
    pub input: Payload,
    /// Made up if absent.
    pub execution_id: Option<String>,
    /// Shares a priority by turns.
    pub fairness_key: Option<String>,
    /// 1 to 5, 1 first.
    pub priority: Option<u8>,
    /// W3C trace context of the caller.
    pub traceparent: Option<String>,
}

/// A started execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Started {
    /// Its id.
    pub execution_id: String,
    /// Its run.
    pub run: u32,
    /// Whether it is new.
    pub created: bool,
}

/// Most bytes of the name of a signal or query, and of a sender's name for a signal.
pub const SIGNAL_NAME_BYTES_MAX: usize = 200;

/// Sends a signal to an execution.
#[derive(Clone, Debug, Default)]
pub struct SendSignal {
    /// The execution.
    pub execution_id: String,
    /// The signal's name.
    pub signal: String,
    /// JSON.
    pub payload: Payload,
    /// The sender's name for it: a repetition is answered as the first time.
    pub dedup_id: Option<String>,
    /// The execution is started if it is not there; its id is the one above.
    pub start: Option<StartExecution>,
}

/// A signal that is in the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Signalled {
    /// The execution.
    pub execution_id: String,
    /// The run that got it.
    pub run: u32,
    /// Its name.
    pub signal: String,
    /// Always true.
    pub accepted: bool,
    /// The place of its event.
    pub seq: u64,
    /// Whether the execution is new, if a start was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<bool>,
}

/// Lets a failed execution go on, or moves suspended units.
#[derive(Clone, Debug, Default)]
pub struct Redrive {
    /// The execution.
    pub execution_id: String,
    /// Which units, by key; all that failed, were cancelled or are suspended if absent.
    pub steps: Option<Vec<String>>,
    /// `retry`, `resolve` or `fail`; `retry` if absent.
    pub action: Option<String>,
    /// What resolved ones yield; null if absent.
    pub output: Option<Payload>,
}

/// The answer of a query.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QueryAnswer {
    /// The execution.
    pub execution_id: String,
    /// The query's name.
    pub query: String,
    /// What its expression gives now, if that is at most 3 MiB of JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// What was left out because the answer would be too large.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub omitted: Vec<&'static str>,
}

/// Status of an execution or unit as it stands on the wire: upper case.
pub type StatusWord = &'static str;

/// An execution in a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)] // as in docs/api.md
pub struct Summary {
    pub execution_id: String,
    pub run: u32,
    pub workflow: String,
    pub version: String,
    pub definition_hash: String,
    pub status: StatusWord,
    /// Suspended units.
    pub attention: u64,
    pub created_at_ms: u64,
    pub updated_at_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at_ms: Option<u64>,
    pub attributes: BTreeMap<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorSummary>,
}

/// Why an execution failed, in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ErrorSummary {
    /// For programs.
    pub code: String,
    /// For people.
    pub message: String,
}

/// The state of an execution. At most 3 MiB as JSON: `omitted` says what was left out, `units_omitted` how many units.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)] // as in docs/api.md
pub struct ExecutionState {
    #[serde(flatten)]
    pub summary: Summary,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Payload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Payload>,
    /// The whole error; that of the summary is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<TaskError>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compensation: Option<Compensation>,
    pub units: BTreeMap<String, UnitState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub units_omitted: Option<u64>,
    pub waiting_for: Vec<String>,
    /// It met an error inside the runtime: nothing happens to it until its shard has another leader or the node starts
    /// again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub internal_error: Option<ErrorSummary>,
    pub last_seq: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub omitted: Vec<&'static str>,
}

/// The state of a unit.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)] // as in docs/api.md
pub struct UnitState {
    pub status: StatusWord,
    pub attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Payload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<TaskError>,
    pub redelivery: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduled_at_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispatched_at_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wake_at_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// A page of units.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnitPage {
    /// The units by key.
    pub units: BTreeMap<String, UnitState>,
    /// For the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A run of an execution.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)] // as in docs/api.md
pub struct RunSummary {
    pub run: u32,
    pub status: StatusWord,
    pub created_at_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at_ms: Option<u64>,
}

/// Which executions are wanted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListExecutions {
    /// In upper case.
    pub status: Option<StatusWord>,
    /// A workflow's name.
    pub workflow: Option<String>,
    /// A workflow's version.
    pub version: Option<String>,
    /// Created at or after this, ms.
    pub since_ms: Option<u64>,
    /// Created before this, ms.
    pub until_ms: Option<u64>,
    /// Only those with suspended units.
    pub attention: bool,
    /// Only those whose attributes have these values, as text.
    pub attributes: BTreeMap<String, String>,
    /// How many at most.
    pub limit: usize,
    /// Where the page before ended.
    pub cursor: Option<String>,
}

/// A page of executions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExecutionPage {
    /// Newest first.
    pub executions: Vec<Summary>,
    /// For the next page. A short page with a cursor is not the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// As of when, ms.
    pub as_of_ms: u64,
}

/// A page of a history.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HistoryPage {
    /// The execution.
    pub execution_id: String,
    /// Its run.
    pub run: u32,
    /// Events in order; tokens without their random part.
    pub events: Vec<workflow::event::Recorded>,
    /// The next event to ask for; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// What became of a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RegisteredWorkflow {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its hash.
    pub definition_hash: String,
    /// Whether it is new.
    pub created: bool,
    /// What is allowed and probably not meant.
    pub warnings: Vec<String>,
}

/// A workflow in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)] // as in docs/api.md
pub struct WorkflowSummary {
    pub name: String,
    pub version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub definition_hash: String,
    pub steps: Vec<String>,
    pub tasks: Vec<String>,
}

/// A registered definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredWorkflow {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its hash.
    pub definition_hash: String,
    /// The normal form, canonical JSON.
    pub normal_form: String,
    /// The author's text as it came, with all documents of its source.
    pub source: String,
}

/// A version of a task.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct TaskVersion {
    /// The task.
    pub task_name: String,
    /// The version of its contract.
    pub contract_version: String,
}

/// Makes a worker known, or resumes its session.
#[derive(Clone, Debug, Default)]
pub struct Register {
    /// Who it is.
    pub worker_id: String,
    /// Its language.
    pub runtime: String,
    /// Its library.
    pub sdk: Option<String>,
    /// What it can carry out.
    pub contracts: Vec<TaskVersion>,
    /// How many tasks it takes at a time, for display.
    pub slots: Option<u32>,
    /// All tokens that it holds.
    pub tokens: Vec<String>,
    /// An earlier session.
    pub worker_session_id: Option<String>,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)] // as in docs/api.md
pub struct Registered {
    pub accepted: bool,
    pub worker_session_id: String,
    pub heartbeat_interval_ms: u64,
    pub session_timeout_ms: u64,
    pub warnings: Vec<String>,
}

/// What a worker hears back from a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Alive {
    /// Whether the session is known.
    pub accepted: bool,
    /// Listed tokens that are no longer live.
    pub cancel: Vec<String>,
}

/// A unit handed to a worker.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)] // as in docs/api.md
pub struct Task {
    pub token: String,
    pub execution_id: String,
    pub run: u32,
    pub workflow: String,
    pub workflow_version: String,
    pub step_id: String,
    pub task_name: String,
    pub contract_version: String,
    pub input: Payload,
    pub idempotency_key: String,
    pub attempt: u32,
    pub redelivery: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat_timeout_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_details: Option<Payload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

/// A success.
#[derive(Clone, Debug, Default)]
pub struct Complete {
    /// The hand-over.
    pub token: String,
    /// JSON.
    pub output: Payload,
    /// Who takes more work with the answer.
    pub worker_session_id: Option<String>,
    /// How many more.
    pub free_slots: u32,
}

/// A failure.
#[derive(Clone, Debug)]
pub struct Fail {
    /// The hand-over.
    pub token: String,
    /// For programs.
    pub error_code: String,
    /// For people.
    pub error_message: String,
    /// Whether another try may help.
    pub retryable: bool,
    /// Whether it may have happened all the same.
    pub unknown: bool,
    /// Any JSON.
    pub details: Option<Payload>,
    /// Who takes more work with the answer.
    pub worker_session_id: Option<String>,
    /// How many more.
    pub free_slots: u32,
}

/// What became of a result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResultAnswer {
    /// Whether it counts.
    pub accepted: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Further tasks, if a session and a free slot were named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<Vec<Task>>,
}

/// What a worker hears about one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TaskAlive {
    /// Whether the hand-over is live.
    pub accepted: bool,
    /// Stop that work.
    pub cancel: bool,
}

/// A worker as operators see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)] // as in docs/api.md
pub struct WorkerSummary {
    pub worker_id: String,
    pub runtime: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sdk: Option<String>,
    pub contracts: Vec<TaskVersion>,
    pub online: bool,
    pub sessions: u32,
    pub in_flight: u64,
    pub last_seen_ms: u64,
}

/// What goes out to a worker on its stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Delivery {
    /// A task for one of its slots. It needs a receipt.
    Task(Box<Task>),
    /// Stop the work under this token.
    Cancel(String),
    /// The node goes away.
    Drain,
}
