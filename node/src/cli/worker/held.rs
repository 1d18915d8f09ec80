//! What a worker has taken and not been answered for.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

/// Tokens, each with the way to stop what runs for it.
#[derive(Debug, Default)]
pub(super) struct Held {
    tokens: Mutex<BTreeMap<String, CancellationToken>>,
    /// The worker itself ends.
    ending: AtomicBool,
}

impl Held {
    /// From now on it is listed. None when it is held already: a hand-over that arrived twice is carried out once.
    pub(super) fn add(&self, token: &str) -> Option<CancellationToken> {
        let mut held = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if held.contains_key(token) {
            return None;
        }
        let stop = CancellationToken::new();
        held.insert(token.to_owned(), stop.clone());
        Some(stop)
    }

    /// It has been answered for.
    pub(super) fn remove(&self, token: &str) {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner).remove(token);
    }

    /// All tokens.
    pub(super) fn list(&self) -> Vec<String> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// Stops what runs for these.
    pub(super) fn cancel(&self, tokens: &[String]) {
        let held = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.iter().filter_map(|token| held.get(token)).for_each(CancellationToken::cancel);
    }

    /// Stops everything, because the worker ends: others will do what it held.
    pub(super) fn cancel_all(&self) {
        self.ending.store(true, Ordering::SeqCst);
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner).values().for_each(CancellationToken::cancel);
    }

    /// Whether the worker ends.
    pub(super) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::SeqCst)
    }
}
