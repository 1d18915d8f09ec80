//! Taking asks: each becomes a command of the rules, and what follows from it joins the turn.

use std::sync::Arc;

use orbit_raft::Environment;
use workflow::command::{
    Cancel, Command, Complete, Expire, Expiry, Fail, Heartbeat, HeartbeatAnswer, OfferTaken, Pause, Redrive,
    ResultAnswer, Resume, Run, Start, TimeoutDue, TimerDue, Token, Uncertain,
};
use workflow::decide::Limits;
use workflow::event::{Event, Recorded, UncertainReason};
use workflow::key::Key;
use workflow::state::{RowKind, RunStatus, Status};

use super::ask::What;
use super::loaded::{Expected, Loaded};
use super::turn::{HandedOver, Turn};
use super::{Life, close};
use crate::desk::{Ready, Slot};
use crate::error::{Code, Error, Result};
use crate::failure::{of_refusal, of_storage};
use crate::index;
use crate::table::{Timer, TimerKind};

impl<E: Environment> Life<E> {
    /// Takes one ask.
    pub(super) fn take(&mut self, what: What, turn: &mut Turn) {
        turn.again.extend(what.asked_by_the_node());
        if let Err(error) = self.load() {
            return self.cannot_load(what, error, turn);
        }
        match what {
            What::Start(start, reply) => self.start(*start, reply, turn),
            What::Complete { token, output, reply } => {
                turn.reported.push(token.clone());
                let answer = self.result(turn, &token, Complete { token: &token, output });
                turn.answer(reply, answer);
            }
            What::Fail { token, error, unknown, reply } => {
                turn.reported.push(token.clone());
                let answer = self.result(turn, &token, Fail { token: &token, error, unknown });
                turn.answer(reply, answer);
            }
            What::TaskHeartbeat { token, details, reply } => {
                let answer = self.heartbeat(turn, &token, details);
                turn.answer(reply, answer);
            }
            What::Cancel { reason, force, reply } => {
                let answer = self.newest(turn, Cancel { reason, force });
                turn.answer(reply, answer);
            }
            What::Signal(signal, reply) => self.signal(*signal, reply, turn),
            What::Pause(reply) => {
                let answer = self.newest(turn, Pause);
                turn.answer(reply, answer);
            }
            What::Resume(reply) => {
                let answer = self.newest(turn, Resume);
                turn.answer(reply, answer);
            }
            What::Redrive { steps, action, output, reply } => {
                let answer = self.newest(turn, Redrive { steps, action, output });
                turn.answer(reply, answer);
            }
            What::Remove(what, reply) => {
                let answer = self.remove(turn, &what);
                turn.answer(reply, answer);
            }
            What::Messages(batch, reply) => self.messages(*batch, reply, turn),
            What::Offer(ready, slot) => self.offered(turn, *ready, slot),
            What::TakeBack { token, reason } => self.take_back(turn, &token, reason),
            What::Due(timer) => self.due(turn, &timer),
            What::Silent(token) => self.silent(turn, &token),
            What::Proceed => {}
        }
    }

    /// The run cannot be read: callers are told, and what the node itself asks is asked again later.
    fn cannot_load(&mut self, what: What, error: Error, turn: &mut Turn) {
        tracing::error!(execution = %self.id, %error, "an execution cannot be read");
        // An offer is dropped with its slot: the desk has the rows of the queue read again after a while.
        what.refuse(error.clone());
        turn.broken = Some(error);
    }

    /// The next batch of a command whose batch was cut, or the next run, which is cancelled at once if that is asked.
    pub(super) fn proceed(&mut self, turn: &mut Turn, cancel: Option<Cancel>) {
        let now_ms = self.context.group.now_ms();
        let Some(loaded) = self.loaded.as_mut() else { return };
        if loaded.run.state().head.status == RunStatus::Continued {
            loaded.unfinished = false;
            return self.next_run(turn, cancel);
        }
        let batch = loaded.run.proceed(now_ms);
        loaded.unfinished = batch.unfinished;
        self.follow(turn, batch.events);
    }

    /// Gives a command to the newest run and takes in all that follows.
    pub(super) fn command<C: Command>(&mut self, turn: &mut Turn, command: C) -> Result<C::Answer> {
        let now_ms = self.context.group.now_ms();
        let loaded = self.loaded.as_mut().ok_or_else(|| not_found(&self.id))?;
        let (answer, batch) = loaded.run.handle(now_ms, command).map_err(|refusal| of_refusal(&refusal))?;
        loaded.unfinished = batch.unfinished;
        self.follow(turn, batch.events);
        Ok(answer)
    }

    fn newest<C: Command>(&mut self, turn: &mut Turn, command: C) -> Result<C::Answer> {
        self.load()?;
        self.command(turn, command)
    }

