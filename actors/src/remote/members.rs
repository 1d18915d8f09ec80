//! The nodes of the cluster, as rows of the group above the shards: who has a number, and who should hold what.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use orbit_proto::engine::NodeRecord;
use orbit_proto::store::{Precondition, RowEquals, precondition::Check};
use orbit_raft::{Environment, Group, Knows, NodeId, Part};
use xxhash_rust::xxh3::xxh3_64;

use super::Cluster;
use crate::error::{Code, Error, Result};
use crate::failure::of_storage;
use crate::format;
use crate::found;
use crate::table;

/// What applying does not look at: it tells a reader of a log whose part it is.
const PART_MEMBERS: u32 = 7;
/// Nodes that vote on a shard.
const SHARD_VOTERS: usize = 3;
/// Nodes that vote in the group above the shards.
const META_VOTERS: usize = 5;
/// How often a change is tried when others change something at the same time.
const TRIES: usize = 10;

/// Every node that ever had a number.
pub(crate) type Nodes = BTreeMap<NodeId, NodeRecord>;

/// A node that wants to be one of the cluster, or is one.
#[derive(Clone, Debug)]
pub(crate) struct Newcomer {
    pub(crate) name: String,
    pub(crate) address: String,
    pub(crate) incarnation: Bytes,
    pub(crate) knows: Knows,
    /// Of a member, which says what it is now.
    pub(crate) number: Option<NodeId>,
}

impl Newcomer {
    fn record(&self, joined_at_ms: u64) -> NodeRecord {
        NodeRecord {
            name: self.name.clone(),
            address: self.address.clone(),
            incarnation: self.incarnation.clone(),
            joined_at_ms,
            left_at_ms: None,
            version: self.knows.version.clone(),
            format: self.knows.format,
            rules: self.knows.rules.clone(),
        }
    }
}

/// All nodes, as this replica knows them.
pub(crate) fn nodes<E: Environment>(meta: &Group<E>) -> Result<Nodes> {
    let rows = meta.read(|reader| reader.range(&table::nodes(), usize::MAX)).map_err(of_storage)?;
    let node = |(key, value): (Bytes, Bytes)| {
        let number = table::node_number(&key).ok_or_else(|| of_storage("a key of the nodes is damaged"))?;
        Ok((NodeId(number), table::decode("nodes", &value).map_err(of_storage)?))
    };
    rows.into_iter().map(node).collect()
}

/// Those that have not left.
pub(crate) fn present(nodes: &Nodes) -> BTreeMap<NodeId, NodeRecord> {
    let present = nodes.iter().filter(|(_, record)| record.left_at_ms.is_none());
    present.map(|(node, record)| (*node, record.clone())).collect()
}

/// Who should vote in a group: the same answer on every node that knows the same nodes. A node that comes or goes moves
/// as few groups as can be.
pub(crate) fn voters(group: u16, present: &BTreeMap<NodeId, NodeRecord>) -> BTreeSet<NodeId> {
    let count = if group == 0 { META_VOTERS } else { SHARD_VOTERS };
    let mut ranked: Vec<_> = present.keys().map(|node| (rank(group, *node), *node)).collect();
    ranked.sort_unstable();
    ranked.into_iter().take(count).map(|(_, node)| node).collect()
}

fn rank(group: u16, node: NodeId) -> u64 {
    xxh3_64(&[&group.to_be_bytes()[..], &node.0.to_be_bytes()].concat())
}

/// Who of the voters of a group should lead it, so that leaders are spread evenly.
pub(crate) fn preferred(group: u16, voters: &BTreeSet<NodeId>) -> Option<NodeId> {
    voters.iter().nth(usize::from(group) % voters.len().max(1)).copied()
}

/// Gives a newcomer a number, or says which it has. What a member says of itself stands from then on.
///
/// # Errors
/// `CLUSTER_FORMAT`: it does not know enough; `INVALID_REQUEST`: it has left; `NO_LEADER`, `OUTCOME_UNKNOWN`: it may be
/// asked again.
pub(crate) async fn take_in<E: Environment>(
    cluster: &Cluster<E>,
    meta: &Group<E>,
    newcomer: &Newcomer,
    knows: &Knows,
) -> Result<NodeId> {
    for _ in 0..TRIES {
        cluster.read_index(meta, None).await?;
        let record = found::read(meta, knows)?.ok_or_else(|| of_storage("the record of the cluster is missing"))?;
        let who = format!("the node {:?}", newcomer.name);
        if let Some(lacks) = format::lacks(&who, &newcomer.knows, &record) {
            return Err(lacks);
        }
        let (number, check, row) = match place(&nodes(meta)?, meta, newcomer)? {
            Place::As(number) => return Ok(number),
            Place::At(number, check, joined_at_ms) => (number, check, newcomer.record(joined_at_ms)),
        };
        // Should the format be raised meanwhile, it is looked again.
        let cluster_row = RowEquals { key: table::cluster().into(), value: format::encode(&record) };
        if write(cluster, meta, vec![check, Check::RowEquals(cluster_row)], number, &row).await? {
            return Ok(number);
        }
    }
    Err(Error::new(Code::NoLeader, "others join at the same time; repeat the call"))
}

