//! State ← event. Total: no definition, no failure; an event about a unit that does not exist changes nothing.

use super::{Closing, Execution, HandOver, Handler, RunStatus, Signal, Status, Taken, Undo, UndoOutcome, Unit, Work};
use crate::event::{
    CompensationStarted, Event, Recorded, Seq, StepFanOut, StepScheduled, TaskError, UncertainReason, WorkflowCreated,
};
use crate::key::{self, COMPENSATE, DEADLINE, GRACE, Key};
use crate::plant::{Plant, planted};
use crate::value::Payload;

/// Where and when the event stands that is being applied.
#[derive(Clone, Copy)]
pub(super) struct At {
    pub seq: Seq,
    pub now_ms: u64,
}

impl Execution {
    /// Applies one event of the history.
    pub fn evolve(&mut self, recorded: &Recorded) {
        let at = At { seq: recorded.seq, now_ms: recorded.timestamp_ms };
        self.head.seq = at.seq;
        self.head.updated_at_ms = at.now_ms;
        self.head.history_bytes += recorded.event.weight() as u64;
        match &recorded.event {
            Event::WorkflowCreated(e) => self.created(e, at),
            Event::WorkflowStarted(_) => self.head.started_at_ms = Some(at.now_ms),
            Event::WorkflowPaused(_) => self.head.paused = true,
            Event::WorkflowResumed(_) => self.head.paused = false,
            Event::WorkflowTimeoutReached(_) => self.head.timed_out = true,
            Event::CancelRequested(e) => {
                self.head.cancel.get_or_insert_with(|| e.reason.clone());
                self.head.force |= e.force;
            }
            Event::WorkflowRedriven(e) => self.redriven(e, at),
            Event::WorkflowCompleted(e) => self.ended(RunStatus::Completed, Some(&e.output), None),
            Event::WorkflowFailed(e) => self.ended(RunStatus::Failed, None, Some(&e.error)),
            Event::WorkflowCancelled(_) => self.ended(RunStatus::Cancelled, None, None),
            Event::WorkflowTimedOut(_) => self.ended(RunStatus::TimedOut, None, None),
            Event::WorkflowContinuedAsNew(e) => self.ended(RunStatus::Continued, Some(&e.input), None),
            other => self.evolve_step(other, at),
        }
    }

    fn evolve_step(&mut self, event: &Event, at: At) {
        match event {
            Event::StepOpened(e) => self.opened(&e.step, e.attempt, at),
            Event::StepFanOut(e) => self.fan_out(e, at),
            Event::StepScheduled(e) => self.scheduled(e, at),
            Event::StepSkipped(e) => self.resolve(&e.step, Status::Skipped, at),
            Event::StepDispatched(e) => {
                let hand_over = HandOver {
                    unit: e.step.clone(),
                    attempt: e.attempt,
                    token: e.token.clone(),
                    worker_id: e.worker_id.clone(),
                };
                self.dispatched(hand_over, at);
            }
            Event::StepSucceeded(e) => self.succeeded(&e.step, e.attempt, e.output.as_ref(), at),
            Event::StepAttemptFailed(e) => self.attempt_failed(&e.step, &e.error, e.unknown),
            Event::StepAttemptUncertain(e) => self.uncertain(&e.step, e.reason),
            Event::RetryScheduled(e) => {
                if self.units.contains(&*e.step) {
                    self.set_status(&e.step, Status::RetryWait);
                    self.start_timer(&e.step, e.fire_at_ms);
                }
            }
            Event::StepFailed(e) => self.failed(&e.step, &e.error, e.handled, at),
            Event::StepSuspended(e) => {
                self.make_unit(&e.step, at);
                self.set_status(&e.step, Status::Suspended);
                self.with_unit(&e.step, |unit| {
                    unit.error = Some(e.error.clone());
                    unit.token = None;
                });
            }
            Event::StepCancelled(e) => self.resolve(&e.step, Status::Cancelled, at),
            other => self.evolve_rest(other, at),
        }
    }

