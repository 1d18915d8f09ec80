//! What a history adds up to: the state of one run.
//!
//! State is the left fold of a total [`evolve`](Execution::evolve) over the history and needs no definition (L12). It
//! lies in rows, one head and one per unit, timer, closing…, so that a change touches only the rows that changed
//! ([`Table::take_changed`]) and a wake-up reads only what a rule asks for.
//!
//! What must hold at any moment: `seq` is the number of events; a unit that is resolved has its place in the history
//! ([`Unit::done`]); counters of containers equal what their units say ([`Execution::check`]).

use serde::{Deserialize, Serialize};

use crate::event::{Compensation, Event, Parent, Recorded, Seq, TaskError};
use crate::key::{self, Key};
use crate::plant::{Plant, planted};
use crate::value::Payload;

mod check;
mod difference;
mod evolve;
mod redriven;
mod rows;
mod table;
mod unit;

pub use difference::Difference;
pub use rows::{ReadRows, RowChange, RowError, RowKind, StoredRow};
pub(crate) use rows::{changes, table};
pub use table::{Lookup, Source, Table};
pub use unit::{FanOut, Status, Taken, Unit, Work};

/// The state of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Execution {
    /// What is read at every wake-up.
    pub head: Head,
    /// Units, blocks, elements and iterations by key.
    pub units: Table<Unit>,
    /// Items of `for` steps by the key of their element; recorded once, never changed.
    pub items: Table<Payload>,
    /// Running and fired timers by name.
    pub timers: Table<Timer>,
    /// What is closing or has closed.
    pub closings: Table<Closing>,
    /// What each closing undoes.
    pub undo_lists: Table<UndoList>,
    /// Every unit that is or was to be undone.
    pub undos: Table<Undo>,
    /// Handlers that have started.
    pub handlers: Table<Handler>,
    /// Hand-overs by the place of their StepDispatched.
    pub hand_overs: Table<HandOver, Seq>,
    /// Signals that nobody took, by the place of their SignalReceived.
    pub signals: Table<Signal, Seq>,
}

/// Status of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunStatus {
    /// Not over.
    #[default]
    Running,
    /// Ended well.
    Completed,
    /// Failed.
    Failed,
    /// Cancelled.
    Cancelled,
    /// Its time-out passed.
    TimedOut,
    /// Went on in a new run.
    Continued,
}

impl RunStatus {
    /// Every one.
    pub const ALL: [Self; 6] =
        [Self::Running, Self::Completed, Self::Failed, Self::Cancelled, Self::TimedOut, Self::Continued];

    /// As test cases and expressions write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed_out",
            Self::Continued => "continued",
        }
    }
}

/// What is read at every wake-up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// Place of the last event.
    pub seq: Seq,
    /// Bytes of all events, as [`Event::weight`] counts them.
    pub history_bytes: u64,
    /// Time of the last event, ms.
    pub updated_at_ms: u64,
    /// Whether and how it is over.
    pub status: RunStatus,
    /// Nothing is decided or handed over.
    pub paused: bool,
    /// Somebody asked to cancel: the reason.
    pub cancel: Option<String>,
    /// … and not to undo anything.
    pub force: bool,
    /// The time-out of the run was due.
    pub timed_out: bool,
    /// What it was started with.
    pub input: Option<Payload>,
    /// The result, or the next run's input.
    pub output: Option<Payload>,
    /// Why it failed.
    pub error: Option<TaskError>,
    /// When this run was created, ms.
    pub created_at_ms: u64,
    /// When run 1 was created, ms.
    pub first_created_at_ms: u64,
    /// When it was started, ms.
    pub started_at_ms: Option<u64>,
    /// When the run's time-out is due, ms.
    pub timeout_at_ms: Option<u64>,
    /// The schedule that started it.
    pub schedule_id: Option<String>,
    /// … and the occurrence that it stands for, ms.
    pub scheduled_at_ms: Option<u64>,
    /// 1 to 5, 1 first.
    pub priority: Option<u8>,
    /// Shares a priority by turns.
    pub fairness_key: Option<String>,
    /// W3C trace context of whoever started it.
    pub traceparent: Option<String>,
    /// Number of the run, from 1.
    pub run: u32,
    /// 1 + how often the end was taken back.
    pub ends: u32,
    /// Whose child it is.
    pub parent: Option<Parent>,
    /// Progress of the root block.
    pub root: Progress,
    /// Units whose undo is or was due.
    pub undo_total: u64,
    /// … of them undone.
    pub undo_done: u64,
    /// Signals that nobody took.
    pub unconsumed_signals: u64,
    /// Event handlers that run.
    pub handlers_running: u64,
    /// Suspended units and undos.
    pub attention: u64,
}

/// What a block knows of its steps without looking at them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Steps that have a unit.
    pub started: u32,
    /// … of them resolved.
    pub resolved: u32,
    /// The first that failed unhandled.
    pub failed: Option<Key>,
}

