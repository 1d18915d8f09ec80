//! Errors of units, and the codes that only Orbit gives (L13).

use serde::Deserialize;

use super::sparse::sparse;
use crate::value::Payload;

/// Why a unit or an execution failed.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct TaskError {
    /// `[A-Z][A-Z0-9_]*`: for programs.
    pub code: String,
    /// For people; may be empty.
    #[serde(default)]
    pub message: String,
    /// Whether another attempt may help.
    #[serde(default = "yes")]
    pub retryable: bool,
    /// Any JSON.
    #[serde(default)]
    pub details: Option<Payload>,
}

sparse! { TaskError { code, message, retryable } details }

fn yes() -> bool {
    true
}

impl TaskError {
    /// One of Orbit's own that no attempt can mend.
    #[must_use]
    pub fn permanent(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), retryable: false, details: None }
    }

    /// One that another attempt may mend.
    #[must_use]
    pub fn transient(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), retryable: true, details: None }
    }

    /// An expression of the document failed.
    #[must_use]
    pub fn expression(fault: impl ToString) -> Self {
        Self::permanent("EXPRESSION_ERROR", fault.to_string())
    }

    /// Bytes that it counts in an event.
    pub(super) fn weight(&self) -> usize {
        self.message.len() + self.details.as_ref().map_or(0, Payload::len)
    }

    /// Whether an attempt that ended with this code may have happened all the same (L5).
    #[must_use]
    pub fn leaves_outcome_unknown(code: &str) -> bool {
        UNKNOWN_OUTCOME.contains(&code)
    }
}

/// Every code that Orbit makes; workers and documents may use none of them.
pub const CODES: &[&str] = &[
    "TIMEOUT",
    "QUEUE_TIMEOUT",
    "HEARTBEAT_TIMEOUT",
    "DEADLINE_EXCEEDED",
    "AWAIT_TIMEOUT",
    "REPEAT_LIMIT",
    "EXPRESSION_ERROR",
    "INPUT_CONTRACT_VIOLATION",
    "OUTPUT_CONTRACT_VIOLATION",
    "UNKNOWN_TASK",
    "UNKNOWN_WORKFLOW",
    "CHILD_CANCELLED",
    "CHILD_TIMED_OUT",
    "CHILD_ID_TAKEN",
    "WORKER_LOST",
    "SIGNAL_BUFFER_FULL",
    "EXECUTION_NOT_FOUND",
    "EXECUTION_FINISHED",
    "UNKNOWN_SIGNAL",
    "ADAPTER_DISABLED",
    "HTTP_ERROR",
    "HTTP_UNREACHABLE",
    "PAYLOAD_TOO_LARGE",
    "HISTORY_LIMIT",
    "INTERNAL",
];

/// Codes after which the attempt may have happened all the same.
const UNKNOWN_OUTCOME: &[&str] = &[
    "TIMEOUT",
    "HEARTBEAT_TIMEOUT",
    "OUTPUT_CONTRACT_VIOLATION",
    "PAYLOAD_TOO_LARGE",
    "HTTP_UNREACHABLE",
    "WORKER_LOST",
];

/// Whether only Orbit may give `code`.
#[must_use]
pub fn is_own_code(code: &str) -> bool {
    CODES.contains(&code)
}
