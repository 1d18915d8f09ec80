//! A run in the world of a case: its history, and what is armed for it already.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use super::worker::Chosen;
use super::world::Act;
use crate::command::Run;
use crate::event::{Event, Recorded, Seq};
use crate::key::Key;
use crate::state::{Status, Unit};

/// Index of a run in the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct At(pub(super) usize);

/// A task that waits in its queue: this very time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Offer {
    pub(super) key: Key,
    pub(super) at_ms: u64,
    pub(super) attempt: u32,
    /// How often the unit was handed over before.
    pub(super) hand_overs: u32,
}

/// Why a command will be due; each is armed once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Cause {
    /// A timer of the history, by the event that began it.
    Timer(Key, Seq),
    /// The time-out of the run.
    Timeout(u64),
    /// The time-out of a hand-over.
    Attempt(Key, Seq),
    /// Its worker shows no sign of life.
    Heartbeat(Key, Seq),
    /// Nobody takes it.
    Queue(Offer),
    /// A worker takes it.
    Offer(Offer),
}

/// What leaves a run once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Shipment {
    /// A child or signal.
    Delivery(Key, u32),
    /// The order to a child to stop.
    Stop(Key, u32),
    /// The end, by its number.
    End(u32),
}

#[derive(Debug)]
pub(super) struct Live {
    pub(super) run: Run,
    pub(super) history: Vec<Recorded>,
    /// Sizes of the batches of the first command.
    pub(super) first_batches: Option<Vec<usize>>,
    pub(super) armed: HashSet<Cause>,
    pub(super) shipped: HashSet<Shipment>,
    /// What mocked workers will do with offers that are open.
    pub(super) chosen: HashMap<Offer, Rc<Chosen>>,
    /// What waits for the run to be resumed.
    pub(super) deferred: Vec<Act>,
    /// Units that events since the last look were about.
    touched: BTreeSet<Key>,
    /// Timers that have begun since the last look.
    new_timers: Vec<Key>,
    /// The last look may have missed something, or something around everything has changed.
    look_at_all: bool,
    /// Units that are scheduled or handed over.
    in_work: BTreeSet<Key>,
    /// Where each timer began.
    timers_since: HashMap<Key, Seq>,
    hand_overs: HashMap<Key, u32>,
}

impl Live {
    pub(super) fn new(run: Run) -> Self {
        Self {
            run,
            history: Vec::new(),
            first_batches: None,
            armed: HashSet::new(),
            shipped: HashSet::new(),
            chosen: HashMap::new(),
            deferred: Vec::new(),
            touched: BTreeSet::new(),
            new_timers: Vec::new(),
            look_at_all: false,
            in_work: BTreeSet::new(),
            timers_since: HashMap::new(),
            hand_overs: HashMap::new(),
        }
    }

    pub(super) fn is_paused(&self) -> bool {
        let state = self.run.state();
        state.head.paused && !state.is_over()
    }

    pub(super) fn unit(&self, key: &str) -> Option<&Unit> {
        self.run.state().unit(key)
    }

    /// Takes an event into the history and remembers what is to be looked at.
    pub(super) fn note(&mut self, recorded: Recorded) {
        match &recorded.event {
            Event::WorkflowResumed(_) | Event::StepClosing(_) => self.look_at_all = true,
            Event::WorkflowRedriven(e) => {
                self.look_at_all = true;
                self.touched.extend(e.steps.iter().cloned());
            }
            Event::TimerStarted(e) => self.timer_began(&e.step, recorded.seq),
            Event::RetryScheduled(e) => self.timer_began(&e.step, recorded.seq),
            Event::TimerFired(e) => drop(self.timers_since.remove(&e.step)),
            Event::StepDispatched(e) => *self.hand_overs.entry(e.step.clone()).or_default() += 1,
            _ => {}
        }
        if let Some(step) = recorded.event.step() {
            self.touched.insert(step.clone());
        }
        self.history.push(recorded);
    }

    fn timer_began(&mut self, timer: &Key, seq: Seq) {
        self.timers_since.insert(timer.clone(), seq);
        self.new_timers.push(timer.clone());
    }

    /// Timers that run and may not be armed yet, in the order in which they began.
    pub(super) fn timers_to_arm(&mut self) -> Vec<(Cause, u64)> {
        let mut names = std::mem::take(&mut self.new_timers);
        if self.look_at_all {
            let mut all: Vec<_> = self.timers_since.iter().map(|(timer, seq)| (*seq, timer.clone())).collect();
            all.sort();
            names = all.into_iter().map(|(_, timer)| timer).collect();
        }
        let timer = |name: Key| {
            let at_ms = self.run.state().timers.get(&*name)?.fire_at_ms?;
            let since = *self.timers_since.get(&name)?;
            Some((Cause::Timer(name, since), at_ms))
        };
        names.into_iter().filter_map(timer).collect()
    }

    /// Units in work that may need something, in the order of their first events. Ends the look: timers come first.
    pub(super) fn units_to_serve(&mut self) -> Vec<(Key, Unit)> {
        let touched = std::mem::take(&mut self.touched);
        for key in &touched {
            let in_work = |unit: &Unit| matches!(unit.status, Status::Scheduled | Status::Dispatched);
            if self.run.state().unit(key).is_some_and(in_work) {
                self.in_work.insert(key.clone());
            } else {
                self.in_work.remove(key);
            }
        }
        let keys = if std::mem::take(&mut self.look_at_all) { &self.in_work } else { &touched };
        let keys = keys.iter().filter(|key| self.in_work.contains(*key));
        let mut units: Vec<_> = keys.filter_map(|key| Some((key.clone(), self.unit(key)?.clone()))).collect();
        units.sort_by_key(|(_, unit)| unit.since);
        units
    }

    /// The offer as which a scheduled unit waits now.
    pub(super) fn offer(&self, key: &Key, unit: &Unit) -> Offer {
        let hand_overs = self.hand_overs.get(key).copied().unwrap_or_default();
        Offer { key: key.clone(), at_ms: unit.at_ms, attempt: unit.attempt, hand_overs }
    }

    /// Whether this offer is still the one.
    pub(super) fn is_open(&self, offer: &Offer) -> bool {
        let unit = self.unit(&offer.key).filter(|unit| unit.status == Status::Scheduled && unit.is_task());
        unit.is_some_and(|unit| self.offer(&offer.key, unit) == *offer)
    }

    /// Whether this hand-over is in flight.
    pub(super) fn is_in_flight(&self, key: &Key, hand_over: Seq) -> bool {
        self.unit(key).is_some_and(|unit| unit.token == Some(hand_over))
    }
}
