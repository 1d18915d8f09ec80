//! The names that the other modules speak in. None of them knows the consensus library.

use std::fmt;

use orbit_proto::store;

/// A replication group: a shard, or the group above the shards. It is the first part of every key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(u16);

impl GroupId {
    /// Rows under this prefix belong to the node itself, not to a group.
    pub(crate) const NODE: GroupId = GroupId(u16::MAX);

    /// Names a group. `None` for 65535, under which a node keeps its own rows.
    pub const fn new(id: u16) -> Option<GroupId> {
        if id == u16::MAX { None } else { Some(GroupId(id)) }
    }

    /// The number.
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of a node. It stands for one disk with one log for ever, and is never given to another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

impl From<u64> for NodeId {
    fn from(id: u64) -> Self {
        NodeId(id)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of an election. There is at most one leader per term and group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term(pub u64);

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The place of an entry in the log of its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogId {
    /// The term of the leader that appended it.
    pub term: u64,
    /// Its position, counted from 0 without a gap.
    pub index: u64,
}

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.term, self.index)
    }
}

impl From<LogId> for store::LogId {
    fn from(id: LogId) -> Self {
        store::LogId { term: id.term, index: id.index }
    }
}

impl From<store::LogId> for LogId {
    fn from(id: store::LogId) -> Self {
        LogId { term: id.term, index: id.index }
    }
}

/// Where a node's peer service listens, as `host:port`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PeerAddress(pub String);

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
