//! Lists of executions, merged over all shards.
//!
//! Newest first, then by id. A cursor is the last pair that was looked at, with a digest of the filters: it is good at
//! any node, and goes on behind that pair whatever has been started meanwhile.

use std::ops::ControlFlow;
use std::sync::Arc;

use orbit_proto::engine::{ListRow, Status};
use orbit_raft::{Environment, Group};
use xxhash_rust::xxh3::xxh3_64;

use super::state::word;
use crate::api::{ListExecutions, Summary};
use crate::error::{Code, Error, Result};
use crate::failure::of_storage;
use crate::table;

/// Rows that a page looks at in each shard.
const LOOKED_AT_MAX: usize = 10_000;

/// Where a page ended.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cursor {
    /// Inverted, so that cursors are in the order of the list.
    newest_first: u64,
    id: Arc<str>,
}

fn digest(filter: &ListExecutions) -> u64 {
    let ListExecutions { status, workflow, version, since_ms, until_ms, attention, .. } = filter;
    xxh3_64(format!("{status:?} {workflow:?} {version:?} {since_ms:?} {until_ms:?} {attention}").as_bytes())
}

impl Cursor {
    /// As callers see it.
    pub(crate) fn write(&self, filter: &ListExecutions) -> String {
        use std::fmt::Write;
        let mut text = String::new();
        let bytes = [&self.newest_first.to_be_bytes()[..], &digest(filter).to_be_bytes(), self.id.as_bytes()].concat();
        for byte in bytes {
            // Writing to a string does not fail.
            let _ = write!(text, "{byte:02x}");
        }
        text
    }

    /// What a caller gave back.
    pub(crate) fn read(filter: &ListExecutions) -> Result<Option<Self>> {
        let Some(text) = &filter.cursor else { return Ok(None) };
        let refused = || Error::new(Code::InvalidRequest, "the cursor is none of this list; begin without one");
        let hex = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> = (text.len() % 2 == 0 && text.len() <= 1_000)
            .then(|| text.as_bytes().chunks(2).map(hex).collect())
            .flatten();
        let bytes = bytes.ok_or_else(refused)?;
        let (newest_first, rest) = bytes.split_first_chunk::<8>().ok_or_else(refused)?;
        let (of, id) = rest.split_first_chunk::<8>().ok_or_else(refused)?;
        if u64::from_be_bytes(*of) != digest(filter) {
            let message = "the cursor belongs to other filters; repeat them, or begin without a cursor";
            return Err(Error::new(Code::InvalidRequest, message));
        }
        let id = std::str::from_utf8(id).ok().filter(|id| !id.contains('\0')).ok_or_else(refused)?;
        Ok(Some(Self { newest_first: u64::from_be_bytes(*newest_first), id: Arc::from(id) }))
    }

    fn key_after(&self) -> Vec<u8> {
        let mut key = table::list(!self.newest_first, &self.id);
        key.push(0);
        key
    }
}

/// What one shard has to say about a page.
#[derive(Debug)]
struct Found {
    /// Those that fit, in order.
    hits: Vec<Cursor>,
    /// The last one that was looked at, if there may be more behind it.
    upto: Option<Cursor>,
}

