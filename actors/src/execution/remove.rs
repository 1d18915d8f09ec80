//! Removing what is over: by a caller, or because its retention has passed.
//!
//! One part, with the position of the history as its precondition: what goes is what was looked at, all of it or
//! nothing. It is decided by the execution itself, so nothing else happens to it meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use bytes::Bytes;
use orbit_proto::engine::RunRecord;
use orbit_proto::store::{KeyRange as RangeOf, write};
use orbit_raft::disk::KeyRange;
use orbit_raft::state_store::key;
use orbit_raft::state_store::read::Reader;
use orbit_raft::{Environment, Write};

use super::Life;
use super::ask::Removal;
use super::decide::not_found;
use super::loaded::list_row;
use super::turn::Turn;
use crate::error::{Code, Error, Result};
use crate::facet::{self, Place};
use crate::failure::of_storage;
use crate::read::attributes;
use crate::table;

/// More rows than this in one range are removed as a range: an entry stays small, and ranges that are removed stay few.
const ONE_BY_ONE_MAX: usize = 256;

impl<E: Environment> Life<E> {
    /// Removes the execution or a run of it; tells whether anything went.
    pub(super) fn remove(&mut self, turn: &mut Turn, what: &Removal) -> Result<bool> {
        let Some(loaded) = self.load()? else {
            return if *what == Removal::Execution { Err(not_found(&self.id)) } else { Ok(false) };
        };
        let (state, newest) = (loaded.run.state(), loaded.number);
        let is_over = state.is_over() && !loaded.unfinished;
        let ended_at_ms = state.head.updated_at_ms;
        let is_all = match what {
            Removal::Execution if !is_over => {
                let message = format!("execution {} is not over; cancel it first", self.id);
                return Err(Error::new(Code::ExecutionRunning, message));
            }
            Removal::Execution => true,
            Removal::Run { run, ended_at_ms: wanted } if *run == newest => {
                // It has been redriven, or the id belongs to another execution by now.
                if !is_over || ended_at_ms != *wanted {
                    return Ok(false);
                }
                true
            }
            Removal::Run { run, ended_at_ms } => {
                let older = if *run < newest { self.older(*run)? } else { None };
                if older.is_none_or(|run| run.state().head.updated_at_ms != *ended_at_ms) {
                    return Ok(false);
                }
                false
            }
        };
        let writes = match what {
            Removal::Run { run, .. } if !is_all => self.rows_of_run(*run)?,
            _ => self.all_rows()?,
        };
        let expected = self.loaded.as_ref().map(|loaded| loaded.expected);
        turn.parts.extend(expected.map(|expected| self.part(newest, expected, Vec::new(), writes)));
        if is_all {
            self.loaded = None;
            self.started = None;
            turn.effects.over = true;
        }
        Ok(true)
    }

    fn rows_of_run(&self, run: u32) -> Result<Vec<Write>> {
        let ranges = [key::events(self.id.as_bytes(), run), table::run_states_of(&self.id, run)];
        let mut writes = self.context.group.read(|reader| emptied(reader, &ranges))?;
        writes.push(table::delete(table::run(&self.id, run)));
        Ok(writes)
    }

    fn all_rows(&mut self) -> Result<Vec<Write>> {
        self.know_attributes()?;
        let id = &self.id;
        let ranges = [key::all_events(id.as_bytes()), table::run_states(id), table::runs(id), table::signals(id)];
        let mut writes = self.context.group.read(|reader| emptied(reader, &ranges))?;
        let Some(loaded) = &self.loaded else { return Ok(writes) };
        let place = Place::new(loaded.run.state().head.first_created_at_ms, id);
        let facets = facet::rows(&list_row(&loaded.run), &place);
        writes.extend(facets.into_iter().chain(loaded.attributes.clone().unwrap_or_default()).map(table::delete));
        writes.push(table::delete(table::list(place.created_at_ms(), id)));
        writes.push(table::delete(table::start(id)));
        writes.push(table::delete(key::position(id.as_bytes())));
        Ok(writes)
    }

    /// Reads what attributes the newest run was created with, if that is not known.
    pub(super) fn know_attributes(&mut self) -> Result<()> {
        let Some(loaded) = self.loaded.as_mut().filter(|loaded| loaded.attributes.is_none()) else { return Ok(()) };
        let row = table::run(&self.id, loaded.number);
        let row = self.context.group.read(|reader| reader.get(&row)).map_err(of_storage)?;
        let record: RunRecord = match row {
            Some(row) => table::decode("runs", &row).map_err(of_storage)?,
            None => RunRecord::default(),
        };
        let place = Place::new(loaded.run.state().head.first_created_at_ms, &self.id);
        loaded.attributes = Some(attribute_rows(&record.attributes, &place)?);
        Ok(())
    }
}

/// The rows of the attributes that a run was created with.
pub(crate) fn attribute_rows(record: &Bytes, place: &Place) -> Result<BTreeSet<Vec<u8>>> {
    let attributes = if record.is_empty() { BTreeMap::new() } else { attributes(record)? };
    Ok(facet::attribute_rows(&attributes, place))
}

fn emptied(reader: &Reader<'_>, ranges: &[KeyRange]) -> Result<Vec<Write>> {
    let mut writes = Vec::new();
    for range in ranges {
        let mut keys = Vec::new();
        let scanned = reader.scan(range, |key, _| {
            keys.push(key.to_vec());
            if keys.len() <= ONE_BY_ONE_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        scanned.map_err(of_storage)?;
        if keys.len() <= ONE_BY_ONE_MAX {
            writes.extend(keys.into_iter().map(table::delete));
        } else {
            let range = RangeOf { from: range.from.clone().into(), to: range.to.clone().into() };
            writes.push(Write { op: Some(write::Op::DeleteRange(range)) });
        }
    }
    Ok(writes)
}
