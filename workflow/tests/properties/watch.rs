//! What must hold of a history, said a second time and without the rules, event by event: I13–I18, I21, I26, L3, L6.
//!
//! Nothing here asks the engine: only the document as its author wrote it, the keys, and the events so far.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value as Json;
use workflow::event::{CloseReason, Event, Recorded, RedriveAction};
use workflow::key::{self, COMPENSATE, DEADLINE, GRACE, Key};

use super::outline::Outline;
use super::signals::Received;
use super::undo::{Undo, UndoEnd};

/// Where a unit stands, as far as a history says without any rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stand {
    #[default]
    Open,
    Succeeded,
    Failed,
    Skipped,
    Cancelled,
}

/// What a history says of one unit.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub stand: Stand,
    pub attempt: u32,
    pub since: u64,
    pub done: Option<u64>,
    pub unknown: bool,
    pub handled: bool,
    pub suspended: bool,
    /// It is a child: whoever gives it up must have waited for it.
    is_child: bool,
    in_flight: bool,
    input: bool,
    /// The last thing that allows a further StepScheduled.
    cause: Option<Cause>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Failed,
    Uncertain,
    Redriven,
}

/// A closing that stands.
#[derive(Clone, Debug)]
pub struct Closed {
    pub reason: CloseReason,
    pub seq: u64,
    output: Option<String>,
}

/// A history that is being read.
#[derive(Clone, Debug)]
pub struct Watch {
    pub outline: Outline,
    execution_id: String,
    pub units: BTreeMap<Key, Seen>,
    pub closings: BTreeMap<Key, Closed>,
    pub handlers: BTreeMap<Key, bool>,
    pub concurrency: HashMap<Key, u32>,
    pub success: HashMap<Key, u64>,
    pub ended: Option<Event>,
    pub force: bool,
    pub cancelled: bool,
    pub redriven: bool,
    pub paused: bool,
    /// Blocks in which something failed unhandled.
    broken: HashSet<Key>,
    run: u32,
    created_ms: u64,
    seq: u64,
    now_ms: u64,
    live: HashMap<Key, u64>,
    tokens: HashSet<String>,
    due: HashMap<Key, u64>,
    keys: HashMap<String, Key>,
    pub signals: BTreeMap<u64, Received>,
    by_hand: HashSet<Key>,
    pub undo: Undo,
    faults: Vec<String>,
}

impl Watch {
    pub fn new(document: &Json, execution_id: &str) -> Self {
        Self {
            outline: Outline::of(document),
            execution_id: execution_id.to_owned(),
            units: BTreeMap::new(),
            closings: BTreeMap::new(),
            handlers: BTreeMap::new(),
            concurrency: HashMap::new(),
            success: HashMap::new(),
            ended: None,
            force: false,
            cancelled: false,
            redriven: false,
            paused: false,
            broken: HashSet::new(),
            run: 1,
            created_ms: 0,
            seq: 0,
            now_ms: 0,
            live: HashMap::new(),
            tokens: HashSet::new(),
            due: HashMap::new(),
            keys: HashMap::new(),
            signals: BTreeMap::new(),
            by_hand: HashSet::new(),
            undo: Undo::default(),
            faults: Vec::new(),
        }
    }

    pub fn fault(&mut self, fault: impl Into<String>) {
        self.faults.push(format!("event {}: {}", self.seq, fault.into()));
    }

    /// What is wrong so far; asked once.
    pub fn take_faults(&mut self) -> Vec<String> {
        std::mem::take(&mut self.faults)
    }

    /// Reads one more event.
    pub fn note(&mut self, recorded: &Recorded) {
        if recorded.seq != self.seq + 1 {
            self.fault(format!("a gap: {} follows", recorded.seq));
        }
        if recorded.timestamp_ms < self.now_ms {
            self.fault("time goes back");
        }
        self.seq = recorded.seq;
        self.now_ms = recorded.timestamp_ms;
        let event = &recorded.event;
        if let (Some(end), false) = (&self.ended, matches!(event, Event::WorkflowRedriven(_))) {
            let fault = format!("{} after {}", event.name(), end.name());
            self.fault(fault);
        }
        if self.paused && is_decided(event) {
            self.fault(format!("{event} though it is paused"));
        }
        if event.is_terminal() {
            self.terminal(event);
        }
        match event {
            Event::WorkflowCreated(e) => {
                self.run = e.run;
                self.created_ms = e.first_created_at_ms.unwrap_or(self.now_ms);
            }
            Event::WorkflowPaused(_) => self.paused = true,
            Event::WorkflowResumed(_) => self.paused = false,
            Event::CancelRequested(e) => {
                self.cancelled = true;
                self.force |= e.force;
            }
            Event::WorkflowRedriven(e) => self.redriven(&e.steps, e.action),
            Event::SignalReceived(e) => {
                drop(self.signals.insert(self.seq, Received { name: e.signal.clone(), taken: false }));
            }
            Event::SignalConsumed(e) => self.take_signal(e.signal_seq),
            Event::HandlerStarted(e) => self.handler_started(&e.step),
            Event::HandlerFinished(e) => drop(self.handlers.insert(e.step.clone(), true)),
            other => self.note_step(other),
        }
    }

