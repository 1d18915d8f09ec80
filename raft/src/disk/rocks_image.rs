//! Images of RocksDB rows: one sorted table that first removes its whole range and then sets its rows.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use rocksdb::{DB, IngestExternalFileOptions, SstFileWriter};
use uuid::Uuid;
use xxhash_rust::xxh3::Xxh3;

use super::rocks_held::RocksHeld;
use super::{Error, FrozenRows, HeldRows, ImageBody, ImageWriter, KeyRange, RocksDisk, View};

/// The rows of a range as they were, to be written out on the thread that holds them.
#[derive(Debug)]
pub struct RocksFrozen {
    disk: RocksDisk,
    range: KeyRange,
    held: RocksHeld,
}

impl RocksFrozen {
    pub(super) async fn of(
        disk: RocksDisk,
        range: KeyRange,
        head: Vec<u8>,
    ) -> Result<(Option<Bytes>, RocksFrozen), Error> {
        let held = RocksHeld::of(disk.clone()).await?;
        let head = held.read(move |view| view.get(&head)).await??;
        Ok((head, RocksFrozen { disk, range, held }))
    }
}

impl FrozenRows for RocksFrozen {
    type Body = SstFile;

    async fn build(self, replace: (Vec<u8>, Bytes)) -> Result<SstFile, Error> {
        let Self { disk, range, held } = self;
        held.read(move |view| write_out(&disk, view, &range, replace)).await?
    }
}

fn write_out(disk: &RocksDisk, view: &dyn View, range: &KeyRange, replace: (Vec<u8>, Bytes)) -> Result<SstFile, Error> {
    let failed = |e: rocksdb::Error| Error::failed("writing a snapshot", e);
    let file = SstFile { path: disk.scratch().join(format!("{}.out", Uuid::new_v4())), len_bytes: 0, xxh3: 0 };
    let options = disk.options();
    let mut table = SstFileWriter::create(&options);
    table.open(&file.path).map_err(failed)?;
    table.delete_range(&range.from, &range.to).map_err(failed)?;
    let mut pending = Some(replace);
    let mut outcome = Ok(());
    view.scan(range, &mut |key, value| {
        // The replaced row goes where its key belongs: a table takes keys in ascending order only.
        let before = pending.take_if(|(replaced, _)| replaced.as_slice() <= key);
        let same = before.as_ref().is_some_and(|(replaced, _)| replaced.as_slice() == key);
        outcome = before.map_or(Ok(()), |(key, value)| table.put(key, value));
        if outcome.is_ok() && !same {
            outcome = table.put(key, value);
        }
        if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    outcome.map_err(failed)?;
    if let Some((key, value)) = pending {
        table.put(key, value).map_err(failed)?;
    }
    table.finish().map_err(failed)?;
    file.measured()
}

/// A table in the scratch directory; removed when it is dropped.
#[derive(Debug)]
pub struct SstFile {
    path: PathBuf,
    len_bytes: u64,
    xxh3: u128,
}

impl SstFile {
    fn measured(mut self) -> Result<Self, Error> {
        let failed = |e| Error::failed("reading a snapshot", e);
        let mut file = File::open(&self.path).map_err(failed)?;
        let (mut hash, mut buffer) = (Xxh3::new(), vec![0; 256 << 10]);
        loop {
            let read = file.read(&mut buffer).map_err(failed)?;
            if read == 0 {
                break;
            }
            hash.update(&buffer[..read]);
            self.len_bytes += read as u64;
        }
        self.xxh3 = hash.digest128();
        Ok(self)
    }

    /// The database links or copies the file, syncs it and its manifest, and shows all of it at once.
    pub(super) fn ingest_into(self, db: &DB, range: &KeyRange) -> Result<(), Error> {
        debug_assert!(range.from < range.to);
        let mut options = IngestExternalFileOptions::default();
        options.set_move_files(true);
        options.set_snapshot_consistency(true);
        options.set_allow_blocking_flush(true);
        db.ingest_external_file_opts(&options, vec![&self.path]).map_err(|e| Error::failed("installing a snapshot", e))
    }
}

impl Drop for SstFile {
    fn drop(&mut self) {
        // Scratch that cannot be removed costs space, nothing else.
        let _ = fs::remove_file(&self.path);
    }
}

impl ImageBody for SstFile {
    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn xxh3(&self) -> u128 {
        self.xxh3
    }

    fn read_at(&self, offset: u64, max_bytes: usize) -> Result<Bytes, Error> {
        let failed = |e| Error::failed("reading a snapshot", e);
        let left = self.len_bytes.saturating_sub(offset);
        let mut piece = vec![0; usize::try_from(left).unwrap_or(usize::MAX).min(max_bytes)];
        let file = File::open(&self.path).map_err(failed)?;
        file.read_exact_at(&mut piece, offset).map_err(failed)?;
        Ok(piece.into())
    }
}

/// Takes in a table.
pub struct SstWriter {
    file: File,
    into: SstFile,
    hash: Xxh3,
}

impl std::fmt::Debug for SstWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SstWriter").field("into", &self.into).finish()
    }
}

impl SstWriter {
    pub(super) fn create(scratch: &Path) -> Result<Self, Error> {
        let into = SstFile { path: scratch.join(format!("{}.in", Uuid::new_v4())), len_bytes: 0, xxh3: 0 };
        let file = File::create_new(&into.path).map_err(|e| Error::failed("receiving a snapshot", e))?;
        Ok(SstWriter { file, into, hash: Xxh3::new() })
    }
}

impl ImageWriter for SstWriter {
    type Body = SstFile;

    fn append(&mut self, piece: &[u8]) -> Result<(), Error> {
        self.file.write_all(piece).map_err(|e| Error::failed("receiving a snapshot", e))?;
        self.hash.update(piece);
        self.into.len_bytes += piece.len() as u64;
        Ok(())
    }

    fn finish(mut self) -> Result<SstFile, Error> {
        self.file.sync_all().map_err(|e| Error::failed("receiving a snapshot", e))?;
        self.into.xxh3 = self.hash.digest128();
        Ok(self.into)
    }
}
