//! Reads and proposals of a group from any node, and questions to other nodes.
//!
//! A replica that does not lead asks the leader how far a read must be, and waits until it has applied that; so every
//! node answers reads from its own disk, and what it answers is what the leader would have answered.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use orbit_proto::node::{Answer, Question, answer, question};
use orbit_proto::node::{Propose, ReadIndex};
use orbit_raft::network::{CallError, Caller};
use orbit_raft::state_store::PartOutcome;
use orbit_raft::{Environment, Group, Leadership, NodeId, Part, PeerAddress, ProposeError, ReadError};
use prost::Message;
use tokio::time::Instant;

use super::wire;
use crate::condition::Conditions;
use crate::error::{Code, Error, Result};
use crate::failure::{of_proposal, of_read, outcome_unknown};

/// After this something is tried again, unless a new leader shows up before.
const AGAIN: Duration = Duration::from_millis(25);

/// The other nodes, as this one reaches them. A clone is another handle to the same.
pub(crate) struct Cluster<E: Environment> {
    caller: Caller<E>,
    /// This node.
    pub(crate) me: NodeId,
    /// How long something is tried for which there is no leader.
    patience: Duration,
    /// How all of them are.
    pub(crate) conditions: Conditions,
}

impl<E: Environment> Clone for Cluster<E> {
    fn clone(&self) -> Self {
        let (caller, conditions) = (self.caller.clone(), self.conditions.clone());
        Self { caller, me: self.me, patience: self.patience, conditions }
    }
}

impl<E: Environment> fmt::Debug for Cluster<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("me", &self.me).finish_non_exhaustive()
    }
}

/// A question to another node has no answer.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// It said why; unless the code is `OUTCOME_UNKNOWN`, nothing was done.
    Fault(Error),
    /// It was not asked: nothing was done.
    NotAsked,
    /// It was asked, and may have acted.
    Unknown,
}

/// What a read of a replica may see.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// What the leader says of the execution that the read is about: it met an error inside.
    pub(crate) broken: Option<String>,
}

impl<E: Environment> Cluster<E> {
    pub(crate) fn new(caller: Caller<E>, patience: Duration, conditions: Conditions) -> Self {
        Self { caller, me: conditions.me(), patience, conditions }
    }

    /// Asks another node.
    pub(crate) async fn ask(&self, to: NodeId, what: question::What) -> Result<answer::What, Unanswered> {
        let question = Question { what: Some(what) };
        let bytes = match self.caller.call(to, question.encode_to_vec().into()).await {
            Ok(bytes) => bytes,
            Err(CallError::NotAsked { .. }) => return Err(Unanswered::NotAsked),
            Err(CallError::NoAnswer { .. }) => return Err(Unanswered::Unknown),
        };
        match answer(bytes) {
            Some(answer::What::Fault(fault)) => Err(Unanswered::Fault(wire::fault_in(fault))),
            Some(what) => Ok(what),
            None => Err(Unanswered::Unknown),
        }
    }

    /// Asks the leader of a group something that may be asked twice: once another leads, nobody waits for its answer.
    pub(crate) async fn ask_leader(
        &self,
        group: &Group<E>,
        leader: NodeId,
        what: question::What,
    ) -> Result<answer::What, Unanswered> {
        let mut leadership = group.leadership();
        let deposed = |now: &Leadership| !matches!(now, Leadership::Follower { leader: Some(now) } if *now == leader);
        tokio::select! {
            answer = self.ask(leader, what) => answer,
            _ = leadership.wait_for(deposed) => Err(Unanswered::Unknown),
        }
    }

