//! One run: its history is whole, its rows are the fold of it, and it waits for something.

use std::ops::ControlFlow;
use std::sync::Arc;

use orbit_proto::engine::RunRecord;
use orbit_raft::Environment;
use orbit_raft::state_store::key;
use orbit_raft::state_store::read::Reader;
use workflow::decide::{self, RULES};
use workflow::definition::Definition;
use workflow::event::Event;
use workflow::state::{Execution, ReadRows, RowKind, Status};

use super::awaited::{self, Awaited};
use super::{At, Findings, Rule};
use crate::definitions::Definitions;
use crate::error::Result;
use crate::failure::of_storage;
use crate::history;
use crate::rows::SomeRows;
use crate::table;

/// Rows of a run that are told to differ.
const ROWS_MAX: usize = 5;
/// All rows that the history adds up to.
const FOLDED: [RowKind; 10] = [
    RowKind::Head,
    RowKind::Unit,
    RowKind::Item,
    RowKind::Timer,
    RowKind::Closing,
    RowKind::UndoList,
    RowKind::Undo,
    RowKind::Handler,
    RowKind::HandOver,
    RowKind::Signal,
];

/// What a look at a run gave.
#[derive(Debug, Default)]
pub(super) struct Looked {
    /// The fold of its history, if that is whole, and what it was created with.
    pub(super) state: Option<(Execution, RunRecord)>,
    pub(super) events: u64,
    /// Its units that wait for another execution.
    pub(super) awaited: Vec<Awaited>,
}

/// Looks at a run; `seq` is the end of the newest one's history, as its position says.
pub(super) fn look<E: Environment>(
    reader: &Reader<'_>,
    definitions: &Definitions<E>,
    id: &Arc<str>,
    run: u32,
    seq: Option<u64>,
    findings: &mut Findings,
) -> Result<Looked> {
    let at = At::run(id, run);
    let mut looked = Looked::default();
    let Folded { state, rules } = match fold(reader, id, run, &mut looked.events)? {
        Ok(folded) => folded,
        Err((place, found, expected)) => {
            findings.add(Rule::History, at, place, found, expected);
            return Ok(looked);
        }
    };
    let last = state.head.seq;
    if seq.is_some_and(|seq| seq != last) {
        let seq = seq.unwrap_or_default();
        findings.add(Rule::History, at, "position", format!("event {seq} is the last"), format!("event {last}"));
    }
    if state.head.run != run {
        findings.add(Rule::History, at, "event 1", format!("it begins run {}", state.head.run), format!("run {run}"));
    }
    compare(reader, at, (id, run), &state, findings)?;
    let record = reader.get(&table::run(id, run)).map_err(of_storage)?.unwrap_or_default();
    let record: RunRecord = match table::decode("runs", &record) {
        Ok(record) => record,
        Err(error) => {
            findings.add(Rule::Fold, at, "record of the run", error, "a record that can be read");
            return Ok(looked);
        }
    };
    // What of a cut batch is missing follows later: until then nothing need add up.
    let cut = reader.get(&table::unfinished(id, run)).map_err(of_storage)?.is_some();
    if !cut && seq.is_some() {
        for fault in state.check() {
            findings.add(Rule::State, at, "state", fault, "a state that agrees with itself");
        }
        let definition = definitions.by_hash(&record.definition_hash)?.filter(|_| rules == RULES);
        waits(id, at, &state, definition.as_deref(), findings);
        looked.awaited = awaited::of(reader, id, run, &state)?;
    }
    looked.state = Some((state, record));
    Ok(looked)
}

struct Folded {
    state: Execution,
    /// By which it is decided.
    rules: u32,
}

/// Place, found, expected.
type Fault = (String, String, String);

