//! A worker says that it is still at a task. No event: only the last details are kept, beside the history (L12).

use super::{Command, Refusal, Token, Turn};
use crate::value::Payload;

/// A sign of life about one hand-over.
#[derive(Debug)]
pub struct Heartbeat<'a> {
    /// The hand-over.
    pub token: &'a Token,
    /// How far it is; given to the next hand-over of the unit.
    pub details: Option<Payload>,
}

/// What the worker is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeartbeatAnswer {
    /// The hand-over is in flight.
    pub accepted: bool,
    /// The worker should stop.
    pub cancel: bool,
}

impl Command for Heartbeat<'_> {
    type Answer = HeartbeatAnswer;

    fn decide(self, turn: &mut Turn<'_>) -> Result<HeartbeatAnswer, Refusal> {
        let Some(key) = turn.run.hand_over(self.token).map(|hand_over| hand_over.unit.clone()) else {
            return Ok(HeartbeatAnswer { accepted: false, cancel: true });
        };
        let state = turn.state();
        let in_flight = state.unit(&key).is_some_and(|unit| unit.token == Some(self.token.seq)) && !state.is_over();
        let cancel = !in_flight || state.outermost_closing(&key).is_some();
        if let (true, Some(details)) = (in_flight, self.details) {
            turn.run.heartbeats.insert(key, details);
        }
        Ok(HeartbeatAnswer { accepted: in_flight, cancel })
    }
}
