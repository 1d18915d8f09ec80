//! What the desk tells a shard.

use std::fmt;
use std::sync::Arc;

use orbit_raft::Environment;
use ractor::ActorRef;
use workflow::command::Token;
use workflow::event::{Queue, UncertainReason};

use super::{Context, ShardMsg, shard_of};
use crate::desk::{Ready, ShardSink, Slot};
use crate::execution::What;

/// The way from the desk to a shard.
pub(crate) struct Sink<E: Environment> {
    pub(crate) shard: ActorRef<ShardMsg>,
    pub(crate) context: Arc<Context<E>>,
    /// How many shards there are.
    pub(crate) shards: u16,
}

impl<E: Environment> fmt::Debug for Sink<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sink").field("shard", &self.context.shard).finish_non_exhaustive()
    }
}

impl<E: Environment> ShardSink for Sink<E> {
    fn offer(&self, ready: Ready, slot: Slot) {
        let id = Arc::clone(&ready.unit.execution_id);
        // A shard that is gone has resigned: its slot is free again when it is dropped here.
        let _ = self.shard.cast(ShardMsg::ask(id, What::Offer(Box::new(ready), slot), None));
    }

    fn take_back(&self, token: Token, reason: UncertainReason) {
        let id = Arc::from(token.execution_id.as_str());
        let _ = self.shard.cast(ShardMsg::ask(id, What::TakeBack { token, reason }, None));
    }

    fn refill(&self, queue: Queue) {
        let _ = self.shard.cast(ShardMsg::Refill(queue));
    }

    fn owns(&self, execution_id: &str) -> bool {
        shard_of(execution_id, self.shards) == self.context.shard
    }
}
