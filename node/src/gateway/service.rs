//! Every operation once: who may, what fits, and then the engine.

use std::sync::Arc;
use std::time::Duration;

use orbit_actors::api::{
    Alive, Complete, ExecutionPage, ExecutionState, Fail, HistoryPage, ListExecutions, NodeCondition, QueryAnswer,
    Redrive, Register, Registered, RegisteredWorkflow, ResultAnswer, RunSummary, SendSignal, ShardHealth, Signalled,
    StartExecution, Started, StoredWorkflow, Task, TaskAlive, UnitPage, WorkerSummary, WorkflowSummary,
};
use orbit_actors::engine::{Connection, Engine};
use orbit_actors::error::{Code, Error, Result};
use orbit_raft::Environment;
use serde::Serialize;
use tokio::sync::watch;
use workflow::document::Format;
use workflow::value::Payload;

use super::audit::{self, Deed};
use super::caller::{Action, Caller, authorize};
use super::counters::Counters;
use super::validate;

/// How many executions or events a page holds when nothing is said, and at most.
const LIST: (u64, u64) = (50, 1_000);
const HISTORY: (u64, u64) = (1_000, 10_000);
/// How long a call waits when nothing is said, and at most, in ms.
const WAIT_MS: (u64, u64) = (30_000, 300_000);
const POLL_MS: (u64, u64) = (20_000, 60_000);
const QUERY_MS: (u64, u64) = (0, 300_000);
/// How many tasks one answer brings at most.
const TASKS_MAX: u64 = 100;

/// How far the node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It opens its data.
    Starting,
    /// It takes requests.
    Started,
    /// It takes no new work and finishes what it has.
    Draining,
}

/// What the gateway itself enforces.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The longest input, output or details.
    pub payload_bytes_max: usize,
    /// The longest request.
    pub request_bytes_max: usize,
}

/// What a service stands on.
#[derive(Debug)]
pub struct Parts<E: Environment> {
    /// Does the work.
    pub engine: Engine<E>,
    /// What is enforced here.
    pub limits: Limits,
    /// What the node is called.
    pub node: String,
    /// How far it is.
    pub standing: watch::Receiver<Standing>,
    /// Set to tell the node to go away.
    pub drain: watch::Sender<bool>,
    /// What is counted.
    pub counters: Arc<Counters>,
}

/// Every operation of a node. A clone is another handle to the same.
#[derive(Debug)]
pub struct Service<E: Environment>(pub(super) Arc<Parts<E>>);

impl<E: Environment> Clone for Service<E> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// How a node is.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)] // as in docs/api.md
pub struct Health {
    pub status: &'static str,
    pub api_version: &'static str,
    pub runtime_version: &'static str,
    pub ir_versions: [&'static str; 3],
    pub active_executions: u64,
    pub worker_sessions: u64,
    /// For the metrics alone.
    #[serde(skip)]
    pub broken_executions: u64,
    #[serde(skip)]
    pub awake_executions: u64,
    #[serde(skip)]
    pub removed_runs: u64,
    #[serde(skip)]
    pub long_histories: u64,
    #[serde(skip)]
    pub disk_available_bytes: u64,
    pub node: String,
    pub condition: NodeCondition,
    pub shards: Vec<ShardHealth>,
}

impl Health {
    /// Whether it takes requests.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.status == "ok"
    }
}

/// A wish as a number within its bounds: the default if absent, cut to the maximum, refused below 1.
fn within(field: &str, wish: Option<u64>, (default, max): (u64, u64)) -> Result<u64> {
    match wish {
        Some(0) => validate::refused(format!("`{field}` is 0; ask for at least 1")),
        wish => Ok(wish.unwrap_or(default).min(max)),
    }
}

fn wait(wish: Option<u64>, (default, max): (u64, u64)) -> Duration {
    Duration::from_millis(wish.unwrap_or(default).min(max))
}

#[allow(missing_docs)] // each is the operation of the engine with the same name
impl<E: Environment> Service<E> {
    /// A service over an engine.
    #[must_use]
    pub fn new(parts: Parts<E>) -> Self {
        Self(Arc::new(parts))
    }

