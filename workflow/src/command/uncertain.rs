//! Nobody knows what became of a hand-over: its session is lost, it was not received, its worker left, the node under
//! a built-in went down. The same attempt is scheduled again, with the same key (L5).

use super::{Command, Refusal, Token, Turn};
use crate::event::{StepAttemptUncertain, UncertainReason};

/// A hand-over is given up.
#[derive(Debug)]
pub struct Uncertain<'a> {
    /// The hand-over.
    pub token: &'a Token,
    /// Why.
    pub reason: UncertainReason,
}

impl Command for Uncertain<'_> {
    type Answer = ();

    fn decide(self, turn: &mut Turn<'_>) -> Result<(), Refusal> {
        let state = turn.state();
        if state.head.paused || state.is_over() {
            // Lost workers are noticed on resume (L10).
            return Err(Refusal::NotInFlight);
        }
        let hand_over = turn.run.hand_over(self.token).ok_or(Refusal::NotInFlight)?;
        let key = hand_over.unit.clone();
        let unit = state.unit(&key).filter(|unit| unit.token == Some(self.token.seq)).ok_or(Refusal::NotInFlight)?;
        let attempt = unit.attempt;
        turn.emit(StepAttemptUncertain { step: key, attempt, reason: self.reason });
        Ok(())
    }
}
