//! `for`: one unit per element of a list (L6). Constant cost per element: nothing here looks at all of them, but for
//! what is asked once.

use super::events::{closing_failed, closing_well, succeeded};
use super::place::Node;
use super::{CHUNK_BYTES_MAX, Facts, Walk, Walked, next};
use crate::definition::{ForEach, Step};
use crate::event::{CloseReason, StepFanOut, TaskError};
use crate::key::{self, Key};
use crate::state::{FanOut, Status, Unit};
use crate::value::{Payload, Value};

/// Most elements of one `for`.
pub const ELEMENTS_MAX: usize = 100_000;

/// Most elements in flight at a time.
const CONCURRENCY_MAX: i64 = 10_000;

impl Walk<'_> {
    /// The fan-out and what is said before its elements; the element that is to start next, if there is a free place.
    pub(super) fn for_each(&mut self, key: &Key, step: &Step, for_each: &ForEach) -> Walked<Option<Node>> {
        let unit = self.unit(key);
        match unit.and_then(|unit| unit.fan_out.as_ref().filter(|fan_out| unit.opened && !fan_out.more)) {
            None => self.fan_out(key, for_each, unit),
            Some(fan_out) => self.elements(key, step, for_each, fan_out),
        }
    }

    fn fan_out<T>(&mut self, key: &Key, for_each: &ForEach, unit: Option<&Unit>) -> Walked<T> {
        let have = unit.and_then(|unit| unit.fan_out.as_ref()).map(|fan_out| fan_out.total as usize);
        match self.fan_out_event(key, for_each, have) {
            Ok(event) => next(event),
            Err(fault) => self.unit_fails(key, &fault),
        }
    }

    fn elements(&mut self, key: &Key, step: &Step, for_each: &ForEach, fan_out: &FanOut) -> Walked<Option<Node>> {
        let total = fan_out.total as usize;
        if fan_out.failed > fan_out.max_failures {
            return next(closing_failed(key, self.first_failure(key, fan_out)));
        }
        if let (Some(done_when), Some(last)) = (&for_each.done_when, fan_out.last) {
            match self.condition(done_when, &self.elements_scope(key, fan_out, last)) {
                Ok(false) => {}
                Ok(true) => return next(closing_well(key, CloseReason::Done, None)),
                Err(fault) => return next(closing_failed(key, fault)),
            }
        }
        if fan_out.succeeded as usize + fan_out.failed as usize == total {
            return next(succeeded(key, self.unit(key).map_or(1, |unit| unit.attempt), None));
        }
        debug_assert!(step.for_each.is_some(), "elements of a step without for");
        Ok(self.next_element(key, fan_out).map(|element| Node::Unit(key::element(key, element))))
    }

    /// The error that the `for` closes with: the first that was not tolerated, with its index.
    fn first_failure(&self, key: &str, fan_out: &FanOut) -> TaskError {
        let failed = (0..fan_out.started).filter_map(|index| {
            let unit = self.unit(&key::element(key, index))?;
            (unit.status == Status::Failed && !unit.handled).then_some((unit.done, index, unit))
        });
        let Some((_, index, unit)) = failed.min_by_key(|(done, ..)| *done) else {
            return TaskError::permanent("INTERNAL", "no failed element");
        };
        let error = unit.error.clone().unwrap_or_else(|| TaskError::permanent("INTERNAL", "no error"));
        let mut details = match error.details.as_ref().map(Payload::value) {
            Some(Value::Map(details)) => (*details).clone(),
            _ => Default::default(),
        };
        details.insert("index".into(), Value::from(index));
        TaskError { details: Some(Payload::from(&Value::from(details))), ..error }
    }

    /// The lowest element without a unit, if it may start.
    fn next_element(&self, key: &str, fan_out: &FanOut) -> Option<u32> {
        let (element, in_flight) = match fan_out.holes.first() {
            Some(hole) => (*hole, self.unresolved_below(key, *hole, fan_out.concurrency())),
            None => (fan_out.started, fan_out.in_flight()),
        };
        (element < fan_out.total && in_flight < fan_out.concurrency()).then_some(element)
    }

    /// Whether element `key` is among the first that may be in flight. Only a redrive opens more than that.
    pub(super) fn has_a_place(&self, key: &str) -> bool {
        let step = key::step_of(key);
        let Some(fan_out) = self.unit(step).and_then(|unit| unit.fan_out.as_ref()) else { return false };
        let concurrency = fan_out.concurrency();
        if self.unit(key).is_none() {
            return self.next_element(step, fan_out) == key::last_segment(key).element;
        }
        if fan_out.holes.is_empty() && fan_out.in_flight() <= concurrency {
            return true;
        }
        let element = key::last_segment(key).element.unwrap_or(0);
        self.unresolved_below(step, element, concurrency) < concurrency
    }

    /// How many elements below `end` are not resolved, counted up to `enough`.
    fn unresolved_below(&self, step: &str, end: u32, enough: u32) -> u32 {
        let open = |index: &u32| self.unit(&key::element(step, *index)).is_none_or(|unit| !unit.is_resolved());
        let count = (0..end).filter(open).take(enough as usize).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }
}

