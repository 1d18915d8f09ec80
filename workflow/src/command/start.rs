//! An execution begins, or goes on in a new run.

use std::collections::BTreeMap;

use super::{Cancel, Command, Refusal, Turn};
use crate::contract::ValueFault;
use crate::decide::{RULES, StartScope};
use crate::definition::AttributeKind;
use crate::event::{Parent, SignalReceived, WorkflowCreated, WorkflowStarted};
use crate::state::Execution;
use crate::value::{Payload, Value};

/// The first command of a run.
#[derive(Debug)]
pub struct Start {
    /// Number of the run, from 1.
    pub run: u32,
    /// When run 1 was created, ms; from run 2 on.
    pub first_created_at_ms: Option<u64>,
    /// Defaults are filled in here.
    pub input: Payload,
    /// Whose child it is.
    pub parent: Option<Parent>,
    /// Unconsumed signals of the run before, in order.
    pub carried: Vec<CarriedSignal>,
    /// The schedule that starts it, and the occurrence.
    pub schedule: Option<(String, u64)>,
    /// W3C trace context of the caller.
    pub traceparent: Option<String>,
    /// 1 to 5, 1 first.
    pub priority: Option<u8>,
    /// Shares a priority by turns.
    pub fairness_key: Option<String>,
    /// Somebody asked to cancel after the run before had ended: nothing of this one begins. Without it a document that
    /// goes on and on without ever waiting could not be stopped.
    pub cancel: Option<Cancel>,
}

/// A signal that moves on to the next run.
#[derive(Clone, Debug)]
pub struct CarriedSignal {
    /// Its name.
    pub signal: String,
    /// Its payload.
    pub payload: Payload,
    /// The sender's name for it.
    pub dedup_id: Option<String>,
}

impl Start {
    /// Run 1 with nothing but an input.
    #[must_use]
    pub fn with_input(input: Payload) -> Self {
        Self {
            run: 1,
            first_created_at_ms: None,
            input,
            parent: None,
            carried: Vec::new(),
            schedule: None,
            traceparent: None,
            priority: None,
            fairness_key: None,
            cancel: None,
        }
    }

    /// The run after one that goes on as new: everything that moves on stands in its events (L10). The signals that
    /// nobody took come along, in order; the time-out starts over.
    #[must_use]
    pub fn next_run(ended: &Execution) -> Self {
        let head = &ended.head;
        let carried = ended.signals.iter().map(|(_, signal)| CarriedSignal {
            signal: signal.signal.clone(),
            payload: signal.payload.clone(),
            dedup_id: signal.dedup_id.clone(),
        });
        Self {
            run: head.run + 1,
            first_created_at_ms: Some(head.first_created_at_ms),
            input: head.output.clone().unwrap_or_default(),
            parent: head.parent.clone(),
            carried: carried.collect(),
            schedule: head.schedule_id.clone().zip(head.scheduled_at_ms),
            traceparent: head.traceparent.clone(),
            priority: head.priority,
            fairness_key: head.fairness_key.clone(),
            cancel: None,
        }
    }

    /// What attributes see.
    fn scope<'a>(&'a self, turn: &'a Turn<'_>, input: &Payload) -> StartScope<'a> {
        StartScope {
            input: input.value(),
            execution_id: &turn.run.execution_id,
            run: self.run,
            started_at_ms: turn.now_ms,
            scheduled_at_ms: self.schedule.as_ref().map(|(_, at_ms)| *at_ms),
            parent_id: self.parent.as_ref().map(|parent| parent.execution_id.as_str()),
            definition: &turn.run.definition,
        }
    }
}

impl Command for Start {
    type Answer = ();

    fn decide(self, turn: &mut Turn<'_>) -> Result<(), Refusal> {
        let definition = turn.run.definition.clone();
        let input = match &definition.input {
            Some(contract) => contract.accept_input(self.input.clone()).map_err(Refusal::InvalidInput)?,
            None => only_objects(self.input.clone())?,
        };
        let attributes = match definition.attributes.len() {
            0 => BTreeMap::new(),
            _ => attributes(&self.scope(turn, &input))?,
        };
        let (schedule_id, scheduled_at) = self.schedule.unzip();
        turn.emit(WorkflowCreated {
            workflow: definition.name.clone(),
            version: definition.version.to_string(),
            definition_hash: definition.hash.clone(),
            rules: RULES,
            input,
            run: self.run,
            attributes,
            first_created_at_ms: self.first_created_at_ms,
            parent: self.parent,
            schedule_id,
            scheduled_at,
            timeout_at_ms: definition.timeout_ms.map(|ms| turn.now_ms.saturating_add(ms)),
            traceparent: self.traceparent,
            priority: self.priority,
            fairness_key: self.fairness_key,
        });
        for CarriedSignal { signal, payload, dedup_id } in self.carried {
            turn.emit(SignalReceived { signal, payload, dedup_id });
        }
        turn.emit(WorkflowStarted {});
        match self.cancel {
            Some(cancel) => cancel.decide(turn),
            None => Ok(()),
        }
    }
}

/// Without a contract any object is taken (L1).
fn only_objects(input: Payload) -> Result<Payload, Refusal> {
    if matches!(input.value(), Value::Map(_)) {
        return Ok(input);
    }
    Err(Refusal::InvalidInput(vec![ValueFault { path: String::new(), message: "an object is needed".to_owned() }]))
}

/// Evaluated once, over input and execution; null is none.
fn attributes(scope: &StartScope<'_>) -> Result<BTreeMap<String, Value>, Refusal> {
    let (mut values, mut faults) = (BTreeMap::new(), Vec::new());
    for (name, attribute) in &scope.definition.attributes {
        let value = attribute.value.evaluate(scope).map_err(|error| error.to_string());
        match value.and_then(|value| typed(attribute.kind, value)) {
            Ok(Value::Null) => {}
            Ok(value) => drop(values.insert(name.clone(), value)),
            Err(message) => faults.push(ValueFault { path: format!("/attributes/{name}"), message }),
        }
    }
    if faults.is_empty() { Ok(values) } else { Err(Refusal::InvalidInput(faults)) }
}

fn typed(kind: AttributeKind, value: Value) -> Result<Value, String> {
    let fits = match (kind, &value) {
        (_, Value::Null) => true,
        (AttributeKind::String, value) => value.as_str().is_some(),
        (AttributeKind::Integer | AttributeKind::Time, Value::Int(_)) => true,
        (AttributeKind::Number, Value::Int(_) | Value::Double(_)) => true,
        (AttributeKind::Boolean, value) => value.as_bool().is_some(),
        _ => false,
    };
    if fits { Ok(value) } else { Err(format!("the attribute is {}, declared otherwise", value.kind())) }
}
