//! What becomes of asks while the disks of a quorum of the shard's nodes are nearly used up.
//!
//! ```text
//!   removals, signs of life          taken: they free room, or write nothing
//!   starts, signals, cancels, …      refused: whoever asked can ask again, or make room
//!   results, messages, time, losses  wait: nobody would ask again, or for nothing else
//!   offers of slots                  dropped: the desk offers again
//! ```
//!
//! What waits here was on its way already when the shard became read-only; the rest waits where it comes from.

use std::sync::Arc;

use orbit_raft::{Environment, Leadership};
use ractor::ActorRef;

use super::{Context, ShardMsg};
use crate::execution::{Ask, What};
use crate::failure;

/// What becomes of an ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Taken,
    Refused,
    Waits,
    Dropped,
}

pub(crate) fn fate(what: &What) -> Fate {
    match what {
        What::Remove(..) | What::TaskHeartbeat { .. } => Fate::Taken,
        What::Start(..) | What::Signal(..) | What::Cancel { .. } => Fate::Refused,
        What::Pause(_) | What::Resume(_) | What::Redrive { .. } => Fate::Refused,
        What::Complete { .. } | What::Fail { .. } | What::Messages(..) => Fate::Waits,
        What::TakeBack { .. } | What::Due(_) | What::Silent(_) | What::Proceed => Fate::Waits,
        What::Offer(..) => Fate::Dropped,
    }
}

/// Deals with an ask of a shard that is read-only; gives it back if it is taken all the same.
pub(super) fn deal<E: Environment>(
    context: &Arc<Context<E>>,
    shard: &ActorRef<ShardMsg>,
    id: Arc<str>,
    ask: Ask,
) -> Option<(Arc<str>, Ask)> {
    match fate(&ask.what) {
        Fate::Taken => return Some((id, ask)),
        Fate::Refused => ask.what.refuse(failure::read_only()),
        // Its slot is free again, and after a moment the rows of the queue are read anew.
        Fate::Dropped => {}
        Fate::Waits => {
            let (context, shard) = (Arc::clone(context), shard.clone());
            tokio::spawn(async move {
                let mut leadership = context.group.leadership();
                tokio::select! {
                    () = context.until_writable() => {}
                    // The shard says so to whoever asked.
                    _ = leadership.wait_for(|now| !matches!(now, Leadership::Leader { .. })) => {}
                }
                let _ = shard.cast(ShardMsg::Ask { id, ask });
            });
        }
    }
    None
}
