//! Nodes and shards as operators see them.

use serde::Serialize;

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeSummary {
    /// Its number, which no other node ever gets.
    pub id: u64,
    /// What it is called.
    pub name: String,
    /// Where its peers reach it.
    pub address: String,
    /// Whether it is the one that answers.
    pub is_this: bool,
    /// How many shards it leads, as far as the one that answers knows.
    pub leads: u64,
    /// It has left, and some groups still count on it: it may not be stopped yet.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub leaving: bool,
    /// When it was taken in.
    pub joined_at_ms: u64,
    /// The version of its binary, as it last said.
    pub version: String,
    /// The newest format of a cluster that it knows, as it last said.
    pub format: u32,
}

/// Where a shard stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShardHealth {
    /// Its number.
    pub id: u16,
    /// `leader`, `follower` or `stopped`.
    pub role: &'static str,
    /// The node that leads it, if known.
    pub leader: Option<u64>,
    /// The last entry applied.
    pub applied: u64,
    /// Entries that are committed and not yet applied.
    pub lag: u64,
}
