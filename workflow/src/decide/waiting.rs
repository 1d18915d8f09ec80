//! Who takes which signal: the oldest signal first; of several waits the one that was opened first (L7).
//!
//! Asked anew at every event, this would cost as much as there are open waits times signals. Instead each wait is asked
//! about each signal once: what a `where` reads does not change while its wait is open (conditions that read what
//! changes elsewhere make everything unknown after each event). What holds between two events:
//!
//! - a wait that is *pending* wants the signal noted with it and no older wait does; it is on the agenda to take it;
//! - what is older than the signal of a pending wait was refused by it, what is younger it has not been asked about;
//! - a wait that is not pending has refused every signal that nobody took.
//!
//! All of this is volatile and is worked out again from the state where it is missing.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::{Facts, Role};
use crate::definition::{Await, Kind};
use crate::event::{Event, Recorded, Seq};
use crate::key::Key;
use crate::plant::{Plant, planted};
use crate::state::{Signal, Status};

/// What is known of open waits and of signals that nobody took.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// The state did not come from a fixpoint: any wait may want any signal.
    unknown: bool,
    waits: Option<Waits>,
    /// Signals that nobody took, by name.
    untaken: Option<BTreeMap<String, BTreeSet<Seq>>>,
    /// How often a wait was asked about a signal.
    asked: u64,
}

#[derive(Debug, Default)]
struct Waits {
    /// By signal, the oldest first.
    by_signal: BTreeMap<String, BTreeMap<Seq, Key>>,
    /// When each was opened.
    since: HashMap<Key, Seq>,
    /// Those that want a signal, by when they were opened.
    pending: BTreeMap<Seq, Pending>,
    /// Those that were asked about everything since this was built.
    looked: HashSet<Key>,
}

#[derive(Debug)]
struct Pending {
    wait: Key,
    signal: Seq,
    /// It took the signal; whether it goes on waiting will show.
    taken: bool,
}

impl<'a> Facts<'a> {
    fn wait_at(&self, key: &str) -> Option<&'a Await> {
        match &self.step(key)?.kind {
            Kind::Await(wait) if self.role(key) == Role::Await => Some(wait),
            _ => None,
        }
    }

    fn wants(&self, key: &str, wait: &Await, signal: &Signal) -> bool {
        let Some(accept) = &wait.accept else { return true };
        let scope = self.scope(key).with("signal", signal.signal.as_str());
        self.matches(accept, &scope.with("payload", signal.payload.value()))
    }
}

impl Waiting {
    /// Nothing is known any more.
    pub(super) fn forget(&mut self) {
        *self = Self { unknown: true, asked: self.asked, ..Self::default() };
    }

    pub(super) fn asked(&self) -> u64 {
        self.asked
    }

