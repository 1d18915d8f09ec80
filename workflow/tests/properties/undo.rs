//! Exactly L6.3, said a second time: who was undone, once, in which order, how many at a time (I22).

use std::collections::{BTreeMap, HashMap, HashSet};

use workflow::event::{Compensation, Event};
use workflow::key::{self, COMPENSATE, Key};

use super::outline::{Role, lane};
use super::watch::{Seen, Stand, Watch};

/// Elements at a time where nothing is written.
const CONCURRENCY: u32 = 1_000;

/// How an undo ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndoEnd {
    Done,
    Failed,
}

/// All undoing of a run, as its history tells it.
#[derive(Clone, Debug, Default)]
pub struct Undo {
    /// Unit → the closing that undoes it.
    pub by: BTreeMap<Key, Key>,
    pub over: BTreeMap<Key, UndoEnd>,
    /// What each closing undoes, in order.
    lists: HashMap<Key, Vec<Key>>,
    /// Undos that have been scheduled and are not over.
    pub flying: HashSet<Key>,
}

impl Watch {
    pub(super) fn undo_started(&mut self, closing: &Key, steps: &[Key]) {
        if !self.closings.contains_key(closing) {
            self.fault(format!("{closing} undoes and is not closing"));
        }
        for step in steps {
            if self.undo.by.insert(step.clone(), closing.clone()).is_some() {
                self.fault(format!("{step} is undone twice"));
            }
            let never = self.units.get(step).is_some_and(|unit| !happened(unit));
            if never && self.outline.role(step) != Role::Block {
                self.fault(format!("{step} is undone though it is known not to have happened"));
            }
            if self.outline.compensate(step).is_none() {
                self.fault(format!("{step} is undone and has no compensation"));
            }
        }
        let list = self.undo.lists.entry(closing.clone()).or_default();
        list.extend(steps.iter().cloned());
        let list = list.clone();
        self.undo_order(closing, &list);
    }

    /// Unknown ones first, the one first scheduled last, then reverse order of success; a block's own after its
    /// inside's.
    fn undo_order(&mut self, closing: &Key, list: &[Key]) {
        let succeeded = |key: &&Key| self.units.get(*key).is_some_and(|unit| unit.stand == Stand::Succeeded);
        let units: Vec<&Key> =
            list.iter().filter(|key| succeeded(key) || self.outline.role(key) != Role::Block).collect();
        let first_success = units.iter().position(succeeded).unwrap_or(units.len());
        let (unknown, known) = units.split_at(first_success);
        let mut faults = Vec::new();
        if known.iter().any(|key| !succeeded(key)) {
            faults.push("unknown ones first");
        }
        let place = |key: &&Key| self.units.get(*key).map(|unit| unit.since);
        if !unknown.is_sorted_by(|a, b| place(a) >= place(b)) {
            faults.push("of the unknown ones the first scheduled last");
        }
        if !known
            .iter()
            .filter(|key| succeeded(key))
            .is_sorted_by(|a, b| self.success.get(&***a) >= self.success.get(&***b))
        {
            faults.push("reverse order of success");
        }
        let inside_late = |(at, block): (usize, &Key)| {
            self.outline.role(block) == Role::Block
                && !succeeded(&block)
                && list[at..].iter().any(|key| key != block && key::is_under(key, block))
        };
        if list.iter().enumerate().any(inside_late) {
            faults.push("a block after its inside");
        }
        for fault in faults {
            self.fault(format!("the undo of {closing} is not in order: {fault}: {list:?}"));
        }
    }

    pub(super) fn undo_scheduled(&mut self, key: &Key) {
        let Some(undone) = key.strip_prefix(COMPENSATE) else { return };
        let Some(closing) = self.undo.by.get(undone).cloned() else {
            return self.fault(format!("{key} is scheduled though nothing undoes {undone}"));
        };
        if self.undo.over.contains_key(undone) {
            self.fault(format!("{undone} is undone again"));
        }
        if !self.undo.flying.insert(Key::from(undone)) {
            return;
        }
        let mine = lane(undone, &closing);
        let over = |other: &&Key| !self.undo.over.contains_key(*other);
        let list = &self.undo.lists[&closing];
        let before: Vec<Key> = list.iter().take_while(|other| &***other != undone).filter(over).cloned().collect();
        for other in &before {
            let theirs = lane(other, &closing);
            let side_by_side = match (&mine, &theirs) {
                (Some((each, element)), Some((other_each, other))) => each == other_each && element != other,
                _ => false,
            };
            if !side_by_side {
                self.fault(format!("{undone} is undone before {other} is"));
            }
        }
        let at_a_time =
            mine.as_ref().map_or(1, |(each, _)| self.concurrency.get(&**each).copied().unwrap_or(CONCURRENCY));
        let flying = self.undo.flying.iter().filter(|unit| self.undo.by.get(*unit) == Some(&closing)).count();
        if flying > at_a_time as usize {
            self.fault(format!("{flying} of {closing} are undone at a time, {at_a_time} may"));
        }
    }

