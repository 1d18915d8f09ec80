//! What this process is in the middle of, for tests that kill it and ask afterwards what they hit.
//!
//! Only with the feature `phase`, which no released binary has; without it all of this compiles to nothing. The file
//! named by `ORBIT_PHASE_FILE` is written in place, so what stands there outlives a kill:
//!
//! ```text
//!   byte 0          1 while a round of the log is written and its sync has not returned
//!   byte 1 + group  1 while a snapshot of that group is made durable
//! ```
//!
//! `ORBIT_SNAPSHOT_EVERY=n` makes snapshots, and with them purges, so frequent that a short run meets them.

use crate::settings::Settings;
use crate::types::GroupId;

/// Something that a kill may fall into.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(feature = "phase"), allow(dead_code))]
pub(crate) enum Phase {
    /// The log is written and not synced.
    Unsynced,
    /// A snapshot of this group is made.
    Snapshot(GroupId),
}

/// Lasts as long as the phase.
#[derive(Debug)]
#[must_use]
pub(crate) struct During(#[cfg_attr(not(feature = "phase"), allow(dead_code))] Phase);

impl During {
    /// Ends it.
    pub(crate) fn end(self) {}
}

/// Begins a phase.
pub(crate) fn enter(phase: Phase) -> During {
    #[cfg(feature = "phase")]
    file::mark(phase, true);
    During(phase)
}

#[cfg(feature = "phase")]
impl Drop for During {
    fn drop(&mut self) {
        file::mark(self.0, false);
    }
}

/// The settings, as the environment of a test changes them.
#[must_use]
pub fn tuned(settings: Settings) -> Settings {
    #[cfg(feature = "phase")]
    if let Some(every) = std::env::var("ORBIT_SNAPSHOT_EVERY").ok().and_then(|text| text.parse().ok()) {
        return Settings { snapshot_every: every, log_kept: every, purge_batch: 1, ..settings };
    }
    settings
}

#[cfg(feature = "phase")]
mod file {
    use std::fs::{File, OpenOptions};
    use std::os::unix::fs::FileExt;
    use std::sync::LazyLock;

    use super::Phase;

    static FILE: LazyLock<Option<File>> = LazyLock::new(|| {
        let path = std::env::var_os("ORBIT_PHASE_FILE")?;
        OpenOptions::new().write(true).create(true).truncate(false).open(path).ok()
    });

    pub(super) fn mark(phase: Phase, on: bool) {
        let at = match phase {
            Phase::Unsynced => 0,
            Phase::Snapshot(group) => 1 + u64::from(group.get()),
        };
        if let Some(file) = &*FILE {
            // A test whose file cannot be written counts no hits, and fails for that.
            let _ = file.write_at(&[u8::from(on)], at);
        }
    }
}
