//! How an engine is tuned.

use std::time::Duration;

use orbit_raft::{Knows, PeerAddress};

use crate::desk::DeskSettings;
use crate::disk::{DiskLimits, DiskProbe};
use crate::format;
use crate::shard::{ContextLimits, Dice};

/// Tasks that wait, per queue and shard, are kept in memory up to this many.
const WINDOW_MAX: usize = 1_000;

/// How an engine is tuned.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many shards a new cluster gets; an old one keeps what it has.
    pub shards: u16,
    /// Whether somebody has chosen that number.
    pub shards_are_asked_for: bool,
    /// How often workers send heartbeats.
    pub heartbeat_interval: Duration,
    /// After how long a silence a session is lost.
    pub session_timeout: Duration,
    /// Without a receipt for this long a task is taken back.
    pub receipt_timeout: Duration,
    /// How many executions are kept awake per shard.
    pub alive_max: usize,
    /// … and about how many bytes they may have.
    pub alive_bytes_max: usize,
    /// How many commands wait per shard before calls are refused with `OVERLOADED`.
    pub in_flight_max: usize,
    /// Longest output of a worker, bytes: a longer one ends its attempt. At most 2 MiB.
    pub output_bytes_max: usize,
    /// How long a call waits for a shard that has no leader.
    pub leader_timeout: Duration,
    /// How long what is over is kept where the document does not say. Counts for runs that end from now on.
    pub retention: Duration,
    /// Executions that a batch acts on per second, at most.
    pub batch_rate: u32,
    /// What the node is called.
    pub node_name: String,
    /// Where other nodes reach it now, if it may have moved.
    pub address: Option<PeerAddress>,
    /// What this node knows; told to the others too, by the settings of the replication. Less than all of it, or more,
    /// plays another version.
    pub knows: Knows,
    /// What the disk of the data has.
    pub disk: DiskProbe,
    /// When that is too little.
    pub disk_limits: DiskLimits,
    /// Where randomness comes from.
    pub dice: Dice,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            shards: 16,
            shards_are_asked_for: false,
            heartbeat_interval: Duration::from_secs(5),
            session_timeout: Duration::from_secs(30),
            receipt_timeout: Duration::from_secs(2),
            alive_max: 1_250,
            alive_bytes_max: 16 << 20,
            in_flight_max: 4_096,
            output_bytes_max: workflow::decide::PAYLOAD_BYTES_MAX,
            leader_timeout: Duration::from_secs(5),
            retention: RETENTION,
            batch_rate: 200,
            node_name: "orbit-1".to_owned(),
            address: None,
            knows: format::knows(),
            disk: DiskProbe::default(),
            disk_limits: DiskLimits::default(),
            dice: Dice::default(),
        }
    }
}

/// How long what is over is kept, if nothing is set: 30 days.
const RETENTION: Duration = Duration::from_secs(30 * 24 * 3_600);

impl Settings {
    pub(super) fn of_desk(&self) -> DeskSettings {
        DeskSettings {
            heartbeat_interval: self.heartbeat_interval,
            session_timeout: self.session_timeout,
            receipt_timeout: self.receipt_timeout,
            window_max: WINDOW_MAX,
        }
    }

    pub(super) fn of_context(&self) -> ContextLimits {
        ContextLimits {
            retention_ms: u64::try_from(self.retention.as_millis()).unwrap_or(u64::MAX),
            output_bytes_max: self.output_bytes_max,
            places: self.in_flight_max,
        }
    }
}
