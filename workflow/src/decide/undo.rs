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

/// What is left of one undo list. Each event of an undo costs the same however long the list is.
#[derive(Debug)]
pub(crate) struct Undoing {
    left: BTreeMap<usize, Item>,
    place: HashMap<Key, usize>,
    /// Places whose undo changed since they were looked at.
    changed: BTreeSet<usize>,
    /// The first of those that are left, as far as they lie in one lane and its concurrency goes.
    window: BTreeSet<usize>,
    /// The window by element: of each the first may run.
    elements: HashMap<Key, BTreeSet<usize>>,
    /// Those that may run and are to be looked at.
    due: BTreeSet<usize>,
}

#[derive(Debug)]
struct Item {
    key: Key,
    /// The outermost `for` below what closes, and the element of it: what may run side by side.
    lane: Option<(Key, Key)>,
}

impl Item {
    fn each(&self) -> Option<&Key> {
        self.lane.as_ref().map(|(each, _)| each)
    }

    /// What must be undone in order: an element, or the thing alone.
    fn element(&self) -> &Key {
        self.lane.as_ref().map_or(&self.key, |(_, element)| element)
    }
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
        let (changed, window, elements, due) = Default::default();
        Self { left, place, changed, window, elements, due }
    }

    /// The undo of `key` changed: look again, and at those that its end lets begin.
    pub(super) fn touch(&mut self, key: &str) {
        if let Some(place) = self.place.get(key) {
            self.changed.insert(*place);
        }
    }

    fn is_first_of_its_element(&self, place: usize) -> bool {
        let element = self.left.get(&place).and_then(|item| self.elements.get(item.element()));
        element.is_some_and(|places| places.first() == Some(&place))
    }

    /// The undo at `place` is over: the next one of its element may run.
    fn remove(&mut self, place: usize) {
        self.due.remove(&place);
        self.window.remove(&place);
        let Some(item) = self.left.remove(&place) else { return };
        if let Some(places) = self.elements.get_mut(item.element()) {
            places.remove(&place);
            match places.first() {
                Some(next) => drop(self.due.insert(*next)),
                None => drop(self.elements.remove(item.element())),
            }
        }
    }

    /// Moves the window on: an undo starts when all before it are done or belong to other elements of the same `for`,
    /// up to its concurrency.
    fn move_on(&mut self, facts: &Facts<'_>) {
        loop {
            let first = self.window.first().and_then(|place| self.left.get(place)).map(Item::each);
            let most = first.map_or(1, |each| each.map_or(1, |each| facts.concurrency_of(each) as usize));
            if self.window.len() >= most {
                return;
            }
            let after = self.window.last().map_or(0, |last| last + 1);
            let Some((place, item)) = self.left.range(after..).next() else { return };
            if first.is_some_and(|each| each != item.each()) {
                return;
            }
            let places = self.elements.entry(item.element().clone()).or_default();
            if places.is_empty() {
                self.due.insert(*place);
            }
            places.insert(*place);
            self.window.insert(*place);
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
        while let Some(place) = undoing.changed.pop_first() {
            if undoing.left.get(&place).is_none_or(|item| self.is_undone(&item.key)) {
                undoing.remove(place);
            } else if undoing.is_first_of_its_element(place) {
                undoing.due.insert(place);
            }
        }
        undoing.move_on(&self.facts);
        while let Some(place) = undoing.due.first().copied() {
            if let Some(item) = undoing.left.get(&place) {
                self.undo_unit(&item.key)?;
            }
            undoing.due.remove(&place);
        }
        if undoing.left.is_empty() && !more {
            return next(CompensationCompleted { step: Key::from(top) });
        }
        Ok(false)
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
