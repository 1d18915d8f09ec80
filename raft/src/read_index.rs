//! Reads that see everything acknowledged before they began.
//!
//! A leader may have been deposed without knowing. Before it answers from its state it asks a quorum whether it still
//! leads, and waits until it has applied what was committed when the read began; a new leader first applies an entry
//! of its own term. All who wait share one such question. The lease is not relied on: a follower that restarted
//! quickly has forgotten it.

use openraft::ReadPolicy;
use openraft::errors::{LinearizableReadError, RaftError};
use tokio::sync::{mpsc, oneshot};

use crate::consensus::{Runtime, log_id_public};
use crate::disk::StateDisk;
use crate::group::RaftOf;
use crate::types::{LogId, NodeId};

/// How many reads may wait in a group.
const QUEUE: usize = 4096;

/// A read was not let through.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// This node does not lead.
    #[error("this node does not lead the group; ask node {}", .leader.map_or("unknown".into(), |n| n.to_string()))]
    NotLeader {
        /// Who may lead.
        leader: Option<NodeId>,
    },
    /// A quorum did not answer.
    #[error("no quorum answered; repeat the read")]
    NoQuorum,
    /// Too many reads wait already.
    #[error("too many reads are waiting; repeat it later")]
    Overloaded,
    /// The group has stopped on this node.
    #[error("the group has stopped on this node")]
    Stopped,
}

type Outcome = Result<LogId, ReadError>;

/// Where reads of a group wait.
#[derive(Debug, Clone)]
pub(crate) struct Reads(mpsc::Sender<oneshot::Sender<Outcome>>);

impl Reads {
    pub(crate) fn start<RT: Runtime, D: StateDisk>(raft: RaftOf<RT, D>) -> Self {
        let (queue, waiting) = mpsc::channel(QUEUE);
        drop(RT::spawn(serve(raft, waiting)));
        Reads(queue)
    }

    pub(crate) async fn wait<RT: Runtime>(&self, deadline: std::time::Duration) -> Outcome {
        let (reply, outcome) = oneshot::channel();
        self.0.try_send(reply).map_err(|e| match e {
            mpsc::error::TrySendError::Full(_) => ReadError::Overloaded,
            mpsc::error::TrySendError::Closed(_) => ReadError::Stopped,
        })?;
        match RT::timeout(deadline, outcome).await {
            Ok(outcome) => outcome.unwrap_or(Err(ReadError::Stopped)),
            Err(_) => Err(ReadError::NoQuorum),
        }
    }
}

async fn serve<RT: Runtime, D: StateDisk>(raft: RaftOf<RT, D>, mut queue: mpsc::Receiver<oneshot::Sender<Outcome>>) {
    let mut waiting = Vec::new();
    while queue.recv_many(&mut waiting, QUEUE).await > 0 {
        let outcome = probe(&raft).await;
        for reply in waiting.drain(..) {
            // Who no longer waits does not need to know.
            let _ = reply.send(outcome.clone());
        }
    }
}

async fn probe<RT: Runtime, D: StateDisk>(raft: &RaftOf<RT, D>) -> Outcome {
    let linearizer = match raft.get_read_linearizer(ReadPolicy::ReadIndex).await {
        Ok(linearizer) => linearizer,
        Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(forward))) => {
            return Err(ReadError::NotLeader { leader: forward.leader_id });
        }
        Err(RaftError::APIError(LinearizableReadError::QuorumNotEnough(_))) => return Err(ReadError::NoQuorum),
        Err(RaftError::Fatal(_)) => return Err(ReadError::Stopped),
    };
    match linearizer.await_ready(raft).await {
        Ok(state) => Ok(log_id_public(state.read_log_id().log_id())),
        Err(_) => Err(ReadError::Stopped),
    }
}
