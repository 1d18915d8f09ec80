//! Do log and state of a group still belong together?
//!
//! A database cut short opens without complaint: a shorter log looks like one that was never longer. But each of the
//! two databases remembers something of the other, and the marks of a group stand in a fixed order:
//!
//! ```text
//!   purged ≤ snapshot ≤ applied ≤ committed ≤ written        term of each ≤ term voted for
//! ```
//!
//! What breaks the order was lost, and a node that has lost something it promised must not go on under its name.

use super::GroupLog;
use crate::consensus::{RaftLogId, log_id_public};
use crate::disk::Disk;
use crate::types::{GroupId, LogId};

/// What a node promised is no longer there. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum Inconsistent {
    /// The state has applied entries that the log does not have.
    #[error(
        "group {group}: the state has applied entry {applied}, but the log ends at {}: the log was cut short; nothing \
         was changed: replace this node, or restore its data from a copy", shown(.last)
    )]
    LogCutShort {
        /// The group.
        group: GroupId,
        /// The last applied entry.
        applied: LogId,
        /// Where the log ends.
        last: Option<LogId>,
    },
    /// The log was purged further than the state goes.
    #[error(
        "group {group}: the log is purged up to {purged}, but the state goes only to {}: the state was cut short; \
         nothing was changed: replace this node, or restore its data from a copy", shown(.applied)
    )]
    StateCutShort {
        /// The group.
        group: GroupId,
        /// The last purged entry.
        purged: LogId,
        /// The last applied entry.
        applied: Option<LogId>,
    },
    /// An entry is of a later term than the node ever voted in.
    #[error(
        "group {group}: entry {seen} is of a later term than this node has voted in ({voted}): its vote was lost, and \
         it might vote twice; nothing was changed: replace this node, or restore its data from a copy"
    )]
    VoteLost {
        /// The group.
        group: GroupId,
        /// The entry.
        seen: LogId,
        /// The greatest term voted in; 0 if none.
        voted: u64,
    },
}

fn shown(id: &Option<LogId>) -> String {
    id.map_or("nothing".to_owned(), |id| id.to_string())
}

/// Checks the marks of a group. `installed` is the entry of the snapshot that the state came from, if it came from
/// one: right after that, and only then, the state may be ahead of the log.
pub(crate) fn check<D: Disk>(
    group: GroupId,
    log: &GroupLog<D>,
    applied: Option<RaftLogId>,
    installed: Option<RaftLogId>,
) -> Result<(), Inconsistent> {
    let public = |id: RaftLogId| log_id_public(&id);
    let (last, purged) = (log.last(), log.purged());
    if let Some(purged) = purged.filter(|purged| applied < Some(*purged)) {
        return Err(Inconsistent::StateCutShort { group, purged: public(purged), applied: applied.map(public) });
    }
    if let Some(applied) = applied.filter(|applied| last < Some(*applied) && installed != Some(*applied)) {
        return Err(Inconsistent::LogCutShort { group, applied: public(applied), last: last.map(public) });
    }
    let voted = log.vote().map_or(0, |vote| vote.leader_id.term);
    match last.max(applied) {
        Some(seen) if seen.leader_id.term > voted => Err(Inconsistent::VoteLost { group, seen: public(seen), voted }),
        _ => Ok(()),
    }
}
