//! What is due: rows ordered by time, read a little at a time.
//!
//! Only the next moment is kept in memory; ten million timers that sleep cost disk. A cursor goes over the rows as time
//! goes by, so that each is taken once. What is armed behind the cursor is due already, or nearly, and is kept by hand.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use orbit_raft::{Environment, Group};
use ractor::ActorRef;
use tokio::sync::{Notify, Semaphore};

use super::{Context, ShardMsg};
use crate::execution::What;
use crate::table::{self, Timer};

/// How many rows are read at a time, and how many due timers may be under way.
const AT_ONCE: usize = 512;
/// The longest sleep, after which the time of the log is looked at again whatever happens.
const LONGEST: Duration = Duration::from_secs(60);

/// The timers of a shard.
#[derive(Debug)]
pub(crate) struct Timers {
    armed: Mutex<Armed>,
    changed: Notify,
    places: Arc<Semaphore>,
}

impl Default for Timers {
    fn default() -> Self {
        Self { armed: Mutex::default(), changed: Notify::new(), places: Arc::new(Semaphore::new(AT_ONCE)) }
    }
}

#[derive(Debug, Default)]
struct Armed {
    /// All rows below this key are taken; `None`: none is.
    cursor: Option<Vec<u8>>,
    /// Armed behind the cursor. Bounded by what commits arm within a moment.
    behind: BTreeSet<Timer>,
    /// The due time of the first row in front of the cursor, if there is one and it is known.
    next_ms: Option<u64>,
}

impl Timers {
    fn with<R>(&self, act: impl FnOnce(&mut Armed) -> R) -> R {
        act(&mut self.armed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A timer has been written.
    pub(crate) fn arm(&self, timer: Timer) {
        let wake = self.with(|armed| {
            let known = armed.behind.first().map(|timer| timer.due_ms).min(armed.next_ms).or(armed.next_ms);
            let due_ms = timer.due_ms;
            if armed.cursor.as_ref().is_some_and(|cursor| timer.key() < *cursor) {
                armed.behind.insert(timer);
                return true;
            }
            if armed.next_ms.is_none_or(|next| due_ms < next) {
                armed.next_ms = Some(due_ms);
            }
            known.is_none_or(|known| due_ms < known)
        });
        if wake {
            self.changed.notify_one();
        }
    }

    /// Begins anew: everything that is due by what is stored is taken again.
    pub(crate) fn restart(&self) {
        self.with(|armed| *armed = Armed { next_ms: Some(0), ..Armed::default() });
        self.changed.notify_one();
    }

    /// Something else is watched from now on.
    pub(crate) fn look_again(&self) {
        self.changed.notify_one();
    }

    /// Timers that are due now, at most so many.
    fn take_due<E: Environment>(&self, group: &Group<E>, now_ms: u64, limit: usize) -> Vec<Timer> {
        let cursor = self.with(|armed| armed.next_ms.filter(|next| *next <= now_ms).map(|_| armed.cursor.clone()));
        let mut due = Vec::new();
        if let Some(cursor) = cursor {
            due = self.read_due(group, cursor, now_ms, limit);
        }
        self.with(|armed| {
            while due.len() < limit && armed.behind.first().is_some_and(|timer| timer.due_ms <= now_ms) {
                due.extend(armed.behind.pop_first());
            }
        });
        due
    }

    fn read_due<E: Environment>(
        &self,
        group: &Group<E>,
        cursor: Option<Vec<u8>>,
        now_ms: u64,
        limit: usize,
    ) -> Vec<Timer> {
        let mut range = table::all_timers();
        if let Some(cursor) = cursor {
            range.from = cursor;
        }
        // One row more than is due says when to look again. Whatever is armed meanwhile lies behind the new cursor or
        // brings the next moment forward.
        let rows = self.with(|armed| {
            let rows = group.read(|reader| reader.range(&range, limit + 1)).unwrap_or_else(|error| {
                tracing::error!(%error, "timers cannot be read");
                Vec::new()
            });
            let upto = table::due(None, now_ms);
            let (taken, rest): (Vec<_>, Vec<_>) =
                rows.into_iter().take(limit + 1).partition(|(key, _)| key[..] < upto.to[..]);
            let (taken, rest) = if taken.len() > limit {
                let mut taken = taken;
                let first = taken.split_off(limit);
                (taken, first)
            } else {
                (taken, rest)
            };
            if let Some((last, _)) = taken.last() {
                armed.cursor = Some([last, &[0][..]].concat());
            }
            armed.next_ms = rest.first().and_then(|(key, _)| Timer::from_key(key)).map(|timer| timer.due_ms);
            taken
        });
        rows.iter().filter_map(|(key, _)| Timer::from_key(key)).collect()
    }

    fn next_ms(&self) -> Option<u64> {
        self.with(|armed| {
            let behind = armed.behind.first().map(|timer| timer.due_ms);
            behind.into_iter().chain(armed.next_ms).min()
        })
    }
}

/// Tells the shard of everything that is due, until it is stopped.
pub(crate) async fn run<E: Environment>(context: Arc<Context<E>>, shard: ActorRef<ShardMsg>) {
    let timers = &context.timers;
    loop {
        // What is due stays due.
        context.until_writable().await;
        let now_ms = context.group.now_ms();
        let places = timers.places.available_permits();
        for timer in timers.take_due(&context.group, now_ms, places) {
            let Ok(permit) = Arc::clone(&timers.places).acquire_owned().await else { return };
            let id = Arc::clone(&timer.unit.execution_id);
            if shard.cast(ShardMsg::ask(id, What::Due(timer), Some(permit))).is_err() {
                return;
            }
        }
        for token in context.silence.take_due(now_ms) {
            let id = Arc::from(token.execution_id.as_str());
            if shard.cast(ShardMsg::ask(id, What::Silent(token), None)).is_err() {
                return;
            }
        }
        let next_ms = timers.next_ms().into_iter().chain(context.silence.next_ms()).min();
        let sleep = next_ms.map_or(LONGEST, |next| Duration::from_millis(next.saturating_sub(context.group.now_ms())));
        if sleep.is_zero() {
            // Due and no place for it: waits until something that is under way has come through.
            if timers.places.available_permits() == 0 && timers.places.acquire().await.is_err() {
                return;
            }
            continue;
        }
        // Whichever comes first; a change that came in meanwhile is remembered.
        let _ = tokio::time::timeout(sleep.min(LONGEST), timers.changed.notified()).await;
    }
}
