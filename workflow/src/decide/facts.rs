//! What every rule looks at: the definition seen from a key, and the state.

use crate::definition::{Block, Compensate, Definition, DurationSpec, Kind, Step};
use crate::event::TaskError;
use crate::expression::{Expression, Template};
use crate::key;
use crate::state::{Execution, Unit};
use crate::value::{Payload, Value};

use super::scope::StepScope;

/// Definition and state of one run at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The pinned definition.
    pub definition: &'a Definition,
    /// The run's state.
    pub state: &'a Execution,
    /// The execution's id.
    pub execution_id: &'a str,
    /// The shard's time, ms.
    pub now_ms: u64,
    /// How long the history may grow.
    pub limits: super::Limits,
}

/// What a unit is, seen from its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The `for` around elements.
    For,
    /// The `repeat` around iterations.
    Repeat,
    /// A block.
    Steps,
    /// A wait for signals.
    Await,
    /// A task, child or signal.
    Acts,
    /// A sleep, computation or failure.
    Other,
}

impl<'a> Facts<'a> {
    /// The step that `key`'s last segment names.
    pub(crate) fn step(&self, key: &str) -> Option<&'a Step> {
        self.definition.step_named(key::last_segment(key).id)
    }

    /// The block whose open instance is at `path`.
    pub(crate) fn block_at(&self, path: &str) -> Option<&'a Block> {
        if path.is_empty() {
            return Some(&self.definition.root);
        }
        if key::is_handler_path(path) {
            let handlers = &self.definition.handlers;
            let name = &path["on:".len()..];
            return match name.strip_prefix("event:").and_then(|rest| rest.split_once('@')) {
                Some((signal, _)) => handlers.event.get(signal),
                None => match name.split('~').next() {
                    Some("failure") => handlers.failure.as_ref(),
                    Some("cancel") => handlers.cancel.as_ref(),
                    Some("timeout") => handlers.timeout.as_ref(),
                    Some("exit") => handlers.exit.as_ref(),
                    _ => None,
                },
            };
        }
        self.step(path).and_then(Step::block)
    }

    /// The path of the open instance of block unit `key` (L11).
    pub(crate) fn instance(&self, key: &str) -> key::Key {
        let numbered = self.step(key).is_some_and(|step| step.retry.is_some());
        match self.state.unit(key) {
            Some(unit) if numbered => key::Key::from(format!("{key}~{}", unit.attempt)),
            _ => key::Key::from(key),
        }
    }

    /// What the unit at `key` is.
    pub(crate) fn role(&self, key: &str) -> Role {
        let Some(step) = self.step(key) else { return Role::Other };
        let segment = key::last_segment(key);
        if step.for_each.is_some() && segment.element.is_none() {
            return Role::For;
        }
        if step.repeat.is_some() && segment.iteration.is_none() {
            return Role::Repeat;
        }
        match step.kind {
            Kind::Steps(_) => Role::Steps,
            Kind::Await(_) => Role::Await,
            Kind::Task(_) | Kind::Workflow { .. } | Kind::Signal(_) => Role::Acts,
            _ => Role::Other,
        }
    }

    /// The `compensate` that belongs to this very unit: to each element and iteration, not to what is around them.
    pub(crate) fn compensation(&self, key: &str) -> Option<&'a Compensate> {
        let compensate = self.step(key)?.compensate.as_ref()?;
        (!matches!(self.role(key), Role::For | Role::Repeat)).then_some(compensate)
    }

    /// The unit at `key`.
    pub(crate) fn unit(&self, key: &str) -> Option<&'a Unit> {
        self.state.units.get(key)
    }

    /// Whether something at or around `key` closes.
    pub(crate) fn is_stopped(&self, key: &str) -> bool {
        self.state.outermost_closing(key).is_some()
    }

    // ---- expressions, as the unit at `key` sees them

    /// A condition: must be boolean.
    pub(crate) fn condition(&self, expression: &Expression, scope: &StepScope<'_>) -> Result<bool, TaskError> {
        expression.condition(scope).map_err(TaskError::expression)
    }

    /// Whether `expression` holds; an error is no match: a stranger's payload must not kill an execution (L2).
    pub(crate) fn matches(&self, expression: &Expression, scope: &StepScope<'_>) -> bool {
        matches!(expression.evaluate(scope), Ok(Value::Bool(true)))
    }

    /// A template's value.
    pub(crate) fn value(&self, template: &Template, scope: &StepScope<'_>) -> Result<Value, TaskError> {
        if let Some(constant) = template.constant() {
            return Ok(constant.clone());
        }
        template.evaluate(scope).map_err(TaskError::expression)
    }

    /// A template's value as bytes.
    pub(crate) fn payload(&self, template: &Template, scope: &StepScope<'_>) -> Result<Payload, TaskError> {
        self.value(template, scope).and_then(|value| bounded(&value))
    }

    /// A duration in ms.
    pub(crate) fn duration(&self, spec: &DurationSpec, scope: &StepScope<'_>) -> Result<u64, TaskError> {
        match spec {
            DurationSpec::Fixed(ms) => Ok(*ms),
            DurationSpec::Evaluated(template) => duration_of(&self.value(template, scope)?),
        }
    }
}

/// A value as bytes, if it is not too long to be kept.
pub(crate) fn bounded(value: &Value) -> Result<Payload, TaskError> {
    let payload = Payload::from(value);
    if payload.len() > super::PAYLOAD_BYTES_MAX {
        let message = format!("{} bytes, at most {} are kept", payload.len(), super::PAYLOAD_BYTES_MAX);
        return Err(TaskError::permanent("PAYLOAD_TOO_LARGE", message));
    }
    Ok(payload)
}

/// A duration that an expression gave: ms, or a text such as `1h30m`.
fn duration_of(value: &Value) -> Result<u64, TaskError> {
    let ms = match value {
        Value::Int(ms) => u64::try_from(*ms).ok(),
        // Ms beyond a double's exact integers are centuries.
        Value::Double(ms) if *ms >= 0.0 && *ms < 9e15 => Some(*ms as u64),
        Value::String(text) => crate::expression::text::parse_duration_ms(text),
        _ => None,
    };
    ms.ok_or_else(|| TaskError::expression(format!("no duration: {}", value.to_json())))
}
