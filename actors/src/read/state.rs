//! The state of a run for display.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use orbit_proto::engine::{RunRecord, Status as StoredStatus};
use orbit_raft::disk::KeyRange;
use orbit_raft::state_store::read::Reader;
use orbit_raft::{Environment, Group};
use workflow::definition::Definition;
use workflow::key;
use workflow::state::{Execution, ReadRows, RowKind, RunStatus, Status, Unit};
use workflow::value::{Payload, Value};

use super::ANSWER_BYTES_MAX;
use crate::api::{ErrorSummary, ExecutionState, RunSummary, StatusWord, Summary, UnitPage, UnitState};
use crate::error::{Code, Error, Result};
use crate::execution::loaded::status;
use crate::failure::of_storage;
use crate::rows::SomeRows;
use crate::table;

/// Most units of an answer.
const UNITS_MAX: usize = 1_000;
/// Most bytes of unit rows of an answer; their JSON may be longer than their rows.
const UNIT_BYTES_MAX: usize = ANSWER_BYTES_MAX / 3;
/// Most entries of `waiting_for`.
const WAITING_MAX: usize = 20;
/// Units beyond an answer that are looked at for what a run waits for and what has failed in it.
const LOOKED_AT_MAX: usize = 50_000;
/// Most of those that are told beside the others.
const URGENT_MAX: usize = 200;

/// A run as of one moment: its record, its head and a part of its units.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) run: u32,
    pub(crate) record: RunRecord,
    pub(crate) state: Execution,
    /// By which it is known what an open unit is; where it is absent, waits look like what they are around.
    pub(crate) definition: Option<Arc<Definition>>,
    /// There are further units.
    more: bool,
}

pub(super) fn not_found(id: &str, run: Option<u32>) -> Error {
    let which = run.map_or_else(String::new, |run| format!(" with run {run}"));
    Error::new(Code::NotFound, format!("there is no execution {id}{which}; check the id"))
}

/// Which units are read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Page<'a> {
    /// Those whose keys begin with it.
    pub(crate) prefix: &'a str,
    /// … and come after this one.
    pub(crate) after: Option<&'a str>,
}

/// Reads a run for display: the first of its units and, when there are too many, the first of those that are open or
/// have failed too. Without a number the newest run.
pub(crate) fn load_for_show<E: Environment>(group: &Group<E>, id: &str, run: Option<u32>) -> Result<Seen> {
    let seen = load(group, id, run, Some(Page::default()))?;
    if !seen.more {
        return Ok(seen);
    }
    let mut state = seen.state;
    let (mut after, mut looked_at, mut urgent) = (last_unit(&state), 0, 0);
    while let Some(last) = after.take().filter(|_| looked_at < LOOKED_AT_MAX && urgent < URGENT_MAX) {
        let page = Page { prefix: "", after: Some(&last) };
        let next = load(group, id, Some(seen.run), Some(page))?;
        after = last_unit(&next.state).filter(|_| next.more);
        looked_at += next.state.units.len();
        let matters = |unit: &Unit| !unit.is_resolved() || unit.status == Status::Failed;
        for (key, unit) in next.state.units.iter().filter(|(_, unit)| matters(unit)).take(URGENT_MAX - urgent) {
            urgent += 1;
            state.units.insert(key.clone(), unit.clone());
            if let Some(hand_over) = unit.token.and_then(|seq| Some((seq, next.state.hand_overs.get(&seq)?))) {
                state.hand_overs.insert(hand_over.0, hand_over.1.clone());
            }
            if let Some(timer) = next.state.timers.get(key) {
                state.timers.insert(key.clone(), timer.clone());
            }
        }
    }
    Ok(Seen { state, ..seen })
}

fn last_unit(state: &Execution) -> Option<String> {
    state.units.iter().next_back().map(|(key, _)| key.to_string())
}

