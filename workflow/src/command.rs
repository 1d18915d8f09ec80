//! What can come from outside, and its answers.
//!
//! A [`Run`] takes one command at a time: the command writes its own events, then the rules run to their fixpoint
//! (L10). What follows from one command is one atomic batch, cut after the event that brings it to 1 000 events or
//! 1 MiB ([`Batch::unfinished`]); the rest follows as the next batch before anything else is taken (L12).
//!
//! A refused command has written nothing. If the batch of an accepted one is not committed, the run must be dropped
//! and built again from what is stored: its state is already ahead.

use std::sync::Arc;

use crate::decide::{Agenda, Facts, Limits, Work};
use crate::definition::Definition;
use crate::event::{Event, Recorded, Seq};
use crate::state::{self, Execution, HandOver, ReadRows, RowChange, RowError, RowKind, Table};
use crate::value::Payload;

mod answered;
mod cancel;
mod complete;
mod fail;
mod hand_over;
mod heartbeat;
mod pause;
mod redrive;
mod result;
mod signal;
mod start;
mod timer;
mod token;
mod uncertain;

pub use answered::{Answered, end_of_child, undeliverable, unstartable};
pub use cancel::Cancel;
pub use complete::Complete;
pub use fail::Fail;
pub use hand_over::OfferTaken;
pub use heartbeat::{Heartbeat, HeartbeatAnswer};
pub use pause::{Pause, Resume};
pub use redrive::Redrive;
pub use result::{FirstResult, ResultAnswer};
pub use signal::{Accepted, SendSignal};
pub use start::{CarriedSignal, Start};
pub use timer::{Expire, Expiry, TimeoutDue, TimerDue};
pub use token::{Token, TokenError};
pub use uncertain::Uncertain;

/// Most events of one batch.
pub const BATCH_EVENTS_MAX: usize = 1_000;

/// Most bytes of one batch, as far as payloads count.
pub const BATCH_BYTES_MAX: usize = 1 << 20;

/// One run, ready to take commands.
#[derive(Debug)]
pub struct Run {
    definition: Arc<Definition>,
    execution_id: String,
    state: Execution,
    /// The first result of each hand-over and its answer; a side row, no part of the fold.
    results: Table<FirstResult, Seq>,
    /// What the worker last said about the attempt of a unit; a side row, no part of the fold.
    heartbeats: Table<Payload>,
    agenda: Agenda,
    limits: Limits,
}

/// Why a command was refused; nothing was written.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The run is over.
    #[error("the execution is over or ends; look at its result, or start another one")]
    Finished,
    /// The input breaks the contract.
    #[error("the input breaks the contract: {}", listed(.0))]
    InvalidInput(Vec<crate::contract::ValueFault>),
    /// The unit cannot be handed over now.
    #[error("the unit is not ready to be handed over")]
    NotReady,
    /// The timer is not running or not due.
    #[error("the timer is not due")]
    NotDue,
    /// The hand-over or delivery is not in flight.
    #[error("it is not in flight")]
    NotInFlight,
    /// The document declares no such signal.
    #[error("the workflow declares no signal {name:?}; it has: {declared}")]
    UnknownSignal {
        /// What was sent.
        name: String,
        /// What is declared, for people.
        declared: String,
    },
    /// The payload of a signal breaks its contract.
    #[error("the payload breaks the signal's contract: {}", listed(.0))]
    InvalidSignal(Vec<crate::contract::ValueFault>),
    /// Too many signals wait to be taken.
    #[error("the signal buffer is full; try again later")]
    SignalBufferFull,
    /// Nothing that an operator could move, or not any more.
    #[error("nothing to redrive: {0}")]
    NotRedrivable(&'static str),
    /// Only Orbit gives this code.
    #[error("{0} is one of Orbit's own codes; use one of your own")]
    ReservedCode(String),
}

