//! Nodes and shards as operators see them.

use serde::Serialize;

use crate::condition::Condition;

/// How a node is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeCondition {
    /// `ok`, `warning`, `full` (it begins no executions and leads nothing) or `critical`.
    pub disk: &'static str,
    /// How much of its disk is in use, 0 to 1.
    pub disk_used_ratio: f64,
    /// By how much its clock is ahead of the median of all nodes, ms; absent without others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_ahead_ms: Option<i64>,
    /// Whether its clock is too far off to lead.
    pub clock_off: bool,
}

impl From<Condition> for NodeCondition {
    fn from(condition: Condition) -> Self {
        Self {
            disk: condition.disk.as_str(),
            disk_used_ratio: condition.disk_used_ratio,
            clock_ahead_ms: condition.clock_ahead_us.map(|us| us / 1000),
            clock_off: condition.clock_off,
        }
    }
}

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
    /// How it is; absent while the one that answers has not heard of it lately.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<NodeCondition>,
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
    /// Whether it takes deletions only: the disks of a quorum of its nodes are nearly used up.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
}
