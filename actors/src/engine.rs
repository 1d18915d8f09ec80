//! A node's engine: every operation, whichever surface it came through.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use orbit_raft::node::StillOpen;
use orbit_raft::{Environment, Leadership, PeerAddress, RaftNode};
use ractor::{Actor, ActorRef};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use workflow::command::{self, Token};
use workflow::document::Format;
use workflow::event::TaskError;
use workflow::state::RunStatus;
use workflow::value::Payload;

use crate::api::{
    Alive, Complete, ExecutionPage, ExecutionState, Fail, HistoryPage, ListExecutions, Register, Registered,
    RegisteredWorkflow, ResultAnswer, RunSummary, ShardHealth, StartExecution, Started, StoredWorkflow, Task,
    TaskAlive, UnitPage, WorkerSummary, WorkflowSummary,
};
use crate::definitions::Definitions;
pub use crate::desk::Connection;
use crate::desk::{Desk, DeskSettings, Poll};
use crate::error::{Code, Error, Result};
use crate::execution::ask::Start;
use crate::failure::{of_read, outcome_unknown};
use crate::execution::{Reply, What};
use crate::found;
use crate::read;
use crate::shard::{Context, Dice, ShardMsg, shard_of};
use crate::supervisor::{Shard, Supervisor};
use crate::warnings;

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
    /// How many executions are kept awake per shard.
    pub alive_max: usize,
    /// … and about how many bytes they may have.
    pub alive_bytes_max: usize,
    /// How many commands wait per shard before calls are refused with `OVERLOADED`.
    pub in_flight_max: usize,
    /// How long a call waits for a shard that has no leader.
    pub leader_timeout: Duration,
    /// Where randomness comes from.
    pub dice: Dice,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            shards: 16,
            heartbeat_interval: Duration::from_secs(5),
            session_timeout: Duration::from_secs(30),
            receipt_timeout: Duration::from_secs(2),
            alive_max: 1_250,
            alive_bytes_max: 16 << 20,
            in_flight_max: 4_096,
            leader_timeout: Duration::from_secs(5),
            dice: Dice::default(),
        }
    }
}

/// Tasks that wait, per queue and shard, are kept in memory up to this many.
const WINDOW_MAX: usize = 1_000;
/// How often the desk looks at its time-outs at least.
const TICK: Duration = Duration::from_millis(200);
/// The longest id of an execution.
const ID_MAX: usize = 200;

/// A clone is another handle to the same engine.
pub struct Engine<E: Environment>(Arc<Inner<E>>);

struct Inner<E: Environment> {
    node: Mutex<Option<RaftNode<E>>>,
    /// Gone once the engine is shut down.
    running: RwLock<Option<Arc<Running<E>>>>,
    settings: Settings,
    ready: watch::Sender<bool>,
}

/// Everything that ends with the engine.
struct Running<E: Environment> {
    desk: Desk,
    definitions: Definitions<E>,
    shards: Vec<Arc<Shard<E>>>,
    supervisor: ActorRef<()>,
    ticker: JoinHandle<()>,
}

impl<E: Environment> Drop for Running<E> {
    fn drop(&mut self) {
        self.ticker.abort();
    }
}

impl<E: Environment> Clone for Engine<E> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<E: Environment> fmt::Debug for Engine<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Engine")
    }
}

impl<E: Environment> Engine<E> {
    /// Opens the groups of a node: the one above the shards, and the shards. With `create` a cluster of this one node,
    /// which its peers would reach there, is made first if there is none.
    ///
    /// # Errors
    /// The groups do not open, or there is no cluster.
    pub async fn open(node: RaftNode<E>, settings: Settings, create: Option<PeerAddress>) -> Result<Self> {
        let founded = found::open(&node, &settings, create).await?;
        let desk = Desk::new(DeskSettings {
            heartbeat_interval: settings.heartbeat_interval,
            session_timeout: settings.session_timeout,
            receipt_timeout: settings.receipt_timeout,
            window_max: WINDOW_MAX,
        });
        let definitions = Definitions::new(founded.meta);
        // The number of shards is a u16.
        let count = founded.shards.len() as u16;
        let shard = |(number, group): (usize, orbit_raft::Group<E>)| {
            let (number, desk, definitions) = ((number as u16, count), desk.clone(), definitions.clone());
            let context = Context::new(number, group, desk, definitions, settings.dice, settings.in_flight_max);
            Arc::new(Shard {
                context: Arc::new(context),
                actor: watch::Sender::new(None),
                leads: watch::Sender::new(false),
                alive_max: settings.alive_max,
                alive_bytes_max: settings.alive_bytes_max,
            })
        };
        let shards: Vec<_> = founded.shards.into_iter().enumerate().map(shard).collect();
        let spawned = Actor::spawn(None, Supervisor::<E>::default(), shards.clone()).await;
        let (supervisor, _) = spawned.map_err(|error| Error::new(Code::Internal, error.to_string()))?;
        let ticker = tokio::spawn(tick(desk.clone()));
        let ready = watch::Sender::new(false);
        tokio::spawn(become_ready(shards.clone(), ready.clone()));
        let running = Running { desk, definitions, shards, supervisor, ticker };
        let (node, running) = (Mutex::new(Some(node)), RwLock::new(Some(Arc::new(running))));
        Ok(Self(Arc::new(Inner { node, running, settings, ready })))
    }

