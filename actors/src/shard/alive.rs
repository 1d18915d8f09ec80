//! The executions of a shard that are awake.
//!
//! ```text
//!   busy ──nothing waits──▶ resting, oldest first ──too many, too big, or for too long──▶ asleep: rows on disk only
//!     ▲                         │
//!     └──────an ask─────────────┘
//! ```

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ractor::{ActorId, ActorRef};

use crate::execution::Msg;

/// Sweeps that an execution rests through before it goes to sleep.
const SWEEPS: u64 = 5;

#[derive(Debug)]
struct Awake {
    actor: ActorRef<Msg>,
    sent: u64,
    handled: u64,
    bytes: usize,
    /// Its place among those that rest.
    resting: Option<u64>,
}

/// The executions that are awake.
#[derive(Debug, Default)]
pub(crate) struct Alive {
    awake: HashMap<Arc<str>, Awake>,
    ids: HashMap<ActorId, Arc<str>>,
    /// Those that rest, by when they began to, and in which sweep.
    resting: BTreeMap<u64, (u64, Arc<str>)>,
    bytes: usize,
    next: u64,
    sweeps: u64,
}

impl Alive {
    pub(crate) fn contains(&self, id: &str) -> bool {
        self.awake.contains_key(id)
    }

    pub(crate) fn len(&self) -> usize {
        self.awake.len()
    }

    pub(crate) fn insert(&mut self, id: Arc<str>, actor: ActorRef<Msg>) {
        self.ids.insert(actor.get_id(), Arc::clone(&id));
        self.awake.insert(id, Awake { actor, sent: 0, handled: 0, bytes: 0, resting: None });
    }

    /// How many asks an execution has not done yet.
    pub(crate) fn waiting(&self, id: &str) -> u64 {
        self.awake.get(id).map_or(0, |awake| awake.sent - awake.handled)
    }

    pub(crate) fn send(&mut self, id: &str, msg: Msg) {
        let Some(awake) = self.awake.get_mut(id) else { return };
        awake.sent += 1;
        if let Some(place) = awake.resting.take() {
            self.resting.remove(&place);
        }
        // It is a child of this shard and is removed here before it stops, unless it has failed: then its reply is
        // dropped, and the caller learns that the outcome is unknown.
        let _ = awake.actor.cast(msg);
    }

    /// An execution says that nothing waits. It may be wrong by now.
    pub(crate) fn rests(&mut self, id: &Arc<str>, handled: u64, bytes: usize, sleepy: bool) {
        let Some(awake) = self.awake.get_mut(id) else { return };
        awake.handled = awake.handled.max(handled);
        self.bytes = self.bytes + bytes - awake.bytes;
        awake.bytes = bytes;
        if awake.sent != awake.handled {
            return;
        }
        if sleepy {
            return self.sleep(id);
        }
        if awake.resting.is_none() {
            self.next += 1;
            awake.resting = Some(self.next);
            self.resting.insert(self.next, (self.sweeps, Arc::clone(id)));
        }
    }

    /// Lets the oldest that rest sleep until there are few enough.
    pub(crate) fn shrink(&mut self, count_max: usize, bytes_max: usize) {
        while self.awake.len() > count_max || self.bytes > bytes_max {
            let Some((_, (_, id))) = self.resting.first_key_value() else { return };
            let id = Arc::clone(id);
            self.sleep(&id);
        }
    }

    /// Lets those sleep that have rested for long.
    pub(crate) fn sweep(&mut self) {
        self.sweeps += 1;
        while let Some((_, (since, id))) = self.resting.first_key_value() {
            if self.sweeps - since < SWEEPS {
                return;
            }
            let id = Arc::clone(id);
            self.sleep(&id);
        }
    }

    fn sleep(&mut self, id: &str) {
        if let Some(awake) = self.remove(id) {
            awake.actor.stop(None);
        }
    }

    fn remove(&mut self, id: &str) -> Option<Awake> {
        let awake = self.awake.remove(id)?;
        self.ids.remove(&awake.actor.get_id());
        self.bytes -= awake.bytes;
        if let Some(place) = awake.resting {
            self.resting.remove(&place);
        }
        Some(awake)
    }

    /// Forgets an execution that has failed.
    pub(crate) fn remove_failed(&mut self, actor: &ActorId) -> Option<Arc<str>> {
        let id = self.ids.get(actor).cloned()?;
        self.remove(&id);
        Some(id)
    }

    /// Stops all.
    pub(crate) fn stop_all(&mut self) {
        for awake in std::mem::take(self).awake.into_values() {
            awake.actor.stop(None);
        }
    }
}