/// Reads a run, and a page of its units if one is wanted; without a number the newest run.
pub(crate) fn load<E: Environment>(
    group: &Group<E>,
    id: &str,
    run: Option<u32>,
    page: Option<Page<'_>>,
) -> Result<Seen> {
    let read = group.read(|reader| {
        let Some(position) = reader.position(id.as_bytes())? else { return Ok(None) };
        let run = run.unwrap_or(position.run);
        let Some(record) = reader.get(&table::run(id, run))? else { return Ok(None) };
        let mut rows = SomeRows::default();
        rows.take_one(reader, id, run, RowKind::Head, &[])?;
        let mut more = false;
        if let Some(Page { prefix, after }) = page {
            let (prefix, after) = (prefix.as_bytes(), after.map(str::as_bytes));
            more = rows.take_many(reader, id, run, RowKind::Unit, prefix, after, UNITS_MAX, UNIT_BYTES_MAX)?;
            rows.take_many(reader, id, run, RowKind::Timer, &[], None, UNITS_MAX, UNIT_BYTES_MAX)?;
        }
        Ok(Some((run, record, rows, more)))
    });
    let read: std::result::Result<_, orbit_raft::state_store::Error> = read;
    let (run, record, mut rows, more) = read.map_err(of_storage)?.ok_or_else(|| not_found(id, run))?;
    let units = asleep(rows.clone())?;
    let tokens: Vec<u64> = units.units.iter().filter_map(|(_, unit)| unit.token).collect();
    let taken = group.read(|reader| {
        tokens.iter().try_for_each(|seq| rows.take_one(reader, id, run, RowKind::HandOver, &seq.to_be_bytes()))
    });
    taken.map_err(of_storage)?;
    let state = asleep(rows)?;
    let record = table::decode("runs", &record).map_err(of_storage)?;
    Ok(Seen { run, record, state, definition: None, more })
}

fn asleep(rows: SomeRows) -> Result<Execution> {
    let rows: Arc<dyn ReadRows> = Arc::new(rows);
    let state = Execution::asleep(&rows).map_err(of_storage)?;
    let state = state.ok_or_else(|| of_storage("the head of the run is missing"))?;
    // All of it is read here, so that what cannot be read is an error and not a gap.
    let _ = (state.units.len(), state.timers.len(), state.hand_overs.len());
    rows.failure().map_or(Ok(state), |error| Err(of_storage(error)))
}

/// A status as it stands on the wire.
pub(crate) fn word(status: StoredStatus) -> StatusWord {
    match status {
        StoredStatus::Unspecified | StoredStatus::Running => "RUNNING",
        StoredStatus::Paused => "PAUSED",
        StoredStatus::Completed => "COMPLETED",
        StoredStatus::Failed => "FAILED",
        StoredStatus::Cancelled => "CANCELLED",
        StoredStatus::TimedOut => "TIMED_OUT",
        StoredStatus::Continued => "CONTINUED",
    }
}

/// The word as it is kept here.
pub(crate) fn status_word(text: &str) -> Option<StatusWord> {
    let all = (1..).map_while(|number| StoredStatus::try_from(number).ok()).map(word);
    let mut known = all.filter(|word| word.eq_ignore_ascii_case(text));
    known.next()
}

/// A run in a list.
pub(crate) fn summary(id: &str, seen: &Seen) -> Result<Summary> {
    let Seen { run, record, state, .. } = seen;
    let head = &state.head;
    let attributes = match record.attributes.is_empty() {
        true => BTreeMap::new(),
        false => attributes(&record.attributes)?,
    };
    Ok(Summary {
        execution_id: id.to_owned(),
        run: *run,
        workflow: record.workflow.clone(),
        version: record.version.clone(),
        definition_hash: record.definition_hash.clone(),
        status: word(status(state)),
        attention: head.attention,
        created_at_ms: head.created_at_ms,
        updated_at_ms: head.updated_at_ms,
        finished_at_ms: state.is_over().then_some(head.updated_at_ms),
        attributes,
        schedule_id: record.schedule_id.clone(),
        parent: head.parent.clone(),
        error: error_of(state).map(|error| ErrorSummary { code: error.code.clone(), message: error.message.clone() }),
    })
}

pub(crate) fn attributes(object: &[u8]) -> Result<BTreeMap<String, Value>> {
    let text = std::str::from_utf8(object).map_err(of_storage)?;
    let value = Value::from_json(text).map_err(of_storage)?;
    let entries = value.as_map().into_iter().flatten();
    Ok(entries.map(|(name, value)| (name.to_string(), value.clone())).collect())
}

fn error_of(state: &Execution) -> Option<&workflow::event::TaskError> {
    state.head.error.as_ref().filter(|_| state.head.status == RunStatus::Failed)
}

