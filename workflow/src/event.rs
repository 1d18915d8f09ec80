//! Everything that can happen to an execution (L12).
//!
//! The history of a run is a list of [`Recorded`] events, `seq` 1, 2, 3… without a gap, the terminal one last. State
//! is their left fold ([`crate::state`]). In JSON the fields lie flat beside `seq`, `timestamp_ms` and `type`; payloads
//! are embedded byte for byte.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::key::Key;
use crate::value::{Payload, Value};

mod error;
mod json;
mod line;
mod parts;
mod sparse;
mod weight;

pub use error::{CODES, TaskError, is_own_code};
pub use json::ReadError;
pub use parts::{
    Child, CloseReason, Compensation, Failure, Parent, Queue, RedriveAction, ResultKind, SignalTarget, SkipReason,
    UncertainReason,
};

/// Place of an event in its run's history, from 1.
pub type Seq = u64;

/// An event as it stands in a history.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recorded {
    /// Its place.
    pub seq: Seq,
    /// When it happened by the shard's time, ms since 1970.
    pub timestamp_ms: u64,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

macro_rules! events {
    ($(
        $(#[$doc:meta])*
        $name:ident { $($(#[$field_doc:meta])* $(#![$field_attr:meta])? $field:ident: $type:ty,)* }
    )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
            #[serde(deny_unknown_fields)]
            pub struct $name {
                $($(#[$field_doc])* $(#[$field_attr])? pub $field: $type,)*
            }

            impl From<$name> for Event {
                fn from(event: $name) -> Self {
                    Self::$name(event)
                }
            }
        )*

        /// What can happen.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[serde(tag = "type")]
        #[allow(missing_docs)] // each variant is documented at its struct
        pub enum Event {
            $($name($name),)*
        }

        impl Event {
            /// Every type of event, by name.
            pub const TYPES: &'static [&'static str] = &[$(stringify!($name)),*];

            /// Its type's name.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self { $(Self::$name(_) => stringify!($name),)* }
            }

            fn read(name: &str, fields: &str) -> Result<Option<Self>, serde_json::Error> {
                Ok(Some(match name {
                    $(stringify!($name) => Self::$name(serde_json::from_str(fields)?),)*
                    _ => return Ok(None),
                }))
            }
        }
    };
}

events! {
    /// A run begins.
    WorkflowCreated {
        /// The definition's name.
        workflow: String,
        /// The definition's version.
        version: String,
        /// The definition's hash.
        definition_hash: String,
        /// Version of the rules by which this run is decided as long as it lives.
        rules: u32,
        /// What it was started with, defaults filled in.
        input: Payload,
        /// Number of the run, from 1.
        run: u32,
        /// Searchable attributes.
        attributes: BTreeMap<String, Value>,
        /// When run 1 was created; from run 2 on. Keys and children use this time.
        #![serde(default, skip_serializing_if = "Option::is_none")]
        first_created_at_ms: Option<u64>,
        /// Whose child it is.
        #![serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<Parent>,
        /// The schedule that started it.
        #![serde(default, skip_serializing_if = "Option::is_none")]
        schedule_id: Option<String>,
        /// The occurrence that it stands for.
        #![serde(default, skip_serializing_if = "Option::is_none")]
        scheduled_at: Option<u64>,
        /// When the run's time-out is due.
        #![serde(default, skip_serializing_if = "Option::is_none")]
        timeout_at_ms: Option<u64>,
        /// W3C trace context of the caller.
        #![serde(default, skip_serializing_if = "Option::is_none")]
        traceparent: Option<String>,
        /// 1 to 5, 1 first.
        #![serde(default, skip_serializing_if = "Option::is_none")]
        priority: Option<u8>,
        /// Shares a priority by turns.
        #![serde(default, skip_serializing_if = "Option::is_none")]
        fairness_key: Option<String>,
    }
    /// The run may be decided.
    WorkflowStarted {}
    /// A block or a wait opens.
    StepOpened {
        /// The unit.
        step: Key,
        /// Attempt of the block, from 1.
        attempt: u32,
    }
    /// A list became elements.
    StepFanOut {
        /// The step.
        step: Key,
        /// Items; further ones follow while `more`.
        items: Vec<Payload>,
        /// Elements in flight at a time, as evaluated.
        #![serde(default, skip_serializing_if = "Option::is_none")]
        concurrency: Option<u32>,
        /// Elements that may fail, as evaluated.
        #![serde(default, skip_serializing_if = "Option::is_none")]
        max_failures: Option<u32>,
        /// Whether further events of this type follow.
        #![serde(default, skip_serializing_if = "is_false")]
        more: bool,
    }
    /// An attempt of a task, child or signal is due to be carried out.
    StepScheduled {
        /// The unit.
        step: Key,
        /// Attempt, from 1.
        attempt: u32,
        /// What it gets; left out when it was scheduled before.
        #![serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<Payload>,
        /// The same on every hand-over of the unit.
        idempotency_key: String,
        /// Whether this attempt may have been handed over before.
        redelivery: bool,
        /// Which workers it waits for.
        #![serde(default, skip_serializing_if = "Option::is_none")]
        queue: Option<Queue>,
        /// The child it starts.
        #![serde(default, skip_serializing_if = "Option::is_none")]
        child: Option<Child>,
        /// The signal it sends.
        #![serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<SignalTarget>,
        /// From each hand-over.
        #![serde(default, skip_serializing_if = "Option::is_none")]
        timeout_ms: Option<u64>,
        /// From this event to the hand-over.
        #![serde(default, skip_serializing_if = "Option::is_none")]
        queue_timeout_ms: Option<u64>,
        /// Longest silence about the attempt.
        #![serde(default, skip_serializing_if = "Option::is_none")]
        heartbeat_timeout_ms: Option<u64>,
    }
    /// A step is left out.
    StepSkipped {
        /// The step.
        step: Key,
        /// Why.
        reason: SkipReason,
    }
    /// A worker gets an attempt.
    StepDispatched {
        /// The unit.
        step: Key,
        /// The attempt.
        attempt: u32,
        /// Names this hand-over; shown to callers without its random part.
        token: String,
        /// Who gets it.
        worker_id: String,
        /// Through which session.
        worker_session: String,
        /// When the attempt times out.
        #![serde(default, skip_serializing_if = "Option::is_none")]
        deadline_ms: Option<u64>,
    }
    /// A unit, block, `for` or `repeat` succeeded.
    StepSucceeded {
        /// The unit.
        step: Key,
        /// The attempt that did.
        attempt: u32,
        /// What it yields; a `for` carries none and is read from its units.
        #![serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "json::present")]
        output: Option<Payload>,
    }
    /// An attempt failed.
    StepAttemptFailed {
        /// The unit.
        step: Key,
        /// The attempt.
        attempt: u32,
        /// Why.
        error: TaskError,
        /// Whether it may have happened all the same.
        unknown: bool,
    }
    /// Nobody knows what became of a hand-over.
    StepAttemptUncertain {
        /// The unit.
        step: Key,
        /// The attempt.
        attempt: u32,
        /// Why.
        reason: UncertainReason,
    }
    /// A failed attempt is tried again later.
    RetryScheduled {
        /// The unit.
        step: Key,
        /// Its next attempt.
        next_attempt: u32,
        /// How long that is from now.
        delay_ms: u64,
        /// When.
        fire_at_ms: u64,
    }
    /// A unit failed for good.
    StepFailed {
        /// The unit.
        step: Key,
        /// Why.
        error: TaskError,
        /// Whether the execution goes on as if it were resolved.
        handled: bool,
    }
    /// A failed unit waits for an operator.
    StepSuspended {
        /// The unit.
        step: Key,
        /// Why it failed.
        error: TaskError,
    }
    /// An open unit is given up because something around it closes.
    StepCancelled {
        /// The unit.
        step: Key,
    }
    /// A step, block or the workflow (`step` empty) closes early, or with something left to undo.
    StepClosing {
        /// What closes.
        step: Key,
        /// Why.
        reason: CloseReason,
        /// What it will yield; frozen now.
        #![serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "json::present")]
        output: Option<Payload>,
        /// What it will fail with.
        #![serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<TaskError>,
    }
    /// A timer runs: a sleep, a wait's time-out, a delay between iterations, a `deadline:` or a `grace:`.
    TimerStarted {
        /// The timer.
        step: Key,
        /// When it is due.
        fire_at_ms: u64,
    }
    /// A timer was due.
    TimerFired {
        /// The timer.
        step: Key,
    }
    /// A signal came in.
    SignalReceived {
        /// Its name.
        signal: String,
        /// Its payload.
        payload: Payload,
        /// The sender's name for it.
        #![serde(default, skip_serializing_if = "Option::is_none")]
        dedup_id: Option<String>,
    }
    /// A wait took a signal.
    SignalConsumed {
        /// The wait.
        step: Key,
        /// The SignalReceived.
        signal_seq: Seq,
    }
    /// A result came too late and changes nothing.
    StaleResultIgnored {
        /// The unit.
        step: Key,
        /// The hand-over that it is for.
        token: String,
        /// Whether it was a success.
        outcome: ResultKind,
    }
    /// Somebody asked to cancel.
    CancelRequested {
        /// Why.
        reason: String,
        /// End now, without undo.
        force: bool,
    }
    /// The time-out of the run was due.
    WorkflowTimeoutReached {}
    /// Undoing begins.
    CompensationStarted {
        /// What closes.
        step: Key,
        /// Why.
        reason: CloseReason,
        /// What is undone, in this order; further ones follow while `more`.
        steps: Vec<Key>,
        /// Whether further events of this type follow.
        #![serde(default, skip_serializing_if = "is_false")]
        more: bool,
    }
    /// A unit could not be undone.
    CompensationFailed {
        /// The unit that was to be undone.
        step: Key,
        /// Why not.
        error: TaskError,
    }
    /// Undoing is done.
    CompensationCompleted {
        /// What closes.
        step: Key,
    }
    /// A handler begins.
    HandlerStarted {
        /// The handler.
        step: Key,
        /// The payload of its signal.
        #![serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "json::present")]
        event: Option<Payload>,
        /// How the run ends badly.
        #![serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<Failure>,
    }
    /// A handler ended.
    HandlerFinished {
        /// The handler.
        step: Key,
        /// What it yields.
        #![serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "json::present")]
        result: Option<Payload>,
        /// What it failed with.
        #![serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<TaskError>,
    }
    /// Nothing is decided or handed over until it is resumed.
    WorkflowPaused {}
    /// Deciding goes on.
    WorkflowResumed {}
    /// An operator moves failed or suspended units.
    WorkflowRedriven {
        /// Which, with what contains them.
        steps: Vec<Key>,
        /// How.
        action: RedriveAction,
        /// What a resolved one yields.
        #![serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "json::present")]
        output: Option<Payload>,
    }
    /// The run ended well.
    WorkflowCompleted {
        /// Its result.
        output: Payload,
        /// Signals that nobody took.
        unconsumed_signals: u64,
    }
    /// The run failed.
    WorkflowFailed {
        /// Why.
        error: TaskError,
        /// All undoing of the run.
        compensation: Compensation,
        /// Signals that nobody took.
        unconsumed_signals: u64,
    }
    /// The run was cancelled.
    WorkflowCancelled {
        /// All undoing of the run.
        compensation: Compensation,
        /// Signals that nobody took.
        unconsumed_signals: u64,
    }
    /// The run timed out.
    WorkflowTimedOut {
        /// All undoing of the run.
        compensation: Compensation,
        /// Signals that nobody took.
        unconsumed_signals: u64,
    }
    /// The execution goes on in a new run.
    WorkflowContinuedAsNew {
        /// Its number.
        run: u32,
        /// Its input.
        input: Payload,
        /// Signals that move on to it.
        unconsumed_signals: u64,
    }
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the form serde asks for
fn is_false(flag: &bool) -> bool {
    !flag
}

impl Event {
    /// Whether a run ends with this event.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        matches!(
            self,
            Self::WorkflowCompleted(_)
                | Self::WorkflowFailed(_)
                | Self::WorkflowCancelled(_)
                | Self::WorkflowTimedOut(_)
                | Self::WorkflowContinuedAsNew(_)
        )
    }
}
