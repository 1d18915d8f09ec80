//! Deciding a recorded history again.
//!
//! The rules are a function of the state alone (L4, L10), so at each place of a history they give exactly the event
//! that stands there — or nothing, where an event came from outside: a start, a hand-over, a result, a signal, a timer.
//! Anything else means that the history is not what these rules wrote: it was changed, or the rules were.
//!
//! What came from outside is taken as it stands; that a worker answered something else, no replay can know.

use crate::decide::{self, Agenda, Facts, Limits, RULES};
use crate::definition::Definition;
use crate::event::{Event, Recorded, Seq};
use crate::state::Execution;

/// A history that the rules decide as it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Events looked at.
    pub events: u64,
    /// Those of them that the rules decided; the others came from outside.
    pub decided: u64,
}

/// The first place at which the rules say something else.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The place, from 1.
    pub seq: Seq,
    /// What the rules decide there; none if they wait for something from outside.
    pub expected: Option<Event>,
    /// What stands there; none if the history ends before.
    pub recorded: Option<Event>,
}

/// Why a history was not decided to its end.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// It is none, or not from its beginning.
    #[error("the history does not begin with WorkflowCreated; take it from its first event on")]
    NoBeginning,
    /// Its events are not numbered one by one.
    #[error("event {found} stands where event {expected} belongs; take all events, in their order")]
    Gap {
        /// The number that belongs there.
        expected: Seq,
        /// The number that stands there.
        found: Seq,
    },
    /// It began under other rules.
    #[error("the history began under rules {0}, this version decides by rules {RULES}; replay it with its own version")]
    Rules(u32),
    /// It is the history of another definition.
    #[error("the history is of the definition {recorded}, this one is {given}; take the definition that it began with")]
    Definition {
        /// The hash that stands in the history.
        recorded: String,
        /// The hash of the definition given.
        given: String,
    },
    /// The rules say something else.
    #[error("event {} is not what the rules decide", .0.seq)]
    Difference(Box<Difference>),
}

/// Decides the history of a run again, event by event, by a walk over everything that is open: so it also shows that
/// the agenda of the node that wrote it forgot nothing, and that its batches might have been cut anywhere. Of a run
/// with many units the walk comes only now and then and an agenda decides in between, so that the time stays in
/// proportion to the history.
///
/// Tokens may be without their random part, as the API shows them: the rules never look at it.
///
/// # Errors
/// The first [`Difference`]; or it is no whole history of this definition under these rules.
pub fn replay(definition: &Definition, execution_id: &str, history: &[Recorded]) -> Result<Replayed, Error> {
    let Some(Event::WorkflowCreated(created)) = history.first().map(|first| &first.event) else {
        return Err(Error::NoBeginning);
    };
    if created.rules != RULES {
        return Err(Error::Rules(created.rules));
    }
    if created.definition_hash != definition.hash {
        let (recorded, given) = (created.definition_hash.clone(), definition.hash.clone());
        return Err(Error::Definition { recorded, given });
    }
    let mut state = Execution::default();
    let mut again = Again { definition, execution_id, agenda: Agenda::default(), since: 0 };
    let mut replayed = Replayed::default();
    for (expected, recorded) in (1..).zip(history) {
        if recorded.seq != expected {
            return Err(Error::Gap { expected, found: recorded.seq });
        }
        // Before, what a start wrote is its own.
        if state.head.started_at_ms.is_some() {
            let decided = again.next(&state, recorded.timestamp_ms);
            replayed.decided += u64::from(follows(decided, recorded)?);
        }
        replayed.events += 1;
        state.evolve(recorded);
        again.note(&state, recorded);
    }
    match decide::next_event(definition, &state, execution_id, state.head.updated_at_ms) {
        None => Ok(replayed),
        more => Err(differs(replayed.events + 1, more, None)),
    }
}

/// One walk over so many units is worth as much as one event.
const UNITS_PER_EVENT: usize = 64;

/// Decides event after event of one history.
struct Again<'a> {
    definition: &'a Definition,
    execution_id: &'a str,
    agenda: Agenda,
    /// Events since the last walk.
    since: usize,
}

impl<'a> Again<'a> {
    fn next(&mut self, state: &Execution, now_ms: u64) -> Option<Event> {
        self.since += 1;
        let by_agenda = self.agenda.next(self.facts(state, now_ms));
        if self.since * UNITS_PER_EVENT < state.units.len() {
            return by_agenda;
        }
        self.since = 0;
        decide::next_event(self.definition, state, self.execution_id, now_ms)
    }

    fn note(&mut self, state: &Execution, recorded: &Recorded) {
        let facts = self.facts(state, recorded.timestamp_ms);
        self.agenda.note(&facts, recorded);
    }

    fn facts<'b>(&self, state: &'b Execution, now_ms: u64) -> Facts<'b>
    where
        'a: 'b,
    {
        let Self { definition, execution_id, .. } = *self;
        Facts { definition, state, execution_id, now_ms, limits: Limits::default() }
    }
}

/// Whether the rules decided this event; if not, it came from outside.
fn follows(decided: Option<Event>, recorded: &Recorded) -> Result<bool, Error> {
    let event = &recorded.event;
    match decided {
        // A batch may be cut, and then something from outside stands before the rest of it.
        _ if is_command(event) => Ok(false),
        None if may_be_command(event) => Ok(false),
        Some(decided) if same(&decided, event) => Ok(true),
        other => Err(differs(recorded.seq, other, Some(event.clone()))),
    }
}

/// Whether two events say the same. Payloads are kept byte for byte, and a file may have been laid out anew since.
fn same(decided: &Event, recorded: &Event) -> bool {
    let json = |event: &Event| {
        let recorded = Recorded { seq: 1, timestamp_ms: 0, event: event.clone() };
        serde_json::from_str::<serde_json::Value>(&recorded.to_json()).ok()
    };
    decided == recorded || json(decided).is_some_and(|decided| json(recorded) == Some(decided))
}

fn differs(seq: Seq, expected: Option<Event>, recorded: Option<Event>) -> Error {
    Error::Difference(Box::new(Difference { seq, expected, recorded }))
}

/// Events that only a command writes.
fn is_command(event: &Event) -> bool {
    matches!(
        event,
        Event::WorkflowCreated(_)
            | Event::WorkflowStarted(_)
            | Event::StepDispatched(_)
            | Event::StaleResultIgnored(_)
            | Event::CancelRequested(_)
            | Event::WorkflowPaused(_)
            | Event::WorkflowResumed(_)
            | Event::WorkflowRedriven(_)
            | Event::WorkflowTimeoutReached(_)
            | Event::TimerFired(_)
            | Event::SignalReceived(_)
    )
}

/// Events that a command or a rule writes.
fn may_be_command(event: &Event) -> bool {
    matches!(event, Event::StepSucceeded(_) | Event::StepAttemptFailed(_) | Event::StepAttemptUncertain(_))
}
