//! From many proposals to few entries.
//!
//! ```text
//!   propose ─┐                 ┌── entry n   ─▶ log of a quorum ─▶ applied ─▶ each proposer its outcome
//!   propose ─┼─▶ bounded queue ┤
//!   propose ─┘                 └── entry n+1, gathered while n is under way
//! ```
//!
//! A round takes everything that waits, up to a count and a size, into one entry and gives it the time of the log. It
//! is bound to the term in which this node leads: should another leader have been in between, nothing of it is
//! appended, so what a proposer decided from the state of that term cannot land in another.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use openraft::errors::{ClientWriteError, ForwardReason};
use openraft::impls::OneshotResponder;
use orbit_proto::store;
use prost::Message;
use tokio::sync::{mpsc, oneshot, watch};

use crate::clock::GroupClock;
use crate::consensus::{Committed, OneshotReceiver, Proposal, Reply, Runtime, WriteResult, log_id_public};
use crate::disk::StateDisk;
use crate::gate::Gated;
use crate::group::{Leadership, RaftOf};
use crate::settings::Settings;
use crate::state_store::part::{encode_entry, validate};
use crate::state_store::{Malformed, PartOutcome};
use crate::types::{GroupId, LogId, NodeId, Term};

/// What became of a proposal: it is in the log of a quorum, on disk, and applied here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The entry that carried it.
    pub log_id: LogId,
    /// The time of that entry, in milliseconds since 1970.
    pub time_ms: u64,
    /// What became of each part, in their order.
    pub outcomes: Vec<PartOutcome>,
}

/// A proposal did not come through, or nobody knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// Nothing was done: this node does not lead, or no longer in that term.
    #[error("this node does not lead the group; ask node {}", .leader.map_or("unknown".into(), |n| n.to_string()))]
    NotLeader {
        /// Who may lead.
        leader: Option<NodeId>,
    },
    /// It may be done or not, now or later. Read the state to know; what is repeated must tolerate both.
    #[error("the outcome is unknown: the proposal may or may not be applied; read the state before repeating it")]
    OutcomeUnknown,
    /// Nothing was done: too much waits already.
    #[error("too many proposals are waiting; repeat it later")]
    Overloaded,
    /// Nothing was done: the group has stopped on this node.
    #[error("the group has stopped on this node")]
    Stopped,
    /// Nothing was done: it is larger than an entry may be.
    #[error("the proposal has {size_bytes} bytes, an entry at most {max_bytes}; split it")]
    TooLarge {
        /// Its size.
        size_bytes: usize,
        /// What an entry holds.
        max_bytes: usize,
    },
    /// Nothing was done: not every node of the cluster can read it yet.
    #[error("{reason}")]
    NotYet {
        /// What it is, and what to do.
        reason: String,
    },
    /// Nothing was done: a part asks for what no part may do.
    #[error("a part is malformed: {0}")]
    Malformed(#[from] Malformed),
}

type Outcome = Result<Applied, ProposeError>;

/// A proposal in the queue. If it is dropped unanswered, its proposer learns that the outcome is unknown.
#[derive(Debug)]
struct Waiting {
    term: Option<Term>,
    parts: Vec<store::Part>,
    size_bytes: usize,
    reply: oneshot::Sender<Outcome>,
}

/// Where proposals of a group go.
#[derive(Debug, Clone)]
pub(crate) struct Proposals {
    queue: mpsc::Sender<Waiting>,
    entry_bytes_max: usize,
    group: GroupId,
    gate: Gated,
    flow: Arc<Flow>,
}

/// Whether proposals become entries just now. They wait in the queue while somebody holds them up.
#[derive(Debug, Default)]
struct Flow {
    /// How many hold them up.
    held_up: watch::Sender<usize>,
    /// Entries under way.
    under_way: watch::Sender<usize>,
}

/// Nothing new is proposed until it is dropped.
#[derive(Debug)]
pub(crate) struct HeldUp(Arc<Flow>);

impl Drop for HeldUp {
    fn drop(&mut self) {
        self.0.held_up.send_modify(|holders| *holders -= 1);
    }
}