    /// Becomes true once every shard may decide; reads and writes before wait for it.
    pub fn ready(&self) -> watch::Receiver<bool> {
        self.0.ready.subscribe()
    }

    /// Takes no new polls and tells streams to go elsewhere; what is under way goes on.
    pub fn drain(&self) {
        if let Ok(running) = self.running() {
            running.desk.drain();
        }
    }

    /// Stops everything and closes the data. What is under way ends with an unknown outcome.
    ///
    /// # Errors
    /// Something still holds the data open: end the process by [`orbit_raft::disk::end_process`].
    pub async fn shutdown(&self) -> Result<(), StillOpen> {
        self.drain();
        let running = self.0.running.write().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(running) = running {
            self.0.ready.send_replace(false);
            for shard in &running.shards {
                let actor = shard.actor.borrow().clone();
                if let Some(actor) = actor {
                    // One that has stopped already is as good.
                    let _ = actor.stop_and_wait(None, Some(Duration::from_secs(5))).await;
                }
            }
            let _ = running.supervisor.stop_and_wait(None, Some(Duration::from_secs(5))).await;
        }
        match self.0.node.lock().await.take() {
            Some(node) => node.shutdown().await,
            None => Ok(()),
        }
    }

    fn running(&self) -> Result<Arc<Running<E>>> {
        let running = self.0.running.read().unwrap_or_else(PoisonError::into_inner).clone();
        running.ok_or_else(|| Error::new(Code::NoLeader, "this node is going away; ask another one"))
    }

    // ---- definitions

    /// Registers all documents of a source or none.
    ///
    /// # Errors
    /// `INVALID_IR` with every fault, `DEFINITION_CONFLICT`.
    pub async fn deploy(&self, source: &str, format: Format) -> Result<Vec<RegisteredWorkflow>> {
        let running = self.running()?;
        let warn = |definition: &workflow::definition::Definition| {
            warnings::registry_warnings(definition, &running.desk, &running.definitions)
        };
        running.definitions.deploy(source.to_owned(), format, warn).await
    }

    /// All registered workflows, by name, newest version first.
    ///
    /// # Errors
    /// `NO_LEADER`, `STORAGE_ERROR`, as of all reads.
    pub async fn workflows(&self) -> Result<Vec<WorkflowSummary>> {
        self.running()?.definitions.list().await
    }

    /// One definition; without a version the latest.
    ///
    /// # Errors
    /// `WORKFLOW_NOT_FOUND`.
    pub async fn workflow(&self, name: &str, version: Option<&str>) -> Result<StoredWorkflow> {
        self.running()?.definitions.stored(name, version).await
    }

    // ---- executions

    /// Starts an execution. With an id it may be repeated.
    ///
    /// # Errors
    /// `WORKFLOW_NOT_FOUND`, `INVALID_INPUT`, `INVALID_EXECUTION_ID`, `EXECUTION_EXISTS`, `OVERLOADED`.
    pub async fn start(&self, mut request: StartExecution) -> Result<Started> {
        let running = self.running()?;
        let definition = running.definitions.resolve(&request.workflow, request.version.as_deref()).await?;
        let id = match request.execution_id.take() {
            Some(id) => valid_id(id)?,
            None => self.new_id(&running),
        };
        let start = Box::new(Start { request, definition });
        self.ask(&running, &id, |reply| What::Start(start, reply)).await
    }

    /// An id that sorts by time.
    fn new_id(&self, running: &Running<E>) -> String {
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
            read::summary(id, &read::load(group, id, None, "\u{10ffff}", None)?)
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
        let reads = groups.iter().map(|group| group.read_index());
        futures::future::try_join_all(reads).await.map_err(|error| of_read(&error))?;
        Ok(groups)
    }

