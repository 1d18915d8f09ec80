//! Slots that are idle here, for what waits at other nodes; and sessions that are connected to other nodes, here.
//!
//! ```text
//!   node that leads the shard                         node that the worker is connected to
//!   a line finds no idle slot ── demand ────────────▶ an idle slot of a session that serves it is reserved,
//!   an offer in the session's name ◀──── fetch ────── in the order of age over all nodes that have said
//!   the committed hand-over ─────── the task ───────▶ goes out through the slot, as if it were one of here
//! ```
//!
//! Every node knows every session, with what it can do and what it says it holds: so each judges for its own shards
//! which hand-overs are lost, by the same rules as for a worker of its own. What is only known where the worker is
//! connected — that something did not arrive, or that a stream is there to say stop on — is passed on.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use orbit_raft::NodeId;
use tokio::time::Instant;
use workflow::command::Token;
use workflow::event::{Queue, UncertainReason};

use super::hand_over::Unlisted;
use super::order::Order;
use super::request::{Valid, listed};
use super::session::{Session, SessionNo, Standing};
use super::state::{Grant, Message, State};
use super::{Desk, Slot};
use crate::api::{Alive, Register, TaskVersion};
use crate::error::Result;

/// The other nodes. Implementations only begin something: they are called in order, and the desk waits for them.
pub(crate) trait Elsewhere: Send + Sync + fmt::Debug {
    /// Slots of a session that may be filled by another node. Each is spent by [`Desk::dispatched`] or dropped.
    fn fetch(&self, node: NodeId, session: Arc<str>, slots: Vec<Slot>);

    /// A hand-over of a shard that is led elsewhere did not arrive, or its worker is gone.
    fn take_back(&self, token: Token, reason: UncertainReason);

    /// A worker that is connected to another node should stop.
    fn stop(&self, home: NodeId, session: Arc<str>, token: Token);

    /// Something waits here that finds no slot: ask for [`Desk::demand`] soon.
    fn demand(&self);
}

/// What waits in one queue of a node and finds no slot there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Demand {
    /// The queue.
    pub queue: Queue,
    /// How many, at least.
    pub count: u32,
    /// The first of them.
    pub oldest: Order,
}

/// What other nodes have said that waits there.
#[derive(Debug, Default)]
pub(super) struct Demands(BTreeMap<NodeId, HashMap<Queue, Demand>>);

impl Demands {
    /// The oldest that waits in a queue at another node.
    fn oldest(&self, queue: &Queue) -> Option<(Order, NodeId)> {
        let waits = |(node, queues): (&NodeId, &HashMap<Queue, Demand>)| {
            let demand = queues.get(queue).filter(|demand| demand.count > 0)?;
            Some((demand.oldest, *node))
        };
        self.0.iter().filter_map(waits).min()
    }

    fn take_one(&mut self, node: NodeId, queue: &Queue) {
        if let Some(demand) = self.0.get_mut(&node).and_then(|queues| queues.get_mut(queue)) {
            demand.count = demand.count.saturating_sub(1);
        }
    }
}

impl Desk {
    /// From now on there are other nodes.
    pub(crate) fn join(&self, elsewhere: Arc<dyn Elsewhere>) {
        self.with(|state| state.elsewhere = Some(elsewhere));
    }

    /// How often workers send heartbeats.
    pub(crate) fn heartbeat_interval(&self) -> std::time::Duration {
        self.lock().settings.heartbeat_interval
    }

    /// What waits here and finds no slot, by queue.
    pub(crate) fn demand(&self) -> Vec<Demand> {
        let mut state = self.lock();
        state.demand_told = false;
        let ids = state.lines.ids();
        let demand = |id| {
            let line = state.lines.get(id)?;
            let oldest = line.head()?.0.order;
            let queue = state.lines.queue(id)?.clone();
            Some(Demand { queue, count: u32::try_from(line.waiting()).unwrap_or(u32::MAX), oldest })
        };
        ids.into_iter().filter_map(demand).collect()
    }

    /// Another node says what waits there; it stands in for what it said before.
    pub(crate) fn demanded(&self, node: NodeId, demands: Vec<Demand>) {
        self.with(|state| {
            let queues: Vec<_> = demands.iter().map(|demand| demand.queue.clone()).collect();
            if demands.is_empty() {
                state.demands.0.remove(&node);
            } else {
                let by_queue = demands.into_iter().map(|demand| (demand.queue.clone(), demand));
                state.demands.0.insert(node, by_queue.collect());
            }
            for queue in queues {
                state.serve_elsewhere(node, &queue);
            }
        });
    }

    /// A node had less than was fetched for a session: until it says more, nothing that it serves waits there.
    pub(crate) fn fetched_less(&self, node: NodeId, session: &str) {
        self.with(|state| {
            let Some(session) = state.sessions.find(session).and_then(|no| state.sessions.get(no)) else { return };
            let Some(queues) = state.demands.0.get_mut(&node) else { return };
            for queue in session.lines.iter().filter_map(|line| state.lines.queue(*line)) {
                queues.remove(queue);
            }
        });
    }