impl Proposals {
    /// Makes no more entries, and waits until those under way have come to their end, or for so long.
    pub(crate) async fn hold_up<RT: Runtime>(&self, at_most: std::time::Duration) -> HeldUp {
        self.flow.held_up.send_modify(|holders| *holders += 1);
        let held_up = HeldUp(Arc::clone(&self.flow));
        let mut under_way = self.flow.under_way.subscribe();
        // Those that do not end in time have an unknown outcome, as they would have had otherwise.
        let ended = async { drop(under_way.wait_for(|entries| *entries == 0).await) };
        let _ = RT::timeout(at_most, ended).await;
        held_up
    }

    /// Proposes parts and waits until they are applied.
    pub(crate) async fn propose<RT: Runtime>(
        &self,
        term: Option<Term>,
        parts: Vec<store::Part>,
        deadline: std::time::Duration,
    ) -> Outcome {
        parts.iter().try_for_each(validate)?;
        if let Some(reason) = self.gate.refusal(self.group, &parts) {
            return Err(ProposeError::NotYet { reason });
        }
        let size_bytes = parts.iter().map(Message::encoded_len).sum();
        if size_bytes > self.entry_bytes_max {
            return Err(ProposeError::TooLarge { size_bytes, max_bytes: self.entry_bytes_max });
        }
        let (reply, outcome) = oneshot::channel();
        let waiting = Waiting { term, parts, size_bytes, reply };
        match RT::timeout(deadline, self.queue.send(waiting)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Err(ProposeError::Stopped),
            Err(_) => return Err(ProposeError::Overloaded),
        }
        match RT::timeout(deadline, outcome).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) | Err(_) => Err(ProposeError::OutcomeUnknown),
        }
    }
}

/// The task that makes entries of proposals.
pub(crate) struct Proposer<RT: Runtime, D: StateDisk> {
    pub(crate) raft: RaftOf<RT, D>,
    pub(crate) clock: Arc<GroupClock>,
    pub(crate) leadership: watch::Receiver<Leadership>,
    pub(crate) settings: Settings,
    pub(crate) group: GroupId,
    pub(crate) gate: Gated,
}

/// An entry and those who wait for it.
struct Round {
    term: Term,
    proposal: Proposal,
    /// How many of the parts belong to each proposer, in order.
    proposers: Vec<(usize, oneshot::Sender<Outcome>)>,
}

/// An entry under way.
struct UnderWay<RT: Runtime> {
    round: Round,
    result: OneshotReceiver<RT, WriteResult<RT>>,
}

impl<RT: Runtime, D: StateDisk> Proposer<RT, D> {
    /// Starts the task. It ends when the last handle is gone.
    pub(crate) fn start(self) -> Proposals {
        let (queue, waiting) = mpsc::channel(self.settings.proposals_waiting_max);
        let entry_bytes_max = self.settings.entry_bytes_max;
        let (group, gate) = (self.group, self.gate.clone());
        let flow = Arc::default();
        drop(RT::spawn(self.run(waiting, Arc::clone(&flow))));
        Proposals { queue, entry_bytes_max, group, gate, flow }
    }

    async fn run(self, mut queue: mpsc::Receiver<Waiting>, flow: Arc<Flow>) {
        let mut under_way = FuturesUnordered::new();
        let mut held: Option<Waiting> = None;
        let mut held_up = flow.held_up.subscribe();
        loop {
            flow.under_way.send_if_modified(|entries| std::mem::replace(entries, under_way.len()) != under_way.len());
            let flows = *held_up.borrow_and_update() == 0;
            let room = flows && under_way.len() < self.settings.entries_under_way_max;
            tokio::select! {
                biased;
                // Its sender lives as long as this task.
                _ = held_up.changed() => {}
                Some(retry) = under_way.next(), if !under_way.is_empty() => {
                    if let Some(round) = retry {
                        under_way.extend(self.again(round).await.map(finish));
                    }
                }
                first = next(&mut held, &mut queue), if room => {
                    let Some(first) = first else { break };
                    let round = self.gather(first, &mut held, &mut queue);
                    under_way.extend(self.begin(round).await.map(finish));
                }
            }
        }
        while under_way.next().await.is_some() {}
    }

    /// Takes what waits into a round, up to the bounds of an entry. What does not fit any more is held for the next.
    fn gather(&self, first: Waiting, held: &mut Option<Waiting>, queue: &mut mpsc::Receiver<Waiting>) -> Vec<Waiting> {
        let (mut parts, mut size_bytes) = (first.parts.len(), first.size_bytes);
        let mut round = vec![first];
        while parts < self.settings.entry_parts_max {
            let Ok(next) = queue.try_recv() else { break };
            if size_bytes + next.size_bytes > self.settings.entry_bytes_max {
                *held = Some(next);
                break;
            }
            parts += next.parts.len();
            size_bytes += next.size_bytes;
            round.push(next);
        }
        round
    }

