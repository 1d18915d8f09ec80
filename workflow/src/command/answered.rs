//! A child or the receiver of a signal answers, once per attempt (L8).

use super::{Command, Refusal, Turn};
use crate::event::{StepAttemptUncertain, StepSucceeded, TaskError, UncertainReason};
use crate::key::Key;
use crate::state::Status;
use crate::value::Payload;

/// What became of a delivery.
#[derive(Debug)]
pub struct Answered<'a> {
    /// The unit.
    pub unit: &'a str,
    /// The attempt that was delivered.
    pub attempt: u32,
    /// The child's output, or how it ended.
    pub result: Result<Payload, TaskError>,
}

impl Command for Answered<'_> {
    type Answer = ();

    fn decide(self, turn: &mut Turn<'_>) -> Result<(), Refusal> {
        let waits = turn.unit(self.unit).is_some_and(|unit| {
            unit.attempt == self.attempt && unit.status == Status::Scheduled && !unit.is_task() && unit.work.is_some()
        });
        if turn.state().is_over() || !waits {
            return Err(Refusal::NotInFlight);
        }
        let (step, attempt) = (Key::from(self.unit), self.attempt);
        match self.result {
            Err(error) => turn.attempt_failed(&step, error, false),
            Ok(_) if turn.state().closing(self.unit).is_some() => {
                turn.emit(StepAttemptUncertain { step, attempt, reason: UncertainReason::Stopped });
            }
            Ok(output) => turn.emit(StepSucceeded { step, attempt, output: Some(output) }),
        }
        Ok(())
    }
}
