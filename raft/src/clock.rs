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
//! peers believes what has stood for a minute.
//!
//! A new start of the process knows of no time that it believed. A node without peers believes what it finds. Among
//! peers it goes on from the time of the log until they confirm its wall clock: one that is an hour ahead would have
//! every timer of that hour fire.
//!
//! [`LogClock`] is pure: it is told both clocks, and what the peers say, with every call. So is [`Ahead`], the rule by
//! which a node finds that its own clock is the one that is wrong.

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

impl Witness {
    /// By how much the wall clock of this node is ahead of the median of all, its own among them, in microseconds;
    /// unknown unless enough peers were heard. Of two in the middle it is the one nearer to the own clock, so that one
    /// wrong clock of three is never taken for two.
    #[must_use]
    pub fn ahead_us(&self) -> Option<i64> {
        match self {
            Witness::Alone | Witness::Silent => None,
            Witness::Median { low_us, high_us } => {
                let behind = 0.clamp(*low_us, *high_us);
                Some(i64::try_from(-behind).unwrap_or(if behind < 0 { i64::MAX } else { i64::MIN }))
            }
        }
    }
}

/// A clock that was too far off is good again below this: it does not go to and fro around one bound.
const GOOD_AGAIN: Duration = Duration::from_millis(400);

/// Whether the wall clock of this node is off: more than [`JUMP_MAX`] from the median of the peers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ahead {
    us: Option<i64>,
    off: bool,
}

impl Ahead {
    /// What was measured now. Where nothing is known the clock counts as good: nobody says otherwise.
    pub fn measured(&mut self, us: Option<i64>) {
        let bound = if self.off { GOOD_AGAIN } else { JUMP_MAX };
        self.off = us.is_some_and(|us| u128::from(us.unsigned_abs()) > bound.as_micros());
        self.us = us;
    }

    /// By how much it is ahead of the median, in microseconds; `None` without peers, or while too few are heard.
    #[must_use]
    pub fn us(&self) -> Option<i64> {
        self.us
    }

    /// Whether it is off.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.off
    }
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
    /// Since the start of the process no reading of the wall clock was believed.
    fresh: bool,
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
    /// Starts at a new start of the process. `last_ms` is the time of the last entry, in milliseconds since 1970.
    pub fn new(now: Reading, last_ms: u64) -> Self {
        let believed = Reading { wall: Duration::from_millis(last_ms), monotonic: now.monotonic };
        let last_us = last_ms.saturating_mul(1000);
        LogClock { last_us, last_read: now.monotonic, believed, fresh: true, doubted: None }
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
        if self.fresh && time_us > micros(self.expected(now)) {
            // Whoever leads knows better than this node, which has just begun.
            self.believed = Reading { wall: Duration::from_micros(time_us), ..now };
        }
        if time_us > self.last_us {
            self.last_us = time_us;
            self.last_read = now.monotonic;
        }
    }

    /// Whether the wall clock has jumped and the jump is not believed yet.
    pub fn doubts_wall(&self) -> bool {
        self.doubted.is_some()
    }

    /// The wall clock as it would read now had it kept its pace since it was last believed.
    fn expected(&self, now: Reading) -> Duration {
        self.believed.wall + now.monotonic.saturating_sub(self.believed.monotonic)
    }

    fn wall_us(&mut self, now: Reading, peers: impl FnOnce() -> Witness) -> u64 {
        let expected = self.expected(now);
        if now.wall.abs_diff(expected) <= JUMP_MAX || self.confirmed(now, peers()) {
            self.believed = now;
            self.fresh = false;
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
            Witness::Alone => self.fresh || stands,
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
    /// How many members the group has, this node among them; none as long as it is not known.
    members: AtomicUsize,
    log: Mutex<LogClock>,
}

impl GroupClock {
    pub(crate) fn new(clocks: PeerClocks, last_ms: u64) -> Self {
        let log = Mutex::new(LogClock::new(clocks.read(), last_ms));
        GroupClock { clocks, members: AtomicUsize::new(0), log }
    }

    /// The group has that many members.
    pub(crate) fn set_members(&self, members: usize) {
        self.members.store(members, Ordering::Relaxed);
    }

    pub(crate) fn now_ms(&self) -> u64 {
        let members = self.members.load(Ordering::Relaxed);
        self.with(|log, now| {
            log.now_ms(now, || match members.checked_sub(1) {
                Some(peers) => self.clocks.witness(now, peers),
                // A node that learns the group does not know yet who belongs to it: others do.
                None => Witness::Silent,
            })
        })
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
