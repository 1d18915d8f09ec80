//! Walking one shard in the order of the list: over the narrowest of the ranges that hold all that is wanted.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use orbit_proto::engine::{ListRow, RunRecord, Status};
use orbit_raft::disk::KeyRange;
use orbit_raft::state_store::read::Reader;

use super::state::word;
use crate::api::ListExecutions;
use crate::error::{Error, Result};
use crate::execution::remove::attribute_rows;
use crate::facet::{self, Place, Prefix};
use crate::failure::of_storage;
use crate::table;

/// Rows that a page looks at in each shard.
pub(super) const LOOKED_AT_MAX: usize = 10_000;
/// So many rows of each range are counted to find the narrowest.
const PROBED_MAX: usize = 1_000;
/// More ranges than this are not merged: the whole list is walked instead.
const MERGED_MAX: usize = 64;
/// Rows read at a time.
const CHUNK: usize = 256;

/// What one shard has to say about a page.
#[derive(Debug)]
pub(super) struct Found {
    /// Those that fit, in order.
    pub(super) hits: Vec<Place>,
    /// The last one that was looked at, if there may be more behind it.
    pub(super) upto: Option<Place>,
}

/// Which condition a range answers by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Covers {
    Nothing,
    /// Some executions have no rows beside the list yet.
    NothingYet,
    Standing,
    Attention,
    Attribute(String),
}

/// Ranges that together hold everything that is wanted.
#[derive(Debug)]
struct Candidate {
    covers: Covers,
    prefixes: Vec<Prefix>,
}

/// Looks for what fits the filter and comes after a place, until there are enough or enough was looked at.
pub(super) fn find(reader: &Reader<'_>, filter: &ListExecutions, after: Option<&Place>) -> Result<Found> {
    let candidate = narrowest(reader, filter, after)?;
    let mut merged = Merged::new(filter, after, &candidate.prefixes);
    let mut found = Found { hits: Vec::new(), upto: None };
    let mut last = None;
    for looked_at in 0.. {
        let Some(place) = merged.next(reader)? else { break };
        if looked_at >= LOOKED_AT_MAX || found.hits.len() >= filter.limit {
            found.upto = last;
            break;
        }
        if fits(reader, filter, &candidate.covers, &place)? {
            found.hits.push(place.clone());
        }
        last = Some(place);
    }
    Ok(found)
}

/// Whether what a row of the list says is wanted.
pub(super) fn row_fits(filter: &ListExecutions, row: &ListRow) -> bool {
    filter.status.is_none_or(|wanted| wanted == word(row.status()))
        && filter.workflow.as_ref().is_none_or(|wanted| *wanted == row.workflow)
        && filter.version.as_ref().is_none_or(|wanted| *wanted == row.version)
        && (!filter.attention || row.attention > 0)
}

fn fits(reader: &Reader<'_>, filter: &ListExecutions, covers: &Covers, place: &Place) -> Result<bool> {
    if *covers == Covers::NothingYet {
        return fits_without_rows(reader, filter, place);
    }
    for (name, text) in &filter.attributes {
        if *covers == Covers::Attribute(name.clone()) {
            continue;
        }
        let mut has = false;
        for prefix in facet::attribute_like(name, text) {
            has |= reader.get(&facet::key(&prefix, place)).map_err(of_storage)?.is_some();
        }
        if !has {
            return Ok(false);
        }
    }
    let of_standing = filter.status.is_some() || filter.workflow.is_some() || filter.version.is_some();
    let settled = (!of_standing || *covers == Covers::Standing) && (!filter.attention || *covers == Covers::Attention);
    if settled {
        return Ok(true);
    }
    Ok(row_fits(filter, &listed(reader, place)?))
}

fn listed(reader: &Reader<'_>, place: &Place) -> Result<ListRow> {
    let row = reader.get(&table::list(place.created_at_ms(), &place.id)).map_err(of_storage)?;
    let row = row.ok_or_else(|| of_storage(format!("{} is found and not listed", place.id)))?;
    table::decode("list", &row).map_err(of_storage)
}

fn fits_without_rows(reader: &Reader<'_>, filter: &ListExecutions, place: &Place) -> Result<bool> {
    let row = listed(reader, place)?;
    if !row_fits(filter, &row) {
        return Ok(false);
    }
    let record = reader.get(&table::run(&place.id, row.run)).map_err(of_storage)?;
    let record = record.ok_or_else(|| of_storage("the record of a run is missing"))?;
    let record: RunRecord = table::decode("runs", &record).map_err(of_storage)?;
    let rows = attribute_rows(&record.attributes, place)?;
    let has = |(name, text): (&String, &String)| {
        facet::attribute_like(name, text).iter().any(|prefix| rows.contains(&facet::key(prefix, place)))
    };
    Ok(filter.attributes.iter().all(has))
}

