//! Applying parts: check, then write. Nothing here knows what the rows mean.

use std::collections::BTreeMap;

use bytes::Bytes;
use orbit_proto::store::{self, precondition::Check, write};
use prost::Message;

use super::key::{self, Table};
use crate::consensus::{Reply, Unreadable, unreadable};
use crate::disk::{Batch, KeyRange, View};
use crate::log_store::key::{decode, encode};
use crate::types::GroupId;

/// The newest format of entries that this version reads. It writes the oldest that says what is meant.
pub const ENTRY_FORMAT: u32 = 2;
/// Entries without numbered rows.
const PLAIN: u32 = 1;
/// Entries with numbered rows: who does not know of them would write them under the wrong keys.
const NUMBERED: u32 = 2;

/// What became of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartOutcome {
    /// All of it was done.
    Applied,
    /// Nothing of it was done: this precondition did not hold. Its proposer reads the state again.
    Unmet {
        /// Which one, counted from 0; the number of preconditions if the run has ended in the meantime.
        precondition: usize,
    },
    /// Nothing of it was done: it asks for what no part may do. Proposing refuses such parts, so this is never seen
    /// unless two versions disagree.
    Malformed(Malformed),
}

/// A part asks for what no part may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// It has events and says not whose.
    #[error("a part with events or a position names its execution and a run from 1 on")]
    NoExecution,
    /// An id holds a zero byte.
    #[error("an execution id holds no zero byte")]
    ZeroInId,
    /// It writes where only applying writes.
    #[error("a row key has at least three bytes and a table that is open to writing")]
    ClosedTable,
    /// A range is empty or goes over more than one table.
    #[error("a range of keys is not empty and lies within one table")]
    BadRange,
    /// A precondition or write says nothing.
    #[error("a precondition or write is empty")]
    Empty,
}

/// Checks what can be checked without the state.
pub fn validate(part: &store::Part) -> Result<(), Malformed> {
    let about_execution = |p: &store::Precondition| matches!(p.check, Some(Check::Position(_) | Check::Absent(_)));
    let needs_execution = !part.events.is_empty() || part.preconditions.iter().any(about_execution);
    if needs_execution && (part.execution_id.is_empty() || part.run == 0) {
        return Err(Malformed::NoExecution);
    }
    if part.execution_id.contains(&0) {
        return Err(Malformed::ZeroInId);
    }
    if part.preconditions.iter().any(|p| p.check.is_none()) {
        return Err(Malformed::Empty);
    }
    part.writes.iter().try_for_each(validate_write)
}

fn validate_write(write: &store::Write) -> Result<(), Malformed> {
    let table = |row_key: &Bytes| key::table_of(row_key).ok_or(Malformed::ClosedTable);
    match write.op.as_ref().ok_or(Malformed::Empty)? {
        write::Op::Put(put) if table(&put.key)?.get() < Table::FIRST_FREE => Err(Malformed::ClosedTable),
        write::Op::Put(_) => Ok(()),
        write::Op::Delete(row_key) if table(row_key)? == Table::GROUP => Err(Malformed::ClosedTable),
        write::Op::Delete(_) => Ok(()),
        write::Op::DeleteRange(range) if table(&range.from)? == Table::GROUP => Err(Malformed::ClosedTable),
        write::Op::DeleteRange(range) => {
            let same = key::table_of(&range.to) == key::table_of(&range.from);
            if same && range.from < range.to { Ok(()) } else { Err(Malformed::BadRange) }
        }
    }
}

/// Entries being applied together: their writes, and how the rows look with these writes on top.
pub(crate) struct Round<'a> {
    group: GroupId,
    view: &'a dyn View,
    batch: Batch,
    /// Rows set or removed by this round.
    rows: BTreeMap<Vec<u8>, Option<Bytes>>,
    /// Ranges removed by this round; a row set after that is in `rows`.
    ranges: Vec<KeyRange>,
    /// Where the next numbered row lies in the log: the index of the entry, and its place there.
    number: (u64, u32),
}

impl<'a> Round<'a> {
    pub(crate) fn new(group: GroupId, view: &'a dyn View) -> Self {
        Round { group, view, batch: Batch::default(), rows: BTreeMap::new(), ranges: Vec::new(), number: (0, 0) }
    }

    pub(crate) fn into_batch(self) -> Batch {
        self.batch
    }

