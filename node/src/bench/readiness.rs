//! How long a task that could be done waited for a worker.
//!
//! From the time of its `StepScheduled` in the history to the moment when its message was read by the worker, both by
//! this machine's wall clock. The history has whole milliseconds, so a figure may be up to 1 ms too long, and for a
//! node on another machine it is worth as much as the clocks agree. Deciding, committing and sending are all in it;
//! with a free slot the hand-over is part of the commit that made the task ready.
//!
//! Of those that begin while measuring, the first and then every twentieth is looked at: its id says so, and its
//! history is read after the measurement.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use orbit_proto::worker::Task;
use serde_json::Value;

use super::connection::Caller;
use super::report::{Spread, histogram};
use super::{Error, number};

/// One execution of so many is looked at.
const EVERY: u64 = 20;
/// Receipts that are kept.
const RECEIPTS_MAX: usize = 20_000;
/// Executions whose history is read.
const HISTORIES_MAX: usize = 500;
/// How the id of an execution ends that is looked at.
const MARK: &str = "-m";

/// A unit, its attempt, and when it arrived, µs since 1970.
type Receipt = (String, u32, u64);

/// When tasks arrived, by execution.
pub(super) struct Receipts {
    /// Tells this run of the bench from others.
    prefix: String,
    /// Executions that began while measuring.
    measured: AtomicU64,
    arrived: Mutex<HashMap<String, Vec<Receipt>>>,
}

impl Receipts {
    pub(super) fn new(prefix: String) -> Self {
        Self { prefix, measured: AtomicU64::new(0), arrived: Mutex::default() }
    }

    /// The id of an execution.
    pub(super) fn id(&self, number: u64, measuring: bool) -> String {
        let marked = measuring && self.measured.fetch_add(1, Ordering::Relaxed).is_multiple_of(EVERY);
        let mark = if marked { MARK } else { "" };
        format!("{}-{number}{mark}", self.prefix)
    }

    /// A task arrived.
    pub(super) fn note(&self, task: &Task) {
        if !task.execution_id.ends_with(MARK) {
            return;
        }
        let mut arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        let known = arrived.contains_key(&task.execution_id);
        if (known || arrived.len() < HISTORIES_MAX) && arrived.values().map(Vec::len).sum::<usize>() < RECEIPTS_MAX {
            let receipt = (task.step_id.clone(), task.attempt, wall_us());
            arrived.entry(task.execution_id.clone()).or_default().push(receipt);
        }
    }

    /// Reads the histories and compares.
    pub(super) async fn compare(&self, caller: &mut Caller) -> Result<Spread, Error> {
        let arrived = std::mem::take(&mut *self.arrived.lock().unwrap_or_else(PoisonError::into_inner));
        let mut times = histogram();
        for (id, receipts) in arrived {
            let scheduled = scheduled(&caller.history(&id).await?);
            for (step, attempt, arrived_us) in receipts {
                if let Some(at_ms) = scheduled.get(&(step, attempt)) {
                    times.saturating_record(arrived_us.saturating_sub(at_ms * 1_000));
                }
            }
        }
        Ok(Spread::of(&times))
    }
}

/// When each attempt became ready; the last time if it was redelivered.
fn scheduled(events: &[Value]) -> HashMap<(String, u32), u64> {
    let text = |event: &Value, name: &str| event.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let of_kind = events.iter().filter(|event| text(event, "type") == "StepScheduled");
    let each = of_kind.map(|event| {
        let attempt = u32::try_from(number(event, "attempt")).unwrap_or_default();
        ((text(event, "step"), attempt), number(event, "timestamp_ms"))
    });
    each.collect()
}

/// The wall clock, µs since 1970.
#[allow(clippy::disallowed_methods, reason = "what is measured is the time between two clocks")]
pub(super) fn wall_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::{MARK, Receipts};

    #[test]
    fn the_first_execution_that_is_measured_is_looked_at() {
        let receipts = Receipts::new("b".to_owned());
        let ids: Vec<_> = (0..50).map(|number| receipts.id(number, number >= 7)).collect();
        let marked: Vec<_> = (0..50).filter(|&number| ids[number].ends_with(MARK)).collect();
        assert_eq!(marked, [7, 27, 47]);
    }
}
