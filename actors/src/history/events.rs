//! The events and their fields, with the numbers that `history.proto` gives them.

use workflow::event::*;

use super::error::HistoryError;
use super::field::{Field, Message, One, message};
use super::wire::{Raw, Sink, Source};

/// An event that is forgotten here does not compile.
macro_rules! events {
    ($($kind:literal $name:ident { $($number:literal $field:ident),* })*) => {
        message! { $($name { $($number $field),* })* }

        /// The field of `Event` that holds such an event.
        pub(super) fn number(event: &Event) -> u32 {
            match event { $(Event::$name(_) => $kind,)* }
        }

        /// The event's own fields.
        pub(super) fn write<S: Sink>(event: &Event, sink: &mut S) {
            match event { $(Event::$name(event) => event.write_fields(sink),)* }
        }

        /// The event in a field of `Event`, if this version knows such events.
        pub(super) fn read(kind: u32, raw: Raw<'_>) -> Result<Option<Event>, HistoryError> {
            Ok(Some(match kind {
                $($kind => Event::$name(One::get(raw).map_err(|e| e.at(stringify!($name)))?),)*
                _ => return Ok(None),
            }))
        }

        #[cfg(test)]
        pub(super) const TABLE: &[(u32, &str, &[(i32, &str)])] =
            &[$(($kind, stringify!($name), &[$(($number, stringify!($field))),*])),*];
    };
}

events! {
    2 WorkflowCreated {
        1 workflow,
        2 version,
        3 definition_hash,
        4 rules,
        5 input,
        6 run,
        7 attributes,
        8 first_created_at_ms,
        9 parent,
        10 schedule_id,
        11 scheduled_at,
        12 timeout_at_ms,
        13 traceparent,
        14 priority,
        15 fairness_key
    }
    3 WorkflowStarted {}
    4 StepOpened { 1 step, 2 attempt }
    5 StepFanOut { 1 step, 2 items, 3 concurrency, 4 max_failures, 5 more }
    6 StepScheduled {
        1 step,
        2 attempt,
        3 input,
        4 idempotency_key,
        5 redelivery,
        6 queue,
        7 child,
        8 signal,
        9 timeout_ms,
        10 queue_timeout_ms,
        11 heartbeat_timeout_ms
    }
    7 StepSkipped { 1 step, 2 reason }
    8 StepDispatched { 1 step, 2 attempt, 3 token, 4 worker_id, 5 worker_session, 6 deadline_ms }
    9 StepSucceeded { 1 step, 2 attempt, 3 output }
    10 StepAttemptFailed { 1 step, 2 attempt, 3 error, 4 unknown }
    11 StepAttemptUncertain { 1 step, 2 attempt, 3 reason }
    12 RetryScheduled { 1 step, 2 next_attempt, 3 delay_ms, 4 fire_at_ms }
    13 StepFailed { 1 step, 2 error, 3 handled }
    14 StepSuspended { 1 step, 2 error }
    15 StepCancelled { 1 step }
    16 StepClosing { 1 step, 2 reason, 3 output, 4 error }
    17 TimerStarted { 1 step, 2 fire_at_ms }
    18 TimerFired { 1 step }
    19 SignalReceived { 1 signal, 2 payload, 3 dedup_id }
    20 SignalConsumed { 1 step, 2 signal_seq }
    21 StaleResultIgnored { 1 step, 2 token, 3 outcome }
    22 CancelRequested { 1 reason, 2 force }
    23 WorkflowTimeoutReached {}
    24 CompensationStarted { 1 step, 2 reason, 3 steps, 4 more }
    25 CompensationFailed { 1 step, 2 error }
    26 CompensationCompleted { 1 step }
    27 HandlerStarted { 1 step, 2 event, 3 failure }
    28 HandlerFinished { 1 step, 2 result, 3 error }
    29 WorkflowPaused {}
    30 WorkflowResumed {}
    31 WorkflowRedriven { 1 steps, 2 action, 3 output }
    32 WorkflowCompleted { 1 output, 2 unconsumed_signals }
    33 WorkflowFailed { 1 error, 2 compensation, 3 unconsumed_signals }
    34 WorkflowCancelled { 1 compensation, 2 unconsumed_signals }
    35 WorkflowTimedOut { 1 compensation, 2 unconsumed_signals }
    36 WorkflowContinuedAsNew { 1 run, 2 input, 3 unconsumed_signals }
}
