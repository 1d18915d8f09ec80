//! What one execution tells another: children, signals, ends (L8). In order, and each exactly once.
//!
//! ```text
//!   sender's commit ─▶ outbox row, numbered by the log ─▶ shipper ─▶ receiver's commit: effect and mark ─▶ row removed
//!                          ▲                                 │
//!                          └──── not known to have arrived ──┘
//! ```
//!
//! Messages of a shard for the executions of one slot go one after the other; a slot waits for its own only. A message
//! that comes again, because nobody knew that it had arrived, is recognised by its number: the receiver's shard keeps
//! the last one of each shard and slot.

mod outgoing;
mod waiting;

use orbit_proto::engine::Message;

use crate::desk::ShardId;
use crate::table::Number;

pub(crate) use outgoing::{NOT_THERE, answer, outgoing};
pub(crate) use waiting::Waiting;

/// Messages for one execution, in order.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    /// Where they come from.
    pub(crate) source: ShardId,
    /// With their numbers.
    pub(crate) messages: Vec<(Number, Message)>,
}
