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

/// A hash in the making: rows are added piece by piece, so that whoever hashes much can let others go first.
#[derive(Default)]
pub struct Hashing {
    hash: Xxh3,
    rows: u64,
    /// Where to go on, a whole key; absent before the first piece.
    from: Option<Vec<u8>>,
}

impl fmt::Debug for Hashing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hashing").field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl Hashing {
    /// Adds rows until they have about this many bytes. Returns whether there are more. All pieces must be read as of
    /// the same moment.
    pub fn add(&mut self, reader: &Reader<'_>, bytes_max: usize) -> Result<bool, Error> {
        let installed = key::installed(reader.group());
        let mut range = key::group(reader.group());
        range.from = self.from.take().unwrap_or(range.from);
        let mut bytes = 0;
        reader.view().scan(&range, &mut |key, value| {
            if bytes >= bytes_max {
                self.from = Some(key.to_vec());
                return ControlFlow::Break(());
            }
            bytes += key.len() + value.len();
            // Which snapshot the rows came from is a replica's own affair.
            if key != installed {
                self.rows += 1;
                for part in [key, value] {
                    self.hash.update(&(part.len() as u32).to_be_bytes());
                    self.hash.update(part);
                }
            }
            ControlFlow::Continue(())
        })?;
        Ok(self.from.is_some())
    }

    /// How many rows were added.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The hash over what was added.
    pub fn finish(&self, reader: &Reader<'_>) -> Result<StateHash, Error> {
        Ok(StateHash { applied: reader.applied()?, hash: self.hash.digest128() })
    }
}

impl Reader<'_> {
    /// Hashes the rows. Reads all of them at once.
    pub fn hash(&self) -> Result<StateHash, Error> {
        let mut hashing = Hashing::default();
        hashing.add(self, usize::MAX)?;
        hashing.finish(self)
    }
}
