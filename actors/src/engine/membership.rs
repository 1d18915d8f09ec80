//! The nodes of the cluster: how one joins, leaves, and gives its leaderships away before it stops.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use orbit_proto::engine::NodeRecord;
use orbit_proto::node::{self, Answer, Question, answer, membership, question};
use orbit_raft::network::Transport;
use orbit_raft::{Environment, Group, Knows, Leadership, NodeId, PeerAddress};
use prost::Message;
use tokio::time::Instant;
use uuid::Uuid;

use super::{Engine, Running, lookout, odd};
use crate::api::{NodeCondition, NodeSummary};
use crate::condition::Conditions;
use crate::error::{Code, Error, Result};
use crate::format;
use crate::remote::members::{self, Newcomer};
use crate::remote::wire;

/// How long a leadership that was offered may take to move.
pub(super) const MOVE_WAIT: Duration = Duration::from_millis(500);

/// How long a node that leaves is waited for.
const LEAVE_WAIT: Duration = Duration::from_secs(20);
/// Between two looks at the members of the groups.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// What a node that joins is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invitation {
    /// The cluster.
    pub cluster: Uuid,
    /// The number of the new node.
    pub node: NodeId,
}

/// Who listens at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Its cluster, if it belongs to one.
    pub cluster: Option<Uuid>,
    /// Its number there.
    pub node: NodeId,
    /// What it is called.
    pub name: String,
    /// Whether it is about to make a cluster.
    pub makes_a_cluster: bool,
}

/// Asks whoever listens at an address who it is. `makes_a_cluster`: this node is about to make one.
///
/// # Errors
/// `NO_LEADER`: nobody answers there.
pub async fn neighbour(transport: &impl Transport, at: &PeerAddress, makes_a_cluster: bool) -> Result<Neighbour> {
    let asked = question::What::Standing(node::Standing { makes_a_cluster });
    match introduce(transport, at, asked).await? {
        answer::What::Standing(standing) => Ok(Neighbour {
            cluster: Uuid::from_slice(&standing.cluster).ok(),
            node: NodeId(standing.node_id),
            name: standing.name,
            makes_a_cluster: standing.makes_a_cluster,
        }),
        _ => Err(odd()),
    }
}

/// Asks a node of a cluster to take this one in. Asked again with the same incarnation it gives the same answer.
///
/// # Errors
/// `NO_LEADER`: nobody answers there, or the cluster cannot decide; `INVALID_REQUEST`: it is refused.
pub async fn join(
    transport: &impl Transport,
    at: &PeerAddress,
    name: &str,
    address: &PeerAddress,
    incarnation: Uuid,
    knows: Knows,
) -> Result<Invitation> {
    let incarnation = Bytes::copy_from_slice(incarnation.as_bytes());
    let Knows { version, format, rules } = knows;
    let (name, address) = (name.to_owned(), address.to_string());
    let join = node::Join { name, address, incarnation, version, format, rules, node_id: None };
    let asked = question::What::Membership(node::Membership { what: Some(membership::What::Join(join)) });
    match introduce(transport, at, asked).await? {
        answer::What::Membership(answer) => {
            let cluster = Uuid::from_slice(&answer.cluster).map_err(|_| odd())?;
            Ok(Invitation { cluster, node: NodeId(answer.node_id) })
        }
        _ => Err(odd()),
    }
}

async fn introduce(transport: &impl Transport, at: &PeerAddress, what: question::What) -> Result<answer::What> {
    let question = Question { what: Some(what) }.encode_to_vec();
    let not_there = |reason: &str| Error::new(Code::NoLeader, format!("{at} does not answer: {reason}"));
    let answer = transport.introduce(at, question.into()).await.map_err(|error| not_there(&error.to_string()))?;
    match Answer::decode(answer).ok().and_then(|answer| answer.what) {
        Some(answer::What::Fault(fault)) => Err(wire::fault_in(fault)),
        Some(answer) => Ok(answer),
        None => Err(not_there("it speaks another language")),
    }
}

