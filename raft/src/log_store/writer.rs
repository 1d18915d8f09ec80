//! One writer for all groups of a node.
//!
//! ```text
//!   group 1 ──append──┐
//!   group 2 ──vote────┤ bounded queue ──▶ round: one batch ──▶ write ──▶ sync ──▶ tell everyone in the round
//!   group 3 ──purge───┘                          (whatever waits, up to a count and a size)
//! ```
//!
//! While one round syncs, the next one gathers: with many groups the disk still sees one sync at a time. A round in
//! which nobody needs to know is written and not synced. After the first failure the [`FatalHook`] is told and the
//! writer ends: nobody in that round, nor after it, ever hears that something was saved.

use std::fmt;

use tokio::sync::mpsc;

use crate::disk::{Batch, Disk, Error, FatalHook};
use crate::phase::{self, During, Phase};

/// How many requests may wait.
const QUEUE: usize = 4096;
/// How many requests a round takes at most.
const ROUND_REQUESTS: usize = 4096;
/// About how many bytes a round takes at most.
const ROUND_BYTES: usize = 16 << 20;

/// What to call when a request is on stable storage. It is never called if that fails.
pub(crate) type Saved = Box<dyn FnOnce() + Send>;

pub(crate) struct Request {
    pub(crate) batch: Batch,
    /// Called after the sync; `None` if nobody needs to know, which then needs no sync either.
    pub(crate) saved: Option<Saved>,
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("batch", &self.batch).finish_non_exhaustive()
    }
}

/// Where requests go. The writer ends when the last of these is gone.
#[derive(Debug, Clone)]
pub(crate) struct WriterHandle(mpsc::Sender<Request>);

impl WriterHandle {
    /// Hands a request in, waiting while the queue is full. Requests are written in the order of these calls.
    pub(crate) async fn submit(&self, request: Request) -> Result<(), Error> {
        self.0.send(request).await.map_err(|_| Error::Closed)
    }
}

/// The writer and the way to it.
pub(crate) fn writer<D: Disk>(disk: D, fatal: FatalHook) -> (WriterHandle, Writer<D>) {
    let (tx, rx) = mpsc::channel(QUEUE);
    (WriterHandle(tx), Writer { disk, requests: rx, fatal })
}

#[derive(Debug)]
pub(crate) struct Writer<D> {
    disk: D,
    requests: mpsc::Receiver<Request>,
    fatal: FatalHook,
}

impl<D: Disk> Writer<D> {
    pub(crate) async fn run(mut self) {
        while let Some(first) = self.requests.recv().await {
            if let Err(error) = self.round(first).await {
                self.fatal.raise(format_args!("the log could not be saved: {error}"));
                return;
            }
        }
    }

    async fn round(&mut self, first: Request) -> Result<(), Error> {
        let mut batch = first.batch;
        let mut saved: Vec<Saved> = first.saved.into_iter().collect();
        for _ in 1..ROUND_REQUESTS {
            if batch.size_bytes() >= ROUND_BYTES {
                break;
            }
            let Ok(next) = self.requests.try_recv() else { break };
            batch.append(next.batch);
            saved.extend(next.saved);
        }
        let unsynced = (!saved.is_empty()).then(|| phase::enter(Phase::Unsynced));
        if !batch.is_empty() {
            self.disk.write(batch)?;
        }
        if saved.is_empty() {
            return Ok(());
        }
        self.disk.sync().await?;
        unsynced.into_iter().for_each(During::end);
        for tell in saved {
            tell();
        }
        Ok(())
    }
}
