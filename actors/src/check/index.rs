//! The index tables of a shard hold exactly what follows from the states of its executions.
//!
//! Every row that must be there is looked up; as all of them are different, a table that has as many rows as were found
//! this way has no other ones. Only where it has more, its rows are gone through one by one to name those that belong
//! to nothing: so nothing need be remembered of a shard but a few numbers.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use orbit_proto::engine::{HeldRow, ListRow, ReadyRow, RunRecord};
use orbit_raft::disk::KeyRange;
use orbit_raft::state_store::read::Reader;
use workflow::key::Key;
use workflow::state::{Execution, ReadRows, RowKind};

use super::{At, Findings, Rule};
use crate::desk::UnitRef;
use crate::error::Result;
use crate::execution::loaded::status;
use crate::execution::remove::attribute_rows;
use crate::facet::{self, Place};
use crate::failure::of_storage;
use crate::index;
use crate::rows::SomeRows;
use crate::table::{self, Timer, TimerKind};

/// How many tables there are.
pub(super) const TABLES: usize = 5;
const READY: usize = 0;
const TIMERS: usize = 1;
const HELD: usize = 2;
const LIST: usize = 3;
const FACETS: usize = 4;

const RULES: [Rule; TABLES] = [Rule::Ready, Rule::Timers, Rule::Held, Rule::List, Rule::List];

/// Rows of a piece that are counted.
const COUNTED: usize = 20_000;
/// … that are held against the state of their execution.
const NAMED: usize = 100;
/// Rows of a table that are named before the rest is only counted.
const NAMED_MAX: u64 = 20;

/// A row that must be there: its table, its key, and its value if that is told by the state alone.
struct Wanted {
    table: usize,
    key: Vec<u8>,
    value: Value,
}

enum Value {
    Any,
    Attempt(u32),
    HandOver(String, String),
    Listed(ListRow),
}

/// What is known of the tables so far.
#[derive(Debug, Default)]
pub(super) struct Indexes {
    /// Rows that must be there and are.
    present: [u64; TABLES],
    /// Rows that are there.
    found: [u64; TABLES],
    /// Of the table at hand the rows are gone through one by one, and so many were named.
    named: Option<u64>,
    /// What must be there because of the execution looked at last.
    last: Option<(String, BTreeSet<Vec<u8>>)>,
}

impl Indexes {
    /// Notes what must be there because of the newest run of an execution, and whether it is.
    pub(super) fn want(
        &mut self,
        reader: &Reader<'_>,
        id: &Arc<str>,
        state: &Execution,
        record: &RunRecord,
        findings: &mut Findings,
    ) -> Result<()> {
        let at = At::run(id, state.head.run);
        for Wanted { table, key, value } in wanted(id, state, record, is_searchable(reader)?)? {
            let place = || format!("{} {}", name(table), key.escape_ascii());
            match reader.get(&key).map_err(of_storage)? {
                None => findings.add(RULES[table], at, place(), "no row", "a row, because of the state of the run"),
                Some(row) => {
                    self.present[table] += 1;
                    if let Some((found, expected)) = value.difference(&row) {
                        findings.add(RULES[table], at, place(), found, expected);
                    }
                }
            }
        }
        Ok(())
    }

    /// Looks at some rows of a table; returns where to go on.
    pub(super) fn some_rows(
        &mut self,
        reader: &Reader<'_>,
        table: usize,
        from: Vec<u8>,
        findings: &mut Findings,
    ) -> Result<Option<Vec<u8>>> {
        let mut range = range(table);
        // A store of an older release gets its rows bit by bit.
        if table == FACETS && !is_searchable(reader)? {
            return Ok(None);
        }
        let first = range.from.clone();
        range.from = range.from.max(from);
        let next = match self.named {
            None => self.count(reader, table, &range)?,
            Some(_) => self.name(reader, table, &range, findings)?,
        };
        if next.is_some() {
            return Ok(next);
        }
        let more = self.found[table].saturating_sub(self.present[table]);
        match self.named.take() {
            None if more > 0 => {
                self.named = Some(0);
                Ok(Some(first))
            }
            Some(named) => {
                findings.count(more.saturating_sub(named));
                Ok(None)
            }
            None => Ok(None),
        }
    }

