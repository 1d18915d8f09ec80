//! Undoing what is on a closing's list: one by one, elements of one `for` side by side (L6.3).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::attempts::{Action, Attempts};
use super::close::Settling;
use super::events::succeeded;
use super::{CHUNK_BYTES_MAX, Facts, Walk, Walked, next};
use crate::definition::Compensate;
use crate::event::{CompensationCompleted, CompensationFailed, CompensationStarted, StepSuspended, TaskError};
use crate::key::{self, COMPENSATE, Key};
use crate::state::{Closing, FanOut, Status};
use crate::value::{Payload, Value};

/// What is left of one undo list.
#[derive(Debug)]
pub(crate) struct Undoing {
    left: BTreeMap<usize, Item>,
    place: HashMap<Key, usize>,
    /// Places to look at.
    changed: BTreeSet<usize>,
}

#[derive(Debug)]
struct Item {
    key: Key,
    /// The outermost `for` below what closes, and the element of it: what may run side by side.
    lane: Option<(Key, Key)>,
}

impl Undoing {
    fn of(facts: &Facts<'_>, top: &str, steps: &[Key]) -> Self {
        let left: BTreeMap<usize, Item> = steps
            .iter()
            .enumerate()
            .filter(|(_, key)| !facts.is_undone(key))
            .map(|(place, key)| (place, Item { key: key.clone(), lane: lane(key, top) }))
            .collect();
        let place = left.iter().map(|(place, item)| (item.key.clone(), *place)).collect();
        let changed = left.keys().copied().collect();
        Self { left, place, changed }
    }

    /// The undo of `key` changed: look again, and at those that its end lets begin.
    pub(super) fn touch(&mut self, key: &str) {
        if let Some(place) = self.place.get(key) {
            self.changed.insert(*place);
        }
    }
}

impl Walk<'_> {
    /// Writes the list of what is undone, in pieces if it is long.
    pub(super) fn begin_undo(&self, top: &str, closing: &Closing, settling: &mut Settling) -> Walked {
        let list = self.state.undo_lists.get(top);
        if list.is_some_and(|list| !list.more) {
            return Ok(());
        }
        let have = list.map_or(&[][..], |list| &list.steps);
        let all = settling.undo_list.get_or_insert_with(|| self.undo_list(top, closing));
        let known: HashSet<&Key> = have.iter().collect();
        let (mut steps, mut bytes, mut more) = (Vec::new(), 0, false);
        for key in all.iter().filter(|key| !known.contains(key)) {
            bytes += key.len() + 3;
            if !steps.is_empty() && bytes > CHUNK_BYTES_MAX {
                more = true;
                break;
            }
            steps.push(key.clone());
        }
        if steps.is_empty() {
            return Ok(());
        }
        next(CompensationStarted { step: Key::from(top), reason: closing.reason, steps, more })
    }

    /// True when nothing of the undo of `top` is left to do.
    pub(super) fn undo(&mut self, top: &str) -> Walked<bool> {
        let state = self.facts.state;
        let Some(list) = state.undo_lists.get(top).filter(|list| !list.done) else { return Ok(true) };
        let facts = self.facts;
        let mut undoing = self.memo.undoing.remove(top).unwrap_or_else(|| Undoing::of(&facts, top, &list.steps));
        let undone = self.undo_with(top, &mut undoing, list.more);
        self.memo.undoing.insert(Key::from(top), undoing);
        undone
    }

    fn undo_with(&mut self, top: &str, undoing: &mut Undoing, more: bool) -> Walked<bool> {
        while !undoing.changed.is_empty() {
            let over: Vec<usize> =
                undoing.changed.iter().filter(|place| self.is_over(undoing, **place)).copied().collect();
            for place in over {
                undoing.left.remove(&place);
                undoing.changed.remove(&place);
            }
            let Some(place) = self.due(undoing) else { break };
            let key = undoing.left[&place].key.clone();
            self.undo_unit(&key)?;
            undoing.changed.remove(&place);
        }
        if undoing.left.is_empty() && !more {
            return next(CompensationCompleted { step: Key::from(top) });
        }
        Ok(false)
    }

    fn is_over(&self, undoing: &Undoing, place: usize) -> bool {
        undoing.left.get(&place).is_none_or(|item| self.is_undone(&item.key))
    }

    /// The first that may run now and has not been looked at since it changed: an undo starts when all before it are
    /// done or belong to other elements of the same `for`, up to its concurrency.
    fn due(&self, undoing: &Undoing) -> Option<usize> {
        let mut elements: HashSet<&Key> = HashSet::new();
        let mut concurrency = 1;
        let mut lane: Option<&Key> = None;
        for (before, (place, item)) in undoing.left.iter().enumerate() {
            if before == 0 {
                lane = item.lane.as_ref().map(|(each, _)| each);
                concurrency = lane.map_or(1, |each| self.concurrency_of(each)) as usize;
            }
            let (each, element) =
                item.lane.as_ref().map_or((None, None), |(each, element)| (Some(each), Some(element)));
            let may_run = before == 0 || each == lane && element.is_some_and(|element| !elements.contains(element));
            if may_run && undoing.changed.contains(place) {
                return Some(*place);
            }
            if before + 1 >= concurrency || each != lane || lane.is_none() {
                return None;
            }
            elements.extend(element);
        }
        None
    }

    fn undo_unit(&mut self, undone: &Key) -> Walked {
        let Some(compensate) = self.compensation(undone) else { return Ok(()) };
        let key = Key::from(format!("{COMPENSATE}{}", &**undone));
        let unit = self.unit(&key);
        match unit {
            Some(unit) if unit.status == Status::Resolving => {
                next(succeeded(&key, unit.attempt, Some(unit.output.clone().unwrap_or_else(Payload::null))))
            }
            Some(unit) if unit.status == Status::Failing => {
                let error = unit.error.clone().unwrap_or_else(|| TaskError::permanent("INTERNAL", "failed by hand"));
                next(CompensationFailed { step: undone.clone(), error })
            }
            Some(unit) if unit.idempotency_key.is_some() => {
                let action = Action::of_undo(compensate);
                match self.attempts(&key, unit, action, compensate.retry.as_ref())? {
                    Attempts::UnderWay => Ok(()),
                    Attempts::Failed(error) => undo_fails(&key, undone, error, compensate),
                }
            }
            Some(unit) if unit.status != Status::Redriven => Ok(()),
            _ => match self.schedule_undo(&key, undone, compensate) {
                Ok(event) => next(event),
                Err(fault) => undo_fails(&key, undone, fault, compensate),
            },
        }
    }
}

