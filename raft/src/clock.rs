//! The time that counts is in the log.
//!
//! Every entry carries a time, and whatever is due is due by the time of an entry, so that all replicas agree. The
//! leader makes that time out of two clocks of its machine: the *wall clock*, which people set, and the *monotonic*
//! one, which only counts on, also while the machine sleeps:
//!
//! ```text
//!   time of the next entry = max(wall, last + elapsed / 2)
//!
//!     wall ahead of the log     the log follows the wall
//!     log ahead of the wall     the log goes on at half speed until the wall has caught up
//! ```
//!
//! so it never stands still and never goes back. A wall clock that jumps, against the monotonic one, by more than
//! 500 ms is not believed: until the jump is confirmed, the wall as it was goes on by the monotonic clock. A jump is
//! confirmed when the median of the peers' wall clocks says the same, as measured on the links to them. A node without
//! peers believes what has stood for a minute. A new start of the process believes what it finds.
//!
//! [`LogClock`] is pure: it is told both clocks, and what the peers say, with every call.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, clock_gettime};

use crate::peer_clocks::PeerClocks;

/// The greatest jump of the wall clock that is believed at once.
pub const JUMP_MAX: Duration = Duration::from_millis(500);
/// How long a greater jump must stand.
pub const STANDING: Duration = Duration::from_secs(60);

/// Both clocks of a machine at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Since 1970, as people set it.
    pub wall: Duration,
    /// Since some moment in the past, counting on while the machine sleeps.
    pub monotonic: Duration,
}

/// What the peers say of the wall clock of this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Witness {
    /// There are no peers.
    Alone,
    /// There are some, and too few of them were heard lately.
    Silent,
    /// By how much the median of their wall clocks is ahead of this one; of an even number both in the middle.
    Median {
        /// The smaller one, in microseconds.
        low_us: i128,
        /// The greater one.
        high_us: i128,
    },
}

/// Where readings come from.
pub trait Clock: Send + Sync + 'static {
    /// Reads both clocks.
    fn read(&self) -> Reading;
}

/// The clocks of this machine: the wall clock and `CLOCK_BOOTTIME`.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the clock")]
    fn read(&self) -> Reading {
        let boot = clock_gettime(ClockId::Boottime);
        Reading {
            // Before 1970 there was no Orbit: such a clock is unset, and zero says so.
            wall: SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default(),
            monotonic: Duration::new(boot.tv_sec.unsigned_abs(), u32::try_from(boot.tv_nsec).unwrap_or_default()),
        }
    }
}

/// Makes the times of entries. See the module for the rule.
#[derive(Debug, Clone)]
pub struct LogClock {
    /// The last time given or seen, in microseconds since 1970.
    last_us: u64,
    last_read: Duration,
    /// A moment at which the wall clock was believed.
    believed: Reading,
    doubted: Option<Doubted>,
}

/// A jump that is not believed yet.
#[derive(Debug, Clone, Copy)]
struct Doubted {
    since: Duration,
    /// Wall minus monotonic clock, which stays the same while a jump stands.
    offset_us: i128,
}

impl LogClock {
    /// Starts at a new start of the process: whatever the wall clock says now is believed. `last_ms` is the time of
    /// the last entry, in milliseconds since 1970.
    pub fn new(now: Reading, last_ms: u64) -> Self {
        LogClock { last_us: last_ms.saturating_mul(1000), last_read: now.monotonic, believed: now, doubted: None }
    }

    /// The time of an entry proposed now, in milliseconds since 1970; no later entry gets a smaller one. The peers are
    /// asked only after a jump.
    pub fn now_ms(&mut self, now: Reading, peers: impl FnOnce() -> Witness) -> u64 {
        let wall = self.wall_us(now, peers);
        let elapsed = micros(now.monotonic.saturating_sub(self.last_read));
        self.last_us = wall.max(self.last_us.saturating_add(elapsed / 2));
        self.last_read = now.monotonic;
        self.last_us / 1000
    }

    /// An entry with this time was applied here.
    pub fn observe(&mut self, now: Reading, time_ms: u64) {
        let time_us = time_ms.saturating_mul(1000);
        if time_us > self.last_us {
            self.last_us = time_us;
            self.last_read = now.monotonic;
        }
    }

    /// Whether the wall clock has jumped and the jump is not believed yet.
    pub fn doubts_wall(&self) -> bool {
        self.doubted.is_some()
    }

    fn wall_us(&mut self, now: Reading, peers: impl FnOnce() -> Witness) -> u64 {
        let expected = self.believed.wall + now.monotonic.saturating_sub(self.believed.monotonic);
        if now.wall.abs_diff(expected) <= JUMP_MAX || self.confirmed(now, peers()) {
            self.believed = now;
            self.doubted = None;
            return micros(now.wall);
        }
        micros(expected)
    }

    fn confirmed(&mut self, now: Reading, peers: Witness) -> bool {
        let max_us = JUMP_MAX.as_micros();
        // How long it stands is counted in any case: the last peer may leave.
        let stands = self.stands(now);
        match peers {
            Witness::Alone => stands,
            Witness::Silent => false,
            Witness::Median { low_us, high_us } => low_us.unsigned_abs() <= max_us && high_us.unsigned_abs() <= max_us,
        }
    }

    /// Whether the jump seen now has stood for long enough. One that moves on begins anew.
    fn stands(&mut self, now: Reading) -> bool {
        let offset_us = i128::from(micros(now.wall)) - i128::from(micros(now.monotonic));
        let same = self.doubted.filter(|d| d.offset_us.abs_diff(offset_us) <= JUMP_MAX.as_micros());
        let doubted = same.unwrap_or(Doubted { since: now.monotonic, offset_us });
        self.doubted = Some(doubted);
        now.monotonic.saturating_sub(doubted.since) >= STANDING
    }
}

pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// The clock of one group: a [`LogClock`] fed from the machine's clocks.
#[derive(Debug)]
pub(crate) struct GroupClock {
    clocks: PeerClocks,
    /// How many members the group has beside this node.
    peers: AtomicUsize,
    log: Mutex<LogClock>,
}

impl GroupClock {
    pub(crate) fn new(clocks: PeerClocks, last_ms: u64) -> Self {
        let log = Mutex::new(LogClock::new(clocks.read(), last_ms));
        GroupClock { clocks, peers: AtomicUsize::new(0), log }
    }

    /// The group has that many members.
    pub(crate) fn set_members(&self, members: usize) {
        self.peers.store(members.saturating_sub(1), Ordering::Relaxed);
    }

    pub(crate) fn now_ms(&self) -> u64 {
        let peers = self.peers.load(Ordering::Relaxed);
        self.with(|log, now| log.now_ms(now, || self.clocks.witness(now, peers)))
    }

    pub(crate) fn observe(&self, time_ms: u64) {
        self.with(|log, now| log.observe(now, time_ms));
    }

    fn with<R>(&self, use_it: impl FnOnce(&mut LogClock, Reading) -> R) -> R {
        // Read under the lock: readings reach the pure clock in their order.
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clocks.read();
        use_it(&mut log, now)
    }
}
