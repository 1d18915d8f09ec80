//! What can go wrong below.

use std::io;

/// A disk did not do what was asked. Except for [`Error::InUse`] nothing that was not synced may be trusted after it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store is open in another process.
    #[error("the store in {path} is in use by another process; stop that process first")]
    InUse {
        /// The directory.
        path: String,
    },
    /// What is on disk is not what was put there. Nothing was changed.
    #[error("the store is damaged ({what}); nothing was changed: replace this node, or restore its data from a copy")]
    Damaged {
        /// What was found.
        what: String,
    },
    /// Writing, syncing or reading failed.
    #[error("{operation} failed: {reason}; check the disk and its free space, then start the node again")]
    Failed {
        /// What was tried.
        operation: &'static str,
        /// What the system said.
        reason: String,
    },
    /// The store has been closed, or stopped after a failure.
    #[error("the store is closed")]
    Closed,
}

impl Error {
    /// A failed operation, with the reason given by the system.
    pub fn failed(operation: &'static str, reason: impl ToString) -> Self {
        Error::Failed { operation, reason: reason.to_string() }
    }

    /// Something that cannot be what was written.
    pub fn damaged(what: impl Into<String>) -> Self {
        Error::Damaged { what: what.into() }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match error {
            Error::InUse { .. } => io::ErrorKind::ResourceBusy,
            Error::Damaged { .. } => io::ErrorKind::InvalidData,
            Error::Failed { .. } => io::ErrorKind::Other,
            Error::Closed => io::ErrorKind::BrokenPipe,
        };
        io::Error::new(kind, error)
    }
}