fn listed(faults: &[crate::contract::ValueFault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Names for people: the first twenty, or that there is none.
#[must_use]
pub fn declared<'a>(names: impl ExactSizeIterator<Item = &'a String>) -> String {
    const SHOWN: usize = 20;
    let count = names.len();
    let shown = names.take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    match count {
        0 => "none".to_owned(),
        1..=SHOWN => shown,
        _ => format!("{shown} and {} more", count - SHOWN),
    }
}

impl Refusal {
    /// The document of an execution declares no signal with this name.
    #[must_use]
    pub fn unknown_signal(definition: &Definition, name: &str) -> Self {
        Self::UnknownSignal { name: name.to_owned(), declared: declared(definition.signals.keys()) }
    }

    /// The public code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Finished => "EXECUTION_FINISHED",
            Self::InvalidInput(_) => "INVALID_INPUT",
            Self::UnknownSignal { .. } => "UNKNOWN_SIGNAL",
            Self::InvalidSignal(_) => "INVALID_SIGNAL",
            Self::SignalBufferFull => "OVERLOADED",
            Self::NotRedrivable(_) => "NOT_REDRIVABLE",
            Self::ReservedCode(_) | Self::NotReady | Self::NotDue | Self::NotInFlight => "INVALID_REQUEST",
        }
    }
}

/// Something from outside.
pub trait Command {
    /// What the caller is told.
    type Answer;

    /// Writes the command's own events.
    ///
    /// # Errors
    /// [`Refusal`]: nothing was written.
    fn decide(self, turn: &mut Turn<'_>) -> Result<Self::Answer, Refusal>;
}

/// Events that are committed together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// In order; may be empty.
    pub events: Vec<Recorded>,
    /// The rules have not come to their fixpoint: [`Run::proceed`] gives the next batch, before anything else.
    pub unfinished: bool,
}

/// One command's turn: what it may look at and write.
#[derive(Debug)]
pub struct Turn<'r> {
    run: &'r mut Run,
    now_ms: u64,
    events: Vec<Recorded>,
    bytes: usize,
}

impl Run {
    /// A run of which nothing has happened yet.
    #[must_use]
    pub fn new(definition: Arc<Definition>, execution_id: impl Into<String>) -> Self {
        Self {
            definition,
            execution_id: execution_id.into(),
            state: Execution::default(),
            results: Table::default(),
            heartbeats: Table::default(),
            agenda: Agenda::default(),
            limits: Limits::default(),
        }
    }

    /// The same with other limits than the usual ones.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// A run as it was stored. `unfinished`: its last batch was cut; [`proceed`](Self::proceed) before anything else.
    #[must_use]
    pub fn stored(
        definition: Arc<Definition>,
        execution_id: impl Into<String>,
        state: Execution,
        results: Table<FirstResult, Seq>,
        unfinished: bool,
    ) -> Self {
        let mut run = Self { state, results, ..Self::new(definition, execution_id) };
        if unfinished {
            let now_ms = run.state.head.updated_at_ms;
            let mut agenda = Agenda::default();
            agenda.add_everything(&run.facts(now_ms));
            run.agenda = agenda;
        }
        run
    }

    /// A run that sleeps in `rows`; `None`: there is none. `unfinished` as for [`stored`](Self::stored).
    ///
    /// # Errors
    /// [`RowError`] when its head cannot be read.
    pub fn asleep(
        definition: Arc<Definition>,
        execution_id: impl Into<String>,
        rows: &Arc<dyn ReadRows>,
        unfinished: bool,
    ) -> Result<Option<Self>, RowError> {
        let Some(state) = Execution::asleep(rows)? else { return Ok(None) };
        let results = state::table(RowKind::FirstResult, rows);
        let mut run = Self::stored(definition, execution_id, state, results, unfinished);
        run.heartbeats = state::table(RowKind::Heartbeat, rows);
        Ok(Some(run))
    }

    /// What is to be stored with the batch: every row that changed since the last call, side rows included.
    pub fn take_changes(&mut self) -> Vec<RowChange> {
        let mut all = self.state.take_changes();
        state::changes(RowKind::FirstResult, &mut self.results, &mut all);
        state::changes(RowKind::Heartbeat, &mut self.heartbeats, &mut all);
        all
    }

