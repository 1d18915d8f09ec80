//! A disk in RocksDB.

use std::fmt;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, DBPinnableSlice, DBRawIterator, DBRecoveryMode, Options,
    ReadOptions, WriteBatch,
};
use tokio::sync::watch;

use super::rocks_held::RocksHeld;
use super::rocks_image::{RocksFrozen, SstFile, SstWriter};
use super::{Batch, Disk, Error, KeyRange, Op, StateDisk, View, Visit};

/// What a database is used for; it is tuned accordingly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RocksRole {
    /// Written once, synced at once, read rarely, removed by range.
    Log,
    /// Read and overwritten at random.
    State,
}

/// One database. The last handle to go closes it.
#[derive(Clone)]
pub struct RocksDisk {
    inner: Arc<Inner>,
}

struct Inner {
    db: DB,
    role: RocksRole,
    /// Images on their way in or out. They are scratch: what lies here after a crash is not used again.
    scratch: PathBuf,
    /// Goes after the database (fields drop in order): whoever holds a receiver learns that the files are closed.
    closed: watch::Sender<()>,
}

impl fmt::Debug for RocksDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RocksDisk").field("path", &self.inner.db.path()).field("role", &self.inner.role).finish()
    }
}

impl RocksDisk {
    /// Creates a database in a directory that holds none, or opens the one whose creation was cut short.
    pub fn create(path: &Path, role: RocksRole) -> Result<Self, Error> {
        Self::open_with(path, role, true)
    }

    /// Opens a database that must be there. A missing one is damage, never a reason to begin anew.
    pub fn open(path: &Path, role: RocksRole) -> Result<Self, Error> {
        Self::open_with(path, role, false)
    }

    fn open_with(path: &Path, role: RocksRole, create: bool) -> Result<Self, Error> {
        let mut options = options(role);
        options.create_if_missing(create);
        let db = DB::open(&options, path).map_err(|error| open_error(path, &error))?;
        let scratch = path.join("scratch");
        clear_scratch(&scratch).map_err(|e| Error::failed("clearing the scratch directory", e))?;
        Ok(RocksDisk { inner: Arc::new(Inner { db, role, scratch, closed: watch::Sender::new(()) }) })
    }

    pub(super) fn db(&self) -> &DB {
        &self.inner.db
    }

    pub(super) fn scratch(&self) -> &Path {
        &self.inner.scratch
    }

    pub(super) fn options(&self) -> Options {
        options(self.inner.role)
    }

    fn sync_wal(&self) -> Result<(), Error> {
        self.inner.db.flush_wal(true).map_err(|e| Error::failed("syncing the store", e))
    }
}

/// Images that a crash left half made are of no use to anyone.
fn clear_scratch(scratch: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(scratch)?;
    for entry in std::fs::read_dir(scratch)? {
        let path = entry?.path();
        if path.extension().is_some_and(|kind| kind == "in" || kind == "out") {
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}

fn open_error(path: &Path, error: &rocksdb::Error) -> Error {
    let text = error.to_string();
    if text.contains("LOCK") || text.contains("lock hold by current process") {
        return Error::InUse { path: path.display().to_string() };
    }
    Error::Damaged { what: text }
}

fn options(role: RocksRole) -> Options {
    let mut options = Options::default();
    options.set_paranoid_checks(true);
    // A record torn by a crash may end the last file; anything else that does not add up refuses to open.
    options.set_wal_recovery_mode(DBRecoveryMode::TolerateCorruptedTailRecords);
    options.set_track_and_verify_wals_in_manifest(true);
    options.set_max_background_jobs(2);
    options.set_keep_log_file_num(4);
    options.set_max_open_files(512);
    options.set_bytes_per_sync(1 << 20);
    let mut table = BlockBasedOptions::default();
    // Readers of old versions must be able to take in what newer ones make, so the table format is pinned.
    table.set_format_version(5);
    table.set_block_size(16 << 10);
    // Up to four of these buffers per database lie in memory, whatever a node is used for; four times the size brought
    // no more throughput.
    match role {
        RocksRole::Log => {
            options.set_write_buffer_size(16 << 20);
            options.set_max_write_buffer_number(4);
            options.set_compression_type(DBCompressionType::None);
            table.set_block_cache(&Cache::new_lru_cache(8 << 20));
        }
        RocksRole::State => {
            options.set_write_buffer_size(16 << 20);
            options.set_max_write_buffer_number(4);
            options.set_compression_type(DBCompressionType::Lz4);
            table.set_bloom_filter(10.0, false);
            table.set_block_cache(&Cache::new_lru_cache(64 << 20));
        }
    }
    options.set_block_based_table_factory(&table);
    options
}

pub(super) fn read_options(range: &KeyRange) -> ReadOptions {
    let mut options = ReadOptions::default();
    // A bounded iterator stops at the end of its range instead of walking over what was deleted behind it.
    options.set_iterate_lower_bound(range.from.clone());
    options.set_iterate_upper_bound(range.to.clone());
    options
}

pub(super) fn got(value: Result<Option<DBPinnableSlice<'_>>, rocksdb::Error>) -> Result<Option<Bytes>, Error> {
    match value {
        Ok(value) => Ok(value.map(|v| Bytes::copy_from_slice(&v))),
        Err(error) => Err(read_error(&error)),
    }
}

pub(super) fn read_error(error: &rocksdb::Error) -> Error {
    match error.kind() {
        rocksdb::ErrorKind::Corruption => Error::damaged(error.to_string()),
        _ => Error::failed("reading the store", error),
    }
}

pub(super) fn visit_all(mut rows: DBRawIterator<'_>, visit: &mut Visit<'_>) -> Result<(), Error> {
    rows.seek_to_first();
    while let Some((key, value)) = rows.item() {
        if let ControlFlow::Break(()) = visit(key, value) {
            return Ok(());
        }
        rows.next();
    }
    rows.status().map_err(|e| read_error(&e))
}

impl View for RocksDisk {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Error> {
        got(self.inner.db.get_pinned(key))
    }

    fn scan(&self, range: &KeyRange, visit: &mut Visit<'_>) -> Result<(), Error> {
        visit_all(self.inner.db.raw_iterator_opt(read_options(range)), visit)
    }
}

/// The database as of one moment.
pub(super) struct Moment<'a>(rocksdb::Snapshot<'a>);

impl<'a> Moment<'a> {
    pub(super) fn of(disk: &'a RocksDisk) -> Self {
        Moment(disk.inner.db.snapshot())
    }
}

impl View for Moment<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Error> {
        got(self.0.get_pinned(key))
    }

    fn scan(&self, range: &KeyRange, visit: &mut Visit<'_>) -> Result<(), Error> {
        visit_all(self.0.raw_iterator_opt(read_options(range)), visit)
    }
}

