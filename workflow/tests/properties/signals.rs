//! Signals: each is taken once, none is overlooked (I19).

use std::collections::HashSet;

use workflow::key;

use super::outline::Role;
use super::watch::{Stand, Watch};

/// A signal that came in.
#[derive(Clone, Debug)]
pub struct Received {
    pub name: String,
    pub taken: bool,
}

impl Watch {
    /// A wait without `where` that is open while a signal of its name lies there untaken (I19); asked when nothing is
    /// left to decide.
    pub fn overlooked(&self) -> Option<String> {
        let untaken: HashSet<&str> =
            self.signals.values().filter(|signal| !signal.taken).map(|signal| &*signal.name).collect();
        if untaken.is_empty() || self.paused || self.ended.is_some() {
            return None;
        }
        let open = self.units.iter().filter(|(key, unit)| {
            unit.stand == Stand::Open && unit.attempt > 0 && !unit.suspended && self.outline.role(key) == Role::Wait
        });
        let mut open = open.filter(|(key, _)| !self.closings.keys().any(|closing| key::is_under(key, closing)));
        let overlooked =
            open.find(|(key, _)| self.outline.unconditional(key).iter().any(|name| untaken.contains(name)));
        overlooked.map(|(key, _)| key.to_string())
    }

    pub(super) fn take_signal(&mut self, seq: u64) {
        match self.signals.get_mut(&seq) {
            Some(signal) if !signal.taken => signal.taken = true,
            _ => self.fault(format!("signal {seq} taken twice or never received")),
        }
    }

    /// Signals that nobody took.
    pub fn unconsumed(&self) -> u64 {
        self.signals.values().filter(|signal| !signal.taken).count() as u64
    }
}
