//! Executions: starting, finding, reading, waiting, cancelling.

use std::sync::Arc;
use std::time::Duration;

use orbit_raft::Environment;
use tokio::time::Instant;
use workflow::value::Payload;

use super::wait::{Wanted, is_over};
use super::{Engine, Running, Shard, odd, valid_id, valid_new_id};
use crate::api::{
    ErrorSummary, ExecutionPage, ExecutionState, HistoryPage, ListExecutions, RunSummary, StartExecution, Started,
    Summary, UnitPage,
};
use crate::error::{Code, Result};
use crate::execution::ask::Start;
use crate::read::{self, Page};
use crate::remote::cluster::Seen;
use crate::remote::{Request, Response};

impl<E: Environment> Engine<E> {
    /// Starts an execution. With an id it may be repeated.
    ///
    /// # Errors
    /// `WORKFLOW_NOT_FOUND`, `INVALID_INPUT`, `INVALID_EXECUTION_ID`, `EXECUTION_EXISTS`, `OVERLOADED` also when the
    /// disk of the node that leads is full.
    pub async fn start(&self, mut request: StartExecution) -> Result<Started> {
        let running = self.running()?;
        let definition = running.definitions.resolve(&request.workflow, request.version.as_deref()).await?;
        let id = match request.execution_id.take() {
            Some(id) => valid_new_id(id)?,
            None => self.new_id(&running),
        };
        let start = Box::new(Start { request, definition });
        match self.request(&running, &id, Request::Start(start)).await? {
            Response::Started(started) => Ok(started),
            _ => Err(odd()),
        }
    }

    /// An id that sorts by time.
    pub(super) fn new_id(&self, running: &Running<E>) -> String {
        let now_ms = running.shards.first().map_or(0, |shard| shard.context.group.now_ms());
        let dice = (self.0.settings.dice.0)();
        let mut random = [0; 10];
        random.copy_from_slice(&dice[..10]);
        uuid::Builder::from_unix_timestamp_millis(now_ms, &random).into_uuid().to_string()
    }

    /// A page of executions, newest first.
    ///
    /// # Errors
    /// `INVALID_REQUEST` for a cursor of another list.
    pub async fn list(&self, request: ListExecutions) -> Result<ExecutionPage> {
        let running = self.running()?;
        let groups = self.all_groups(&running).await?;
        let as_of_ms = groups.iter().map(|group| group.now_ms()).min().unwrap_or(0);
        let summarize = |id: &str| {
            let group = &running.shard(id).context.group;
            let seen = read::load(group, id, None, None)?;
            // A list is in the order in which executions were created, whatever run they are in.
            let created_at_ms = seen.state.head.first_created_at_ms;
            Ok(Summary { created_at_ms, ..read::summary(id, &seen)? })
        };
        let (executions, next_cursor) = read::page(groups.iter(), &request, summarize)?;
        Ok(ExecutionPage { executions, next_cursor, as_of_ms })
    }

    /// How many executions there are, and whether there may be more.
    ///
    /// # Errors
    /// As of all reads.
    pub async fn count(&self, request: ListExecutions) -> Result<(u64, bool)> {
        let groups = self.all_groups(&*self.running()?).await?;
        read::count(groups.iter(), &request)
    }

    async fn all_groups(&self, running: &Running<E>) -> Result<Vec<orbit_raft::Group<E>>> {
        let groups: Vec<_> = running.shards.iter().map(|shard| shard.context.group.clone()).collect();
        let reads = groups.iter().map(|group| running.cluster.read_index(group, None));
        futures::future::try_join_all(reads).await?;
        Ok(groups)
    }

    /// The state of a run; without a number of the newest.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub async fn show(&self, id: &str, run: Option<u32>) -> Result<ExecutionState> {
        let (shard, seen) = self.read(id).await?;
        shown(&shard, id, run, seen)
    }

    /// A page of units whose keys begin with `prefix`.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub async fn units(&self, id: &str, run: Option<u32>, prefix: &str, cursor: Option<&str>) -> Result<UnitPage> {
        let (shard, _) = self.read(id).await?;
        let mut seen = read::load(&shard.context.group, id, run, Some(Page { prefix, after: cursor }))?;
        seen.definition = shard.context.definitions.by_hash(&seen.record.definition_hash)?;
        Ok(read::units(&seen))
    }

    /// The input alone.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub async fn input(&self, id: &str, run: Option<u32>) -> Result<Payload> {
        let (shard, _) = self.read(id).await?;
        read::payload_of(&shard.context.group, id, run, |state| state.head.input.clone())
    }

    /// The output alone; null while there is none.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub async fn output(&self, id: &str, run: Option<u32>) -> Result<Payload> {
        let (shard, _) = self.read(id).await?;
        read::payload_of(&shard.context.group, id, run, |state| state.head.output.clone())
    }

    /// Events from `from` on, as many as are wanted and fit into an answer.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub async fn history(&self, id: &str, run: Option<u32>, from: u64, limit: usize) -> Result<HistoryPage> {
        let (shard, _) = self.read(id).await?;
        let group = &shard.context.group;
        let run = read::run_number(group, id, run)?;
        read::history(group, id, run, from, limit)
    }

    /// All runs of an execution, oldest first.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub async fn runs(&self, id: &str) -> Result<Vec<RunSummary>> {
        let (shard, _) = self.read(id).await?;
        read::runs(&shard.context.group, id)
    }

    /// The state as soon as the execution is over, or at the time-out. Follows runs.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub async fn wait(&self, id: &str, timeout: Duration) -> Result<ExecutionState> {
        let until = Instant::now() + timeout;
        let key: Arc<str> = Arc::from(id);
        loop {
            let (shard, seen) = self.read(id).await?;
            if is_over(&shard.context.group, id)? || Instant::now() >= until {
                return shown(&shard, id, None, seen);
            }
            // At the time-out the state is read once more.
            self.happened(&shard, &key, Wanted::End, until).await?;
        }
    }

    /// Removes an execution that is over, with all its runs and everything that is remembered of it. Children stay.
    ///
    /// # Errors
    /// `NOT_FOUND`, `EXECUTION_RUNNING`.
    pub async fn delete(&self, id: &str) -> Result<()> {
        let running = self.running()?;
        let id = valid_id(id.to_owned())?;
        self.request(&running, &id, Request::Remove).await?;
        Ok(())
    }

    /// Asks an execution to stop and undo what it did.
    ///
    /// # Errors
    /// `NOT_FOUND`, `EXECUTION_FINISHED`.
    pub async fn cancel(&self, id: &str, reason: &str, force: bool) -> Result<ExecutionState> {
        let running = self.running()?;
        let reason = reason.to_owned();
        self.request(&running, &valid_id(id.to_owned())?, Request::Cancel { reason, force }).await?;
        self.show(id, None).await
    }
}

/// The state of a run with what only the leader knows of it.
fn shown<E: Environment>(shard: &Shard<E>, id: &str, run: Option<u32>, of_leader: Seen) -> Result<ExecutionState> {
    let group = &shard.context.group;
    let mut seen = read::load_for_show(group, id, run)?;
    seen.definition = shard.context.definitions.by_hash(&seen.record.definition_hash)?;
    let mut state = read::show(id, &seen, || read::units_total(group, id, seen.run))?;
    let broken = of_leader.broken.or_else(|| shard.context.broken.message(id));
    if let Some(message) = broken.filter(|_| !seen.state.is_over()) {
        state.internal_error = Some(ErrorSummary { code: Code::Internal.as_str().to_owned(), message });
    }
    Ok(state)
}