    fn terminal(&mut self, event: &Event) {
        if self.cancelled && !matches!(event, Event::WorkflowCancelled(_)) {
            self.fault(format!("{} though a cancel was accepted", event.name()));
        }
        if !self.cancelled && matches!(event, Event::WorkflowCancelled(_)) {
            self.fault("cancelled though nobody asked for it");
        }
        let orphan = self.units.iter().find(|(_, unit)| unit.is_child && unit.in_flight);
        if let Some((key, _)) = orphan.filter(|_| !self.force) {
            self.fault(format!("{} leaves the child {key} an orphan", event.name()));
        }
        self.ended = Some(event.clone());
        self.due.clear();
    }

    fn handler_started(&mut self, step: &Key) {
        if self.handlers.contains_key(step) {
            self.fault(format!("{step} started twice"));
        }
        self.handlers.insert(step.clone(), false);
        if let Some((_, seq)) = step.strip_prefix("on:event:").and_then(|rest| rest.split_once('@')) {
            if self.closings.contains_key("") {
                self.fault(format!("{step} starts though the root is closing"));
            }
            self.take_signal(seq.parse().unwrap_or(0));
        }
    }

    fn redriven(&mut self, steps: &[Key], action: RedriveAction) {
        self.redriven = true;
        self.broken.clear();
        if self.ended.take().is_some() {
            self.closings.remove("");
            self.due.remove(GRACE);
            self.cancelled = false;
        }
        for step in steps {
            let stand = self.units.get(step).map_or(Stand::Open, |unit| unit.stand);
            let handled = stand == Stand::Failed && self.units[step].handled;
            if handled || matches!(stand, Stand::Succeeded | Stand::Skipped) {
                self.fault(format!("{step} is redriven though it was resolved: {stand:?}"));
            }
            if action != RedriveAction::Retry {
                self.by_hand.insert(step.clone());
                self.seen(step).suspended = false;
                continue;
            }
            let is_attempt = |at: &Key| at.strip_prefix(&**step).is_some_and(|rest| rest.starts_with('~'));
            self.closings.retain(|at, _| at != step && !is_attempt(at));
            for timer in [step.to_string(), format!("{DEADLINE}{}", &**step), format!("{GRACE}{}", &**step)] {
                self.due.remove(&*timer);
            }
            let seen = self.seen(step);
            (seen.stand, seen.done, seen.suspended) = (Stand::Open, None, false);
            seen.cause = Some(Cause::Redriven);
        }
    }

    fn seen(&mut self, key: &Key) -> &mut Seen {
        let seq = self.seq;
        self.units.entry(key.clone()).or_insert_with(|| Seen { since: seq, ..Seen::default() })
    }

    fn note_step(&mut self, event: &Event) {
        self.nothing_starts(event);
        match event {
            Event::StepScheduled(e) => self.scheduled(e),
            Event::StepDispatched(e) => {
                self.starts_resolved(&e.step, event);
                if self.live.contains_key(&e.step) || !self.tokens.insert(e.token.clone()) {
                    self.fault(format!("{}: two live tokens", e.step));
                }
                if self.units.get(&e.step).is_none_or(|unit| unit.attempt != e.attempt) {
                    self.fault(format!("{}: attempt {} was never scheduled", e.step, e.attempt));
                }
                self.live.insert(e.step.clone(), self.seq);
                self.seen(&e.step).in_flight = true;
            }
            Event::StepOpened(e) => {
                self.starts_resolved(&e.step, event);
                self.due.remove(&e.step);
                let seen = self.seen(&e.step);
                if e.attempt < seen.attempt {
                    self.fault(format!("{}: attempt {} falls", e.step, e.attempt));
                }
                self.seen(&e.step).attempt = e.attempt;
            }
            Event::StepFanOut(e) => {
                self.starts_resolved(&e.step, event);
                self.seen(&e.step);
                if let Some(concurrency) = e.concurrency {
                    self.concurrency.insert(e.step.clone(), concurrency);
                }
            }
            Event::StepSucceeded(e) => {
                self.succeeded(&e.step, e.output.as_ref().map(|output| output.as_str().to_owned()));
            }
            Event::StepFailed(e) => {
                self.resolved(&e.step, Stand::Failed);
                self.seen(&e.step).handled = e.handled;
                if !e.handled && key::step_of(&e.step).len() == e.step.len() {
                    self.broken.insert(Key::from(key::parent(&e.step)));
                }
            }
            Event::StepSkipped(e) => self.resolved(&e.step, Stand::Skipped),
            Event::StepCancelled(e) => self.resolved(&e.step, Stand::Cancelled),
            other => self.note_rest(other),
        }
    }

