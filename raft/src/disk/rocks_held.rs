//! A RocksDB database as of one moment, for longer than a call.
//!
//! A snapshot of RocksDB borrows the database, so it lives on the stack of its own thread; that thread does the jobs
//! that read it, one after the other, and ends when the handle is dropped. So no job keeps a runtime thread.

use std::sync::mpsc;
use std::thread;

use tokio::sync::oneshot;

use super::rocks::Moment;
use super::{Error, HeldRows, RocksDisk, View};

type Job = Box<dyn FnOnce(&dyn View) + Send>;

/// The rows as they were. Dropping it lets go once the job under way is done.
#[derive(Debug)]
pub struct RocksHeld {
    jobs: mpsc::Sender<Job>,
}

impl RocksHeld {
    /// Returns once the moment is held: what is written after that is not in it.
    pub(super) async fn of(disk: RocksDisk) -> Result<Self, Error> {
        let (jobs, waiting) = mpsc::channel::<Job>();
        let (held, is_held) = oneshot::channel();
        let hold = move || {
            let moment = Moment::of(&disk);
            // A receiver that is gone no longer wants the rows.
            if held.send(()).is_ok() {
                waiting.into_iter().for_each(|job| job(&moment));
            }
        };
        thread::Builder::new()
            .name("orbit-snapshot".into())
            .spawn(hold)
            .map_err(|e| Error::failed("starting a snapshot", e))?;
        is_held.await.map_err(|_| Error::Closed)?;
        Ok(Self { jobs })
    }
}

impl HeldRows for RocksHeld {
    async fn read<R: Send + 'static>(&self, job: impl FnOnce(&dyn View) -> R + Send + 'static) -> Result<R, Error> {
        let (reply, done) = oneshot::channel();
        // Nobody waits for the answer any more: then it is worth nothing.
        let job: Job = Box::new(move |view| drop(reply.send(job(view))));
        self.jobs.send(job).map_err(|_| Error::Closed)?;
        done.await.map_err(|_| Error::Closed)
    }
}
