//! What one commit of an execution gathers: parts for the shard, and what is told and done once they are applied.

use std::collections::HashMap;

use orbit_proto::engine::SignalRecord;
use orbit_raft::Part;
use tokio::sync::OwnedSemaphorePermit;
use workflow::command::Token;
use workflow::event::Recorded;
use workflow::key::Key;

use super::ask::{Reply, What};
use crate::desk::Slot;
use crate::error::Error;
use crate::index::Change;
use crate::table::Number;

/// Told to a caller when the commit is through, or has failed.
pub(crate) type Answer = Box<dyn FnOnce(Option<&Error>) + Send>;

/// A turn gathers no further asks beyond this many.
pub(crate) const ASKS_MAX: usize = 64;
/// … or about this many bytes of events.
pub(crate) const BYTES_MAX: usize = 1 << 20;

/// A task that is delivered after the commit.
#[derive(Debug)]
pub(crate) struct HandedOver {
    pub(crate) slot: Slot,
    pub(crate) unit: Key,
    pub(crate) token: Token,
}

/// Everything of one commit.
#[derive(Default)]
pub(crate) struct Turn {
    /// Events of the current run that no part holds yet.
    pub(crate) events: Vec<Recorded>,
    /// Writes beside those of the current run.
    pub(crate) extra_writes: Vec<orbit_raft::Write>,
    /// Named signals that it took: their rows are not applied yet.
    pub(crate) signals: HashMap<Vec<u8>, SignalRecord>,
    /// The last message from each shard that it took: their rows are not applied yet.
    pub(crate) marks: HashMap<Vec<u8>, Number>,
    /// Finished parts.
    pub(crate) parts: Vec<Part>,
    /// Whom to tell.
    pub(crate) answers: Vec<Answer>,
    /// Tasks to deliver.
    pub(crate) handed_over: Vec<HandedOver>,
    /// What is asked again should the commit fail.
    pub(crate) again: Vec<What>,
    /// Hand-overs whose own result this turn took: nobody needs to be told to stop.
    pub(crate) reported: Vec<Token>,
    /// Places given back when the turn is over.
    pub(crate) permits: Vec<OwnedSemaphorePermit>,
    /// How many runs it began after the first.
    pub(crate) runs_begun: usize,
    /// How many asks it took.
    pub(crate) asks: usize,
    /// About how many bytes its events have.
    pub(crate) bytes: usize,
    /// Details of heartbeats must be written though no event is.
    pub(crate) flush: bool,
    /// What was decided must not be committed.
    pub(crate) broken: Option<Error>,
    /// What is done once it is committed.
    pub(crate) effects: Effects,
}

/// What is done once the commit is through.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    pub(crate) tasks: Vec<(Slot, Box<crate::api::Task>)>,
    pub(crate) changes: Vec<Change>,
    /// Hand-overs no longer in flight, and whether their worker is to be told.
    pub(crate) settled: Vec<(Token, bool)>,
    /// Hand-overs whose worker should stop.
    pub(crate) stop: Vec<Token>,
    /// Watched for silence from now on.
    pub(crate) watched: Vec<(Token, u64)>,
    /// Slots for whose executions something waits in the outbox.
    pub(crate) posted: Vec<u16>,
    /// Executions begun less executions ended.
    pub(crate) alive: i64,
    /// The run is over.
    pub(crate) over: bool,
}

impl std::fmt::Debug for Turn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Turn").field("asks", &self.asks).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Turn {
    /// Whether it takes no more asks.
    pub(crate) fn is_full(&self) -> bool {
        self.asks >= ASKS_MAX || self.bytes >= BYTES_MAX
    }

    /// Answers when the commit is through: with what was decided, unless the commit failed.
    pub(crate) fn answer<T: Send + 'static>(&mut self, reply: Reply<T>, answer: Result<T, Error>) {
        let tell = move |failed: Option<&Error>| {
            let answer = match failed {
                Some(error) => Err(error.clone()),
                None => answer,
            };
            // Who no longer waits does not need to know.
            let _ = reply.send(answer);
        };
        self.answers.push(Box::new(tell));
    }

    /// Takes events in.
    pub(crate) fn extend(&mut self, events: Vec<Recorded>) {
        self.bytes += events.iter().map(|recorded| recorded.event.weight()).sum::<usize>();
        self.events.extend(events);
    }
}