    fn count(&mut self, reader: &Reader<'_>, table: usize, range: &KeyRange) -> Result<Option<Vec<u8>>> {
        let (mut count, mut next) = (0, None);
        let scanned = reader.scan(range, |key, _| {
            if count == COUNTED {
                next = Some(key.to_vec());
                return ControlFlow::Break(());
            }
            count += 1;
            ControlFlow::Continue(())
        });
        scanned.map_err(of_storage)?;
        self.found[table] += count as u64;
        Ok(next)
    }

    fn name(
        &mut self,
        reader: &Reader<'_>,
        table: usize,
        range: &KeyRange,
        findings: &mut Findings,
    ) -> Result<Option<Vec<u8>>> {
        let rows = reader.range(range, NAMED + 1).map_err(of_storage)?;
        let next = rows.get(NAMED).map(|(key, _)| key.to_vec());
        for (key, _) in rows.iter().take(NAMED) {
            let id = execution_of(table, key);
            if self.is_wanted(reader, id.as_deref(), key)? {
                continue;
            }
            let place = format!("{} {}", name(table), key.escape_ascii());
            let at = id.as_deref().map_or(At::SHARD, At::id);
            findings.add(RULES[table], at, place, "a row", "no row, because of the state of the execution");
            let named = self.named.unwrap_or_default() + 1;
            self.named = Some(named);
            if named >= NAMED_MAX {
                return Ok(None);
            }
        }
        Ok(next)
    }

    fn is_wanted(&mut self, reader: &Reader<'_>, id: Option<&str>, key: &[u8]) -> Result<bool> {
        let Some(id) = id else { return Ok(false) };
        if self.last.as_ref().is_none_or(|(last, _)| last != id) {
            self.last = Some((id.to_owned(), wanted_now(reader, id)?));
        }
        Ok(self.last.as_ref().is_some_and(|(_, wanted)| wanted.contains(key)))
    }
}

/// Whether every execution of the shard has the rows that it is searched by.
fn is_searchable(reader: &Reader<'_>) -> Result<bool> {
    Ok(reader.get(&facet::complete()).map_err(of_storage)?.is_some())
}

fn name(table: usize) -> &'static str {
    ["ready", "timer", "held", "list", "facet"][table]
}

fn range(table: usize) -> KeyRange {
    match table {
        READY => table::all_ready(),
        TIMERS => table::all_timers(),
        HELD => table::all_held(),
        LIST => table::whole_list(),
        _ => facet::everything(),
    }
}

fn execution_of(table: usize, key: &[u8]) -> Option<String> {
    match table {
        READY => table::ready_parts(key).map(|(_, _, unit)| unit.execution_id.to_string()),
        TIMERS => Timer::from_key(key).map(|timer| timer.unit.execution_id.to_string()),
        HELD => table::held_id(key).map(str::to_owned),
        LIST => table::list_parts(key).map(|(_, id)| id.to_owned()),
        _ => facet::execution_of(key),
    }
}

/// What must be there because of an execution, as its rows stand.
fn wanted_now(reader: &Reader<'_>, id: &str) -> Result<BTreeSet<Vec<u8>>> {
    // What cannot be read is a finding of its own.
    let Ok(Some(position)) = reader.position(id.as_bytes()) else { return Ok(BTreeSet::new()) };
    let mut rows = SomeRows::default();
    for kind in [RowKind::Head, RowKind::Unit, RowKind::Timer, RowKind::Closing, RowKind::HandOver] {
        rows.take_many(reader, id, position.run, kind, &[], None, usize::MAX, usize::MAX).map_err(of_storage)?;
    }
    let rows: Arc<dyn ReadRows> = Arc::new(rows);
    let record = reader.get(&table::run(id, position.run)).map_err(of_storage)?.unwrap_or_default();
    let (Ok(Some(state)), Ok(record)) = (Execution::asleep(&rows), table::decode("runs", &record)) else {
        return Ok(BTreeSet::new());
    };
    Ok(wanted(&Arc::from(id), &state, &record, true)?.into_iter().map(|row| row.key).collect())
}