    /// Idle slots of the session that holds a token, for what follows from its result at the node that leads there;
    /// none where something older waits at a third one.
    pub(crate) fn borrow(&self, token: &Token, node: NodeId) -> Option<(Arc<str>, Slot)> {
        let (name, grant) = self.with(|state| {
            let no = state.held.get(token)?.holder;
            let session = state.sessions.get(no).filter(|session| session.idle > 0 && !session.is_built_in())?;
            let name = session.name.clone();
            let queues = session.lines.iter().filter_map(|line| state.lines.queue(*line));
            let elsewhere = queues.filter_map(|queue| state.demands.oldest(queue)).min();
            if elsewhere.is_some_and(|(_, oldest_at)| oldest_at != node) {
                return None;
            }
            state.reserve(no, None).map(|grant| (name, grant))
        })?;
        Some((name, Slot::new(self.clone(), grant)))
    }

    /// A hand-over of a shard that is led elsewhere is over.
    pub(crate) fn settled_elsewhere(&self, token: &Token) {
        self.with(|state| {
            if state.held.get(token).is_some_and(|hand_over| hand_over.shard.is_none()) {
                state.forget(token);
            }
        });
    }

    /// A session that is connected to another node, as that node knows it. `said`: its worker has just said that it
    /// holds these tokens and no others; else the node says what it has handed over and knows to be held.
    pub(crate) fn introduce(&self, from: NodeId, request: Register, said: bool, now: Instant) -> Result<Vec<String>> {
        let Some(name) = request.worker_session_id.clone() else { return Ok(Vec::new()) };
        if said {
            let request = Valid::try_from(request)?;
            let (no, _, cancel) = self.with(|state| state.register(request, now, || name))?;
            self.with(|state| state.is_at(no, from));
            return Ok(cancel);
        }
        let tokens = listed(&request.tokens)?;
        self.with(|state| {
            let no = match state.sessions.find(&name).filter(|no| state.is_heard(*no)) {
                Some(no) => no,
                None => state.register_only(Valid::try_from(request)?, now, || name)?.0,
            };
            state.is_at(no, from);
            state.hear_again(no, now);
            for listed in tokens {
                if let Some(token) = listed.token {
                    state.claim(no, &Arc::new(token), now);
                }
            }
            Ok(Vec::new())
        })
    }

    /// A sign of life that came to another node, with all that the session holds.
    pub(crate) fn said_elsewhere(
        &self,
        from: NodeId,
        session: &str,
        tokens: Option<&[String]>,
        now: Instant,
    ) -> Result<Alive> {
        let tokens = tokens.map(listed).transpose()?;
        self.with(|state| {
            state.is_of_workers(session)?;
            let no = state.server(session, now)?;
            state.is_at(no, from);
            state.heartbeat(session, tokens, now)
        })
    }

    /// These sessions live, says the node that they are connected to. Answers those that are not known here.
    pub(crate) fn alive(&self, from: NodeId, sessions: &[String], now: Instant) -> Vec<String> {
        self.with(|state| {
            let mut unknown = Vec::new();
            for name in sessions {
                match state.sessions.find(name).filter(|no| state.is_registered(*no)) {
                    Some(no) => {
                        state.is_at(no, from);
                        state.hear_again(no, now);
                    }
                    None => unknown.push(name.clone()),
                }
            }
            unknown
        })
    }

    /// Sessions of which something was heard here itself since a moment, with all that they hold as far as is known.
    pub(crate) fn connected(&self, since: Instant) -> Vec<Register> {
        let state = self.lock();
        let here = |session: &&Session| session.contacted.is_some_and(|at| at >= since) && !session.is_built_in();
        state.sessions.all().filter(here).map(registration).collect()
    }

    /// One of them.
    pub(crate) fn registration(&self, name: &str) -> Option<Register> {
        let state = self.lock();
        let session = state.sessions.find(name).and_then(|no| state.sessions.get(no));
        session.filter(|session| session.standing == Standing::Registered && !session.is_built_in()).map(registration)
    }

    /// A node does not answer: what its sessions hold is not known until something is heard of them.
    pub(crate) fn doubt(&self, node: NodeId) {
        self.with(|state| {
            for session in state.sessions.all_mut().filter(|session| session.home == Some(node)) {
                session.doubtful = true;
            }
            state.demands.0.remove(&node);
        });
    }

    /// A worker that is connected here should stop, says the node that leads.
    pub(crate) fn stop_here(&self, session: &str, token: &Token) {
        self.with(|state| {
            if let Some(no) = state.sessions.find(session) {
                state.notice_stop(no, token);
            }
        });
    }
}

