//! What a state asks for: timers, offers to workers, deliveries. Read off the state alone, after each command.

use std::rc::Rc;

use super::live::{At, Cause, Live, Offer, Shipment};
use super::outbox::Parcel;
use super::report::Difference;
use super::world::{Act, World};
use crate::key::{self, Key};
use crate::state::{Status, Unit, Work};

impl World<'_> {
    /// Arms what the state asks for and is not armed yet; what has ended passes its end on.
    pub(super) fn effects(&mut self, at: At) {
        if self.lives[at.0].run.state().is_over() {
            return self.after_end(at);
        }
        let paused = self.lives[at.0].is_paused();
        let live = &mut self.lives[at.0];
        let mut due = Vec::new();
        if !paused {
            for (timer, at_ms) in live.timers_to_arm() {
                arm(live, at, timer, at_ms, &mut due);
            }
            if let Some(at_ms) = live.run.state().head.timeout_at_ms {
                arm(live, at, Cause::Timeout(at_ms), at_ms, &mut due);
            }
        }
        self.put(&mut due);
        for (key, unit) in self.lives[at.0].units_to_serve() {
            self.serve(at, &key, &unit, paused);
        }
        if !paused {
            for act in std::mem::take(&mut self.lives[at.0].deferred) {
                self.at(self.now_ms, act);
            }
        }
    }

    fn put(&mut self, due: &mut Vec<(u64, Act)>) {
        for (at_ms, act) in due.drain(..) {
            self.at(at_ms, act);
        }
    }

    fn serve(&mut self, at: At, key: &Key, unit: &Unit, paused: bool) {
        if unit.status == Status::Scheduled && unit.is_task() && !paused {
            self.offer(at, key, unit);
        }
        if let (Status::Dispatched, Some(token), Some(ms)) = (unit.status, unit.token, unit.timeout_ms)
            && !paused
        {
            self.arm(at, Cause::Attempt(key.clone(), token), unit.at_ms.saturating_add(ms));
        }
        if unit.is_in_flight() && !unit.is_task() {
            self.ship(at, key, unit);
        }
    }

    pub(super) fn arm(&mut self, at: At, cause: Cause, at_ms: u64) {
        let mut due = Vec::new();
        arm(&mut self.lives[at.0], at, cause, at_ms, &mut due);
        self.put(&mut due);
    }

    /// A ready task; `pickup` is how long it waits in the queue.
    fn offer(&mut self, at: At, key: &Key, unit: &Unit) {
        let offer = self.lives[at.0].offer(key, unit);
        if !self.lives[at.0].armed.insert(Cause::Offer(offer.clone())) {
            return;
        }
        let Some(pickup_ms) = self.pickup(at, &offer, unit) else { return };
        self.at(self.now_ms.saturating_add(pickup_ms), Act::HandOver { at, offer: offer.clone() });
        if let Some(ms) = unit.queue_timeout_ms {
            self.arm(at, Cause::Queue(offer), unit.at_ms.saturating_add(ms));
        }
    }

    /// How long the mocked worker lets it wait. What it does is chosen once, also when a pause comes between.
    fn pickup(&mut self, at: At, offer: &Offer, unit: &Unit) -> Option<u64> {
        if let Some(chosen) = self.lives[at.0].chosen.get(offer) {
            return Some(chosen.pickup_ms());
        }
        match self.mocks.choose(&offer.key, unit) {
            Ok(chosen) => {
                let pickup_ms = chosen.pickup_ms();
                self.lives[at.0].chosen.insert(offer.clone(), Rc::new(chosen));
                Some(pickup_ms)
            }
            Err(fault) => {
                self.stop(Difference::new(format!("the mock of {}", offer.key), "an outcome", fault));
                None
            }
        }
    }

    /// A child or signal, once per attempt; a child that is to be stopped is told so, once.
    pub(super) fn ship(&mut self, at: At, key: &Key, unit: &Unit) {
        let Some(parcel) = Parcel::of(key, unit) else { return };
        let live = &mut self.lives[at.0];
        let first = live.shipped.insert(Shipment::Delivery(key.clone(), unit.attempt));
        let state = live.run.state();
        let stopped = !key::is_undo(key) && state.outermost_closing(key).is_some() && !state.is_over();
        let child = match &unit.work {
            Some(Work::Child(child)) if stopped => Some(child.id.clone()),
            _ => None,
        };
        let child = child.filter(|_| live.shipped.insert(Shipment::Stop(key.clone(), unit.attempt)));
        if first {
            self.at(self.now_ms, Act::Deliver { at, parcel });
        }
        if let Some(child) = child {
            self.at(self.now_ms, Act::StopChild { at, key: key.clone(), child, force: false });
        }
    }
}

/// Once per cause.
fn arm(live: &mut Live, at: At, cause: Cause, at_ms: u64, due: &mut Vec<(u64, Act)>) {
    if live.armed.insert(cause.clone()) {
        due.push((at_ms, Act::Due { at, cause }));
    }
}
