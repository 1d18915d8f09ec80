//! Tasks whose workers must show signs of life.
//!
//! Known to the leader alone: after a change of leaders each such task gets its whole time anew.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use workflow::command::Token;

/// Hand-overs that are watched for silence.
#[derive(Debug, Default)]
pub(crate) struct Silence(Mutex<Watched>);

#[derive(Debug, Default)]
struct Watched {
    by_token: HashMap<String, (u64, u64, Token)>,
    by_time: BTreeSet<(u64, String)>,
}

impl Watched {
    fn set(&mut self, token: &Token, limit_ms: u64, now_ms: u64) {
        let (text, due_ms) = (token.to_string(), now_ms.saturating_add(limit_ms));
        self.by_time.insert((due_ms, text.clone()));
        self.by_token.insert(text, (due_ms, limit_ms, token.clone()));
    }

    fn remove(&mut self, text: &str) -> Option<(u64, Token)> {
        let (due_ms, limit_ms, token) = self.by_token.remove(text)?;
        self.by_time.remove(&(due_ms, text.to_owned()));
        Some((limit_ms, token))
    }
}

impl Silence {
    fn with<R>(&self, act: impl FnOnce(&mut Watched) -> R) -> R {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Watches a hand-over from now on.
    pub(crate) fn watch(&self, token: &Token, limit_ms: u64, now_ms: u64) {
        self.with(|watched| watched.set(token, limit_ms, now_ms));
    }

    /// A sign of life.
    pub(crate) fn heard(&self, token: &Token, now_ms: u64) {
        self.with(|watched| {
            if let Some((limit_ms, token)) = watched.remove(&token.to_string()) {
                watched.set(&token, limit_ms, now_ms);
            }
        });
    }

    /// Watches it no longer.
    pub(crate) fn forget(&self, token: &Token) {
        self.with(|watched| watched.remove(&token.to_string()));
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        self.with(|watched| *watched = Watched::default());
    }

    /// Takes those out that have been silent for too long.
    pub(crate) fn take_due(&self, now_ms: u64) -> Vec<Token> {
        self.with(|watched| {
            let mut due = Vec::new();
            while let Some((_, text)) = watched.by_time.first().cloned().filter(|(at_ms, _)| *at_ms <= now_ms) {
                due.extend(watched.remove(&text).map(|(_, token)| token));
            }
            due
        })
    }

    /// When the next one will have been silent for too long.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        self.with(|watched| watched.by_time.first().map(|(at_ms, _)| *at_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(seq: u64) -> Token {
        Token { execution_id: "x".to_owned(), run: 1, seq, nonce: [0; 8] }
    }

    #[test]
    fn a_sign_of_life_gives_the_whole_time_anew() {
        let silence = Silence::default();
        silence.watch(&token(1), 100, 0);
        silence.watch(&token(2), 100, 0);
        silence.heard(&token(1), 60);
        assert_eq!(silence.take_due(100), [token(2)]);
        assert_eq!(silence.next_ms(), Some(160));
        silence.forget(&token(1));
        assert_eq!((silence.next_ms(), silence.take_due(1_000)), (None, vec![]));
    }
}