    pub(super) fn engine(&self) -> &Engine<E> {
        &self.0.engine
    }

    pub fn limits(&self) -> Limits {
        self.0.limits
    }

    pub fn counters(&self) -> &Counters {
        &self.0.counters
    }

    /// Until the node goes away: who waits for something hears what there is by then, and asks elsewhere.
    async fn draining(&self) {
        let mut standing = self.0.standing.clone();
        // Nobody is left who could say so: the node has gone.
        let _ = standing.wait_for(|standing| *standing == Standing::Draining).await;
    }

    pub(super) fn payload(&self, field: &str, payload: &Payload) -> Result<()> {
        validate::payload(field, payload, self.0.limits.payload_bytes_max)
    }

    // ---- the node

    /// Needs no authority.
    pub fn health(&self) -> Health {
        let status = match *self.0.standing.borrow() {
            Standing::Draining => "draining",
            Standing::Started if *self.engine().ready().borrow() => "ok",
            _ => "starting",
        };
        let condition = self.engine().condition();
        Health {
            status,
            api_version: super::API_VERSION,
            runtime_version: env!("CARGO_PKG_VERSION"),
            ir_versions: ["orbit-ir/1", "orbit-ir/2", "orbit-ir/3"],
            active_executions: self.engine().active_executions(),
            worker_sessions: self.engine().worker_sessions(),
            broken_executions: self.engine().broken_executions() as u64,
            awake_executions: self.engine().awake_executions(),
            removed_runs: self.engine().removed_runs(),
            long_histories: self.engine().long_histories(),
            disk_available_bytes: condition.disk_available_bytes,
            node: self.0.node.clone(),
            condition: NodeCondition::from(condition),
            shards: self.engine().shards(),
        }
    }

    pub fn metrics(&self, caller: Caller) -> Result<String> {
        authorize(caller, Action::Inspect)?;
        Ok(self.0.counters.text(&self.health()))
    }

    // ---- definitions

    pub async fn deploy(&self, caller: Caller, source: &str, format: Format) -> Result<Vec<RegisteredWorkflow>> {
        authorize(caller, Action::Deploy)?;
        self.engine().deploy(source, format).await
    }

    pub async fn workflows(&self, caller: Caller) -> Result<Vec<WorkflowSummary>> {
        authorize(caller, Action::List)?;
        self.engine().workflows().await
    }

    pub async fn workflow(&self, caller: Caller, name: &str, version: Option<&str>) -> Result<StoredWorkflow> {
        authorize(caller, Action::Read)?;
        validate::name("name", name)?;
        if let Some(version) = version {
            validate::name("version", version)?;
        }
        self.engine().workflow(name, version).await
    }

    // ---- executions

    pub async fn start(&self, caller: Caller, request: StartExecution) -> Result<Started> {
        authorize(caller, Action::Start)?;
        self.is_start(&request)?;
        self.engine().start(request).await
    }

    fn is_start(&self, request: &StartExecution) -> Result<()> {
        validate::start(request)?;
        self.payload("input", &request.input)
    }

    pub async fn list(&self, caller: Caller, request: ListExecutions, limit: Option<u64>) -> Result<ExecutionPage> {
        authorize(caller, Action::List)?;
        let limit = within("limit", limit, LIST)?;
        self.engine().list(ListExecutions { limit: limit as usize, ..validate::filter(request)? }).await
    }

    /// How many, and whether there may be more than were looked at.
    pub async fn count(&self, caller: Caller, request: ListExecutions) -> Result<(u64, bool)> {
        authorize(caller, Action::List)?;
        self.engine().count(validate::filter(request)?).await
    }

    pub async fn show(&self, caller: Caller, id: &str, run: Option<u32>) -> Result<ExecutionState> {
        self.reads(caller, id)?;
        self.engine().show(id, run).await
    }

