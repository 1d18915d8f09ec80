//! Which life of each peer is known.
//!
//! A node that lost its disk has lost what it promised. If it came back under its old number it could vote a second
//! time in a term, or stand for entries it no longer has. So every node remembers the first incarnation it met under a
//! number and refuses any other: whoever lost a disk joins as a new node with a number of its own.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use orbit_proto::peer::Hello;

use super::Error;
use crate::disk::{Batch, Disk};
use crate::state_store::key;

/// Says whether a peer is who it was.
pub(crate) trait Roster: Send + Sync {
    /// Refuses another incarnation than the one known; learns one that is new.
    fn admit(&self, hello: &Hello) -> Result<(), Error>;
}

/// A roster beside the state of the node, in rows of the node itself.
pub(crate) struct StoredRoster<D> {
    disk: D,
    known: Mutex<BTreeMap<u64, Bytes>>,
}

impl<D: Disk> StoredRoster<D> {
    pub(crate) fn load(disk: D) -> Result<Self, crate::disk::Error> {
        let mut known = BTreeMap::new();
        disk.scan(&key::peers(), &mut |key, incarnation| {
            if let Some(node) = key.last_chunk::<8>() {
                // Behind the format byte.
                known.insert(
                    u64::from_be_bytes(*node),
                    Bytes::copy_from_slice(incarnation.get(1..).unwrap_or_default()),
                );
            }
            ControlFlow::Continue(())
        })?;
        Ok(StoredRoster { disk, known: Mutex::new(known) })
    }
}

impl<D: Disk> Roster for StoredRoster<D> {
    fn admit(&self, hello: &Hello) -> Result<(), Error> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match known.get(&hello.node_id) {
            Some(incarnation) if *incarnation == hello.incarnation => Ok(()),
            Some(_) => Err(Error::Refused(format!(
                "node {} is known with other data than it has now; a node that lost its data joins under a new number",
                hello.node_id
            ))),
            None => {
                let mut batch = Batch::default();
                batch.put(key::peer(hello.node_id), [&[1], &*hello.incarnation].concat());
                // Not synced: what a power cut takes is learned again at the next greeting.
                self.disk.write(batch).map_err(|e| Error::Refused(e.to_string()))?;
                known.insert(hello.node_id, hello.incarnation.clone());
                Ok(())
            }
        }
    }
}