    fn evolve_rest(&mut self, event: &Event, at: At) {
        match event {
            Event::StepClosing(e) => {
                let closing =
                    Closing { reason: e.reason, output: e.output.clone(), error: e.error.clone(), seq: at.seq };
                self.closings.insert(e.step.clone(), closing);
                // What itself closes waits for nothing more: neither a retry nor its deadline (L16).
                self.stop_timer(&e.step);
                self.stop_timer(&format!("{DEADLINE}{}", &*e.step));
            }
            Event::TimerStarted(e) => self.timer_started(&e.step, e.fire_at_ms, at),
            Event::TimerFired(e) => {
                let timer = self.timers.entry(&e.step, Default::default);
                timer.fire_at_ms = None;
                timer.fired = Some(at.seq);
            }
            Event::SignalReceived(e) => {
                let signal = Signal {
                    signal: e.signal.clone(),
                    payload: e.payload.clone(),
                    dedup_id: e.dedup_id.clone(),
                    taken_by: None,
                };
                self.signals.insert(at.seq, signal);
                self.head.unconsumed_signals += 1;
            }
            Event::SignalConsumed(e) => self.consumed(&e.step, e.signal_seq),
            Event::CompensationStarted(e) => self.undo_started(e, at),
            Event::CompensationFailed(e) => self.undo_failed(&e.step),
            Event::CompensationCompleted(e) => {
                if let Some(list) = self.undo_lists.get_mut(&*e.step) {
                    list.done = true;
                }
            }
            Event::HandlerStarted(e) => self.handler_started(&e.step, e.event.clone(), e.failure.clone(), at),
            Event::HandlerFinished(e) => {
                if let Some(handler) = self.handlers.get_mut(&*e.step) {
                    handler.done = true;
                    self.head.handlers_running -= u64::from(e.step.starts_with("on:event:"));
                }
            }
            // A stale result changes nothing; everything else is handled above.
            _ => {}
        }
    }

    fn created(&mut self, e: &WorkflowCreated, at: At) {
        self.head.input = Some(e.input.clone());
        self.head.run = e.run;
        self.head.ends = 1;
        self.head.created_at_ms = at.now_ms;
        self.head.first_created_at_ms = e.first_created_at_ms.unwrap_or(at.now_ms);
        self.head.parent.clone_from(&e.parent);
        self.head.timeout_at_ms = e.timeout_at_ms;
        self.head.scheduled_at_ms = e.scheduled_at;
        self.head.schedule_id.clone_from(&e.schedule_id);
        self.head.priority = e.priority;
        self.head.fairness_key.clone_from(&e.fairness_key);
        self.head.traceparent.clone_from(&e.traceparent);
    }

    fn ended(&mut self, status: RunStatus, output: Option<&Payload>, error: Option<&TaskError>) {
        self.head.status = status;
        // A force ends also what is paused.
        self.head.paused = false;
        self.head.output = output.cloned();
        self.head.error = error.cloned();
        let running: Vec<Key> =
            self.timers.iter().filter(|(_, timer)| timer.fire_at_ms.is_some()).map(|(name, _)| name.clone()).collect();
        for name in running {
            self.stop_timer(&name);
        }
    }

    // ---- units

    /// Makes the unit at `key` if it is not there, and counts it where it belongs.
    pub(super) fn make_unit(&mut self, key: &Key, at: At) {
        if self.units.contains(&**key) {
            return;
        }
        self.units.insert(key.clone(), Unit::new(at.seq, at.now_ms));
        if key::is_undo(key) {
            return;
        }
        let segment = key::last_segment(key);
        match (segment.element, segment.iteration) {
            (None, None) => self.with_progress(key::parent(key), |progress| progress.started += 1),
            (Some(element), None) => self.with_fan_out(key, |fan_out| {
                fan_out.started = fan_out.started.max(element + 1);
                fan_out.holes.remove(&element);
            }),
            _ => {}
        }
    }

