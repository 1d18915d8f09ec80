//! The keys and values of the log database, byte by byte.
//!
//! ```text
//!   key    group u16 │ 0x00 │ name u8          a mark: 1 vote, 2 committed, 3 purged
//!   key    group u16 │ 0x01 │ index u64        an entry
//!   value  format u8 = 1 │ protobuf
//! ```
//!
//! All numbers are big-endian, so that the rows of a group lie together and its entries in order.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;

use crate::consensus::{Unreadable, unreadable};
use crate::disk::KeyRange;
use crate::types::GroupId;

/// The format of all values of today.
pub(crate) const FORMAT: u8 = 1;

/// What a group keeps beside its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Vote = 1,
    Committed = 2,
    Purged = 3,
}

pub(crate) fn mark(group: GroupId, mark: Mark) -> Vec<u8> {
    let mut key = group.get().to_be_bytes().to_vec();
    key.extend([0, mark as u8]);
    key
}

pub(crate) fn entry(group: GroupId, index: u64) -> Vec<u8> {
    let mut key = Vec::with_capacity(11);
    key.extend(group.get().to_be_bytes());
    key.push(1);
    key.extend(index.to_be_bytes());
    key
}

/// The entries with `from <= index < to`.
pub(crate) fn entries(group: GroupId, from: u64, to: u64) -> KeyRange {
    KeyRange { from: entry(group, from), to: entry(group, to) }
}

/// All entries of a group.
pub(crate) fn all_entries(group: GroupId) -> KeyRange {
    let mut prefix = group.get().to_be_bytes().to_vec();
    prefix.push(1);
    KeyRange::prefix(&prefix)
}

pub(crate) fn index_of(key: &[u8]) -> Result<u64, Unreadable> {
    let index: Option<&[u8; 8]> = key.get(3..).and_then(|rest| rest.try_into().ok());
    index.map(|bytes| u64::from_be_bytes(*bytes)).ok_or_else(|| unreadable("log key", format!("{key:02x?}")))
}

/// Puts the format byte before a record.
pub(crate) fn encode(record: &impl Message) -> Bytes {
    let mut value = BytesMut::with_capacity(1 + record.encoded_len());
    value.put_u8(FORMAT);
    // A `BytesMut` grows as needed, which is the only thing encoding can fail on.
    let _ = record.encode(&mut value);
    value.freeze()
}

/// Reads a record behind its format byte.
pub(crate) fn decode<M: Message + Default>(kind: &'static str, mut value: Bytes) -> Result<M, Unreadable> {
    match value.first() {
        Some(&FORMAT) => M::decode(value.split_off(1)).map_err(|e| unreadable(kind, e)),
        Some(format) => Err(unreadable(kind, format!("its format is {format}"))),
        None => Err(unreadable(kind, "it is empty")),
    }
}
