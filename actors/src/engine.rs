//! A node's engine: every operation, whichever surface it came through.

use std::sync::Arc;
use std::time::Duration;

use orbit_raft::{Environment, RaftNode};
use tokio::sync::watch;

use crate::api::{
    Alive, Complete, ExecutionPage, ExecutionState, Fail, HistoryPage, ListExecutions, Register, Registered,
    RegisteredWorkflow, ResultAnswer, RunSummary, ShardHealth, StartExecution, Started, StoredWorkflow, Task,
    TaskAlive, UnitPage, WorkerSummary, WorkflowSummary,
};
pub use crate::desk::Connection;
use crate::error::{Code, Error, Result};
use workflow::document::Format;
use workflow::value::Payload;

/// How an engine is tuned.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many shards a new cluster gets; an old one keeps what it has.
    pub shards: u16,
    /// How often workers send heartbeats.
    pub heartbeat_interval: Duration,
    /// After how long a silence a session is lost.
    pub session_timeout: Duration,
    /// Without a receipt for this long a task is taken back.
    pub receipt_timeout: Duration,
    /// How many executions are kept alive per shard.
    pub alive_max: usize,
    /// How many commands wait per shard before calls are refused with `OVERLOADED`.
    pub in_flight_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            shards: 16,
            heartbeat_interval: Duration::from_secs(5),
            session_timeout: Duration::from_secs(30),
            receipt_timeout: Duration::from_secs(2),
            alive_max: 1_250,
            in_flight_max: 4_096,
        }
    }
}

/// A clone is another handle to the same engine.
#[derive(Debug)]
pub struct Engine<E: Environment>(Arc<Inner<E>>);

#[derive(Debug)]
struct Inner<E: Environment> {
    node: RaftNode<E>,
}

impl<E: Environment> Clone for Engine<E> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

fn not_yet<T>() -> Result<T> {
    Err(Error::new(Code::Internal, "not built yet"))
}

#[allow(clippy::unused_async, unused_variables, missing_docs)]
impl<E: Environment> Engine<E> {
    /// Opens the groups of a node: the one above the shards, and the shards. `create`: a cluster of this one node is
    /// made first if there is none.
    pub async fn open(node: RaftNode<E>, settings: Settings, create: bool) -> Result<Self> {
        Ok(Self(Arc::new(Inner { node })))
    }

    /// Becomes true once every shard may decide; reads and writes before wait for it.
    pub fn ready(&self) -> watch::Receiver<bool> {
        watch::channel(true).1
    }

    /// Takes no new polls, tells streams to go elsewhere, finishes what is under way, stops the groups.
    pub async fn shutdown(&self) {}

    // ---- definitions

    /// Registers all documents of a source or none.
    pub async fn deploy(&self, source: &str, format: Format) -> Result<Vec<RegisteredWorkflow>> {
        not_yet()
    }

    pub async fn workflows(&self) -> Result<Vec<WorkflowSummary>> {
        not_yet()
    }

    /// Without a version the latest.
    pub async fn workflow(&self, name: &str, version: Option<&str>) -> Result<StoredWorkflow> {
        not_yet()
    }

    // ---- executions

    pub async fn start(&self, request: StartExecution) -> Result<Started> {
        not_yet()
    }

    pub async fn list(&self, request: ListExecutions) -> Result<ExecutionPage> {
        not_yet()
    }

    pub async fn count(&self, request: ListExecutions) -> Result<(u64, bool)> {
        not_yet()
    }

    pub async fn show(&self, id: &str, run: Option<u32>) -> Result<ExecutionState> {
        not_yet()
    }

    pub async fn units(&self, id: &str, run: Option<u32>, prefix: &str, cursor: Option<&str>) -> Result<UnitPage> {
        not_yet()
    }

    pub async fn input(&self, id: &str, run: Option<u32>) -> Result<Payload> {
        not_yet()
    }

    /// Null while there is none.
    pub async fn output(&self, id: &str, run: Option<u32>) -> Result<Payload> {
        not_yet()
    }

    pub async fn history(&self, id: &str, run: Option<u32>, from: u64, limit: usize) -> Result<HistoryPage> {
        not_yet()
    }

    pub async fn runs(&self, id: &str) -> Result<Vec<RunSummary>> {
        not_yet()
    }

    /// The state as soon as it is over, or at the time-out.
    pub async fn wait(&self, id: &str, timeout: Duration) -> Result<ExecutionState> {
        not_yet()
    }

    pub async fn cancel(&self, id: &str, reason: &str, force: bool) -> Result<ExecutionState> {
        not_yet()
    }

    // ---- workers

    pub async fn register(&self, request: Register) -> Result<Registered> {
        not_yet()
    }

    pub async fn heartbeat(&self, session: &str, tokens: Option<&[String]>) -> Result<Alive> {
        not_yet()
    }

    /// Waits for tasks. If the future is dropped, what was about to be handed over is taken back.
    pub async fn poll(&self, session: &str, max_tasks: u32, wait: Duration) -> Result<Vec<Task>> {
        not_yet()
    }

    pub async fn complete(&self, request: Complete) -> Result<ResultAnswer> {
        not_yet()
    }

    pub async fn fail(&self, request: Fail) -> Result<ResultAnswer> {
        not_yet()
    }

    pub async fn task_heartbeat(&self, token: &str, details: Option<Payload>) -> Result<TaskAlive> {
        not_yet()
    }

    pub async fn unregister(&self, session: &str) -> Result<()> {
        not_yet()
    }

    /// Registers or resumes a session and binds a stream to it.
    pub async fn connect(&self, request: Register) -> Result<Connection> {
        not_yet()
    }

    pub async fn workers(&self) -> Result<Vec<WorkerSummary>> {
        not_yet()
    }

    // ---- the node

    pub fn shards(&self) -> Vec<ShardHealth> {
        Vec::new()
    }

    /// Executions that are not over, on the shards led here.
    pub fn active_executions(&self) -> u64 {
        0
    }

    pub fn worker_sessions(&self) -> u64 {
        0
    }
}
