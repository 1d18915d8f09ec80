//! How full the disk of a node is, and when that counts.
//!
//! ```text
//!   used   0 ───────────── warn ───────── full ───────── read-only ─────── 100 %
//!            ok              warning        full           critical
//!                            said           no starts,     no writes, once a quorum of
//!                                           no leading     a shard's nodes is there
//! ```
//!
//! A level is left again [`HYSTERESIS_PERCENT`] below where it begins: what is removed frees room in leaps, and a node
//! must not go to and fro.

use std::fmt;
use std::sync::Arc;

/// A level is left this far below where it begins.
const HYSTERESIS_PERCENT: f64 = 3.0;
/// A disk with so much left is not short of room, however large it is: a twentieth of a large one is a lot.
const PLENTY_BYTES: u64 = 4 << 30;

/// What a disk has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// Bytes that are in use.
    pub used_bytes: u64,
    /// Bytes that this process may still use.
    pub available_bytes: u64,
}

impl DiskSpace {
    /// How much of what this process could have is in use, 0 to 1.
    #[must_use]
    pub fn used_ratio(&self) -> f64 {
        let (used, available) = (self.used_bytes as f64, self.available_bytes as f64);
        if used + available > 0.0 { used / (used + available) } else { 0.0 }
    }
}

/// Asks the machine what the disk of the data has; may block for a moment.
#[derive(Clone)]
pub struct DiskProbe(pub Arc<dyn Fn() -> std::io::Result<DiskSpace> + Send + Sync>);

impl fmt::Debug for DiskProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DiskProbe")
    }
}

impl Default for DiskProbe {
    /// A disk without an end, for engines that keep their data in memory.
    fn default() -> Self {
        Self(Arc::new(|| Ok(DiskSpace { used_bytes: 0, available_bytes: u64::MAX })))
    }
}

/// Where the levels begin, in percent of the disk; each not before the one above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskLimits {
    /// From here on it is said.
    pub warn_percent: u8,
    /// Over this, and with less than 4 GiB left, a node takes no starts and leads nothing.
    pub full_percent: u8,
    /// A shard of whose nodes a quorum is over this, with less than 4 GiB left, is read-only.
    pub read_only_percent: u8,
}

impl Default for DiskLimits {
    fn default() -> Self {
        Self { warn_percent: 80, full_percent: 90, read_only_percent: 95 }
    }
}

/// How full a disk is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiskLevel {
    /// There is room.
    #[default]
    Ok,
    /// It is said.
    Warning,
    /// No starts, no leaderships.
    Full,
    /// No writes, once a quorum of a shard's nodes is there.
    Critical,
}

impl DiskLevel {
    /// All of them, by their number.
    pub const ALL: [Self; 4] = [Self::Ok, Self::Warning, Self::Full, Self::Critical];

    /// As callers see it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Full => "full",
            Self::Critical => "critical",
        }
    }

    /// The level with this number; one that a newer node knows counts as the highest of these.
    pub(crate) fn of_number(number: u32) -> Self {
        let last = Self::ALL.len() - 1;
        Self::ALL[usize::try_from(number).map_or(last, |number| number.min(last))]
    }
}

/// The level of a disk over time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gauge {
    limits: DiskLimits,
    level: DiskLevel,
}

impl Gauge {
    pub(crate) fn new(limits: DiskLimits) -> Self {
        Self { limits, level: DiskLevel::Ok }
    }

    /// The level now.
    pub(crate) fn measured(&mut self, space: DiskSpace) -> DiskLevel {
        let percent = space.used_ratio() * 100.0;
        let most = if space.available_bytes < PLENTY_BYTES { DiskLevel::Critical } else { DiskLevel::Warning };
        let stays = self.level.min(self.begun_at(percent + HYSTERESIS_PERCENT));
        self.level = stays.max(self.begun_at(percent)).min(most);
        self.level
    }

    fn begun_at(&self, percent: f64) -> DiskLevel {
        let DiskLimits { warn_percent, full_percent, read_only_percent } = self.limits;
        match percent {
            _ if percent > f64::from(read_only_percent) => DiskLevel::Critical,
            _ if percent > f64::from(full_percent) => DiskLevel::Full,
            _ if percent > f64::from(warn_percent) => DiskLevel::Warning,
            _ => DiskLevel::Ok,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_begins_over_its_limit_and_ends_well_below() {
        use DiskLevel::{Critical, Full, Ok, Warning};
        let mut gauge = Gauge::new(DiskLimits::default());
        for (percent, level) in [
            (80.0, Ok),
            (80.1, Warning),
            (90.0, Warning),
            (90.1, Full),
            (88.0, Full),
            (87.1, Full),
            (87.0, Warning),
            (96.0, Critical),
            (92.5, Critical),
            (92.0, Full),
            (99.9, Critical),
            // All of it is freed at once.
            (10.0, Ok),
            (78.0, Ok),
        ] {
            let used_bytes = (percent * 10.0) as u64;
            let space = DiskSpace { used_bytes, available_bytes: 1_000 - used_bytes };
            assert_eq!(gauge.measured(space), level, "{percent} %");
        }
    }

    #[test]
    fn a_large_disk_is_not_full_while_there_is_plenty() {
        let mut gauge = Gauge::new(DiskLimits::default());
        let space = |available_bytes| DiskSpace { used_bytes: 1 << 40, available_bytes };
        assert_eq!(gauge.measured(space(PLENTY_BYTES)), DiskLevel::Warning);
        assert_eq!(gauge.measured(space(PLENTY_BYTES - 1)), DiskLevel::Critical);
        assert_eq!(gauge.measured(space(PLENTY_BYTES)), DiskLevel::Warning);
    }

    #[test]
    fn the_share_is_of_what_the_process_may_have() {
        let ratio = |used_bytes, available_bytes| DiskSpace { used_bytes, available_bytes }.used_ratio();
        assert_eq!(ratio(75, 25), 0.75);
        assert_eq!(ratio(0, 0), 0.0, "a file system that has no size, say of a container");
        assert_eq!(DiskProbe::default().0().unwrap().used_ratio(), 0.0);
    }

    #[test]
    fn levels_have_numbers() {
        for (number, level) in (0..).zip(DiskLevel::ALL) {
            assert_eq!((DiskLevel::of_number(number), level as u32), (level, number));
        }
        assert_eq!(DiskLevel::of_number(9), DiskLevel::Critical);
    }
}
