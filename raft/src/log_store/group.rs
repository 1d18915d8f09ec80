//! One group in the log.

use std::ops::{Bound, ControlFlow, RangeBounds};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use orbit_proto::store;
use tokio::sync::{oneshot, watch};

use super::key::{self, Mark};
use super::tail::Tail;
use super::writer::{Request, Saved, WriterHandle};
use super::{Error, key::decode};
use crate::consensus::{RaftEntry, RaftLogId, RaftVote, entry_in, entry_out, log_id_in, log_id_out, vote_in, vote_out};
use crate::disk::{Batch, Disk, KeyRange};
use crate::types::GroupId;

/// One group in the log. A clone reads and writes the same.
#[derive(Debug, Clone)]
pub(crate) struct GroupLog<D> {
    group: GroupId,
    disk: D,
    writer: WriterHandle,
    shared: Arc<Mutex<Shared>>,
    /// The number of the last write known to be saved.
    saved: watch::Sender<u64>,
}

#[derive(Debug)]
struct Shared {
    tail: Tail,
    vote: Option<RaftVote>,
    committed: Option<RaftLogId>,
}

impl<D: Disk> GroupLog<D> {
    pub(super) fn load(group: GroupId, disk: D, writer: WriterHandle) -> Result<Self, Error> {
        let log_id = |mark| -> Result<Option<RaftLogId>, Error> {
            let value = disk.get(&key::mark(group, mark))?;
            Ok(value.map(|v| decode::<store::LogId>("log id", v)).transpose()?.map(log_id_in))
        };
        let vote = disk.get(&key::mark(group, Mark::Vote))?;
        let vote = vote.map(|v| decode::<store::Vote>("vote", v)).transpose()?.map(vote_in);
        let (committed, purged) = (log_id(Mark::Committed)?, log_id(Mark::Purged)?);
        let last = match disk.last(&key::all_entries(group))? {
            Some((key, value)) => Some(entry_in(key::index_of(&key)?, decode("log entry", value)?)?.log_id),
            None => None,
        };
        let shared = Arc::new(Mutex::new(Shared { tail: Tail::new(purged, last), vote, committed }));
        Ok(GroupLog { group, disk, writer, shared, saved: watch::Sender::new(0) })
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // Each holder only moves marks forward or pushes entries; a panic in between leaves nothing half done.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn last(&self) -> Option<RaftLogId> {
        self.lock().tail.last()
    }

    pub(crate) fn purged(&self) -> Option<RaftLogId> {
        self.lock().tail.purged()
    }

    pub(crate) fn vote(&self) -> Option<RaftVote> {
        self.lock().vote
    }

    pub(crate) fn committed(&self) -> Option<RaftLogId> {
        self.lock().committed
    }

    /// Appends entries: readable when this returns, on stable storage when `saved` is called.
    pub(crate) async fn append(&self, entries: Vec<RaftEntry>, saved: Saved) -> Result<(), Error> {
        let mut batch = Batch::default();
        for entry in &entries {
            batch.put(key::entry(self.group, entry.log_id.index), key::encode(&entry_out(entry)));
        }
        let write = {
            let mut shared = self.lock();
            let write = shared.tail.begin_write();
            for entry in entries {
                shared.tail.push(entry, write);
            }
            write
        };
        let (shared, progress) = (Arc::clone(&self.shared), self.saved.clone());
        let saved: Saved = Box::new(move || {
            shared.lock().unwrap_or_else(PoisonError::into_inner).tail.saved(write);
            progress.send_replace(write);
            saved();
        });
        Ok(self.writer.submit(Request { batch, saved: Some(saved) }).await?)
    }

    /// Saves the vote; it is on stable storage when this returns.
    pub(crate) async fn save_vote(&self, vote: RaftVote) -> Result<(), Error> {
        let mut batch = Batch::default();
        batch.put(key::mark(self.group, Mark::Vote), key::encode(&vote_out(&vote)));
        self.save(batch).await?;
        self.lock().vote = Some(vote);
        Ok(())
    }