/// A timer, named after what it is for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timer {
    /// When it is due, ms; `None`: it is not running.
    pub fire_at_ms: Option<u64>,
    /// The TimerFired that stands, if any.
    pub fired: Option<Seq>,
}

/// A StepClosing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Closing {
    /// Why.
    pub reason: crate::event::CloseReason,
    /// What it will yield, frozen.
    pub output: Option<Payload>,
    /// What it will fail with.
    pub error: Option<TaskError>,
    /// Its place.
    pub seq: Seq,
}

/// What one closing undoes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoList {
    /// In this order.
    pub steps: Vec<Key>,
    /// Further ones follow.
    pub more: bool,
    /// All done.
    pub done: bool,
    /// Place of its first CompensationStarted.
    pub since: Seq,
}

/// One unit that is to be undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undo {
    /// The closing that undoes it.
    pub closing: Key,
    /// How it went.
    pub outcome: Option<UndoOutcome>,
}

/// How an undo went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UndoOutcome {
    /// It is undone.
    Done,
    /// It could not be.
    Failed,
}

/// A handler that has started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Handler {
    /// Whether it is over.
    pub done: bool,
    /// The payload of its signal.
    pub event: Option<Payload>,
    /// How the run ends badly.
    pub failure: Option<crate::event::Failure>,
    /// Progress of its block.
    pub progress: Progress,
    /// Its HandlerStarted.
    pub since: Seq,
}

/// One hand-over of one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandOver {
    /// The unit.
    pub unit: Key,
    /// The attempt.
    pub attempt: u32,
    /// As it stands in the StepDispatched.
    pub token: String,
    /// Who got it.
    pub worker_id: String,
}

/// A signal that came in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Signal {
    /// Its name.
    pub signal: String,
    /// Its payload.
    pub payload: Payload,
    /// The sender's name for it.
    pub dedup_id: Option<String>,
    /// Who took it. Since 0.2 the row of a taken signal is removed instead; what 0.1 left there is not read.
    pub(crate) taken_by: Option<Key>,
}

impl Execution {
    /// The state that a history adds up to.
    #[must_use]
    pub fn fold(history: &[Recorded]) -> Self {
        let mut state = Self::default();
        for recorded in history {
            state.evolve(recorded);
        }
        state.forget_changes();
        state
    }

    /// Appends one event.
    pub fn append(&mut self, timestamp_ms: u64, event: Event) -> Recorded {
        let left_out = planted(Plant::HistoryGap) && matches!(event, Event::RetryScheduled(_));
        let recorded = Recorded { seq: self.head.seq + 1 + Seq::from(left_out), timestamp_ms, event };
        self.evolve(&recorded);
        recorded
    }

    /// Whether the run is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.head.status != RunStatus::Running
    }

    /// The unit at `key`.
    #[must_use]
    pub fn unit(&self, key: &str) -> Option<&Unit> {
        self.units.get(key)
    }

    /// Whether timer `name` runs.
    #[must_use]
    pub fn timer_runs(&self, name: &str) -> bool {
        self.timers.get(name).is_some_and(|timer| timer.fire_at_ms.is_some())
    }

    /// Whether timer `name` has fired and still stands.
    #[must_use]
    pub fn timer_fired(&self, name: &str) -> bool {
        self.timers.get(name).is_some_and(|timer| timer.fired.is_some())
    }

    /// The closing at or around `key` that is met first from outside; it decides about everything below it.
    #[must_use]
    pub fn outermost_closing<'k>(&self, key: &'k str) -> Option<&'k str> {
        if self.closings.is_surely_empty() {
            return None;
        }
        key::chain(key).filter(|at| self.closings.contains(*at)).last()
    }

    /// The closing of `key` itself.
    #[must_use]
    pub fn closing(&self, key: &str) -> Option<&Closing> {
        self.closings.get(key)
    }

    /// What a block knows of its steps.
    #[must_use]
    pub fn progress(&self, path: &str) -> Option<&Progress> {
        if path.is_empty() {
            return Some(&self.head.root);
        }
        if key::is_handler_path(path) {
            return self.handlers.get(path).map(|handler| &handler.progress);
        }
        self.unit(key::unit_of(path)).map(|unit| &unit.progress)
    }

    /// How all undoing of the run went so far.
    #[must_use]
    pub fn compensation(&self) -> Compensation {
        match (self.head.undo_total, self.head.undo_done) {
            (0, _) => Compensation::None,
            (total, done) if total == done => Compensation::Completed,
            _ => Compensation::Failed,
        }
    }

    /// Forgets which rows changed: they are written.
    pub fn forget_changes(&mut self) {
        self.units.take_changed();
        self.items.take_changed();
        self.timers.take_changed();
        self.closings.take_changed();
        self.undo_lists.take_changed();
        self.undos.take_changed();
        self.handlers.take_changed();
        self.hand_overs.take_changed();
        self.signals.take_changed();
    }
}
