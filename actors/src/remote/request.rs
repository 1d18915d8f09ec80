//! What an execution is asked, wherever it lives, and what it answers.

use workflow::command::{HeartbeatAnswer, Token};
use workflow::event::{RedriveAction, TaskError, UncertainReason};
use workflow::key::Key;
use workflow::value::Payload;

use crate::api;
use crate::execution::ask::{Signal, Start};
use crate::post::Batch;

/// Idle slots of a session that a result brings along: what follows from it may be handed over with the same commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Free {
    /// The session.
    pub(crate) session: String,
    /// How many.
    pub(crate) slots: u32,
}

/// Something for one execution.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    /// To begin.
    Start(Box<Start>),
    /// A success.
    Complete { token: Token, output: Payload, free: Option<Free> },
    /// A failure.
    Fail { token: Token, error: TaskError, unknown: bool, free: Option<Free> },
    /// A sign of life about a task.
    TaskHeartbeat { token: Token, details: Option<Payload> },
    /// To stop.
    Cancel { reason: String, force: bool },
    /// A signal.
    Signal(Box<Signal>),
    /// To decide nothing more.
    Pause,
    /// To decide again.
    Resume,
    /// To go on.
    Redrive { steps: Option<Vec<Key>>, action: RedriveAction, output: Option<Payload> },
    /// To be gone, if it is over.
    Remove,
    /// Messages of other executions.
    Messages(Box<Batch>),
    /// A hand-over that did not arrive, or whose worker is gone.
    TakeBack { token: Token, reason: UncertainReason },
}

impl Request {
    /// Whether asking it again changes nothing that asking it once did not: then a lost answer is asked for again.
    pub(crate) fn may_be_repeated(&self) -> bool {
        match self {
            Self::Complete { .. } | Self::Fail { .. } | Self::TaskHeartbeat { .. } => true,
            Self::Cancel { .. } | Self::Pause | Self::Resume | Self::Messages(_) | Self::TakeBack { .. } => true,
            Self::Signal(signal) => signal.dedup_id.is_some() && signal.start.is_none(),
            Self::Start(_) | Self::Redrive { .. } | Self::Remove => false,
        }
    }
}

/// What an execution answers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Response {
    /// It has begun.
    Started(api::Started),
    /// What became of a result.
    Result(api::ResultAnswer),
    /// What became of a sign of life.
    Alive(HeartbeatAnswer),
    /// A signal is in the history.
    Signalled(api::Signalled),
    /// Whether anything went.
    Removed(bool),
    /// It is done.
    Done,
}