    /// Notes how far the group is committed. Nobody waits for it: it spares replaying from further back, no more.
    pub(crate) async fn save_committed(&self, committed: Option<RaftLogId>) -> Result<(), Error> {
        let mut batch = Batch::default();
        {
            let mut shared = self.lock();
            let Some(committed) = committed.filter(|_| committed > shared.committed) else { return Ok(()) };
            shared.committed = Some(committed);
            batch.put(key::mark(self.group, Mark::Committed), key::encode(&log_id_out(&committed)));
        }
        Ok(self.writer.submit(Request { batch, saved: None }).await?)
    }

    /// Cuts off everything behind `last`; done on stable storage when this returns.
    pub(crate) async fn truncate_after(&self, last: Option<RaftLogId>) -> Result<(), Error> {
        let mut batch = Batch::default();
        {
            let mut shared = self.lock();
            let next = last.map_or(0, |id| id.index + 1);
            let end = shared.tail.last().map_or(0, |id| id.index + 1);
            batch.delete_range(key::entries(self.group, next, end));
            shared.tail.truncate_after(last);
        }
        if batch.is_empty() { Ok(()) } else { self.save(batch).await }
    }

    /// Removes everything up to `upto`, inclusive; done on stable storage when this returns. The caller has made the
    /// state that covers it durable.
    pub(crate) async fn purge(&self, upto: RaftLogId) -> Result<(), Error> {
        let mut batch = Batch::default();
        {
            let mut shared = self.lock();
            if shared.tail.purged() >= Some(upto) {
                return Ok(());
            }
            let first = shared.tail.purged().map_or(0, |id| id.index + 1);
            batch.delete_range(key::entries(self.group, first, upto.index + 1));
            batch.put(key::mark(self.group, Mark::Purged), key::encode(&log_id_out(&upto)));
            shared.tail.purge(upto);
        }
        self.save(batch).await
    }

    async fn save(&self, batch: Batch) -> Result<(), Error> {
        let (tx, rx) = oneshot::channel();
        // Who asked may be gone; then nobody needs to know.
        let saved: Saved = Box::new(move || tx.send(()).unwrap_or_default());
        self.writer.submit(Request { batch, saved: Some(saved) }).await?;
        rx.await.map_err(|_| Error::Disk(crate::disk::Error::Closed))
    }

    /// Waits until an entry is on stable storage here.
    pub(crate) async fn wait_saved(&self, index: u64) {
        let Some(write) = self.lock().tail.unsaved_write(index) else { return };
        // `self` holds a sender, so this cannot fail.
        let _ = self.saved.subscribe().wait_for(|saved| *saved >= write).await;
    }

    /// The entries of a range, without a gap; fewer only where the log begins or ends within it.
    pub(crate) fn read(&self, range: impl RangeBounds<u64>) -> Result<Vec<RaftEntry>, Error> {
        let (from, to) = half_open(&range);
        let (disk_end, newest) = self.lock().tail.read(from, to);
        if from >= disk_end {
            return Ok(newest);
        }
        // What memory no longer has was saved before it left, so it is on disk unless it is purged by now.
        let mut entries = self.read_disk(&key::entries(self.group, from, disk_end))?;
        entries.extend(newest);
        let gap = entries.windows(2).find(|pair| pair[0].log_id.index + 1 != pair[1].log_id.index);
        match gap {
            Some(pair) => Err(Error::Hole { group: self.group, index: pair[0].log_id.index + 1 }),
            None => Ok(entries),
        }
    }

    fn read_disk(&self, range: &KeyRange) -> Result<Vec<RaftEntry>, Error> {
        let mut entries = Vec::new();
        let mut outcome = Ok(());
        self.disk.scan(range, &mut |key, value| {
            let entry = key::index_of(key)
                .and_then(|index| entry_in(index, decode("log entry", bytes::Bytes::copy_from_slice(value))?));
            match entry {
                Ok(entry) => entries.push(entry),
                Err(error) => {
                    outcome = Err(error);
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        })?;
        outcome?;
        Ok(entries)
    }
}

fn half_open(range: &impl RangeBounds<u64>) -> (u64, u64) {
    let from = match range.start_bound() {
        Bound::Included(from) => *from,
        Bound::Excluded(before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let to = match range.end_bound() {
        Bound::Included(last) => last.saturating_add(1),
        Bound::Excluded(to) => *to,
        Bound::Unbounded => u64::MAX,
    };
    (from, to)
}
