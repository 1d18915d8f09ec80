//! When a call is made again.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// The first pause; each further one is twice as long.
const FIRST: Duration = Duration::from_millis(50);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(2);

/// Pauses between tries, up to a deadline if there is one.
#[derive(Debug)]
pub(crate) struct Patience {
    until: Option<Instant>,
    next: Duration,
}

impl Patience {
    /// For as long as this.
    pub(crate) fn new(until: Instant) -> Self {
        Self { until: Some(until), next: FIRST }
    }

    /// For ever.
    pub(crate) fn endless() -> Self {
        Self { until: None, next: FIRST }
    }

    /// Waits before the next try, at least as long as was asked for; false when there is no time for one.
    pub(crate) async fn wait(&mut self, at_least: Option<Duration>) -> bool {
        let pause = self.next.max(at_least.unwrap_or_default().min(LONGEST));
        if self.until.is_some_and(|until| Instant::now() + pause > until) {
            return false;
        }
        self.next = (self.next * 2).min(LONGEST);
        sleep(pause).await;
        true
    }
}
