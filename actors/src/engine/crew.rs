//! Workers across nodes: every node hears of every session, slots that are idle here go to what waits elsewhere.
//!
//! What is told is soft and told again: sessions when they come and whenever another node does not know them, that they
//! live every [`TELL_EVERY`], what waits as soon as it finds no slot and every [`DEMAND_EVERY`] while it does.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use futures::future::join_all;
use orbit_proto::node::{self, answer, question, workers};
use orbit_proto::worker;
use orbit_raft::{Environment, Group, NodeId};
use tokio::sync::{Mutex, Notify};
use tokio::time::Instant;
use workflow::command::Token;
use workflow::event::{Queue, UncertainReason};

use super::{Engine, Inner, Running};
use crate::api::{self, Register};
use crate::condition::Conditions;
use crate::desk::{Demand, Desk, Elsewhere, Order, Slot};
use crate::error::{Code, Error, Result};
use crate::remote::cluster::Unanswered;
use crate::remote::{Cluster, Request, wire};
use crate::shard::shard_of;

/// How often it is told which sessions live.
const TELL_EVERY: Duration = Duration::from_secs(2);
/// How often it is told again what waits.
const DEMAND_EVERY: Duration = Duration::from_millis(50);
/// At most so often what waits is told when it changes.
const DEMAND_PAUSE: Duration = Duration::from_millis(2);
/// How long a new leader waits for word of what the sessions of another node hold.
const HOLDINGS_WAIT: Duration = Duration::from_millis(300);
/// How long a worker's call waits for other nodes to hear of it.
const HEARD_WAIT: Duration = Duration::from_millis(500);
/// Sessions that are told together.
const SESSIONS_TOGETHER: usize = 100;
/// Queues that are told of at most: the rest has its turn when these are served.
const QUEUES_MAX: usize = 1_000;

/// The workers of all nodes, as this one knows them.
pub(crate) struct Crew<E: Environment> {
    cluster: Cluster<E>,
    desk: Desk,
    meta: Group<E>,
    engine: OnceLock<Weak<Inner<E>>>,
    /// Something waits that finds no slot.
    demand: Notify,
    /// When the other nodes were last asked what their sessions hold.
    gathered: Mutex<Option<Instant>>,
}

impl<E: Environment> fmt::Debug for Crew<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Crew")
    }
}

impl<E: Environment> Crew<E> {
    pub(crate) fn new(cluster: Cluster<E>, desk: Desk, meta: Group<E>) -> Arc<Self> {
        let (engine, demand, gathered) = (OnceLock::new(), Notify::new(), Mutex::new(None));
        Arc::new(Self { cluster, desk, meta, engine, demand, gathered })
    }

    /// How the nodes are.
    pub(crate) fn conditions(&self) -> &Conditions {
        &self.cluster.conditions
    }

    /// From now on there is an engine to ask.
    pub(super) fn begin(self: &Arc<Self>, engine: Weak<Inner<E>>) {
        // Set once: an engine begins once.
        let _ = self.engine.set(engine);
        // Not held by the desk, which it holds itself.
        self.desk.join(Arc::new(Others(Arc::downgrade(self))));
    }

    fn others(&self) -> Vec<NodeId> {
        self.meta.members().into_keys().filter(|node| *node != self.cluster.me).collect()
    }

    async fn ask(&self, node: NodeId, what: workers::What) -> Result<node::WorkersAnswer, Unanswered> {
        let question = question::What::Workers(node::Workers { what: Some(what) });
        match self.cluster.ask(node, question).await? {
            answer::What::Workers(answer) => Ok(answer),
            _ => Err(Unanswered::Unknown),
        }
    }

    /// Asks all other nodes and waits a little; what comes later is not heard.
    async fn ask_all(&self, what: &workers::What, wait: Duration) -> Vec<(NodeId, Option<node::WorkersAnswer>)> {
        let asked = self.others().into_iter().map(|node| async move {
            let answer = tokio::time::timeout(wait, self.ask(node, what.clone())).await;
            (node, answer.ok().and_then(Result::ok))
        });
        join_all(asked).await
    }

