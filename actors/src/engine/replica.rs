//! Replicas held behind one entry and hashed, for whoever compares them.
//!
//! Only the hash is kept, and of few marks; the rows are let go as soon as they are hashed.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use orbit_proto::node::ReplicaAnswer;
use orbit_raft::disk::StateDisk;
use orbit_raft::state_store::{Hashing, Mark, Moment, Watched};
use orbit_raft::{Environment, Group};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::error::{Code, Error, Result};
use crate::failure::of_storage;

/// How long the entry with a mark may take to come.
pub(super) const MARK_WAIT: Duration = Duration::from_secs(60);
/// Bytes of rows that are hashed without a pause.
const PIECE_BYTES: usize = 256 << 10;
/// Between two pieces of anything that reads a whole shard: others go first.
pub(super) const PAUSE: Duration = Duration::from_millis(1);
/// Marks of which something is known.
const MARKS_MAX: usize = 64;

/// What this node knows of marks that others named.
#[derive(Debug, Default)]
pub(super) struct Replicas(Mutex<BTreeMap<Bytes, Replica>>);

#[derive(Debug)]
struct Replica {
    hashed: watch::Receiver<Hashed>,
    task: JoinHandle<()>,
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Debug, Default)]
struct Hashed {
    index: Option<u64>,
    /// Rows and their hash.
    hash: Option<(u64, u128)>,
}

impl Replicas {
    /// Begins to wait for an entry, and hashes what is behind it.
    pub(super) fn watch<E: Environment>(&self, group: &Group<E>, mark: &[u8]) -> Result<ReplicaAnswer> {
        let mark = Mark::from_bytes(mark).ok_or_else(|| Error::new(Code::InvalidRequest, "that is no mark"))?;
        let overloaded = || Error::new(Code::Overloaded, "this node compares replicas already; repeat it later");
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MARKS_MAX {
            known.retain(|_, replica| !replica.task.is_finished());
        }
        if known.len() >= MARKS_MAX {
            return Err(overloaded());
        }
        let watched = group.watch(&mark).map_err(|_| overloaded())?;
        let (sender, hashed) = watch::channel(Hashed::default());
        let task = tokio::spawn(hold_and_hash(watched, sender));
        known.insert(mark.to_bytes(), Replica { hashed, task });
        Ok(ReplicaAnswer { applied: applied(group), ..ReplicaAnswer::default() })
    }

    /// Lets go of everything: the node ends.
    pub(super) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// What is known so far.
    pub(super) fn answer<E: Environment>(&self, group: &Group<E>, mark: &[u8]) -> Result<ReplicaAnswer> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let unknown = || Error::new(Code::NotFound, "this node was not asked to hold that, or has been started anew");
        let replica = known.get(mark).ok_or_else(unknown)?;
        let is_over = replica.task.is_finished();
        let hashed = replica.hashed.borrow();
        if is_over && hashed.hash.is_none() {
            return Err(of_storage("the replica was not hashed"));
        }
        Ok(ReplicaAnswer {
            applied: applied(group),
            index: hashed.index,
            hash: hashed.hash.map(|(_, hash)| Bytes::copy_from_slice(&hash.to_be_bytes())),
            rows: hashed.hash.map_or(0, |(rows, _)| rows),
        })
    }
}

fn applied<E: Environment>(group: &Group<E>) -> u64 {
    group.status().applied.map_or(0, |id| id.index)
}

async fn hold_and_hash<D: StateDisk>(watched: Watched<D>, told: watch::Sender<Hashed>) {
    let Ok(Some(moment)) = tokio::time::timeout(MARK_WAIT, watched.taken()).await else { return };
    told.send_modify(|hashed| hashed.index = Some(moment.at().index));
    match hash(&moment).await {
        Ok(hash) => told.send_modify(|hashed| hashed.hash = Some(hash)),
        Err(error) => tracing::warn!(%error, "a replica cannot be hashed"),
    }
}

/// Rows of a replica and their hash, read a piece at a time.
pub(super) async fn hash<D: StateDisk>(moment: &Moment<D>) -> Result<(u64, u128)> {
    let mut hashing = Hashing::default();
    loop {
        let piece = moment.read(move |reader| {
            let more = hashing.add(reader, PIECE_BYTES);
            (hashing, more)
        });
        let (so_far, more) = piece.await.map_err(of_storage)?;
        hashing = so_far;
        if !more.map_err(of_storage)? {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    let rows = hashing.rows();
    let hash = moment.read(move |reader| hashing.finish(reader)).await.map_err(of_storage)?;
    Ok((rows, hash.map_err(of_storage)?.hash))
}
