//! How a request fails (L13).

use serde_json::{Value, json};
use workflow::event::TaskError;
use workflow::value::Payload;

/// A failure as it is reported.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// What is recorded.
    pub error: TaskError,
    /// It may have happened all the same, beyond what the code itself says.
    pub unknown: bool,
}

/// Why this node does not do what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// `http_task.enabled` is false.
    Disabled,
    /// An address that is not out on the internet and that `http_task.allow` does not name.
    Address,
    /// A secret that is not there.
    Secret,
}

impl Refusal {
    fn word(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Address => "address",
            Self::Secret => "secret",
        }
    }
}

impl Failure {
    fn new(error: TaskError) -> Self {
        Self { error, unknown: false }
    }

    /// The input says what cannot be sent.
    pub(super) fn input(fault: impl Into<String>) -> Self {
        Self::new(TaskError::permanent("INPUT_CONTRACT_VIOLATION", fault))
    }

    /// The configuration of this node does not let it be sent.
    pub(super) fn refused(refusal: Refusal, message: impl Into<String>) -> Self {
        let details = Some(payload(&json!({ "reason": refusal.word() })));
        Self::new(TaskError { details, ..TaskError::permanent("ADAPTER_DISABLED", message) })
    }

    /// No answer came.
    pub(super) fn unreachable(message: impl Into<String>) -> Self {
        Self::new(TaskError::transient("HTTP_UNREACHABLE", message))
    }

    /// The answer is longer than what is kept.
    pub(super) fn too_large(message: impl Into<String>) -> Self {
        Self::new(TaskError::permanent("PAYLOAD_TOO_LARGE", message))
    }

    /// Something had been sent when it failed.
    pub(super) fn after(self, sent: bool) -> Self {
        Self { unknown: self.unknown || sent, ..self }
    }
}

/// Short JSON of our own.
fn payload(value: &Value) -> Payload {
    // What serde_json writes can be read.
    Payload::parse(&value.to_string()).unwrap_or_default()
}