/// The state of a run.
pub(crate) fn show(id: &str, seen: &Seen, units_total: impl FnOnce() -> Result<u64>) -> Result<ExecutionState> {
    let state = &seen.state;
    let units = unit_states(seen);
    let units_omitted = match seen.more {
        true => Some(units_total()?.saturating_sub(units.len() as u64)),
        false => None,
    };
    let size = |payload: &Option<Payload>| payload.as_ref().map_or(0, Payload::len);
    let (mut input, mut output, mut omitted) = (state.head.input.clone(), state.head.output.clone(), Vec::new());
    let of_units: usize = units.values().map(|unit| size(&unit.output) + 400).sum();
    if of_units + size(&input) + size(&output) > ANSWER_BYTES_MAX {
        omitted.extend(input.take().map(|_| "input"));
    }
    if of_units + size(&output) > ANSWER_BYTES_MAX {
        omitted.extend(output.take().map(|_| "output"));
    }
    let bad_end = state.closings.get(key::ROOT).is_some_and(|closing| closing.reason.is_bad())
        || matches!(state.head.status, RunStatus::Failed | RunStatus::Cancelled | RunStatus::TimedOut);
    Ok(ExecutionState {
        summary: Summary { error: None, ..summary(id, seen)? },
        input,
        output,
        error: error_of(state).cloned(),
        compensation: bad_end.then(|| state.compensation()),
        waiting_for: if state.is_over() { Vec::new() } else { waiting_for(&units) },
        units,
        units_omitted,
        internal_error: None,
        last_seq: state.head.seq,
        omitted,
    })
}

/// What keeps a run from going on, the first few.
fn waiting_for(units: &BTreeMap<String, UnitState>) -> Vec<String> {
    let waits =
        |unit: &&UnitState| matches!(unit.status, "SCHEDULED" | "DISPATCHED" | "RETRY_WAIT" | "WAITING" | "SUSPENDED");
    let waiting = units.iter().filter(|(_, unit)| waits(unit));
    waiting.take(WAITING_MAX).map(|(key, unit)| format!("{key} {}", unit.status)).collect()
}

/// A page of units.
pub(crate) fn units(seen: &Seen) -> UnitPage {
    let units = unit_states(seen);
    let next_cursor = units.keys().next_back().cloned().filter(|_| seen.more);
    UnitPage { units, next_cursor }
}

fn unit_states(seen: &Seen) -> BTreeMap<String, UnitState> {
    let units = seen.state.units.iter();
    units.map(|(key, unit)| (key.to_string(), unit_state(seen, key, unit))).collect()
}

fn unit_state(seen: &Seen, key: &str, unit: &Unit) -> UnitState {
    let state = &seen.state;
    let awaits = unit.status == Status::Open && seen.definition.as_ref().is_some_and(|of| of.awaits(key));
    let dispatched = unit.status == Status::Dispatched;
    let hand_over = unit.token.and_then(|seq| state.hand_overs.get(&seq)).filter(|_| dispatched);
    UnitState {
        status: if awaits { "WAITING" } else { unit_word(unit) },
        attempt: unit.attempt,
        output: unit.output.clone(),
        // One that an operator resolved keeps it, and it is no longer so.
        error: unit.error.clone().filter(|_| unit.status != Status::Succeeded),
        redelivery: unit.redelivery,
        worker_id: hand_over.map(|hand_over| hand_over.worker_id.clone()),
        scheduled_at_ms: unit.work.is_some().then_some(unit.queued_at_ms).filter(|at| *at > 0),
        dispatched_at_ms: dispatched.then_some(unit.at_ms),
        deadline_ms: deadline(state, key, unit),
        wake_at_ms: state.timers.get(key).and_then(|timer| timer.fire_at_ms).filter(|_| !unit.is_resolved()),
        finished_at_ms: unit.finished_at_ms,
        idempotency_key: unit.idempotency_key.clone(),
    }
}

/// When time is up for an attempt that a worker has, or for a unit that has a `deadline`, whichever comes first.
fn deadline(state: &Execution, key: &str, unit: &Unit) -> Option<u64> {
    let dispatched = unit.status == Status::Dispatched;
    let of_attempt = unit.timeout_ms.filter(|_| dispatched).map(|ms| unit.at_ms.saturating_add(ms));
    let timer = state.timers.get(&*format!("{}{key}", key::DEADLINE)).filter(|_| !unit.is_resolved());
    of_attempt.into_iter().chain(timer.and_then(|timer| timer.fire_at_ms)).min()
}