    fn note_rest(&mut self, event: &Event) {
        match event {
            Event::StepAttemptFailed(e) => self.attempt_over(&e.step, Cause::Failed, e.unknown),
            Event::StepAttemptUncertain(e) => self.attempt_over(&e.step, Cause::Uncertain, true),
            Event::StepSuspended(e) => {
                self.live.remove(&e.step);
                let seen = self.seen(&e.step);
                (seen.suspended, seen.in_flight) = (true, false);
            }
            Event::RetryScheduled(e) => drop(self.due.insert(e.step.clone(), e.fire_at_ms)),
            Event::TimerStarted(e) => {
                if let Some(before) = self.due.insert(e.step.clone(), e.fire_at_ms) {
                    self.fault(format!("{}: a timer starts that is due at {before}", e.step));
                }
                if !e.step.starts_with(DEADLINE) && !e.step.starts_with(GRACE) {
                    self.starts_resolved(&e.step, event);
                    let is_pause = key::last_segment(&e.step).iteration.is_some();
                    if !is_pause {
                        self.seen(&e.step);
                    }
                }
            }
            Event::TimerFired(e) => match self.due.remove(&e.step) {
                Some(due) if due <= self.now_ms => {}
                Some(due) => self.fault(format!("{} fires at {}, before {due}", e.step, self.now_ms)),
                None => self.fault(format!("{} fires though it does not run", e.step)),
            },
            Event::StepClosing(e) => {
                let output = e.output.as_ref().map(|output| output.as_str().to_owned());
                let closed = Closed { reason: e.reason, seq: self.seq, output };
                if self.closings.insert(e.step.clone(), closed).is_some() {
                    self.fault(format!("{} closes twice", e.step));
                }
                if self.is_resolved(&e.step) {
                    self.fault(format!("{} closes and is resolved", e.step));
                }
            }
            Event::CompensationStarted(e) => self.undo_started(&e.step, &e.steps),
            Event::CompensationFailed(e) => self.undo_ended(&e.step, UndoEnd::Failed),
            Event::CompensationCompleted(e) => self.undo_completed(&e.step),
            _ => {}
        }
    }

    fn is_resolved(&self, key: &Key) -> bool {
        self.units.get(key).is_some_and(|unit| unit.stand != Stand::Open)
    }

    fn starts_resolved(&mut self, key: &Key, event: &Event) {
        if self.is_resolved(key) {
            self.fault(format!("{event} though it is resolved"));
        }
    }

    fn scheduled(&mut self, e: &workflow::event::StepScheduled) {
        let key = &e.step;
        if self.is_resolved(key) {
            self.fault(format!("{key} is scheduled though it is resolved"));
        }
        if self.live.contains_key(key) {
            self.fault(format!("{key} is scheduled while it is in flight"));
        }
        let before = self.seen(key).clone();
        let expected = match (before.attempt, before.cause) {
            (0, _) => (1, false),
            (attempt, Some(Cause::Uncertain)) => (attempt, true),
            (attempt, Some(Cause::Failed | Cause::Redriven)) => (attempt + 1, false),
            (attempt, None) => (attempt, false),
        };
        if before.cause.is_none() && before.attempt > 0 {
            self.fault(format!("{key} is scheduled again without a reason"));
        }
        // A redrive takes up what failed, whatever its last attempt ended with.
        let taken_up = before.cause == Some(Cause::Redriven) || self.redriven;
        if (e.attempt, e.redelivery) != expected && !(taken_up && e.attempt == before.attempt + 1) {
            self.fault(format!("{key}: attempt {} after {}, {:?}", e.attempt, before.attempt, before.cause));
        }
        if e.input.is_some() == before.input {
            self.fault(format!("{key}: the input is recorded once"));
        }
        let is_delivery = e.queue.is_none();
        let seen = self.seen(key);
        (seen.attempt, seen.input, seen.cause, seen.in_flight) = (e.attempt, true, None, is_delivery);
        seen.is_child = e.child.is_some();
        self.due.remove(key);
        self.idempotency_key(key, &e.idempotency_key);
        if is_delivery {
            // The next attempt is another delivery; only tasks have tokens.
            self.live.remove(key);
        }
        self.undo_scheduled(key);
    }

