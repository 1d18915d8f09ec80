//! One action on many executions: asked for, looked at, stopped. `batch` carries them out.

use orbit_proto::engine::batch_record::Action;
use orbit_proto::engine::{
    BatchCancel, BatchDelete, BatchFilter, BatchPause, BatchRecord, BatchRedrive, BatchResume, BatchSignal,
};
use orbit_proto::store::{Precondition, RowEquals, precondition::Check};
use orbit_raft::{Environment, Part, Write};

use super::commands::{redrive_action, valid_name};
use super::{Engine, Shard, valid_id};
use crate::api::{BatchAction, BatchFault, BatchStarted, BatchState, ListExecutions, Redrive, StartBatch};
use crate::error::{Code, Error, Result};
use crate::failure::{of_storage, read_only};
use crate::read::status_word;
use crate::remote::Cluster;
use crate::table;

/// Batches that are not done, per shard.
const OPEN_MAX: usize = 100;
/// What applying does not look at: it tells a reader of a log whose part it is.
const PART_BATCH: u32 = 6;

impl<E: Environment> Engine<E> {
    /// Begins an action on all executions that fit a filter and exist by now; with `dry_run` they are only counted.
    ///
    /// # Errors
    /// `INVALID_REQUEST` for a filter that says nothing or an action that makes no sense, `OVERLOADED` when too many
    /// batches are under way.
    pub async fn start_batch(&self, request: StartBatch) -> Result<BatchStarted> {
        let filter = ListExecutions { limit: 0, cursor: None, ..request.filter };
        if filter == ListExecutions::default() {
            let message = "the filter says nothing; name at least one condition, as since: 0 for all executions";
            return Err(Error::new(Code::InvalidRequest, message));
        }
        valid_action(&request.action)?;
        let (total, at_least) = self.count(filter.clone()).await?;
        if request.dry_run {
            return Ok(BatchStarted { batch_id: None, total, at_least });
        }
        let running = self.running()?;
        let id = self.new_id(&running);
        let shard = running.shard(&id);
        let group = &shard.context.group;
        running.cluster.read_index(group, None).await?;
        if shard.context.is_read_only() && !matches!(request.action, BatchAction::Delete) {
            return Err(read_only());
        }
        let open = group.read(|reader| reader.range(&table::batches(), usize::MAX)).map_err(of_storage)?;
        let is_open = |value: &[u8]| {
            table::decode::<BatchRecord>("batches", value).is_ok_and(|record| record.finished_at_ms.is_none())
        };
        if open.iter().filter(|(_, value)| is_open(value)).count() >= OPEN_MAX {
            return Err(Error::new(Code::Overloaded, "too many batches are under way; repeat the call later"));
        }
        let created_at_ms = group.now_ms();
        let record = BatchRecord {
            filter: Some(stored_filter(&filter, created_at_ms)),
            action: Some(stored_action(request.action)),
            created_at_ms,
            total,
            at_least,
            ..BatchRecord::default()
        };
        write(&running.cluster, &shard, &id, None, &record).await?;
        shard.context.batches.notify_one();
        Ok(BatchStarted { batch_id: Some(id), total, at_least })
    }

    /// How far a batch is.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub async fn batch(&self, id: &str) -> Result<BatchState> {
        let (shard, _) = self.read(id).await?;
        let (_, record) = read(&shard, id)?;
        Ok(state(id, record))
    }

    /// Stops a batch: what is being worked on is finished, nothing more is begun. Of one that is done nothing changes.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub async fn stop_batch(&self, id: &str) -> Result<BatchState> {
        let running = self.running()?;
        let id = valid_id(id.to_owned())?;
        let shard = running.shard(&id);
        loop {
            running.cluster.read_index(&shard.context.group, None).await?;
            let (stored, mut record) = read(&shard, &id)?;
            if record.finished_at_ms.is_some() {
                return Ok(state(&id, record));
            }
            record.stopped = true;
            record.finished_at_ms = Some(shard.context.group.now_ms());
            if write(&running.cluster, &shard, &id, Some(stored), &record).await? {
                return Ok(state(&id, record));
            }
        }
    }
}

fn valid_action(action: &BatchAction) -> Result<()> {
    match action {
        BatchAction::Signal { name, .. } => valid_name("the name of a signal", name),
        BatchAction::Redrive { steps, action, output } => {
            let (steps, action, output) = (steps.clone(), action.clone(), output.clone());
            redrive_action(&Redrive { execution_id: String::new(), steps, action, output }).map(drop)
        }
        _ => Ok(()),
    }
}