/// A session as it registered, with what it holds.
fn registration(session: &Session) -> Register {
    Register {
        worker_id: session.worker_id.to_string(),
        runtime: session.runtime.clone(),
        sdk: session.sdk.clone(),
        contracts: session.contracts.iter().map(TaskVersion::clone).collect(),
        slots: None,
        tokens: session.held.iter().map(|token| token.to_string()).collect(),
        worker_session_id: Some(session.name.to_string()),
    }
}

impl State {
    fn is_heard(&self, no: SessionNo) -> bool {
        self.sessions.get(no).is_some_and(Session::is_heard)
    }

    fn is_registered(&self, no: SessionNo) -> bool {
        self.sessions.get(no).is_some_and(|session| session.standing == Standing::Registered)
    }

    /// The session is connected to another node, unless it is to this one.
    fn is_at(&mut self, no: SessionNo, node: NodeId) {
        if let Some(session) = self.sessions.get_mut(no) {
            session.home = Some(node);
            session.doubtful = false;
        }
    }

    fn hear_again(&mut self, no: SessionNo, now: Instant) {
        if let Some(session) = self.sessions.get_mut(no) {
            session.seen = session.seen.max(now);
            session.doubtful = false;
        }
    }

    /// Idle slots for what waits in a queue of another node.
    fn serve_elsewhere(&mut self, node: NodeId, queue: &Queue) {
        let Some(line) = self.lines.find(queue) else { return };
        let mut slots: BTreeMap<SessionNo, Vec<Grant>> = BTreeMap::new();
        while self.demands.0.get(&node).and_then(|queues| queues.get(queue)).is_some_and(|demand| demand.count > 0) {
            let Some(no) = self.idle_server(line) else { break };
            let Some(grant) = self.reserve(no, None) else { break };
            if let Some(line) = self.lines.get_mut(line) {
                line.served(no);
            }
            self.demands.take_one(node, queue);
            slots.entry(no).or_default().push(grant);
        }
        for (no, grants) in slots {
            self.fetch(node, no, grants);
        }
    }

    /// What a session with an idle slot may do for another node, if that is older than `head`, the oldest of here.
    pub(super) fn oldest_elsewhere(&self, no: SessionNo, head: Option<Order>) -> Option<(NodeId, Queue)> {
        if self.demands.0.is_empty() {
            return None;
        }
        let session = self.sessions.get(no).filter(|session| !session.is_built_in())?;
        let queues = session.lines.iter().filter_map(|line| self.lines.queue(*line));
        let (oldest, node, queue) = queues
            .filter_map(|queue| self.demands.oldest(queue).map(|(order, node)| (order, node, queue)))
            .min_by_key(|(order, node, _)| (*order, *node))?;
        head.is_none_or(|head| oldest < head).then(|| (node, queue.clone()))
    }

    /// Reserves a slot of a session for another node.
    pub(super) fn serve_one_elsewhere(&mut self, no: SessionNo, node: NodeId, queue: &Queue) {
        self.demands.take_one(node, queue);
        if let Some(grant) = self.reserve(no, None) {
            self.fetch(node, no, vec![grant]);
        }
    }

    fn fetch(&mut self, node: NodeId, no: SessionNo, grants: Vec<Grant>) {
        let name = self.sessions.get(no).map(|session| session.name.clone());
        if let (Some(elsewhere), Some(name)) = (self.elsewhere.clone(), name) {
            self.outbox.push_back(Message::Fetch(elsewhere, node, name, grants));
        }
    }

    /// Something waits here that finds no slot.
    pub(super) fn note_demand(&mut self) {
        if let Some(elsewhere) = self.elsewhere.clone().filter(|_| !self.demand_told) {
            self.demand_told = true;
            self.outbox.push_back(Message::Demand(elsewhere));
        }
    }

    /// A hand-over of no shard that is led here is lost.
    pub(super) fn tell_elsewhere(&mut self, token: Token, reason: UncertainReason) {
        let led_here = self.shards.values().any(|lead| lead.sink.owns(&token.execution_id));
        if let Some(elsewhere) = self.elsewhere.clone().filter(|_| !led_here) {
            self.outbox.push_back(Message::TakeBackElsewhere(elsewhere, token, reason));
        }
    }

    /// The worker should stop: said where it is connected.
    pub(super) fn stop_elsewhere(&mut self, no: SessionNo, token: &Token) {
        let Some(session) = self.sessions.get(no).filter(|session| session.stream.is_none()) else { return };
        if let (Some(home), Some(elsewhere)) = (session.home, self.elsewhere.clone()) {
            let name = session.name.clone();
            self.outbox.push_back(Message::StopElsewhere(elsewhere, home, name, token.clone()));
        }
    }

    /// Makes a session known without a word of what it holds.
    fn register_only(
        &mut self,
        request: Valid,
        now: Instant,
        name: impl FnOnce() -> String,
    ) -> Result<(SessionNo, Vec<String>)> {
        let request = Valid { tokens: Vec::new(), ..request };
        self.register_with(request, Unlisted::Underway, now, name).map(|(no, _, cancel)| (no, cancel))
    }
}