fn unit_word(unit: &Unit) -> StatusWord {
    match unit.status {
        Status::Pending | Status::Redriven | Status::Resolving | Status::Failing => "PENDING",
        Status::Waiting => "WAITING",
        Status::Open => "RUNNING",
        Status::Scheduled | Status::Uncertain => "SCHEDULED",
        Status::Dispatched => "DISPATCHED",
        Status::AttemptFailed | Status::RetryWait => "RETRY_WAIT",
        Status::Suspended => "SUSPENDED",
        Status::Succeeded => "SUCCEEDED",
        Status::Failed => "FAILED",
        Status::Skipped => "SKIPPED",
        Status::Cancelled => "CANCELLED",
    }
}

/// Input or output alone.
pub(crate) fn payload_of<E: Environment>(
    group: &Group<E>,
    id: &str,
    run: Option<u32>,
    which: impl FnOnce(&Execution) -> Option<Payload>,
) -> Result<Payload> {
    Ok(which(&load(group, id, run, None)?.state).unwrap_or_default())
}

/// All runs of an execution, oldest first.
pub(crate) fn runs<E: Environment>(group: &Group<E>, id: &str) -> Result<Vec<RunSummary>> {
    // As of one moment: a run that has gone on has its successor.
    let heads = group.read(|reader| {
        let rows = reader.range(&table::runs(id), usize::MAX)?;
        let head = |run| {
            let mut some = SomeRows::default();
            some.take_one(reader, id, run, RowKind::Head, &[]).map(|()| (run, some))
        };
        rows.iter().filter_map(|(key, _)| table::run_of(key)).map(head).collect()
    });
    let heads: std::result::Result<Vec<_>, orbit_raft::state_store::Error> = heads;
    let heads = heads.map_err(of_storage)?;
    if heads.is_empty() {
        return Err(not_found(id, None));
    }
    let mut runs = Vec::with_capacity(heads.len());
    for (run, some) in heads {
        let state = asleep(some)?;
        runs.push(RunSummary {
            run,
            status: word(status(&state)),
            created_at_ms: state.head.created_at_ms,
            finished_at_ms: state.is_over().then_some(state.head.updated_at_ms),
        });
    }
    Ok(runs)
}

/// The runs of an execution that are over, and when each ended.
pub(crate) fn ended_runs(reader: &Reader<'_>, id: &str) -> Result<Vec<(u32, u64)>> {
    let rows = reader.range(&table::runs(id), usize::MAX).map_err(of_storage)?;
    let mut ended = Vec::new();
    for run in rows.iter().filter_map(|(key, _)| table::run_of(key)) {
        let mut some = SomeRows::default();
        some.take_one(reader, id, run, RowKind::Head, &[]).map_err(of_storage)?;
        let state = asleep(some)?;
        ended.extend(state.is_over().then_some((run, state.head.updated_at_ms)));
    }
    Ok(ended)
}

/// The run that is meant: the newest if none is named.
pub(crate) fn run_number<E: Environment>(group: &Group<E>, id: &str, run: Option<u32>) -> Result<u32> {
    let found = group.read(|reader| {
        let Some(position) = reader.position(id.as_bytes())? else { return Ok(None) };
        let number = run.unwrap_or(position.run);
        // An older one may have been removed.
        Ok(reader.get(&table::run(id, number))?.map(|_| number))
    });
    let found: std::result::Result<_, orbit_raft::state_store::Error> = found;
    found.map_err(of_storage)?.ok_or_else(|| not_found(id, run))
}

/// How many units a run has.
pub(crate) fn units_total<E: Environment>(group: &Group<E>, id: &str, run: u32) -> Result<u64> {
    let range = KeyRange::prefix(&table::run_state(id, run, RowKind::Unit, &[]));
    let mut total = 0;
    let scanned = group.read(|reader| {
        reader.scan(&range, |_, _| {
            total += 1;
            ControlFlow::Continue(())
        })
    });
    scanned.map_err(of_storage)?;
    Ok(total)
}
