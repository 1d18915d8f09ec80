//! One action on many executions.

use serde::Serialize;
use workflow::value::Payload;

use super::ListExecutions;

/// Begins an action on many executions.
#[derive(Clone, Debug)]
pub struct StartBatch {
    /// Which; `limit` and `cursor` do not count.
    pub filter: ListExecutions,
    /// What.
    pub action: BatchAction,
    /// They are only counted.
    pub dry_run: bool,
}

/// What is done to each execution of a batch.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // as the operations on one execution
pub enum BatchAction {
    Cancel { reason: String, force: bool },
    Pause,
    Resume,
    Redrive { steps: Option<Vec<String>>, action: Option<String>, output: Option<Payload> },
    Signal { name: String, payload: Payload },
    Delete,
}

/// A batch that has begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BatchStarted {
    /// Its id; none if the executions were only counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_id: Option<String>,
    /// How many executions fit.
    pub total: u64,
    /// There are more: counting stopped.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
}

/// How far a batch is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)] // as in docs/api.md
pub struct BatchState {
    pub batch_id: String,
    pub action: &'static str,
    /// `RUNNING` or `DONE`.
    pub status: &'static str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
    /// How many fitted when it began.
    pub total: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
    pub done: u64,
    pub failed: u64,
    /// The first hundred of those.
    pub errors: Vec<BatchFault>,
    pub created_at_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at_ms: Option<u64>,
}

/// An execution that a batch could not act on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BatchFault {
    /// Which.
    pub execution_id: String,
    /// For programs.
    pub code: String,
    /// For people.
    pub message: String,
}