    pub(super) fn undo_ended(&mut self, undone: &Key, end: UndoEnd) {
        self.undo.flying.remove(undone);
        if !self.undo.by.contains_key(undone) {
            self.fault(format!("the undo of {undone} ends and never began"));
        }
        if self.undo.over.insert(undone.clone(), end).is_some() {
            self.fault(format!("the undo of {undone} ends twice"));
        }
    }

    pub(super) fn undo_completed(&mut self, closing: &Key) {
        let list = self.undo.lists.get(closing).cloned().unwrap_or_default();
        if list.is_empty() {
            self.fault(format!("the undo of {closing} is complete and never began"));
        }
        if let Some(left) = list.iter().find(|unit| !self.undo.over.contains_key(*unit)) {
            self.fault(format!("the undo of {closing} is complete without {left}"));
        }
    }

    /// What must hold once the run is over.
    pub fn end(&mut self) {
        let Some(ended) = self.ended.clone() else { return self.fault("no terminal event") };
        let (said, unconsumed) = match &ended {
            Event::WorkflowCompleted(e) => (None, e.unconsumed_signals),
            Event::WorkflowFailed(e) => (Some(e.compensation), e.unconsumed_signals),
            Event::WorkflowCancelled(e) => (Some(e.compensation), e.unconsumed_signals),
            Event::WorkflowTimedOut(e) => (Some(e.compensation), e.unconsumed_signals),
            Event::WorkflowContinuedAsNew(e) => (None, e.unconsumed_signals),
            _ => (None, 0),
        };
        if unconsumed != self.unconsumed() {
            self.fault(format!("{unconsumed} signals are said to be unconsumed, {} are", self.unconsumed()));
        }
        let all = self.undo.by.len();
        let done = self.undo.over.values().filter(|end| **end == UndoEnd::Done).count();
        let really = match (all, done) {
            (0, _) => Compensation::None,
            _ if all == done => Compensation::Completed,
            _ => Compensation::Failed,
        };
        if said.is_some_and(|said| said != really) {
            self.fault(format!("the undo went {said:?}, really {really:?}"));
        }
        if self.force {
            return;
        }
        let open: Vec<_> = self.undo.by.keys().filter(|unit| !self.undo.over.contains_key(*unit)).collect();
        if !open.is_empty() {
            self.fault(format!("the undo is not finished: {open:?}"));
        }
        let units: Vec<Key> = self.units.keys().filter(|key| !key::is_undo(key)).cloned().collect();
        for unit in &units {
            if self.outline.compensate(unit).is_none() {
                continue;
            }
            let block = self.outline.role(unit) == Role::Block && self.units[unit].stand != Stand::Succeeded;
            if block { self.own_block(unit) } else { self.must_be_undone(unit, &ended) }
        }
    }