impl Disk for RocksDisk {
    fn write(&self, batch: Batch) -> Result<(), Error> {
        let mut rows = WriteBatch::with_capacity_bytes(batch.size_bytes() + 32 * batch.ops().len());
        for op in batch.ops() {
            match op {
                Op::Put { key, value } => rows.put(key, value),
                Op::Delete { key } => rows.delete(key),
                Op::DeleteRange(range) => rows.delete_range(&range.from, &range.to),
            }
        }
        self.inner.db.write(rows).map_err(|e| Error::failed("writing to the store", e))
    }

    async fn sync(&self) -> Result<(), Error> {
        self.sync_wal()
    }

    fn last(&self, range: &KeyRange) -> Result<Option<(Vec<u8>, Bytes)>, Error> {
        let mut rows = self.inner.db.raw_iterator_opt(read_options(range));
        rows.seek_to_last();
        let last = rows.item().map(|(key, value)| (key.to_vec(), Bytes::copy_from_slice(value)));
        rows.status().map_err(|e| read_error(&e))?;
        Ok(last)
    }

    fn closed(&self) -> BoxFuture<'static, ()> {
        let mut closed = self.inner.closed.subscribe();
        // Nothing is ever sent: it changes by the end of the sender.
        async move { closed.changed().await.unwrap_or_default() }.boxed()
    }
}

impl StateDisk for RocksDisk {
    type Held = RocksHeld;
    type Frozen = RocksFrozen;
    type Body = SstFile;
    type Incoming = SstWriter;

    const IMAGE_FORMAT: u32 = 1;

    fn read<R>(&self, reader: impl FnOnce(&dyn View) -> R) -> R {
        reader(&Moment::of(self))
    }

    async fn make_durable(&self) -> Result<(), Error> {
        let disk = self.clone();
        tokio::task::spawn_blocking(move || disk.sync_wal()).await.map_err(|e| Error::failed("syncing the store", e))?
    }

    async fn hold(&self) -> Result<RocksHeld, Error> {
        RocksHeld::of(self.clone()).await
    }

    async fn freeze(&self, range: KeyRange, head: Vec<u8>) -> Result<(Option<Bytes>, RocksFrozen), Error> {
        RocksFrozen::of(self.clone(), range, head).await
    }

    fn receive(&self) -> Result<SstWriter, Error> {
        SstWriter::create(self.scratch())
    }

    async fn install(&self, range: KeyRange, body: SstFile) -> Result<(), Error> {
        let disk = self.clone();
        let install = move || body.ingest_into(disk.db(), &range);
        tokio::task::spawn_blocking(install).await.map_err(|e| Error::failed("installing a snapshot", e))?
    }
}
