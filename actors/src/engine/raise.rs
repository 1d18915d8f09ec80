//! Raising the format of the cluster: from then on older versions cannot read what is written.

use orbit_proto::engine::ClusterRecord;
use orbit_proto::node::{Standing, StandingAnswer, answer, question};
use orbit_proto::store::{Precondition, RowEquals, precondition::Check};
use orbit_raft::{Environment, Knows, NodeId, Part};

use super::membership::MOVE_WAIT;
use super::{Engine, Running};
use crate::error::{Code, Error, Result};
use crate::failure::of_storage;
use crate::format;
use crate::found;
use crate::remote::members::{self, Nodes};
use crate::table;

/// What applying does not look at: it tells a reader of a log what a part is.
const PART_FORMAT: u32 = 8;

/// What became of a raise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raised {
    /// The format before.
    pub from: u32,
    /// The format after, or what it would be.
    pub to: u32,
    /// Whether this call raised it.
    pub raised: bool,
}

/// What a raise is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// To be done.
    Do,
    /// To say whether it would be done.
    Try,
}

impl<E: Environment> Engine<E> {
    /// The format of the cluster, as this node knows it.
    ///
    /// # Errors
    /// `NO_LEADER`: the node is going away.
    pub fn format(&self) -> Result<u32> {
        Ok(self.running()?.formats.now())
    }

    /// Raises the format of the cluster to the newest that this version knows. Every member must be there and know it;
    /// done again it changes nothing.
    ///
    /// # Errors
    /// `CLUSTER_FORMAT`, naming the node that does not know it or does not answer; `NO_LEADER`; `OUTCOME_UNKNOWN`.
    pub async fn raise(&self, intent: Intent) -> Result<Raised> {
        let (running, knows) = (self.running()?, &self.0.settings.knows);
        let meta = running.definitions.meta();
        running.cluster.read_index(meta, None).await?;
        let record = found::read(meta, knows)?.ok_or_else(|| of_storage("the record of the cluster is missing"))?;
        let (from, to) = (format::format_of(&record), knows.format);
        if from >= to {
            return Ok(Raised { from, to: from, raised: false });
        }
        let (nodes, next) = (members::nodes(meta)?, format::newest(record.shards, knows));
        self.all_know(&running, &nodes, &next).await?;
        if intent == Intent::Try {
            return Ok(Raised { from, to, raised: false });
        }
        let applied = running.cluster.propose(meta, "", vec![part(&record, &nodes, &next)]).await?;
        if applied != [true] {
            let message = "the nodes of the cluster change at the same time; repeat the call";
            return Err(Error::new(Code::NoLeader, message));
        }
        tracing::info!(from, to, since = next.format_since, "the format of the cluster is raised");
        running.cluster.read_index(meta, None).await?;
        running.formats.learn(&next);
        Ok(Raised { from, to, raised: true })
    }

    /// Refuses unless each member answers and knows what the cluster is to be.
    async fn all_know(&self, running: &Running<E>, nodes: &Nodes, next: &ClusterRecord) -> Result<()> {
        let names = nodes.iter().map(|(node, record)| (*node, record.name.as_str()));
        let names: std::collections::BTreeMap<_, _> = names.collect();
        let members = running.groups().flat_map(|group| group.members().into_keys());
        let present = nodes.iter().filter(|(_, record)| record.left_at_ms.is_none()).map(|(node, _)| *node);
        let all: std::collections::BTreeSet<NodeId> = members.chain(present).collect();
        let asked = all.iter().filter(|node| **node != running.cluster.me).map(|node| async {
            let asked = running.cluster.ask(*node, question::What::Standing(Standing::default()));
            (*node, tokio::time::timeout(MOVE_WAIT, asked).await)
        });
        for (node, answer) in futures::future::join_all(asked).await {
            let who = format!("node {node} {:?}", names.get(&node).copied().unwrap_or("unknown"));
            let Ok(Ok(answer::What::Standing(standing))) = answer else {
                let message = format!(
                    "{who} does not answer, so nobody knows whether it knows format {}: start it, or remove it with \
                     `orbit leave --node {node} --lost`",
                    next.format
                );
                return Err(Error::new(Code::ClusterFormat, message));
            };
            if let Some(error) = format::lacks(&who, &known(standing), next) {
                return Err(error);
            }
        }
        Ok(())
    }
}

fn known(standing: StandingAnswer) -> Knows {
    Knows { version: standing.version, format: standing.format, rules: standing.rules }
}

/// Stands only if the members are still those that were asked, and no other has been given a number meanwhile.
fn part(record: &ClusterRecord, nodes: &Nodes, next: &ClusterRecord) -> Part {
    let equals = |key: Vec<u8>, value| Check::RowEquals(RowEquals { key: key.into(), value });
    let cluster = equals(table::cluster(), format::encode(record));
    let as_asked = nodes.iter().map(|(node, record)| equals(table::node(node.0), table::encode(record)));
    let nobody_new = Check::RowAbsent(table::node(nodes.keys().last().map_or(0, |last| last.0) + 1).into());
    let checks = std::iter::once(cluster).chain(as_asked).chain(std::iter::once(nobody_new));
    Part {
        kind: PART_FORMAT,
        preconditions: checks.map(|check| Precondition { check: Some(check) }).collect(),
        writes: vec![table::put(table::cluster(), format::encode(next))],
        ..Part::default()
    }
}
