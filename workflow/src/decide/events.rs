//! Events that several rules write.

use crate::event::{CloseReason, Event, StepClosing, StepOpened, StepSucceeded, TaskError, TimerStarted};
use crate::key::Key;
use crate::value::Payload;

/// Closes `key` well.
pub(super) fn closing_well(key: &str, reason: CloseReason, output: Option<Payload>) -> Event {
    StepClosing { step: Key::from(key), reason, output, error: None }.into()
}

/// Closes `key` badly.
pub(super) fn closing_badly(key: &str, reason: CloseReason, error: Option<TaskError>) -> Event {
    StepClosing { step: Key::from(key), reason, output: None, error }.into()
}

/// `key` failed with `error`: it closes.
pub(super) fn closing_failed(key: &str, error: TaskError) -> Event {
    closing_badly(key, CloseReason::Failed, Some(error))
}

/// `key` succeeded.
pub(super) fn succeeded(key: &str, attempt: u32, output: Option<Payload>) -> Event {
    StepSucceeded { step: Key::from(key), attempt: attempt.max(1), output }.into()
}

/// `key` opens.
pub(super) fn opened(key: &str, attempt: u32) -> Event {
    StepOpened { step: Key::from(key), attempt }.into()
}

/// Timer `name` runs.
pub(super) fn timer(name: impl Into<Key>, fire_at_ms: u64) -> Event {
    TimerStarted { step: name.into(), fire_at_ms }.into()
}
