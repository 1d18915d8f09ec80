//! By what executions are found: rows beside the list that are ordered like it, one range per value.
//!
//! ```text
//!   standing   01 │ status u8 │ workflow 00 │ version 00 │ place      every execution has one
//!   attention  02 │ place                                             something in it waits for an operator
//!   attribute  03 │ name 00 │ type u8 │ length u16 │ value │ place    one per attribute that is not null
//!   complete   00                                                     every execution of the shard has its rows
//!
//!   place = !created_at u64 │ id        a value of more than 200 bytes stands as its SHA-256
//! ```
//!
//! They are written in the commit that changes what they say. Because all ranges are ordered by place, ranges can be
//! merged, and a cursor of one is good in every other.

use std::collections::{BTreeMap, BTreeSet};

use orbit_proto::engine::{ListRow, Status};
use orbit_raft::Write;
use orbit_raft::disk::KeyRange;
use orbit_raft::state_store::key::ordered;
use sha2::{Digest, Sha256};
use workflow::value::Value;

use crate::table::{self, FACET};

const COMPLETE: u8 = 0;
const STANDING: u8 = 1;
const ATTENTION: u8 = 2;
const ATTRIBUTE: u8 = 3;

/// Longer values stand as their digest.
const VALUE_BYTES_MAX: usize = 200;

/// Where an execution stands in every range: newest first, then by id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// Inverted, so that places are in the order of the list.
    pub(crate) newest_first: u64,
    /// The execution.
    pub(crate) id: String,
}

impl Place {
    pub(crate) fn new(created_at_ms: u64, id: &str) -> Self {
        Self { newest_first: !created_at_ms, id: id.to_owned() }
    }

    pub(crate) fn created_at_ms(&self) -> u64 {
        !self.newest_first
    }

    fn bytes(&self) -> Vec<u8> {
        [&self.newest_first.to_be_bytes()[..], self.id.as_bytes()].concat()
    }

    /// The place at the end of a key whose range begins with so many bytes.
    pub(crate) fn of_key(key: &[u8], prefix: usize) -> Option<Self> {
        let (newest_first, id) = key.get(prefix..)?.split_first_chunk::<8>()?;
        let id = std::str::from_utf8(id).ok()?.to_owned();
        Some(Self { newest_first: u64::from_be_bytes(*newest_first), id })
    }
}

/// The beginning of all keys of a range.
pub(crate) type Prefix = Vec<u8>;

/// A part of a range: behind a place, and between two moments of creation.
pub(crate) fn within(prefix: &[u8], after: Option<&Place>, since_ms: Option<u64>, until_ms: Option<u64>) -> KeyRange {
    let mut range = KeyRange::prefix(prefix);
    let at = |created_at_ms: u64| [prefix, &(!created_at_ms).to_be_bytes()].concat();
    if let Some(after) = after {
        range.from = [prefix, &after.bytes(), &[0]].concat();
    }
    // `until` is before, `since` at or after; a range begins with the newest.
    match until_ms.map(|until_ms| until_ms.checked_sub(1)) {
        Some(Some(last_ms)) => range.from = range.from.max(at(last_ms)),
        Some(None) => range.to.clone_from(&range.from),
        None => {}
    }
    if let Some(before_ms) = since_ms.and_then(|since_ms| since_ms.checked_sub(1)) {
        range.to = range.to.min(at(before_ms));
    }
    range
}

/// All executions of a status, workflow and version.
pub(crate) fn standing(status: Status, workflow: &str, version: &str) -> Prefix {
    let parts = [&[STANDING, status as u8][..], workflow.as_bytes(), &[0], version.as_bytes(), &[0]];
    ordered(FACET, &parts.concat())
}

/// All standings of a status, or of a status and a workflow: to leap over.
pub(crate) fn standings_of(status: Status, workflow: Option<&str>) -> Prefix {
    let workflow = workflow.map_or_else(Vec::new, |workflow| [workflow.as_bytes(), &[0]].concat());
    ordered(FACET, &[&[STANDING, status as u8][..], &workflow].concat())
}

/// Status, workflow and version of a key of [`standing`], and how long its prefix is.
pub(crate) fn standing_parts(key: &[u8]) -> Option<(Status, &str, &str, usize)> {
    let start = ordered(FACET, &[STANDING]).len();
    let (&[status], rest) = key.get(start..)?.split_first_chunk::<1>()?;
    let (workflow, rest) = table::text(rest)?;
    let (version, rest) = table::text(rest)?;
    let status = Status::try_from(i32::from(status)).ok()?;
    Some((status, workflow, version, key.len() - rest.len()))
}

