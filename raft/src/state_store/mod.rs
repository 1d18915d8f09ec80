//! The state: what follows from the log.
//!
//! It owns the rows of all groups of a node, in one database. [`StateMachine`] applies the entries of one group:
//!
//! ```text
//!   committed entries ──▶ check each part ──▶ one batch: rows + how far this is applied ──▶ tell the proposers
//! ```
//!
//! - How far a group is applied is in the same batch as what was applied, so the two never disagree.
//! - The batch is written, not synced: what power takes away is applied again from the log. Hence the log is purged
//!   only behind a state that was made durable, and a snapshot is reported only after that.
//! - Applying never runs code of workflows and never looks at a clock: replicas of all versions get the same bytes.
//!
//! Keys are drawn in [`key`]; [`part`] is the rule of applying; [`read`] reads; a [`Mark`] names one entry behind which
//! replicas are compared.

mod hash;
pub mod key;
mod machine;
mod mark;
pub mod part;
pub mod read;

pub use hash::{Hashing, StateHash};
pub(crate) use machine::{SnapshotData, StateMachine, machine_meta};
pub(crate) use mark::Marks;
pub use mark::{Mark, Moment, TooManyMarks, Watched};
pub use part::{Malformed, PartOutcome};

use crate::consensus::Unreadable;

/// The state does not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The disk does not.
    #[error(transparent)]
    Disk(#[from] crate::disk::Error),
    /// What is there cannot be read.
    #[error(transparent)]
    Unreadable(Unreadable),
    /// A snapshot is not the one it was announced as. The rows are as they were, or the group does not start.
    #[error("a snapshot is not what was announced ({0}); it is asked for again")]
    WrongSnapshot(String),
}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Disk(error) => error.into(),
            other => std::io::Error::new(std::io::ErrorKind::InvalidData, other),
        }
    }
}