    fn follow(&mut self, turn: &mut Turn, events: Vec<Recorded>) {
        let scheduled = scheduled(&events);
        turn.extend(events);
        let Some(loaded) = self.loaded.as_mut().filter(|loaded| !loaded.unfinished) else { return };
        if loaded.run.state().head.status == RunStatus::Continued {
            // A document may go on and on without ever waiting: each further run gets a commit of its own.
            loaded.unfinished = turn.runs_begun > 0;
            if !loaded.unfinished {
                self.next_run(turn, None);
            }
            return;
        }
        for unit in scheduled {
            self.hand_over_at_once(turn, &unit);
        }
    }

    // ---- workers

    /// A result, for whichever run it is of.
    fn result<C: Command<Answer = ResultAnswer>>(
        &mut self,
        turn: &mut Turn,
        token: &Token,
        command: C,
    ) -> Result<ResultAnswer> {
        match self.load()?.map(|loaded| loaded.number) {
            Some(newest) if newest == token.run => self.command(turn, command),
            Some(newest) if newest > token.run => self.late_result(turn, token, command),
            _ => Ok(ResultAnswer { accepted: false, reason: Some("unknown token".to_owned()) }),
        }
    }

    /// A result for a run that is over: nothing happens but that the first answer is kept.
    fn late_result<C: Command<Answer = ResultAnswer>>(
        &mut self,
        turn: &mut Turn,
        token: &Token,
        command: C,
    ) -> Result<ResultAnswer> {
        let Some(mut run) = self.older(token.run)? else {
            return Ok(ResultAnswer { accepted: false, reason: Some("unknown token".to_owned()) });
        };
        let now_ms = self.context.group.now_ms();
        let (answer, _) = run.handle(now_ms, command).map_err(|refusal| of_refusal(&refusal))?;
        let kept = run.take_changes().into_iter().filter(|change| change.kind == RowKind::FirstResult);
        turn.extra_writes.extend(kept.map(|change| close::row(&self.id, token.run, change)));
        Ok(answer)
    }

    fn heartbeat(
        &mut self,
        turn: &mut Turn,
        token: &Token,
        details: Option<workflow::value::Payload>,
    ) -> Result<HeartbeatAnswer> {
        let gone = HeartbeatAnswer { accepted: false, cancel: true };
        if self.load()?.is_none_or(|loaded| loaded.number != token.run) {
            return Ok(gone);
        }
        let answer = self.command(turn, Heartbeat { token, details })?;
        if answer.accepted {
            self.context.silence.heard(token, self.context.group.now_ms());
        }
        Ok(answer)
    }

    /// A slot that the desk has reserved for a task of this execution.
    fn offered(&mut self, turn: &mut Turn, ready: Ready, slot: Slot) {
        let waits = |loaded: &mut Loaded| {
            let state = loaded.run.state();
            let place = index::indexed(state, &ready.unit.unit).ready;
            loaded.number == ready.unit.run
                && place.is_some_and(|(queue, order, _)| queue == ready.queue && order == ready.order)
        };
        // What no longer waits leaves the slot to others: it is free again when it is dropped here.
        if self.load().is_ok_and(|loaded| loaded.is_some_and(waits)) {
            // Should the commit fail, the desk has the rows of the queue read again.
            self.hand_over(turn, &ready.unit.unit, slot);
        } else {
            self.context.desk.withdraw(self.context.shard, &ready.queue, &ready.order, &ready.unit);
        }
    }

    /// A task that has just become ready meets a slot that is free already: both in one commit.
    fn hand_over_at_once(&mut self, turn: &mut Turn, unit: &Key) {
        let Some(loaded) = self.loaded.as_ref() else { return };
        let Some((queue, order, _)) = index::indexed(loaded.run.state(), unit).ready else { return };
        if let Some(slot) = self.context.desk.try_take(&queue, &order) {
            self.hand_over(turn, unit, slot);
        }
    }

    fn hand_over(&mut self, turn: &mut Turn, unit: &Key, slot: Slot) {
        let now_ms = self.context.group.now_ms();
        let Some(loaded) = self.loaded.as_mut() else { return };
        let taken = OfferTaken {
            unit,
            worker_id: slot.worker_id(),
            worker_session: slot.session_id(),
            nonce: self.context.dice.eight_bytes(),
        };
        // Refused when it is paused or closing: the slot is free again.
        let Ok((token, batch)) = loaded.run.handle(now_ms, taken) else { return };
        loaded.unfinished = batch.unfinished;
        turn.extend(batch.events);
        turn.handed_over.push(HandedOver { slot, unit: unit.clone(), token });
    }

    fn take_back(&mut self, turn: &mut Turn, token: &Token, reason: UncertainReason) {
        if self.load().is_ok_and(|loaded| loaded.is_some_and(|loaded| loaded.number == token.run)) {
            // Refused when it has ended meanwhile: then nothing is to be done.
            let _ = self.command(turn, Uncertain { token, reason });
        }
    }