/// The answer of a node that belongs to no cluster yet, to whoever asks who it is.
#[must_use]
pub fn answer_alone(question: Bytes, name: &str, makes_a_cluster: bool) -> Bytes {
    let what = match Question::decode(question).ok().and_then(|question| question.what) {
        Some(question::What::Standing(_)) => answer::What::Standing(node::StandingAnswer {
            name: name.to_owned(),
            makes_a_cluster,
            ..knowing(format::knows())
        }),
        _ => answer::What::Fault(wire::fault(&Error::new(Code::NoLeader, "this node belongs to no cluster yet"))),
    };
    Answer { what: Some(what) }.encode_to_vec().into()
}

/// What this binary says of itself.
fn knowing(knows: Knows) -> node::StandingAnswer {
    let Knows { version, format, rules } = knows;
    node::StandingAnswer { version, format, rules, ..node::StandingAnswer::default() }
}

impl<E: Environment> Engine<E> {
    /// Whoever has not greeted asks this node.
    pub(super) async fn answer_stranger(&self, question: question::What) -> Result<answer::What> {
        match question {
            question::What::Standing(_) => Ok(answer::What::Standing(self.standing())),
            question::What::Membership(node::Membership { what: Some(membership::What::Join(join)) }) => {
                self.take_in(&*self.running()?, join).await.map(answer::What::Membership)
            }
            _ => Err(Error::new(Code::InvalidRequest, "a node that belongs to no cluster may ask to join, no more")),
        }
    }

    pub(super) fn standing(&self) -> node::StandingAnswer {
        let identity = self.0.identity;
        let standing = node::StandingAnswer {
            cluster: Bytes::copy_from_slice(identity.cluster.as_bytes()),
            node_id: identity.node.0,
            name: self.0.settings.node_name.clone(),
            makes_a_cluster: false,
            ..knowing(self.0.settings.knows.clone())
        };
        lookout::tell(&self.condition(), standing)
    }

    /// Takes a new node in, or hears what a member says of itself.
    pub(super) async fn take_in(&self, running: &Running<E>, join: node::Join) -> Result<node::MembershipAnswer> {
        if join.name.is_empty() || join.address.is_empty() || join.incarnation.len() != 16 {
            return Err(Error::new(Code::InvalidRequest, "a node that joins says its name, its address and who it is"));
        }
        running.formats.allows(format::CLUSTERS)?;
        let newcomer = Newcomer {
            name: join.name,
            address: join.address,
            incarnation: join.incarnation,
            knows: Knows { version: join.version, format: join.format, rules: join.rules },
            number: join.node_id.map(NodeId),
        };
        self.is_free(running, &newcomer).await?;
        let meta = running.definitions.meta();
        let node = members::take_in(&running.cluster, meta, &newcomer, &self.0.settings.knows).await?;
        if newcomer.number.is_none() {
            tracing::info!(%node, name = newcomer.name, address = newcomer.address, "a node joins the cluster");
        }
        let cluster = Bytes::copy_from_slice(self.0.identity.cluster.as_bytes());
        Ok(node::MembershipAnswer { cluster, node_id: node.0 })
    }

    /// Two nodes that live cannot have one name: their operators would not know which is which.
    async fn is_free(&self, running: &Running<E>, newcomer: &Newcomer) -> Result<()> {
        running.cluster.read_index(running.definitions.meta(), None).await?;
        for (node, record) in members::present(&members::nodes(running.definitions.meta())?) {
            if record.name != newcomer.name || record.incarnation == newcomer.incarnation {
                continue;
            }
            let lives = node == running.cluster.me || {
                let asked = running.cluster.ask(node, question::What::Standing(node::Standing::default()));
                matches!(tokio::time::timeout(MOVE_WAIT, asked).await, Ok(Ok(_)))
            };
            if lives {
                let message = format!(
                    "node {node} is called {:?} already, and lives; give one of them another name",
                    record.name
                );
                return Err(Error::new(Code::InvalidRequest, message));
            }
            tracing::warn!(
                %node, name = record.name,
                "a node of this name is known and does not answer: the new one gets a number of its own; if the old \
                 one is lost, remove it with `orbit leave --node {node} --lost`"
            );
        }
        Ok(())
    }

