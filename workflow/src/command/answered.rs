//! A child or the receiver of a signal answers, once per attempt (L8).

use super::{Command, Refusal, Run, Turn};
use crate::event::{Parent, StepAttemptUncertain, StepSucceeded, TaskError, UncertainReason};
use crate::key::Key;
use crate::state::{RunStatus, Status};
use crate::value::{Payload, Value};

/// What the parent of a run is told of its end; none if nobody is to be told (L8).
#[must_use]
pub fn end_of_child(run: &Run) -> Option<(Parent, Result<Payload, TaskError>)> {
    let head = &run.state().head;
    let parent = head.parent.clone()?;
    let (code, message) = match (head.status, &head.error) {
        (RunStatus::Completed, _) => return Some((parent, Ok(head.output.clone().unwrap_or_default()))),
        (RunStatus::Running | RunStatus::Continued, _) => return None,
        (RunStatus::Cancelled, _) => ("CHILD_CANCELLED", format!("child {} was cancelled", run.execution_id())),
        (RunStatus::TimedOut, _) => ("CHILD_TIMED_OUT", format!("child {} took too long", run.execution_id())),
        (RunStatus::Failed, Some(error)) => (&*error.code, error.message.clone()),
        (RunStatus::Failed, None) => ("", String::new()),
    };
    let details = Value::map([("child_execution_id", Value::from(run.execution_id()))]);
    Some((parent, Err(TaskError { details: Some(Payload::from(details)), ..TaskError::permanent(code, message) })))
}

/// Why a signal to another execution failed: by what `receiver` refused it with (L7).
#[must_use]
pub fn undeliverable(code: &str, receiver: &str, message: &str) -> TaskError {
    let code = match code {
        "NOT_FOUND" => "EXECUTION_NOT_FOUND",
        "INVALID_SIGNAL" => "INPUT_CONTRACT_VIOLATION",
        "OVERLOADED" => "SIGNAL_BUFFER_FULL",
        code => code,
    };
    TaskError { retryable: code == "SIGNAL_BUFFER_FULL", ..told_by(code, receiver, message) }
}

/// Why a child did not begin: by what `child` refused it with (L8).
#[must_use]
pub fn unstartable(code: &str, child: &str, message: &str) -> TaskError {
    let code = match code {
        "EXECUTION_EXISTS" => "CHILD_ID_TAKEN",
        "INVALID_INPUT" => "INPUT_CONTRACT_VIOLATION",
        code => code,
    };
    told_by(code, child, message)
}

fn told_by(code: &str, execution: &str, message: &str) -> TaskError {
    TaskError::permanent(code, format!("execution {execution}: {message}"))
}

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
