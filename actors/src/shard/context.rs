//! What a shard and its executions share.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use orbit_raft::{Environment, Group};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::Instant;

use super::broken::Broken;
use super::silence::Silence;
use super::timers::Timers;
use super::waiters::Waiters;
use crate::condition::{Beginning, Conditions};
use crate::definitions::Definitions;
use crate::desk::{Desk, ShardId};
use crate::engine::Crew;
use crate::error::Result;
use crate::failure;
use crate::post::Waiting;

/// What a shard and its executions share.
pub(crate) struct Context<E: Environment> {
    /// Its number.
    pub(crate) shard: ShardId,
    /// How many shards there are.
    pub(crate) shards: u16,
    pub(crate) group: Group<E>,
    pub(crate) desk: Desk,
    pub(crate) definitions: Definitions<E>,
    /// The workers of all nodes.
    pub(crate) crew: Arc<Crew<E>>,
    pub(crate) timers: Timers,
    pub(crate) silence: Silence,
    /// Who waits for an end.
    pub(crate) waiters: Waiters,
    /// Who waits for any change.
    pub(crate) changes: Waiters,
    pub(crate) broken: Broken,
    /// Something waits in the outbox.
    pub(crate) outbox: Waiting,
    /// There is another batch.
    pub(crate) batches: Notify,
    pub(crate) dice: Dice,
    /// Longest output of a worker, bytes.
    pub(crate) output_bytes_max: usize,
    /// How long what is over is kept where the document does not say, ms.
    pub(crate) retention_ms: u64,
    /// Places for commands that wait.
    pub(crate) places: Arc<Semaphore>,
    conditions: Conditions,
    /// The disks of a quorum of its nodes are nearly used up.
    read_only: watch::Sender<bool>,
    alive: AtomicI64,
    removed: AtomicU64,
    long: AtomicU64,
    awake: AtomicU64,
}

/// How much, how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContextLimits {
    /// How long what is over is kept where the document does not say, ms.
    pub(crate) retention_ms: u64,
    /// Longest output of a worker, bytes.
    pub(crate) output_bytes_max: usize,
    /// Commands that wait.
    pub(crate) places: usize,
}

impl<E: Environment> fmt::Debug for Context<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("shard", &self.shard).finish_non_exhaustive()
    }
}

impl<E: Environment> Context<E> {
    pub(crate) fn new(
        (shard, shards): (ShardId, u16),
        group: Group<E>,
        desk: Desk,
        definitions: Definitions<E>,
        crew: Arc<Crew<E>>,
        dice: Dice,
        limits: ContextLimits,
    ) -> Self {
        let ContextLimits { retention_ms, output_bytes_max, places } = limits;
        let conditions = crew.conditions().clone();
        Self {
            shard,
            shards,
            group,
            desk,
            definitions,
            crew,
            timers: Timers::default(),
            silence: Silence::default(),
            waiters: Waiters::default(),
            changes: Waiters::default(),
            broken: Broken::default(),
            outbox: Waiting::default(),
            batches: Notify::new(),
            dice,
            retention_ms,
            output_bytes_max,
            places: Arc::new(Semaphore::new(places)),
            conditions,
            read_only: watch::Sender::new(false),
            alive: AtomicI64::new(0),
            removed: AtomicU64::new(0),
            long: AtomicU64::new(0),
            awake: AtomicU64::new(0),
        }
    }

    /// Whether it takes deletions only.
    pub(crate) fn is_read_only(&self) -> bool {
        *self.read_only.borrow()
    }

    /// Returns whether that is news.
    pub(crate) fn set_read_only(&self, read_only: bool) -> bool {
        self.read_only.send_if_modified(|known| std::mem::replace(known, read_only) != read_only)
    }

    /// Returns once it takes writes.
    pub(crate) async fn until_writable(&self) {
        // Its sender lives as long as this.
        let _ = self.read_only.subscribe().wait_for(|read_only| !read_only).await;
    }

    /// Whether an execution may begin here; refused otherwise, before anything is done.
    pub(crate) fn may_begin(&self) -> Result<()> {
        match self.conditions.beginning(|| self.group.status().voters, Instant::now()) {
            Beginning::Here => Ok(()),
            Beginning::Elsewhere => Err(failure::not_led()),
            Beginning::Nowhere => Err(failure::disk_full()),
        }
    }

    /// Executions begun less executions ended.
    pub(crate) fn count(&self, more: i64) {
        if more != 0 {
            self.alive.fetch_add(more, Ordering::Relaxed);
        }
    }

    /// A run was removed because its retention had passed.
    pub(crate) fn count_removed(&self) {
        self.removed.fetch_add(1, Ordering::Relaxed);
    }

    /// Runs that were removed since the node began.
    pub(crate) fn removed(&self) -> u64 {
        self.removed.load(Ordering::Relaxed)
    }

    /// A history has come to a fifth of its limit.
    pub(crate) fn count_long(&self) {
        self.long.fetch_add(1, Ordering::Relaxed);
    }

    /// Histories that came to a fifth of their limit since the node began.
    pub(crate) fn long(&self) -> u64 {
        self.long.load(Ordering::Relaxed)
    }

    /// Counts anew.
    pub(crate) fn recount(&self, alive: u64) {
        self.alive.store(i64::try_from(alive).unwrap_or(i64::MAX), Ordering::Relaxed);
    }

    /// So many executions are in memory now.
    pub(crate) fn set_awake(&self, awake: usize) {
        self.awake.store(awake as u64, Ordering::Relaxed);
    }

    /// Executions in memory.
    pub(crate) fn awake(&self) -> u64 {
        self.awake.load(Ordering::Relaxed)
    }

    /// Executions that are not over, if this node leads.
    pub(crate) fn alive(&self) -> u64 {
        u64::try_from(self.alive.load(Ordering::Relaxed)).unwrap_or(0)
    }
}

/// Where the random parts of tokens and ids come from. A simulation brings its own.
#[derive(Clone, Copy, Debug)]
pub struct Dice(pub fn() -> [u8; 16]);

impl Default for Dice {
    fn default() -> Self {
        Self(|| *uuid::Uuid::new_v4().as_bytes())
    }
}

impl Dice {
    /// The random part of a token.
    pub(crate) fn eight_bytes(&self) -> [u8; 8] {
        // A version 4 UUID has six fixed bits; hashing spreads the other 122 over the eight bytes.
        xxhash_rust::xxh3::xxh3_64(&(self.0)()).to_be_bytes()
    }
}