    /// A worker has registered here: all nodes hear of it. Answers which of its tokens it should stop.
    pub(super) async fn registered(&self, request: Register) -> Vec<String> {
        let sessions = node::Sessions { sessions: vec![wire::register(request)], as_the_worker_says: true };
        let answers = self.ask_all(&workers::What::Sessions(sessions), HEARD_WAIT).await;
        answers.into_iter().filter_map(|(_, answer)| answer).flat_map(|answer| answer.cancel).collect()
    }

    /// A worker has said what it holds. Answers what of that is no longer live.
    pub(super) async fn heartbeat(&self, session: &str, tokens: &[String]) -> Vec<String> {
        let tokens = Some(worker::Tokens { tokens: tokens.to_vec() });
        let said = worker::HeartbeatRequest { worker_session_id: session.to_owned(), tokens };
        let answers = self.ask_all(&workers::What::Heartbeat(said), HEARD_WAIT).await;
        let mut cancel = BTreeSet::new();
        for (node, answer) in answers {
            let Some(answer) = answer else { continue };
            if !answer.unknown.is_empty() {
                self.introduce(node, &answer.unknown).await;
            }
            cancel.extend(answer.cancel);
        }
        cancel.into_iter().collect()
    }

    /// A worker has left.
    pub(super) async fn unregistered(&self, session: &str) {
        let left = worker::UnregisterRequest { worker_session_id: session.to_owned() };
        self.ask_all(&workers::What::Unregister(left), HEARD_WAIT).await;
    }

    /// Tells a node of sessions that it does not know.
    async fn introduce(&self, node: NodeId, names: &[String]) {
        let known: Vec<_> = names.iter().filter_map(|name| self.desk.registration(name)).collect();
        for some in known.chunks(SESSIONS_TOGETHER) {
            let sessions = some.iter().cloned().map(wire::register).collect();
            let sessions = node::Sessions { sessions, as_the_worker_says: false };
            // What is not heard now is said again.
            let _ = self.ask(node, workers::What::Sessions(sessions)).await;
        }
    }

    /// Asks all other nodes what their sessions hold. A new leader judges by it what is in flight and what is lost. Who
    /// asks while others are at it shares what they get, if they began later.
    pub(crate) async fn gather(&self) {
        let asked_at = Instant::now();
        let mut gathered = self.gathered.lock().await;
        if gathered.is_some_and(|began| began >= asked_at) {
            return;
        }
        *gathered = Some(Instant::now());
        for (node, answer) in self.ask_all(&workers::What::Holdings(node::Holdings {}), HOLDINGS_WAIT).await {
            match answer {
                Some(answer) => self.take_in(node, answer.sessions, false).map(drop).unwrap_or_default(),
                None => self.desk.doubt(node),
            }
        }
    }

    fn take_in(&self, from: NodeId, sessions: Vec<worker::RegisterRequest>, said: bool) -> Result<Vec<String>> {
        let mut cancel = Vec::new();
        for session in sessions {
            cancel.extend(self.desk.introduce(from, wire::register_in(session), said, Instant::now())?);
        }
        Ok(cancel)
    }

    /// Tells all nodes which sessions live here, for ever; dropped with the node.
    pub(super) async fn tell(self: Arc<Self>) {
        loop {
            tokio::time::sleep(TELL_EVERY).await;
            let now = Instant::now();
            let since = now.checked_sub(self.desk.heartbeat_interval() + TELL_EVERY).unwrap_or(now);
            let sessions = self.desk.connected(since).into_iter().filter_map(|session| session.worker_session_id);
            let worker_session_ids: Vec<_> = sessions.collect();
            if worker_session_ids.is_empty() {
                continue;
            }
            let alive = workers::What::Alive(node::Alive { worker_session_ids });
            for (node, answer) in self.ask_all(&alive, TELL_EVERY).await {
                if let Some(answer) = answer.filter(|answer| !answer.unknown.is_empty()) {
                    self.introduce(node, &answer.unknown).await;
                }
            }
        }
    }

