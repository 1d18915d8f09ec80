//! Replication: what was acknowledged once stays, whichever minority of the nodes fails.
//!
//! A [`RaftNode`] holds many [`Group`]s. A group takes *parts* — what must hold, and what to write then — puts those
//! that wait together into one entry of its log, has a quorum of nodes save it, and applies it on every replica. It
//! knows nothing of workflows.
//!
//! Read the modules in this order:
//!
//! - [`types`]: the names everything else speaks in;
//! - [`disk`]: rows that are written or synced, in RocksDB or in memory;
//! - [`identity`]: whose data a directory holds, and when it is not opened;
//! - [`log_store`]: the log of all groups and its one writer;
//! - [`clock`]: the time that entries carry;
//! - `peer_clocks`: what the clocks of the peers say of it;
//! - [`state_store`]: keys and rows, applying, reading, snapshots;
//! - [`gate`]: what may be written while not all nodes know everything;
//! - [`network`]: the peers and how they are asked;
//! - [`propose`]: many proposals become few entries;
//! - [`read_index`]: reads that miss nothing acknowledged;
//! - `heartbeat`: the groups of a node beat together;
//! - [`group`]: one group as the layers above use it;
//! - [`node`]: the groups of a node together;
//! - [`settings`] and [`production`]: what is tuned, and what a node stands on;
//! - [`phase`]: what a test that kills the process learns of it.
//!
//! What holds between them, at every moment and on every node:
//!
//! ```text
//!   purged ≤ snapshot ≤ applied ≤ committed ≤ written          saved ≤ written
//! ```

#![warn(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod clock;
mod consensus;
pub mod disk;
pub mod gate;
pub mod group;
mod heartbeat;
pub mod identity;
pub mod log_store;
pub mod network;
pub mod node;
mod peer_clocks;
pub mod phase;
pub mod production;
pub mod propose;
pub mod read_index;
pub mod settings;
pub mod state_store;
pub mod types;

#[cfg(test)]
mod clock_test;
#[cfg(test)]
mod golden_test;
#[cfg(test)]
mod suite_test;

pub use consensus::{Runtime, Unreadable};
pub use gate::{Gate, Knows};
pub use group::{Group, GroupStatus, Leadership, MembershipError};
pub use identity::{Identity, Storage};
pub use node::{Environment, Parts, RaftNode, StillOpen};
pub use orbit_proto::store::{Part, Precondition, Write};
pub use peer_clocks::PeerClocks;
pub use production::Production;
pub use propose::{Applied, ProposeError};
pub use read_index::ReadError;
pub use settings::Settings;
pub use types::{GroupId, LogId, NodeId, PeerAddress, Term};
