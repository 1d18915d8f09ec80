//! The end of a group's log in memory.
//!
//! An entry must be readable as soon as it is appended, while it reaches the disk only with the next round of the
//! writer. So the newest entries stay here: all that are not yet saved, and some more, because the ones to be applied
//! or sent are nearly always among the newest.
//!
//! ```text
//!   purged … on disk only … │ first ………… saved ………… last │
//!                            └──────── in memory ─────────┘
//! ```
//!
//! *Saved* is told by the number of the write, not by the index: after entries were cut off and others appended in
//! their place, a late word about the old ones must not count for the new ones.

use std::collections::VecDeque;

use crate::consensus::{RaftEntry, RaftLogId, entry_bytes};

/// Saved entries beyond this count leave memory.
const KEEP_ENTRIES: usize = 4096;
/// Saved entries beyond this size leave memory. Each group has a tail, so this counts as often as there are groups.
const KEEP_BYTES: usize = 1 << 20;

#[derive(Debug, Default)]
pub(crate) struct Tail {
    entries: VecDeque<(RaftEntry, u64)>,
    size_bytes: usize,
    /// The last entry, here or on disk; what was purged counts when nothing else is there.
    last: Option<RaftLogId>,
    purged: Option<RaftLogId>,
    writes: u64,
    saved: u64,
}

impl Tail {
    pub(crate) fn new(purged: Option<RaftLogId>, last: Option<RaftLogId>) -> Self {
        Tail { purged, last: last.max(purged), ..Tail::default() }
    }

    pub(crate) fn last(&self) -> Option<RaftLogId> {
        self.last
    }

    pub(crate) fn purged(&self) -> Option<RaftLogId> {
        self.purged
    }

    /// Numbers a write, so that [`Tail::saved`] can name it later.
    pub(crate) fn begin_write(&mut self) -> u64 {
        self.writes += 1;
        self.writes
    }

    /// Appends an entry that goes to disk with `write`.
    pub(crate) fn push(&mut self, entry: RaftEntry, write: u64) {
        debug_assert!(self.last.is_none_or(|last| last.index + 1 == entry.log_id.index), "a hole in the log");
        self.last = Some(entry.log_id);
        self.size_bytes += entry_bytes(&entry);
        self.entries.push_back((entry, write));
    }

    /// All writes up to this one are on stable storage.
    pub(crate) fn saved(&mut self, write: u64) {
        self.saved = self.saved.max(write);
        while self.entries.len() > KEEP_ENTRIES || self.size_bytes > KEEP_BYTES {
            match self.entries.front() {
                Some((_, write)) if *write <= self.saved => self.pop_front(),
                _ => break,
            }
        }
    }

    /// The write that must be saved for the entry to be on stable storage; `None` if it is there already.
    pub(crate) fn unsaved_write(&self, index: u64) -> Option<u64> {
        let first = self.entries.front()?.0.log_id.index;
        let at = usize::try_from(index.checked_sub(first)?).ok()?;
        self.entries.get(at).map(|(_, write)| *write).filter(|write| *write > self.saved)
    }

    /// Cuts off everything behind `last`.
    pub(crate) fn truncate_after(&mut self, last: Option<RaftLogId>) {
        let next = last.map_or(0, |id| id.index + 1);
        while let Some((entry, _)) = self.entries.back() {
            if entry.log_id.index < next {
                break;
            }
            self.size_bytes -= entry_bytes(entry);
            self.entries.pop_back();
        }
        if self.last.is_some_and(|end| end.index >= next) {
            self.last = last.max(self.purged);
        }
    }

    /// Forgets everything up to `upto`, inclusive.
    pub(crate) fn purge(&mut self, upto: RaftLogId) {
        while self.entries.front().is_some_and(|(entry, _)| entry.log_id.index <= upto.index) {
            self.pop_front();
        }
        self.purged = self.purged.max(Some(upto));
        self.last = self.last.max(Some(upto));
    }

    /// The entries of `from..to` that are here, and the index up to which (exclusive) one must look on disk.
    pub(crate) fn read(&self, from: u64, to: u64) -> (u64, Vec<RaftEntry>) {
        let from = from.max(self.purged.map_or(0, |id| id.index + 1));
        let to = to.min(self.last.map_or(0, |id| id.index + 1));
        let first = self.entries.front().map_or(to, |(entry, _)| entry.log_id.index);
        let skip = usize::try_from(from.saturating_sub(first)).unwrap_or(usize::MAX);
        let take = usize::try_from(to.saturating_sub(from.max(first))).unwrap_or(usize::MAX);
        let here = self.entries.iter().skip(skip).take(take).map(|(entry, _)| entry.clone()).collect();
        (first.min(to), here)
    }

    fn pop_front(&mut self) {
        if let Some((entry, _)) = self.entries.pop_front() {
            self.size_bytes -= entry_bytes(&entry);
        }
    }
}