fn narrowest(reader: &Reader<'_>, filter: &ListExecutions, after: Option<&Place>) -> Result<Candidate> {
    let whole = Candidate { covers: Covers::Nothing, prefixes: vec![table::list_prefix()] };
    if reader.get(&facet::complete()).map_err(of_storage)?.is_none() {
        // A store of an older release: its rows are being made.
        return Ok(Candidate { covers: Covers::NothingYet, ..whole });
    }
    let attributes = filter.attributes.iter().map(|(name, text)| Candidate {
        covers: Covers::Attribute(name.clone()),
        prefixes: facet::attribute_like(name, text),
    });
    let mut candidates: Vec<Candidate> = attributes.collect();
    if filter.attention {
        candidates.push(Candidate { covers: Covers::Attention, prefixes: vec![facet::attention()] });
    }
    candidates.extend(standing(reader, filter)?);
    if candidates.len() <= 1 {
        return Ok(candidates.pop().unwrap_or(whole));
    }
    let mut best: Option<(usize, Candidate)> = None;
    for candidate in candidates {
        let mut merged = Merged::new(filter, after, &candidate.prefixes);
        let most = best.as_ref().map_or(PROBED_MAX, |(count, _)| *count);
        let mut count = 0;
        while count < most && merged.next(reader)?.is_some() {
            count += 1;
        }
        if best.as_ref().is_none_or(|(best, _)| count < *best) {
            best = Some((count, candidate));
        }
    }
    Ok(best.map_or(whole, |(_, candidate)| candidate))
}

/// The ranges of all standings that fit; none if no filter is about them, or there are too many.
fn standing(reader: &Reader<'_>, filter: &ListExecutions) -> Result<Option<Candidate>> {
    if filter.status.is_none() && filter.workflow.is_none() && filter.version.is_none() {
        return Ok(None);
    }
    let mut prefixes = Vec::new();
    let statuses = STATUSES.into_iter().filter(|status| filter.status.is_none_or(|wanted| wanted == word(*status)));
    for status in statuses {
        if let (Some(workflow), Some(version)) = (&filter.workflow, &filter.version) {
            prefixes.push(facet::standing(status, workflow, version));
            continue;
        }
        let mut range = KeyRange::prefix(&facet::standings_of(status, filter.workflow.as_deref()));
        // From one workflow and version to the next, over all executions between.
        while range.from < range.to {
            let first = reader.range(&range, 1).map_err(of_storage)?;
            let Some((key, _)) = first.first() else { break };
            let (_, _, version, prefix) = facet::standing_parts(key).ok_or_else(damaged)?;
            if filter.version.as_deref().is_none_or(|wanted| wanted == version) {
                prefixes.push(key[..prefix].to_vec());
            }
            if prefixes.len() > MERGED_MAX {
                return Ok(None);
            }
            range.from = KeyRange::prefix(&key[..prefix]).to;
        }
    }
    Ok(Some(Candidate { covers: Covers::Standing, prefixes }))
}

const STATUSES: [Status; 7] = [
    Status::Running,
    Status::Paused,
    Status::Completed,
    Status::Failed,
    Status::Cancelled,
    Status::TimedOut,
    Status::Continued,
];

/// Several ranges as one, in the order of the list.
struct Merged {
    sources: Vec<Source>,
}

struct Source {
    range: KeyRange,
    prefix: usize,
    next: VecDeque<Place>,
}

impl Merged {
    fn new(filter: &ListExecutions, after: Option<&Place>, prefixes: &[Prefix]) -> Self {
        let source = |prefix: &Prefix| Source {
            range: facet::within(prefix, after, filter.since_ms, filter.until_ms),
            prefix: prefix.len(),
            next: VecDeque::new(),
        };
        Self { sources: prefixes.iter().map(source).collect() }
    }

    fn next(&mut self, reader: &Reader<'_>) -> Result<Option<Place>> {
        for source in &mut self.sources {
            source.fill(reader)?;
        }
        let first = self.sources.iter().filter_map(|source| source.next.front()).min().cloned();
        if let Some(first) = &first {
            // One execution may lie in several ranges: a text that is a number too.
            for source in &mut self.sources {
                source.next.pop_front_if(|next| next == first);
            }
        }
        Ok(first)
    }
}

impl Source {
    fn fill(&mut self, reader: &Reader<'_>) -> Result<()> {
        if !self.next.is_empty() || self.range.from >= self.range.to {
            return Ok(());
        }
        let (mut last, mut bad) = (None, false);
        let scanned = reader.scan(&self.range, |key, _| {
            match Place::of_key(key, self.prefix) {
                Some(place) => self.next.push_back(place),
                None => bad = true,
            }
            last = Some(key.to_vec());
            if self.next.len() < CHUNK && !bad { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        scanned.map_err(of_storage)?;
        if bad {
            return Err(damaged());
        }
        match last {
            Some(last) if self.next.len() >= CHUNK => self.range.from = [&last[..], &[0]].concat(),
            _ => self.range.from.clone_from(&self.range.to),
        }
        Ok(())
    }
}

fn damaged() -> Error {
    of_storage("a key of the lists is damaged")
}
