//! What a leader does for its shard in quiet moments: it removes what has been kept long enough, and makes the rows of
//! lists for executions of a release that had none.
//!
//! A little at a time, with pauses: nobody waits for it, and everybody else does not wait because of it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use orbit_proto::engine::{ExpiryRow, ListRow, RunRecord, SignalRecord};
use orbit_proto::store::{Precondition, RowEquals, precondition::Check};
use orbit_raft::disk::KeyRange;
use orbit_raft::state_store::PartOutcome;
use orbit_raft::state_store::read::Reader;
use orbit_raft::{Environment, Part, Write};
use tokio::time::Instant;

use super::Shard;
use crate::error::{Code, Error, Result};
use crate::execution::remove::attribute_rows;
use crate::execution::{Removal, What};
use crate::expiry::{self, Subject};
use crate::facet::{self, Place};
use crate::failure::{of_proposal, of_storage};
use crate::read;
use crate::shard::ShardMsg;
use crate::table;

/// So many things are removed at a time.
const AT_ONCE: usize = 64;
/// The pause between two such times.
const PAUSE: Duration = Duration::from_millis(100);
/// How often a shard on which nothing is due is looked at.
const IDLE: Duration = Duration::from_secs(1);
/// How often everything that is due is looked at from the beginning.
const ALL_AGAIN: Duration = Duration::from_secs(600);
/// A row may be committed so much later than the moment that it was decided at, ms; a later one waits until all is
/// looked at again.
const LATE_MS: u64 = 5_000;
/// So many executions get their rows at a time.
const INDEXED_AT_ONCE: usize = 100;
/// What applying does not look at: it tells a reader of a log whose part it is.
const PART_KEEPING: u32 = 5;

/// Keeps a shard in order while this node leads it, for ever; dropped with the node.
pub(super) async fn run<E: Environment>(shard: Arc<Shard<E>>) {
    let mut leads = shard.leads.subscribe();
    // Ends when the shard is gone.
    while leads.wait_for(|leads| *leads).await.is_ok() {
        let mut until = leads.clone();
        tokio::select! {
            () = keep(&shard) => {}
            _ = until.wait_for(|leads| !*leads) => {}
        }
    }
}

