//! Trying again (L3).

use super::{Walk, Walked, next};
use crate::definition::Retry;
use crate::event::{RetryScheduled, TaskError};
use crate::key::{self, Key};
use crate::value::{Payload, Value};

/// Attempts of a task, and of anything whose `retry` leaves out their number.
const ATTEMPTS: u32 = 3;
const INITIAL_DELAY_MS: f64 = 1_000.0;
const MAX_DELAY_MS: f64 = 60_000.0;
const MULTIPLIER: f64 = 2.0;
const JITTER: f64 = 0.1;
/// A server that asks for more patience than this is asked again all the same.
const RETRY_AFTER_MS_MAX: u64 = 3_600_000;

impl Walk<'_> {
    /// Schedules the next attempt of unit `key`, if its error and its budget allow one.
    pub(super) fn retry(&mut self, key: &Key, error: &TaskError, retry: Option<&Retry>, is_task: bool) -> Walked {
        let Some(unit) = self.unit(key) else { return Ok(()) };
        let attempts = match retry {
            Some(retry) => retry.max_attempts.unwrap_or(ATTEMPTS),
            None if is_task => ATTEMPTS,
            None => 1,
        };
        let used = unit.attempt.saturating_sub(unit.base);
        let excluded = retry.is_some_and(|retry| retry.non_retryable.contains(&error.code));
        if !error.retryable || excluded || used >= attempts {
            return Ok(());
        }
        let delay_ms = match self.retry_delay(key, retry, used, unit.attempt) {
            Ok(delay_ms) => delay_ms.max(retry_after_ms(error)),
            Err(fault) => return self.unit_fails(key, &fault),
        };
        next(RetryScheduled {
            step: key.clone(),
            next_attempt: unit.attempt + 1,
            delay_ms,
            fire_at_ms: self.now_ms.saturating_add(delay_ms),
        })
    }

    /// The delay starts at `initial_delay`, is multiplied once per further attempt of the budget, cut at `max_delay`
    /// each time, then varied; rounded down to ms.
    fn retry_delay(&self, key: &Key, retry: Option<&Retry>, used: u32, attempt: u32) -> Result<u64, TaskError> {
        let scope = self.scope(key.strip_prefix(key::COMPENSATE).unwrap_or(key));
        let ms = |spec: Option<&crate::definition::DurationSpec>, default: f64| match spec {
            Some(spec) => self.duration(spec, &scope).map(|ms| ms as f64),
            None => Ok(default),
        };
        let mut delay = ms(retry.and_then(|retry| retry.initial_delay.as_ref()), INITIAL_DELAY_MS)?;
        let cap = ms(retry.and_then(|retry| retry.max_delay.as_ref()), MAX_DELAY_MS)?;
        let multiplier = retry.and_then(|retry| retry.multiplier).unwrap_or(MULTIPLIER);
        for _ in 1..used {
            delay = (delay * multiplier).min(cap);
        }
        let jitter = retry.and_then(|retry| retry.jitter).unwrap_or(JITTER);
        let u = key::jitter(self.execution_id, self.state.head.run, key, attempt);
        Ok((delay.min(cap) * (1.0 + jitter * u)) as u64)
    }
}

/// How long a server asked not to be asked again (L13: `Retry-After` honoured), 0 if it did not. The node that heard it
/// put it into the details of the error, so the delay follows from the recorded event alone. No worker can give this
/// code.
fn retry_after_ms(error: &TaskError) -> u64 {
    let details = error.details.as_ref().filter(|_| error.code == "HTTP_ERROR").map(Payload::value);
    let asked = details.as_ref().and_then(|details| details.get("retry_after_ms")).and_then(Value::as_i64);
    asked.and_then(|ms| u64::try_from(ms).ok()).unwrap_or(0).min(RETRY_AFTER_MS_MAX)
}
