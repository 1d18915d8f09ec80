//! `await`: the oldest signal first; of several waits the one opened first, then document order (L7).

use super::events::{opened, succeeded, timer};
use super::step::or_fail;
use super::{Walk, Walked, next};
use crate::definition::{Await, OnExpiry};
use crate::event::{SignalConsumed, TaskError};
use crate::key::Key;
use crate::state::{Taken, Unit};
use crate::value::{Payload, Value};

impl Walk<'_> {
    /// A wait for signals.
    pub(super) fn wait(&mut self, key: &Key, wait: &Await) -> Walked {
        let Some(unit) = self.unit(key) else { return next(opened(key, 1)) };
        if let Some(last) = unit.taken.last() {
            match &wait.until {
                None => return next(succeeded(key, 1, Some(taken_one(last, wait)))),
                Some(until) => {
                    let scope = self.scope(key).with("count", unit.taken.len());
                    let scope = scope.with("last", taken_value(last));
                    if or_fail!(self, key, self.condition(until, &scope)) {
                        return next(succeeded(key, 1, Some(taken(unit, wait))));
                    }
                }
            }
        }
        let facts = self.facts;
        if let Some(signal_seq) = self.memo.waiting.signal_for(&facts, key) {
            return next(SignalConsumed { step: key.clone(), signal_seq });
        }
        if self.state.timer_fired(key) {
            return self.wait_timed_out(key, unit, wait);
        }
        if let (Some(timeout), false) = (&wait.timeout, self.state.timer_runs(key)) {
            let ms = or_fail!(self, key, self.duration(timeout, &self.scope(key)));
            return next(timer(key.clone(), self.now_ms.saturating_add(ms)));
        }
        Ok(())
    }

    fn wait_timed_out(&mut self, key: &Key, unit: &Unit, wait: &Await) -> Walked {
        if wait.on_timeout == OnExpiry::Continue {
            let output = if wait.until.is_some() { taken(unit, wait) } else { Payload::null() };
            return next(succeeded(key, 1, Some(output)));
        }
        // These very words: histories are decided again, and those that 0.1.0 has left say them.
        let error = TaskError::permanent("AWAIT_TIMEOUT", format!("no {}", wait.signals.join(" or ")));
        self.unit_fails(key, &error)
    }
}

/// All signals that a wait took, as its output lists them.
pub(super) fn taken(unit: &Unit, wait: &Await) -> Payload {
    Payload::from(&Value::list(unit.taken.iter().map(|taken| taken_one(taken, wait).value())))
}

fn taken_one(taken: &Taken, wait: &Await) -> Payload {
    if wait.several { Payload::from(&taken_value(taken)) } else { taken.payload.clone() }
}

fn taken_value(taken: &Taken) -> Value {
    Value::map([("signal", Value::from(taken.signal.as_str())), ("payload", taken.payload.value())])
}