    /// Tells all nodes what waits here and finds no slot, for ever; dropped with the node.
    pub(super) async fn tell_demand(self: Arc<Self>) {
        let mut told = false;
        loop {
            if told {
                let _ = tokio::time::timeout(DEMAND_EVERY, self.demand.notified()).await;
            } else {
                self.demand.notified().await;
            }
            let mut demand = self.desk.demand();
            demand.sort_by_key(|demand| demand.oldest);
            demand.truncate(QUEUES_MAX);
            if demand.is_empty() && !told {
                continue;
            }
            told = !demand.is_empty();
            let queues = demand.into_iter().map(demand_out).collect();
            self.ask_all(&workers::What::Demand(node::Demand { queues }), DEMAND_EVERY).await;
            tokio::time::sleep(DEMAND_PAUSE).await;
        }
    }

    async fn fetch(&self, node: NodeId, session: Arc<str>, slots: Vec<Slot>) {
        let fetch = || {
            let slots = u32::try_from(slots.len()).unwrap_or(u32::MAX);
            workers::What::Fetch(node::Fetch { worker_session_id: session.to_string(), slots })
        };
        let mut answer = self.ask(node, fetch()).await;
        if let Ok(first) = &answer
            && !first.unknown.is_empty()
        {
            self.introduce(node, &first.unknown).await;
            answer = self.ask(node, fetch()).await;
        }
        let tasks = answer.map(|answer| answer.tasks).unwrap_or_default();
        if tasks.len() < slots.len() {
            self.desk.fetched_less(node, &session);
        }
        let tasks = tasks.into_iter().filter_map(|task| wire::task_in(task).ok()).collect();
        self.hand_out(tasks, slots);
    }

    /// Tasks that another node has handed over to a session of this one go out. Slots that are left are idle again.
    pub(super) fn hand_out(&self, tasks: Vec<api::Task>, slots: Vec<Slot>) {
        let Some(shards) = self.engine().and_then(|engine| Some(engine.running().ok()?.shards.len() as u16)) else {
            return;
        };
        let mut slots = slots.into_iter();
        for task in tasks {
            match slots.next() {
                Some(slot) => self.desk.dispatched(shard_of(&task.execution_id, shards), slot, task),
                // The other node takes it back when its session does not list it.
                None => tracing::error!("another node handed over what was not asked for"),
            }
        }
    }

    fn engine(&self) -> Option<Engine<E>> {
        self.engine.get()?.upgrade().map(Engine)
    }
}

/// The way from the desk to the other nodes.
struct Others<E: Environment>(Weak<Crew<E>>);

impl<E: Environment> fmt::Debug for Others<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Others")
    }
}

impl<E: Environment> Elsewhere for Others<E> {
    fn fetch(&self, node: NodeId, session: Arc<str>, slots: Vec<Slot>) {
        let Some(crew) = self.0.upgrade() else { return };
        tokio::spawn(async move { crew.fetch(node, session, slots).await });
    }

    fn take_back(&self, token: Token, reason: UncertainReason) {
        let Some(engine) = self.0.upgrade().and_then(|crew| crew.engine()) else { return };
        tokio::spawn(async move {
            let Ok(running) = engine.running() else { return };
            let id = token.execution_id.clone();
            // A leader that is not reached asks what sessions hold when it leads.
            let _ = engine.request(&running, &id, Request::TakeBack { token, reason }).await;
        });
    }

    fn stop(&self, home: NodeId, session: Arc<str>, token: Token) {
        let Some(crew) = self.0.upgrade() else { return };
        tokio::spawn(async move {
            let stop = node::StopTask { worker_session_id: session.to_string(), token: token.to_string() };
            // Heartbeats are answered with the same.
            let _ = crew.ask(home, workers::What::StopTask(stop)).await;
        });
    }

    fn demand(&self) {
        if let Some(crew) = self.0.upgrade() {
            crew.demand.notify_one();
        }
    }
}

fn demand_out(demand: Demand) -> node::QueueDemand {
    node::QueueDemand {
        task: demand.queue.task,
        version: demand.queue.version,
        language: demand.queue.language,
        count: demand.count,
        priority: u32::from(demand.oldest.priority),
        turn: demand.oldest.turn,
        ready_at_ms: demand.oldest.ready_at_ms,
    }
}