    /// The state of a run; without a number of the newest.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub async fn show(&self, id: &str, run: Option<u32>) -> Result<ExecutionState> {
        let shard = self.read(id).await?;
        let group = &shard.context.group;
        let seen = read::load(group, id, run, "", None)?;
        read::show(id, &seen, || read::units_total(group, id, seen.run))
    }

    /// A page of units whose keys begin with `prefix`.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub async fn units(&self, id: &str, run: Option<u32>, prefix: &str, cursor: Option<&str>) -> Result<UnitPage> {
        let shard = self.read(id).await?;
        Ok(read::units(&read::load(&shard.context.group, id, run, prefix, cursor)?))
    }

    /// The input alone.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub async fn input(&self, id: &str, run: Option<u32>) -> Result<Payload> {
        let shard = self.read(id).await?;
        read::payload_of(&shard.context.group, id, run, |state| state.head.input.clone())
    }

    /// The output alone; null while there is none.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub async fn output(&self, id: &str, run: Option<u32>) -> Result<Payload> {
        let shard = self.read(id).await?;
        read::payload_of(&shard.context.group, id, run, |state| state.head.output.clone())
    }

    /// Events from `from` on, as many as are wanted and fit into an answer.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub async fn history(&self, id: &str, run: Option<u32>, from: u64, limit: usize) -> Result<HistoryPage> {
        let shard = self.read(id).await?;
        let group = &shard.context.group;
        let run = read::run_number(group, id, run)?;
        read::history(group, id, run, from, limit)
    }

    /// All runs of an execution, oldest first.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub async fn runs(&self, id: &str) -> Result<Vec<RunSummary>> {
        let shard = self.read(id).await?;
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
            let shard = self.read(id).await?;
            let mut waiter = shard.context.waiters.wait(&key);
            let group = &shard.context.group;
            let seen = read::load(group, id, None, "", None)?;
            let over = !matches!(seen.state.head.status, RunStatus::Running | RunStatus::Continued);
            if over || Instant::now() >= until {
                return read::show(id, &seen, || read::units_total(group, id, seen.run));
            }
            // At the time-out the state is read once more.
            let _ = tokio::time::timeout_at(until, waiter.woken()).await;
        }
    }

    /// Asks an execution to stop and undo what it did.
    ///
    /// # Errors
    /// `NOT_FOUND`, `EXECUTION_FINISHED`.
    pub async fn cancel(&self, id: &str, reason: &str, force: bool) -> Result<ExecutionState> {
        let running = self.running()?;
        let reason = reason.to_owned();
        self.ask(&running, &valid_id(id.to_owned())?, |reply| What::Cancel { reason, force, reply }).await?;
        self.show(id, None).await
    }

    // ---- workers

    /// Makes a worker known, or resumes its session.
    ///
    /// # Errors
    /// `INVALID_REQUEST`, `RESERVED_TASK`.
    pub async fn register(&self, request: Register) -> Result<Registered> {
        let running = self.running()?;
        let contracts = request.contracts.clone();
        let mut registered = running.desk.register(request, Instant::now(), || self.new_id(&running))?;
        registered.warnings.extend(warnings::unused_contracts(&contracts, &running.definitions).await);
        Ok(registered)
    }

    /// A sign of life, optionally with all that the worker holds.
    ///
    /// # Errors
    /// `UNKNOWN_SESSION`.
    pub async fn heartbeat(&self, session: &str, tokens: Option<&[String]>) -> Result<Alive> {
        self.running()?.desk.heartbeat(session, tokens, Instant::now())
    }

    /// Waits for tasks. If the future is dropped, what was about to be handed over is taken back.
    ///
    /// # Errors
    /// `UNKNOWN_SESSION`.
    pub async fn poll(&self, session: &str, max_tasks: u32, wait: Duration) -> Result<Vec<Task>> {
        let now = Instant::now();
        let mut poll = self.running()?.desk.open_poll(session, max_tasks, now)?;
        Ok(poll.next(now + wait).await)
    }

    /// A success.
    ///
    /// # Errors
    /// `INVALID_REQUEST` for a token that is none; one that is not known is an answer.
    pub async fn complete(&self, request: Complete) -> Result<ResultAnswer> {
        let running = self.running()?;
        let Complete { token, output, worker_session_id, free_slots } = request;
        let mut poll = open_poll(&running, worker_session_id.as_deref(), free_slots)?;
        let answer = match parse(&token)? {
            Some(token) => {
                let id = token.execution_id.clone();
                self.ask(&running, &id, |reply| What::Complete { token, output, reply }).await?
            }
            None => unknown_token(),
        };
        Ok(with_tasks(answer, poll.as_mut()).await)
    }

    /// A failure.
    ///
    /// # Errors
    /// `INVALID_REQUEST` for a token that is none, or a code that only Orbit gives.
    pub async fn fail(&self, request: Fail) -> Result<ResultAnswer> {
        let running = self.running()?;
        let mut poll = open_poll(&running, request.worker_session_id.as_deref(), request.free_slots)?;
        let error = TaskError {
            code: request.error_code,
            message: request.error_message,
            retryable: request.retryable,
            details: request.details,
        };
        if workflow::event::is_own_code(&error.code) {
            let message = format!("{} is one of Orbit's own codes; use one of your own", error.code);
            return Err(Error::new(Code::InvalidRequest, message));
        }
        let unknown = request.unknown;
        let answer = match parse(&request.token)? {
            Some(token) => {
                let id = token.execution_id.clone();
                self.ask(&running, &id, |reply| What::Fail { token, error, unknown, reply }).await?
            }
            None => unknown_token(),
        };
        Ok(with_tasks(answer, poll.as_mut()).await)
    }

    /// A sign of life about one task.
    ///
    /// # Errors
    /// `INVALID_REQUEST` for a token that is none.
    pub async fn task_heartbeat(&self, token: &str, details: Option<Payload>) -> Result<TaskAlive> {
        let running = self.running()?;
        let Some(token) = parse(token)? else { return Ok(TaskAlive { accepted: false, cancel: true }) };
        running.desk.heard_about(&token, Instant::now());
        let id = token.execution_id.clone();
        let alive = self.ask(&running, &id, |reply| What::TaskHeartbeat { token, details, reply }).await?;
        Ok(TaskAlive { accepted: alive.accepted, cancel: alive.cancel })
    }

    /// Ends a session; its tasks are handed to others at once.
    ///
    /// # Errors
    /// `NO_LEADER` when this node goes away.
    pub async fn unregister(&self, session: &str) -> Result<()> {
        self.running()?.desk.unregister(session);
        Ok(())
    }

    /// Registers or resumes a session and binds a stream to it.
    ///
    /// # Errors
    /// As of [`register`](Self::register).
    pub async fn connect(&self, request: Register) -> Result<Connection> {
        let running = self.running()?;
        let contracts = request.contracts.clone();
        let mut connection = running.desk.open_stream(request, Instant::now(), || self.new_id(&running))?;
        connection.session.warnings.extend(warnings::unused_contracts(&contracts, &running.definitions).await);
        Ok(connection)
    }

    /// All workers that were seen lately.
    ///
    /// # Errors
    /// `NO_LEADER` when this node goes away.
    pub async fn workers(&self) -> Result<Vec<WorkerSummary>> {
        let running = self.running()?;
        let now_ms = running.shards.first().map_or(0, |shard| shard.context.group.now_ms());
        Ok(running.desk.workers(Instant::now(), now_ms))
    }

    // ---- the node

    /// Where the shards stand.
    pub fn shards(&self) -> Vec<ShardHealth> {
        let Ok(running) = self.running() else { return Vec::new() };
        let health = |shard: &Arc<Shard<E>>| {
            let (status, leadership) = (shard.context.group.status(), *shard.context.group.leadership().borrow());
            let applied = status.applied.map_or(0, |id| id.index);
            ShardHealth {
                id: shard.context.shard,
                role: match leadership {
                    Leadership::Leader { .. } => "leader",
                    Leadership::Follower { .. } => "follower",
                    Leadership::Stopped => "stopped",
                },
                leader: status.leader.map(|node| node.0),
                applied,
                lag: status.committed.map_or(0, |id| id.index).saturating_sub(applied),
            }
        };
        running.shards.iter().map(health).collect()
    }

    /// Executions that are not over, on the shards led here.
    pub fn active_executions(&self) -> u64 {
        self.running().map_or(0, |running| running.shards.iter().map(|shard| shard.context.alive()).sum())
    }

    /// Worker sessions.
    pub fn worker_sessions(&self) -> u64 {
        self.running().map_or(0, |running| running.desk.sessions())
    }

    /// A hash over the applied state of every group, for tests that compare: it says whether anything was written.
    ///
    /// # Errors
    /// `STORAGE_ERROR`.
    pub fn state_hashes(&self) -> Result<BTreeMap<u16, String>> {
        let running = self.running()?;
        let hash = |shard: &Arc<Shard<E>>| {
            let hash = shard.context.group.state_hash().map_err(crate::failure::of_storage)?;
            Ok((shard.context.shard, format!("{hash:?}")))
        };
        running.shards.iter().map(hash).collect()
    }

    // ---- the way to an execution

    async fn read(&self, id: &str) -> Result<Arc<Shard<E>>> {
        let running = self.running()?;
        let shard = running.shard(&valid_id(id.to_owned())?);
        self.led(&shard).await?;
        shard.context.group.read_index().await.map_err(|error| of_read(&error))?;
        Ok(shard)
    }

    /// Waits until this node leads the shard.
    async fn led(&self, shard: &Shard<E>) -> Result<()> {
        let mut leads = shard.leads.subscribe();
        if *leads.borrow_and_update() {
            return Ok(());
        }
        let waited = tokio::time::timeout(self.0.settings.leader_timeout, leads.wait_for(|leads| *leads)).await;
        match waited {
            Ok(Ok(_)) => Ok(()),
            _ => Err(Error::new(Code::NoLeader, "no node leads the shard right now; repeat the call")),
        }
    }

    async fn ask<T>(&self, running: &Running<E>, id: &str, make: impl FnOnce(Reply<T>) -> What) -> Result<T> {
        let shard = running.shard(id);
        self.led(&shard).await?;
        let (reply, answer) = tokio::sync::oneshot::channel();
        let what = make(reply);
        let places = Arc::clone(&shard.context.places);
        let permit = if what.may_be_refused() {
            let full = |_| Error::new(Code::Overloaded, "too much waits on this shard; repeat the call later");
            places.try_acquire_owned().map_err(full)?
        } else {
            places.acquire_owned().await.map_err(|_| outcome_unknown(id))?
        };
        let actor = shard.actor.borrow().clone();
        let sent = actor.map(|actor| actor.cast(ShardMsg::ask(Arc::from(id), what, Some(permit))));
        match sent {
            Some(Ok(())) => answer.await.unwrap_or_else(|_| Err(outcome_unknown(id))),
            _ => Err(Error::new(Code::NoLeader, "this node is going away; ask another one")),
        }
    }
}

