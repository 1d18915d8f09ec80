//! What the clocks of the peers say, measured on the links.
//!
//! ```text
//!   sent ─────────▶ wall clock of the peer ─────────▶ heard           the peer's clock belongs to the middle between
//!     own monotonic clock ───────────────────────────────▶             sent and heard; a slow answer says too little
//! ```
//!
//! A peer's wall clock is kept as its distance from the own *monotonic* clock. So what was measured before the own wall
//! clock jumped judges the jump as well as what is measured after it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::clock::{Clock, Reading, Witness, micros};
use crate::types::NodeId;

/// How often a peer is asked.
pub(crate) const ASK_EVERY: Duration = Duration::from_secs(5);
/// How long an answer counts.
const COUNTS_FOR: Duration = Duration::from_secs(30);
/// An answer that took longer says too little.
const ROUND_TRIP_MAX: Duration = Duration::from_millis(200);

/// The clocks of the peers of one node. A clone is another handle to the same.
#[derive(Clone)]
pub struct PeerClocks {
    clock: Arc<dyn Clock>,
    measured: Arc<Mutex<BTreeMap<NodeId, Measured>>>,
}

#[derive(Debug, Clone, Copy)]
struct Measured {
    at: Duration,
    /// Wall clock of the peer minus monotonic clock of this node.
    ahead_us: i128,
}

impl fmt::Debug for PeerClocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerClocks").field("measured", &self.measured).finish_non_exhaustive()
    }
}

impl PeerClocks {
    pub(crate) fn new(clock: impl Clock) -> Self {
        PeerClocks { clock: Arc::new(clock), measured: Arc::default() }
    }

    /// What the peers say of the wall clock of this node as it reads now. `peers` is how many there are.
    #[must_use]
    pub fn judge(&self, peers: usize) -> Witness {
        self.witness(self.read(), peers)
    }

    /// The own clocks now.
    pub(crate) fn read(&self) -> Reading {
        self.clock.read()
    }

    /// A peer that was asked at `sent` has answered.
    pub(crate) fn heard(&self, peer: NodeId, sent: Reading, wall_us: u64) {
        let now = self.clock.read();
        let round_trip = now.monotonic.saturating_sub(sent.monotonic);
        if round_trip > ROUND_TRIP_MAX {
            return;
        }
        let middle = sent.monotonic + round_trip / 2;
        let ahead_us = i128::from(wall_us) - i128::from(micros(middle));
        let mut measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        measured.insert(peer, Measured { at: now.monotonic, ahead_us });
    }

    /// What the peers say of the wall clock as it reads now. `peers` is how many there are; with one node there are
    /// none, and unless this node and those who were heard lately are a majority, they say nothing.
    pub(crate) fn witness(&self, now: Reading, peers: usize) -> Witness {
        if peers == 0 {
            return Witness::Alone;
        }
        let own_us = i128::from(micros(now.wall)) - i128::from(micros(now.monotonic));
        let measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = measured.values().filter(|m| now.monotonic.saturating_sub(m.at) <= COUNTS_FOR);
        let mut off_us: Vec<i128> = fresh.map(|m| m.ahead_us - own_us).collect();
        off_us.sort_unstable();
        // Of an even number there are two in the middle, and both must agree.
        let middle = off_us.get(off_us.len().saturating_sub(1) / 2).zip(off_us.get(off_us.len() / 2));
        match middle {
            Some((low_us, high_us)) if 2 * (off_us.len() + 1) > peers + 1 => {
                Witness::Median { low_us: *low_us, high_us: *high_us }
            }
            _ => Witness::Silent,
        }
    }
}
