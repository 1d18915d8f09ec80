//! What can be tuned.

use std::time::Duration;

use openraft::{Config, ConfigError, SnapshotPolicy};

use crate::gate::Knows;

/// The settings of all groups of a node. The defaults fit nodes in one data centre.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How often a leader lets its followers know that it lives.
    pub heartbeat: Duration,
    /// The shortest election time-out. A follower campaigns after the longest plus a random time between the two.
    pub election_min: Duration,
    /// The longest election time-out; also how long a leader's lease lasts.
    pub election_max: Duration,
    /// After how many entries a group makes its state durable, so that its log may be purged.
    pub snapshot_every: u64,
    /// How many entries stay in the log behind that, for followers that lag.
    pub log_kept: u64,
    /// How many entries are purged at once at least.
    pub purge_batch: u64,
    /// How long installing a snapshot may take, beside a second per MiB for sending it.
    pub install_timeout: Duration,
    /// How long a proposal or a read may take before its outcome is called unknown.
    pub deadline: Duration,
    /// How many parts one entry holds at most.
    pub entry_parts_max: usize,
    /// About how many bytes one entry holds at most; a part that is larger than this alone is refused.
    pub entry_bytes_max: usize,
    /// How many entries a group proposes before the first of them is applied.
    pub entries_under_way_max: usize,
    /// How many proposals may wait in a group.
    pub proposals_waiting_max: usize,
    /// What the node tells its peers that it knows.
    pub knows: Knows,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            heartbeat: Duration::from_millis(100),
            election_min: Duration::from_millis(300),
            election_max: Duration::from_millis(500),
            snapshot_every: 10_000,
            log_kept: 50_000,
            purge_batch: 1_000,
            install_timeout: Duration::from_secs(15),
            deadline: Duration::from_secs(10),
            entry_parts_max: 1_024,
            entry_bytes_max: 8 << 20,
            entries_under_way_max: 4,
            proposals_waiting_max: 4_096,
            knows: Knows::default(),
        }
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Settings {
    /// The settings as the consensus library takes them. Fails if the times do not fit each other.
    pub(crate) fn consensus(&self) -> Result<Config, ConfigError> {
        let lease_and_election = self.election_max * 2;
        let config = Config {
            cluster_name: "orbit".into(),
            heartbeat_interval: ms(self.heartbeat),
            // The node beats for all of its groups, so that their heartbeats travel together.
            enable_heartbeat: false,
            // Spares those who have just heard from this node. Less than the time between two beats, or each would
            // spare the next.
            heartbeat_min_interval: Some(ms(self.heartbeat * 3 / 4)),
            election_timeout_min: ms(self.election_min),
            election_timeout_max: ms(self.election_max),
            install_snapshot_timeout: ms(self.install_timeout),
            max_payload_entries: 256,
            // A follower takes entries as long as the log has them, and a snapshot only when it has not.
            replication_lag_threshold: u64::MAX,
            snapshot_policy: SnapshotPolicy::LogsSinceLast(self.snapshot_every),
            max_in_snapshot_log_to_keep: self.log_kept,
            purge_batch_size: self.purge_batch,
            api_channel_size: Some(4_096),
            quorum_loss_probe_interval: Some(ms(lease_and_election)),
            // A node that was cut off must not disturb a leader that lives.
            enable_pre_vote: Some(true),
            // A leader that restarts is elected again: only then is its state known to be up to date.
            enable_leader_restore: Some(false),
            // A log that went back has lost what it promised.
            allow_log_reversion: None,
            ..Config::default()
        };
        config.validate()
    }
}