    pub(super) fn with_unit(&mut self, key: &str, change: impl FnOnce(&mut Unit)) {
        if let Some(unit) = self.units.get_mut(key) {
            change(unit);
        }
    }

    fn with_fan_out(&mut self, element: &str, change: impl FnOnce(&mut super::FanOut)) {
        if let Some(fan_out) = self.units.get_mut(key::step_of(element)).and_then(|unit| unit.fan_out.as_mut()) {
            change(fan_out);
        }
    }

    fn with_progress(&mut self, path: &str, change: impl FnOnce(&mut super::Progress)) {
        if path.is_empty() {
            change(&mut self.head.root);
        } else if key::is_handler_path(path) {
            if let Some(handler) = self.handlers.get_mut(path) {
                change(&mut handler.progress);
            }
        } else if self.is_open_instance(path)
            && let Some(unit) = self.units.get_mut(key::unit_of(path))
        {
            change(&mut unit.progress);
        }
    }

    /// Every change of a status goes through here, so that counters follow.
    pub(super) fn set_status(&mut self, key: &Key, status: Status) {
        let Some(unit) = self.units.get_mut(&**key) else { return };
        let before = std::mem::replace(&mut unit.status, status);
        self.head.attention += u64::from(status == Status::Suspended);
        self.head.attention -= u64::from(before == Status::Suspended);
        let is_step = !key::is_undo(key) && key::step_of(key).len() == key.len();
        if is_step && before.is_resolved() != status.is_resolved() {
            let now = status.is_resolved();
            self.with_progress(key::parent(key), |progress| {
                if now {
                    progress.resolved += 1;
                } else {
                    progress.resolved -= 1;
                }
            });
        }
    }

    fn resolve(&mut self, key: &Key, status: Status, at: At) {
        self.make_unit(key, at);
        if status != Status::Succeeded && self.unit(key).is_some_and(Unit::is_in_flight) {
            // Given up while with a worker: it may have happened (L5).
            self.with_unit(key, |unit| unit.unknown = true);
        }
        self.set_status(key, status);
        self.with_unit(key, |unit| {
            unit.done = Some(at.seq);
            unit.finished_at_ms = Some(at.now_ms);
            unit.token = None;
        });
        if planted(Plant::TimerAfterCancel) && status == Status::Cancelled {
            return;
        }
        self.stop_timer(key);
        self.stop_timer(&format!("{DEADLINE}{key}", key = &**key));
        self.stop_timer(&format!("{GRACE}{key}", key = &**key));
    }

    fn opened(&mut self, key: &Key, attempt: u32, at: At) {
        self.forget_fired(key);
        self.make_unit(key, at);
        self.set_status(key, Status::Open);
        self.with_unit(key, |unit| {
            unit.opened = true;
            unit.attempt = attempt;
            unit.progress = super::Progress::default();
        });
    }

    fn fan_out(&mut self, e: &StepFanOut, at: At) {
        self.make_unit(&e.step, at);
        self.set_status(&e.step, Status::Open);
        let mut first = 0;
        self.with_unit(&e.step, |unit| {
            unit.opened = true;
            let fan_out = unit.fan_out.get_or_insert_default();
            fan_out.more = e.more;
            first = fan_out.total;
            fan_out.total += u32::try_from(e.items.len()).unwrap_or(0);
            fan_out.concurrency = e.concurrency.or(fan_out.concurrency);
            fan_out.max_failures = e.max_failures.unwrap_or(fan_out.max_failures);
        });
        for (element, item) in (first..).zip(&e.items) {
            self.items.insert(key::element(&e.step, element), item.clone());
        }
    }