async fn keep<E: Environment>(shard: &Arc<Shard<E>>) {
    while let Err(error) = complete_lists(shard).await {
        tracing::warn!(shard = shard.context.shard, %error, "the rows of lists are not made yet; trying again");
        tokio::time::sleep(IDLE).await;
    }
    // Rows that were removed lie in the way of a scan for a while, so it begins near where the last one ended; what
    // could not be removed is passed by, and met again when all is looked at once more.
    let (mut from, mut all_at) = (expiry::due(0).from, Instant::now() + ALL_AGAIN);
    loop {
        let now_ms = shard.context.group.now_ms();
        let pause = match round(shard, &from, now_ms).await {
            Ok(Some(last)) => {
                from = [&last[..], &[0]].concat();
                PAUSE
            }
            Ok(None) if Instant::now() >= all_at => {
                (from, all_at) = (expiry::due(0).from, Instant::now() + ALL_AGAIN);
                IDLE
            }
            Ok(None) => {
                from = expiry::due(now_ms.saturating_sub(LATE_MS)).to;
                IDLE
            }
            Err(error) => {
                tracing::warn!(shard = shard.context.shard, %error, "retention is not carried out; trying again");
                IDLE
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// Removes some of what is due from a key on; returns the last key it looked at if there may be more.
async fn round<E: Environment>(shard: &Arc<Shard<E>>, from: &[u8], now_ms: u64) -> Result<Option<Bytes>> {
    let group = &shard.context.group;
    let range = KeyRange { from: from.to_vec(), ..expiry::due(now_ms) };
    if range.from >= range.to {
        return Ok(None);
    }
    let hints = group.read(|reader| reader.range(&range, AT_ONCE)).map_err(of_storage)?;
    let last = hints.last().map(|(key, _)| key.clone()).filter(|_| hints.len() == AT_ONCE);
    let done = futures::future::join_all(hints.into_iter().map(|(key, value)| async move {
        let writes = expire(shard, &key, &value).await;
        (key, writes)
    }));
    let mut writes = Vec::new();
    for (key, removed) in done.await {
        match removed {
            Ok(more) => {
                writes.push(table::delete(key.to_vec()));
                writes.extend(more);
            }
            Err(error) => tracing::debug!(shard = shard.context.shard, %error, "something is kept a little longer"),
        }
    }
    if !writes.is_empty() {
        let part = Part { kind: PART_KEEPING, writes, ..Part::default() };
        group.propose(vec![part]).await.map_err(|error| of_proposal("", &error))?;
    }
    Ok(last)
}

/// Removes what a hint is about, if it still is as the hint says. Returns what else is to be written with its end.
async fn expire<E: Environment>(shard: &Arc<Shard<E>>, key: &Bytes, value: &Bytes) -> Result<Vec<Write>> {
    let subject = expiry::subject(key).ok_or_else(|| of_storage("a key of what expires is damaged"))?;
    let ExpiryRow { of_ms } = table::decode("what expires", value).map_err(of_storage)?;
    match subject {
        Subject::Run { id, run } => {
            if remove(shard, &id, Removal::Run { run, ended_at_ms: of_ms }).await? {
                shard.context.count_removed();
            }
            Ok(Vec::new())
        }
        Subject::Signal { id, name, dedup_id } => {
            let row = table::signal(&id, &name, &dedup_id);
            let stored = shard.context.group.read(|reader| reader.get(&row)).map_err(of_storage)?;
            let Some(stored) = stored else { return Ok(Vec::new()) };
            let record: SignalRecord = table::decode("signals", &stored).map_err(of_storage)?;
            // The id may belong to another execution by now, which got a signal of the same name.
            let is_that = record.received_at_ms == of_ms;
            Ok(if is_that { vec![table::delete(row)] } else { Vec::new() })
        }
        Subject::Batch { id } => Ok(vec![table::delete(table::batch(&id))]),
    }
}

async fn remove<E: Environment>(shard: &Arc<Shard<E>>, id: &str, removal: Removal) -> Result<bool> {
    let gone = || Error::new(Code::NoLeader, "the shard is not led here");
    let (reply, answer) = tokio::sync::oneshot::channel();
    let actor = shard.actor.borrow().clone().ok_or_else(gone)?;
    let ask = ShardMsg::ask(Arc::from(id), What::Remove(removal, reply), None);
    actor.cast(ask).map_err(|_| gone())?;
    answer.await.map_err(|_| gone())?
}

// ---- the rows of lists

/// Makes the rows by which executions are found for all that have none, if that was never done.
async fn complete_lists<E: Environment>(shard: &Arc<Shard<E>>) -> Result<()> {
    let group = &shard.context.group;
    if group.read(|reader| reader.get(&facet::complete())).map_err(of_storage)?.is_some() {
        return Ok(());
    }
    let mut range = table::whole_list();
    loop {
        let rows = group.read(|reader| reader.range(&range, INDEXED_AT_ONCE)).map_err(of_storage)?;
        let Some((last, _)) = rows.last() else { break };
        let next = [&last[..], &[0]].concat();
        let retention_ms = shard.context.retention_ms;
        let parts = group.read(|reader| {
            rows.iter().map(|(key, value)| indexing(reader, key, value, retention_ms)).collect::<Result<Vec<_>>>()
        })?;
        let applied = group.propose(parts).await.map_err(|error| of_proposal("", &error))?;
        // What has changed meanwhile is read again.
        if applied.outcomes.iter().all(|outcome| *outcome == PartOutcome::Applied) {
            range.from = next;
        }
        tokio::time::sleep(PAUSE).await;
    }
    let part = Part { kind: PART_KEEPING, writes: vec![table::put(facet::complete(), vec![1])], ..Part::default() };
    group.propose(vec![part]).await.map(drop).map_err(|error| of_proposal("", &error))
}

/// Everything that an execution of an older release lacks, as long as its row in the list is this one.
fn indexing(reader: &Reader<'_>, key: &Bytes, value: &Bytes, retention_ms: u64) -> Result<Part> {
    let damaged = || of_storage("a key of the lists is damaged");
    let (created_at_ms, id) = table::list_parts(key).ok_or_else(damaged)?;
    let place = Place::new(created_at_ms, id);
    let listed: ListRow = table::decode("list", value).map_err(of_storage)?;
    let record = reader.get(&table::run(id, listed.run)).map_err(of_storage)?;
    let record: RunRecord = match record {
        Some(record) => table::decode("runs", &record).map_err(of_storage)?,
        None => RunRecord::default(),
    };
    let rows = facet::rows(&listed, &place).into_iter().chain(attribute_rows(&record.attributes, &place)?);
    let mut writes: Vec<Write> = rows.map(|key| table::put(key, vec![1])).collect();
    for (run, ended_at_ms) in read::ended_runs(reader, id)? {
        let subject = Subject::Run { id: id.to_owned(), run };
        writes.push(expiry::hint(ended_at_ms.saturating_add(retention_ms), &subject, ended_at_ms));
    }
    let check = Check::RowEquals(RowEquals { key: key.clone(), value: value.clone() });
    let preconditions = vec![Precondition { check: Some(check) }];
    Ok(Part { kind: PART_KEEPING, preconditions, writes, ..Part::default() })
}