    pub async fn units(
        &self,
        caller: Caller,
        id: &str,
        run: Option<u32>,
        prefix: &str,
        cursor: Option<&str>,
    ) -> Result<UnitPage> {
        self.reads(caller, id)?;
        validate::text("prefix", prefix)?;
        if let Some(cursor) = cursor {
            validate::opaque("cursor", cursor)?;
        }
        self.engine().units(id, run, prefix, cursor).await
    }

    pub async fn input(&self, caller: Caller, id: &str, run: Option<u32>) -> Result<Payload> {
        self.reads(caller, id)?;
        self.engine().input(id, run).await
    }

    pub async fn output(&self, caller: Caller, id: &str, run: Option<u32>) -> Result<Payload> {
        self.reads(caller, id)?;
        self.engine().output(id, run).await
    }

    pub async fn history(
        &self,
        caller: Caller,
        id: &str,
        run: Option<u32>,
        from: Option<u64>,
        limit: Option<u64>,
    ) -> Result<HistoryPage> {
        self.reads(caller, id)?;
        let limit = within("limit", limit, HISTORY)?;
        self.engine().history(id, run, from.unwrap_or(1).max(1), limit as usize).await
    }

    pub async fn runs(&self, caller: Caller, id: &str) -> Result<Vec<RunSummary>> {
        self.reads(caller, id)?;
        self.engine().runs(id).await
    }

    pub async fn wait(&self, caller: Caller, id: &str, timeout_ms: Option<u64>) -> Result<ExecutionState> {
        self.reads(caller, id)?;
        tokio::select! {
            state = self.engine().wait(id, wait(timeout_ms, WAIT_MS)) => state,
            () = self.draining() => self.engine().show(id, None).await,
        }
    }

    pub async fn cancel(&self, caller: Caller, id: &str, reason: &str, force: bool) -> Result<ExecutionState> {
        authorize(caller, Action::Cancel)?;
        validate::known_id(id)?;
        validate::text("reason", reason)?;
        let cancelled = self.engine().cancel(id, reason, force).await;
        if force {
            audit::record(caller, Deed::ForceCancel, id, &cancelled);
        }
        cancelled
    }

    pub async fn delete(&self, caller: Caller, id: &str) -> Result<()> {
        authorize(caller, Action::Delete)?;
        validate::known_id(id)?;
        let deleted = self.engine().delete(id).await;
        audit::record(caller, Deed::Delete, id, &deleted);
        deleted
    }

    /// With a start the caller must be allowed both.
    pub async fn signal(&self, caller: Caller, request: SendSignal) -> Result<Signalled> {
        authorize(caller, Action::Signal)?;
        match &request.start {
            None => validate::known_id(&request.execution_id)?,
            Some(start) => {
                authorize(caller, Action::Start)?;
                validate::new_id(&request.execution_id)?;
                self.is_start(start)?;
            }
        }
        validate::signal("signal", &request.signal)?;
        if let Some(dedup_id) = &request.dedup_id {
            validate::signal("dedup_id", dedup_id)?;
        }
        self.payload("payload", &request.payload)?;
        self.engine().signal(request).await
    }

    pub async fn query(&self, caller: Caller, id: &str, query: &str, wait_ms: Option<u64>) -> Result<QueryAnswer> {
        authorize(caller, Action::Query)?;
        validate::known_id(id)?;
        validate::signal("query", query)?;
        tokio::select! {
            answer = self.engine().query(id, query, wait(wait_ms, QUERY_MS)) => answer,
            () = self.draining() => self.engine().query(id, query, Duration::ZERO).await,
        }
    }

    pub async fn pause(&self, caller: Caller, id: &str) -> Result<ExecutionState> {
        authorize(caller, Action::Pause)?;
        validate::known_id(id)?;
        self.engine().pause(id).await
    }

    pub async fn resume(&self, caller: Caller, id: &str) -> Result<ExecutionState> {
        authorize(caller, Action::Pause)?;
        validate::known_id(id)?;
        self.engine().resume(id).await
    }

