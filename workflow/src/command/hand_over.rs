//! A worker takes a scheduled task.

use super::{Command, Refusal, Token, Turn};
use crate::event::StepDispatched;
use crate::key::Key;
use crate::plant::{Plant, planted};
use crate::state::Status;

/// A slot of a worker takes a ready unit.
#[derive(Debug)]
pub struct OfferTaken<'a> {
    /// The unit.
    pub unit: &'a str,
    /// Who takes it.
    pub worker_id: &'a str,
    /// Through which session.
    pub worker_session: &'a str,
    /// The token's random part.
    pub nonce: [u8; 8],
}

impl Command for OfferTaken<'_> {
    type Answer = Token;

    fn decide(self, turn: &mut Turn<'_>) -> Result<Token, Refusal> {
        let state = turn.state();
        let is_free =
            |status| status == Status::Scheduled || planted(Plant::SecondToken) && status == Status::Dispatched;
        let ready = state.unit(self.unit).filter(|unit| is_free(unit.status) && unit.is_task());
        let Some(unit) = ready else { return Err(Refusal::NotReady) };
        if state.head.paused || state.is_over() || state.closing(self.unit).is_some() {
            return Err(Refusal::NotReady);
        }
        let token = Token {
            execution_id: turn.run.execution_id.clone(),
            run: state.head.run,
            seq: state.head.seq + 1,
            nonce: self.nonce,
        };
        let event = StepDispatched {
            step: Key::from(self.unit),
            attempt: unit.attempt,
            token: token.to_string(),
            worker_id: self.worker_id.to_owned(),
            worker_session: self.worker_session.to_owned(),
            deadline_ms: unit.timeout_ms.map(|ms| turn.now_ms.saturating_add(ms)),
        };
        turn.emit(event);
        Ok(token)
    }
}
