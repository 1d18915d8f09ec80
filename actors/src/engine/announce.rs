//! What a node keeps in step with the rows of the cluster: how the cluster is written, where the others are reached,
//! and what they know of this node.
//!
//! ```text
//!   a row of the group above the shards changes ─┬─▶ the format: what may be written
//!                                                ├─▶ the addresses: links to nodes that have moved are made anew
//!                                                └─▶ the row of this node says something else than it does?
//!                                                      ─▶ it tells the leader, or any node that it reaches
//! ```
//!
//! A node that has moved is not reached by the leader any more, so it does not know who leads: it asks all others.

use std::sync::Weak;
use std::time::Duration;

use bytes::Bytes;
use orbit_proto::engine::NodeRecord;
use orbit_proto::node::{Join, Membership, answer, membership, question};
use orbit_raft::{Environment, Group, Knows, NodeId, PeerAddress};

use super::{Engine, Inner, Running};
use crate::error::{Code, Error, Result};
use crate::format;
use crate::found;
use crate::remote::members::{self, Nodes};

/// What was not heard is said again after this.
const AGAIN: Duration = Duration::from_secs(1);
/// How long is waited for an engine that begins.
const BEGIN: Duration = Duration::from_millis(10);
/// How long another node may take to pass it on.
const ANSWER_WAIT: Duration = Duration::from_secs(7);

/// Looks whenever something was applied, for ever; dropped with the node.
pub(super) async fn run<E: Environment>(engine: Weak<Inner<E>>, meta: Group<E>) {
    let mut said = None;
    loop {
        let applied = meta.status().applied;
        let Some(engine) = engine.upgrade().map(Engine) else {
            // It is still being put together; once it is gone, so is this.
            tokio::time::sleep(BEGIN).await;
            continue;
        };
        let Ok(running) = engine.running() else { return };
        let looked = engine.look(&running).await;
        drop((engine, running));
        let changed = meta.wait_for(|now| now.applied != applied);
        match looked {
            Ok(()) => {
                said = None;
                if changed.await.is_none() {
                    return;
                }
            }
            Err(error) => {
                if said.as_ref() != Some(&error.message) {
                    tracing::warn!(%error, "the others do not know yet what this node is now; it goes on telling");
                    said = Some(error.message);
                }
                // Whether something changed meanwhile or not, it is looked again.
                let _ = tokio::time::timeout(AGAIN, changed).await;
            }
        }
    }
}

impl<E: Environment> Engine<E> {
    async fn look(&self, running: &Running<E>) -> Result<()> {
        let meta = running.definitions.meta();
        match found::read(meta, &self.0.settings.knows) {
            Ok(Some(record)) => running.formats.learn(&record),
            Ok(None) => {}
            Err(error) if error.code == Code::ClusterFormat => {
                // It was raised while this node was away.
                tracing::error!(%error, "this node can be no part of the cluster any more, and ends");
                self.0.outgrown.send_replace(Some(error));
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        if running.formats.allows(format::CLUSTERS).is_err() {
            return Ok(());
        }
        let nodes = members::nodes(meta)?;
        let addresses = nodes.iter().filter(|(node, _)| **node != running.cluster.me);
        running
            .cluster
            .reached_at(addresses.map(|(node, record)| (*node, PeerAddress(record.address.clone()))).collect());
        match self.to_say(running, &nodes) {
            Some(join) => self.say(running, &nodes, join).await,
            None => Ok(()),
        }
    }

    /// What this node has to say of itself, if its row says something else.
    fn to_say(&self, running: &Running<E>, nodes: &Nodes) -> Option<Join> {
        let (me, settings) = (running.cluster.me, &self.0.settings);
        let row = nodes.get(&me);
        if row.is_some_and(|row| row.left_at_ms.is_some()) {
            return None;
        }
        let own = settings.address.as_ref().map(|own| own.0.clone());
        let address = own.or_else(|| row.map(|row| row.address.clone()));
        let address = address.or_else(|| Some(running.definitions.meta().members().get(&me)?.0.clone()))?;
        let Knows { version, format, rules } = settings.knows.clone();
        let said = NodeRecord {
            name: settings.node_name.clone(),
            address,
            incarnation: Bytes::copy_from_slice(self.0.identity.incarnation.as_bytes()),
            joined_at_ms: row.map_or(0, |row| row.joined_at_ms),
            left_at_ms: None,
            version,
            format,
            rules,
        };
        (row != Some(&said)).then(|| join(said, me))
    }

    async fn say(&self, running: &Running<E>, nodes: &Nodes, join: Join) -> Result<()> {
        tracing::info!(
            address = join.address,
            version = join.version,
            format = join.format,
            "this node tells the others what it is now"
        );
        let meta = running.definitions.meta();
        let leads = meta.status().leader == Some(running.cluster.me);
        if leads || running.cluster.leader(meta).is_some() {
            return self.take_in(running, join).await.map(drop);
        }
        let mut last = Error::new(Code::NoLeader, "no other node is reached");
        for node in nodes.keys().filter(|node| **node != running.cluster.me && nodes[node].left_at_ms.is_none()) {
            let what = Membership { what: Some(membership::What::Join(join.clone())) };
            let asked = running.cluster.ask(*node, question::What::Membership(what));
            match tokio::time::timeout(ANSWER_WAIT, asked).await {
                Ok(Ok(answer::What::Membership(_))) => return Ok(()),
                Ok(Err(crate::remote::cluster::Unanswered::Fault(error))) => last = error,
                _ => {}
            }
        }
        Err(last)
    }
}

fn join(said: NodeRecord, me: NodeId) -> Join {
    Join {
        name: said.name,
        address: said.address,
        incarnation: said.incarnation,
        version: said.version,
        format: said.format,
        rules: said.rules,
        node_id: Some(me.0),
    }
}