    /// The oldest signal of one of these names that nobody took.
    pub(super) fn oldest_of<'n>(&mut self, facts: &Facts<'_>, names: impl Iterator<Item = &'n String>) -> Option<Seq> {
        if facts.state.head.unconsumed_signals == 0 || facts.definition.handlers.event.is_empty() {
            return None;
        }
        let untaken = self.untaken(facts);
        names.filter_map(|name| untaken.get(name)?.first().copied()).min()
    }

    /// The signal that the wait at `key` takes now.
    pub(super) fn signal_for(&mut self, facts: &Facts<'_>, key: &Key) -> Option<Seq> {
        if self.unknown && self.waits.is_none() {
            self.unknown = false;
            let waits: BTreeMap<Seq, Key> =
                self.waits(facts).since.iter().map(|(key, since)| (*since, key.clone())).collect();
            waits.values().for_each(|wait| self.look(facts, wait, 0));
        }
        if !self.waits(facts).looked.contains(key) {
            self.look(facts, key, 0);
        }
        let waits = self.waits(facts);
        let since = *waits.since.get(key)?;
        if let Some(Pending { signal, taken: true, .. }) = waits.pending.get(&since) {
            let next = signal + 1;
            self.look(facts, key, next);
        }
        self.waits(facts).pending.get(&since).map(|pending| pending.signal)
    }

    /// Takes note of an event; gives the waits that have something to say now.
    pub(super) fn note(&mut self, facts: &Facts<'_>, recorded: &Recorded) -> Vec<Key> {
        if facts.definition.waits_watch_elsewhere {
            self.forget();
            return Vec::new();
        }
        let mut due = Vec::new();
        match &recorded.event {
            Event::SignalReceived(e) => {
                if let Some(untaken) = &mut self.untaken {
                    untaken.entry(e.signal.clone()).or_default().insert(recorded.seq);
                }
                if !self.unknown || self.waits.is_some() {
                    due.extend(self.offer(facts, recorded.seq, 0));
                }
            }
            Event::SignalConsumed(e) => self.took(&e.step, e.signal_seq),
            Event::HandlerStarted(e) => self.taken_by_handler(&e.step),
            Event::StepClosing(_) => self.stop(facts, &mut due),
            Event::StepOpened(e) if facts.role(&e.step) == Role::Await => self.opened(facts, &e.step, &mut due),
            event => {
                let key = event.step().filter(|key| self.knows(key));
                if let Some(key) = key.filter(|key| facts.unit(key).is_none_or(|unit| unit.status != Status::Open)) {
                    self.release(facts, key, &mut due);
                }
            }
        }
        due
    }

    fn knows(&self, key: &Key) -> bool {
        self.waits.as_ref().is_some_and(|waits| waits.since.contains_key(key))
    }

    fn opened(&mut self, facts: &Facts<'_>, key: &Key, due: &mut Vec<Key>) {
        if self.unknown && self.waits.is_none() {
            return;
        }
        self.waits(facts).add(facts, key);
        self.look(facts, key, 0);
        if self.is_pending(key) {
            due.push(key.clone());
        }
    }

    fn is_pending(&self, key: &Key) -> bool {
        let waits = self.waits.as_ref();
        waits.is_some_and(|waits| waits.since.get(key).is_some_and(|since| waits.pending.contains_key(since)))
    }

    fn took(&mut self, key: &Key, seq: Seq) {
        for left in self.untaken.iter_mut().flat_map(BTreeMap::values_mut) {
            left.remove(&seq);
        }
        if let Some(waits) = &mut self.waits
            && let Some(since) = waits.since.get(key)
        {
            waits.pending.insert(*since, Pending { wait: key.clone(), signal: seq, taken: true });
        }
    }

    fn taken_by_handler(&mut self, handler: &Key) {
        let Some((name, seq)) = handler.strip_prefix("on:event:").and_then(|rest| rest.rsplit_once('@')) else {
            return;
        };
        if let (Some(untaken), Ok(seq)) = (&mut self.untaken, seq.parse()) {
            forget_signal(untaken, name, seq);
        }
    }

    /// Something closes: what pending waits inside wanted is for others.
    fn stop(&mut self, facts: &Facts<'_>, due: &mut Vec<Key>) {
        let pending = self.waits.iter().flat_map(|waits| waits.pending.values());
        let stopped: Vec<Key> =
            pending.filter(|pending| facts.is_stopped(&pending.wait)).map(|pending| pending.wait.clone()).collect();
        stopped.iter().for_each(|wait| self.release(facts, wait, due));
    }

    /// The wait at `key` is one no more: what it was not asked about is for those opened later.
    fn release(&mut self, facts: &Facts<'_>, key: &Key, due: &mut Vec<Key>) {
        let Some(wait) = facts.wait_at(key) else { return };
        let waits = self.waits(facts);
        let Some(since) = waits.since.remove(key) else { return };
        waits.looked.remove(key);
        let mut wanted_by_others = Vec::new();
        for name in &wait.signals {
            let Some(same) = waits.by_signal.get_mut(name) else { continue };
            same.remove(&since);
            if same.range(since..).next().is_some() {
                wanted_by_others.push(name);
            } else if same.is_empty() {
                waits.by_signal.remove(name);
            }
        }
        let Some(pending) = waits.pending.remove(&since) else { return };
        for name in wanted_by_others {
            let left =
                self.untaken(facts).get(name).map(|left| left.range(pending.signal..).copied().collect::<Vec<_>>());
            for seq in left.into_iter().flatten() {
                due.extend(self.offer(facts, seq, since));
            }
        }
    }

    /// Asks the waits that were opened at `since` or later about one signal; the one that wants it and is due.
    fn offer(&mut self, facts: &Facts<'_>, seq: Seq, since: Seq) -> Option<Key> {
        let signal = facts.state.signals.get(&seq)?;
        let mut cursor = since;
        loop {
            let same = self.waits(facts).by_signal.get(&signal.signal)?;
            let (since, key) = same.range(cursor..).next().map(|(since, key)| (*since, key.clone()))?;
            cursor = since + 1;
            if facts.is_stopped(&key) || !self.ask(facts, &key, signal) {
                continue;
            }
            if self.older_wants(facts, since, seq, signal) {
                return None;
            }
            let pending = self.waits(facts).pending.entry(since);
            let pending = pending.or_insert_with(|| Pending { wait: key.clone(), signal: seq, taken: false });
            if pending.taken || pending.signal < seq {
                // It will come to it.
                return None;
            }
            pending.signal = seq;
            return Some(key);
        }
    }

    /// Asks one wait about everything that nobody took, from `seq` on, and notes what it wants.
    fn look(&mut self, facts: &Facts<'_>, key: &Key, seq: Seq) {
        let waits = self.waits(facts);
        waits.looked.insert(key.clone());
        let Some(since) = waits.since.get(key).copied() else { return };
        let seq = if planted(Plant::LostSignal) { seq.max(since) } else { seq };
        waits.pending.remove(&since);
        let Some(wait) = facts.wait_at(key).filter(|_| !facts.is_stopped(key)) else { return };
        if facts.state.head.unconsumed_signals == 0 {
            return;
        }
        let mut heads: BTreeMap<Seq, &String> = BTreeMap::new();
        for name in &wait.signals {
            heads.extend(self.next_untaken(facts, name, seq).map(|seq| (seq, name)));
        }
        while let Some((seq, name)) = heads.pop_first() {
            heads.extend(self.next_untaken(facts, name, seq + 1).map(|seq| (seq, name)));
            let Some(signal) = facts.state.signals.get(&seq) else { continue };
            let waits = self.waits(facts);
            let other = waits.pending.values().find(|other| other.signal == seq && !other.taken);
            let other = other.and_then(|other| Some((*waits.since.get(&other.wait)?, other.wait.clone())));
            if other.as_ref().is_some_and(|(other, _)| *other < since)
                || !self.ask(facts, key, signal)
                || self.older_wants(facts, since, seq, signal)
            {
                continue;
            }
            let waits = self.waits(facts);
            if let Some((younger, wait)) = other {
                waits.pending.remove(&younger);
                waits.looked.remove(&wait);
            }
            waits.pending.insert(since, Pending { wait: key.clone(), signal: seq, taken: false });
            return;
        }
    }

    fn ask(&mut self, facts: &Facts<'_>, key: &Key, signal: &Signal) -> bool {
        self.asked += 1;
        facts.wait_at(key).is_some_and(|wait| facts.wants(key, wait, signal))
    }

    /// Does a wait that was opened before, and has not been asked about this signal yet, want it?
    fn older_wants(&mut self, facts: &Facts<'_>, since: Seq, seq: Seq, signal: &Signal) -> bool {
        let older = self.waits(facts).pending.range(..since).filter(|(_, older)| older.signal < seq);
        let older: Vec<Key> = older.map(|(_, older)| older.wait.clone()).collect();
        older.iter().any(|older| {
            let names = facts.wait_at(older).is_some_and(|wait| wait.signals.contains(&signal.signal));
            names && !facts.is_stopped(older) && self.ask(facts, older, signal)
        })
    }

    fn next_untaken(&mut self, facts: &Facts<'_>, name: &str, from: Seq) -> Option<Seq> {
        self.untaken(facts).get(name)?.range(from..).next().copied()
    }

    fn untaken(&mut self, facts: &Facts<'_>) -> &BTreeMap<String, BTreeSet<Seq>> {
        self.untaken.get_or_insert_with(|| {
            let mut untaken: BTreeMap<String, BTreeSet<Seq>> = BTreeMap::new();
            for (seq, signal) in facts.state.signals.iter() {
                untaken.entry(signal.signal.clone()).or_default().insert(*seq);
            }
            untaken
        })
    }

    fn waits(&mut self, facts: &Facts<'_>) -> &mut Waits {
        self.waits.get_or_insert_with(|| Waits::open(facts))
    }
}

impl Waits {
    /// All that are open.
    fn open(facts: &Facts<'_>) -> Self {
        let mut waits = Self::default();
        for key in facts.open_units_of(|step| matches!(step.kind, Kind::Await(_))) {
            if facts.role(&key) == Role::Await {
                waits.add(facts, &key);
            }
        }
        waits
    }

    fn add(&mut self, facts: &Facts<'_>, key: &Key) {
        let (Some(wait), Some(unit)) = (facts.wait_at(key), facts.unit(key)) else { return };
        self.since.insert(key.clone(), unit.since);
        for name in &wait.signals {
            self.by_signal.entry(name.clone()).or_default().insert(unit.since, key.clone());
        }
    }
}

fn forget_signal(untaken: &mut BTreeMap<String, BTreeSet<Seq>>, name: &str, seq: Seq) {
    if let Some(left) = untaken.get_mut(name) {
        left.remove(&seq);
    }
}