    fn scheduled(&mut self, e: &StepScheduled, at: At) {
        self.forget_fired(&e.step);
        self.stop_timer(&e.step);
        self.make_unit(&e.step, at);
        self.set_status(&e.step, Status::Scheduled);
        self.with_unit(&e.step, |unit| {
            if unit.attempt != e.attempt {
                unit.lost = 0;
            }
            if unit.attempt != e.attempt || !e.redelivery {
                unit.queued_at_ms = at.now_ms;
            }
            if let Some(input) = &e.input {
                unit.input = Some(input.clone());
            }
            if let Some(queue) = &e.queue {
                unit.work = Some(Work::Task(queue.clone()));
            } else if let Some(child) = &e.child {
                unit.work = Some(Work::Child(child.clone()));
            } else if let Some(signal) = &e.signal {
                unit.work = Some(Work::Signal(signal.clone()));
            }
            unit.attempt = e.attempt;
            unit.idempotency_key = Some(e.idempotency_key.clone());
            unit.token = None;
            unit.redelivery = e.redelivery;
            unit.at_ms = at.now_ms;
            unit.timeout_ms = e.timeout_ms;
            unit.queue_timeout_ms = e.queue_timeout_ms;
            unit.heartbeat_timeout_ms = e.heartbeat_timeout_ms;
        });
    }

    fn dispatched(&mut self, hand_over: HandOver, at: At) {
        let key = hand_over.unit.clone();
        if !self.units.contains(&*key) {
            return;
        }
        self.set_status(&key, Status::Dispatched);
        self.with_unit(&key, |unit| {
            unit.token = Some(at.seq);
            unit.at_ms = at.now_ms;
        });
        self.hand_overs.insert(at.seq, hand_over);
    }

    fn succeeded(&mut self, key: &Key, attempt: u32, output: Option<&Payload>, at: At) {
        self.make_unit(key, at);
        self.with_unit(key, |unit| {
            unit.output = output.cloned();
            unit.unknown = false;
            // An attempt number never falls, though an older attempt may have succeeded after all.
            unit.attempt = unit.attempt.max(attempt);
        });
        self.resolve(key, Status::Succeeded, at);
        self.count_element(key, |fan_out, element| {
            fan_out.succeeded += 1;
            fan_out.last = Some(element);
        });
        self.note_iteration(key, output);
        if let Some(undone) = key.strip_prefix(COMPENSATE) {
            self.undo_ended(undone, UndoOutcome::Done);
        }
    }

    fn failed(&mut self, key: &Key, error: &TaskError, handled: bool, at: At) {
        self.resolve(key, Status::Failed, at);
        self.with_unit(key, |unit| {
            unit.error = Some(error.clone());
            unit.handled = handled;
        });
        self.count_element(key, |fan_out, element| {
            fan_out.failed += 1;
            fan_out.last = Some(element);
        });
        if !handled && !key::is_undo(key) && key::step_of(key).len() == key.len() {
            let key = key.clone();
            self.with_progress(key::parent(&key), |progress| {
                progress.failed.get_or_insert(key.clone());
            });
        }
    }

    fn attempt_failed(&mut self, key: &Key, error: &TaskError, unknown: bool) {
        self.set_status(key, Status::AttemptFailed);
        self.with_unit(key, |unit| {
            unit.error = Some(error.clone());
            unit.token = None;
            unit.unknown |= unknown;
        });
    }

    fn uncertain(&mut self, key: &Key, reason: UncertainReason) {
        self.set_status(key, Status::Uncertain);
        self.with_unit(key, |unit| {
            unit.token = None;
            unit.unknown = true;
            unit.lost += u32::from(reason != UncertainReason::Unregistered);
        });
    }

    pub(super) fn count_element(&mut self, key: &str, count: impl FnOnce(&mut super::FanOut, u32)) {
        let segment = key::last_segment(key);
        if let (Some(element), None, false) = (segment.element, segment.iteration, key::is_undo(key)) {
            self.with_fan_out(key, |fan_out| count(fan_out, element));
        }
    }