    /// A unit with a compensation is undone if and only if what it belongs to ended badly, or it came too late, or it
    /// is an `always`.
    fn must_be_undone(&mut self, unit: &Key, ended: &Event) {
        let seen = self.units[unit].clone();
        let around = Around::of(self, unit);
        let by = self.undo.by.get(unit).cloned();
        let good_root = matches!(ended, Event::WorkflowCompleted(_) | Event::WorkflowContinuedAsNew(_));
        let root_badly = match &around.handler {
            None => !good_root,
            Some(handler) => self.closings.get(handler).is_some_and(|closed| closed.reason.is_bad()),
        };
        let itself = seen.stand != Stand::Succeeded && seen.unknown && self.ended_badly(unit);
        let badly = around.attempt_over || around.badly || itself || root_badly;
        let succeeded = seen.stand == Stand::Succeeded;
        let late = self.closings.iter().any(|(at, closed)| {
            at != unit && key::is_under(unit, at) && seen.done.is_some_and(|done| done > closed.seq)
        });
        // Reasons of its own: an `always`, its own closing; or the end that once undid it was taken back.
        let reason = self.outline.is_always(unit) || self.closings.contains_key(unit) || self.redriven;
        match (&by, &around.covered) {
            (Some(by), Some(covered)) if !key::is_under(by, key::unit_of(covered)) => {
                self.fault(format!("{unit} lies in {covered}, which is undone by its own, and was undone by {by}"));
            }
            (None, None) if happened(&seen) && badly => {
                self.fault(format!("{unit} happened in something that ended badly and was never undone"));
            }
            (None, None) if succeeded && late => {
                self.fault(format!("{unit} succeeded after a closing and was never undone"));
            }
            (None, None) if succeeded && self.outline.is_always(unit) && !self.closings.contains_key(unit) => {
                self.fault(format!("{unit}: always, and not undone"));
            }
            (Some(_), _) if !happened(&seen) => self.fault(format!("{unit} was undone and never happened")),
            (Some(by), _) if succeeded && !(badly || late || reason) => {
                self.fault(format!("{unit} succeeded on a good way and was undone by {by}"));
            }
            _ => {}
        }
    }

    fn ended_badly(&self, key: &str) -> bool {
        self.units.get(key).is_some_and(|unit| matches!(unit.stand, Stand::Cancelled | Stand::Failed))
    }

    /// A block that ended badly after something inside without a compensation of its own happened: its own runs.
    fn own_block(&mut self, block: &Key) {
        let seen = self.units[block].clone();
        if self.redriven || !matches!(seen.stand, Stand::Failed | Stand::Cancelled) {
            return;
        }
        let instances: Vec<String> = if self.outline.has_retry(block) {
            (1..=seen.attempt).map(|attempt| format!("{}~{attempt}", &**block)).collect()
        } else {
            vec![block.to_string()]
        };
        for instance in instances {
            let bare = self.units.iter().any(|(key, unit)| self.is_bare(key, unit, &instance));
            if bare != self.undo.by.contains_key(&*instance) {
                let what = if bare { "missing" } else { "run for nothing" };
                self.fault(format!("{instance}: own compensation {what}"));
            }
        }
    }

    fn is_bare(&self, key: &Key, unit: &Seen, block: &str) -> bool {
        let acts = matches!(self.outline.role(key), Role::Task | Role::Delivery);
        let covered = |path: &&str| {
            *path != block
                && key::is_under(path, block)
                && self.outline.is_block(path)
                && self.outline.compensate(path).is_some()
        };
        key::is_under(key, block)
            && &**key != block
            && acts
            && self.outline.compensate(key).is_none()
            && happened(unit)
            && !parents(key).any(|path| covered(&path))
    }
}

fn happened(unit: &Seen) -> bool {
    unit.stand == Stand::Succeeded || unit.unknown
}

fn parents(key: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(key::parent(key)), |at| (!at.is_empty()).then(|| key::parent(at)))
}

/// What a unit is a part of, and how that ended.
#[derive(Debug, Default)]
struct Around {
    /// Something around it ended badly.
    badly: bool,
    /// It belongs to an earlier attempt of a block: undone with it.
    attempt_over: bool,
    /// The outermost succeeded block or child around it that is undone by its own.
    covered: Option<Key>,
    handler: Option<Key>,
}

impl Around {
    fn of(watch: &Watch, unit: &Key) -> Self {
        let mut around = Self::default();
        let mut path = &**unit;
        while !path.is_empty() {
            if key::is_handler_path(path) {
                around.handler = Some(Key::from(path));
                break;
            }
            for at in [key::unit_of(path), key::element_of(path), key::step_of(path)] {
                around.badly |= at != &**unit && watch.ended_badly(at);
            }
            let open = watch.units.get(key::unit_of(path)).map(|unit| unit.attempt);
            if let (Some(attempt), Some(open)) = (key::last_segment(path).attempt, open) {
                // One that ended badly is over even when the block's deadline comes before its next attempt.
                let closed = watch.closings.get(path).is_some_and(|closed| closed.reason.is_bad());
                around.attempt_over |= attempt < open || closed;
            }
            path = key::parent(path);
            let succeeded = watch.units.get(key::unit_of(path)).is_some_and(|unit| unit.stand == Stand::Succeeded);
            if succeeded && watch.outline.compensate(path).is_some() && !around.attempt_over {
                around.covered = Some(Key::from(path));
            }
        }
        around
    }
}