    pub async fn redrive(&self, caller: Caller, request: Redrive) -> Result<ExecutionState> {
        authorize(caller, Action::Redrive)?;
        validate::known_id(&request.execution_id)?;
        self.is_redrive(request.steps.as_deref(), request.output.as_ref())?;
        self.engine().redrive(request).await
    }

    pub(super) fn is_redrive(&self, steps: Option<&[String]>, output: Option<&Payload>) -> Result<()> {
        steps.map_or(Ok(()), validate::steps)?;
        output.map_or(Ok(()), |output| self.payload("output", output))
    }

    fn reads(&self, caller: Caller, id: &str) -> Result<()> {
        authorize(caller, Action::Read)?;
        validate::known_id(id)
    }

    // ---- workers

    pub async fn register(&self, caller: Caller, request: Register) -> Result<Registered> {
        authorize(caller, Action::Work)?;
        validate::register(&request)?;
        self.engine().register(request).await
    }

    /// As [`Service::register`], for a stream.
    pub async fn connect(&self, caller: Caller, request: Register) -> Result<Connection> {
        authorize(caller, Action::Work)?;
        validate::register(&request)?;
        self.engine().connect(request).await
    }

    pub async fn heartbeat(&self, caller: Caller, session: &str, tokens: Option<&[String]>) -> Result<Alive> {
        authorize(caller, Action::Work)?;
        validate::opaque("worker_session_id", session)?;
        validate::tokens(tokens.unwrap_or_default())?;
        self.engine().heartbeat(session, tokens).await
    }

    pub async fn poll(
        &self,
        caller: Caller,
        session: &str,
        max_tasks: Option<u64>,
        wait_ms: Option<u64>,
    ) -> Result<Vec<Task>> {
        authorize(caller, Action::Work)?;
        validate::opaque("worker_session_id", session)?;
        let tasks = within("max_tasks", max_tasks, (1, TASKS_MAX))?;
        self.engine().poll(session, tasks as u32, wait(wait_ms, POLL_MS)).await
    }

    pub async fn complete(&self, caller: Caller, request: Complete) -> Result<ResultAnswer> {
        authorize(caller, Action::Work)?;
        validate::opaque("token", &request.token)?;
        more_work(request.worker_session_id.as_deref())?;
        // An output that is too long ends its attempt (language L5): refused here, it would come back for ever.
        let free_slots = request.free_slots.min(TASKS_MAX as u32);
        self.engine().complete(Complete { free_slots, ..request }).await
    }

    pub async fn fail(&self, caller: Caller, request: Fail) -> Result<ResultAnswer> {
        authorize(caller, Action::Work)?;
        validate::opaque("token", &request.token)?;
        validate::error_code(&request.error_code)?;
        validate::text("error_message", &request.error_message)?;
        more_work(request.worker_session_id.as_deref())?;
        if let Some(details) = &request.details {
            self.payload("details", details)?;
        }
        let free_slots = request.free_slots.min(TASKS_MAX as u32);
        self.engine().fail(Fail { free_slots, ..request }).await
    }

    pub async fn task_heartbeat(&self, caller: Caller, token: &str, details: Option<Payload>) -> Result<TaskAlive> {
        authorize(caller, Action::Work)?;
        validate::opaque("token", token)?;
        if let Some(details) = &details {
            self.payload("details", details)?;
        }
        self.engine().task_heartbeat(token, details).await
    }

    pub async fn unregister(&self, caller: Caller, session: &str) -> Result<()> {
        authorize(caller, Action::Work)?;
        validate::opaque("worker_session_id", session)?;
        match self.engine().unregister(session).await {
            // A session that nobody knows is over as well.
            Err(Error { code: Code::UnknownSession, .. }) => Ok(()),
            answer => answer,
        }
    }

    pub async fn workers(&self, caller: Caller) -> Result<Vec<WorkerSummary>> {
        authorize(caller, Action::Inspect)?;
        self.engine().workers().await
    }
}

fn more_work(session: Option<&str>) -> Result<()> {
    session.map_or(Ok(()), |session| validate::opaque("worker_session_id", session))
}
