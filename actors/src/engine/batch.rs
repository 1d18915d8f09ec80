//! Carries out batches, on the node that leads the shard of the batch.
//!
//! ```text
//!   find some ──▶ write down whom ──▶ act on each ──▶ write down how it went, and whom next ──▶ …
//! ```
//!
//! What is written down before it is acted on is acted on again after a restart: each action is one that may be
//! repeated, so every execution that was found is counted once.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use orbit_proto::engine::batch_record::Action;
use orbit_proto::engine::{BatchError, BatchRecord};
use orbit_raft::Environment;
use tokio::time::Instant;
use workflow::value::Payload;

use super::{Engine, Inner, Shard, batches};
use crate::api::{Redrive, SendSignal};
use crate::error::{Code, Error, Result};
use crate::failure::of_storage;
use crate::remote::{Cluster, Request};
use crate::table;

/// So many executions are written down at a time.
const AT_ONCE: usize = 50;
/// So many of them are acted on side by side.
const SIDE_BY_SIDE: usize = 8;
/// So many batches of one shard are carried out side by side.
const BATCHES_AT_ONCE: usize = 8;
/// Errors that are kept; the rest is only counted.
const ERRORS_MAX: usize = 100;
/// What could not be asked is asked again after this, then after twice as long, …
const AGAIN: Duration = Duration::from_millis(200);
/// … so often.
const TRIES: u32 = 6;

/// Carries out the batches of a shard while this node leads it, for ever; dropped with the node.
pub(super) async fn run<E: Environment>(engine: Weak<Inner<E>>, shard: Arc<Shard<E>>) {
    let mut leads = shard.leads.subscribe();
    // Ends when the shard is gone.
    while leads.wait_for(|leads| *leads).await.is_ok() {
        let mut until = leads.clone();
        tokio::select! {
            () = carry_out(&engine, &shard) => {}
            _ = until.wait_for(|leads| !*leads) => {}
        }
    }
}

