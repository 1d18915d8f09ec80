//! Closing: one procedure for every block, step and the root (L6).
//!
//! ```text
//! StepClosing ─▶ stop what is open ─▶ finish undos below ─▶ cancel the rest ─▶ undo ─▶ the end
//!                (wait for children,
//!                 signals and tasks that can be undone)
//! ```
//!
//! A walk looks at everything below what closes, in the order in which it came to be, after each event. [`Settling`]
//! keeps what such a look found, so that the next one only looks at what changed; it is built again from the state
//! when it is missing.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::events::timer;
use super::{Facts, Outcome, Role, Walk, Walked, next};
use crate::event::{Seq, StepAttemptUncertain, StepCancelled, UncertainReason};
use crate::key::{self, GRACE, Key, ROOT};
use crate::plant::{Plant, planted};
use crate::state::{Execution, Work};

/// How long in-flight work may still answer where nothing is written, ms.
const GRACE_MS: u64 = 30_000;

/// What one closing found below itself.
#[derive(Debug, Default)]
pub(crate) struct Settling {
    /// Open units to look at, by their first event.
    open: BTreeMap<Seq, Key>,
    /// Units that are waited for and said nothing at the last look.
    waiting: BTreeMap<Seq, Key>,
    place: HashMap<Key, Seq>,
    /// Undos below, to look at, by their first event.
    undos: BTreeMap<Seq, Key>,
    /// Undos below that are under way.
    undoing: BTreeMap<Seq, Key>,
    /// Everything still open once nothing is waited for, by its first event.
    rest: Option<VecDeque<Key>>,
    /// All that is to be undone.
    pub undo_list: Option<Vec<Key>>,
}

/// What one look at an open unit found, if no event.
enum Stop {
    Gone,
    Waiting,
}

impl Settling {
    fn of(facts: &Facts<'_>, top: &str) -> Self {
        let mut settling = Self::default();
        for (key, unit) in facts.state.units.under(top).filter(|(_, unit)| !unit.is_resolved()) {
            if !matches!(facts.role(key), Role::For | Role::Repeat | Role::Steps) {
                settling.place.insert(key.clone(), unit.since);
                settling.open.insert(unit.since, key.clone());
            }
        }
        for (key, list) in facts.state.undo_lists.under(top) {
            if &**key != top && !list.done {
                settling.undos.insert(list.since, key.clone());
            }
        }
        settling
    }

    /// `key` changed: look again.
    pub(super) fn touch(&mut self, key: &str) {
        if let Some(seq) = self.place.get(key)
            && let Some(key) = self.waiting.remove(seq)
        {
            self.open.insert(*seq, key);
        }
    }

    /// Something that all of them depend on changed.
    pub(super) fn touch_all(&mut self) {
        self.open.append(&mut self.waiting);
    }

    /// The undo of `closing` changed.
    pub(super) fn touch_undo(&mut self, closing: &Key) {
        let place = self.undoing.iter().find(|(_, key)| *key == closing).map(|(seq, _)| *seq);
        if let Some(seq) = place {
            self.undoing.remove(&seq);
            self.undos.insert(seq, closing.clone());
        }
    }
}

