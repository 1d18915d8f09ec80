//! Whether the index tables of a shard say exactly what the states of its runs say: as of one moment, counted anew.
//!
//! A row too few is work that never happens; one too many is work that comes to nothing, again at every start.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use orbit_proto::engine::{ListRow, RunRecord};
use orbit_raft::disk::KeyRange;
use orbit_raft::state_store::read::Reader;
use orbit_raft::{Environment, Group};
use workflow::state::{Execution, ReadRows, RowKind};

use crate::desk::UnitRef;
use crate::error::Result;
use crate::execution::remove::attribute_rows;
use crate::facet::{self, Place};
use crate::failure::of_storage;
use crate::index;
use crate::rows::SomeRows;
use crate::table::{self, Timer, TimerKind};

/// Faults that are listed; the rest is only counted.
const FAULTS_MAX: usize = 100;

type Keys = BTreeSet<Vec<u8>>;

/// Every row that is missing or too many. Reads all of the shard.
pub(crate) fn check<E: Environment>(group: &Group<E>) -> Result<Vec<String>> {
    group.read(|reader| {
        let (mut wanted, mut found) = (Keys::new(), Keys::new());
        for (id, run) in newest_runs(reader)? {
            let state = state(reader, &id, run)?;
            want(&state, &id, run, &mut wanted);
        }
        let mut ranges = vec![table::all_ready(), table::all_timers(), table::all_held()];
        // A store of an older release gets its rows bit by bit.
        if reader.get(&facet::complete()).map_err(of_storage)?.is_some() {
            want_facets(reader, &mut wanted)?;
            ranges.push(facet::everything());
        }
        for range in ranges {
            keys(reader, &range, |key| found.extend([key.to_vec()]))?;
        }
        Ok(differences(&wanted, &found))
    })
}

fn keys(reader: &Reader<'_>, range: &KeyRange, mut visit: impl FnMut(&[u8])) -> Result<()> {
    let scanned = reader.scan(range, |key, _| {
        visit(key);
        ControlFlow::Continue(())
    });
    scanned.map_err(of_storage)
}

fn newest_runs(reader: &Reader<'_>) -> Result<Vec<(Arc<str>, u32)>> {
    let mut ids: Vec<Arc<str>> = Vec::new();
    keys(reader, &table::whole_list(), |key| ids.extend(table::list_parts(key).map(|(_, id)| Arc::from(id))))?;
    let mut runs = Vec::with_capacity(ids.len());
    for id in ids {
        let position = reader.position(id.as_bytes()).map_err(of_storage)?;
        let position = position.ok_or_else(|| of_storage(format!("{id} is listed and has no history")))?;
        runs.push((id, position.run));
    }
    Ok(runs)
}

fn state(reader: &Reader<'_>, id: &str, run: u32) -> Result<Execution> {
    let mut rows = SomeRows::default();
    for kind in [RowKind::Head, RowKind::Unit, RowKind::Timer, RowKind::Closing] {
        rows.take_many(reader, id, run, kind, &[], None, usize::MAX, usize::MAX).map_err(of_storage)?;
    }
    let rows: Arc<dyn ReadRows> = Arc::new(rows);
    Execution::asleep(&rows).map_err(of_storage)?.ok_or_else(|| of_storage(format!("{id} has no head")))
}

/// What must lie in the tables because of a run.
fn want(state: &Execution, id: &Arc<str>, run: u32, wanted: &mut Keys) {
    let unit_ref = |unit: &workflow::key::Key| UnitRef { execution_id: Arc::clone(id), run, unit: unit.clone() };
    for (key, _) in state.units.iter() {
        let indexed = index::indexed(state, key);
        wanted.extend(indexed.ready.map(|(queue, order, _)| table::ready(&queue, &order, &unit_ref(key))));
        wanted.extend(indexed.held.map(|seq| table::held(id, run, seq)));
        wanted.extend(indexed.timer.map(|(due_ms, kind)| Timer { due_ms, kind, unit: unit_ref(key) }.key()));
    }
    for (name, _) in state.timers.iter() {
        let due = index::timer(state, name);
        let timer = |due_ms| Timer { due_ms, kind: TimerKind::Timer, unit: unit_ref(name) };
        wanted.extend(due.map(|due_ms| timer(due_ms).key()));
    }
    let timeout = |due_ms| Timer { due_ms, kind: TimerKind::Run, unit: unit_ref(&workflow::key::Key::root()) };
    wanted.extend(index::run_timeout(state).map(|due_ms| timeout(due_ms).key()));
}

/// By what executions must be found.
fn want_facets(reader: &Reader<'_>, wanted: &mut Keys) -> Result<()> {
    let rows = reader.range(&table::whole_list(), usize::MAX).map_err(of_storage)?;
    for (key, value) in rows {
        let (created_at_ms, id) = table::list_parts(&key).ok_or_else(|| of_storage("a key of the list is damaged"))?;
        let place = Place::new(created_at_ms, id);
        let listed: ListRow = table::decode("list", &value).map_err(of_storage)?;
        let record = reader.get(&table::run(id, listed.run)).map_err(of_storage)?;
        let record: RunRecord = table::decode("runs", &record.unwrap_or_default()).map_err(of_storage)?;
        wanted.extend(facet::rows(&listed, &place));
        wanted.extend(attribute_rows(&record.attributes, &place)?);
    }
    Ok(())
}

fn differences(wanted: &Keys, found: &Keys) -> Vec<String> {
    let missing = wanted.difference(found).map(|key| format!("missing: {}", key.escape_ascii()));
    let too_many = found.difference(wanted).map(|key| format!("too many: {}", key.escape_ascii()));
    let mut faults: Vec<String> = missing.chain(too_many).collect();
    if faults.len() > FAULTS_MAX {
        let more = faults.split_off(FAULTS_MAX).len();
        faults.push(format!("{more} more"));
    }
    faults
}