async fn carry_out<E: Environment>(engine: &Weak<Inner<E>>, shard: &Arc<Shard<E>>) {
    let (mut under_way, mut ids) = (FuturesUnordered::new(), Vec::<String>::new());
    loop {
        match open(shard) {
            Ok(open) => {
                for id in open {
                    if under_way.len() < BATCHES_AT_ONCE && !ids.contains(&id) {
                        ids.push(id.clone());
                        under_way.push(one(engine.clone(), Arc::clone(shard), id));
                    }
                }
            }
            Err(error) => tracing::error!(shard = shard.context.shard, %error, "batches cannot be read"),
        }
        tokio::select! {
            () = shard.context.batches.notified() => {}
            Some((id, outcome)) = under_way.next() => {
                ids.retain(|other| *other != id);
                if let Err(error) = outcome {
                    tracing::warn!(batch = %id, %error, "a batch does not go on; trying again");
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }
}

/// Batches that are not done, oldest first.
fn open<E: Environment>(shard: &Shard<E>) -> Result<Vec<String>> {
    let rows = shard.context.group.read(|reader| reader.range(&table::batches(), usize::MAX)).map_err(of_storage)?;
    let mut open = Vec::new();
    for (key, value) in rows {
        let record: BatchRecord = table::decode("batches", &value).map_err(of_storage)?;
        let id = table::batch_id(&key).ok_or_else(|| of_storage("a key of the batches is damaged"))?;
        if record.finished_at_ms.is_none() {
            open.push((record.created_at_ms, id.to_owned()));
        }
    }
    open.sort();
    Ok(open.into_iter().map(|(_, id)| id).collect())
}

async fn one<E: Environment>(engine: Weak<Inner<E>>, shard: Arc<Shard<E>>, id: String) -> (String, Result<()>) {
    let outcome = to_its_end(&engine, &shard, &id).await;
    (id, outcome)
}

/// Carries out a batch until it is done or stopped.
async fn to_its_end<E: Environment>(engine: &Weak<Inner<E>>, shard: &Arc<Shard<E>>, id: &str) -> Result<()> {
    // Whom a node before was at work on.
    let mut again = true;
    loop {
        let (stored, mut record) = batches::read(shard, id)?;
        if record.finished_at_ms.is_some() {
            return Ok(());
        }
        let gone = || Error::new(Code::NoLeader, "this node is going away");
        let node = Engine(engine.upgrade().ok_or_else(gone)?);
        if !matches!(record.action, Some(Action::Delete(_))) && shard.context.is_read_only() {
            drop(node);
            shard.context.until_writable().await;
            continue;
        }
        let begun = Instant::now();
        let (done, errors) = act(&node, id, &record, again).await;
        record.done += done;
        record.failed += errors.len() as u64;
        record.errors.extend(errors);
        record.errors.truncate(ERRORS_MAX);
        // Nobody else is slowed down by it: so many a second.
        let pause = Duration::from_secs(1) * record.under_way.len() as u32 / node.0.settings.batch_rate.max(1);
        let worked = !record.under_way.is_empty();
        record.under_way.clear();
        if record.found_all {
            record.finished_at_ms = Some(shard.context.group.now_ms());
        } else {
            find(&node, &mut record).await?;
        }
        let cluster = node.running()?.cluster.clone();
        drop(node);
        // Unless it was stopped meanwhile: then what was done is counted all the same.
        if !batches::write(&cluster, shard, id, Some(stored), &record).await? {
            return stopped(&cluster, shard, id, record).await;
        }
        again = false;
        if worked {
            tokio::time::sleep_until(begun + pause).await;
        }
    }
}

/// It was stopped while it was at work.
async fn stopped<E: Environment>(
    cluster: &Cluster<E>,
    shard: &Arc<Shard<E>>,
    id: &str,
    counted: BatchRecord,
) -> Result<()> {
    let (stored, record) = batches::read(shard, id)?;
    let BatchRecord { done, failed, errors, .. } = counted;
    let record = BatchRecord { done, failed, errors, under_way: Vec::new(), ..record };
    batches::write(cluster, shard, id, Some(stored), &record).await.map(drop)
}

/// Finds the next executions, and where to go on.
async fn find<E: Environment>(engine: &Engine<E>, record: &mut BatchRecord) -> Result<()> {
    while record.under_way.is_empty() && !record.found_all {
        let page = engine.list(batches::filter(record, AT_ONCE)).await?;
        record.under_way = page.executions.into_iter().map(|summary| summary.execution_id).collect();
        record.found_all = page.next_cursor.is_none();
        record.cursor = page.next_cursor;
    }
    Ok(())
}

/// Acts on those that are written down; returns how often it was done, and what could not be done.
async fn act<E: Environment>(
    engine: &Engine<E>,
    batch: &str,
    record: &BatchRecord,
    again: bool,
) -> (u64, Vec<BatchError>) {
    let Some(action) = &record.action else {
        let unknown = |id: &String| BatchError {
            execution_id: id.clone(),
            code: Code::Internal.to_string(),
            message: "the batch was written by a newer release".to_owned(),
        };
        return (0, record.under_way.iter().map(unknown).collect());
    };
    let acts = record.under_way.iter().cloned().map(|id: String| async move {
        let outcome = persistently(engine, batch, action, &id).await;
        (id, outcome)
    });
    let outcomes: Vec<_> = futures::stream::iter(acts).buffered(SIDE_BY_SIDE).collect().await;
    let (mut done, mut errors) = (0, Vec::new());
    for (id, outcome) in outcomes {
        match outcome {
            Ok(()) => done += 1,
            Err(error) if again && is_done_before(action, error.code) => done += 1,
            Err(error) => {
                errors.push(BatchError { execution_id: id, code: error.code.to_string(), message: error.message })
            }
        }
    }
    (done, errors)
}

/// Whether an error says that the action was done before a restart.
fn is_done_before(action: &Action, code: Code) -> bool {
    matches!((action, code), (Action::Redrive(_), Code::NotRedrivable) | (Action::Delete(_), Code::NotFound))
}

/// Asks until there is an answer that stands.
async fn persistently<E: Environment>(engine: &Engine<E>, batch: &str, action: &Action, id: &str) -> Result<()> {
    let mut pause = AGAIN;
    for _ in 1..TRIES {
        match ask(engine, batch, action, id).await {
            Err(Error { code: Code::NoLeader | Code::Overloaded | Code::OutcomeUnknown, .. }) => {
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
            answer => return answer,
        }
    }
    ask(engine, batch, action, id).await
}

async fn ask<E: Environment>(engine: &Engine<E>, batch: &str, action: &Action, id: &str) -> Result<()> {
    let running = engine.running()?;
    match action {
        Action::Cancel(cancel) => {
            let (reason, force) = (cancel.reason.clone(), cancel.force);
            engine.request(&running, id, Request::Cancel { reason, force }).await.map(drop)
        }
        Action::Pause(_) => engine.request(&running, id, Request::Pause).await.map(drop),
        Action::Resume(_) => engine.request(&running, id, Request::Resume).await.map(drop),
        Action::Redrive(redrive) => {
            let output = redrive.output.as_deref().map(payload).transpose()?;
            let steps = redrive.has_steps.then(|| redrive.steps.clone());
            let action = redrive.action.clone();
            engine.asked_to_redrive(Redrive { execution_id: id.to_owned(), steps, action, output }).await.map(drop)
        }
        Action::Signal(signal) => {
            let signal = SendSignal {
                execution_id: id.to_owned(),
                signal: signal.name.clone(),
                payload: payload(&signal.payload)?,
                dedup_id: Some(format!("batch:{batch}")),
                start: None,
            };
            engine.signal(signal).await.map(drop)
        }
        Action::Delete(_) => engine.request(&running, id, Request::Remove).await.map(drop),
    }
}

fn payload(json: &[u8]) -> Result<Payload> {
    let text = std::str::from_utf8(json).map_err(of_storage)?;
    Payload::parse(text).map_err(of_storage)
}