impl Walk<'_> {
    /// Brings what closes at `top` towards its end; how it ends, once it has.
    pub(super) fn settle(&mut self, top: &str) -> Walked<Option<Outcome>> {
        let mut settling = self.memo.settling.remove(top).unwrap_or_else(|| Settling::of(&self.facts, top));
        let settled = self.settle_with(top, &mut settling);
        self.memo.settling.insert(Key::from(top), settling);
        settled
    }

    fn settle_with(&mut self, top: &str, settling: &mut Settling) -> Walked<Option<Outcome>> {
        let Some(closing) = self.facts.state.closings.get(top) else { return Ok(None) };
        let waiting = self.stop(top, settling)?;
        if self.undos_below(settling)? || waiting {
            return Ok(None);
        }
        self.cancel_rest(top, settling)?;
        self.begin_undo(top, closing, settling)?;
        if !self.undo(top)? {
            return Ok(None);
        }
        Ok(Some(if closing.reason.is_bad() { Err(closing.error.clone()) } else { Ok(closing.output.clone()) }))
    }

    /// Waiting, scheduled, retrying units and those that cannot be undone are cancelled; true while others are waited
    /// for.
    fn stop(&self, top: &str, settling: &mut Settling) -> Walked<bool> {
        while let Some((seq, key)) = settling.open.first_key_value() {
            let (seq, key) = (*seq, key.clone());
            match self.stop_unit(top, &key)? {
                Stop::Gone => {}
                Stop::Waiting => {
                    settling.waiting.insert(seq, key);
                }
            }
            settling.open.remove(&seq);
        }
        Ok(!settling.waiting.is_empty())
    }

    fn stop_unit(&self, top: &str, key: &Key) -> Walked<Stop> {
        let Some(unit) = self.unit(key).filter(|unit| !unit.is_resolved()) else { return Ok(Stop::Gone) };
        if unit.is_in_flight() && matches!(unit.work, Some(Work::Child(_))) && !planted(Plant::OrphanChild) {
            // Cancelled by the runtime, and waited for: no orphan, ever.
            return Ok(Stop::Waiting);
        }
        if unit.is_in_flight() && self.compensation(key).is_some() {
            if !self.grace_is_over(key) {
                let name = format!("{GRACE}{top}");
                if !self.state.timer_runs(&name) {
                    return next(timer(name, self.now_ms.saturating_add(self.grace_ms(top))));
                }
                return Ok(Stop::Waiting);
            }
            let reason = UncertainReason::Stopped;
            return next(StepAttemptUncertain { step: key.clone(), attempt: unit.attempt, reason });
        }
        // One that closes itself is resolved by its own end.
        if &**key == top { Ok(Stop::Gone) } else { next(StepCancelled { step: key.clone() }) }
    }

    /// An undo that runs below is finished first; true while one does.
    fn undos_below(&mut self, settling: &mut Settling) -> Walked<bool> {
        while let Some((seq, key)) = settling.undos.first_key_value() {
            let (seq, key) = (*seq, key.clone());
            if !self.undo(&key)? {
                settling.undoing.insert(seq, key);
            }
            settling.undos.remove(&seq);
        }
        Ok(!settling.undoing.is_empty())
    }

    fn cancel_rest(&self, top: &str, settling: &mut Settling) -> Walked {
        let state: &Execution = self.facts.state;
        let rest = settling.rest.get_or_insert_with(|| {
            let open = state.units.under(top).filter(|(key, unit)| !unit.is_resolved() && &***key != top);
            let by_first_event: BTreeMap<Seq, Key> = open.map(|(key, unit)| (unit.since, key.clone())).collect();
            by_first_event.into_values().collect()
        });
        while let Some(key) = rest.front() {
            if self.unit(key).is_some_and(|unit| !unit.is_resolved()) {
                return next(StepCancelled { step: key.clone() });
            }
            rest.pop_front();
        }
        Ok(())
    }
}

impl Facts<'_> {
    /// The first grace of any closing around a unit that fires ends its wait (L16).
    fn grace_is_over(&self, key: &str) -> bool {
        key::chain(key).any(|at| self.state.closings.contains(at) && self.state.timer_fired(&format!("{GRACE}{at}")))
    }

    /// `cancel_grace` of the closing block, else of the nearest block around it, else 30 s (L16).
    fn grace_ms(&self, top: &str) -> u64 {
        let mut at = top;
        loop {
            if let Some(ms) = self.block_at(at).and_then(|block| block.cancel_grace_ms) {
                return ms;
            }
            if at == ROOT {
                return GRACE_MS;
            }
            at = key::parent(at);
        }
    }
}