    fn idempotency_key(&mut self, key: &Key, given: &str) {
        if given != key::idempotency_key(&self.execution_id, self.created_ms, self.run, key) {
            self.fault(format!("{key}: another idempotency key"));
        }
        let owner = self.keys.entry(given.to_owned()).or_insert_with(|| key.clone()).clone();
        if owner != *key {
            self.fault(format!("{key} shares its idempotency key with {owner}"));
        }
    }

    fn attempt_over(&mut self, key: &Key, cause: Cause, unknown: bool) {
        self.live.remove(key);
        let seen = self.seen(key);
        seen.cause = Some(cause);
        seen.unknown |= unknown;
        seen.in_flight = false;
        if seen.stand != Stand::Open {
            self.fault(format!("an attempt of {key} ends though it is resolved"));
        }
    }

    fn succeeded(&mut self, key: &Key, output: Option<String>) {
        self.resolved(key, Stand::Succeeded);
        self.success.insert(key.clone(), self.seq);
        self.seen(key).unknown = false;
        if let Some(undone) = key.strip_prefix(COMPENSATE) {
            self.undo_ended(&Key::from(undone), UndoEnd::Done);
        }
        let Some(closed) = self.closings.get(key) else { return };
        let well = matches!(closed.reason, CloseReason::Done | CloseReason::Deadline);
        if (!well || closed.output.as_deref().unwrap_or("null") != output.as_deref().unwrap_or("null"))
            && !self.by_hand.contains(key)
        {
            self.fault(format!("{key} closed {}, succeeded otherwise", closed.reason.as_str()));
        }
    }

    fn resolved(&mut self, key: &Key, stand: Stand) {
        let seq = self.seq;
        let before = self.seen(key).stand;
        if before != Stand::Open {
            self.fault(format!("{key} is resolved twice: {before:?}, {stand:?}"));
        }
        self.live.remove(key);
        let seen = self.seen(key);
        let orphan = stand == Stand::Cancelled && seen.is_child && seen.in_flight;
        if orphan && !self.force {
            self.fault(format!("{key} is given up while its child runs: an orphan"));
        }
        let seen = self.seen(key);
        // Given up while with a worker, it may have happened (L5).
        seen.unknown |= seen.in_flight && stand != Stand::Succeeded;
        (seen.stand, seen.done, seen.in_flight, seen.suspended) = (stand, Some(seq), false, false);
        for timer in [key.to_string(), format!("{DEADLINE}{}", &**key), format!("{GRACE}{}", &**key)] {
            self.due.remove(&*timer);
        }
    }

    /// L6: below what closes nothing starts; L3: beside an unhandled failure nothing starts either.
    fn nothing_starts(&mut self, event: &Event) {
        let (key, is_hand_over) = match event {
            Event::StepScheduled(e) => (&e.step, false),
            Event::StepOpened(e) => (&e.step, false),
            Event::StepFanOut(e) => (&e.step, false),
            Event::StepDispatched(e) => (&e.step, true),
            Event::TimerStarted(e) if !e.step.starts_with(GRACE) => (&e.step, false),
            _ => return,
        };
        let key = key.strip_prefix(DEADLINE).unwrap_or(key);
        let closing = self.closings.keys().find(|closing| key::is_under(key, closing));
        if let Some(closing) = closing {
            let fault = format!("{event} though {closing} is closing");
            self.fault(fault);
        }
        // What had begun before goes on until its block closes, which is the next event: nothing lies between.
        if !is_hand_over && self.broken.iter().any(|path| key::is_under(key, path) && key != &**path) {
            self.fault(format!("{event} after an unhandled failure beside it"));
        }
    }

    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }
}

/// Whether the rules write this, whatever came from outside.
fn is_decided(event: &Event) -> bool {
    matches!(
        event,
        Event::StepOpened(_)
            | Event::StepFanOut(_)
            | Event::StepScheduled(_)
            | Event::StepDispatched(_)
            | Event::StepSkipped(_)
            | Event::RetryScheduled(_)
            | Event::StepFailed(_)
            | Event::StepSuspended(_)
            | Event::StepCancelled(_)
            | Event::StepClosing(_)
            | Event::TimerStarted(_)
            | Event::TimerFired(_)
            | Event::CompensationStarted(_)
            | Event::CompensationCompleted(_)
            | Event::HandlerStarted(_)
            | Event::HandlerFinished(_)
    )
}