    /// A worker has said nothing about a task for longer than it may.
    fn silent(&mut self, turn: &mut Turn, token: &Token) {
        let in_flight = |loaded: &mut Loaded| {
            let unit = loaded.run.hand_over(token).map(|hand_over| hand_over.unit.clone())?;
            let is_held = loaded.run.state().unit(&unit).is_some_and(|unit| unit.token == Some(token.seq));
            (loaded.number == token.run && is_held).then_some(unit)
        };
        let unit = self.load().ok().flatten().and_then(in_flight);
        if let Some(unit) = unit {
            let _ = self.command(turn, Expire { unit: &unit, expiry: Expiry::Heartbeat });
        }
    }

    // ---- time

    fn due(&mut self, turn: &mut Turn, timer: &Timer) {
        if self.load().is_ok_and(|loaded| loaded.is_none_or(|loaded| loaded.number != timer.unit.run)) {
            return;
        }
        let unit = &timer.unit.unit;
        // What has become pointless meanwhile is refused, and nothing follows.
        let refused = match timer.kind {
            TimerKind::Timer => self.command(turn, TimerDue { timer: unit }).err(),
            TimerKind::Run => self.command(turn, TimeoutDue).err(),
            TimerKind::Attempt if self.expires(timer, Status::Dispatched) => {
                self.command(turn, Expire { unit, expiry: Expiry::Timeout }).err()
            }
            TimerKind::Queue if self.expires(timer, Status::Scheduled) => {
                self.command(turn, Expire { unit, expiry: Expiry::Queue }).err()
            }
            TimerKind::Attempt | TimerKind::Queue => None,
        };
        if let Some(refused) = refused {
            tracing::debug!(execution = %self.id, unit = %unit, %refused, "a timer came to nothing");
        }
    }

    /// Whether it is still this attempt that runs out of time.
    fn expires(&self, timer: &Timer, status: Status) -> bool {
        self.loaded.as_ref().is_some_and(|loaded| {
            let state = loaded.run.state();
            let now = index::indexed(state, &timer.unit.unit).timer;
            state.unit(&timer.unit.unit).is_some_and(|unit| unit.status == status)
                && now == Some((timer.due_ms, timer.kind))
        })
    }

    // ---- runs

    /// Goes on in a new run, in the same commit: created, signals that nobody took, started (L10).
    fn next_run(&mut self, turn: &mut Turn, cancel: Option<Cancel>) {
        turn.runs_begun += 1;
        let Some(loaded) = self.loaded.as_ref() else { return };
        let state = loaded.run.state();
        let command = Start { cancel, ..Start::next_run(state) };
        let definition = Arc::clone(loaded.run.definition());
        let expected = Expected::At { run: state.head.run, seq: state.head.seq };
        let number = state.head.run + 1;
        if let Err(error) = self.close_run(turn).and_then(|()| self.know_attributes()) {
            turn.broken = Some(error);
            return;
        }
        let former = self.loaded.take();
        let (listed, attributes) = former.map_or((None, None), |former| (former.listed, former.attributes));
        let next = Loaded::new(self.limited(Run::new(definition, &*self.id)), number, expected);
        self.loaded = Some(Loaded { listed, attributes, ..next });
        turn.effects.alive += 1;
        if let Err(error) = self.command(turn, command) {
            turn.broken = Some(error);
        }
    }

    /// With the limits of this node.
    pub(super) fn limited(&self, run: Run) -> Run {
        run.with_limits(Limits { output_bytes_max: self.context.output_bytes_max, ..Limits::default() })
    }

    /// Whether details of heartbeats wait for a commit.
    pub(super) fn has_unwritten_details(&self) -> bool {
        self.loaded.as_ref().is_some_and(|loaded| loaded.run.has_unwritten_details())
    }
}

impl Loaded {
    /// Whether nothing is expected soon: no task is with a worker.
    pub(super) fn may_sleep(&self) -> bool {
        self.run.state().is_over() || !self.index.has_held()
    }

    /// What went wrong while rows were read for a decision, which must then be thrown away.
    pub(super) fn row_failure(&self) -> Option<Error> {
        self.rows.as_ref().and_then(|rows| rows.failure()).map(of_storage)
    }
}

/// The units that were scheduled, in order.
fn scheduled(events: &[Recorded]) -> Vec<Key> {
    let unit = |recorded: &Recorded| match &recorded.event {
        Event::StepScheduled(event) if event.queue.is_some() => Some(event.step.clone()),
        _ => None,
    };
    events.iter().filter_map(unit).collect()
}

pub(super) fn not_found(id: &str) -> Error {
    Error::new(Code::NotFound, format!("there is no execution {id}; check the id"))
}