    async fn begin(&self, round: Vec<Waiting>) -> Option<UnderWay<RT>> {
        let leadership = *self.leadership.borrow();
        let led = match leadership {
            Leadership::Leader { term } => Ok(term),
            Leadership::Follower { leader } => Err(ProposeError::NotLeader { leader }),
            Leadership::Stopped => Err(ProposeError::Stopped),
        };
        let term = match led {
            Ok(term) => term,
            Err(refusal) => {
                answer_all(round, &refusal);
                return None;
            }
        };
        let (now, stale): (Vec<_>, Vec<_>) = round.into_iter().partition(|w| w.term.is_none_or(|t| t == term));
        answer_all(stale, &ProposeError::NotLeader { leader: None });
        if now.is_empty() {
            return None;
        }
        let mut parts = Vec::new();
        let mut proposers = Vec::with_capacity(now.len());
        for waiting in now {
            proposers.push((waiting.parts.len(), waiting.reply));
            parts.extend(waiting.parts);
        }
        let proposal = Proposal(encode_entry(self.clock.now_ms(), parts));
        self.submit(Round { term, proposal, proposers }).await
    }

    /// Submits once more an entry that was refused before it was appended, with a new time.
    async fn again(&self, round: Round) -> Option<UnderWay<RT>> {
        RT::sleep(self.settings.heartbeat / 4).await;
        // What was encoded here a moment ago can be decoded.
        let parts = store::Entry::decode(round.proposal.0).ok()?.parts;
        let proposal = Proposal(encode_entry(self.clock.now_ms(), parts));
        self.submit(Round { proposal, ..round }).await
    }

    async fn submit(&self, round: Round) -> Option<UnderWay<RT>> {
        let (responder, result) = OneshotResponder::new_pair();
        let leader = Committed::new(round.term.0);
        match self.raft.write(round.proposal.clone()).with_leader(leader).responder(responder).await {
            Ok(()) => Some(UnderWay { round, result }),
            Err(_) => {
                round.fail(&ProposeError::Stopped);
                None
            }
        }
    }
}

impl Round {
    fn fail(self, error: &ProposeError) {
        for (_, reply) in self.proposers {
            // Who no longer waits does not need to know.
            let _ = reply.send(Err(error.clone()));
        }
    }
}

async fn next(held: &mut Option<Waiting>, queue: &mut mpsc::Receiver<Waiting>) -> Option<Waiting> {
    match held.take() {
        Some(waiting) => Some(waiting),
        None => queue.recv().await,
    }
}

fn answer_all(round: Vec<Waiting>, error: &ProposeError) {
    for waiting in round {
        // Who no longer waits does not need to know.
        let _ = waiting.reply.send(Err(error.clone()));
    }
}

/// Waits for the result of an entry and tells it to its proposers. Returns the round if it must be submitted again.
async fn finish<RT: Runtime>(entry: UnderWay<RT>) -> Option<Round> {
    let UnderWay { round, result } = entry;
    match result.await {
        Ok(Ok(response)) => share_out(log_id_public(&response.log_id), response.data, round.proposers),
        // Only the lease has run out: this node still leads and nothing was appended, so it is no reason to turn to
        // somebody else. For those who have stopped waiting nothing is proposed any more.
        Ok(Err(ClientWriteError::ForwardToLeader(forward))) if forward.reason == ForwardReason::LeaseExpired => {
            return Some(round).filter(|round| round.proposers.iter().any(|(_, reply)| !reply.is_closed()));
        }
        Ok(Err(ClientWriteError::ForwardToLeader(forward))) => {
            round.fail(&ProposeError::NotLeader { leader: forward.leader_id });
        }
        Ok(Err(_)) | Err(_) => round.fail(&ProposeError::OutcomeUnknown),
    }
    None
}

fn share_out(log_id: LogId, reply: Reply, proposers: Vec<(usize, oneshot::Sender<Outcome>)>) {
    let mut outcomes = reply.outcomes.into_iter();
    for (parts, proposer) in proposers {
        let outcomes = outcomes.by_ref().take(parts).collect();
        let _ = proposer.send(Ok(Applied { log_id, time_ms: reply.time_ms, outcomes }));
    }
}