    /// Applies the entry at `index`. An error means that this version cannot know what to do, and must not go on.
    pub(crate) fn apply(&mut self, index: u64, entry: Bytes) -> Result<Reply, super::Error> {
        let entry = store::Entry::decode(entry).map_err(|e| unreadable("entry", e))?;
        if !(PLAIN..=ENTRY_FORMAT).contains(&entry.format) {
            return Err(unreadable("entry", format!("its format is {}", entry.format)).into());
        }
        self.number = (index, 0);
        let outcomes = entry.parts.into_iter().map(|part| self.part(part)).collect::<Result<_, _>>()?;
        Ok(Reply { time_ms: entry.time_ms, outcomes })
    }

    fn part(&mut self, part: store::Part) -> Result<PartOutcome, super::Error> {
        if let Err(malformed) = validate(&part) {
            return Ok(PartOutcome::Malformed(malformed));
        }
        let at = if part.execution_id.is_empty() { None } else { self.position(&part.execution_id)? };
        for (n, precondition) in part.preconditions.iter().enumerate() {
            if !self.holds(precondition, at.as_ref())? {
                return Ok(PartOutcome::Unmet { precondition: n });
            }
        }
        if !part.events.is_empty() {
            let at = at.unwrap_or_default();
            if part.run < at.run {
                return Ok(PartOutcome::Unmet { precondition: part.preconditions.len() });
            }
            let last = if part.run == at.run { at.seq } else { 0 };
            self.events(&part.execution_id, part.run, last, part.events);
        }
        for write in part.writes {
            self.write(write);
        }
        Ok(PartOutcome::Applied)
    }

    fn holds(&self, precondition: &store::Precondition, at: Option<&store::Position>) -> Result<bool, super::Error> {
        Ok(match &precondition.check {
            Some(Check::Position(expected)) => at == Some(expected),
            Some(Check::Absent(_)) => at.is_none(),
            Some(Check::RowEquals(row)) => self.get(&key::full(self.group, &row.key))?.as_ref() == Some(&row.value),
            Some(Check::RowAbsent(row_key)) => self.get(&key::full(self.group, row_key))?.is_none(),
            // `validate` has refused it.
            None => false,
        })
    }

    fn events(&mut self, id: &[u8], run: u32, last: u64, events: Vec<Bytes>) {
        let mut seq = last;
        for event in events {
            seq += 1;
            self.put(key::event(id, run, seq), event);
        }
        self.put(key::position(id), encode(&store::Position { run, seq }));
    }

    fn write(&mut self, write: store::Write) {
        match write.op {
            Some(write::Op::Put(put)) => {
                let mut row_key = put.key.to_vec();
                if put.numbered {
                    let (index, place) = self.number;
                    row_key.extend(index.to_be_bytes());
                    row_key.extend(place.to_be_bytes());
                    self.number.1 += 1;
                }
                self.put(row_key, put.value);
            }
            Some(write::Op::Delete(row_key)) => {
                let key = key::full(self.group, &row_key);
                self.rows.insert(key.clone(), None);
                self.batch.delete(key);
            }
            Some(write::Op::DeleteRange(range)) => {
                let (from, to) = (key::full(self.group, &range.from), key::full(self.group, &range.to));
                let range = KeyRange { from, to };
                self.rows.retain(|key, _| !range.contains(key));
                self.ranges.push(range.clone());
                self.batch.delete_range(range);
            }
            // `validate` has refused it.
            None => {}
        }
    }

    fn put(&mut self, row_key: Vec<u8>, value: Bytes) {
        let key = key::full(self.group, &row_key);
        self.rows.insert(key.clone(), Some(value.clone()));
        self.batch.put(key, value);
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, super::Error> {
        if let Some(value) = self.rows.get(key) {
            return Ok(value.clone());
        }
        if self.ranges.iter().any(|range| range.contains(key)) {
            return Ok(None);
        }
        Ok(self.view.get(key)?)
    }

    fn position(&self, id: &[u8]) -> Result<Option<store::Position>, super::Error> {
        let value = self.get(&key::full(self.group, &key::position(id)))?;
        Ok(value.map(|v| decode("position", v)).transpose()?)
    }
}

/// An entry as it is proposed.
pub(crate) fn encode_entry(time_ms: u64, parts: Vec<store::Part>) -> Bytes {
    let numbered = |write: &store::Write| matches!(&write.op, Some(write::Op::Put(put)) if put.numbered);
    let format = if parts.iter().flat_map(|part| &part.writes).any(numbered) { NUMBERED } else { PLAIN };
    store::Entry { format, time_ms, parts }.encode_to_vec().into()
}

impl From<Unreadable> for super::Error {
    fn from(error: Unreadable) -> Self {
        super::Error::Unreadable(error)
    }
}
