//! One replication group on this node, as the layers above use it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{ClientWriteError, RaftError};
use openraft::{AsyncRuntime as _, ChangeMembers, ServerState};
use orbit_proto::store;
use tokio::sync::watch;

use crate::clock::GroupClock;
use crate::consensus::{Types, log_id_public};
use crate::disk::StateDisk;
use crate::node::Environment;
use crate::propose::{Applied, Proposals, ProposeError};
use crate::read_index::{ReadError, Reads};
use crate::state_store::read::Reader;
use crate::state_store::{self, Mark, Marks, StateHash, StateMachine, TooManyMarks, Watched};
use crate::types::{GroupId, LogId, NodeId, PeerAddress, Term};

pub(crate) type RaftOf<RT, D> = openraft::Raft<Types<RT>, StateMachine<D>>;
pub(crate) type Raft<E> = RaftOf<<E as Environment>::Runtime, <E as Environment>::StateDisk>;

/// Whether this node leads a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leadership {
    /// It leads, and has applied an entry of this term: its state holds all that any leader before acknowledged.
    Leader {
        /// The term. What is decided from the state now is proposed in this term.
        term: Term,
    },
    /// It does not lead, or may not decide yet.
    Follower {
        /// Who leads, if known; this node itself while it may not decide yet.
        leader: Option<NodeId>,
    },
    /// The group has stopped on this node.
    Stopped,
}

/// Where a group stands on this node, for display and tests. The marks may lag a little.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupStatus {
    /// The term.
    pub term: Term,
    /// Who leads, if known.
    pub leader: Option<NodeId>,
    /// The index of the last entry in the log.
    pub last_index: Option<u64>,
    /// The last entry known to be committed.
    pub committed: Option<LogId>,
    /// The last entry applied.
    pub applied: Option<LogId>,
    /// The last entry of the last snapshot.
    pub snapshot: Option<LogId>,
    /// The last entry purged.
    pub purged: Option<LogId>,
    /// The voters.
    pub voters: BTreeSet<NodeId>,
    /// Those that only learn.
    pub learners: BTreeSet<NodeId>,
    /// On the leader: how far the log of each member is known to agree.
    pub matched: BTreeMap<NodeId, u64>,
}

/// A change of the members did not come through.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MembershipError {
    /// This node does not lead.
    #[error("this node does not lead the group; ask node {}", .leader.map_or("unknown".into(), |n| n.to_string()))]
    NotLeader {
        /// Who may lead.
        leader: Option<NodeId>,
    },
    /// It is not allowed.
    #[error("the members cannot be changed like this: {0}")]
    Refused(String),
    /// It may be done or not.
    #[error("the outcome is unknown; look at the members before repeating it")]
    OutcomeUnknown,
    /// The group has stopped on this node.
    #[error("the group has stopped on this node")]
    Stopped,
}

/// One group on this node. A clone is another handle to the same.
pub struct Group<E: Environment>(Arc<Inner<E>>);

pub(crate) struct Inner<E: Environment> {
    pub(crate) id: GroupId,
    pub(crate) raft: Raft<E>,
    pub(crate) state: E::StateDisk,
    pub(crate) marks: Arc<Marks<E::StateDisk>>,
    pub(crate) clock: Arc<GroupClock>,
    pub(crate) proposals: Proposals,
    pub(crate) reads: Reads,
    pub(crate) leadership: watch::Receiver<Leadership>,
    pub(crate) deadline: Duration,
    /// How long a transfer of the leadership may hold up proposals: for what is under way, and for the other to lead.
    pub(crate) transfer_time: Duration,
}

impl<E: Environment> Clone for Group<E> {
    fn clone(&self) -> Self {
        Group(Arc::clone(&self.0))
    }
}

impl<E: Environment> fmt::Debug for Group<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("id", &self.0.id).finish_non_exhaustive()
    }
}

impl<E: Environment> Group<E> {
    pub(crate) fn new(inner: Inner<E>) -> Self {
        Group(Arc::new(inner))
    }

    /// Which group it is.
    pub fn id(&self) -> GroupId {
        self.0.id
    }

    /// Proposes parts and waits until they are applied here, whoever waits with them. They go into one entry, in the
    /// term in which this node leads when the entry is made.
    pub async fn propose(&self, parts: Vec<store::Part>) -> Result<Applied, ProposeError> {
        self.0.proposals.propose::<E::Runtime>(None, parts, self.0.deadline).await
    }

