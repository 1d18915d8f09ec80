//! The state of a replica as of exactly one entry, for whoever compares replicas.
//!
//! A *mark* is a part that writes nothing and whose name nobody used before. Who wants the state as it is right behind
//! it begins to watch for it, on as many replicas as are to be compared, and then has it proposed. A replica that
//! watches cuts its batch behind the entry that carries the mark and holds its rows as they are then: so all that
//! watched hold the state at the same index, however busy the group is. A replica on which nobody watches does nothing
//! about it, and one that came past the entry by a snapshot never sees it.
//!
//! ```text
//!   watch everywhere ──▶ propose ──▶ entry X applied: batch written up to X │ rows held │ the rest of the batch
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use orbit_proto::store;
use prost::Message;
use tokio::sync::oneshot;
use uuid::Uuid;

use super::Error;
use super::read::Reader;
use crate::disk::{HeldRows, StateDisk};
use crate::types::{GroupId, LogId};

/// What applying does not look at: it tells a reader of a log whose part it is.
const PART_MARK: u32 = 8;
/// Marks that are watched for at a time, per group. Each may come to hold the rows of a moment.
const WATCHED_MAX: usize = 4;

/// The name of a mark.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(Bytes);

impl Mark {
    /// The mark that a number names; it must be one that nobody used before.
    pub fn new(number: Uuid) -> Self {
        Mark(number.hyphenated().to_string().into())
    }

    /// Reads what [`Mark::to_bytes`] gave; `None` if it is no name of a mark.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Uuid::try_parse_ascii(bytes).ok().map(Mark::new)
    }

    /// To be told to another node.
    pub fn to_bytes(&self) -> Bytes {
        self.0.clone()
    }

    /// The part to propose: it stands where the name of an execution stands, and writes nothing.
    pub fn part(&self) -> store::Part {
        store::Part { kind: PART_MARK, execution_id: self.0.clone(), ..store::Part::default() }
    }
}

/// Too many marks are watched for in this group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many moments of this group are watched for already; repeat it later")]
pub struct TooManyMarks;

/// The marks that are watched for in one group.
pub(crate) struct Marks<D: StateDisk> {
    watched: Mutex<BTreeMap<Bytes, oneshot::Sender<Moment<D>>>>,
    /// How many these are, so that nothing is looked through while there is none.
    count: AtomicUsize,
}

impl<D: StateDisk> Default for Marks<D> {
    fn default() -> Self {
        Marks { watched: Mutex::default(), count: AtomicUsize::new(0) }
    }
}

impl<D: StateDisk> Marks<D> {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Bytes, oneshot::Sender<Moment<D>>>> {
        // Every change below is complete before the guard goes.
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn watch(self: &Arc<Self>, mark: &Mark) -> Result<Watched<D>, TooManyMarks> {
        let (sender, taken) = oneshot::channel();
        let mut watched = self.lock();
        if watched.len() >= WATCHED_MAX {
            return Err(TooManyMarks);
        }
        watched.insert(mark.0.clone(), sender);
        self.count.store(watched.len(), Ordering::Release);
        Ok(Watched { marks: Arc::clone(self), mark: mark.clone(), taken })
    }

    fn take(&self, mark: &Bytes) -> Option<oneshot::Sender<Moment<D>>> {
        let mut watched = self.lock();
        let sender = watched.remove(mark);
        self.count.store(watched.len(), Ordering::Release);
        sender
    }

    /// The mark in an entry that somebody watches for.
    pub(super) fn in_entry(&self, entry: &Bytes) -> Option<Bytes> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        // Applying refuses what cannot be read.
        let entry = store::Entry::decode(entry.clone()).ok()?;
        let watched = self.lock();
        entry.parts.into_iter().map(|part| part.execution_id).find(|id| watched.contains_key(id))
    }

    /// Holds the rows as they are now, behind an entry, for whoever watches for its mark.
    pub(super) async fn hold(&self, mark: &Bytes, disk: &D, group: GroupId, at: Option<LogId>) {
        let (Some(sender), Some(at)) = (self.take(mark), at) else { return };
        match disk.hold().await {
            // Somebody who has given up meanwhile no longer wants it.
            Ok(held) => drop(sender.send(Moment { group, at, held })),
            // Whoever waits learns that there is nothing; applying goes on.
            Err(error) => tracing::warn!(%group, %error, "the state behind a mark cannot be held"),
        }
    }
}

/// A mark that is watched for, until it is dropped.
pub struct Watched<D: StateDisk> {
    marks: Arc<Marks<D>>,
    mark: Mark,
    taken: oneshot::Receiver<Moment<D>>,
}

impl<D: StateDisk> fmt::Debug for Watched<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").field("mark", &self.mark).finish_non_exhaustive()
    }
}

impl<D: StateDisk> Watched<D> {
    /// Waits until the entry with the mark is applied here: for ever, if it never is. `None`: the rows could not be
    /// held.
    pub async fn taken(mut self) -> Option<Moment<D>> {
        (&mut self.taken).await.ok()
    }
}

impl<D: StateDisk> Drop for Watched<D> {
    fn drop(&mut self) {
        drop(self.marks.take(&self.mark.0));
    }
}

/// The rows of a group as they were right behind an entry. Dropping it lets go.
pub struct Moment<D: StateDisk> {
    group: GroupId,
    at: LogId,
    held: D::Held,
}

impl<D: StateDisk> fmt::Debug for Moment<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Moment").field("group", &self.group).field("at", &self.at).finish_non_exhaustive()
    }
}

impl<D: StateDisk> Moment<D> {
    /// The last entry that is in it.
    pub fn at(&self) -> LogId {
        self.at
    }

    /// Lets a job read the rows, where it may take its time: one job after the other, and not on a thread of the
    /// runtime.
    ///
    /// # Errors
    /// The node ends.
    pub async fn read<R: Send + 'static>(
        &self,
        job: impl FnOnce(&Reader<'_>) -> R + Send + 'static,
    ) -> Result<R, Error> {
        let group = self.group;
        Ok(self.held.read(move |view| job(&Reader::new(group, view))).await?)
    }
}
