//! What of a run lies in the index tables of its shard: tasks that wait, hand-overs in flight, what is due.
//!
//! It follows from the state of the run alone. A commit writes the difference between what lay there and what must lie
//! there now, so that nothing stale is left and a new leader finds everything by reading these tables.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use workflow::event::{Queue, Seq};
use workflow::key::{Key, ROOT};
use workflow::state::{Execution, RowChange, RowKind, Status, Unit, Work};

use crate::desk::{Order, Ready, UnitRef};
use crate::table::{Timer, TimerKind};

/// The priority of an execution that was started without one.
pub(crate) const PRIORITY: u8 = 3;

/// What lies in the index tables because of one unit.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Indexed {
    /// It waits in this queue.
    pub(crate) ready: Option<(Queue, Order, u32)>,
    /// Its attempt will time out, in the queue or with a worker.
    pub(crate) timer: Option<(u64, TimerKind)>,
    /// It is with a worker, by this hand-over.
    pub(crate) held: Option<Seq>,
}

/// What lies in the index tables because of one run, as far as it is known here.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// Whatever is not known does not lie there: this life began with the run.
    whole: bool,
    units: HashMap<Key, Indexed>,
    timers: HashMap<Key, u64>,
    timers_known: BTreeSet<Key>,
    run_timeout: Option<u64>,
}

/// A change of the index tables.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    /// A task waits now.
    Ready(Ready),
    /// A task waits no longer.
    NotReady(Queue, Order, UnitRef),
    /// A unit is with a worker now.
    Held(Key, Seq),
    /// … no longer.
    NotHeld(Key, Seq),
    /// Something will be due.
    Timer(Timer),
    /// … no longer.
    NoTimer(Timer),
}

/// Where a run was before a commit, if it was stored at all.
pub(crate) trait Before {
    /// The state as it is stored.
    fn state(&mut self) -> Option<&Execution>;
}

impl Index {
    /// Of a run of which nothing is stored.
    pub(crate) fn of_new_run() -> Self {
        Self { whole: true, ..Self::default() }
    }

    /// Of a run that has slept.
    pub(crate) fn of_stored_run(state: &Execution) -> Self {
        Self { run_timeout: run_timeout(state), ..Self::default() }
    }

    /// Whether some unit is with a worker, as far as is known here.
    pub(crate) fn has_held(&self) -> bool {
        self.units.values().any(|unit| unit.held.is_some())
    }

    /// What the tables must be told after `changes`, which led to `after`.
    pub(crate) fn differences(
        &mut self,
        id: &Arc<str>,
        before: &mut impl Before,
        after: &Execution,
        changes: &[RowChange],
        everything: bool,
    ) -> Vec<Change> {
        let mut out = Vec::new();
        let (units, timers) = self.touched(before, after, changes, everything);
        let unit_ref = |unit: &Key| UnitRef { execution_id: Arc::clone(id), run: after.head.run, unit: unit.clone() };
        for key in units {
            let was = self.unit_before(before, &key);
            let now = indexed(after, &key);
            if was != now {
                compare(&was, &now, &unit_ref(&key), &mut out);
            }
            self.remember(key, now);
        }
        for name in timers {
            let was = self.timer_before(before, &name);
            let now = timer(after, &name);
            compare_timers(was, now, TimerKind::Timer, &unit_ref(&name), &mut out);
            self.remember_timer(name, now);
        }
        let now = run_timeout(after);
        compare_timers(self.run_timeout, now, TimerKind::Run, &unit_ref(&Key::root()), &mut out);
        self.run_timeout = now;
        out
    }

    /// The units and timers that have to be looked at.
    fn touched(
        &self,
        before: &mut impl Before,
        after: &Execution,
        changes: &[RowChange],
        everything: bool,
    ) -> (BTreeSet<Key>, BTreeSet<Key>) {
        let (mut units, mut timers) = (BTreeSet::new(), BTreeSet::new());
        for change in changes {
            let set = match change.kind {
                // What closes is no longer handed over, though its own row has not changed.
                RowKind::Unit | RowKind::Closing => &mut units,
                RowKind::Timer => &mut timers,
                _ => continue,
            };
            set.extend(std::str::from_utf8(&change.key).ok().map(Key::from));
        }
        if everything {
            units.extend(self.units.keys().cloned());
            units.extend(after.units.iter().map(|(key, _)| key.clone()));
            timers.extend(self.timers.keys().cloned());
            timers.extend(after.timers.iter().map(|(key, _)| key.clone()));
            if let Some(before) = before.state().filter(|_| !self.whole) {
                units.extend(before.units.iter().map(|(key, _)| key.clone()));
                timers.extend(before.timers.iter().map(|(key, _)| key.clone()));
            }
        }
        (units, timers)
    }