impl<E: Environment> Running<E> {
    fn shard(&self, id: &str) -> Arc<Shard<E>> {
        // At most as many shards as a u16 holds.
        let number = shard_of(id, self.shards.len() as u16);
        Arc::clone(&self.shards[usize::from(number)])
    }
}

async fn tick(desk: Desk) {
    loop {
        let next = desk.tick(Instant::now());
        tokio::time::sleep_until(next.min(Instant::now() + TICK)).await;
    }
}

async fn become_ready<E: Environment>(shards: Vec<Arc<Shard<E>>>, ready: watch::Sender<bool>) {
    for shard in shards {
        if shard.leads.subscribe().wait_for(|leads| *leads).await.is_err() {
            return;
        }
    }
    ready.send_replace(true);
}

fn valid_id(id: String) -> Result<String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    if (1..=ID_MAX).contains(&id.len()) && id.bytes().all(fits) && id.bytes().any(|byte| byte != b'.') {
        return Ok(id);
    }
    let message = format!("an execution id has 1 to {ID_MAX} of A-Z a-z 0-9 - _ . : and not only dots");
    Err(Error::new(Code::InvalidExecutionId, message))
}

/// The hand-over that a token names; `None` if it is none of Orbit's.
fn parse(token: &str) -> Result<Option<Token>> {
    if token.is_empty() {
        return Err(Error::new(Code::InvalidRequest, "`token` is empty; give the token of the task"));
    }
    let token = token.parse::<Token>().ok();
    Ok(token.filter(|token| valid_id(token.execution_id.clone()).is_ok()))
}

