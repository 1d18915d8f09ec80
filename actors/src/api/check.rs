//! What a check of the cluster found.

use serde::Serialize;

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CheckReport {
    /// Everything that is not as it must be, also what is not listed.
    pub findings_total: u64,
    /// Each shard that was checked.
    pub shards: Vec<ShardCheck>,
}

/// A shard as of one entry of its log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ShardCheck {
    /// The shard.
    pub shard: u16,
    /// The node whose replica was read row by row.
    pub node: u64,
    /// The entry behind which it was read.
    pub index: u64,
    /// Executions looked at.
    pub executions: u64,
    /// … their runs.
    pub runs: u64,
    /// … the events of these, all of which were folded.
    pub events: u64,
    /// Rows that were hashed.
    pub rows: u64,
    /// The first findings.
    pub findings: Vec<Finding>,
    /// All of them.
    pub findings_total: u64,
    /// The replicas, by node.
    pub replicas: Vec<ReplicaCheck>,
}

/// Something is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Which rule is broken; see [`crate::api::CHECK_RULES`].
    pub rule: &'static str,
    /// The execution, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<String>,
    /// … and its run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<u32>,
    /// Where: a row, a unit, a node.
    pub place: String,
    /// What is there.
    pub found: String,
    /// What must be there.
    pub expected: String,
    /// What to do.
    pub advice: &'static str,
}

/// One replica of a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReplicaCheck {
    /// The node.
    pub node: u64,
    /// What it is called.
    pub name: String,
    /// The hash of its rows, if it came to the entry in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// Why it was not compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_compared: Option<String>,
}
