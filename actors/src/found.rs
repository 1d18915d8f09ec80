//! Opening the groups of a node, and creating a cluster of one. Others join it.

use std::collections::BTreeMap;

use orbit_proto::engine::{ClusterRecord, NodeRecord};
use orbit_proto::store::{Precondition, precondition::Check};
use orbit_raft::{Environment, Group, GroupId, Leadership, Part, PeerAddress, RaftNode};

use crate::engine::Settings;
use crate::error::{Code, Error, Result};
use crate::failure::{of_proposal, of_read, of_storage};
use crate::table;

/// The group above the shards: definitions, and what is fixed when a cluster is created.
const META: u16 = 0;
/// What applying does not look at: it tells a reader of a log what a part is.
const PART_CLUSTER: u32 = 3;
/// Most shards of a cluster.
pub(crate) const SHARDS_MAX: u16 = 1_024;

/// The groups of a node, open.
#[derive(Debug)]
pub(crate) struct Founded<E: Environment> {
    pub(crate) meta: Group<E>,
    pub(crate) shards: Vec<Group<E>>,
}

/// Opens them. With `create` a cluster of this one node is made if there is none.
pub(crate) async fn open<E: Environment>(
    node: &RaftNode<E>,
    settings: &Settings,
    create: Option<PeerAddress>,
) -> Result<Founded<E>> {
    if settings.shards == 0 || settings.shards > SHARDS_MAX {
        let message = format!("a cluster has 1 to {SHARDS_MAX} shards, not {}", settings.shards);
        return Err(Error::new(Code::InvalidRequest, message));
    }
    let meta = open_group(node, META, create.as_ref()).await?;
    let record = match create.is_some() {
        true => cluster(&meta, settings.shards).await?,
        false => known(&meta).await?,
    };
    if let Some(address) = &create {
        founder(node, &meta, settings, address).await?;
    }
    let mut shards = Vec::new();
    for number in 1..=record.shards {
        let number = u16::try_from(number).map_err(of_storage)?;
        shards.push(open_group(node, number, create.as_ref()).await?);
    }
    Ok(Founded { meta, shards })
}

async fn open_group<E: Environment>(node: &RaftNode<E>, number: u16, create: Option<&PeerAddress>) -> Result<Group<E>> {
    let id = GroupId::new(number).ok_or_else(|| of_storage("no such group"))?;
    let group = node.open_group(id).await.map_err(of_storage)?;
    if let Some(address) = create
        && !group.is_initialized().await.map_err(of_storage)?
    {
        let members = BTreeMap::from([(node.identity().node, address.clone())]);
        group.initialize(members).await.map_err(of_storage)?;
    }
    Ok(group)
}

/// What is fixed when a cluster is created, written if it is not there.
async fn cluster<E: Environment>(meta: &Group<E>, shards: u16) -> Result<ClusterRecord> {
    let mut leadership = meta.leadership();
    let led = leadership.wait_for(|now| matches!(now, Leadership::Leader { .. } | Leadership::Stopped)).await;
    led.map_err(|_| Error::new(Code::NoLeader, "the group above the shards has stopped"))?;
    meta.read_index().await.map_err(|error| of_read(&error))?;
    if let Some(record) = read(meta)? {
        return Ok(record);
    }
    let record = ClusterRecord { shards: u32::from(shards) };
    let part = Part {
        kind: PART_CLUSTER,
        preconditions: vec![Precondition { check: Some(Check::RowAbsent(table::cluster().into())) }],
        writes: vec![table::put(table::cluster(), table::encode(&record))],
        ..Part::default()
    };
    // Should another have been faster, its record stands.
    meta.propose(vec![part]).await.map_err(|error| of_proposal("", &error))?;
    read(meta)?.ok_or_else(|| of_storage("the record of the cluster is missing"))
}

/// The node that creates a cluster is its first one. A store of an older release does not say so yet.
async fn founder<E: Environment>(
    node: &RaftNode<E>,
    meta: &Group<E>,
    settings: &Settings,
    address: &PeerAddress,
) -> Result<()> {
    let identity = node.identity();
    let key = table::node(identity.node.0);
    if meta.read(|reader| reader.get(&key)).map_err(of_storage)?.is_some() {
        return Ok(());
    }
    let record = NodeRecord {
        name: settings.node_name.clone(),
        address: address.to_string(),
        incarnation: identity.incarnation.as_bytes().to_vec().into(),
        joined_at_ms: meta.now_ms(),
        left_at_ms: None,
    };
    let part = Part {
        kind: PART_CLUSTER,
        preconditions: vec![Precondition { check: Some(Check::RowAbsent(key.clone().into())) }],
        writes: vec![table::put(key, table::encode(&record))],
        ..Part::default()
    };
    meta.propose(vec![part]).await.map(drop).map_err(|error| of_proposal("", &error))
}

/// The same on a node that did not create it: there at once, or as soon as the leader has sent it.
async fn known<E: Environment>(meta: &Group<E>) -> Result<ClusterRecord> {
    loop {
        if let Some(record) = read(meta)? {
            return Ok(record);
        }
        let applied = meta.status().applied;
        let more = meta.wait_for(|now| now.applied != applied).await;
        more.ok_or_else(|| Error::new(Code::NoLeader, "the group above the shards has stopped"))?;
    }
}

fn read<E: Environment>(meta: &Group<E>) -> Result<Option<ClusterRecord>> {
    let row = meta.read(|reader| reader.get(&table::cluster())).map_err(of_storage)?;
    row.map(|row| table::decode("cluster", &row).map_err(of_storage)).transpose()
}
