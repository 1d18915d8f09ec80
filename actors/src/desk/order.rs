//! What waits, and who comes before whom.

use std::sync::Arc;

use workflow::event::Queue;
use workflow::key::Key;

/// Number of a shard.
pub(crate) type ShardId = u16;

/// Names a unit on this node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct UnitRef {
    /// The execution.
    pub execution_id: Arc<str>,
    /// Its run.
    pub run: u32,
    /// The unit.
    pub unit: Key,
}

/// Who comes first: a smaller priority, then turn, then age, then place in the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Order {
    /// 1 to 5, 1 first.
    pub priority: u8,
    /// Shares a priority between fairness keys; 0 where nobody shares.
    pub turn: u64,
    /// Since when it is ready; a redelivered task keeps its age.
    pub ready_at_ms: u64,
    /// Place of its scheduling in the history.
    pub seq: u64,
}

/// A unit that waits for a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ready {
    /// Where it waits.
    pub queue: Queue,
    /// How old it is.
    pub order: Order,
    /// Which one.
    pub unit: UnitRef,
    /// Its attempt.
    pub attempt: u32,
}

impl Ready {
    pub(super) fn place(&self) -> Place {
        Place { order: self.order, unit: self.unit.clone() }
    }
}

/// A place in a queue. No two units share one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Place {
    pub(super) order: Order,
    pub(super) unit: UnitRef,
}

impl Place {
    /// Before every other.
    pub(super) fn first() -> Self {
        let unit = UnitRef { execution_id: Arc::from(""), run: 0, unit: Key::root() };
        Self { order: Order { priority: 0, turn: 0, ready_at_ms: 0, seq: 0 }, unit }
    }
}
