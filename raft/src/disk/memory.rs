//! A disk in memory with a power cut at hand.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{BufMut, Bytes, BytesMut};
use futures::FutureExt;
use futures::future::{self, BoxFuture};
use xxhash_rust::xxh3::xxh3_128;

use super::{Batch, Disk, Error, FrozenRows, HeldRows, ImageBody, ImageWriter, KeyRange, Op, StateDisk, View, Visit};

type Rows = BTreeMap<Vec<u8>, Bytes>;

/// Keeps what is synced apart from what is only written. The rows outlive every handle held by a simulated node:
/// whoever holds a clone can cut the power and hand the disk to the node's next life.
#[derive(Debug, Clone, Default)]
pub struct MemoryDisk(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    synced: Rows,
    /// Batches since the last sync, in order.
    unsynced: Vec<Batch>,
    /// What readers see: `synced` with `unsynced` on top.
    current: Rows,
    syncs: u64,
}

impl MemoryDisk {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every change below is complete before the guard goes, so a panic elsewhere leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cuts the power: of the batches written since the last sync only the first `survivors` are still there.
    pub fn cut_power(&self, survivors: usize) {
        let mut inner = self.lock();
        let unsynced = std::mem::take(&mut inner.unsynced);
        let mut rows = inner.synced.clone();
        for batch in unsynced.iter().take(survivors) {
            apply(&mut rows, batch);
        }
        inner.current = rows.clone();
        inner.synced = rows;
    }

    /// How many batches are written but not synced.
    pub fn unsynced_batches(&self) -> usize {
        self.lock().unsynced.len()
    }

    /// How often it was synced.
    pub fn syncs(&self) -> u64 {
        self.lock().syncs
    }
}

fn apply(rows: &mut Rows, batch: &Batch) {
    for op in batch.ops() {
        match op {
            Op::Put { key, value } => drop(rows.insert(key.clone(), value.clone())),
            Op::Delete { key } => drop(rows.remove(key)),
            Op::DeleteRange(range) => rows.retain(|key, _| !range.contains(key)),
        }
    }
}

fn bounds(range: &KeyRange) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (Bound::Included(&range.from), Bound::Excluded(&range.to))
}

impl View for Rows {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Error> {
        Ok(BTreeMap::get(self, key).cloned())
    }

    fn scan(&self, range: &KeyRange, visit: &mut Visit<'_>) -> Result<(), Error> {
        if range.from < range.to {
            for (key, value) in self.range::<[u8], _>(bounds(range)) {
                if let ControlFlow::Break(()) = visit(key, value) {
                    break;
                }
            }
        }
        Ok(())
    }
}

impl View for MemoryDisk {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Error> {
        View::get(&self.lock().current, key)
    }

    fn scan(&self, range: &KeyRange, visit: &mut Visit<'_>) -> Result<(), Error> {
        self.lock().current.scan(range, visit)
    }
}

impl Disk for MemoryDisk {
    fn write(&self, batch: Batch) -> Result<(), Error> {
        let mut inner = self.lock();
        apply(&mut inner.current, &batch);
        inner.unsynced.push(batch);
        Ok(())
    }

    async fn sync(&self) -> Result<(), Error> {
        let mut inner = self.lock();
        let unsynced = std::mem::take(&mut inner.unsynced);
        for batch in &unsynced {
            apply(&mut inner.synced, batch);
        }
        inner.syncs += 1;
        Ok(())
    }

    fn last(&self, range: &KeyRange) -> Result<Option<(Vec<u8>, Bytes)>, Error> {
        if range.from >= range.to {
            return Ok(None);
        }
        Ok(self.lock().current.range::<[u8], _>(bounds(range)).next_back().map(|(k, v)| (k.clone(), v.clone())))
    }

    fn closed(&self) -> BoxFuture<'static, ()> {
        future::ready(()).boxed()
    }
}

impl StateDisk for MemoryDisk {
    type Held = MemoryHeld;
    type Frozen = MemoryFrozen;
    type Body = Bytes;
    type Incoming = BytesMut;

    const IMAGE_FORMAT: u32 = 2;

    fn read<R>(&self, reader: impl FnOnce(&dyn View) -> R) -> R {
        reader(&self.lock().current)
    }

    async fn make_durable(&self) -> Result<(), Error> {
        self.sync().await
    }

    async fn hold(&self) -> Result<MemoryHeld, Error> {
        Ok(MemoryHeld { rows: self.lock().current.clone() })
    }

    async fn freeze(&self, range: KeyRange, head: Vec<u8>) -> Result<(Option<Bytes>, MemoryFrozen), Error> {
        let inner = self.lock();
        let rows = inner.current.range::<[u8], _>(bounds(&range)).map(|(k, v)| (k.clone(), v.clone())).collect();
        Ok((inner.current.get(&head).cloned(), MemoryFrozen { rows }))
    }

    fn receive(&self) -> Result<BytesMut, Error> {
        Ok(BytesMut::new())
    }

    async fn install(&self, range: KeyRange, body: Bytes) -> Result<(), Error> {
        let mut batch = Batch::default();
        batch.delete_range(range);
        let mut rest = body;
        while !rest.is_empty() {
            let key = take(&mut rest)?;
            let value = take(&mut rest)?;
            batch.put(key.to_vec(), value);
        }
        self.write(batch)?;
        self.sync().await
    }
}

fn take(rest: &mut Bytes) -> Result<Bytes, Error> {
    let short = || Error::damaged("an image ends in the middle of a row");
    let Some(length) = rest.first_chunk::<4>() else { return Err(short()) };
    let length = u32::from_be_bytes(*length) as usize;
    if rest.len() < 4 + length {
        return Err(short());
    }
    let _ = rest.split_to(4);
    Ok(rest.split_to(length))
}

/// All rows as they were.
#[derive(Debug)]
pub struct MemoryHeld {
    rows: Rows,
}

impl HeldRows for MemoryHeld {
    // At once: a simulation repeats it exactly, and has no rows for which that would take long.
    async fn read<R: Send + 'static>(&self, job: impl FnOnce(&dyn View) -> R + Send + 'static) -> Result<R, Error> {
        Ok(job(&self.rows))
    }
}

/// The rows of a range as they were.
#[derive(Debug)]
pub struct MemoryFrozen {
    rows: Rows,
}

impl FrozenRows for MemoryFrozen {
    type Body = Bytes;

    async fn build(mut self, replace: (Vec<u8>, Bytes)) -> Result<Bytes, Error> {
        self.rows.insert(replace.0, replace.1);
        let mut image = BytesMut::new();
        for (key, value) in &self.rows {
            for part in [key.as_slice(), value] {
                image.put_u32(part.len() as u32);
                image.put_slice(part);
            }
        }
        Ok(image.freeze())
    }
}

impl ImageBody for Bytes {
    fn len_bytes(&self) -> u64 {
        self.len() as u64
    }

    fn xxh3(&self) -> u128 {
        xxh3_128(self)
    }

    fn read_at(&self, offset: u64, max_bytes: usize) -> Result<Bytes, Error> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.len());
        Ok(self.slice(from..from.saturating_add(max_bytes).min(self.len())))
    }
}

impl ImageWriter for BytesMut {
    type Body = Bytes;

    fn append(&mut self, piece: &[u8]) -> Result<(), Error> {
        self.put_slice(piece);
        Ok(())
    }

    fn finish(self) -> Result<Bytes, Error> {
        Ok(self.freeze())
    }
}
