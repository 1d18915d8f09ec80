//! What must hold after each command.

use workflow::command::{Batch, Refusal, ResultAnswer, Run};
use workflow::decide;
use workflow::event::{Event, Recorded};
use workflow::key;
use workflow::state::{Execution, Status};

use super::constructs::Moment;
use super::outline::Role;
use super::tape::Tape;
use super::world::{ID, Order, Reply, World, give};

/// Histories up to this length are looked at as a whole after every command, longer ones after every eighth.
const SHORT: usize = 40;

impl World {
    /// Gives the command to the run, and to the one that was dropped and built again; checks everything. `Ok(None)`:
    /// it was refused.
    pub fn perform(&mut self, tape: &mut Tape, order: &Order) -> Result<Option<Reply>, String> {
        self.commands += 1;
        if tape.chance(if self.restless { 35 } else { 12 }) {
            self.crash(false)?;
            self.coverage.count("runs dropped between commands", 1);
        }
        let before = self.history.len();
        let given = give(&mut self.run, self.now_ms, order);
        if let Some(mut rebuilt) = self.rebuilt.take() {
            let again = give(&mut rebuilt, self.now_ms, order);
            if again != given {
                return Err(self.failed(order, &format!("after a crash it is {again:?}, else {given:?}")));
            }
            // A while is enough to tell: two runs cost twice the time.
            if tape.chance(25) {
                self.is_the_same(&rebuilt).map_err(|fault| self.failed(order, &fault))?;
            } else {
                self.rebuilt = Some(rebuilt);
            }
        }
        let reply = match given {
            Err(refusal) => return self.refused(order, &refusal).map(|()| None),
            Ok((reply, batch)) => {
                self.take_batches(tape, batch)?;
                reply
            }
        };
        self.answered(order, &reply, before).map_err(|fault| self.failed(order, &fault))?;
        self.holds().map_err(|fault| self.failed(order, &fault))?;
        Ok(Some(reply))
    }

    fn failed(&self, order: &Order, fault: &str) -> String {
        format!("{fault}\n  after {order:?} at {}\n{}", self.now_ms, self.tail())
    }

    fn refused(&mut self, order: &Order, refusal: &Refusal) -> Result<(), String> {
        self.coverage.count("commands refused", 1);
        if self.run.state().head.seq != self.history.len() as u64 || self.run.state() != &self.stored {
            return Err(self.failed(order, &format!("refused ({refusal}) and yet something changed")));
        }
        Ok(())
    }

    fn take_batches(&mut self, tape: &mut Tape, mut batch: Batch) -> Result<(), String> {
        let cut = tape
            .chance(if self.restless { 50 } else { 15 })
            .then(|| own_events(&batch.events) + tape.below(batch.events.len().max(1)));
        loop {
            let cut = cut.filter(|cut| !batch.unfinished && *cut < batch.events.len());
            for (index, recorded) in batch.events.iter().enumerate() {
                if cut == Some(index) {
                    self.crash_inside(&batch.events[index..])?;
                }
                self.take_event(recorded)?;
            }
            self.shelf.store(self.run.take_changes());
            if !batch.unfinished {
                return Ok(());
            }
            self.crash(true)?;
            batch = self.run.proceed(self.now_ms);
            if let Some(rebuilt) = &mut self.rebuilt
                && rebuilt.proceed(self.now_ms) != batch
            {
                return Err(format!("after a crash between two parts the rest is another\n{}", self.tail()));
            }
        }
    }

    /// The run is dropped when only a part of the batch has been stored: the same rest follows.
    fn crash_inside(&mut self, rest: &[Recorded]) -> Result<(), String> {
        self.coverage.count("runs dropped inside a batch", 1);
        self.coverage.constructs.dropped(&self.watch.outline, &self.stored, Moment::Inside);
        let results = self.run.results().clone();
        let mut run = Run::stored(self.definition.clone(), ID, self.stored.clone(), results, true);
        let again = run.proceed(self.now_ms).events;
        if again != rest {
            let (again, rest) = (lines(&again), lines(rest));
            return Err(format!("cut inside a batch\n  {again}\n follows, else\n  {rest}\n{}", self.tail()));
        }
        Ok(())
    }

