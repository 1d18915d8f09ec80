//! A unary poll: as many slots as tasks were asked for, while it waits.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::Desk;
use super::delivery::{Look, Patience};
use super::session::OutletId;
use crate::api::Task;

/// For so long an answer that holds a task waits for others whose slots are reserved: their commits are under way.
/// What comes later is taken back.
const GATHER: Duration = Duration::from_millis(50);

/// A poll that waits. Dropped, its slots are gone, and what went into it and was not handed out is taken back.
#[derive(Debug)]
pub(crate) struct Poll {
    desk: Desk,
    outlet: OutletId,
    wake: Arc<Notify>,
}

impl Poll {
    pub(super) fn new(desk: Desk, outlet: OutletId, wake: Arc<Notify>) -> Self {
        Self { desk, outlet, wake }
    }

    /// The tasks, as soon as there are any; none once the deadline is over or the session has ended. A slot that is
    /// reserved at that moment is waited for, so an empty answer means that nothing is on its way. Answers once: after
    /// that it holds no slots. May be dropped and called again.
    pub(crate) async fn next(&mut self, deadline: Instant) -> Vec<Task> {
        let mut goes_at = None;
        loop {
            let now = Instant::now();
            let patience = match goes_at {
                Some(at) if now >= at => Patience::Goes,
                _ if now >= deadline => Patience::Ends,
                _ => Patience::Waits,
            };
            let until = match self.desk.with(|state| state.look(self.outlet, patience, now)) {
                Look::Done(tasks) => return tasks,
                Look::Nothing => Some(deadline),
                Look::Settling { tasks: true } => Some(*goes_at.get_or_insert(now + GATHER)),
                Look::Settling { tasks: false } => None,
            };
            match until {
                // Woken or not, it looks again.
                Some(until) => drop(timeout_at(until, self.wake.notified()).await),
                None => self.wake.notified().await,
            }
        }
    }
}

impl Drop for Poll {
    fn drop(&mut self) {
        self.desk.with(|state| state.close_outlet(self.outlet));
    }
}
