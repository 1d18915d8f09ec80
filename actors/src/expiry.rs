//! What is removed when: rows ordered by time, each a hint that is held against the state before anything goes.
//!
//! ```text
//!   due u64 │ 01 │ id 00 │ run u32                  a run that is over          ExpiryRow
//!   due u64 │ 02 │ id 00 │ name 00 dedup_id         a signal that was named     ExpiryRow
//!   due u64 │ 03 │ id                               a batch that is done        ExpiryRow
//! ```
//!
//! A hint outlives what it was about: an execution that was redriven has ended at another time, an id that is used
//! again belongs to another execution. Its value says of which moment it speaks.

use orbit_proto::engine::ExpiryRow;
use orbit_raft::Write;
use orbit_raft::disk::KeyRange;
use orbit_raft::state_store::key::ordered;

use crate::table::{self, EXPIRY};

/// What a hint is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A run that is over.
    Run {
        /// Its execution.
        id: String,
        /// Its number.
        run: u32,
    },
    /// A signal that its sender named.
    Signal {
        /// The execution.
        id: String,
        /// The signal.
        name: String,
        /// Its sender's name for it.
        dedup_id: String,
    },
    /// A batch that is done.
    Batch {
        /// Its id.
        id: String,
    },
}

impl Subject {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Run { id, run } => [&[1], id.as_bytes(), &[0], &run.to_be_bytes()].concat(),
            Self::Signal { id, name, dedup_id } => {
                [&[2], id.as_bytes(), &[0], name.as_bytes(), &[0], dedup_id.as_bytes()].concat()
            }
            Self::Batch { id } => [&[3], id.as_bytes()].concat(),
        }
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let utf8 = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
        Some(match kind {
            1 => {
                let (id, rest) = table::text(rest)?;
                Self::Run { id: id.to_owned(), run: u32::from_be_bytes(rest.try_into().ok()?) }
            }
            2 => {
                let (id, rest) = table::text(rest)?;
                let (name, rest) = table::text(rest)?;
                Self::Signal { id: id.to_owned(), name: name.to_owned(), dedup_id: utf8(rest)? }
            }
            3 => Self::Batch { id: utf8(rest)? },
            _ => return None,
        })
    }
}

/// Writes a hint: due at a moment, about something as it was at another.
pub(crate) fn hint(due_ms: u64, subject: &Subject, of_ms: u64) -> Write {
    let key = ordered(EXPIRY, &[&due_ms.to_be_bytes()[..], &subject.bytes()].concat());
    table::put(key, table::encode(&ExpiryRow { of_ms }))
}

/// What a key of a hint says.
pub(crate) fn subject(key: &[u8]) -> Option<Subject> {
    Subject::from_bytes(key.get(ordered(EXPIRY, &[]).len() + 8..)?)
}

/// Everything that is due at a moment.
pub(crate) fn due(now_ms: u64) -> KeyRange {
    KeyRange { from: ordered(EXPIRY, &[]), to: ordered(EXPIRY, &now_ms.saturating_add(1).to_be_bytes()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_says_what_it_was_made_of() {
        let subjects = [
            Subject::Run { id: "order:7".to_owned(), run: 3 },
            Subject::Signal { id: "a".to_owned(), name: "add".to_owned(), dedup_id: "x y".to_owned() },
            Subject::Batch { id: "b".to_owned() },
        ];
        for wanted in subjects {
            let Some(orbit_proto::store::write::Op::Put(put)) = hint(7, &wanted, 1).op else { panic!() };
            assert_eq!(subject(&put.key), Some(wanted));
            assert!(due(7).contains(&put.key) && !due(6).contains(&put.key));
        }
    }
}