    fn unit_before(&self, before: &mut impl Before, key: &Key) -> Indexed {
        match self.units.get(key) {
            Some(known) => known.clone(),
            None if self.whole => Indexed::default(),
            None => before.state().map_or_else(Indexed::default, |state| indexed(state, key)),
        }
    }

    fn timer_before(&self, before: &mut impl Before, name: &Key) -> Option<u64> {
        if self.whole || self.timers_known.contains(name) {
            return self.timers.get(name).copied();
        }
        before.state().and_then(|state| timer(state, name))
    }

    fn remember(&mut self, key: Key, now: Indexed) {
        // Where everything is known, nothing need be known of what does not lie there.
        if self.whole && now == Indexed::default() {
            self.units.remove(&key);
        } else {
            self.units.insert(key, now);
        }
    }

    fn remember_timer(&mut self, name: Key, now: Option<u64>) {
        match now {
            Some(due) => drop(self.timers.insert(name.clone(), due)),
            None => drop(self.timers.remove(&name)),
        }
        if !self.whole {
            self.timers_known.insert(name);
        }
    }
}

/// Whether everything of a run must be looked at anew: it was paused or resumed, or it is over or no longer.
pub(crate) fn turns_everything(before: (bool, bool), after: &Execution) -> bool {
    before != (after.head.paused, after.is_over())
}

fn rests(state: &Execution) -> bool {
    state.head.paused || state.is_over()
}

/// What must lie in the index tables because of a unit.
pub(crate) fn indexed(state: &Execution, key: &Key) -> Indexed {
    let Some(unit) = state.unit(key).filter(|unit| unit.is_task() && !state.is_over()) else {
        return Indexed::default();
    };
    match unit.status {
        Status::Scheduled if !state.head.paused && state.closing(key).is_none() => {
            let due = unit.queue_timeout_ms.map(|ms| unit.at_ms.saturating_add(ms));
            Indexed { ready: waiting(state, unit), timer: due.map(|due| (due, TimerKind::Queue)), held: None }
        }
        Status::Dispatched => {
            let due = unit.timeout_ms.map(|ms| unit.at_ms.saturating_add(ms)).filter(|_| !state.head.paused);
            Indexed { ready: None, timer: due.map(|due| (due, TimerKind::Attempt)), held: unit.token }
        }
        _ => Indexed::default(),
    }
}

/// The place of a task that waits in its queue.
pub(crate) fn waiting(state: &Execution, unit: &Unit) -> Option<(Queue, Order, u32)> {
    let Some(Work::Task(queue)) = &unit.work else { return None };
    let order = Order {
        priority: state.head.priority.unwrap_or(PRIORITY),
        turn: 0,
        ready_at_ms: unit.queued_at_ms,
        seq: unit.since,
    };
    Some((queue.clone(), order, unit.attempt))
}

/// When a timer of the history is due, if it runs.
pub(crate) fn timer(state: &Execution, name: &Key) -> Option<u64> {
    state.timers.get(name).and_then(|timer| timer.fire_at_ms).filter(|_| !rests(state))
}

/// When the time-out of the run is due, if it has one that still counts.
pub(crate) fn run_timeout(state: &Execution) -> Option<u64> {
    state.head.timeout_at_ms.filter(|_| !rests(state) && state.closing(ROOT).is_none())
}

fn compare(was: &Indexed, now: &Indexed, unit: &UnitRef, out: &mut Vec<Change>) {
    if was.ready != now.ready {
        if let Some((queue, order, _)) = was.ready.clone() {
            out.push(Change::NotReady(queue, order, unit.clone()));
        }
        if let Some((queue, order, attempt)) = now.ready.clone() {
            out.push(Change::Ready(Ready { queue, order, unit: unit.clone(), attempt }));
        }
    }
    if was.held != now.held {
        out.extend(was.held.map(|seq| Change::NotHeld(unit.unit.clone(), seq)));
        out.extend(now.held.map(|seq| Change::Held(unit.unit.clone(), seq)));
    }
    if was.timer != now.timer {
        let timer = |(due_ms, kind)| Timer { due_ms, kind, unit: unit.clone() };
        out.extend(was.timer.map(|was| Change::NoTimer(timer(was))));
        out.extend(now.timer.map(|now| Change::Timer(timer(now))));
    }
}

fn compare_timers(was: Option<u64>, now: Option<u64>, kind: TimerKind, unit: &UnitRef, out: &mut Vec<Change>) {
    if was == now {
        return;
    }
    let timer = |due_ms| Timer { due_ms, kind, unit: unit.clone() };
    out.extend(was.map(|was| Change::NoTimer(timer(was))));
    out.extend(now.map(|now| Change::Timer(timer(now))));
}
