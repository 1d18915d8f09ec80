//! What the participants of a run were told, kept outside of what is tested.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Mutex, MutexGuard};

use orbit_cluster_tests::ledger::Ledger;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::lock;

/// One for all workers and callers of a run.
#[derive(Debug)]
pub struct Notebook {
    ledger: Mutex<Ledger>,
    accepted: Mutex<Vec<(Instant, String)>>,
    surprises: Mutex<Vec<String>>,
    /// Refusals by code, and other things that may happen: how often.
    refused: Mutex<BTreeMap<String, u64>>,
    /// Open streams of workers.
    pub streams: watch::Sender<usize>,
    /// Acknowledgements of any kind.
    pub acks: watch::Sender<u64>,
    /// Results that were sent and had no answer when the node was lost.
    pub unanswered: AtomicUsize,
    /// Drain notices heard.
    pub drained: AtomicUsize,
}

impl Default for Notebook {
    fn default() -> Self {
        Self {
            ledger: Mutex::default(),
            accepted: Mutex::default(),
            surprises: Mutex::default(),
            refused: Mutex::default(),
            streams: watch::Sender::new(0),
            acks: watch::Sender::new(0),
            unanswered: AtomicUsize::new(0),
            drained: AtomicUsize::new(0),
        }
    }
}

impl Notebook {
    /// Starts, hand-overs, results: what the checkers compare with the histories.
    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        lock(&self.ledger)
    }

    /// Tokens whose results were accepted, in the order in which workers were told so, and when.
    pub fn accepted(&self) -> MutexGuard<'_, Vec<(Instant, String)>> {
        lock(&self.accepted)
    }

    /// Notes what nobody should ever be told; a run fails for it.
    pub fn surprise(&self, what: impl Into<String>) {
        lock(&self.surprises).push(what.into());
    }

    /// All surprises so far.
    #[must_use]
    pub fn surprises(&self) -> Vec<String> {
        lock(&self.surprises).clone()
    }

    /// Notes that something was acknowledged.
    pub fn acknowledged(&self) {
        self.acks.send_modify(|acks| *acks += 1);
    }

    /// Notes a refusal.
    pub fn refused(&self, code: &str) {
        *lock(&self.refused).entry(code.to_owned()).or_default() += 1;
    }

    /// All refusals so far.
    #[must_use]
    pub fn refusals(&self) -> BTreeMap<String, u64> {
        lock(&self.refused).clone()
    }

    /// Waits until so many more acknowledgements have come.
    pub async fn progress(&self, more: u64) {
        let mut acks = self.acks.subscribe();
        let goal = acks.borrow().saturating_add(more);
        // The sender lives as long as this notebook.
        let _ = acks.wait_for(|acks| *acks >= goal).await;
    }
}
