//! What an execution can be asked.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, oneshot};
use workflow::command::{HeartbeatAnswer, ResultAnswer, Token};
use workflow::definition::Definition;
use workflow::event::{RedriveAction, TaskError, UncertainReason};
use workflow::key::Key;
use workflow::value::Payload;

use crate::api;
use crate::desk::{Ready, Slot};
use crate::error::Result;
use crate::post::Batch;
use crate::table::Timer;

/// Where an answer goes. Who no longer waits does not need to know.
pub(crate) type Reply<T> = oneshot::Sender<Result<T>>;

/// A start, with its definition resolved.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) request: api::StartExecution,
    pub(crate) definition: Arc<Definition>,
}

/// A signal, and how its execution is started if it is not there.
#[derive(Clone, Debug)]
pub(crate) struct Signal {
    pub(crate) name: String,
    pub(crate) payload: Payload,
    pub(crate) dedup_id: Option<String>,
    pub(crate) start: Option<Start>,
}

/// Something for one execution.
#[derive(Debug)]
pub(crate) struct Ask {
    /// What.
    pub(crate) what: What,
    /// Its place among what waits; given back when it is done.
    pub(crate) permit: Option<OwnedSemaphorePermit>,
}

#[derive(Debug)]
pub(crate) enum What {
    Start(Box<Start>, Reply<api::Started>),
    Complete {
        token: Token,
        output: Payload,
        reply: Reply<ResultAnswer>,
    },
    Fail {
        token: Token,
        error: TaskError,
        unknown: bool,
        reply: Reply<ResultAnswer>,
    },
    TaskHeartbeat {
        token: Token,
        details: Option<Payload>,
        reply: Reply<HeartbeatAnswer>,
    },
    Cancel {
        reason: String,
        force: bool,
        reply: Reply<()>,
    },
    Signal(Box<Signal>, Reply<api::Signalled>),
    Pause(Reply<()>),
    Resume(Reply<()>),
    Redrive {
        steps: Option<Vec<Key>>,
        action: RedriveAction,
        output: Option<Payload>,
        reply: Reply<()>,
    },
    /// It, or one of its runs, goes for ever. Tells whether anything went.
    Remove(Removal, Reply<bool>),
    /// Messages of one shard for this execution, in order. Told once they are taken in.
    Messages(Box<Batch>, Reply<()>),
    /// A slot is reserved for a task of this execution.
    Offer(Box<Ready>, Slot),
    /// A hand-over did not arrive, or its worker is gone.
    TakeBack {
        token: Token,
        reason: UncertainReason,
    },
    /// Time is up for something.
    Due(Timer),
    /// A worker has said nothing about a task for too long.
    Silent(Token),
    /// Its last batch was cut.
    Proceed,
}

/// What is removed of an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    /// All of it, if it is over.
    Execution,
    /// A run that ended at this moment, and all of the execution if it is the last.
    Run { run: u32, ended_at_ms: u64 },
}

impl What {
    /// Whether a turn takes nothing beside it: it looks at rows that are stored, all of them.
    pub(crate) fn is_alone(&self) -> bool {
        matches!(self, Self::Remove(..))
    }

    /// Whether it may be refused for load.
    pub(crate) fn may_be_refused(&self) -> bool {
        matches!(self, Self::Start(..) | Self::Signal(..))
    }

    /// The same once more, if nobody outside would ask it again.
    pub(crate) fn asked_by_the_node(&self) -> Option<Self> {
        match self {
            Self::TakeBack { token, reason } => Some(Self::TakeBack { token: token.clone(), reason: *reason }),
            Self::Due(timer) => Some(Self::Due(timer.clone())),
            Self::Silent(token) => Some(Self::Silent(token.clone())),
            Self::Proceed => Some(Self::Proceed),
            _ => None,
        }
    }

    /// Answers with an error without having looked at it.
    pub(crate) fn refuse(self, error: crate::error::Error) {
        // Who no longer waits does not need to know.
        match self {
            Self::Start(_, reply) => drop(reply.send(Err(error))),
            Self::Complete { reply, .. } | Self::Fail { reply, .. } => drop(reply.send(Err(error))),
            Self::TaskHeartbeat { reply, .. } => drop(reply.send(Err(error))),
            Self::Signal(_, reply) => drop(reply.send(Err(error))),
            Self::Remove(_, reply) => drop(reply.send(Err(error))),
            Self::Messages(_, reply) => drop(reply.send(Err(error))),
            Self::Pause(reply) | Self::Resume(reply) => drop(reply.send(Err(error))),
            Self::Cancel { reply, .. } | Self::Redrive { reply, .. } => drop(reply.send(Err(error))),
            Self::Offer(..) | Self::TakeBack { .. } | Self::Due(_) | Self::Silent(_) | Self::Proceed => {}
        }
    }
}
