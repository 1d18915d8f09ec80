//! Time passes: timers of the history, time-outs of attempts, the time-out of the run.

use super::{Command, Refusal, Turn};
use crate::event::{TaskError, TimerFired, WorkflowTimeoutReached};
use crate::key::{Key, ROOT};
use crate::state::Status;

/// A timer that a TimerStarted or RetryScheduled began.
#[derive(Debug)]
pub struct TimerDue<'a> {
    /// Its name.
    pub timer: &'a str,
}

impl Command for TimerDue<'_> {
    type Answer = ();

    fn decide(self, turn: &mut Turn<'_>) -> Result<(), Refusal> {
        let state = turn.state();
        let due = state.timers.get(self.timer).and_then(|timer| timer.fire_at_ms).is_some_and(|at| at <= turn.now_ms);
        if state.head.paused || state.is_over() || !due {
            return Err(Refusal::NotDue);
        }
        turn.emit(TimerFired { step: Key::from(self.timer) });
        Ok(())
    }
}

/// The time-out of the run.
#[derive(Debug)]
pub struct TimeoutDue;

impl Command for TimeoutDue {
    type Answer = ();

    fn decide(self, turn: &mut Turn<'_>) -> Result<(), Refusal> {
        let state = turn.state();
        let due = state.head.timeout_at_ms.is_some_and(|at| at <= turn.now_ms);
        if state.head.paused || state.is_over() || state.closing(ROOT).is_some() || !due {
            return Err(Refusal::NotDue);
        }
        turn.emit(WorkflowTimeoutReached {});
        Ok(())
    }
}

/// What a task's attempt ran out of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// Its `timeout`, from the hand-over.
    Timeout,
    /// Its `heartbeat_timeout`, from the last sign of life.
    Heartbeat,
    /// Its `queue_timeout`, from its StepScheduled: nobody took it.
    Queue,
}

/// An attempt ran out of time. The shard gives this command at or after the due time, which for heartbeats only the
/// shard knows.
#[derive(Debug)]
pub struct Expire<'a> {
    /// The unit.
    pub unit: &'a str,
    /// Which time.
    pub expiry: Expiry,
}

impl Command for Expire<'_> {
    type Answer = ();

    fn decide(self, turn: &mut Turn<'_>) -> Result<(), Refusal> {
        let state = turn.state();
        let (status, code) = match self.expiry {
            Expiry::Timeout => (Status::Dispatched, "TIMEOUT"),
            Expiry::Heartbeat => (Status::Dispatched, "HEARTBEAT_TIMEOUT"),
            Expiry::Queue => (Status::Scheduled, "QUEUE_TIMEOUT"),
        };
        let unit = state.unit(self.unit).filter(|unit| unit.status == status && unit.is_task());
        let closing = self.expiry == Expiry::Queue && state.closing(self.unit).is_some();
        if state.head.paused || state.is_over() || unit.is_none() || closing {
            return Err(Refusal::NotDue);
        }
        let message = match (self.expiry, unit) {
            (Expiry::Timeout, Some(unit)) => format!("no result within {} ms", unit.timeout_ms.unwrap_or_default()),
            (Expiry::Heartbeat, Some(unit)) => {
                format!("nothing heard of it for {} ms", unit.heartbeat_timeout_ms.unwrap_or_default())
            }
            (Expiry::Queue, Some(unit)) => {
                format!("no worker took it within {} ms", unit.queue_timeout_ms.unwrap_or_default())
            }
            (_, None) => String::new(),
        };
        turn.attempt_failed(&Key::from(self.unit), TaskError::transient(code, message), false);
        Ok(())
    }
}