    /// All nodes of the cluster, by number.
    ///
    /// # Errors
    /// `NO_LEADER`.
    pub async fn nodes(&self) -> Result<Vec<NodeSummary>> {
        let running = self.running()?;
        let meta = running.definitions.meta();
        running.cluster.read_index(meta, None).await?;
        let led = |node: NodeId| {
            let leader = |group: &Group<E>| group.status().leader == Some(node);
            running.shards.iter().filter(|shard| leader(&shard.context.group)).count() as u64
        };
        let nodes = members::nodes(meta)?;
        let leaving = running.leaving(&nodes);
        let listed = nodes.into_iter().filter(|(node, record)| record.left_at_ms.is_none() || leaving.contains(node));
        let node = |(node, record): (NodeId, NodeRecord)| NodeSummary {
            id: node.0,
            leaving: record.left_at_ms.is_some(),
            name: record.name,
            address: record.address,
            is_this: node == running.cluster.me,
            leads: led(node),
            condition: running.condition(node).map(NodeCondition::from),
            joined_at_ms: record.joined_at_ms,
            version: record.version,
            format: record.format,
        };
        let mut listed: Vec<_> = listed.map(node).collect();
        if listed.is_empty() {
            // Of the first format: there are no rows of nodes yet, and no node but this one.
            listed.push(self.itself(&running, led(running.cluster.me)));
        }
        Ok(listed)
    }

    /// This node, where no row tells of it.
    fn itself(&self, running: &Running<E>, leads: u64) -> NodeSummary {
        let (me, Knows { version, format, .. }) = (running.cluster.me, self.0.settings.knows.clone());
        let address = running.definitions.meta().members().get(&me).cloned();
        NodeSummary {
            id: me.0,
            leaving: false,
            name: self.0.settings.node_name.clone(),
            address: address.map_or_else(String::new, |address| address.0),
            is_this: true,
            leads,
            condition: running.condition(me).map(NodeCondition::from),
            joined_at_ms: 0,
            version,
            format,
        }
    }