    /// Takes one command at `at_ms`, the shard's time.
    ///
    /// # Errors
    /// [`Refusal`]: nothing was written.
    pub fn handle<C: Command>(&mut self, at_ms: u64, command: C) -> Result<(C::Answer, Batch), Refusal> {
        debug_assert!(self.agenda.is_empty(), "a batch of {} was not finished", self.execution_id);
        let mut turn = self.turn(at_ms);
        let answer = command.decide(&mut turn)?;
        Ok((answer, turn.settle()))
    }

    /// The next batch of a command whose batch was cut.
    pub fn proceed(&mut self, at_ms: u64) -> Batch {
        self.turn(at_ms).settle()
    }

    fn turn(&mut self, at_ms: u64) -> Turn<'_> {
        // Time never goes back, whatever the caller says.
        let now_ms = at_ms.max(self.state.head.updated_at_ms);
        Turn { run: self, now_ms, events: Vec::new(), bytes: 0 }
    }

    /// The pinned definition.
    #[must_use]
    pub fn definition(&self) -> &Arc<Definition> {
        &self.definition
    }

    /// The execution's id.
    #[must_use]
    pub fn execution_id(&self) -> &str {
        &self.execution_id
    }

    /// The state after the last event.
    #[must_use]
    pub fn state(&self) -> &Execution {
        &self.state
    }

    /// First results by hand-over: side rows, to be stored with the batch that made them.
    #[must_use]
    pub fn results(&self) -> &Table<FirstResult, Seq> {
        &self.results
    }

    /// Whether a first result was taken in since the last [`take_changes`](Self::take_changes). It must be stored even
    /// if no event follows from it.
    #[must_use]
    pub fn has_new_results(&self) -> bool {
        self.results.is_changed()
    }

    /// Whether details of heartbeats came in since the last [`take_changes`](Self::take_changes).
    #[must_use]
    pub fn has_unwritten_details(&self) -> bool {
        self.heartbeats.is_changed()
    }

    /// What the worker last said about the attempt of `unit`.
    #[must_use]
    pub fn last_heartbeat(&self, unit: &str) -> Option<&Payload> {
        self.heartbeats.get(unit)
    }

    /// Everything that rules look at, at `now_ms`.
    #[must_use]
    pub fn facts(&self, now_ms: u64) -> Facts<'_> {
        Facts {
            definition: &self.definition,
            state: &self.state,
            execution_id: &self.execution_id,
            now_ms,
            limits: self.limits,
        }
    }

    /// What deciding has cost since this run was made or woken.
    #[must_use]
    pub fn work(&self) -> Work {
        self.agenda.work()
    }

    /// The hand-over that `token` names, if it names one of this run.
    #[must_use]
    pub fn hand_over(&self, token: &Token) -> Option<&HandOver> {
        let hand_over = self.state.hand_overs.get(&token.seq)?;
        (hand_over.token == token.to_string()).then_some(hand_over)
    }
}

impl Turn<'_> {
    pub(crate) fn state(&self) -> &Execution {
        &self.run.state
    }

    pub(crate) fn definition(&self) -> &Definition {
        &self.run.definition
    }

    pub(crate) fn limits(&self) -> Limits {
        self.run.limits
    }

    pub(crate) fn emit(&mut self, event: impl Into<Event>) {
        let recorded = self.run.state.append(self.now_ms, event.into());
        let (facts, agenda) = self.facts_and_agenda();
        agenda.note(&facts, &recorded);
        self.bytes += recorded.event.weight();
        self.events.push(recorded);
    }

    fn facts_and_agenda(&mut self) -> (Facts<'_>, &mut Agenda) {
        let Run { definition, execution_id, state, agenda, limits, .. } = &mut *self.run;
        (Facts { definition, state, execution_id, now_ms: self.now_ms, limits: *limits }, agenda)
    }

    /// Decides to the fixpoint, or until the batch is full.
    fn settle(mut self) -> Batch {
        while self.events.len() < BATCH_EVENTS_MAX && self.bytes < BATCH_BYTES_MAX {
            let (facts, agenda) = self.facts_and_agenda();
            match agenda.next(facts) {
                Some(event) => self.emit(event),
                None => return Batch { events: self.events, unfinished: false },
            }
        }
        let unfinished = !self.run.agenda.is_empty();
        Batch { events: self.events, unfinished }
    }
}
