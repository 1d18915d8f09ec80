//! Executions that met an internal error. Each is stopped alone; the next leader tries again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// How many are remembered. One that is not is tried again with the next ask.
const MAX: usize = 1_000;

/// Which executions of a shard are not decided any more, and why.
#[derive(Debug, Default)]
pub(crate) struct Broken(Mutex<HashMap<Arc<str>, String>>);

impl Broken {
    fn with<R>(&self, act: impl FnOnce(&mut HashMap<Arc<str>, String>) -> R) -> R {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Remembers one.
    pub(crate) fn insert(&self, id: Arc<str>, why: String) {
        self.with(|broken| {
            if broken.len() < MAX {
                broken.insert(id, why);
            }
        });
    }

    /// Why an execution is not decided any more, for people.
    pub(crate) fn message(&self, id: &str) -> Option<String> {
        self.with(|broken| broken.get(id).cloned()).map(|why| {
            format!(
                "the execution met an internal error and is not decided any more until its shard has another leader \
                 or the node starts again: {why}"
            )
        })
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.with(|broken| broken.len())
    }

    /// Forgets all: this node no longer decides.
    pub(crate) fn clear(&self) {
        self.with(HashMap::clear);
    }
}