/// A batch as it is stored, byte for byte, and what it says.
pub(super) fn read<E: Environment>(shard: &Shard<E>, id: &str) -> Result<(bytes::Bytes, BatchRecord)> {
    let stored = shard.context.group.read(|reader| reader.get(&table::batch(id))).map_err(of_storage)?;
    let stored = stored.ok_or_else(|| Error::new(Code::NotFound, format!("there is no batch {id}; check the id")))?;
    let record = table::decode("batches", &stored).map_err(of_storage)?;
    Ok((stored, record))
}

/// Writes a batch if it is still as it was stored; tells whether it was.
pub(super) async fn write<E: Environment>(
    cluster: &Cluster<E>,
    shard: &Shard<E>,
    id: &str,
    stored: Option<bytes::Bytes>,
    record: &BatchRecord,
) -> Result<bool> {
    let key = table::batch(id);
    let check = match stored {
        Some(value) => Check::RowEquals(RowEquals { key: key.clone().into(), value }),
        None => Check::RowAbsent(key.clone().into()),
    };
    let mut writes: Vec<Write> = vec![table::put(key, table::encode(record))];
    if let Some(finished_at_ms) = record.finished_at_ms {
        let subject = crate::expiry::Subject::Batch { id: id.to_owned() };
        let due_ms = finished_at_ms.saturating_add(shard.context.retention_ms);
        writes.push(crate::expiry::hint(due_ms, &subject, finished_at_ms));
    }
    let preconditions = vec![Precondition { check: Some(check) }];
    let part = Part { kind: PART_BATCH, preconditions, writes, ..Part::default() };
    let applied = cluster.propose(&shard.context.group, id, vec![part]).await?;
    Ok(applied.iter().all(|applied| *applied))
}

fn state(id: &str, record: BatchRecord) -> BatchState {
    let fault = |error: orbit_proto::engine::BatchError| BatchFault {
        execution_id: error.execution_id,
        code: error.code,
        message: error.message,
    };
    BatchState {
        batch_id: id.to_owned(),
        action: action_word(record.action.as_ref()),
        status: if record.finished_at_ms.is_some() { "DONE" } else { "RUNNING" },
        stopped: record.stopped,
        total: record.total,
        at_least: record.at_least,
        done: record.done,
        failed: record.failed,
        errors: record.errors.into_iter().map(fault).collect(),
        created_at_ms: record.created_at_ms,
        finished_at_ms: record.finished_at_ms,
    }
}

fn action_word(action: Option<&Action>) -> &'static str {
    match action {
        Some(Action::Cancel(_)) => "cancel",
        Some(Action::Pause(_)) => "pause",
        Some(Action::Resume(_)) => "resume",
        Some(Action::Redrive(_)) => "redrive",
        Some(Action::Signal(_)) => "signal",
        Some(Action::Delete(_)) => "delete",
        None => "unknown",
    }
}

fn stored_action(action: BatchAction) -> Action {
    match action {
        BatchAction::Cancel { reason, force } => Action::Cancel(BatchCancel { reason, force }),
        BatchAction::Pause => Action::Pause(BatchPause {}),
        BatchAction::Resume => Action::Resume(BatchResume {}),
        BatchAction::Redrive { steps, action, output } => Action::Redrive(BatchRedrive {
            action,
            output: output.map(|output| output.as_str().to_owned().into()),
            has_steps: steps.is_some(),
            steps: steps.unwrap_or_default(),
        }),
        BatchAction::Signal { name, payload } => {
            Action::Signal(BatchSignal { name, payload: payload.as_str().to_owned().into() })
        }
        BatchAction::Delete => Action::Delete(BatchDelete {}),
    }
}

/// Those that are created after the batch are spared.
fn stored_filter(filter: &ListExecutions, created_at_ms: u64) -> BatchFilter {
    let until_ms = filter.until_ms.map_or(created_at_ms + 1, |until_ms| until_ms.min(created_at_ms + 1));
    BatchFilter {
        status: filter.status.map(str::to_owned),
        workflow: filter.workflow.clone(),
        version: filter.version.clone(),
        since_ms: filter.since_ms,
        until_ms: Some(until_ms),
        attention: filter.attention,
        attributes: filter.attributes.clone(),
    }
}

/// The filter of a batch, from a place on.
pub(super) fn filter(record: &BatchRecord, limit: usize) -> ListExecutions {
    let filter = record.filter.clone().unwrap_or_default();
    ListExecutions {
        status: filter.status.as_deref().and_then(status_word),
        workflow: filter.workflow,
        version: filter.version,
        since_ms: filter.since_ms,
        until_ms: filter.until_ms,
        attention: filter.attention,
        attributes: filter.attributes,
        limit,
        cursor: record.cursor.clone(),
    }
}
