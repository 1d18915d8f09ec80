//! What the layers above ask each other across nodes.
//!
//! Over the link that a pair of nodes has anyway, as questions and answers in words of their own. Whoever asks learns
//! whether a question that was not answered may have been acted on.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;
use futures::future::BoxFuture;
use orbit_proto::peer::FrameKind;

use super::{Error, Peers};
use crate::group::Group;
use crate::node::Environment;
use crate::types::{GroupId, NodeId, PeerAddress};

/// Calls belong to no group.
const NO_GROUP: GroupId = match GroupId::new(0) {
    Some(group) => group,
    None => unreachable!(),
};

/// Answers the questions of other nodes.
pub trait Answers: Send + Sync + 'static {
    /// Answers a member of the cluster.
    fn call(&self, from: NodeId, question: Bytes) -> BoxFuture<'static, Bytes>;

    /// Answers whoever has not greeted: it may belong to no cluster, or to another.
    fn introduce(&self, question: Bytes) -> BoxFuture<'static, Bytes>;
}

/// A call has no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CallError {
    /// Nothing was done.
    #[error("node {to} was not asked: {reason}")]
    NotAsked {
        /// The node.
        to: NodeId,
        /// Why.
        reason: String,
    },
    /// It was asked, and may have acted.
    #[error("node {to} did not answer: {reason}")]
    NoAnswer {
        /// The node.
        to: NodeId,
        /// Why.
        reason: String,
    },
}

/// Asks other nodes. A clone is another handle to the same; it outlives its node, and then reaches nobody.
pub struct Caller<E: Environment> {
    pub(crate) peers: Weak<Peers<E::Transport>>,
    pub(crate) groups: Weak<Mutex<BTreeMap<GroupId, Group<E>>>>,
}

impl<E: Environment> Clone for Caller<E> {
    fn clone(&self) -> Self {
        Caller { peers: Weak::clone(&self.peers), groups: Weak::clone(&self.groups) }
    }
}

impl<E: Environment> fmt::Debug for Caller<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Caller")
    }
}

impl<E: Environment> Caller<E> {
    /// Asks a member. Dropped, nobody waits for the answer, and what was asked is done all the same.
    pub async fn call(&self, to: NodeId, question: Bytes) -> Result<Bytes, CallError> {
        let not_asked = |reason: &str| CallError::NotAsked { to, reason: reason.to_owned() };
        let peers = self.peers.upgrade().ok_or_else(|| not_asked("this node is stopping"))?;
        let address = self.address(to).ok_or_else(|| not_asked("it is no member"))?;
        let link = peers.link::<E::Runtime>(to, &address);
        drop(peers);
        let answer = link.ask(NO_GROUP, FrameKind::Call, question).await.map_err(|e| not_asked(&e.to_string()))?;
        match answer.await.unwrap_or(Err(Error::Interrupted)) {
            Ok(answer) => Ok(answer),
            Err(error @ (Error::Unreachable { .. } | Error::Refused(_))) => Err(not_asked(&error.to_string())),
            Err(error) => Err(CallError::NoAnswer { to, reason: error.to_string() }),
        }
    }

    /// Where the nodes of the cluster are reached from now on, whatever the groups remember.
    pub fn reached_at(&self, addresses: BTreeMap<NodeId, PeerAddress>) {
        if let Some(peers) = self.peers.upgrade() {
            peers.reached_at(addresses);
        }
    }

    /// Where a member is reached, as the groups of this node know it.
    fn address(&self, of: NodeId) -> Option<PeerAddress> {
        let groups = self.groups.upgrade()?;
        let groups: Vec<_> = groups.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        groups.iter().find_map(|group| group.members().get(&of).cloned())
    }
}

impl<E: Environment> Caller<E> {
    /// Asks whoever listens at an address, in a cluster or not.
    pub async fn introduce(&self, address: &PeerAddress, question: Bytes) -> Result<Bytes, Error> {
        let gone = || Error::Refused("this node is stopping".into());
        let transport = Arc::clone(self.peers.upgrade().ok_or_else(gone)?.transport());
        super::Transport::introduce(&*transport, address, question).await
    }
}