/// A failed undo is recorded, or waits for an operator (L9).
fn undo_fails(key: &Key, undone: &Key, error: TaskError, compensate: &Compensate) -> Walked {
    if compensate.suspend_on_failure {
        return next(StepSuspended { step: key.clone(), error });
    }
    next(CompensationFailed { step: undone.clone(), error })
}

impl Facts<'_> {
    fn is_undone(&self, key: &str) -> bool {
        self.state.undos.get(key).is_some_and(|undo| undo.outcome.is_some())
    }

    fn concurrency_of(&self, each: &str) -> u32 {
        self.unit(each).and_then(|unit| unit.fan_out.as_ref()).map_or(FanOut::CONCURRENCY, FanOut::concurrency)
    }

    fn schedule_undo(
        &self,
        key: &Key,
        undone: &Key,
        compensate: &Compensate,
    ) -> Result<crate::event::StepScheduled, TaskError> {
        let unit = self.unit(undone);
        let succeeded = unit.filter(|unit| unit.status == Status::Succeeded);
        let output = succeeded.and_then(|unit| unit.output.as_ref()).map(Payload::value);
        let handed_over_with = unit.and_then(|unit| unit.idempotency_key.as_deref()).map(Value::from);
        let scope = self
            .scope(undone)
            .with("output", output)
            .with("unknown", succeeded.is_none())
            .with("idempotency_key", handed_over_with);
        self.first_schedule(key, Action::of_undo(compensate), &scope)
    }
}

/// The outermost `for` at or below `top` around `key`, and the element of it (L16).
fn lane(key: &str, top: &str) -> Option<(Key, Key)> {
    let element = |at: &&str| key::last_segment(at).element.is_some() && key::is_under(at, top);
    // Outermost: the last on the way out. An element's own iterations and attempts belong to it.
    let at = key::chain(key).filter(element).last()?;
    Some((Key::from(key::step_of(at)), Key::from(key::element_of(at))))
}
