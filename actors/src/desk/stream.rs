//! A worker's stream.

use tokio::sync::mpsc;
use tokio::time::Instant;
use workflow::event::UncertainReason;

use super::Desk;
use super::request::listed;
use super::session::OutletId;
use crate::api::{Delivery, Registered};
use crate::error::Result;

/// A worker's stream: dropping it takes back what was not received and its idle slots.
#[derive(Debug)]
pub struct Connection {
    /// The session.
    pub session: Registered,
    /// What goes out, in order. Bounded; ends when the session ends or another stream takes its place.
    pub deliveries: mpsc::Receiver<Delivery>,
    desk: Desk,
    outlet: OutletId,
}

impl Connection {
    pub(super) fn new(desk: Desk, outlet: OutletId, session: Registered, deliveries: mpsc::Receiver<Delivery>) -> Self {
        Self { session, deliveries, desk, outlet }
    }

    /// That many more tasks may be delivered. A session has at most 10 000 slots; what it offers beyond is left out.
    pub fn offer_slots(&self, slots: u32) {
        let now = Instant::now();
        self.desk.with(|state| {
            state.seen(&self.session.worker_session_id, now);
            let slots = state.slots_allowed(self.outlet, usize::try_from(slots).unwrap_or(usize::MAX));
            state.offer_slots(self.outlet, slots);
        });
    }

    /// A sign of life with all that the session holds. Answers what of that it should stop.
    ///
    /// # Errors
    /// `UNKNOWN_SESSION`: it is over, connect again.
    pub fn heartbeat(&self, tokens: &[String]) -> Result<Vec<String>> {
        let (tokens, now) = (listed(tokens)?, Instant::now());
        let alive = self.desk.with(|state| state.heartbeat(&self.session.worker_session_id, Some(tokens), now))?;
        Ok(alive.cancel)
    }

    /// The worker hears that it should stop.
    pub(crate) fn stop(&self, token: &str) {
        if let Ok(token) = token.parse() {
            self.desk.stop_here(&self.session.worker_session_id, &token);
        }
    }

    /// Ends the session: what it holds is handed to others at once.
    pub fn unregister(self) {
        self.desk.with(|state| {
            if let Some(no) = state.sessions.find(&self.session.worker_session_id) {
                state.end(no, UncertainReason::Unregistered);
            }
        });
    }

    /// Tasks that have arrived.
    pub fn received(&self, tokens: &[String]) {
        let now = Instant::now();
        let tokens: Vec<_> = tokens.iter().filter_map(|token| token.parse().ok()).collect();
        self.desk.with(|state| {
            state.seen(&self.session.worker_session_id, now);
            for token in &tokens {
                state.received(self.outlet, token);
            }
        });
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.desk.with(|state| state.close_outlet(self.outlet));
    }
}
