//! What is worth a line of the log, once and not for every packet.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The same is said again after this.
const AGAIN_AFTER: Duration = Duration::from_secs(60);
/// How many different things are remembered. A peer that sends ever new nonsense is passed over beyond them.
const REMEMBERED_MAX: usize = 64;

/// What was said lately, and when.
#[derive(Debug, Default)]
pub(super) struct Told(Mutex<BTreeMap<String, Duration>>);

impl Told {
    /// Whether it should be said. `now`: a clock that never goes back.
    pub(super) fn is_news(&self, what: &str, now: Duration) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.retain(|_, at| now.saturating_sub(*at) < AGAIN_AFTER);
        if told.contains_key(what) || told.len() >= REMEMBERED_MAX {
            return false;
        }
        told.insert(what.to_owned(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_said_once_a_minute_and_nonsense_is_bounded() {
        let (told, second) = (Told::default(), Duration::from_secs(1));
        assert!(told.is_news("a", second));
        assert!(!told.is_news("a", second * 2));
        assert!(told.is_news("b", second * 2));
        assert!(told.is_news("a", second * 62));
        let news = (0..1_000).filter(|n| told.is_news(&format!("{n}"), second * 63)).count();
        assert!(news < REMEMBERED_MAX, "{news}");
        assert!(told.is_news("later", second * 200));
    }
}
