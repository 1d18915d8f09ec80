//! How much an event counts in batches and histories.

use super::Event;
use crate::value::Payload;

impl Event {
    /// Bytes that it counts in batches and histories: its payloads, and a hundred for the rest.
    #[must_use]
    pub fn weight(&self) -> usize {
        let payload = match self {
            Self::WorkflowCreated(e) => e.input.len(),
            Self::StepFanOut(e) => e.items.iter().map(Payload::len).sum(),
            Self::StepScheduled(e) => e.input.as_ref().map_or(0, Payload::len),
            Self::StepSucceeded(e) => e.output.as_ref().map_or(0, Payload::len),
            Self::StepClosing(e) => e.output.as_ref().map_or(0, Payload::len),
            Self::SignalReceived(e) => e.payload.len(),
            Self::CompensationStarted(e) => e.steps.iter().map(|key| key.len()).sum(),
            Self::WorkflowCompleted(e) => e.output.len(),
            Self::WorkflowContinuedAsNew(e) => e.input.len(),
            Self::WorkflowRedriven(e) => e.output.as_ref().map_or(0, Payload::len),
            Self::HandlerStarted(e) => e.event.as_ref().map_or(0, Payload::len),
            Self::HandlerFinished(e) => e.result.as_ref().map_or(0, Payload::len),
            Self::StepAttemptFailed(e) => e.error.weight(),
            Self::StepFailed(e) => e.error.weight(),
            Self::StepSuspended(e) => e.error.weight(),
            Self::CompensationFailed(e) => e.error.weight(),
            Self::WorkflowFailed(e) => e.error.weight(),
            _ => 0,
        };
        payload + 100
    }
}