/// Where a newcomer comes to stand.
enum Place {
    /// It stands there already, as it says.
    As(NodeId),
    /// Its row is written there if this holds, with the time when it was taken in.
    At(NodeId, Check, u64),
}

fn place<E: Environment>(nodes: &Nodes, meta: &Group<E>, newcomer: &Newcomer) -> Result<Place> {
    let same = |(_, record): &(&NodeId, &NodeRecord)| record.incarnation == newcomer.incarnation;
    if let Some((node, record)) = nodes.iter().find(same) {
        if record.left_at_ms.is_some() {
            let gone = "this node has left the cluster; empty its disk to join anew";
            return Err(Error::new(Code::InvalidRequest, gone));
        }
        if *record == newcomer.record(record.joined_at_ms) {
            return Ok(Place::As(*node));
        }
        let was = RowEquals { key: table::node(node.0).into(), value: table::encode(record) };
        return Ok(Place::At(*node, Check::RowEquals(was), record.joined_at_ms));
    }
    let absent = |number: NodeId| Place::At(number, Check::RowAbsent(table::node(number.0).into()), meta.now_ms());
    // The first node of a cluster whose format was just raised has no row yet.
    let mut unknown = meta.members().into_keys().filter(|member| !nodes.contains_key(member));
    match (newcomer.number, unknown.next()) {
        (Some(number), Some(member)) if number == member => Ok(absent(number)),
        (Some(number), _) => {
            let message = format!("node {number} of this cluster is another one; empty its disk to join anew");
            Err(Error::new(Code::InvalidRequest, message))
        }
        (None, Some(_)) => {
            Err(Error::new(Code::NoLeader, "the first node has not said yet who it is; repeat the call"))
        }
        (None, None) => Ok(absent(NodeId(nodes.keys().last().map_or(0, |last| last.0) + 1))),
    }
}

/// A node has left for good.
///
/// # Errors
/// `NOT_FOUND` for a number that nobody has; `INVALID_REQUEST` for the last one.
pub(crate) async fn see_off<E: Environment>(cluster: &Cluster<E>, meta: &Group<E>, node: NodeId) -> Result<()> {
    for _ in 0..TRIES {
        cluster.read_index(meta, None).await?;
        let all = nodes(meta)?;
        let unknown = || Error::new(Code::NotFound, format!("there is no node {node}; `orbit cluster` lists them"));
        let mut record = all.get(&node).cloned().ok_or_else(unknown)?;
        if record.left_at_ms.is_some() {
            return Ok(());
        }
        if present(&all).len() == 1 {
            let message = "it is the last node of the cluster; stop it, and remove its data if that is meant";
            return Err(Error::new(Code::InvalidRequest, message));
        }
        let was = RowEquals { key: table::node(node.0).into(), value: table::encode(&record) };
        record.left_at_ms = Some(meta.now_ms());
        if write(cluster, meta, vec![Check::RowEquals(was)], node, &record).await? {
            return Ok(());
        }
    }
    Err(Error::new(Code::NoLeader, "others change the members at the same time; repeat the call"))
}

async fn write<E: Environment>(
    cluster: &Cluster<E>,
    meta: &Group<E>,
    checks: Vec<Check>,
    node: NodeId,
    record: &NodeRecord,
) -> Result<bool> {
    let part = Part {
        kind: PART_MEMBERS,
        preconditions: checks.into_iter().map(|check| Precondition { check: Some(check) }).collect(),
        writes: vec![table::put(table::node(node.0), table::encode(record))],
        ..Part::default()
    };
    let applied = cluster.propose(meta, "", vec![part]).await?;
    Ok(applied.iter().all(|applied| *applied))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(numbers: impl IntoIterator<Item = u64>) -> BTreeMap<NodeId, NodeRecord> {
        numbers.into_iter().map(|number| (NodeId(number), NodeRecord::default())).collect()
    }

    #[test]
    fn leaders_are_spread_evenly_over_three_nodes() {
        let mut led = BTreeMap::<NodeId, u32>::new();
        for group in 1..=16 {
            let voters = voters(group, &of(1..=3));
            assert_eq!(voters.len(), 3);
            *led.entry(preferred(group, &voters).unwrap()).or_default() += 1;
        }
        assert!(led.values().all(|count| (5..=6).contains(count)), "{led:?}");
    }

    #[test]
    fn a_node_that_goes_moves_only_the_groups_that_it_was_in() {
        for group in 1..=64 {
            let (before, after) = (voters(group, &of(1..=6)), voters(group, &of([1, 2, 3, 5, 6])));
            assert_eq!(before.len(), 3);
            if !before.contains(&NodeId(4)) {
                assert_eq!(before, after);
            } else {
                assert!(before.iter().filter(|node| node.0 != 4).all(|node| after.contains(node)));
            }
        }
        assert_eq!(voters(0, &of(1..=7)).len(), 5);
    }
}