    fn note_iteration(&mut self, key: &str, output: Option<&Payload>) {
        let segment = key::last_segment(key);
        if let (Some(iteration), None, false) = (segment.iteration, segment.attempt, key::is_undo(key)) {
            self.with_unit(key::element_of(key), |unit| {
                unit.iteration = Some(iteration);
                unit.last_output = output.cloned();
            });
        }
    }

    // ---- timers

    fn start_timer(&mut self, name: &Key, fire_at_ms: u64) {
        let timer = self.timers.entry(name, Default::default);
        timer.fire_at_ms = Some(fire_at_ms);
        timer.fired = None;
    }

    pub(super) fn stop_timer(&mut self, name: &str) {
        if let Some(timer) = self.timers.get_mut(name) {
            timer.fire_at_ms = None;
            if timer.fired.is_none() {
                self.timers.remove(name);
            }
        }
    }

    pub(super) fn forget_fired(&mut self, name: &str) {
        if let Some(timer) = self.timers.get_mut(name) {
            timer.fired = None;
            if timer.fire_at_ms.is_none() {
                self.timers.remove(name);
            }
        }
    }

    fn timer_started(&mut self, name: &Key, fire_at_ms: u64, at: At) {
        self.start_timer(name, fire_at_ms);
        if name.starts_with(DEADLINE) || name.starts_with(GRACE) {
            return;
        }
        // A timer named after an iteration that has no unit yet is the delay before it.
        if self.units.contains(&**name) || key::last_segment(name).iteration.is_none() {
            self.make_unit(name, at);
            if self.unit(name).is_some_and(|unit| !unit.opened) {
                self.set_status(name, Status::Waiting);
            }
        }
    }

    // ---- signals, undo, handlers

    fn consumed(&mut self, wait: &Key, signal_seq: Seq) {
        let Some(signal) = self.signals.remove(&signal_seq) else { return };
        let taken = Taken { signal: signal.signal, payload: signal.payload };
        self.head.unconsumed_signals -= 1;
        self.with_unit(wait, |unit| unit.taken.push(taken));
    }

    fn undo_started(&mut self, e: &CompensationStarted, at: At) {
        let list = self.undo_lists.entry(&e.step, || super::UndoList { since: at.seq, ..Default::default() });
        list.steps.extend(e.steps.iter().cloned());
        list.more = e.more;
        self.head.undo_total += e.steps.len() as u64;
        for step in &e.steps {
            self.undos.insert(step.clone(), Undo { closing: e.step.clone(), outcome: None });
        }
    }

    fn undo_ended(&mut self, undone: &str, outcome: UndoOutcome) {
        let Some(undo) = self.undos.get_mut(undone) else { return };
        if undo.outcome.is_none() {
            undo.outcome = Some(outcome);
            self.head.undo_done += u64::from(outcome == UndoOutcome::Done);
        }
    }

    fn undo_failed(&mut self, undone: &str) {
        self.undo_ended(undone, UndoOutcome::Failed);
        let unit = Key::from(format!("{COMPENSATE}{undone}"));
        self.set_status(&unit, Status::Failed);
        self.with_unit(&unit, |unit| unit.token = None);
    }

    fn handler_started(&mut self, name: &Key, event: Option<Payload>, failure: Option<crate::event::Failure>, at: At) {
        self.handlers.insert(name.clone(), Handler { event, failure, since: at.seq, ..Handler::default() });
        // The start of an event handler takes its signal.
        let Some((signal, seq)) = name.strip_prefix("on:event:").and_then(|rest| rest.split_once('@')) else { return };
        self.head.handlers_running += 1;
        let Ok(seq) = seq.parse::<Seq>() else { return };
        if self.signals.get(&seq).is_some_and(|row| row.signal == signal) {
            self.signals.remove(&seq);
            self.head.unconsumed_signals -= 1;
        }
    }
}
