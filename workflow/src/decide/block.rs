//! A block: the root, a step with `steps`, a handler (L4).
//!
//! Its steps are nodes of their own; what is here is said before them: that it closes, or, when all of them are
//! resolved and so say nothing any more, how it ends.

use super::events::{closing_failed, closing_well};
use super::{Facts, Outcome, Walk, Walked, next};
use crate::definition::Block;
use crate::event::{CloseReason, TaskError};
use crate::key::{self, Key, ROOT};
use crate::state::Status;
use crate::value::Payload;

impl Walk<'_> {
    /// How the block instance at `path` ends, if it does.
    pub(super) fn block(&mut self, path: &str) -> Walked<Option<Outcome>> {
        if self.state.closing(path).is_some() {
            return self.settle(path);
        }
        let Some(block) = self.block_at(path) else { return Ok(None) };
        self.early_end(path, block)?;
        let all_resolved = self.state.progress(path).is_some_and(|progress| {
            progress.started as usize == block.steps.len() && progress.resolved == progress.started
        });
        if !all_resolved || path == ROOT && self.state.head.handlers_running > 0 {
            return Ok(None);
        }
        let output = match self.result(path, block) {
            Ok(output) => output,
            Err(fault) => return next(closing_failed(path, fault)),
        };
        if self.has_clean_ups(path, block) || path == ROOT && self.definition.handlers.exit.is_some() {
            return next(closing_well(path, CloseReason::Done, Some(output)));
        }
        Ok(Some(Ok(Some(output))))
    }

    /// An unhandled failure closes the block (L5), `done_when` closes it (L6): before anything else of it starts (L3).
    fn early_end(&self, path: &str, block: &Block) -> Walked {
        if let Some(failed) = self.state.progress(path).and_then(|progress| progress.failed.as_ref()) {
            let error = self.unit(failed).and_then(|unit| unit.error.clone());
            return next(super::events::closing_badly(path, CloseReason::Failed, error));
        }
        let Some(done_when) = &block.done_when else { return Ok(()) };
        let closing = self.condition(done_when, &self.block_scope(path)).and_then(|done| {
            if !done {
                return Ok(None);
            }
            self.result(path, block).map(|output| Some(closing_well(path, CloseReason::Done, Some(output))))
        });
        match closing {
            Ok(None) => Ok(()),
            Ok(Some(event)) => next(event),
            Err(fault) => next(closing_failed(path, fault)),
        }
    }
}

impl Facts<'_> {
    /// What the block yields now.
    pub(super) fn result(&self, path: &str, block: &Block) -> Result<Payload, TaskError> {
        let output = match &block.result {
            Some(result) => self.payload(result, &self.block_scope(path))?,
            None => Payload::null(),
        };
        if path == ROOT {
            self.check_result(&output)?;
        }
        Ok(output)
    }

    /// The workflow's result is held to its contract (L5).
    fn check_result(&self, output: &Payload) -> Result<(), TaskError> {
        let Some(contract) = &self.definition.output else { return Ok(()) };
        contract
            .check(output)
            .map_err(|faults| violation("OUTPUT_CONTRACT_VIOLATION", "the result of the workflow", &faults))
    }

    /// Whether a direct step of the block has an `always` to run at its good end.
    fn has_clean_ups(&self, path: &str, block: &Block) -> bool {
        block.steps.iter().map(|step| self.definition.step(*step)).any(|step| {
            step.compensate.as_ref().is_some_and(|undo| undo.always) && self.has_clean_up(&key::join(path, &step.id))
        })
    }

    fn has_clean_up(&self, step: &Key) -> bool {
        self.state.units.under(step).any(|(key, unit)| {
            key::parent(key) == key::parent(step)
                && unit.status == Status::Succeeded
                && self.compensation(key).is_some()
                && self.state.undos.get(&**key).is_none_or(|undo| undo.outcome.is_none())
        })
    }
}

/// A payload that breaks its contract. `what` says which: a run shows the message without the step.
pub(crate) fn violation(code: &str, what: &str, faults: &[crate::contract::ValueFault]) -> TaskError {
    let faults = faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    TaskError::permanent(code, format!("{what} breaks its contract: {faults}"))
}
