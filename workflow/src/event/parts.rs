//! What events are made of.

use serde::{Deserialize, Serialize};

use super::sparse::sparse;
use crate::key::Key;
use crate::value::Payload;

/// Whose child an execution is: exactly one attempt of one unit of one run (L8).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The parent.
    pub execution_id: String,
    /// When its run 1 was created.
    pub created_at_ms: u64,
    /// Its run.
    pub run: u32,
    /// The unit.
    pub step: Key,
    /// The unit's attempt.
    pub attempt: u32,
}

/// Which workers a task waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
pub struct Queue {
    /// The task's name.
    pub task: String,
    /// Its contract's version; built-in tasks have none.
    #[serde(default)]
    pub version: Option<String>,
    /// Only workers of this runtime.
    #[serde(default)]
    pub language: Option<String>,
}

sparse! { Queue { task } version, language }

/// A child that a unit starts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Child {
    /// The child's id.
    pub id: String,
    /// Its definition's name.
    pub workflow: String,
    /// Its definition's version.
    pub version: String,
    /// Its definition's hash, when known.
    #[serde(default)]
    pub hash: Option<String>,
}

sparse! { Child { id, workflow, version } hash }

/// Where a signal goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignalTarget {
    /// The receiver.
    pub execution: String,
    /// The signal.
    pub name: String,
}

/// What an end handler sees (L9).
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Failure {
    /// How the run ends.
    pub reason: CloseReason,
    /// The error's code.
    #[serde(default)]
    pub code: Option<String>,
    /// The error's message.
    #[serde(default)]
    pub message: Option<String>,
    /// The error's details.
    #[serde(default)]
    pub details: Option<Payload>,
}

sparse! { Failure { reason } code, message, details }

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($(#[$word_doc:meta])* $variant:ident = $text:literal,)* })*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name { $($(#[$word_doc])* #[serde(rename = $text)] $variant,)* }

        impl $name {
            /// Every one of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// As it stands in events.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    )* };
}

words! {
    /// Why a step was skipped.
    SkipReason {
        /// Its `when` was false.
        When = "when",
    }
    /// Why something closes (L6).
    CloseReason {
        /// It is done, perhaps early.
        Done = "done",
        /// Its deadline passed and it goes on with what is there.
        Deadline = "deadline",
        /// The run goes on in a new one.
        Continued = "continued",
        /// Something inside failed.
        Failed = "failed",
        /// Its deadline passed.
        DeadlineFailed = "deadline_failed",
        /// Somebody asked for it.
        Cancelled = "cancelled",
        /// The run's time-out passed.
        Timeout = "timeout",
    }
    /// Why nobody knows what became of a hand-over (L5).
    UncertainReason {
        /// Its session went silent.
        WorkerLost = "worker_lost",
        /// The worker never confirmed it.
        NotReceived = "not_received",
        /// The node under a built-in task went down.
        NodeLost = "node_lost",
        /// The worker left; not counted against the task.
        Unregistered = "unregistered",
        /// It was in flight when what it belongs to closed.
        Stopped = "stopped",
    }
    /// What a worker reported.
    ResultKind {
        /// Complete.
        Success = "success",
        /// Fail.
        Failure = "failure",
    }
    /// What an operator does with units (L10).
    RedriveAction {
        /// Try again.
        Retry = "retry",
        /// Take this output.
        Resolve = "resolve",
        /// Give up.
        Fail = "fail",
    }
    /// How all undoing of a run went.
    Compensation {
        /// Nothing was to be undone.
        None = "none",
        /// All was undone.
        Completed = "completed",
        /// Something was not.
        Failed = "failed",
    }
}

impl CloseReason {
    /// Whether what closes for this reason ends badly: then everything that happened inside is undone.
    #[must_use]
    pub fn is_bad(self) -> bool {
        matches!(self, Self::Failed | Self::DeadlineFailed | Self::Cancelled | Self::Timeout)
    }
}
