//! A signal comes in (L7). Its dedup row outlives runs and is kept by the shard, not here.

use super::{Command, Refusal, Turn};
use crate::event::{CloseReason, Seq, SignalReceived};
use crate::key::ROOT;
use crate::value::Payload;

/// Most signals that wait to be taken.
pub const SIGNALS_MAX: u64 = 10_000;

/// A signal.
#[derive(Debug)]
pub struct SendSignal {
    /// Its name.
    pub name: String,
    /// Its payload.
    pub payload: Payload,
    /// The sender's name for it.
    pub dedup_id: Option<String>,
}

/// Where a signal stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The run.
    pub run: u32,
    /// Place of its SignalReceived.
    pub seq: Seq,
}

impl Command for SendSignal {
    type Answer = Accepted;

    fn decide(self, turn: &mut Turn<'_>) -> Result<Accepted, Refusal> {
        let Some(contract) = turn.definition().signals.get(&self.name) else {
            return Err(Refusal::unknown_signal(turn.definition(), &self.name));
        };
        let state = turn.state();
        let closing = state.closing(ROOT).is_some_and(|closing| closing.reason != CloseReason::Continued);
        if state.is_over() || closing {
            return Err(Refusal::Finished);
        }
        contract.check(&self.payload).map_err(Refusal::InvalidSignal)?;
        if state.head.unconsumed_signals >= SIGNALS_MAX {
            return Err(Refusal::SignalBufferFull);
        }
        let accepted = Accepted { run: state.head.run, seq: state.head.seq + 1 };
        turn.emit(SignalReceived { signal: self.name, payload: self.payload, dedup_id: self.dedup_id });
        Ok(accepted)
    }
}
