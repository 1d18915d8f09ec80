//! How a committed hand-over reaches its worker, and how the ways there end.

use std::sync::Arc;

use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use workflow::command::Token;
use workflow::event::UncertainReason;

use super::hand_over::{HandOver, Phase};
use super::order::ShardId;
use super::session::{Outlet, OutletId, SessionNo, Way};
use super::state::{Offered, State, Ticket};
use super::{HELD_MAX, SLOTS_MAX};
use crate::api::{Delivery, Task};

/// What a poll finds.
#[derive(Debug)]
pub(super) enum Look {
    /// The answer.
    Done(Vec<Task>),
    /// Nothing yet.
    Nothing,
    /// The poll takes no more slots, and some are still reserved; `tasks`: others have arrived.
    Settling { tasks: bool },
}

/// How a poll looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// It has time.
    Waits,
    /// Its time is over.
    Ends,
    /// What has arrived goes out, whatever is still reserved.
    Goes,
}

impl State {
    pub(super) fn open_outlet(&mut self, session: SessionNo, way: Way) -> OutletId {
        let id = self.number();
        let outlet = Outlet { session, idle: 0, reserved: 0, closing: self.draining, way };
        self.outlets.insert(id, outlet);
        if let Some(session) = self.sessions.get_mut(session) {
            session.outlets.insert(id);
        }
        id
    }

    /// How many of so many more slots there is room for.
    pub(super) fn slots_allowed(&self, id: OutletId, wanted: usize) -> usize {
        let Some(outlet) = self.outlets.get(&id) else { return 0 };
        let Some(session) = self.sessions.get(outlet.session) else { return 0 };
        let offered = session.idle + session.reserved;
        let in_channel = match &outlet.way {
            Way::Poll { .. } => SLOTS_MAX,
            Way::Stream(out) => out.capacity().saturating_sub(outlet.idle + outlet.reserved),
        };
        let in_hand = HELD_MAX.saturating_sub(offered + session.held.len());
        wanted.min(SLOTS_MAX.saturating_sub(offered)).min(in_channel).min(in_hand)
    }

    /// A hand-over is committed: it goes out.
    pub(super) fn deliver(&mut self, shard: ShardId, ticket: Ticket, task: Task, now: Instant) {
        let Some(reserved) = self.unreserve(ticket) else { return };
        if let Some(Offered { shard, queue, place, .. }) = reserved.offered {
            let window_max = self.settings.window_max;
            self.window_of(&queue, shard, |window| window.committed(&place, window_max));
        }
        let Ok(token) = task.token.parse::<Token>() else {
            tracing::error!(execution_id = task.execution_id, step_id = task.step_id, "a task without a token of ours");
            return;
        };
        let token = Arc::new(token);
        let Some(outlet) = self.outlets.get_mut(&reserved.outlet) else {
            return self.tell_lost(Some(shard), (*token).clone(), UncertainReason::NotReceived);
        };
        let (phase, wait) = match &mut outlet.way {
            Way::Poll { arrived, wake } => {
                arrived.push(task);
                wake.notify_one();
                (Phase::Arrived(reserved.outlet), None)
            }
            Way::Stream(out) => {
                if out.try_send(Delivery::Task(Box::new(task))).is_err() {
                    return self.tell_lost(Some(shard), (*token).clone(), UncertainReason::NotReceived);
                }
                (Phase::Sent(reserved.outlet), Some(self.settings.receipt_timeout))
            }
        };
        // A shard that is led elsewhere by now speaks for it no more.
        let shard = self.shards.contains_key(&shard).then_some(shard);
        let holder = reserved.session;
        self.hold(token, HandOver { shard, holder, phase, written: now, stop: false, due: None }, wait);
    }

    /// A poll looks whether there is something for it.
    pub(super) fn look(&mut self, id: OutletId, patience: Patience, now: Instant) -> Look {
        let Some(outlet) = self.outlets.get(&id) else { return Look::Done(Vec::new()) };
        let Way::Poll { arrived, .. } = &outlet.way else { return Look::Done(Vec::new()) };
        let tasks = !arrived.is_empty();
        if !tasks && !outlet.closing && patience == Patience::Waits {
            return Look::Nothing;
        }
        // No slot of it is promised to anybody before an empty answer goes out.
        self.close_slots(id);
        let reserved = self.outlets.get(&id).map_or(0, |outlet| outlet.reserved);
        if reserved > 0 && !(tasks && patience == Patience::Goes) {
            return Look::Settling { tasks };
        }
        let Some(Outlet { way: Way::Poll { arrived, .. }, .. }) = self.remove_outlet(id) else {
            return Look::Done(Vec::new());
        };
        for token in arrived.iter().filter_map(|task| task.token.parse::<Token>().ok()) {
            if let Some(hand_over) = self.held.get_mut(&token) {
                hand_over.phase = Phase::Answered;
                hand_over.written = now;
            }
        }
        Look::Done(arrived)
    }

    fn remove_outlet(&mut self, id: OutletId) -> Option<Outlet> {
        self.close_slots(id);
        let outlet = self.outlets.remove(&id)?;
        if let Some(session) = self.sessions.get_mut(outlet.session) {
            session.outlets.remove(&id);
            if session.stream == Some(id) {
                session.stream = None;
            }
        }
        Some(outlet)
    }

    /// A poll or stream is gone: so are its slots, and what went into it and did not come out.
    pub(super) fn close_outlet(&mut self, id: OutletId) {
        let Some(outlet) = self.remove_outlet(id) else { return };
        outlet.wake();
        let Some(session) = self.sessions.get(outlet.session) else { return };
        let lost = |token: &&Arc<Token>| {
            let phase = self.held.get(*token).map(|hand_over| hand_over.phase);
            phase == Some(Phase::Arrived(id)) || phase == Some(Phase::Sent(id))
        };
        let lost: Vec<_> = session.held.iter().filter(lost).cloned().collect();
        for token in lost {
            self.take_back(&token, UncertainReason::NotReceived);
        }
    }

    /// Takes no more slots anywhere, and says so.
    pub(super) fn drain(&mut self) {
        self.draining = true;
        let ids: Vec<_> = self.outlets.keys().copied().collect();
        for id in ids {
            self.close_slots(id);
            if let Some(outlet) = self.outlets.get(&id) {
                outlet.wake();
                outlet.notice(Delivery::Drain);
            }
        }
    }
}

/// The way of a poll, and what wakes it.
pub(super) fn poll_way() -> (Way, Arc<Notify>) {
    let wake = Arc::new(Notify::new());
    (Way::Poll { arrived: Vec::new(), wake: wake.clone() }, wake)
}

/// The way of a stream, and its other end. Twice the slots: there is room for notices beside the tasks.
pub(super) fn stream_way() -> (Way, mpsc::Receiver<Delivery>) {
    let (out, deliveries) = mpsc::channel(2 * SLOTS_MAX);
    (Way::Stream(out), deliveries)
}
