//! What expressions see (L2).

use crate::event::TaskError;
use crate::expression::{EvalError, Operand, Scope, View};
use crate::key::{self, Key, ROOT};
use crate::state::{FanOut, Unit};
use crate::value::{Payload, Value};

use super::repeat::iteration_key;
use super::{Facts, Role};

/// What the unit at a key sees.
pub(crate) struct StepScope<'a> {
    facts: Facts<'a>,
    /// The unit, or the path of the block whose own expressions are evaluated.
    key: &'a str,
    /// Where names of steps are looked up first.
    block: &'a str,
    extra: Vec<(&'static str, Extra)>,
}

/// A variable that only some expressions see.
pub(super) enum Extra {
    Value(Value),
    /// An element of a `for`.
    Element(Key, u32),
}

/// What a block's own expressions see: `result` and `done_when`, and queries at the root.
pub struct BlockScope<'a>(StepScope<'a>);

impl std::fmt::Debug for BlockScope<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BlockScope({:?})", self.0.key)
    }
}

impl<'a> BlockScope<'a> {
    /// What queries see of a run.
    #[must_use]
    pub fn root(facts: Facts<'a>) -> Self {
        Self(facts.block_scope(ROOT))
    }
}

impl Scope for BlockScope<'_> {
    fn variable(&self, name: &str) -> Option<Operand<'_>> {
        self.0.variable(name)
    }
}

impl<'a> Facts<'a> {
    /// What the unit at `key` sees.
    pub(crate) fn scope(&self, key: &'a str) -> StepScope<'a> {
        StepScope { facts: *self, key, block: key::parent(key), extra: Vec::new() }
    }

    /// What the block at `path` sees: its own steps too.
    pub(crate) fn block_scope(&self, path: &'a str) -> StepScope<'a> {
        StepScope { facts: *self, key: path, block: path, extra: Vec::new() }
    }

    /// What `for.done_when` sees (L6).
    pub(super) fn elements_scope(&self, key: &'a str, fan_out: &FanOut, last: u32) -> StepScope<'a> {
        let mut scope = self
            .scope(key)
            .with("succeeded", fan_out.succeeded)
            .with("failed", fan_out.failed)
            .with("total", fan_out.total);
        scope.extra.push(("last", Extra::Element(key::element(key, last), last)));
        scope
    }

    /// What `repeat.until` sees after an iteration (L2).
    pub(super) fn iteration_scope(&self, iteration: &'a str, output: &Payload) -> StepScope<'a> {
        self.scope(iteration).with("output", output.value())
    }
}

impl<'a> StepScope<'a> {
    /// … and a variable more.
    pub(super) fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.extra.push((name, Extra::Value(value.into())));
        self
    }

    /// … and `error`.
    pub(super) fn with_error(self, error: &TaskError) -> Self {
        self.with("error", error_value(error))
    }

    /// Loop variables and what handlers see, from the innermost outwards.
    fn enclosing(&self, name: &str) -> Option<Value> {
        key::chain(self.key).find_map(|at| self.of_level(at, name))
    }

    fn of_level(&self, at: &str, name: &str) -> Option<Value> {
        if key::is_handler_path(at) {
            let handler = self.facts.state.handlers.get(at)?;
            return match name {
                "event" => Some(Value::from(handler.event.as_ref().map(Payload::shared_value))),
                "failure" => Some(Value::from(handler.failure.as_ref().map(failure_value))),
                _ => None,
            };
        }
        let segment = key::last_segment(at);
        match (segment.element, segment.iteration, segment.attempt) {
            (_, _, Some(_)) => None,
            (_, Some(number), None) => match name {
                "iteration" => Some(Value::from(number)),
                "previous" => Some(self.previous(at, number)),
                _ => None,
            },
            (Some(element), None, None) => self.item(at, element, name),
            _ => None,
        }
    }

    fn previous(&self, at: &str, number: u32) -> Value {
        if number <= 1 {
            return Value::Null;
        }
        let before = self.facts.unit(&iteration_key(key::element_of(at), number - 1));
        Value::from(before.and_then(|unit| unit.output.as_ref()).map(Payload::value))
    }

    fn item(&self, at: &str, element: u32, name: &str) -> Option<Value> {
        let for_each = self.facts.step(at)?.for_each.as_ref()?;
        if name == for_each.variable {
            return Some(Value::from(self.facts.state.items.get(at).map(Payload::value)));
        }
        (name == "index").then(|| Value::from(element))
    }
}

impl Scope for StepScope<'_> {
    fn variable(&self, name: &str) -> Option<Operand<'_>> {
        if let Some((_, extra)) = self.extra.iter().rev().find(|(extra, _)| *extra == name) {
            return Some(match extra {
                Extra::Value(value) => Operand::value(value.clone()),
                Extra::Element(key, index) => {
                    Operand::view(UnitView { facts: self.facts, key: key.clone(), index: Some(*index) })
                }
            });
        }
        if let Some(value) = self.enclosing(name) {
            return Some(Operand::value(value));
        }
        match name {
            "input" => Some(Operand::value(self.facts.state.head.input.as_ref().map(Payload::shared_value))),
            "execution" => Some(Operand::view(ExecutionView { facts: self.facts })),
            "steps" => Some(Operand::view(StepsView { facts: self.facts, block: Key::from(self.block) })),
            _ => None,
        }
    }
}

/// `execution`.
struct ExecutionView<'a> {
    facts: Facts<'a>,
}

