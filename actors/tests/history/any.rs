//! Events made up from a tape of numbers: every field of every event, with whatever may be absent present or not.

use std::collections::BTreeMap;

use proptest::prelude::*;
use workflow::event::*;
use workflow::key::Key;
use workflow::value::{Payload, Value};

/// Where choices come from; zeros behind its end.
pub struct Tape(std::vec::IntoIter<u64>);

impl Tape {
    fn next(&mut self) -> u64 {
        self.0.next().unwrap_or(0)
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.next() as usize % from.len()]
    }
}

trait Any {
    fn any(tape: &mut Tape) -> Self;
}

macro_rules! any {
    ($($name:ty: |$tape:ident| $make:expr;)*) => {$(
        impl Any for $name {
            fn any($tape: &mut Tape) -> Self {
                $make
            }
        }
    )*};
}

const TEXTS: &[&str] = &["", "a", "order[2]#3~1.charge", "on:event:bell@7", "ü→\u{1F514}", "\0", "tenant"];
const JSON: &[&str] =
    &["null", "0", "\"\"", "{}", "[]", "{\"n\": 1.10,  \"big\": 12345678901234567890}", "\"ü\\u0000\""];

any! {
    u8: |tape| tape.next() as u8;
    u32: |tape| (tape.next() >> (tape.next() % 64)) as u32;
    u64: |tape| tape.next() >> (tape.next() % 64);
    bool: |tape| tape.next() % 2 == 1;
    String: |tape| match tape.next() % 8 {
        0 => "long ".repeat(99),
        _ => tape.pick(TEXTS).to_owned(),
    };
    Key: |tape| Key::from(String::any(tape));
    Value: |tape| Value::from_json(tape.pick(JSON)).unwrap();
    Payload: |tape| match tape.next() % 8 {
        0 => Payload::parse(&format!("\"{}\"", "x".repeat(tape.next() as usize % 20_000))).unwrap(),
        _ => Payload::parse(tape.pick(JSON)).unwrap(),
    };
    BTreeMap<String, Value>: |tape| (0..tape.next() % 4).map(|_| (Any::any(tape), Any::any(tape))).collect();
    SkipReason: |tape| tape.pick(Self::ALL);
    CloseReason: |tape| tape.pick(Self::ALL);
    UncertainReason: |tape| tape.pick(Self::ALL);
    ResultKind: |tape| tape.pick(Self::ALL);
    RedriveAction: |tape| tape.pick(Self::ALL);
    Compensation: |tape| tape.pick(Self::ALL);
}

impl<T: Any> Any for Option<T> {
    fn any(tape: &mut Tape) -> Self {
        bool::any(tape).then(|| T::any(tape))
    }
}

impl<T: Any> Any for Vec<T> {
    fn any(tape: &mut Tape) -> Self {
        (0..tape.next() % 5).map(|_| T::any(tape)).collect()
    }
}

macro_rules! structs {
    ($($name:ident { $($field:ident),* })*) => {$(
        impl Any for $name {
            #[allow(unused_variables)] // some have no fields
            fn any(tape: &mut Tape) -> Self {
                $name { $($field: Any::any(tape)),* }
            }
        }
    )*};
}

structs! {
    Parent { execution_id, created_at_ms, run, step, attempt }
    Queue { task, version, language }
    Child { id, workflow, version, hash }
    SignalTarget { execution, name }
    Failure { reason, code, message, details }
    TaskError { code, message, retryable, details }
}

macro_rules! events {
    ($($name:ident { $($field:ident),* })*) => {
        structs! { $($name { $($field),* })* }

        const MAKERS: &[fn(&mut Tape) -> Event] = &[$(|tape| $name::any(tape).into()),*];
    };
}

events! {
    WorkflowCreated {
        workflow, version, definition_hash, rules, input, run, attributes, first_created_at_ms, parent, schedule_id,
        scheduled_at, timeout_at_ms, traceparent, priority, fairness_key
    }
    WorkflowStarted {}
    StepOpened { step, attempt }
    StepFanOut { step, items, concurrency, max_failures, more }
    StepScheduled {
        step, attempt, input, idempotency_key, redelivery, queue, child, signal, timeout_ms, queue_timeout_ms,
        heartbeat_timeout_ms
    }
    StepSkipped { step, reason }
    StepDispatched { step, attempt, token, worker_id, worker_session, deadline_ms }
    StepSucceeded { step, attempt, output }
    StepAttemptFailed { step, attempt, error, unknown }
    StepAttemptUncertain { step, attempt, reason }
    RetryScheduled { step, next_attempt, delay_ms, fire_at_ms }
    StepFailed { step, error, handled }
    StepSuspended { step, error }
    StepCancelled { step }
    StepClosing { step, reason, output, error }
    TimerStarted { step, fire_at_ms }
    TimerFired { step }
    SignalReceived { signal, payload, dedup_id }
    SignalConsumed { step, signal_seq }
    StaleResultIgnored { step, token, outcome }
    CancelRequested { reason, force }
    WorkflowTimeoutReached {}
    CompensationStarted { step, reason, steps, more }
    CompensationFailed { step, error }
    CompensationCompleted { step }
    HandlerStarted { step, event, failure }
    HandlerFinished { step, result, error }
    WorkflowPaused {}
    WorkflowResumed {}
    WorkflowRedriven { steps, action, output }
    WorkflowCompleted { output, unconsumed_signals }
    WorkflowFailed { error, compensation, unconsumed_signals }
    WorkflowCancelled { compensation, unconsumed_signals }
    WorkflowTimedOut { compensation, unconsumed_signals }
    WorkflowContinuedAsNew { run, input, unconsumed_signals }
}

/// How many types of events can be made.
pub fn types() -> usize {
    MAKERS.len()
}

/// Events of every type.
pub fn event() -> impl Strategy<Value = Recorded> {
    let tape = prop::collection::vec(any::<u64>(), 0..120);
    (0..MAKERS.len(), any::<u64>(), any::<u64>(), tape).prop_map(|(maker, seq, timestamp_ms, tape)| {
        let event = MAKERS[maker](&mut Tape(tape.into_iter()));
        Recorded { seq, timestamp_ms, event }
    })
}