fn find<E: Environment>(group: &Group<E>, filter: &ListExecutions, after: Option<&Cursor>) -> Result<Found> {
    let mut range = table::whole_list();
    if let Some(after) = after {
        range.from = after.key_after();
    }
    // `until` is before, `since` at or after; the list begins with the newest.
    if let Some(until_ms) = filter.until_ms.filter(|until| *until > 0) {
        range.from = range.from.max(table::list(until_ms - 1, ""));
    }
    if let Some(before_ms) = filter.since_ms.and_then(|since_ms| since_ms.checked_sub(1)) {
        range.to = range.to.min(table::list(before_ms, ""));
    }
    let mut found = Found { hits: Vec::new(), upto: None };
    if range.from >= range.to || filter.until_ms == Some(0) {
        return Ok(found);
    }
    let (mut looked_at, mut last, mut broken) = (0, None, None);
    let scanned = group.read(|reader| {
        reader.scan(&range, |key, value| {
            if looked_at >= LOOKED_AT_MAX || found.hits.len() >= filter.limit {
                found.upto.clone_from(&last);
                return ControlFlow::Break(());
            }
            looked_at += 1;
            let Some((created_at_ms, id)) = table::list_parts(key) else { return ControlFlow::Continue(()) };
            let cursor = Cursor { newest_first: !created_at_ms, id: Arc::from(id) };
            match table::decode::<ListRow>("list", value) {
                Ok(row) if fits(filter, &row) => found.hits.push(cursor.clone()),
                Ok(_) => {}
                Err(error) => {
                    broken = Some(error);
                    return ControlFlow::Break(());
                }
            }
            last = Some(cursor);
            ControlFlow::Continue(())
        })
    });
    scanned.map_err(of_storage)?;
    broken.map_or(Ok(found), |error| Err(of_storage(error)))
}

fn fits(filter: &ListExecutions, row: &ListRow) -> bool {
    let status: Status = row.status();
    filter.status.is_none_or(|wanted| wanted == word(status))
        && filter.workflow.as_ref().is_none_or(|wanted| *wanted == row.workflow)
        && filter.version.as_ref().is_none_or(|wanted| *wanted == row.version)
        && (!filter.attention || row.attention > 0)
}

/// A page over all shards; `summarize` reads one execution.
pub(crate) fn page<'g, E: Environment>(
    groups: impl Iterator<Item = &'g Group<E>>,
    filter: &ListExecutions,
    summarize: impl Fn(&str) -> Result<Summary>,
) -> Result<(Vec<Summary>, Option<String>)> {
    let after = Cursor::read(filter)?;
    let (mut hits, mut upto) = (Vec::new(), None::<Cursor>);
    for group in groups {
        let found = find(group, filter, after.as_ref())?;
        hits.extend(found.hits);
        // Nothing may be told that lies behind a place up to which one shard has not looked.
        upto = match (upto, found.upto) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }
    hits.sort();
    if let Some(upto) = &upto {
        hits.retain(|hit| hit <= upto);
    }
    if hits.len() > filter.limit {
        hits.truncate(filter.limit);
        upto = hits.last().cloned();
    }
    let next = upto.map(|cursor| cursor.write(filter));
    let summaries = hits.iter().map(|hit| summarize(&hit.id)).collect::<Result<_>>()?;
    Ok((summaries, next))
}

/// How many there are, and whether there may be more.
pub(crate) fn count<'g, E: Environment>(
    groups: impl Iterator<Item = &'g Group<E>>,
    filter: &ListExecutions,
) -> Result<(u64, bool)> {
    let filter = ListExecutions { limit: usize::MAX, cursor: None, ..filter.clone() };
    let (mut count, mut at_least) = (0, false);
    for group in groups {
        let found = find(group, &filter, None)?;
        count += found.hits.len() as u64;
        at_least |= found.upto.is_some();
    }
    Ok((count, at_least))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_good_for_its_own_list_only() {
        let filter = ListExecutions { workflow: Some("pay".to_owned()), limit: 10, ..ListExecutions::default() };
        let cursor = Cursor { newest_first: !7, id: Arc::from("a:b") };
        let text = cursor.write(&filter);
        let with = |text: &str| ListExecutions { cursor: Some(text.to_owned()), ..filter.clone() };
        assert_eq!(Cursor::read(&with(&text)).unwrap(), Some(cursor));
        assert_eq!(Cursor::read(&filter).unwrap(), None);
        for bad in ["", "zz", "00", &text[1..], &format!("{text}00"), "é"] {
            assert!(Cursor::read(&with(bad)).is_err(), "{bad}");
        }
        let other = ListExecutions { workflow: None, ..with(&text) };
        assert_eq!(Cursor::read(&other).unwrap_err().code, Code::InvalidRequest);
    }
}
