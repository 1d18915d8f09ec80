//! A slot that is kept for one hand-over.

use std::sync::Arc;

use tokio::time::Instant;

use super::Desk;
use super::state::{Grant, Ticket};

/// A reserved slot. Dropped without [`Desk::dispatched`] it is idle again.
#[derive(Debug)]
pub(crate) struct Slot {
    desk: Desk,
    ticket: Option<Ticket>,
    worker_id: Arc<str>,
    session: Arc<str>,
}

impl Slot {
    pub(super) fn new(desk: Desk, grant: Grant) -> Self {
        Self { desk, ticket: Some(grant.ticket), worker_id: grant.worker_id, session: grant.session }
    }

    /// Who will carry it out.
    pub(crate) fn worker_id(&self) -> &str {
        &self.worker_id
    }

    /// In which session.
    pub(crate) fn session_id(&self) -> &str {
        &self.session
    }

    pub(super) fn spend(mut self) -> Ticket {
        // Tickets begin at 1; a slot is spent once, by value.
        self.ticket.take().unwrap_or_default()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            let now = Instant::now();
            self.desk.with(|state| state.give_up(ticket, now));
        }
    }
}
