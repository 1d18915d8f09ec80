//! A unit: what is really carried out, and every container of units.

use serde::{Deserialize, Serialize};

use super::Progress;
use crate::event::{Child, Queue, Seq, SignalTarget, TaskError};
use crate::value::Payload;

/// Where a unit stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    /// Nothing has happened to it.
    #[default]
    Pending,
    /// A sleep that runs.
    Waiting,
    /// A block, `for`, `repeat` or wait that is open.
    Open,
    /// Due to be handed over.
    Scheduled,
    /// With a worker.
    Dispatched,
    /// Nobody knows what became of its hand-over.
    Uncertain,
    /// Its attempt failed; what follows is not decided.
    AttemptFailed,
    /// Tried again later.
    RetryWait,
    /// Waits for an operator.
    Suspended,
    /// An operator gave its output.
    Resolving,
    /// An operator gave it up.
    Failing,
    /// An operator lets it begin anew.
    Redriven,
    /// Over, well.
    Succeeded,
    /// Over, badly.
    Failed,
    /// Left out.
    Skipped,
    /// Given up because something around it closed.
    Cancelled,
}

impl Status {
    /// Whether nothing more happens to the unit by itself.
    #[must_use]
    pub fn is_resolved(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Skipped | Self::Cancelled)
    }
}

/// What is carried out outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    /// By a worker.
    Task(Queue),
    /// By a child execution.
    Child(Child),
    /// By another execution that gets a signal.
    Signal(SignalTarget),
}

/// One row per unit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Unit {
    /// Where it stands.
    pub status: Status,
    /// Attempt, from 1; 0: none yet.
    pub attempt: u32,
    /// Attempts that do not count against the budget (before a redrive).
    pub base: u32,
    /// What it carries out outside.
    pub work: Option<Work>,
    /// What that gets.
    pub input: Option<Payload>,
    /// Given with every hand-over.
    pub idempotency_key: Option<String>,
    /// What it yielded.
    pub output: Option<Payload>,
    /// Why it, or its last attempt, failed.
    pub error: Option<TaskError>,
    /// Failed, and the execution goes on.
    pub handled: bool,
    /// It may have happened though nobody said so.
    pub unknown: bool,
    /// Where it was resolved.
    pub done: Option<Seq>,
    /// Its first event.
    pub since: Seq,
    /// It was opened: a container or a wait.
    pub opened: bool,
    /// The hand-over in flight.
    pub token: Option<Seq>,
    /// Whether this attempt was handed over before.
    pub redelivery: bool,
    /// Hand-overs of this attempt that came to nothing.
    pub lost: u32,
    /// When it was scheduled or handed over last, ms.
    pub at_ms: u64,
    /// When this attempt was put into its queue first, ms: a redelivered task keeps its age.
    pub queued_at_ms: u64,
    /// When it was scheduled first or opened, ms.
    pub started_at_ms: u64,
    /// When it was resolved, ms.
    pub finished_at_ms: Option<u64>,
    /// From each hand-over, ms.
    pub timeout_ms: Option<u64>,
    /// From scheduling to hand-over, ms.
    pub queue_timeout_ms: Option<u64>,
    /// Longest silence about the attempt, ms.
    pub heartbeat_timeout_ms: Option<u64>,
    /// A `for` and its elements.
    pub fan_out: Option<FanOut>,
    /// Last finished iteration of a `repeat`.
    pub iteration: Option<u32>,
    /// … and its output.
    pub last_output: Option<Payload>,
    /// Progress of the open instance of a block.
    pub progress: Progress,
    /// Signals that a wait took.
    pub taken: Vec<Taken>,
}

/// A signal that a wait took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Taken {
    /// Its name.
    pub signal: String,
    /// Its payload.
    pub payload: Payload,
}

/// What a `for` knows of its elements without looking at them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FanOut {
    /// How many items there are so far; each is a row of its own.
    pub total: u32,
    /// Further ones follow.
    pub more: bool,
    /// Elements in flight at a time, as evaluated.
    pub concurrency: Option<u32>,
    /// Elements that may fail, as evaluated.
    pub max_failures: u32,
    /// Elements that have or had a unit: all below this index, less `holes`.
    pub started: u32,
    /// Elements below `started` that begin anew.
    pub holes: std::collections::BTreeSet<u32>,
    /// Elements that succeeded.
    pub succeeded: u32,
    /// Elements that failed.
    pub failed: u32,
    /// The element that was resolved last.
    pub last: Option<u32>,
}

impl FanOut {
    /// Elements at a time where nothing is written.
    pub const CONCURRENCY: u32 = 1_000;

    /// Elements at a time.
    #[must_use]
    pub fn concurrency(&self) -> u32 {
        self.concurrency.unwrap_or(Self::CONCURRENCY)
    }

    /// Elements that have a unit and are not resolved. Cancelled ones count, which only happens when it closes.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        let begun = self.started - u32::try_from(self.holes.len()).unwrap_or(u32::MAX);
        begun.saturating_sub(self.succeeded + self.failed)
    }
}

impl Unit {
    /// A unit whose first event is `since`.
    #[must_use]
    pub fn new(since: Seq, now_ms: u64) -> Self {
        Self { since, started_at_ms: now_ms, ..Self::default() }
    }

    /// Whether nothing more happens to it by itself.
    #[must_use]
    pub fn is_resolved(&self) -> bool {
        self.status.is_resolved()
    }

    /// Whether dependants go: succeeded, skipped, or failed and handled (L3).
    #[must_use]
    pub fn lets_go(&self) -> bool {
        match self.status {
            Status::Succeeded | Status::Skipped => true,
            Status::Failed => self.handled,
            _ => false,
        }
    }

    /// A task from its hand-over, a child or signal from its StepScheduled (L6).
    #[must_use]
    pub fn is_in_flight(&self) -> bool {
        match self.status {
            Status::Dispatched => true,
            Status::Scheduled => matches!(self.work, Some(Work::Child(_) | Work::Signal(_))),
            _ => false,
        }
    }

    /// Whether it happened, or may have: then a bad end undoes it.
    #[must_use]
    pub fn happened(&self) -> bool {
        self.status == Status::Succeeded || self.unknown
    }

    /// Whether workers carry it out.
    #[must_use]
    pub fn is_task(&self) -> bool {
        matches!(self.work, Some(Work::Task(_)))
    }

    /// The word that expressions see (L2).
    #[must_use]
    pub fn visible_status(&self) -> &'static str {
        match self.status {
            Status::Succeeded => "succeeded",
            Status::Failed => "failed",
            Status::Skipped => "skipped",
            Status::Cancelled => "cancelled",
            Status::Suspended => "suspended",
            _ => "running",
        }
    }
}