impl Facts<'_> {
    /// Items are recorded once; no event is over its bound, the rest goes on in further ones (L12).
    fn fan_out_event(&self, key: &Key, for_each: &ForEach, have: Option<usize>) -> Result<StepFanOut, TaskError> {
        let scope = self.scope(key);
        let value = for_each.each.evaluate(&scope).map_err(TaskError::expression)?;
        let Value::List(items) = value else {
            return Err(TaskError::expression("for.each: a list is needed"));
        };
        if items.len() > ELEMENTS_MAX {
            return Err(TaskError::expression("for.each: over 100 000 items"));
        }
        let (mut chunk, mut bytes) = (Vec::new(), 0);
        for item in items.iter().skip(have.unwrap_or(0)) {
            let item = Payload::from(item);
            bytes += item.len();
            if !chunk.is_empty() && bytes > CHUNK_BYTES_MAX {
                break;
            }
            chunk.push(item);
        }
        let more = have.unwrap_or(0) + chunk.len() < items.len();
        let (mut concurrency, mut max_failures) = (None, None);
        if have.unwrap_or(0) == 0 {
            concurrency = for_each.concurrency.as_ref().map(|t| concurrency_of(&self.value(t, &scope)?)).transpose()?;
            let tolerated = |t| tolerated_of(&self.value(t, &scope)?, items.len());
            max_failures = for_each.max_failures.as_ref().map(tolerated).transpose()?;
        }
        Ok(StepFanOut { step: key.clone(), items: chunk, concurrency, max_failures, more })
    }
}

fn concurrency_of(value: &Value) -> Result<u32, TaskError> {
    match value {
        Value::Int(n) if (1..=CONCURRENCY_MAX).contains(n) => Ok(*n as u32),
        _ => Err(TaskError::expression("for.concurrency: 1 to 10 000")),
    }
}

/// A number, a percentage of the items rounded down, or `all` (L6, L16).
fn tolerated_of(value: &Value, items: usize) -> Result<u32, TaskError> {
    let fault = || TaskError::expression("for.max_failures: a number, a percentage or `all`");
    let items = u32::try_from(items).map_err(|_| fault())?;
    match value {
        Value::Int(n) => u32::try_from(*n).map_err(|_| fault()),
        Value::String(text) if &**text == "all" => Ok(items),
        Value::String(text) => {
            let percent: f64 = text.strip_suffix('%').and_then(|n| n.trim().parse().ok()).ok_or_else(fault)?;
            if !(0.0..=100.0).contains(&percent) {
                return Err(fault());
            }
            Ok((f64::from(items) * percent / 100.0) as u32)
        }
        _ => Err(fault()),
    }
}
