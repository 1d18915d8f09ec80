//! `await`: the oldest signal first; of several waits the one opened first, then document order (L7).

use super::events::{opened, succeeded, timer};
use super::step::or_fail;
use super::{Facts, Walk, Walked, next};
use crate::definition::{Await, Kind, OnExpiry};
use crate::event::{SignalConsumed, TaskError};
use crate::key::{self, Key};
use crate::state::{Signal, Status, Taken, Unit};
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
        if let Some(signal_seq) = self.oldest_for(key, unit, wait) {
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
        let error = TaskError::permanent("AWAIT_TIMEOUT", format!("no {}", wait.signals.join(" or ")));
        self.unit_fails(key, &error)
    }
}

impl Facts<'_> {
    fn oldest_for(&self, key: &str, unit: &Unit, wait: &Await) -> Option<u64> {
        let for_us = |(_, signal): &(&u64, &Signal)| {
            signal.taken_by.is_none()
                && wait.signals.contains(&signal.signal)
                && !self.older_wait_wants(key, unit, signal)
                && self.wants(key, wait, signal)
        };
        self.state.signals.iter().find(for_us).map(|(seq, _)| *seq)
    }

    fn wants(&self, key: &str, wait: &Await, signal: &Signal) -> bool {
        let Some(accept) = &wait.accept else { return true };
        let scope = self.scope(key).with("signal", signal.signal.as_str());
        self.matches(accept, &scope.with("payload", signal.payload.value()))
    }

    /// Does a wait that was opened before this one want the signal too?
    fn older_wait_wants(&self, key: &str, unit: &Unit, signal: &Signal) -> bool {
        self.state.units.iter().any(|(other, row)| {
            if row.since >= unit.since || row.status != Status::Open || key::is_undo(other) || &**other == key {
                return false;
            }
            let Some(Kind::Await(wait)) = self.step(other).map(|step| &step.kind) else { return false };
            self.role(other) == super::Role::Await
                && !self.is_stopped(other)
                && wait.signals.contains(&signal.signal)
                && self.wants(other, wait, signal)
        })
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