const EXECUTION: [&str; 8] =
    ["id", "run", "workflow", "version", "started_at", "scheduled_at", "parent_id", "history_events"];

impl<'a> View<'a> for ExecutionView<'a> {
    fn member(&self, name: &str) -> Result<Operand<'a>, EvalError> {
        let (head, definition) = (&self.facts.state.head, self.facts.definition);
        Ok(match name {
            "id" => Operand::value(self.facts.execution_id),
            "run" => Operand::value(head.run),
            "workflow" => Operand::value(definition.name.as_str()),
            "version" => Operand::value(definition.version.to_string()),
            "started_at" => Operand::value(head.started_at_ms),
            "scheduled_at" => Operand::value(head.scheduled_at_ms),
            "parent_id" => Operand::value(head.parent.as_ref().map(|parent| parent.execution_id.as_str())),
            "history_events" => Operand::value(head.seq),
            _ => Operand::null(),
        })
    }

    fn has(&self, name: &str) -> bool {
        EXECUTION.contains(&name)
    }

    fn to_value(&self) -> Result<Value, EvalError> {
        let members = EXECUTION.iter().map(|name| Ok((*name, self.member(name)?.to_value()?)));
        members.collect::<Result<Vec<_>, _>>().map(Value::map)
    }
}

/// `steps`: names are looked up from the innermost block outwards (L4).
struct StepsView<'a> {
    facts: Facts<'a>,
    block: Key,
}

impl<'a> View<'a> for StepsView<'a> {
    fn member(&self, name: &str) -> Result<Operand<'a>, EvalError> {
        let unit = |path: &str| UnitView { facts: self.facts, key: key::join(path, name), index: None };
        let mut path: &str = &self.block;
        loop {
            if self.facts.has_step(path, name) {
                return Ok(Operand::view(unit(path)));
            }
            if path.is_empty() {
                return Ok(Operand::null());
            }
            path = key::parent(path);
        }
    }

    fn has(&self, name: &str) -> bool {
        self.facts.definition.by_id.contains_key(name)
    }

    fn to_value(&self) -> Result<Value, EvalError> {
        Err(EvalError::new("`steps` itself is no value; name a step"))
    }
}

impl Facts<'_> {
    /// Whether the block at `path` has a step of this name.
    fn has_step(&self, path: &str, name: &str) -> bool {
        let (Some(block), Some(index)) = (self.block_at(path), self.definition.by_id.get(name)) else { return false };
        block.steps.get(self.definition.step(*index).position as usize) == Some(index)
    }
}

/// A step, or an element of its `units`.
struct UnitView<'a> {
    facts: Facts<'a>,
    key: Key,
    index: Option<u32>,
}

const STEP: [&str; 7] = ["status", "output", "error", "started_at", "finished_at", "iteration", "units"];
const ELEMENT: [&str; 4] = ["index", "status", "output", "error"];

impl<'a> UnitView<'a> {
    fn members(&self) -> &'static [&'static str] {
        if self.index.is_some() { &ELEMENT } else { &STEP }
    }

    fn units(&self, unit: &'a Unit) -> Operand<'a> {
        let count = unit.fan_out.as_ref().map_or(0, |fan_out| fan_out.total);
        let units = (0..count).map(|index| UnitView {
            facts: self.facts,
            key: key::element(&self.key, index),
            index: Some(index),
        });
        Operand::list(units.map(Operand::view).collect())
    }
}

