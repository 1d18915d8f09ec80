//! A step: `when` → `deadline` → `for` → `repeat` → `retry` → body, in this order whatever the body is (L1).

use super::events::{closing_badly, closing_failed, closing_well, opened, succeeded, timer};
use super::place::Node;
use super::{Facts, Walk, Walked, next};
use crate::definition::{Deadline, DurationSpec, Kind, OnExpiry, Step};
use crate::event::{CloseReason, SkipReason, StepSkipped, TaskError};
use crate::expression::Template;
use crate::key::{self, DEADLINE, Key, ROOT};
use crate::state::{Status, Unit};
use crate::value::{Payload, Value};

/// Carries a fault of the document or of an operator's word to where the unit fails.
macro_rules! or_fail {
    ($walk:expr, $key:expr, $result:expr) => {
        match $result {
            Ok(value) => value,
            Err(fault) => return $walk.unit_fails($key, &fault),
        }
    };
}
pub(super) use or_fail;

impl Walk<'_> {
    /// A step, or an element of a `for`, if the walk gets there at all.
    pub(super) fn visit_unit(&mut self, key: &Key) -> Walked<Option<Node>> {
        let Some(step) = self.step(key) else { return Ok(None) };
        if !self.is_reached(key) {
            return Ok(None);
        }
        if key::last_segment(key).element.is_some() {
            if self.unit(key).is_none_or(|unit| !unit.is_resolved()) && self.has_a_place(key) {
                self.walk_unit(key, step)?;
            }
            return Ok(None);
        }
        self.walk_step(key, step)
    }

    fn walk_step(&mut self, key: &Key, step: &Step) -> Walked<Option<Node>> {
        let unit = self.unit(key);
        if unit.is_some_and(Unit::is_resolved) || unit.is_none() && !self.dependencies_let_go(key, step) {
            return Ok(None);
        }
        let deadline = format!("{DEADLINE}{}", &**key);
        if let (None, Some(when), false) = (unit, &step.when, self.state.timer_runs(&deadline)) {
            let holds = or_fail!(self, key, self.condition(when, &self.scope(key)));
            if !holds {
                return next(StepSkipped { step: key.clone(), reason: SkipReason::When });
            }
        }
        if self.gate(key, step)? {
            return Ok(None);
        }
        if let Some(spec) = &step.deadline {
            self.deadline(key, &deadline, step, spec)?;
        }
        if unit.is_some_and(|unit| unit.status == Status::Suspended) {
            return Ok(None);
        }
        match &step.for_each {
            Some(for_each) => self.for_each(key, step, for_each),
            None => self.walk_unit(key, step).map(|()| None),
        }
    }

    /// Whether the walk comes to `key`: everything around it is open and nothing of that closes.
    fn is_reached(&self, key: &str) -> bool {
        if self.state.outermost_closing(key).is_some_and(|closing| closing.len() != key.len()) {
            return false;
        }
        key::chain(key).skip(1).all(|around| {
            if around == ROOT {
                return true;
            }
            if key::is_handler_path(around) {
                return self.state.handlers.get(around).is_some_and(|handler| !handler.done);
            }
            match key::last_segment(around).attempt {
                Some(attempt) => self.unit(key::unit_of(around)).is_some_and(|unit| unit.attempt == attempt),
                None => self.unit(around).is_some_and(|unit| unit.status == Status::Open),
            }
        })
    }

    fn dependencies_let_go(&self, key: &str, step: &Step) -> bool {
        step.depends_on.iter().all(|dependency| {
            let dependency = key::join(key::parent(key), &self.definition.step(*dependency).id);
            self.unit(&dependency).is_some_and(Unit::lets_go)
        })
    }

    /// An operator's word on a unit (L10), or what is left of one that closes. True: nothing else may be done to it.
    pub(super) fn gate(&mut self, key: &Key, step: &Step) -> Walked<bool> {
        let unit = self.unit(key);
        if let Some(unit) = unit.filter(|unit| unit.status == Status::Resolving) {
            return next(succeeded(key, unit.attempt, Some(unit.output.clone().unwrap_or_else(Payload::null))));
        }
        let by_hand = unit.filter(|unit| unit.status == Status::Failing);
        if self.state.closing(key).is_none() {
            if let Some(unit) = by_hand {
                let error = unit.error.clone();
                let error = error.unwrap_or_else(|| TaskError::permanent("INTERNAL", "failed by hand"));
                return self.unit_fails_by_hand(key, &error);
            }
            return Ok(false);
        }
        if unit.is_some_and(|unit| unit.status == Status::Suspended) {
            return Ok(true);
        }
        match self.settle(key)? {
            None => Ok(true),
            Some(Ok(output)) => {
                let attempt = unit.map_or(1, |unit| unit.attempt);
                // A `for` is read from its units.
                let output = if self.is_for(key, step) { None } else { Some(output.unwrap_or_else(Payload::null)) };
                next(succeeded(key, attempt, output))
            }
            Some(Err(error)) => {
                let error = error.unwrap_or_else(|| TaskError::permanent("INTERNAL", "closed without a reason"));
                if by_hand.is_some() { self.unit_fails_by_hand(key, &error) } else { self.unit_fails(key, &error) }
            }
        }
    }

    fn is_for(&self, key: &str, step: &Step) -> bool {
        step.for_each.is_some() && key::last_segment(key).element.is_none()
    }

    /// Starts the deadline, or closes the step when it has passed (L6).
    fn deadline(&mut self, key: &Key, name: &str, step: &Step, spec: &Deadline) -> Walked {
        if self.state.timer_fired(name) {
            return next(self.past_deadline(key, step, spec));
        }
        if !self.state.timer_runs(name) {
            let after = match self.duration(&spec.after, &self.scope(key)) {
                Ok(after) => after,
                Err(fault) => return self.unit_fails(key, &fault),
            };
            return next(timer(name.to_owned(), self.now_ms.saturating_add(after)));
        }
        Ok(())
    }

    fn past_deadline(&self, key: &Key, step: &Step, spec: &Deadline) -> crate::event::Event {
        if spec.on_deadline == OnExpiry::Fail {
            let error = TaskError::permanent("DEADLINE_EXCEEDED", format!("{key} took longer than its deadline"));
            return closing_badly(key, CloseReason::DeadlineFailed, Some(error));
        }
        match self.so_far(key, step) {
            Ok(output) => closing_well(key, CloseReason::Deadline, output),
            Err(fault) => closing_failed(key, fault),
        }
    }

    /// An element, iteration's repeat or plain step: `repeat` → `retry` → body.
    pub(super) fn walk_unit(&mut self, key: &Key, step: &Step) -> Walked {
        // A plain step has passed the gate already; passing it twice says the same.
        if self.gate(key, step)? {
            return Ok(());
        }
        match &step.repeat {
            Some(repeat) => self.repeat(key, step, repeat),
            None => self.body(key, step),
        }
    }

    /// The body itself, of a step, an element or an iteration.
    pub(super) fn body(&mut self, key: &Key, step: &Step) -> Walked {
        let unit = self.unit(key);
        if unit.is_some_and(|unit| unit.status == Status::Suspended) {
            return Ok(());
        }
        match &step.kind {
            Kind::Task(_) | Kind::Workflow { .. } | Kind::Signal(_) => self.acting(key, step),
            Kind::Compute(expression) => {
                let value = expression.evaluate(&self.scope(key)).map_err(TaskError::expression);
                let output = or_fail!(self, key, value.and_then(|value| super::facts::bounded(&value)));
                next(succeeded(key, 1, Some(output)))
            }
            Kind::Fail { code, message, details } => self.fail_step(key, code, message.as_ref(), details.as_ref()),
            Kind::Await(wait) => self.wait(key, wait),
            Kind::Sleep(spec) => self.sleep(key, spec),
            Kind::SleepUntil(when) => self.sleep_until(key, when),
            Kind::Steps(_) => self.block_step(key, step),
            Kind::ContinueAsNew { input } => self.continue_as_new(key, input),
        }
    }

    fn fail_step(&mut self, key: &Key, code: &str, message: Option<&Template>, details: Option<&Template>) -> Walked {
        let scope = self.scope(key);
        let message = or_fail!(self, key, message.map(|message| self.value(message, &scope)).transpose());
        let details = or_fail!(self, key, details.map(|details| self.payload(details, &scope)).transpose());
        let message = match message {
            Some(Value::String(text)) => text.to_string(),
            None | Some(Value::Null) => String::new(),
            Some(other) => other.to_json(),
        };
        self.unit_fails(key, &TaskError { code: code.to_owned(), message, retryable: false, details })
    }

    fn sleep(&mut self, key: &Key, spec: &DurationSpec) -> Walked {
        if self.unit(key).is_none() {
            let ms = or_fail!(self, key, self.duration(spec, &self.scope(key)));
            return next(timer(key.clone(), self.now_ms.saturating_add(ms)));
        }
        self.wake(key)
    }

    fn sleep_until(&mut self, key: &Key, when: &Template) -> Walked {
        if self.unit(key).is_none() {
            let value = or_fail!(self, key, self.value(when, &self.scope(key)));
            let at = match &value {
                Value::Int(ms) => Some(*ms),
                Value::Double(ms) if ms.is_finite() => Some(*ms as i64),
                Value::String(text) => crate::expression::text::parse_timestamp_ms(text),
                _ => None,
            };
            let fault = || TaskError::expression(format!("no time: {}", value.to_json()));
            let at = or_fail!(self, key, at.ok_or_else(fault));
            return next(timer(key.clone(), u64::try_from(at).unwrap_or(0)));
        }
        self.wake(key)
    }

    fn wake(&self, key: &Key) -> Walked {
        if self.state.timer_fired(key) { next(succeeded(key, 1, Some(Payload::null()))) } else { Ok(()) }
    }

    /// A block as a step: opens, ends, is retried with fresh units.
    fn block_step(&mut self, key: &Key, step: &Step) -> Walked {
        let unit = match self.unit(key) {
            None => return next(opened(key, 1)),
            Some(unit) => unit,
        };
        if unit.status == Status::Redriven {
            return next(opened(key, unit.attempt + 1));
        }
        if unit.status == Status::RetryWait {
            return if self.state.timer_fired(key) { next(opened(key, unit.attempt + 1)) } else { Ok(()) };
        }
        let path = self.instance(key);
        match self.block(&path)? {
            None => Ok(()),
            Some(Ok(output)) => next(succeeded(key, unit.attempt, Some(output.unwrap_or_else(Payload::null)))),
            Some(Err(error)) => {
                let error = error.unwrap_or_else(|| TaskError::permanent("INTERNAL", "closed without a reason"));
                if step.retry.is_some() {
                    // A block is retried whatever its inner error says of itself (L3).
                    self.retry(key, &TaskError { retryable: true, ..error.clone() }, step.retry.as_ref(), false)?;
                }
                self.unit_fails(key, &error)
            }
        }
    }

    fn continue_as_new(&mut self, key: &Key, input: &Template) -> Walked {
        let input = or_fail!(self, key, self.payload(input, &self.scope(key)));
        let input = match &self.definition.input {
            Some(contract) => contract
                .accept_input(input)
                .map_err(|faults| super::block::violation("INPUT_CONTRACT_VIOLATION", "the next input", &faults)),
            None => Ok(input),
        };
        let input = or_fail!(self, key, input);
        next(closing_well(ROOT, CloseReason::Continued, Some(input)))
    }
}

impl Facts<'_> {
    /// What a step yields that is closed by its deadline and goes on (L6).
    fn so_far(&self, key: &Key, step: &Step) -> Result<Option<Payload>, TaskError> {
        if step.for_each.is_some() {
            return Ok(None);
        }
        let Some(unit) = self.unit(key) else { return Ok(Some(Payload::null())) };
        if step.repeat.is_some() {
            return Ok(Some(unit.last_output.clone().unwrap_or_else(Payload::null)));
        }
        match &step.kind {
            Kind::Steps(block) => self.result(&self.instance(key), block).map(Some),
            Kind::Await(wait) if wait.until.is_some() => Ok(Some(super::wait::taken(unit, wait))),
            _ => Ok(Some(Payload::null())),
        }
    }
}
