//! Callers that wait for the end of an execution.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

type Waiting = HashMap<Arc<str>, Vec<(u64, oneshot::Sender<()>)>>;

/// Who waits for which execution. Bounded by the calls that are open.
#[derive(Debug, Default)]
pub(crate) struct Waiters(Mutex<(u64, Waiting)>);

/// One who waits; dropping it stops waiting.
#[derive(Debug)]
pub(crate) struct Waiter<'a> {
    of: &'a Waiters,
    id: Arc<str>,
    number: u64,
    woken: oneshot::Receiver<()>,
}

impl Waiters {
    fn with<R>(&self, act: impl FnOnce(&mut (u64, Waiting)) -> R) -> R {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Begins to wait; the state is to be looked at after this.
    pub(crate) fn wait(&self, id: &Arc<str>) -> Waiter<'_> {
        let (wake, woken) = oneshot::channel();
        let number = self.with(|(next, waiting)| {
            *next += 1;
            waiting.entry(Arc::clone(id)).or_default().push((*next, wake));
            *next
        });
        Waiter { of: self, id: Arc::clone(id), number, woken }
    }

    /// Wakes all who wait for an execution.
    pub(crate) fn wake(&self, id: &str) {
        for (_, wake) in self.with(|(_, waiting)| waiting.remove(id)).unwrap_or_default() {
            // Who no longer waits does not need to know.
            let _ = wake.send(());
        }
    }

    /// Wakes everybody: this node no longer knows.
    pub(crate) fn wake_all(&self) {
        let all = self.with(|(_, waiting)| std::mem::take(waiting));
        for (_, wake) in all.into_values().flatten() {
            let _ = wake.send(());
        }
    }
}

impl Waiter<'_> {
    /// Waits until it is woken.
    pub(crate) async fn woken(&mut self) {
        // Whoever drops the other end has woken as well.
        let _ = (&mut self.woken).await;
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.of.with(|(_, waiting)| {
            if let Some(all) = waiting.get_mut(&self.id) {
                all.retain(|(number, _)| *number != self.number);
                if all.is_empty() {
                    waiting.remove(&self.id);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn everybody_is_woken_and_nobody_is_left_behind() {
        let waiters = Waiters::default();
        let id: Arc<str> = Arc::from("x");
        let (mut one, two) = (waiters.wait(&id), waiters.wait(&id));
        drop(two);
        waiters.wake("x");
        one.woken().await;
        drop(one);
        assert!(waiters.with(|(_, waiting)| waiting.is_empty()));
    }
}