impl<'a> View<'a> for UnitView<'a> {
    fn member(&self, name: &str) -> Result<Operand<'a>, EvalError> {
        if name == "index" {
            return Ok(Operand::value(self.index));
        }
        let Some(unit) = self.facts.unit(&self.key) else {
            return Ok(if name == "status" { Operand::value("pending") } else { Operand::null() });
        };
        Ok(match name {
            "status" => Operand::value(unit.visible_status()),
            "output" => self.facts.output_of(&self.key, unit),
            "error" => Operand::value(self.facts.error_of(unit)),
            "started_at" => Operand::value(unit.started_at_ms),
            "finished_at" => Operand::value(unit.finished_at_ms),
            "iteration" => Operand::value(unit.iteration),
            "units" => self.units(unit),
            _ => Operand::null(),
        })
    }

    fn has(&self, name: &str) -> bool {
        self.members().contains(&name)
    }

    fn to_value(&self) -> Result<Value, EvalError> {
        let names = if self.index.is_some() { &ELEMENT[..] } else { &STEP[..3] };
        let members = names.iter().map(|name| Ok((*name, self.member(name)?.to_value()?)));
        members.collect::<Result<Vec<_>, _>>().map(Value::map)
    }
}

impl<'a> Facts<'a> {
    /// A `for` is read from its units, a running repeat shows its last finished iteration (L6, L2).
    fn output_of(&self, key: &str, unit: &'a Unit) -> Operand<'a> {
        use crate::state::Status;
        if let (Some(fan_out), None, Role::For) = (&unit.fan_out, &unit.output, self.role(key)) {
            return match unit.status {
                Status::Succeeded => self.elements_output(key, fan_out),
                _ => Operand::null(),
            };
        }
        let output = match unit.status {
            Status::Succeeded => unit.output.as_ref(),
            status if !status.is_resolved() => unit.last_output.as_ref(),
            _ => None,
        };
        // A step is read by many, an element by few.
        let read = if key::last_segment(key).element.is_some() { Payload::value } else { Payload::shared_value };
        Operand::value(output.map(read))
    }

    /// In item order, null where not succeeded before the closing.
    fn elements_output(&self, key: &str, fan_out: &FanOut) -> Operand<'a> {
        let closed = self.state.closing(key).map(|closing| closing.seq);
        let outputs = (0..fan_out.total).map(|index| {
            let unit = self.unit(&key::element(key, index))?;
            let in_time = closed.is_none_or(|closed| unit.done.is_some_and(|done| done <= closed));
            let succeeded = unit.status == crate::state::Status::Succeeded;
            if succeeded && in_time { unit.output.as_ref().map(Payload::value) } else { None }
        });
        Operand::value(Value::list(outputs.map(Value::from)))
    }

    fn error_of(&self, unit: &Unit) -> Value {
        use crate::state::Status;
        match (&unit.error, unit.status) {
            (Some(error), Status::Failed | Status::Suspended) => error_value(error),
            _ => Value::Null,
        }
    }
}

/// An error as expressions see it.
pub(super) fn error_value(error: &TaskError) -> Value {
    let mut members = vec![
        ("code", Value::from(error.code.as_str())),
        ("message", Value::from(error.message.as_str())),
        ("retryable", Value::from(error.retryable)),
    ];
    if let Some(details) = &error.details {
        members.push(("details", details.value()));
    }
    Value::map(members)
}

fn failure_value(failure: &crate::event::Failure) -> Value {
    let mut members = vec![("reason", Value::from(failure.reason.as_str()))];
    if let Some(code) = &failure.code {
        members.push(("code", Value::from(code.as_str())));
    }
    if let Some(message) = &failure.message {
        members.push(("message", Value::from(message.as_str())));
    }
    if let Some(details) = &failure.details {
        members.push(("details", details.value()));
    }
    Value::map(members)
}

/// What attributes see at the start: `input` and `execution` (L1).
#[derive(Debug)]
pub struct StartScope<'a> {
    /// The input, defaults filled in.
    pub input: Value,
    /// The execution's id.
    pub execution_id: &'a str,
    /// Number of the run.
    pub run: u32,
    /// When it starts, ms.
    pub started_at_ms: u64,
    /// The occurrence of a schedule that it stands for, ms.
    pub scheduled_at_ms: Option<u64>,
    /// Whose child it is.
    pub parent_id: Option<&'a str>,
    /// The definition.
    pub definition: &'a crate::definition::Definition,
}

impl Scope for StartScope<'_> {
    fn variable(&self, name: &str) -> Option<Operand<'_>> {
        match name {
            "input" => Some(Operand::value(self.input.clone())),
            "execution" => Some(Operand::value(Value::map([
                ("id", Value::from(self.execution_id)),
                ("run", Value::from(self.run)),
                ("workflow", Value::from(self.definition.name.as_str())),
                ("version", Value::from(self.definition.version.to_string())),
                ("started_at", Value::from(self.started_at_ms)),
                ("scheduled_at", Value::from(self.scheduled_at_ms)),
                ("parent_id", Value::from(self.parent_id)),
                // Attributes are part of the first event: there is none before it.
                ("history_events", Value::from(0_u32)),
            ]))),
            _ => None,
        }
    }
}