    /// Makes sure that a read of this node's replica, begun after this, sees all that was acknowledged before.
    pub(crate) async fn read_index(&self, group: &Group<E>, execution: Option<&str>) -> Result<Seen> {
        let until = Instant::now() + self.patience;
        loop {
            match group.read_index().await {
                Ok(_) => return Ok(Seen::default()),
                Err(ReadError::NotLeader { .. }) => {}
                Err(error @ (ReadError::Overloaded | ReadError::Stopped)) => return Err(of_read(&error)),
                Err(ReadError::NoQuorum) if Instant::now() >= until => return Err(of_read(&ReadError::NoQuorum)),
                Err(ReadError::NoQuorum) => {}
            }
            if let Some(seen) = self.read_index_of_leader(group, execution, until).await? {
                return Ok(seen);
            }
            self.another_leader(group, until).await?;
        }
    }

    async fn read_index_of_leader(
        &self,
        group: &Group<E>,
        execution: Option<&str>,
        until: Instant,
    ) -> Result<Option<Seen>> {
        let Some(leader) = self.leader(group) else { return Ok(None) };
        let question = ReadIndex { group: u32::from(group.id().get()), execution_id: execution.map(str::to_owned) };
        match self.ask_leader(group, leader, question::What::ReadIndex(question)).await {
            Ok(answer::What::ReadIndex(answer)) => {
                let applied = group.wait_for(|now| now.applied.is_some_and(|id| id.index >= answer.index));
                match tokio::time::timeout_at(until, applied).await {
                    Ok(Some(_)) => Ok(Some(Seen { broken: answer.broken })),
                    _ => Err(of_read(&ReadError::NoQuorum)),
                }
            }
            Err(Unanswered::Fault(error)) if error.code != Code::NoLeader => Err(error),
            _ => Ok(None),
        }
    }

    /// Commits parts, whoever leads the group. Answers of each whether what it expected was so.
    pub(crate) async fn propose(&self, group: &Group<E>, id: &str, parts: Vec<Part>) -> Result<Vec<bool>> {
        let until = Instant::now() + self.patience;
        loop {
            match group.propose(parts.clone()).await {
                Ok(applied) => return Ok(applied.outcomes.iter().map(|one| *one == PartOutcome::Applied).collect()),
                Err(ProposeError::NotLeader { .. }) => {}
                Err(error) => return Err(of_proposal(id, &error)),
            }
            if let Some(leader) = self.leader(group) {
                let question = Propose { group: u32::from(group.id().get()), parts: parts.clone() };
                match self.ask(leader, question::What::Propose(question)).await {
                    Ok(answer::What::Propose(answer)) => return Ok(answer.applied),
                    Ok(_) | Err(Unanswered::Unknown) => return Err(outcome_unknown(id)),
                    Err(Unanswered::Fault(error)) if error.code != Code::NoLeader => return Err(error),
                    Err(_) => {}
                }
            }
            self.another_leader(group, until).await?;
        }
    }

    /// Who leads a group, if it is another node.
    pub(crate) fn leader(&self, group: &Group<E>) -> Option<NodeId> {
        match *group.leadership().borrow() {
            Leadership::Follower { leader } => leader.filter(|leader| *leader != self.me),
            Leadership::Leader { .. } | Leadership::Stopped => None,
        }
    }

    /// Waits a little for another leader; `NO_LEADER` once the time is over.
    pub(crate) async fn another_leader(&self, group: &Group<E>, until: Instant) -> Result<()> {
        let no_leader = || Error::new(Code::NoLeader, "no node leads the shard right now; repeat the call");
        if Instant::now() >= until {
            return Err(no_leader());
        }
        let mut leadership = group.leadership();
        if *leadership.borrow_and_update() == Leadership::Stopped {
            return Err(no_leader());
        }
        // Whether it changed or not, it is tried again.
        let _ = tokio::time::timeout(AGAIN, leadership.changed()).await;
        Ok(())
    }

    /// Where the other nodes are reached, as the rows of the cluster say.
    pub(crate) fn reached_at(&self, addresses: BTreeMap<NodeId, PeerAddress>) {
        self.caller.reached_at(addresses);
    }

    /// How long something is tried for which there is no leader.
    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }
}

/// The answer of another node.
fn answer(bytes: Bytes) -> Option<answer::What> {
    Answer::decode(bytes).ok()?.what
}
