//! What follows from a state: every rule of the language (L3–L11).
//!
//! # The walk
//!
//! The next event is the first one that a walk from the root finds: root closings, event handlers to start, then each
//! block's steps in order, a `for`'s elements by index, depth first; then event handlers, end handlers, the end. After
//! each event it is as if the walk began anew (L4). So the order of events is a function of the state alone, a batch
//! may be cut anywhere, and two engines write the same history.
//!
//! # What it costs
//!
//! Walking anew after each event would cost time in proportion to the size of the execution. Instead an [`Agenda`]
//! holds the *nodes* that may have something to say, ordered by their place in the walk. An event puts the nodes on it
//! that its change can reach: the unit itself, everything around it, its dependants. The first node of the agenda is
//! visited; if it has an event, that is the next event of the walk; if not, it leaves the agenda. What is not on the
//! agenda would say nothing: that is the invariant, and a test compares with an agenda that holds everything.
//!
//! ```text
//!   event ──evolve──▶ state          agenda: [root] [a] [b] [b[3].x] … [end]
//!     ▲                 │               │ first
//!     └─────────────────┴── visit ◀─────┘
//! ```
//!
//! A rule is a method that either returns an outcome or stops the walk with the event it found: that event travels out
//! as the `Err` of a [`Walked`] through every rule around it.

use crate::definition::Definition;
use crate::event::{Event, TaskError};
use crate::state::Execution;
use crate::value::Payload;

mod agenda;
mod attempts;
mod block;
mod close;
mod events;
mod facts;
mod failure;
mod fan_out;
mod handlers;
mod place;
mod repeat;
mod retry;
mod root;
mod scope;
mod step;
mod undo;
mod undo_list;
mod undo_order;
mod wait;
mod waiting;
mod watching;

pub use agenda::{Agenda, Work};
pub(crate) use block::violation;
pub use facts::Facts;
pub(crate) use facts::Role;
pub use scope::{BlockScope, StartScope};

/// The version of these rules; an execution lives by the one that it began with.
pub const RULES: u32 = 1;

/// Longest payload, bytes; the same at every border.
pub const PAYLOAD_BYTES_MAX: usize = 2 << 20;

/// How long a history may grow before the run is closed with `HISTORY_LIMIT` (L12). Closing, undo and end handlers are
/// exempt, so that a run can always be ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most events.
    pub history_events_max: u64,
    /// Most bytes, as [`Event::weight`] counts them.
    pub history_bytes_max: u64,
    /// Longest output of a worker, bytes; at most [`PAYLOAD_BYTES_MAX`].
    pub output_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { history_events_max: 1_000_000, history_bytes_max: 256 << 20, output_bytes_max: PAYLOAD_BYTES_MAX }
    }
}

impl Limits {
    /// Whether a history has come to a fifth of a limit: time to tell whoever runs the node, long before it is full.
    #[must_use]
    pub fn are_near(&self, head: &crate::state::Head) -> bool {
        head.seq >= self.history_events_max / 5 || head.history_bytes >= self.history_bytes_max / 5
    }
}

/// Most bytes of items or keys in one event; the rest follows in further events.
const CHUNK_BYTES_MAX: usize = 1 << 20;

/// The next event, found by a rule.
#[derive(Debug)]
pub(crate) struct Next(Box<Event>);

/// What a rule says: an outcome, or the event that stops the walk.
pub(crate) type Walked<T = ()> = Result<T, Next>;

/// How a block, step or unit ends: with an output, or with an error (none: it was cancelled or timed out).
pub(crate) type Outcome = Result<Option<Payload>, Option<TaskError>>;

/// Stops the walk with `event`.
pub(crate) fn next<T>(event: impl Into<Event>) -> Walked<T> {
    Err(Next(Box::new(event.into())))
}

/// One walk over one state.
pub(crate) struct Walk<'a> {
    facts: Facts<'a>,
    memo: &'a mut agenda::Memo,
}

impl<'a> std::ops::Deref for Walk<'a> {
    type Target = Facts<'a>;

    fn deref(&self) -> &Facts<'a> {
        &self.facts
    }
}

/// The event that follows from `state`, found by a walk over everything that is open: slow, and right without an
/// agenda's help. For tests, replays and for resuming a batch that was cut.
#[must_use]
pub fn next_event(definition: &Definition, state: &Execution, execution_id: &str, now_ms: u64) -> Option<Event> {
    let facts = Facts { definition, state, execution_id, now_ms, limits: Limits::default() };
    let mut agenda = Agenda::default();
    agenda.add_everything(&facts);
    agenda.next(facts)
}
