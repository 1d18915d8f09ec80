//! An event as one line of a test case or a terminal (L15).

use std::fmt;

use super::{Event, TaskError};
use crate::key::Key;

/// `Type step details…`; the workflow's key prints as `(workflow)`.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        if let Some(step) = self.step() {
            write!(f, " {step}")?;
        }
        let details = self.details();
        if details.is_empty() { Ok(()) } else { write!(f, " {details}") }
    }
}

impl Event {
    /// The unit, block or timer that it is about; the empty key is the workflow.
    #[must_use]
    pub fn step(&self) -> Option<&Key> {
        Some(match self {
            Self::StepOpened(e) => &e.step,
            Self::StepFanOut(e) => &e.step,
            Self::StepScheduled(e) => &e.step,
            Self::StepSkipped(e) => &e.step,
            Self::StepDispatched(e) => &e.step,
            Self::StepSucceeded(e) => &e.step,
            Self::StepAttemptFailed(e) => &e.step,
            Self::StepAttemptUncertain(e) => &e.step,
            Self::RetryScheduled(e) => &e.step,
            Self::StepFailed(e) => &e.step,
            Self::StepSuspended(e) => &e.step,
            Self::StepCancelled(e) => &e.step,
            Self::StepClosing(e) => &e.step,
            Self::TimerStarted(e) => &e.step,
            Self::TimerFired(e) => &e.step,
            Self::SignalConsumed(e) => &e.step,
            Self::StaleResultIgnored(e) => &e.step,
            Self::CompensationStarted(e) => &e.step,
            Self::CompensationFailed(e) => &e.step,
            Self::CompensationCompleted(e) => &e.step,
            Self::HandlerStarted(e) => &e.step,
            Self::HandlerFinished(e) => &e.step,
            _ => return None,
        })
    }

    fn details(&self) -> String {
        match self {
            Self::StepScheduled(e) if e.redelivery => format!("attempt={} redelivery", e.attempt),
            Self::StepScheduled(e) => format!("attempt={}", e.attempt),
            Self::StepOpened(e) if e.attempt > 1 => format!("attempt={}", e.attempt),
            Self::StepFailed(e) => format!("{} handled={}", e.error.code, e.handled),
            Self::StepAttemptFailed(e) if e.unknown => format!("{} unknown", e.error.code),
            Self::StepAttemptFailed(e) => e.error.code.clone(),
            Self::StepSuspended(e) => e.error.code.clone(),
            Self::CompensationFailed(e) => e.error.code.clone(),
            Self::StepAttemptUncertain(e) => e.reason.as_str().to_owned(),
            Self::StepClosing(e) => e.reason.as_str().to_owned(),
            Self::CompensationStarted(e) => join(&e.steps),
            Self::StepFanOut(e) => format!("{} items", e.items.len()),
            Self::RetryScheduled(e) => format!("next={}", e.next_attempt),
            Self::SignalReceived(e) => e.signal.clone(),
            Self::SignalConsumed(e) => format!("signal_seq={}", e.signal_seq),
            Self::StaleResultIgnored(e) => e.outcome.as_str().to_owned(),
            Self::HandlerFinished(e) => code(e.error.as_ref()),
            Self::WorkflowCreated(e) => format!("run={}", e.run),
            Self::WorkflowRedriven(e) => format!("{} {}", e.action.as_str(), join(&e.steps)),
            Self::WorkflowContinuedAsNew(e) => format!("run={}", e.run),
            Self::CancelRequested(e) if e.force => "force".to_owned(),
            Self::WorkflowFailed(e) => format!("{} compensation={}", e.error.code, e.compensation.as_str()),
            Self::WorkflowCancelled(e) => format!("compensation={}", e.compensation.as_str()),
            Self::WorkflowTimedOut(e) => format!("compensation={}", e.compensation.as_str()),
            _ => String::new(),
        }
    }
}

fn join(keys: &[Key]) -> String {
    keys.iter().map(|key| &**key).collect::<Vec<_>>().join(" ")
}

fn code(error: Option<&TaskError>) -> String {
    error.map(|error| error.code.clone()).unwrap_or_default()
}
