//! What an evaluation may cost.
//!
//! A step is a node visited. Functions that walk data cost in proportion, so that nothing cheap to write is dear to
//! run. The sums are the same on every machine: running out is part of an expression's meaning.

use super::EvalError;
use crate::value::Value;

/// Steps that one evaluation may take.
pub const STEPS_MAX: u64 = 1_000_000;

/// Bytes that a value built by an expression may have, as JSON.
pub const BYTES_MAX: usize = 8 << 20;

// Costs in 64ths of a step, so that small walks add up exactly.
const STEP: u64 = 64;
const ELEMENT: u64 = 16;
const BYTE: u64 = 1;

/// Counts down what is left.
#[derive(Debug)]
pub(super) struct Meter {
    left: u64,
    exhausted: bool,
}

impl Meter {
    pub(super) fn new() -> Self {
        Meter { left: STEPS_MAX * STEP, exhausted: false }
    }

    /// Whether it ran out: then no `||` may swallow the error.
    pub(super) fn is_exhausted(&self) -> bool {
        self.exhausted
    }

    /// A node is visited.
    pub(super) fn step(&mut self) -> Result<(), EvalError> {
        self.take(STEP)
    }

    /// Several steps at once.
    pub(super) fn steps(&mut self, count: u64) -> Result<(), EvalError> {
        self.take(count.saturating_mul(STEP))
    }

    /// So many elements of lists or entries of maps are walked or made.
    pub(super) fn elements(&mut self, count: usize) -> Result<(), EvalError> {
        self.take((count as u64).saturating_mul(ELEMENT))
    }

    /// So many bytes of text are walked or made.
    pub(super) fn bytes(&mut self, count: usize) -> Result<(), EvalError> {
        self.take((count as u64).saturating_mul(BYTE))
    }

    fn take(&mut self, cost: u64) -> Result<(), EvalError> {
        if cost > self.left {
            self.left = 0;
            self.exhausted = true;
            return Err(EvalError::new(format!("too costly: more than {STEPS_MAX} steps")));
        }
        self.left -= cost;
        Ok(())
    }

    /// Room for a text of this length: to be asked before it is made.
    pub(super) fn text_of(&mut self, bytes: usize) -> Result<(), EvalError> {
        if bytes > BYTES_MAX {
            return Err(too_big());
        }
        self.bytes(bytes)
    }

    /// Room for a list or map of this length, an element being a digit and a comma at least: to be asked before it
    /// is made.
    pub(super) fn list_of(&mut self, elements: usize) -> Result<(), EvalError> {
        if elements > BYTES_MAX / 2 {
            return Err(too_big());
        }
        self.elements(elements)
    }

    /// Every node and text byte of a value is walked, `rounds` times.
    pub(super) fn walk(&mut self, value: &Value, rounds: usize) -> Result<(), EvalError> {
        match value {
            Value::String(text) => self.bytes(text.len().saturating_mul(rounds))?,
            Value::List(values) => values.iter().try_for_each(|value| self.walk(value, rounds))?,
            Value::Map(entries) => entries.iter().try_for_each(|(key, value)| {
                self.bytes(key.len().saturating_mul(rounds))?;
                self.walk(value, rounds)
            })?,
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::Double(_) => {}
        }
        self.elements(rounds)
    }
}

pub(super) fn too_big() -> EvalError {
    EvalError::new("a value over 8 MiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_out_after_a_million_steps_and_stays_out() {
        let mut meter = Meter::new();
        for _ in 0..STEPS_MAX {
            meter.step().unwrap();
        }
        assert!(!meter.is_exhausted());
        assert!(meter.step().is_err());
        assert!(meter.is_exhausted());
        assert!(meter.bytes(1).is_err());
    }

    #[test]
    fn small_walks_add_up() {
        let mut meter = Meter::new();
        for _ in 0..STEPS_MAX * STEP {
            meter.bytes(1).unwrap();
        }
        assert!(meter.bytes(1).is_err());
    }
}
