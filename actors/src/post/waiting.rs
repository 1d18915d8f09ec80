//! For which slots something waits in the outbox of a shard.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

/// Slots whose messages have not been looked at since something came. Bounded by the number of slots.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    slots: Mutex<BTreeSet<u16>>,
    more: Notify,
}

impl Waiting {
    /// Something came for these.
    pub(crate) fn add(&self, slots: impl IntoIterator<Item = u16>) {
        let mut waiting = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let before = waiting.len();
        waiting.extend(slots);
        if waiting.len() > before {
            self.more.notify_one();
        }
    }

    /// All slots to look at.
    pub(crate) fn take(&self) -> BTreeSet<u16> {
        std::mem::take(&mut *self.slots.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until something has come.
    pub(crate) async fn more(&self) {
        self.more.notified().await;
    }
}
