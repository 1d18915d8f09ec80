//! The world of a case: executions, and one queue of what will happen to them.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use super::Checks;
use super::file::Case;
use super::live::{At, Cause, Live, Offer};
use super::outbox::Parcel;
use super::refused::Refused;
use super::report::{self, Difference, Moment};
use super::script::Step;
use super::verify;
use super::worker::{Chosen, Mocks};
use crate::command::{Accepted, Command, Expire, Expiry, Refusal, Run, SendSignal, Start, TimeoutDue, TimerDue, Token};
use crate::definition::Definition;
use crate::event::{Parent, TaskError, UncertainReason};
use crate::key::Key;
use crate::value::{Payload, Value};

/// Things that may happen in one case: beyond, the document never ends by itself.
const STEPS_MAX: usize = if cfg!(test) { 5_000 } else { 400_000 };
/// Runs of all executions of one case.
const RUNS_MAX: usize = 10_000;
/// Events of all executions of one case: a history has a million at most.
const EVENTS_MAX: usize = 1_200_000;
/// Batches that one command may lead to.
const BATCHES_MAX: usize = 2_000;
/// The last moment that is looked at when the case names none: some centuries.
const UNTIL_MS: u64 = 10_000_000_000_000;

/// What will happen.
#[derive(Clone, Debug)]
pub(super) enum Act {
    /// A caller does something: index into the script.
    Caller(usize),
    /// Time is up for something.
    Due { at: At, cause: Cause },
    /// A worker takes an offer.
    HandOver { at: At, offer: Offer },
    /// A worker answers.
    Report { at: At, key: Key, token: Token, chosen: Rc<Chosen> },
    /// A hand-over is given up.
    Lose { at: At, token: Token, reason: UncertainReason },
    /// A child is started, a signal sent.
    Deliver { at: At, parcel: Parcel },
    /// A child is told to stop.
    StopChild { at: At, key: Key, child: String, force: bool },
    /// A parent is told how its child ended.
    TellParent { at: At, key: Key, attempt: u32, result: Result<Payload, TaskError> },
}

pub(super) struct World<'c> {
    pub(super) definitions: &'c [Arc<Definition>],
    pub(super) script: Vec<Step>,
    pub(super) mocks: Mocks<'c>,
    pub(super) now_ms: u64,
    queue: BTreeMap<(u64, usize), Act>,
    inserted: usize,
    pub(super) lives: Vec<Live>,
    /// The runs of each execution, oldest first.
    pub(super) runs: BTreeMap<String, Vec<At>>,
    pub(super) timeline: Vec<Moment>,
    /// Inputs of all hand-overs by task.
    pub(super) calls: BTreeMap<String, Vec<Value>>,
    /// What callers were told otherwise than expected.
    pub(super) differences: Vec<Difference>,
    dedup: HashMap<(String, String, String), (Value, Accepted)>,
    until_ms: u64,
    checks: Checks,
    /// Somebody could not start what the case wants started.
    pub(super) start_refused: bool,
    /// The case stopped looking before nothing more could happen.
    pub(super) cut: bool,
    /// Runs whose next one is to be started.
    pub(super) continued: VecDeque<At>,
    /// The case cannot go on.
    pub(super) stopped: bool,
}

impl<'c> World<'c> {
    pub(super) fn new(case: &'c Case, definitions: &'c [Arc<Definition>], checks: Checks) -> Self {
        let mut world = Self {
            definitions,
            script: Step::of(case),
            mocks: Mocks::new(&case.mocks),
            now_ms: 0,
            queue: BTreeMap::new(),
            inserted: 0,
            lives: Vec::new(),
            runs: BTreeMap::new(),
            timeline: Vec::new(),
            calls: BTreeMap::new(),
            differences: Vec::new(),
            dedup: HashMap::new(),
            until_ms: case.until.map_or(UNTIL_MS, |until| until.0),
            checks,
            start_refused: false,
            cut: false,
            continued: VecDeque::new(),
            stopped: false,
        };
        for index in 0..world.script.len() {
            world.at(world.script[index].at_ms, Act::Caller(index));
        }
        world
    }

    /// Puts something into the queue; what is overdue happens now, after all that is due now already.
    pub(super) fn at(&mut self, at_ms: u64, act: Act) {
        self.inserted += 1;
        self.queue.insert((at_ms.max(self.now_ms), self.inserted), act);
    }

    /// Lets everything happen until nothing more will, or the case's time is over.
    pub(super) fn run(&mut self) {
        let mut steps = 0;
        while let Some(((at_ms, _), act)) = self.queue.pop_first() {
            if at_ms > self.until_ms || self.stopped {
                self.cut = true;
                break;
            }
            self.now_ms = at_ms;
            steps += 1;
            if steps > STEPS_MAX {
                let came = format!("{STEPS_MAX} steps until {} and no end in sight", report::duration(self.now_ms));
                return self.stop(Difference::new("the end", "an execution that ends by itself, or `until`", came));
            }
            self.act(act);
        }
        if self.checks == Checks::Engine && !self.stopped {
            let faults = self.lives.iter().filter_map(|live| verify::fault(live, self.now_ms));
            self.differences.extend(faults.collect::<Vec<_>>());
        }
    }

