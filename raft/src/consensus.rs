//! The border to the consensus library: its types named once, and converted by hand.
//!
//! Nothing outside this crate sees a type of the library, and nothing durable or on the wire is one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use openraft::impls::{InlineBatch, OneshotResponder, leader_id_std};
use openraft::vote::RaftLeaderId;
use openraft::{AnyError, EntryPayload, RaftTypeConfig};
use orbit_proto::store;

use crate::state_store::PartOutcome;
use crate::types::{LogId, NodeId, PeerAddress};

/// What runs tasks, sleeps and rolls dice. Tokio in production; a simulation wraps it to make the dice repeatable.
pub trait Runtime: openraft::AsyncRuntime + Send + Sync {}

impl<T: openraft::AsyncRuntime + Send + Sync> Runtime for T {}

/// The types of the consensus library for one runtime.
pub struct Types<RT>(PhantomData<fn() -> RT>);

/// What the library carries for us: an encoded entry, or nothing of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal(pub Bytes);

impl fmt::Display for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// What applying an entry says to its proposer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reply {
    pub time_ms: u64,
    pub outcomes: Vec<PartOutcome>,
}

pub(crate) type Leader = leader_id_std::LeaderId<u64, NodeId>;
pub(crate) type Committed = <Leader as RaftLeaderId>::Committed;
pub(crate) type RaftLogId = openraft::LogId<Committed>;
pub(crate) type RaftVote = openraft::Vote<Leader>;
pub(crate) type RaftMembership = openraft::Membership<NodeId, PeerAddress>;
pub(crate) type RaftStoredMembership = openraft::StoredMembership<Committed, NodeId, PeerAddress>;
pub(crate) type Payload = EntryPayload<Proposal, NodeId, PeerAddress>;
pub(crate) type RaftEntry = openraft::Entry<Committed, Payload>;
pub(crate) type SnapshotMeta = openraft::SnapshotMeta<Committed, NodeId, PeerAddress>;
pub(crate) type WriteResult<RT> = openraft::raft::ClientWriteResult<Types<RT>>;
pub(crate) type OneshotReceiver<RT, T> = openraft::type_config::alias::OneshotReceiverOf<Types<RT>, T>;

impl<RT: Runtime> RaftTypeConfig for Types<RT> {
    type D = Proposal;
    type R = Reply;
    type NodeId = NodeId;
    type Node = PeerAddress;
    type Term = u64;
    type LeaderId = Leader;
    type Vote = RaftVote;
    type Payload = Payload;
    type Entry = RaftEntry;
    type AsyncRuntime = RT;
    type Responder<T>
        = OneshotResponder<Self, T>
    where
        T: openraft::OptionalSend + 'static;
    type Batch<T>
        = InlineBatch<T>
    where
        T: openraft::OptionalSend + 'static;
    type ErrorSource = AnyError;
}

// The library asks its marker type for these; there is only one value of it.
impl<RT> fmt::Debug for Types<RT> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Types")
    }
}
impl<RT> Clone for Types<RT> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<RT> Copy for Types<RT> {}
impl<RT> Default for Types<RT> {
    fn default() -> Self {
        Types(PhantomData)
    }
}
impl<RT> PartialEq for Types<RT> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl<RT> Eq for Types<RT> {}
impl<RT> PartialOrd for Types<RT> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<RT> Ord for Types<RT> {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

/// A record cannot be what was written.
#[derive(Debug, thiserror::Error)]
#[error("a record of kind {kind} cannot be read: {reason}; it is damaged, or a newer version wrote it")]
pub struct Unreadable {
    /// What it should have been.
    pub kind: &'static str,
    /// What is wrong with it.
    pub reason: String,
}

pub(crate) fn unreadable(kind: &'static str, reason: impl ToString) -> Unreadable {
    Unreadable { kind, reason: reason.to_string() }
}

pub(crate) fn log_id_out(id: &RaftLogId) -> store::LogId {
    store::LogId { term: id.leader_id.term, index: id.index }
}

pub(crate) fn log_id_in(id: store::LogId) -> RaftLogId {
    RaftLogId { leader_id: Committed::new(id.term), index: id.index }
}

pub(crate) fn log_id_public(id: &RaftLogId) -> LogId {
    LogId { term: id.leader_id.term, index: id.index }
}

pub(crate) fn vote_out(vote: &RaftVote) -> store::Vote {
    store::Vote { term: vote.leader_id.term, node_id: vote.leader_id.voted_for.0, committed: vote.committed }
}

pub(crate) fn vote_in(vote: store::Vote) -> RaftVote {
    let node = NodeId(vote.node_id);
    if vote.committed { RaftVote::new_committed(vote.term, node) } else { RaftVote::new(vote.term, node) }
}

pub(crate) fn membership_out(membership: &RaftMembership) -> store::Membership {
    let voters = membership.get_joint_config().iter();
    store::Membership {
        voters: voters.map(|set| store::VoterSet { node_ids: set.iter().map(|n| n.0).collect() }).collect(),
        members: membership
            .nodes()
            .map(|(id, address)| store::Member { node_id: id.0, address: address.0.clone() })
            .collect(),
    }
}

pub(crate) fn membership_in(membership: store::Membership) -> Result<RaftMembership, Unreadable> {
    let set = |set: store::VoterSet| set.node_ids.into_iter().map(NodeId).collect::<BTreeSet<_>>();
    let members = membership.members.into_iter().map(|m| (NodeId(m.node_id), PeerAddress(m.address)));
    let members: BTreeMap<_, _> = members.collect();
    if membership.voters.is_empty() && members.is_empty() {
        // The one a group has before it is initialized; the library only makes it by default.
        return Ok(RaftMembership::default());
    }
    RaftMembership::new(membership.voters.into_iter().map(set).collect(), members)
        .map_err(|e| unreadable("membership", e))
}

pub(crate) fn entry_out(entry: &RaftEntry) -> store::LogRecord {
    let payload = match &entry.payload {
        EntryPayload::Blank => store::log_record::Payload::Blank(store::Blank {}),
        EntryPayload::Normal(proposal) => store::log_record::Payload::Entry(proposal.0.clone()),
        EntryPayload::Membership(m) => store::log_record::Payload::Membership(membership_out(m)),
    };
    store::LogRecord { term: entry.log_id.leader_id.term, payload: Some(payload) }
}

pub(crate) fn entry_in(index: u64, record: store::LogRecord) -> Result<RaftEntry, Unreadable> {
    let payload = match record.payload {
        Some(store::log_record::Payload::Blank(_)) => EntryPayload::Blank,
        Some(store::log_record::Payload::Entry(bytes)) => EntryPayload::Normal(Proposal(bytes)),
        Some(store::log_record::Payload::Membership(m)) => EntryPayload::Membership(membership_in(m)?),
        None => return Err(unreadable("log entry", "it carries nothing")),
    };
    Ok(RaftEntry { log_id: log_id_in(store::LogId { term: record.term, index }), payload })
}

/// How many bytes an entry carries, about.
pub(crate) fn entry_bytes(entry: &RaftEntry) -> usize {
    match &entry.payload {
        EntryPayload::Normal(proposal) => proposal.0.len() + 16,
        EntryPayload::Blank | EntryPayload::Membership(_) => 64,
    }
}
