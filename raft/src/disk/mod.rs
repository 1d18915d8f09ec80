//! An ordered store of rows that tells *written* from *synced*.
//!
//! Everything durable goes through [`Disk`]. The log and the state are two disks with the same few verbs:
//!
//! ```text
//!   write(batch)   all of it or nothing, visible to readers at once; survives the end of the process, not of the power
//!   sync()         everything written before is on stable storage; only after it may anyone be told
//! ```
//!
//! [`RocksDisk`] keeps them in RocksDB, [`MemoryDisk`] in memory with a power cut at hand, so that a simulation can
//! lose exactly what was written and not synced. What ends a node is told to a [`FatalHook`].

mod batch;
mod error;
mod fatal;
mod memory;
mod rocks;
mod rocks_held;
mod rocks_image;

use std::future::Future;
use std::ops::ControlFlow;

use bytes::Bytes;
use futures::future::BoxFuture;

pub use batch::{Batch, KeyRange, Op};
pub use error::Error;
pub use fatal::{EXIT_STORAGE, FatalHook, end_process};
pub use memory::{MemoryDisk, MemoryFrozen, MemoryHeld};
pub use rocks::{RocksDisk, RocksRole};
pub use rocks_held::RocksHeld;
pub use rocks_image::{RocksFrozen, SstFile, SstWriter};

/// What a scan calls for each row; it stops at `Break`.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// Rows in the order of their keys, as of one moment.
pub trait View {
    /// The value of a row.
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Error>;

    /// Visits the rows of a range in ascending order. The range bounds the work: nothing outside it is touched.
    fn scan(&self, range: &KeyRange, visit: &mut Visit<'_>) -> Result<(), Error>;
}

/// A store of rows. A clone is another handle to the same store.
pub trait Disk: View + Clone + Send + Sync + 'static {
    /// Writes a batch: all of it or nothing, after all batches before.
    fn write(&self, batch: Batch) -> Result<(), Error>;

    /// Returns after everything written before is on stable storage. After one failure nothing may be trusted any
    /// more: the caller must tell its [`FatalHook`] and acknowledge nothing.
    fn sync(&self) -> impl Future<Output = Result<(), Error>> + Send;

    /// The last row of a range.
    fn last(&self, range: &KeyRange) -> Result<Option<(Vec<u8>, Bytes)>, Error>;

    /// Becomes ready once the last handle is gone and the files are closed; at once for a disk without files. It is no
    /// handle itself. A process with open files ends by [`end_process`], or not at all.
    fn closed(&self) -> BoxFuture<'static, ()>;
}

/// A disk that can hand out and take in all rows of a range as one image.
pub trait StateDisk: Disk {
    /// All rows as of one moment.
    type Held: HeldRows;
    /// Rows as of one moment, not yet made into an image.
    type Frozen: FrozenRows<Body = Self::Body>;
    /// An image.
    type Body: ImageBody;
    /// An image on its way in.
    type Incoming: ImageWriter<Body = Self::Body>;

    /// The format of the images; one node refuses another's.
    const IMAGE_FORMAT: u32;

    /// Lets a reader see the rows as of one moment.
    fn read<R>(&self, reader: impl FnOnce(&dyn View) -> R) -> R;

    /// Like [`Disk::sync`], without blocking the caller's thread.
    fn make_durable(&self) -> impl Future<Output = Result<(), Error>> + Send;

    /// Holds all rows as they are now. Writers go on.
    fn hold(&self) -> impl Future<Output = Result<Self::Held, Error>> + Send;

    /// Holds the rows of a range as they are now and returns the row `head` of the same moment. Writers go on.
    fn freeze(
        &self,
        range: KeyRange,
        head: Vec<u8>,
    ) -> impl Future<Output = Result<(Option<Bytes>, Self::Frozen), Error>> + Send;

    /// Begins to take in an image.
    fn receive(&self) -> Result<Self::Incoming, Error>;

    /// Puts an image in the place of all rows of the range: at once, and durable when it returns.
    fn install(&self, range: KeyRange, body: Self::Body) -> impl Future<Output = Result<(), Error>> + Send;
}

/// All rows held as of one moment. Dropping them lets go.
pub trait HeldRows: Send + Sync + 'static {
    /// Lets a job read them, where it may take its time: one job after the other, and not on a thread of the runtime.
    fn read<R: Send + 'static>(
        &self,
        job: impl FnOnce(&dyn View) -> R + Send + 'static,
    ) -> impl Future<Output = Result<R, Error>> + Send;
}

/// Rows held as of one moment. Dropping them lets go.
pub trait FrozenRows: Send + Sync + 'static {
    /// The image they become.
    type Body: ImageBody;

    /// Makes the image. The row `replace.0` gets the value `replace.1` in it, whatever it is now.
    fn build(self, replace: (Vec<u8>, Bytes)) -> impl Future<Output = Result<Self::Body, Error>> + Send;
}

/// A finished image.
pub trait ImageBody: Send + Sync + 'static {
    /// Its length in bytes.
    fn len_bytes(&self) -> u64;

    /// XXH3-128 of its bytes.
    fn xxh3(&self) -> u128;

    /// At most `max_bytes` from `offset` on; empty at the end.
    fn read_at(&self, offset: u64, max_bytes: usize) -> Result<Bytes, Error>;
}

/// Takes in an image piece by piece. Dropping it discards the pieces.
pub trait ImageWriter: Send + 'static {
    /// The image it becomes.
    type Body: ImageBody;

    /// Takes the next piece.
    fn append(&mut self, piece: &[u8]) -> Result<(), Error>;

    /// Ends it.
    fn finish(self) -> Result<Self::Body, Error>;
}
