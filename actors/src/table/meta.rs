//! The rows of the group above the shards.

use orbit_raft::disk::KeyRange;
use orbit_raft::state_store::key::{Table, ordered};

use super::{table, text};

const DEFINITION: Table = table(32);
const BY_HASH: Table = table(33);
const CLUSTER: Table = table(34);
const NODE: Table = table(35);

/// A definition.
pub(crate) fn definition(name: &str, version: &str) -> Vec<u8> {
    ordered(DEFINITION, &[name.as_bytes(), &[0], version.as_bytes()].concat())
}

/// All definitions of a name; of all names without one.
pub(crate) fn definitions(name: Option<&str>) -> KeyRange {
    let prefix = name.map_or_else(Vec::new, |name| [name.as_bytes(), &[0]].concat());
    KeyRange::prefix(&ordered(DEFINITION, &prefix))
}

/// Name and version of a key of [`definition`].
pub(crate) fn definition_parts(key: &[u8]) -> Option<(&str, &str)> {
    let (name, version) = text(key.get(3..)?)?;
    Some((name, std::str::from_utf8(version).ok()?))
}

/// Which definition has a hash.
pub(crate) fn by_hash(hash: &str) -> Vec<u8> {
    ordered(BY_HASH, hash.as_bytes())
}

/// What is fixed when a cluster is created.
pub(crate) fn cluster() -> Vec<u8> {
    ordered(CLUSTER, &[])
}

/// A node of the cluster.
pub(crate) fn node(number: u64) -> Vec<u8> {
    ordered(NODE, &number.to_be_bytes())
}

/// All nodes, by number.
pub(crate) fn nodes() -> KeyRange {
    KeyRange::prefix(&ordered(NODE, &[]))
}

/// The number in a key of [`node`].
pub(crate) fn node_number(key: &[u8]) -> Option<u64> {
    key.last_chunk::<8>().map(|number| u64::from_be_bytes(*number))
}
