//! The log: what a node has promised.
//!
//! It owns the entries, the vote and the marks of all groups of a node, in one database with one [writer]. What it
//! promises to the consensus above:
//!
//! - an appended entry is readable at once, and *saved* only after the sync of its round;
//! - a vote is on stable storage before anyone is told of it;
//! - vote, committed and purged never go back;
//! - what is on disk is a gapless run of entries at all times, because every round is one batch.
//!
//! [`Log`] is the database of a node, a [`GroupLog`] one group in it. Formats are drawn in [`key`].

mod check;
mod group;
pub(crate) mod key;
mod storage;
mod tail;
#[cfg(test)]
mod tail_test;
mod writer;

pub use check::Inconsistent;
pub(crate) use check::check;
pub(crate) use group::GroupLog;

use std::future::Future;

use futures::future::BoxFuture;

use crate::consensus::Unreadable;
use crate::disk::{Disk, FatalHook};
use crate::types::GroupId;
use writer::WriterHandle;

/// The log does not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The disk does not.
    #[error(transparent)]
    Disk(#[from] crate::disk::Error),
    /// What is there cannot be read.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// Entries are missing in the middle.
    #[error("the log of group {group} lacks entry {index}; replace this node, or restore its data from a copy")]
    Hole {
        /// The group.
        group: GroupId,
        /// The first index that is not there.
        index: u64,
    },
}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Disk(error) => error.into(),
            other => std::io::Error::new(std::io::ErrorKind::InvalidData, other),
        }
    }
}

/// The log of a node.
#[derive(Debug, Clone)]
pub struct Log<D> {
    disk: D,
    writer: WriterHandle,
}

impl<D: Disk> Log<D> {
    /// Takes over a log database. The future is the writer: it must run, best on a thread of its own, and ends when
    /// the log and all its groups are gone, or at the first failure.
    pub fn open(disk: D, fatal: FatalHook) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (handle, writer) = writer::writer(disk.clone(), fatal);
        (Log { disk, writer: handle }, writer.run())
    }

    /// Becomes ready once the database is closed.
    pub(crate) fn closed(&self) -> BoxFuture<'static, ()> {
        self.disk.closed()
    }

    /// Opens the log of one group. Each group is opened once.
    pub(crate) fn group(&self, group: GroupId) -> Result<GroupLog<D>, Error> {
        GroupLog::load(group, self.disk.clone(), self.writer.clone())
    }
}
