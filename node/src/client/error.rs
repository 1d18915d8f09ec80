//! Why a call gave nothing, and what is known about what it did.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

/// Why a call gave nothing.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{}: {}{}", .0.code, .0.message, .0.hint())]
    Refused(Box<Refusal>),
    #[error(
        "UNREACHABLE: no node answers at {address}: {why}; start one with `orbit dev`, or name another with --address"
    )]
    Unreachable { address: String, why: String },
    #[error("UNREACHABLE: {address} gave no answer: {why}; try again")]
    Silent { address: String, why: String },
    #[error("OUTCOME_UNKNOWN: {message}; it may have happened all the same: {}", ask(.execution_id.as_deref()))]
    OutcomeUnknown { message: String, execution_id: Option<String> },
    #[error("NOT_A_NODE: {address} answered with status {status} and nothing that Orbit says; check --address")]
    Foreign { address: String, status: u16 },
    #[error("NOT_UNDERSTOOD: the node's answer is none that this version knows: {why}; use the `orbit` of its version")]
    NotUnderstood { why: String },
    #[error("INVALID_ADDRESS: {address:?} is no address: {why}; write http://HOST:PORT")]
    Address { address: String, why: String },
}

impl Error {
    /// Nobody answers there.
    pub(crate) fn unreachable(address: &str, why: &reqwest::Error) -> Self {
        Self::Unreachable { address: address.to_owned(), why: why.to_string() }
    }
}

/// How to find out.
fn ask(execution_id: Option<&str>) -> String {
    match execution_id {
        Some(id) => format!("`orbit show {id}` tells, and the same call with --id {id} is safe"),
        None => "look with `orbit list` or `orbit show` before repeating it".to_owned(),
    }
}

/// A refusal in a node's own words.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Refusal {
    pub(crate) code: String,
    #[serde(default)]
    pub(crate) message: String,
    #[serde(default)]
    pub(crate) details: Value,
    /// The whole answer.
    #[serde(skip)]
    pub(crate) text: String,
    #[serde(skip)]
    retry_after: Option<Duration>,
}

/// Something wrong in what was sent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Fault {
    pub(crate) message: String,
    #[serde(default)]
    pub(crate) path: String,
    #[serde(default)]
    pub(crate) line: u32,
    #[serde(default)]
    pub(crate) column: u32,
    #[serde(default)]
    pub(crate) suggestion: Option<String>,
}

impl Fault {
    /// With its place in `what`, as `orbit check` shows it.
    pub(crate) fn shown(&self, what: &str) -> String {
        let place = if self.line == 0 { String::new() } else { format!(":{}:{}", self.line, self.column) };
        let path = if self.path.is_empty() { String::new() } else { format!(" {}:", self.path) };
        let meant = self.suggestion.as_ref().map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default();
        format!("{what}{place}:{path} {}{meant}", self.message)
    }
}

impl Refusal {
    pub(super) fn read(text: String, retry_after: Option<Duration>) -> Option<Self> {
        #[derive(Deserialize)]
        struct Envelope {
            error: Refusal,
        }
        let Envelope { error } = serde_json::from_str(&text).ok()?;
        Some(Self { text, retry_after, ..error })
    }

    /// What is wrong, each with its place.
    pub(crate) fn faults(&self) -> Vec<Fault> {
        let faults = self.details.get("faults").cloned().unwrap_or_default();
        serde_json::from_value(faults).unwrap_or_default()
    }

    /// What the one who calls a command can do, where the node cannot know it.
    fn hint(&self) -> &'static str {
        match self.code.as_str() {
            "UNAUTHENTICATED" => "; give a token with --token or ORBIT_TOKEN",
            "FORBIDDEN" => "; use a token that may do this",
            "NO_LEADER" | "OVERLOADED" => "; nothing was done, try again",
            _ => "",
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        if refusal.code != "OUTCOME_UNKNOWN" {
            return Self::Refused(Box::new(refusal));
        }
        let execution_id = refusal.details.get("execution_id").and_then(Value::as_str).map(str::to_owned);
        Self::OutcomeUnknown { message: refusal.message, execution_id }
    }
}

impl Error {
    /// Whether it is certain that nothing came of the call.
    pub(crate) fn did_nothing(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::Unreachable { .. } | Self::Address { .. })
    }

    /// Whether the same call may go well a little later.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Refused(refusal) => matches!(refusal.code.as_str(), "NO_LEADER" | "OVERLOADED"),
            Self::Unreachable { .. } | Self::Silent { .. } | Self::OutcomeUnknown { .. } => true,
            Self::Foreign { status, .. } => *status >= 500,
            Self::NotUnderstood { .. } | Self::Address { .. } => false,
        }
    }

    /// Whether nobody can say what came of the call, or nobody was there.
    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Silent { .. } | Self::OutcomeUnknown { .. })
    }

    /// The code of a refusal.
    pub(crate) fn code(&self) -> Option<&str> {
        match self {
            Self::Refused(refusal) => Some(&refusal.code),
            _ => None,
        }
    }

    /// How long the node asks to wait.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused(refusal) => refusal.retry_after,
            _ => None,
        }
    }
}
