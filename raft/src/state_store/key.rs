//! The keys of the state database, byte by byte.
//!
//! ```text
//!   ordered by time or the like    group u16 │ table u8 │ namespace u16 = 0 │ …
//!   spread by id                   group u16 │ table u8 │ namespace u16 = 0 │ slot u16 │ id │ 0x00 │ …
//! ```
//!
//! All numbers are big-endian. The slot is XXH3-64 of the id modulo 4096: it says which shard an id lives on, and
//! because it comes before the id, the rows of a slot lie together and can be moved together. Ids hold no zero byte,
//! so the zero behind one ends it and no id is the beginning of another.
//!
//! What the layer above reads and writes is everything behind the group: a *row key*.

use crate::disk::KeyRange;
use crate::types::GroupId;

/// How many slots ids are spread over.
pub const SLOTS: u16 = 4096;

/// What kind of rows a key belongs to; the first byte of a row key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Table(u8);

impl Table {
    /// What the group keeps about itself. Closed to the layer above.
    pub const GROUP: Table = Table(0);
    /// How far the history of each execution goes. Set by applying events only; may be deleted.
    pub const POSITION: Table = Table(1);
    /// The events. Set by applying events only; may be deleted.
    pub const HISTORY: Table = Table(2);
    /// The first number that is free for the layer above.
    pub const FIRST_FREE: u8 = 3;

    /// A table of the layer above. `None` for the numbers kept here.
    pub const fn new(number: u8) -> Option<Table> {
        if number < Self::FIRST_FREE { None } else { Some(Table(number)) }
    }

    /// The number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// The slot of an id.
pub fn slot_of(id: &[u8]) -> u16 {
    let slots = u64::from(SLOTS);
    // A remainder of 4096 fits.
    (xxhash_rust::xxh3::xxh3_64(id) % slots) as u16
}

/// A row key in a table that is ordered by what follows, say by time.
pub fn ordered(table: Table, rest: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(3 + rest.len());
    key.extend([table.0, 0, 0]);
    key.extend(rest);
    key
}

/// A row key in a table that is spread by id.
pub fn hashed(table: Table, id: &[u8], rest: &[u8]) -> Vec<u8> {
    debug_assert!(!id.contains(&0), "an id holds no zero byte");
    let mut key = Vec::with_capacity(6 + id.len() + rest.len());
    key.extend([table.0, 0, 0]);
    key.extend(slot_of(id).to_be_bytes());
    key.extend(id);
    key.push(0);
    key.extend(rest);
    key
}

/// The row key of an event.
pub fn event(id: &[u8], run: u32, seq: u64) -> Vec<u8> {
    let mut rest = run.to_be_bytes().to_vec();
    rest.extend(seq.to_be_bytes());
    hashed(Table::HISTORY, id, &rest)
}

/// The row keys of all events of a run.
pub fn events(id: &[u8], run: u32) -> KeyRange {
    KeyRange::prefix(&hashed(Table::HISTORY, id, &run.to_be_bytes()))
}

/// The row keys of all events of an execution.
pub fn all_events(id: &[u8]) -> KeyRange {
    KeyRange::prefix(&hashed(Table::HISTORY, id, &[]))
}

/// The row key of the position of an execution.
pub fn position(id: &[u8]) -> Vec<u8> {
    hashed(Table::POSITION, id, &[])
}

/// The table of a row key, if it is long enough to be one.
pub(crate) fn table_of(row_key: &[u8]) -> Option<Table> {
    (row_key.len() >= 3).then(|| Table(row_key[0]))
}

/// A row key with its group before it, as it is on disk.
pub(crate) fn full(group: GroupId, row_key: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(2 + row_key.len());
    key.extend(group.get().to_be_bytes());
    key.extend(row_key);
    key
}

/// All rows of a group.
pub(crate) fn group(group: GroupId) -> KeyRange {
    KeyRange::prefix(&group.get().to_be_bytes())
}

/// How far a group is applied.
pub(crate) fn applied(group: GroupId) -> Vec<u8> {
    full(group, &ordered(Table::GROUP, b"applied"))
}

/// Which snapshot the rows came from. Not part of what replicas compare.
pub(crate) fn installed(group: GroupId) -> Vec<u8> {
    full(group, &ordered(Table::GROUP, b"installed"))
}

/// The incarnation known of a peer.
pub(crate) fn peer(node: u64) -> Vec<u8> {
    full(GroupId::NODE, &ordered(Table::GROUP, &[b"peer".as_slice(), &node.to_be_bytes()].concat()))
}

/// The incarnations of all peers.
pub(crate) fn peers() -> KeyRange {
    KeyRange::prefix(&full(GroupId::NODE, &ordered(Table::GROUP, b"peer")))
}

/// Whose data the database holds.
pub(crate) fn identity() -> Vec<u8> {
    full(GroupId::NODE, &ordered(Table::GROUP, b"identity"))
}
