//! Why an operation did not do what was asked.

use std::fmt;

use serde_json::Value;

/// The public codes of operations (errors of executions have codes of their own).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // each is its text; what to do stands in the message
pub enum Code {
    InvalidRequest,
    InvalidIr,
    ChildNotRegistered,
    InvalidInput,
    InvalidExecutionId,
    InvalidSignal,
    ReservedTask,
    Unauthenticated,
    Forbidden,
    NotFound,
    WorkflowNotFound,
    UnknownSession,
    UnknownSignal,
    UnknownQuery,
    DefinitionConflict,
    ExecutionExists,
    ExecutionFinished,
    ExecutionRunning,
    ClusterExists,
    ClusterFormat,
    DedupConflict,
    NotRedrivable,
    MethodNotAllowed,
    PayloadTooLarge,
    UnsupportedMediaType,
    ExpressionError,
    Overloaded,
    Internal,
    StorageError,
    NoLeader,
    OutcomeUnknown,
}

impl Code {
    /// All of them.
    const ALL: [Self; 31] = [
        Self::InvalidRequest,
        Self::InvalidIr,
        Self::ChildNotRegistered,
        Self::InvalidInput,
        Self::InvalidExecutionId,
        Self::InvalidSignal,
        Self::ReservedTask,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::NotFound,
        Self::WorkflowNotFound,
        Self::UnknownSession,
        Self::UnknownSignal,
        Self::UnknownQuery,
        Self::DefinitionConflict,
        Self::ExecutionExists,
        Self::ExecutionFinished,
        Self::ExecutionRunning,
        Self::ClusterExists,
        Self::ClusterFormat,
        Self::DedupConflict,
        Self::NotRedrivable,
        Self::MethodNotAllowed,
        Self::PayloadTooLarge,
        Self::UnsupportedMediaType,
        Self::ExpressionError,
        Self::Overloaded,
        Self::Internal,
        Self::StorageError,
        Self::NoLeader,
        Self::OutcomeUnknown,
    ];

    /// The code of a text as it stands on the wire.
    #[must_use]
    pub fn of_wire(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.as_str() == text)
    }

    /// As it stands on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidRequest => "INVALID_REQUEST",
            Self::InvalidIr => "INVALID_IR",
            Self::ChildNotRegistered => "CHILD_NOT_REGISTERED",
            Self::InvalidInput => "INVALID_INPUT",
            Self::InvalidExecutionId => "INVALID_EXECUTION_ID",
            Self::InvalidSignal => "INVALID_SIGNAL",
            Self::ReservedTask => "RESERVED_TASK",
            Self::Unauthenticated => "UNAUTHENTICATED",
            Self::Forbidden => "FORBIDDEN",
            Self::NotFound => "NOT_FOUND",
            Self::WorkflowNotFound => "WORKFLOW_NOT_FOUND",
            Self::UnknownSession => "UNKNOWN_SESSION",
            Self::UnknownSignal => "UNKNOWN_SIGNAL",
            Self::UnknownQuery => "UNKNOWN_QUERY",
            Self::DefinitionConflict => "DEFINITION_CONFLICT",
            Self::ExecutionExists => "EXECUTION_EXISTS",
            Self::ExecutionFinished => "EXECUTION_FINISHED",
            Self::ExecutionRunning => "EXECUTION_RUNNING",
            Self::ClusterExists => "CLUSTER_EXISTS",
            Self::ClusterFormat => "CLUSTER_FORMAT",
            Self::DedupConflict => "DEDUP_CONFLICT",
            Self::NotRedrivable => "NOT_REDRIVABLE",
            Self::MethodNotAllowed => "METHOD_NOT_ALLOWED",
            Self::PayloadTooLarge => "PAYLOAD_TOO_LARGE",
            Self::UnsupportedMediaType => "UNSUPPORTED_MEDIA_TYPE",
            Self::ExpressionError => "EXPRESSION_ERROR",
            Self::Overloaded => "OVERLOADED",
            Self::Internal => "INTERNAL",
            Self::StorageError => "STORAGE_ERROR",
            Self::NoLeader => "NO_LEADER",
            Self::OutcomeUnknown => "OUTCOME_UNKNOWN",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why an operation did not do what was asked. Unless the code is [`Code::OutcomeUnknown`], nothing was done.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Error {
    /// For programs.
    pub code: Code,
    /// For people: what is wrong and what to do.
    pub message: String,
    /// More for programs, say `faults`.
    pub details: Option<Box<Value>>,
}

impl Error {
    /// Without details.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: None }
    }

    /// With details, an object.
    #[must_use]
    pub fn with_details(self, details: Value) -> Self {
        Self { details: Some(Box::new(details)), ..self }
    }
}

/// What an operation gives.
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_read_as_it_is_written() {
        for code in Code::ALL {
            assert_eq!(Code::of_wire(code.as_str()), Some(code));
        }
        assert_eq!(Code::of_wire("NO_SUCH_CODE"), None);
    }
}