    /// Like [`Group::propose`], and refused unless this node leads in `term`: the term in which the state was read
    /// that the parts were decided from.
    pub async fn propose_in(&self, term: Term, parts: Vec<store::Part>) -> Result<Applied, ProposeError> {
        self.0.proposals.propose::<E::Runtime>(Some(term), parts, self.0.deadline).await
    }

    /// Whether this node leads. The receiver sees every change, if it looks in time, and always the last one.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.0.leadership.clone()
    }

    /// Makes sure that a read of the state that begins after this sees all that was acknowledged before this began.
    pub async fn read_index(&self) -> Result<LogId, ReadError> {
        self.0.reads.wait::<E::Runtime>(self.0.deadline).await
    }

    /// Reads the applied state as of one moment. Call [`Group::read_index`] before it unless old state will do.
    pub fn read<R>(&self, reader: impl FnOnce(&Reader<'_>) -> R) -> R {
        self.0.state.read(|view| reader(&Reader::new(self.0.id, view)))
    }

    /// Hashes the applied state. Reads all of it.
    pub fn state_hash(&self) -> Result<StateHash, state_store::Error> {
        self.read(|reader| reader.hash())
    }

    /// Begins to watch for a mark. Propose [`Mark::part`] once it is watched for wherever it should be.
    pub fn watch(&self, mark: &Mark) -> Result<Watched<E::StateDisk>, TooManyMarks> {
        self.0.marks.watch(mark)
    }

    /// The time of the log now, in milliseconds since 1970. Every entry proposed after this has this time or a later
    /// one. It means something only on the leader.
    pub fn now_ms(&self) -> u64 {
        self.0.clock.now_ms()
    }

    /// Gives a new group its first members. Refused if it has some. Exactly one node calls this, once in the life of
    /// the group.
    pub async fn initialize(&self, members: BTreeMap<NodeId, PeerAddress>) -> Result<(), MembershipError> {
        match self.0.raft.initialize(members).await {
            Ok(()) => Ok(()),
            Err(RaftError::APIError(error)) => Err(MembershipError::Refused(error.to_string())),
            Err(RaftError::Fatal(_)) => Err(MembershipError::Stopped),
        }
    }

    /// Whether the group has members.
    pub async fn is_initialized(&self) -> Result<bool, MembershipError> {
        self.0.raft.is_initialized().await.map_err(|_| MembershipError::Stopped)
    }

    /// Adds a node that learns, and waits until it has caught up.
    pub async fn add_learner(&self, node: NodeId, address: PeerAddress) -> Result<(), MembershipError> {
        self.0.raft.add_learner(node, address, true).await.map(drop).map_err(membership_error)
    }

    /// Writes down where members are reached now. Who they are does not change: whoever answers there shows it.
    pub async fn set_addresses(&self, addresses: BTreeMap<NodeId, PeerAddress>) -> Result<(), MembershipError> {
        let change = ChangeMembers::SetNodes(addresses);
        self.0.raft.change_membership(change, true).await.map(drop).map_err(membership_error)
    }

    /// Changes who votes. Those named must be members; those no longer named leave the group.
    pub async fn change_voters(&self, voters: BTreeSet<NodeId>) -> Result<(), MembershipError> {
        let change = ChangeMembers::ReplaceAllVoters(voters);
        self.0.raft.change_membership(change, false).await.map(drop).map_err(membership_error)
    }

    /// Removes members that do not vote.
    pub async fn remove_learners(&self, learners: BTreeSet<NodeId>) -> Result<(), MembershipError> {
        let change = ChangeMembers::RemoveNodes(learners);
        self.0.raft.change_membership(change, false).await.map(drop).map_err(membership_error)
    }

    /// Asks another voter to lead, and waits for a moment until it does; [`Group::leadership`] shows whether it does.
    /// What is proposed meanwhile waits for it, so that its outcome is known: it goes on here, or was not done.
    pub async fn transfer_leadership(&self, to: NodeId) -> Result<(), MembershipError> {
        let held_up = self.0.proposals.hold_up::<E::Runtime>(self.0.transfer_time).await;
        self.0.raft.trigger().transfer_leader(to).await.map_err(|_| MembershipError::Stopped)?;
        let mut leadership = self.leadership();
        let moved = async { drop(leadership.wait_for(|now| !matches!(now, Leadership::Leader { .. })).await) };
        // One that does not move in time is led here as before.
        let _ = E::Runtime::timeout(self.0.transfer_time, moved).await;
        drop(held_up);
        Ok(())
    }

    /// Whether this node stands for election when it misses the leader. It votes for others either way, and takes a
    /// leadership that is transferred to it.
    pub fn stand_for_election(&self, stands: bool) {
        self.0.raft.runtime_config().elect(stands);
    }

    /// Makes the state durable now, so that the log up to here may be purged.
    pub async fn take_snapshot(&self) -> Result<(), MembershipError> {
        self.0.raft.trigger().snapshot().await.map_err(|_| MembershipError::Stopped)
    }

    /// Purges the log up to an index, as far as snapshots allow.
    pub async fn purge_log(&self, upto: u64) -> Result<(), MembershipError> {
        self.0.raft.trigger().purge_log(upto).await.map_err(|_| MembershipError::Stopped)
    }

    /// All members, voters and learners, and where they are reached.
    pub fn members(&self) -> BTreeMap<NodeId, PeerAddress> {
        let metrics = self.0.raft.metrics();
        let metrics = metrics.borrow_watched();
        metrics.membership_config.nodes().map(|(node, address)| (*node, address.clone())).collect()
    }

    /// Where the group stands.
    pub fn status(&self) -> GroupStatus {
        status(&self.0.raft.metrics().borrow_watched())
    }

    /// Waits until the status is as wanted; `None` if the group stops before.
    pub async fn wait_for(&self, mut wanted: impl FnMut(&GroupStatus) -> bool) -> Option<GroupStatus> {
        let mut metrics = self.0.raft.metrics();
        loop {
            let now = status(&metrics.borrow_watched());
            if wanted(&now) {
                return Some(now);
            }
            metrics.changed().await.ok()?;
        }
    }

    /// Lets the followers know that this node leads, if it does. Never waits.
    pub(crate) fn beat(&self) {
        if self.0.raft.metrics().borrow_watched().state == ServerState::Leader {
            // Outside of the budget of the task: with many groups it would run out, and the rest would not beat.
            let _ = tokio::task::unconstrained(self.0.raft.trigger().heartbeat()).now_or_never();
        }
    }

    pub(crate) async fn stop(&self) {
        // A task that panicked has stopped as well.
        let _ = self.0.raft.shutdown().await;
    }
}