fn unknown_token() -> command::ResultAnswer {
    command::ResultAnswer { accepted: false, reason: Some("unknown token".to_owned()) }
}

/// The free slots that a result offers are known before the result is decided on, so that the next task rides on the
/// same commit.
fn open_poll<E: Environment>(running: &Running<E>, session: Option<&str>, slots: u32) -> Result<Option<Poll>> {
    let Some(session) = session else { return Ok(None) };
    let now = Instant::now();
    running.desk.seen(session, now);
    match slots {
        0 => Ok(None),
        slots => running.desk.open_poll(session, slots, now).map(Some),
    }
}

async fn with_tasks(answer: command::ResultAnswer, poll: Option<&mut Poll>) -> ResultAnswer {
    let tasks = match poll {
        Some(poll) => Some(poll.next(Instant::now()).await),
        None => None,
    };
    ResultAnswer { accepted: answer.accepted, reason: answer.reason, tasks }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_what_the_api_says() {
        for good in ["a", "order:7", "A-Z_0.9", "...a", &"x".repeat(200)] {
            assert!(valid_id(good.to_owned()).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "a b", "ä", "a\0b", &"x".repeat(201)] {
            assert_eq!(valid_id(bad.to_owned()).unwrap_err().code, Code::InvalidExecutionId, "{bad}");
        }
    }
}