    fn take_event(&mut self, recorded: &Recorded) -> Result<(), String> {
        if let Event::StepClosing(e) = &recorded.event {
            self.coverage.closing(&self.watch.outline, &self.stored, &e.step, e.reason);
        }
        self.coverage.constructs.note(&self.watch.outline, &recorded.event);
        self.stored.evolve(recorded);
        self.watch.note(recorded);
        self.history.push(recorded.clone());
        let faults = self.watch.take_faults();
        if faults.is_empty() { Ok(()) } else { Err(format!("{faults:#?}\n{}", self.tail())) }
    }

    /// What the answer promises.
    fn answered(&mut self, order: &Order, reply: &Reply, before: usize) -> Result<(), String> {
        let written = &self.history[before..];
        match (order, reply) {
            (Order::HandOver(unit), Reply::Token(token)) => {
                let dispatched = matches!(&written.first().map(|e| &e.event),
                    Some(Event::StepDispatched(e)) if e.step == *unit && e.token == token.to_string());
                self.tokens.push((unit.clone(), token.clone()));
                if !dispatched || written.len() != 1 {
                    return Err("a hand-over writes its StepDispatched and nothing more".into());
                }
            }
            (Order::Complete(..) | Order::Fail(..), Reply::Result(answer)) => {
                self.result_answered(order, answer, before)?
            }
            (Order::Heartbeat(_), _) if !written.is_empty() => return Err("a heartbeat is no event".into()),
            _ => {}
        }
        Ok(())
    }

    fn result_answered(&mut self, order: &Order, answer: &ResultAnswer, before: usize) -> Result<(), String> {
        let (Order::Complete(token, _) | Order::Fail(token, ..)) = order else { return Ok(()) };
        let Some((unit, _)) = self.tokens.iter().find(|(_, known)| known == token).cloned() else { return Ok(()) };
        let written = &self.history[before..];
        let in_history = self.history.iter().any(|e| match (&e.event, order) {
            (Event::StepSucceeded(e), Order::Complete(_, output)) => {
                e.step == unit && e.output.as_ref() == Some(output)
            }
            (Event::StepAttemptFailed(e), Order::Fail(_, error, _)) => e.step == unit && e.error.code == error.code,
            _ => false,
        });
        if answer.accepted && !in_history {
            return Err(format!("an acknowledged result of {unit} is not in the history"));
        }
        if answer.accepted && written.is_empty() && !self.results.iter().any(|known| same_result(known, order)) {
            return Err(format!("a result of {unit} is acknowledged without an event and is no repetition"));
        }
        if let (Order::Fail(..), false, [first, rest @ ..]) = (order, answer.accepted, written) {
            // One that was waited for ends the wait; else nothing follows.
            let ends_a_wait = matches!(rest.first().map(|e| &e.event), Some(Event::StepAttemptUncertain(_)));
            if !matches!(first.event, Event::StaleResultIgnored(_)) || !rest.is_empty() && !ends_a_wait {
                return Err(format!("a failure with an old token changes something:\n  {}", lines(written)));
            }
        }
        let token = token.clone();
        match self.firsts.iter().find(|(first, ..)| *first == token) {
            Some((_, first, said)) if same_result(first, order) && said != answer => {
                return Err(format!("a repeated result of {unit} is answered {answer:?}, the first time {said:?}"));
            }
            Some(_) => {}
            None => self.firsts.push((token, order.clone(), answer.clone())),
        }
        self.results.push(order.clone());
        Ok(())
    }

    /// What holds of the run as it stands.
    fn holds(&mut self) -> Result<(), String> {
        let state = self.run.state();
        let whole = self.history.len() <= SHORT;
        if whole || self.commands.is_multiple_of(8) {
            if let Some(more) = decide::next_event(&self.definition, state, ID, self.watch.now_ms()) {
                return Err(format!("deciding again gives {more}"));
            }
            self.adds_up()?;
        }
        if whole && self.commands.is_multiple_of(8) {
            self.is_read_again()?;
        }
        if let Some(wait) = self.watch.overlooked() {
            return Err(format!("{wait} waits and overlooks a signal that nobody took"));
        }
        if self.commands.is_multiple_of(6) {
            self.is_refused()?;
        }
        self.something_will_happen()
    }

