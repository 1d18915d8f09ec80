//! Opening the groups of a node, and creating a cluster of one. Others join it.

use std::collections::BTreeMap;
use std::sync::Arc;

use orbit_proto::engine::{ClusterRecord, NodeRecord};
use orbit_proto::store::{Precondition, precondition::Check};
use orbit_raft::{Environment, Group, GroupId, Knows, Leadership, Part, PeerAddress, RaftNode};

use crate::engine::Settings;
use crate::error::{Code, Error, Result};
use crate::failure::{of_proposal, of_read, of_storage};
use crate::format::{self, Formats};
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
    formats: &Formats,
    create: Option<PeerAddress>,
) -> Result<Founded<E>> {
    if settings.shards == 0 || settings.shards > SHARDS_MAX {
        let message = format!("a cluster has 1 to {SHARDS_MAX} shards, not {}", settings.shards);
        return Err(Error::new(Code::InvalidRequest, message));
    }
    node.guard_with(Arc::new(formats.clone()));
    look(node, settings)?;
    let meta = open_group(node, META, create.as_ref()).await?;
    let record = match create.is_some() {
        true => cluster(&meta, settings).await?,
        false => known(&meta, &settings.knows).await?,
    };
    formats.learn(&record);
    if let Some(address) = &create
        && formats.allows(format::CLUSTERS).is_ok()
    {
        founder(node, &meta, settings, address).await?;
    }
    let mut shards = Vec::new();
    for number in 1..=record.shards {
        let number = u16::try_from(number).map_err(of_storage)?;
        shards.push(open_group(node, number, create.as_ref()).await?);
    }
    Ok(Founded { meta, shards })
}

/// Looks at the data before anything is sent or written: whether this version knows it, and whose it is.
fn look<E: Environment>(node: &RaftNode<E>, settings: &Settings) -> Result<()> {
    let (me, id) = (node.identity().node, GroupId::new(META).ok_or_else(|| of_storage("no such group"))?);
    let get = |key: Vec<u8>| node.read(id, |reader| reader.get(&key)).map_err(of_storage);
    let Some(record) = format::stored(get(table::cluster())?, &settings.knows)? else { return Ok(()) };
    if let Some(row) = get(table::node(me.0))? {
        let known: NodeRecord = table::decode("nodes", &row).map_err(of_storage)?;
        if known.name != settings.node_name {
            let message = format!(
                "the data is that of node {me}, {:?}, and this node is called {:?}: set node.name to {:?}, or data_dir \
                 to the data of {:?}",
                known.name, settings.node_name, known.name, settings.node_name
            );
            return Err(Error::new(Code::InvalidRequest, message));
        }
    }
    if settings.shards_are_asked_for && record.shards != u32::from(settings.shards) {
        tracing::warn!(
            wanted = settings.shards,
            shards = record.shards,
            "cluster.shards is not what the cluster was created with, which stands: remove the key, or set it to that"
        );
    }
    Ok(())
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
async fn cluster<E: Environment>(meta: &Group<E>, settings: &Settings) -> Result<ClusterRecord> {
    let mut leadership = meta.leadership();
    let led = leadership.wait_for(|now| matches!(now, Leadership::Leader { .. } | Leadership::Stopped)).await;
    led.map_err(|_| Error::new(Code::NoLeader, "the group above the shards has stopped"))?;
    meta.read_index().await.map_err(|error| of_read(&error))?;
    if let Some(record) = read(meta, &settings.knows)? {
        return Ok(record);
    }
    let record = format::newest(u32::from(settings.shards), &settings.knows);
    let part = Part {
        kind: PART_CLUSTER,
        preconditions: vec![Precondition { check: Some(Check::RowAbsent(table::cluster().into())) }],
        writes: vec![table::put(table::cluster(), format::encode(&record))],
        ..Part::default()
    };
    // Should another have been faster, its record stands.
    meta.propose(vec![part]).await.map_err(|error| of_proposal("", &error))?;
    read(meta, &settings.knows)?.ok_or_else(|| of_storage("the record of the cluster is missing"))
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
    let Knows { version, format, rules } = settings.knows.clone();
    let record = NodeRecord {
        name: settings.node_name.clone(),
        address: address.to_string(),
        incarnation: identity.incarnation.as_bytes().to_vec().into(),
        joined_at_ms: meta.now_ms(),
        left_at_ms: None,
        version,
        format,
        rules,
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
async fn known<E: Environment>(meta: &Group<E>, knows: &Knows) -> Result<ClusterRecord> {
    loop {
        if let Some(record) = read(meta, knows)? {
            return Ok(record);
        }
        let applied = meta.status().applied;
        let more = meta.wait_for(|now| now.applied != applied).await;
        more.ok_or_else(|| Error::new(Code::NoLeader, "the group above the shards has stopped"))?;
    }
}

/// The record in this replica, of a format that this version knows.
pub(crate) fn read<E: Environment>(meta: &Group<E>, knows: &Knows) -> Result<Option<ClusterRecord>> {
    format::stored(meta.read(|reader| reader.get(&table::cluster())).map_err(of_storage)?, knows)
}