fn demand_in(demand: node::QueueDemand) -> Demand {
    Demand {
        queue: Queue { task: demand.task, version: demand.version, language: demand.language },
        count: demand.count,
        oldest: Order {
            priority: u8::try_from(demand.priority).unwrap_or(u8::MAX),
            turn: demand.turn,
            ready_at_ms: demand.ready_at_ms,
            seq: 0,
        },
    }
}

// ---- what other nodes ask

impl<E: Environment> Engine<E> {
    /// Of tokens that are not live as far as this node knows, those of which it may say so: whoever has been deposed
    /// without knowing it yet does not know of newer ones.
    pub(super) async fn as_leader(&self, running: &Running<E>, dead: Vec<String>) -> Vec<String> {
        let (mut sure, mut judged) = (Vec::new(), BTreeMap::new());
        for text in dead {
            let Ok(token) = text.parse::<Token>() else {
                sure.push(text);
                continue;
            };
            let shard = running.shard(&token.execution_id);
            let leads = match judged.get(&shard.context.shard) {
                Some(leads) => *leads,
                None => {
                    let leads = *shard.leads.borrow() && shard.context.group.read_index().await.is_ok();
                    judged.insert(shard.context.shard, leads);
                    leads
                }
            };
            if leads {
                sure.push(text);
            }
        }
        sure
    }

    pub(super) async fn answer_about_workers(
        &self,
        running: &Running<E>,
        from: NodeId,
        question: node::Workers,
    ) -> Result<answer::What> {
        let (desk, now) = (&running.desk, Instant::now());
        let nothing = node::WorkersAnswer::default();
        let unknown = |session: String| node::WorkersAnswer { unknown: vec![session], ..Default::default() };
        let answer = match question.what {
            Some(workers::What::Sessions(told)) => {
                let cancel = running.crew.take_in(from, told.sessions, told.as_the_worker_says)?;
                let cancel = self.as_leader(running, cancel).await;
                node::WorkersAnswer { cancel, ..nothing }
            }
            Some(workers::What::Alive(alive)) => {
                let unknown = desk.alive(from, &alive.worker_session_ids, now);
                node::WorkersAnswer { unknown, ..nothing }
            }
            Some(workers::What::Heartbeat(said)) => {
                let tokens = said.tokens.map(|tokens| tokens.tokens);
                match desk.said_elsewhere(from, &said.worker_session_id, tokens.as_deref(), now) {
                    Ok(alive) => {
                        let cancel = self.as_leader(running, alive.cancel).await;
                        node::WorkersAnswer { cancel, ..nothing }
                    }
                    Err(_) => unknown(said.worker_session_id),
                }
            }
            Some(workers::What::Unregister(left)) => {
                desk.unregister(&left.worker_session_id);
                nothing
            }
            Some(workers::What::Fetch(node::Fetch { worker_session_id, slots })) => {
                match desk.open_poll_elsewhere(&worker_session_id, slots, now) {
                    Ok(mut poll) => {
                        let tasks = poll.next(now).await;
                        node::WorkersAnswer { tasks: tasks.iter().map(wire::task).collect(), ..nothing }
                    }
                    Err(Error { code: Code::UnknownSession, .. }) => unknown(worker_session_id),
                    Err(error) => return Err(error),
                }
            }
            Some(workers::What::Demand(demand)) => {
                desk.demanded(from, demand.queues.into_iter().map(demand_in).collect());
                nothing
            }
            Some(workers::What::Holdings(_)) => {
                let since = now.checked_sub(self.0.settings.session_timeout).unwrap_or(now);
                let sessions = desk.connected(since).into_iter().map(wire::register).collect();
                node::WorkersAnswer { sessions, ..nothing }
            }
            Some(workers::What::StopTask(stop)) => {
                if let Ok(token) = stop.token.parse() {
                    desk.stop_here(&stop.worker_session_id, &token);
                }
                nothing
            }
            None => nothing,
        };
        Ok(answer::What::Workers(answer))
    }
}