    /// What may not be asked for now is refused and changes nothing (I18, I26).
    fn is_refused(&mut self) -> Result<(), String> {
        let with_a_worker = self.live().first().map(|(unit, _)| Order::HandOver(unit.clone()));
        let resolved = self.run.state().units.iter().find(|(_, unit)| unit.is_task() && unit.is_resolved());
        let resolved = resolved.map(|(unit, _)| Order::HandOver(unit.clone()));
        let early = self.timers().into_iter().rfind(|(at, _)| *at > self.now_ms).map(|(_, name)| Order::Timer(name));
        for order in [with_a_worker, resolved, early].into_iter().flatten() {
            match give(&mut self.run, self.now_ms, &order) {
                Ok((_, batch)) => return Err(format!("{order:?} is taken:\n  {}", lines(&batch.events))),
                Err(refusal) => self.refused(&order, &refusal)?,
            }
        }
        Ok(())
    }

    /// The state is the fold of the history.
    fn adds_up(&self) -> Result<(), String> {
        let state = self.run.state();
        let faults = state.check();
        if !faults.is_empty() {
            return Err(format!("the state contradicts itself: {faults:?}"));
        }
        if state != &self.stored {
            return Err("the state is not what the history adds up to".into());
        }
        Ok(())
    }

    /// … and of the history as it is stored.
    pub fn is_read_again(&self) -> Result<(), String> {
        let read: Result<Vec<_>, _> = self.history.iter().map(|e| Recorded::from_json(&e.to_json())).collect();
        let read = read.map_err(|error| format!("a history is not read again: {error}"))?;
        if self.run.state() != &Execution::fold(&read) {
            return Err("the state is not the fold of the history as it is stored".into());
        }
        Ok(())
    }

    /// Every execution that runs has something that it waits for.
    fn something_will_happen(&self) -> Result<(), String> {
        let state = self.run.state();
        if state.is_over() || state.head.paused {
            return Ok(());
        }
        let timer = state.timers.iter().any(|(_, timer)| timer.fire_at_ms.is_some());
        let unit = state.units.iter().any(|(key, unit)| match unit.status {
            Status::Scheduled | Status::Dispatched | Status::Suspended => true,
            Status::Open => self.watch.outline.role(key) == Role::Wait && !key::is_undo(key),
            _ => false,
        });
        if timer || unit { Ok(()) } else { Err("it runs and nothing will ever happen to it".into()) }
    }
}

fn same_result(known: &Order, order: &Order) -> bool {
    match (known, order) {
        (Order::Complete(a, output), Order::Complete(b, again)) => a == b && output == again,
        (Order::Fail(a, error, unknown), Order::Fail(b, again, unknown_again)) => {
            a == b && error == again && unknown == unknown_again
        }
        _ => false,
    }
}

/// A batch is never cut inside what the command itself writes.
fn own_events(events: &[Recorded]) -> usize {
    let is_own = |(index, recorded): &(usize, &Recorded)| {
        let first = &events[0].event;
        *index == 0
            || matches!(first, Event::WorkflowCreated(_)) && matches!(recorded.event, Event::WorkflowStarted(_))
            || matches!(first, Event::CancelRequested(_)) && matches!(recorded.event, Event::WorkflowResumed(_))
            || matches!(first, Event::WorkflowRedriven(_)) && matches!(recorded.event, Event::WorkflowRedriven(_))
            || matches!(first, Event::StaleResultIgnored(_)) && matches!(recorded.event, Event::StepAttemptUncertain(_))
    };
    events.iter().enumerate().take_while(is_own).count()
}

/// Events, a line each.
pub fn lines(events: &[Recorded]) -> String {
    let lines: Vec<_> = events.iter().map(|e| format!("{} {}", e.seq, e.event)).collect();
    lines.join("\n  ")
}