/// All executions in which something waits for an operator.
pub(crate) fn attention() -> Prefix {
    ordered(FACET, &[ATTENTION])
}

/// All executions whose attribute has a value.
pub(crate) fn attribute(name: &str, value: &Value) -> Option<Prefix> {
    let (kind, text) = match value {
        Value::String(text) => (b's', text.to_string()),
        Value::Bool(value) => (b'b', value.to_string()),
        // A time is an integer; a whole number is one too, whatever its declared type.
        Value::Int(_) | Value::Double(_) => (b'n', value.to_string()),
        _ => return None,
    };
    Some(attribute_of(name, kind, &text))
}

fn attribute_of(name: &str, kind: u8, text: &str) -> Prefix {
    let digest;
    let (kind, value) = match text.len() <= VALUE_BYTES_MAX {
        true => (kind, text.as_bytes()),
        false => {
            digest = Sha256::digest(text.as_bytes());
            (kind.to_ascii_uppercase(), &digest[..])
        }
    };
    // At most 200 bytes.
    let len = (value.len() as u16).to_be_bytes();
    ordered(FACET, &[&[ATTRIBUTE], name.as_bytes(), &[0, kind], &len, value].concat())
}

/// All executions whose attribute looks like this text: as a string, a number, a boolean, or a time.
pub(crate) fn attribute_like(name: &str, text: &str) -> Vec<Prefix> {
    let mut prefixes = vec![attribute_of(name, b's', text)];
    let scalar = match text {
        "true" => Some(Value::Bool(true)),
        "false" => Some(Value::Bool(false)),
        _ => Value::from_json(text).ok().filter(|value| matches!(value, Value::Int(_) | Value::Double(_))),
    };
    let time = chrono::DateTime::parse_from_rfc3339(text).ok().map(|time| Value::Int(time.timestamp_millis()));
    let values = scalar.into_iter().chain(time);
    prefixes.extend(values.filter_map(|value| attribute(name, &value)));
    prefixes
}

/// The key of a place in a range.
pub(crate) fn key(prefix: &[u8], place: &Place) -> Vec<u8> {
    [prefix, &place.bytes()].concat()
}

/// The rows of an execution beside its row in the list, but for its attributes.
pub(crate) fn rows(listed: &ListRow, place: &Place) -> BTreeSet<Vec<u8>> {
    let standing = standing(listed.status(), &listed.workflow, &listed.version);
    let attention = (listed.attention > 0).then(attention);
    std::iter::once(standing).chain(attention).map(|prefix| key(&prefix, place)).collect()
}

/// The rows of its attributes.
pub(crate) fn attribute_rows(attributes: &BTreeMap<String, Value>, place: &Place) -> BTreeSet<Vec<u8>> {
    let prefixes = attributes.iter().filter_map(|(name, value)| attribute(name, value));
    prefixes.map(|prefix| key(&prefix, place)).collect()
}

/// From one set of rows to another.
pub(crate) fn move_rows(before: &BTreeSet<Vec<u8>>, after: &BTreeSet<Vec<u8>>, writes: &mut Vec<Write>) {
    writes.extend(before.difference(after).cloned().map(table::delete));
    writes.extend(after.difference(before).cloned().map(|key| table::put(key, vec![1])));
}

/// The execution of a key of [`everything`].
pub(crate) fn execution_of(row: &[u8]) -> Option<String> {
    let start = ordered(FACET, &[]).len();
    let (&kind, rest) = row.get(start..)?.split_first()?;
    let prefix = match kind {
        STANDING => standing_parts(row)?.3,
        ATTENTION => start + 1,
        ATTRIBUTE => {
            let (_, rest) = table::text(rest)?;
            let (len, rest) = rest.get(1..)?.split_first_chunk::<2>()?;
            row.len() - rest.len() + usize::from(u16::from_be_bytes(*len))
        }
        _ => return None,
    };
    Place::of_key(row, prefix).map(|place| place.id)
}

/// Says that every execution of the shard has its rows.
pub(crate) fn complete() -> Vec<u8> {
    ordered(FACET, &[COMPLETE])
}

/// All rows of all executions.
pub(crate) fn everything() -> KeyRange {
    KeyRange { from: ordered(FACET, &[STANDING]), to: ordered(FACET, &[ATTRIBUTE + 1]) }
}
