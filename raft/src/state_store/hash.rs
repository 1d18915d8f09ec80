//! Comparing replicas.

use std::fmt;
use std::ops::ControlFlow;

use xxhash_rust::xxh3::Xxh3;

use super::read::{AppliedState, Reader};
use super::{Error, key};

/// A hash over all rows of a group. Replicas that are applied equally far have the same one, whatever their version
/// and whether they came there entry by entry or by a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateHash {
    /// How far the group was applied.
    pub applied: Option<AppliedState>,
    /// XXH3-128 over (length of key, key, length of value, value) of each row in order, lengths as 4 bytes big-endian.
    pub hash: u128,
}

impl fmt::Display for StateHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.applied {
            Some(applied) => write!(f, "{:032x} at {}", self.hash, applied.log_id),
            None => write!(f, "{:032x} before the first entry", self.hash),
        }
    }
}

impl Reader<'_> {
    /// Hashes the rows. Reads all of them.
    pub fn hash(&self) -> Result<StateHash, Error> {
        let mut hash = Xxh3::new();
        let installed = key::installed(self.group());
        self.view().scan(&key::group(self.group()), &mut |key, value| {
            // Which snapshot the rows came from is a replica's own affair.
            if key != installed {
                for part in [key, value] {
                    hash.update(&(part.len() as u32).to_be_bytes());
                    hash.update(part);
                }
            }
            ControlFlow::Continue(())
        })?;
        Ok(StateHash { applied: self.applied()?, hash: hash.digest128() })
    }
}