    /// The case cannot go on.
    pub(super) fn stop(&mut self, why: Difference) {
        if !std::mem::replace(&mut self.stopped, true) {
            self.differences.push(why);
        }
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Caller(index) => self.play(index),
            Act::Due { at, cause } => self.due(at, cause),
            Act::HandOver { at, offer } => self.hand_over(at, &offer),
            Act::Report { at, key, token, chosen } => self.report(at, key, token, chosen),
            Act::Lose { at, token, reason } => self.lose(at, token, reason),
            Act::Deliver { at, parcel } => self.deliver(at, parcel),
            Act::StopChild { at, key, child, force } => self.stop_child(at, &key, &child, force),
            Act::TellParent { at, key, attempt, result } => self.answer(at, &key, attempt, result),
        }
    }

    fn due(&mut self, at: At, cause: Cause) {
        let live = &mut self.lives[at.0];
        if live.is_paused() {
            // What was due meanwhile is due on resume (L10): it is armed again then.
            live.armed.remove(&cause);
            return;
        }
        // What has become pointless meanwhile is refused, and nothing follows.
        match &cause {
            Cause::Timer(timer, _) => drop(self.give(at, TimerDue { timer })),
            Cause::Timeout(_) => drop(self.give(at, TimeoutDue)),
            Cause::Attempt(key, token) if live.is_in_flight(key, *token) => {
                drop(self.give(at, Expire { unit: key, expiry: Expiry::Timeout }));
            }
            Cause::Heartbeat(key, token) if live.is_in_flight(key, *token) => {
                drop(self.give(at, Expire { unit: key, expiry: Expiry::Heartbeat }));
            }
            Cause::Queue(offer) if live.is_open(offer) => {
                drop(self.give(at, Expire { unit: &offer.key, expiry: Expiry::Queue }));
            }
            Cause::Attempt(..) | Cause::Heartbeat(..) | Cause::Queue(_) | Cause::Offer(_) => return,
        }
        self.effects(at);
    }

    // ---- commands

    /// Gives a command to a run and takes all that follows from it.
    pub(super) fn give<C: Command>(&mut self, at: At, command: C) -> Result<C::Answer, Refusal> {
        let now_ms = self.now_ms;
        let (answer, mut batch) = self.lives[at.0].run.handle(now_ms, command)?;
        let mut sizes = Vec::new();
        loop {
            sizes.push(batch.events.len());
            for recorded in batch.events {
                let (line, values) = (recorded.event.to_string(), report::values(&recorded.event));
                let execution_id = self.lives[at.0].run.execution_id().to_owned();
                self.timeline.push(Moment { at_ms: now_ms, execution_id, line, values });
                self.lives[at.0].note(recorded);
            }
            if !batch.unfinished {
                break;
            }
            if sizes.len() >= BATCHES_MAX || self.timeline.len() >= EVENTS_MAX {
                let (batches, events, at) = (sizes.len(), self.timeline.len(), report::duration(now_ms));
                let came = format!("{batches} batches at {at}, {events} events in all and no end in sight");
                self.stop(Difference::new("the end", "a command after which the execution comes to rest", came));
                break;
            }
            batch = self.lives[at.0].run.proceed(now_ms);
        }
        let live = &mut self.lives[at.0];
        live.first_batches.get_or_insert(sizes);
        if self.checks == Checks::Engine
            && !self.stopped
            && verify::is_worth_it(live)
            && let Some(fault) = verify::fault(live, now_ms)
        {
            self.stop(fault);
        }
        Ok(answer)
    }

    pub(super) fn newest(&self, id: &str) -> Option<At> {
        self.runs.get(id)?.last().copied()
    }

    /// Starts an execution.
    pub(super) fn start(
        &mut self,
        id: &str,
        definition: &Arc<Definition>,
        input: Payload,
        parent: Option<Parent>,
    ) -> Result<(), Refused> {
        if self.runs.contains_key(id) {
            return Err("EXECUTION_EXISTS".into());
        }
        let at = self.add_run(definition, id);
        let command = Start { parent, ..Start::with_input(input) };
        if let Err(refusal) = self.give(at, command) {
            self.lives.pop();
            return Err(refusal.into());
        }
        self.runs.insert(id.to_owned(), vec![at]);
        self.effects(at);
        Ok(())
    }

    pub(super) fn add_run(&mut self, definition: &Arc<Definition>, id: &str) -> At {
        self.lives.push(Live::new(Run::new(Arc::clone(definition), id)));
        if self.lives.len() > RUNS_MAX {
            let came = format!("{RUNS_MAX} runs and no end in sight");
            self.stop(Difference::new("the end", "executions that end by themselves, or `until`", came));
        }
        At(self.lives.len() - 1)
    }

    /// Gives a command to the newest run of an execution.
    pub(super) fn tell<C: Command>(&mut self, id: &str, command: C) -> Result<C::Answer, Refused> {
        let at = self.newest(id).ok_or("NOT_FOUND")?;
        let answer = self.give(at, command).map_err(Refused::from);
        self.effects(at);
        answer
    }

    /// Undeclared is asked first, then the dedup row, which outlives runs and the end (L7).
    pub(super) fn signal(
        &mut self,
        id: &str,
        name: &str,
        payload: Payload,
        dedup_id: Option<&str>,
    ) -> Result<Accepted, Refused> {
        let at = self.newest(id).ok_or("NOT_FOUND")?;
        let row = dedup_id.map(|dedup_id| (id.to_owned(), name.to_owned(), dedup_id.to_owned()));
        let declared = self.lives[at.0].run.definition().signals.contains_key(name);
        if let Some((first, accepted)) = row.as_ref().filter(|_| declared).and_then(|row| self.dedup.get(row)) {
            return if *first == payload.value() { Ok(*accepted) } else { Err("DEDUP_CONFLICT".into()) };
        }
        let value = payload.value();
        let command = SendSignal { name: name.to_owned(), payload, dedup_id: dedup_id.map(str::to_owned) };
        let accepted = self.tell(id, command)?;
        if let Some(row) = row {
            self.dedup.insert(row, (value, accepted));
        }
        Ok(accepted)
    }
}