fn wanted(id: &Arc<str>, state: &Execution, record: &RunRecord, searchable: bool) -> Result<Vec<Wanted>> {
    let run = state.head.run;
    let unit_ref = |unit: &Key| UnitRef { execution_id: Arc::clone(id), run, unit: unit.clone() };
    let mut rows = Vec::new();
    let mut push = |table, key, value| rows.push(Wanted { table, key, value });
    for (key, _) in state.units.iter() {
        let indexed = index::indexed(state, key);
        if let Some((queue, order, attempt)) = indexed.ready {
            push(READY, table::ready(&queue, &order, &unit_ref(key)), Value::Attempt(attempt));
        }
        if let Some(seq) = indexed.held {
            let token = state.hand_overs.get(&seq).map(|hand_over| hand_over.token.clone()).unwrap_or_default();
            push(HELD, table::held(id, run, seq), Value::HandOver(key.to_string(), token));
        }
        if let Some((due_ms, kind)) = indexed.timer {
            push(TIMERS, Timer { due_ms, kind, unit: unit_ref(key) }.key(), Value::Any);
        }
    }
    for (name, _) in state.timers.iter() {
        if let Some(due_ms) = index::timer(state, name) {
            push(TIMERS, Timer { due_ms, kind: TimerKind::Timer, unit: unit_ref(name) }.key(), Value::Any);
        }
    }
    if let Some(due_ms) = index::run_timeout(state) {
        push(TIMERS, Timer { due_ms, kind: TimerKind::Run, unit: unit_ref(&Key::root()) }.key(), Value::Any);
    }
    let place = Place::new(state.head.first_created_at_ms, id);
    let listed = ListRow {
        run,
        status: status(state).into(),
        workflow: record.workflow.clone(),
        version: record.version.clone(),
        attention: state.head.attention,
    };
    let facets = if searchable { facet::rows(&listed, &place) } else { BTreeSet::new() };
    let attributes = if searchable { attribute_rows(&record.attributes, &place)? } else { BTreeSet::new() };
    facets.into_iter().chain(attributes).for_each(|key| push(FACETS, key, Value::Any));
    push(LIST, table::list(place.created_at_ms(), id), Value::Listed(listed));
    Ok(rows)
}

impl Value {
    /// What a row says and what it must say, if that is not the same.
    fn difference(&self, row: &[u8]) -> Option<(String, String)> {
        let unreadable = |error: table::Unreadable| Some((error.to_string(), "a row that can be read".to_owned()));
        match self {
            Self::Any => None,
            Self::Attempt(attempt) => match table::decode::<ReadyRow>("queues", row) {
                Ok(found) if found.attempt == *attempt => None,
                Ok(found) => Some((format!("attempt {}", found.attempt), format!("attempt {attempt}"))),
                Err(error) => unreadable(error),
            },
            Self::HandOver(unit, token) => match table::decode::<HeldRow>("hand-overs", row) {
                Ok(found) if (&found.unit, &found.token) == (unit, token) => None,
                Ok(found) => Some((format!("a hand-over of {}", found.unit), format!("the one of {unit}"))),
                Err(error) => unreadable(error),
            },
            Self::Listed(listed) => match table::decode::<ListRow>("list", row) {
                Ok(found) if found == *listed => None,
                Ok(found) => Some((format!("{found:?}"), format!("{listed:?}"))),
                Err(error) => unreadable(error),
            },
        }
    }
}