    /// A node leaves the cluster for good. Returns once no group counts on it any more: only then may it be stopped.
    /// Without `lost` it must answer, so that nobody is removed by a mistake in the number.
    ///
    /// # Errors
    /// `NOT_FOUND`; `INVALID_REQUEST` where too few would be left, where another node is leaving, or of the node that
    /// is asked itself; `OVERLOADED` when it takes longer than a call: the same call again waits on.
    pub async fn leave(&self, node: u64, lost: bool) -> Result<()> {
        let (running, node) = (self.running()?, NodeId(node));
        let meta = running.definitions.meta();
        running.cluster.read_index(meta, None).await?;
        let nodes = members::nodes(meta)?;
        let refused = |message: String| Err(Error::new(Code::InvalidRequest, message));
        if node == running.cluster.me {
            return refused("a node does not remove itself; ask another one".to_owned());
        }
        let goes_already = nodes.get(&node).is_some_and(|record| record.left_at_ms.is_some());
        if !goes_already {
            if let Some(other) = running.leaving(&nodes).first() {
                return refused(format!(
                    "node {other} is leaving; wait until `orbit cluster` does not show it any more"
                ));
            }
            self.may_leave(&running, &members::present(&nodes), node, lost).await?;
            members::see_off(&running.cluster, meta, node).await?;
        }
        let until = Instant::now() + LEAVE_WAIT;
        while running.groups().any(|group| group.members().contains_key(&node)) {
            if Instant::now() >= until {
                let message = format!("node {node} is leaving and some groups still count on it; repeat the call");
                return Err(Error::new(Code::Overloaded, message));
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }

    /// Whether the rest goes on without a node: of those that would vote on a group, more than half must answer.
    async fn may_leave(
        &self,
        running: &Running<E>,
        present: &BTreeMap<NodeId, NodeRecord>,
        node: NodeId,
        lost: bool,
    ) -> Result<()> {
        let refused = |message: String| Err(Error::new(Code::InvalidRequest, message));
        let asked = present.keys().map(|other| async move {
            let asked = running.cluster.ask(*other, question::What::Standing(node::Standing::default()));
            let lives =
                *other == running.cluster.me || matches!(tokio::time::timeout(MOVE_WAIT, asked).await, Ok(Ok(_)));
            (*other, lives)
        });
        let live: BTreeMap<_, _> = futures::future::join_all(asked).await.into_iter().collect();
        if live.get(&node) == Some(&false) && !lost {
            return refused(format!("node {node} does not answer; if it is lost for good, say so (--lost)"));
        }
        let lives = |node: &&NodeId| live.get(*node) == Some(&true);
        for group in running.groups() {
            let voters = group.status().voters;
            // Now, to agree on the change; and afterwards, to go on.
            let (now, then) = (voters.iter().filter(lives).count(), voters.iter().filter(|other| **other != node));
            let (left, answer) = (then.clone().count(), then.filter(lives).count());
            if 2 * now <= voters.len() || left > 0 && 2 * answer <= left {
                let silent: Vec<_> = live.iter().filter(|(_, lives)| !**lives).map(|(node, _)| node.0).collect();
                let message = format!(
                    "too few nodes answer to go on without node {node}: bring back {silent:?} first (group {})",
                    group.id()
                );
                return refused(message);
            }
        }
        Ok(())
    }

    /// Gives all leaderships away, as far as others take them within the time.
    pub async fn give_leaderships_away(&self, within: Duration) {
        let until = Instant::now() + within;
        let Ok(running) = self.running() else { return };
        running.cluster.conditions.drain();
        let moved = running.groups().map(|group| give_away(group, &running.cluster.conditions, until));
        futures::future::join_all(moved).await;
    }
}

impl<E: Environment> Running<E> {
    /// All groups, the one above the shards first.
    pub(super) fn groups(&self) -> impl Iterator<Item = &Group<E>> {
        std::iter::once(self.definitions.meta()).chain(self.shards.iter().map(|shard| &shard.context.group))
    }

    /// Nodes that have left, and that some group still counts on.
    fn leaving(&self, nodes: &members::Nodes) -> Vec<NodeId> {
        let counts_on = |node: &NodeId| self.groups().any(|group| group.members().contains_key(node));
        let left = nodes.iter().filter(|(_, record)| record.left_at_ms.is_some()).map(|(node, _)| *node);
        left.filter(counts_on).collect()
    }
}

async fn give_away<E: Environment>(group: &Group<E>, conditions: &Conditions, until: Instant) {
    let me = conditions.me();
    let mut leadership = group.leadership();
    loop {
        let mut others: Vec<_> = group.status().voters.into_iter().filter(|voter| *voter != me).collect();
        // Whoever is well and has most of the log takes over soonest.
        let (matched, unwell) = (group.status().matched, conditions.unwell(&group.status().voters, Instant::now()));
        others.sort_by_key(|node| (unwell.contains(node), std::cmp::Reverse(matched.get(node).copied())));
        if others.is_empty() {
            return;
        }
        for to in others {
            if !matches!(*leadership.borrow_and_update(), Leadership::Leader { .. }) || Instant::now() >= until {
                return;
            }
            let _ = group.transfer_leadership(to).await;
            let moved = leadership.wait_for(|now| !matches!(now, Leadership::Leader { .. }));
            if tokio::time::timeout_at(until.min(Instant::now() + MOVE_WAIT), moved).await.is_ok() {
                return;
            }
        }
    }
}