/// Folds the history of a run, event by event.
fn fold(reader: &Reader<'_>, id: &str, run: u32, events: &mut u64) -> Result<std::result::Result<Folded, Fault>> {
    let (mut state, mut rules, mut fault) = (Execution::default(), 0, None);
    let scanned = reader.scan(&key::events(id.as_bytes(), run), |key, value| {
        let found = key.last_chunk::<8>().map_or(0, |seq| u64::from_be_bytes(*seq));
        let expected = *events + 1;
        if found != expected {
            fault = Some((format!("event {expected}"), format!("event {found} follows"), "no gap".to_owned()));
            return ControlFlow::Break(());
        }
        match history::decode(found, value) {
            Ok(recorded) => {
                if let Event::WorkflowCreated(created) = &recorded.event {
                    rules = created.rules;
                }
                state.evolve(&recorded);
                *events += 1;
                ControlFlow::Continue(())
            }
            Err(error) => {
                fault = Some((format!("event {found}"), error.to_string(), "an event that can be read".to_owned()));
                ControlFlow::Break(())
            }
        }
    });
    scanned.map_err(of_storage)?;
    state.forget_changes();
    if fault.is_none() && rules == 0 {
        fault = Some(("event 1".to_owned(), "no WorkflowCreated".to_owned(), "the beginning of a run".to_owned()));
    }
    Ok(fault.map_or(Ok(Folded { state, rules }), Err))
}

/// Holds the rows against the fold.
fn compare(
    reader: &Reader<'_>,
    at: At<'_>,
    (id, run): (&str, u32),
    folded: &Execution,
    findings: &mut Findings,
) -> Result<()> {
    let mut rows = SomeRows::default();
    for kind in FOLDED {
        rows.take_many(reader, id, run, kind, &[], None, usize::MAX, usize::MAX).map_err(of_storage)?;
    }
    let rows: Arc<dyn ReadRows> = Arc::new(rows);
    let stored = match Execution::asleep(&rows) {
        Ok(Some(stored)) => stored,
        Ok(None) => {
            findings.add(Rule::Fold, at, "head", "nothing", "the head of the run");
            return Ok(());
        }
        Err(error) => {
            findings.add(Rule::Fold, at, "head", error, "a head that can be read");
            return Ok(());
        }
    };
    let differences = stored.differences(folded, ROWS_MAX);
    if let Some(error) = rows.failure() {
        findings.add(Rule::Fold, at, "rows", error, "rows that can be read");
        return Ok(());
    }
    for one in differences {
        let row = match one.key.is_empty() {
            true => format!("{:?}", one.kind),
            false => format!("{:?} {}", one.kind, one.key),
        };
        let text = |side: Option<String>| side.unwrap_or_else(|| "no such row".to_owned());
        findings.add(Rule::Fold, at, row, text(one.first), text(one.second));
    }
    Ok(())
}

/// Whatever runs waits for something: nothing is left to decide, and something is under way (invariants, *every
/// running execution has a pending cause*). Nothing can be said without the definition, or for other rules.
fn waits(id: &str, at: At<'_>, state: &Execution, definition: Option<&Definition>, findings: &mut Findings) {
    let Some(definition) = definition.filter(|_| !state.is_over() && !state.head.paused) else { return };
    if let Some(event) = decide::next_event(definition, state, id, state.head.updated_at_ms) {
        let expected = format!("{event}, which the rules decide");
        findings.add(Rule::Cause, at, "history", format!("it ends with event {}", state.head.seq), expected);
        return;
    }
    let timer = state.timers.iter().any(|(_, timer)| timer.fire_at_ms.is_some());
    let unit = |key: &str, status| match status {
        Status::Scheduled | Status::Dispatched | Status::Suspended => true,
        Status::Open => definition.awaits(key),
        _ => false,
    };
    if !timer && !state.units.iter().any(|(key, one)| unit(key, one.status)) {
        let expected = "a task, a timer, a child, a signal or an operator that it waits for";
        findings.add(Rule::Cause, at, "units", "it runs, and nothing will ever happen to it", expected);
    }
}