fn membership_error<E: openraft::RaftTypeConfig<NodeId = NodeId>>(
    error: RaftError<E, ClientWriteError<E>>,
) -> MembershipError {
    match error {
        RaftError::APIError(ClientWriteError::ForwardToLeader(forward)) => {
            MembershipError::NotLeader { leader: forward.leader_id }
        }
        RaftError::APIError(ClientWriteError::LogEntryDiscarded(_)) => MembershipError::OutcomeUnknown,
        RaftError::APIError(other) => MembershipError::Refused(other.to_string()),
        RaftError::Fatal(_) => MembershipError::Stopped,
    }
}

fn status<RT: crate::consensus::Runtime>(metrics: &openraft::RaftMetrics<Types<RT>>) -> GroupStatus {
    let membership = metrics.membership_config.membership();
    GroupStatus {
        term: Term(metrics.current_term),
        leader: metrics.current_leader,
        last_index: metrics.last_log_index,
        committed: metrics.cluster_committed.as_ref().map(log_id_public),
        applied: metrics.last_applied.as_ref().map(log_id_public),
        snapshot: metrics.snapshot.as_ref().map(log_id_public),
        purged: metrics.purged.as_ref().map(log_id_public),
        voters: membership.voter_ids().collect(),
        learners: membership.learner_ids().collect(),
        matched: metrics
            .replication
            .iter()
            .flatten()
            .filter_map(|(node, log_id)| Some((*node, log_id.as_ref()?.index)))
            .collect(),
    }
}

fn leadership<RT: crate::consensus::Runtime>(metrics: &openraft::RaftMetrics<Types<RT>>) -> Leadership {
    if metrics.running_state.is_err() {
        return Leadership::Stopped;
    }
    let applied = metrics.last_applied.as_ref().map(|id| id.leader_id.term);
    if metrics.state == ServerState::Leader && applied == Some(metrics.current_term) {
        Leadership::Leader { term: Term(metrics.current_term) }
    } else {
        Leadership::Follower { leader: metrics.current_leader }
    }
}

/// Keeps a watch of the leadership until the group stops.
pub(crate) fn watch_leadership<E: Environment>(raft: &Raft<E>) -> watch::Receiver<Leadership> {
    let mut metrics = raft.metrics();
    let (sender, receiver) = watch::channel(leadership(&metrics.borrow_watched()));
    drop(<E::Runtime as openraft::AsyncRuntime>::spawn(async move {
        while metrics.changed().await.is_ok() {
            let now = leadership(&metrics.borrow_watched());
            sender.send_if_modified(|known| std::mem::replace(known, now) != now);
        }
        sender.send_replace(Leadership::Stopped);
    }));
    receiver
}
