//! `repeat`: do-until; units `x#1`, `x#2`… (L6).

use super::events::{closing_failed, opened, succeeded, timer};
use super::{Walk, Walked, next};
use crate::definition::{Repeat, Step};
use crate::event::TaskError;
use crate::key::Key;
use crate::state::Status;
use crate::value::Payload;

/// Most iterations where nothing is written.
const ITERATIONS: u32 = 1_000;

impl Walk<'_> {
    /// The repeat around the iterations.
    pub(super) fn repeat(&mut self, key: &Key, step: &Step, repeat: &Repeat) -> Walked {
        match self.unit(key).map(|unit| unit.status) {
            None | Some(Status::Redriven) => next(opened(key, 1)),
            Some(Status::Suspended) => Ok(()),
            Some(_) => self.iterations(key, step, repeat),
        }
    }

    fn iterations(&mut self, around: &Key, step: &Step, repeat: &Repeat) -> Walked {
        let finished = self.unit(around).and_then(|unit| unit.iteration).unwrap_or(0);
        let number = finished + 1;
        let key = iteration_key(around, number);
        let unit = self.unit(&key);
        if unit.is_none() && self.state.timer_runs(&key) {
            return Ok(());
        }
        if unit.is_none() && finished > 0 && !self.state.timer_fired(&key) {
            self.between(around, finished, repeat)?;
        }
        if let Some(unit) = unit.filter(|unit| unit.status == Status::Failed) {
            let error = unit.error.clone().unwrap_or_else(|| TaskError::permanent("INTERNAL", "no error"));
            return next(closing_failed(around, error));
        }
        if self.gate(&key, step)? {
            return Ok(());
        }
        self.body(&key, step)
    }

    /// After iteration `finished`: enough, too many, or a pause before the next one.
    fn between(&self, around: &Key, finished: u32, repeat: &Repeat) -> Walked {
        let last = iteration_key(around, finished);
        let output = self.unit(&last).and_then(|unit| unit.output.clone()).unwrap_or_else(Payload::null);
        match self.condition(&repeat.until, &self.iteration_scope(&last, &output)) {
            Ok(true) => return next(succeeded(around, 1, Some(output))),
            Ok(false) => {}
            Err(fault) => return next(closing_failed(around, fault)),
        }
        if finished >= repeat.max.unwrap_or(ITERATIONS) {
            // These very words: histories are decided again, and those that 0.1.0 has left say them.
            let error = TaskError::permanent("REPEAT_LIMIT", format!("{finished} iterations"));
            return next(closing_failed(around, error));
        }
        match self.pause_before(finished + 1, around, repeat) {
            Ok(None) => Ok(()),
            Ok(Some(ms)) => next(timer(iteration_key(around, finished + 1), self.now_ms.saturating_add(ms))),
            Err(fault) => next(closing_failed(around, fault)),
        }
    }

    fn pause_before(&self, number: u32, around: &Key, repeat: &Repeat) -> Result<Option<u64>, TaskError> {
        let Some(delay) = &repeat.delay else { return Ok(None) };
        let scope = self.scope(around);
        let mut ms = self.duration(delay, &scope)? as f64;
        let cap = match &repeat.max_delay {
            Some(cap) => self.duration(cap, &scope)? as f64,
            None => f64::INFINITY,
        };
        for _ in 2..number {
            ms = (ms * repeat.multiplier.unwrap_or(1.0)).min(cap);
        }
        Ok(Some(ms.min(cap) as u64))
    }
}

/// The key of iteration `number` of the repeat at `around`.
pub(super) fn iteration_key(around: &str, number: u32) -> Key {
    Key::from(format!("{around}#{number}"))
}
