//! Lists of executions, merged over all shards.
//!
//! Newest first, then by id. A cursor is the last pair that was looked at, with a digest of the filters: it is good at
//! any node, and goes on behind that pair whatever has been started meanwhile.

use orbit_raft::{Environment, Group};
use xxhash_rust::xxh3::xxh3_64;

use super::ANSWER_BYTES_MAX;
use super::walk::{self, Found};
use crate::api::{ListExecutions, Summary};
use crate::error::{Code, Error, Result};
use crate::facet::{self, Place};

/// Characters of a cursor: the longest id in hexadecimal digits, and what stands before it.
const CURSOR_MAX: usize = 2 * (16 + 1_000);
/// About how many bytes the summaries of a page have.
const BYTES_MAX: usize = ANSWER_BYTES_MAX / 2;

fn digest(filter: &ListExecutions) -> u64 {
    let ListExecutions { status, workflow, version, since_ms, until_ms, attention, attributes, .. } = filter;
    let text = format!("{status:?} {workflow:?} {version:?} {since_ms:?} {until_ms:?} {attention} {attributes:?}");
    xxh3_64(text.as_bytes())
}

/// A place as callers see it.
pub(crate) fn write_cursor(place: &Place, filter: &ListExecutions) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    let bytes = [&place.newest_first.to_be_bytes()[..], &digest(filter).to_be_bytes(), place.id.as_bytes()].concat();
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The place that a caller gave back.
pub(crate) fn read_cursor(filter: &ListExecutions) -> Result<Option<Place>> {
    let Some(text) = &filter.cursor else { return Ok(None) };
    let refused = || Error::new(Code::InvalidRequest, "the cursor is none of this list; begin without one");
    let hex = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = (text.len() % 2 == 0 && text.len() <= CURSOR_MAX)
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
    Ok(Some(Place { newest_first: u64::from_be_bytes(*newest_first), id: id.to_owned() }))
}

fn find<E: Environment>(group: &Group<E>, filter: &ListExecutions, after: Option<&Place>) -> Result<Found> {
    group.read(|reader| walk::find(reader, filter, after))
}

/// A page over all shards; `summarize` reads one execution.
pub(crate) fn page<'g, E: Environment>(
    groups: impl Iterator<Item = &'g Group<E>>,
    filter: &ListExecutions,
    summarize: impl Fn(&str) -> Result<Summary>,
) -> Result<(Vec<Summary>, Option<String>)> {
    let after = read_cursor(filter)?;
    let (mut hits, mut upto) = (Vec::new(), None::<Place>);
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
    let (mut summaries, mut bytes) = (Vec::new(), 0);
    let mut told: Option<Place> = None;
    for hit in hits {
        if summaries.len() >= filter.limit || bytes >= BYTES_MAX {
            upto = told;
            break;
        }
        match summarize(&hit.id) {
            // It may have changed since it was found.
            Ok(summary) if still_fits(filter, &summary) => {
                bytes += size(&summary);
                summaries.push(summary);
            }
            Ok(_) => {}
            Err(error) if error.code == Code::NotFound => {}
            Err(error) => return Err(error),
        }
        told = Some(hit);
    }
    Ok((summaries, upto.map(|place| write_cursor(&place, filter))))
}

/// Whether what may change is still what is wanted.
fn still_fits(filter: &ListExecutions, summary: &Summary) -> bool {
    // Another run may have other attributes.
    let has = |(name, text): (&String, &String)| {
        let is = summary.attributes.get(name).and_then(|value| facet::attribute(name, value));
        is.is_some_and(|is| facet::attribute_like(name, text).contains(&is))
    };
    filter.status.is_none_or(|wanted| wanted == summary.status)
        && (!filter.attention || summary.attention > 0)
        && filter.attributes.iter().all(has)
}

/// About how many bytes a summary has as JSON.
fn size(summary: &Summary) -> usize {
    let attributes = summary.attributes.iter().map(|(name, value)| name.len() + value.to_json().len() + 6);
    let error = summary.error.as_ref().map_or(0, |error| error.code.len() + error.message.len());
    600 + 2 * summary.execution_id.len() + attributes.sum::<usize>() + error
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
        let place = Place { newest_first: !7, id: "a:b".to_owned() };
        let text = write_cursor(&place, &filter);
        let with = |text: &str| ListExecutions { cursor: Some(text.to_owned()), ..filter.clone() };
        assert_eq!(read_cursor(&with(&text)).unwrap(), Some(place));
        assert_eq!(read_cursor(&filter).unwrap(), None);
        for bad in ["", "zz", "00", &text[1..], &format!("{text}00"), "é"] {
            assert!(read_cursor(&with(bad)).is_err(), "{bad}");
        }
        let other = ListExecutions { workflow: None, ..with(&text) };
        assert_eq!(read_cursor(&other).unwrap_err().code, Code::InvalidRequest);
    }
}
