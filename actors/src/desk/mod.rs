//! Where idle slots of workers meet tasks that are ready, once per node; and who holds which task.
//!
//! ```text
//!   shard leaders                        the desk                            gateway
//!   try_take, enqueue, withdraw ──▶ lines: one per queue, oldest ◀── open_poll, open_stream: slots
//!   dispatched ────────────────────▶  over all shards     ──────────▶ tasks, cancels
//!   adopt, settled, cancel ────────▶ held: token → session ◀───────── register, heartbeat, receipts
//!   offer, take_back, refill ◀─────
//! ```
//!
//! What it owns is soft: rows tell the shards again what waits and what is in flight, and sessions tell what they hold.
//! So it is bookkeeping behind one lock, without a wait inside: demand and supply meet under that lock, and no wake-up
//! is lost between them. What the shards are to be told is said in order, when the lock is free.
//!
//! What must hold:
//! - No slot is idle while something that fits it waits, except while older rows are being read.
//! - Within a queue nothing goes before an older one, in memory or in rows, of whatever shard led here.
//! - A slot is used once. A task whose hand-over is committed goes out once or is taken back.
//! - A shard is told once that a token is lost; settled tokens leave nothing behind.
//!
//! Reading order: [`order`], [`window`] and [`line`] are what waits; [`session`] and [`request`] are who works;
//! [`state`] brings them together; [`hand_over`] is who holds what; [`delivery`] how it gets there; [`roll`] how
//! sessions come and go; [`elsewhere`] what other nodes of the cluster have to do with it; [`slot`], [`poll`] and
//! [`stream`] are the handles that others hold.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use workflow::command::Token;
use workflow::event::{Queue, UncertainReason};

use crate::api;

mod delivery;
mod elsewhere;
mod gateway;
mod hand_over;
mod line;
mod order;
mod poll;
mod request;
mod roll;
mod session;
mod slot;
mod state;
mod stream;
mod window;

#[cfg(test)]
mod tests;

pub(crate) use elsewhere::{Demand, Elsewhere};
pub(crate) use order::{Order, Ready, ShardId, UnitRef};
pub(crate) use poll::Poll;
pub(crate) use slot::Slot;
pub use stream::Connection;

use state::{Message, State};

/// Most slots that a session may have idle or reserved.
pub(crate) const SLOTS_MAX: usize = 10_000;

/// Most contracts of a session.
pub(crate) const CONTRACTS_MAX: usize = 1_000;

/// Most tokens that a session may name.
pub(crate) const TOKENS_MAX: usize = 20_000;

/// Most hand-overs of a session, held or to come: as many as it may name.
pub(crate) const HELD_MAX: usize = TOKENS_MAX;

/// Most sessions of a node.
pub(crate) const SESSIONS_MAX: usize = 100_000;

/// How the desk is tuned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeskSettings {
    /// How often workers send heartbeats.
    pub heartbeat_interval: Duration,
    /// After how long a silence a session is lost.
    pub session_timeout: Duration,
    /// Without a receipt for this long a task is taken back.
    pub receipt_timeout: Duration,
    /// How many ready units are kept in memory per shard and queue, at least 1.
    pub window_max: usize,
}

/// What the desk tells a shard leader. Implementations only put it into a channel: they are called in order, one at a
/// time, and whoever called the desk may wait for them.
pub(crate) trait ShardSink: Send + Sync + fmt::Debug {
    /// The oldest of a queue meets a slot. It waits no longer as far as the desk is concerned. Before the slot is
    /// dropped, say what became of the unit: [`Desk::dispatched`], [`Desk::enqueue`] (it waits as before) or
    /// [`Desk::withdraw`] (it waits no more); otherwise the rows of the queue are read again after a second.
    fn offer(&self, ready: Ready, slot: Slot);

    /// The hand-over is lost. Said once; the desk has forgotten it.
    fn take_back(&self, token: Token, reason: UncertainReason);

    /// What is known of this queue is used up and older rows lie on disk: answer with [`Desk::refilled`], from the
    /// oldest row on. Until then nothing younger goes out.
    fn refill(&self, queue: Queue);

    /// Whether the execution lives on this shard. Asked under the desk's lock: a calculation, no call back.
    fn owns(&self, execution_id: &str) -> bool;
}

/// A hand-over in flight, by the rows of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// Which one.
    pub token: Token,
    /// The worker it went to.
    pub worker_id: String,
    /// The session it went to.
    pub session: String,
    /// Something around its unit closes: the worker should stop.
    pub stop: bool,
}

/// A token as a worker named it.
#[derive(Debug)]
struct Listed {
    text: String,
    /// None: it is no token of ours.
    token: Option<Token>,
}

/// A clone is another handle to the same desk.
#[derive(Clone)]
pub(crate) struct Desk(Arc<Mutex<State>>);

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Desk")
    }
}

/// What shard leaders say. Each shard speaks in the order of its commits.
impl Desk {
    /// An empty desk.
    pub(crate) fn new(settings: DeskSettings) -> Self {
        let settings = DeskSettings { window_max: settings.window_max.max(1), ..settings };
        Self(Arc::new(Mutex::new(State::new(settings))))
    }

    /// The shard is led here from now on. What waits follows by [`refilled`](Self::refilled) or
    /// [`enqueue`](Self::enqueue), what is in flight by one [`adopt`](Self::adopt).
    pub(crate) fn lead(&self, shard: ShardId, sink: Arc<dyn ShardSink>) {
        self.with(|state| {
            state.resign(shard);
            state.shards.insert(shard, state::Lead { sink, adopted: false });
        });
    }

    /// The shard is not led here any more: nothing is said to it again, save what was on its way.
    pub(crate) fn resign(&self, shard: ShardId) {
        self.with(|state| state.resign(shard));
    }

    /// Before the commit of what makes a unit ready: a slot to hand it over with the same commit. None if there is no
    /// idle one, or something in the queue is not younger.
    pub(crate) fn try_take(&self, queue: &Queue, order: &Order) -> Option<Slot> {
        let grant = self.with(|state| state.try_take(queue, order))?;
        Some(Slot::new(self.clone(), grant))
    }

    /// After the commit: a unit waits.
    pub(crate) fn enqueue(&self, shard: ShardId, ready: Ready) {
        self.with(|state| {
            if state.shards.contains_key(&shard) {
                state.lines.open(&ready.queue);
                let (place, window_max) = (ready.place(), state.settings.window_max);
                state.window_of(&ready.queue, shard, |window| window.enqueue(place, ready.attempt, window_max));
            }
        });
    }

    /// A unit waits no more.
    pub(crate) fn withdraw(&self, shard: ShardId, queue: &Queue, order: &Order, unit: &UnitRef) {
        let place = order::Place { order: *order, unit: unit.clone() };
        self.with(|state| {
            let window_max = state.settings.window_max;
            state.window_of(queue, shard, |window| window.withdraw(&place, window_max));
        });
    }

    /// The oldest rows of a queue; `more`: others lie behind them. Also unasked, when a shard begins to lead.
    pub(crate) fn refilled(&self, shard: ShardId, queue: &Queue, rows: Vec<Ready>, more: bool) {
        self.with(|state| {
            if state.shards.contains_key(&shard) {
                state.lines.open(queue);
                let window_max = state.settings.window_max;
                state.window_of(queue, shard, |window| window.refilled(rows, more, window_max));
            }
        });
    }

    /// After the commit of the hand-over: the task goes out through its slot.
    pub(crate) fn dispatched(&self, shard: ShardId, slot: Slot, task: api::Task) {
        let ticket = slot.spend();
        let now = Instant::now();
        self.with(|state| state.deliver(shard, ticket, task, now));
    }

    /// A new leader's hand-overs in flight, all of them (perhaps none), once, before anything is dispatched. From then
    /// on a token of this shard that the desk does not know is dead.
    pub(crate) fn adopt(&self, shard: ShardId, held: Vec<Held>, now: Instant) {
        self.with(|state| state.adopt(shard, held, now));
    }

    /// The hand-over is in flight no more.
    pub(crate) fn settled(&self, shard: ShardId, token: &Token) {
        self.with(|state| {
            if state.held.get(token).is_some_and(|hand_over| hand_over.shard.is_none_or(|of| of == shard)) {
                state.forget(token);
            }
        });
    }

    /// The worker should stop: said on its stream now, and to each heartbeat that lists the token. Before
    /// [`settled`](Self::settled), after which nobody knows whom to tell.
    pub(crate) fn cancel(&self, shard: ShardId, token: &Token) {
        self.with(|state| {
            if state.held.get(token).is_some_and(|hand_over| hand_over.shard == Some(shard)) {
                state.stop(token);
            }
        });
    }

    /// Whether the hand-over is held, or may be: a session has it or is still expected to say so.
    #[cfg(test)]
    pub(crate) fn is_held(&self, token: &Token) -> bool {
        self.lock().held.contains_key(token)
    }

    // ---- the lock

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under the lock is a bug of the desk; its books are soft, and the node lives on.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the books, then tells the shards what follows. Whoever comes while another tells leaves it to that one:
    /// so messages keep their order, and a slot that is dropped while it is offered does not lead deeper and deeper.
    fn with<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.lock();
        let result = change(&mut state);
        if !state.outbox.is_empty() && !state.telling {
            state.telling = true;
            let mut telling = Telling { desk: self, messages: std::mem::take(&mut state.outbox) };
            drop(state);
            telling.tell();
        }
        result
    }
}

struct Telling<'d> {
    desk: &'d Desk,
    messages: VecDeque<Message>,
}

impl Telling<'_> {
    fn tell(&mut self) {
        while let Some(message) = self.next() {
            match message {
                Message::Offer(sink, ready, grant) => sink.offer(ready, Slot::new(self.desk.clone(), grant)),
                Message::TakeBack(sink, token, reason) => sink.take_back(token, reason),
                Message::Refill(sink, queue) => sink.refill(queue),
                Message::Farewell(sink) => drop(sink),
                Message::Fetch(elsewhere, node, session, grants) => {
                    let slots = grants.into_iter().map(|grant| Slot::new(self.desk.clone(), grant)).collect();
                    elsewhere.fetch(node, session, slots);
                }
                Message::TakeBackElsewhere(elsewhere, token, reason) => elsewhere.take_back(token, reason),
                Message::StopElsewhere(elsewhere, home, session, token) => elsewhere.stop(home, session, token),
                Message::Demand(elsewhere) => elsewhere.demand(),
            }
        }
    }

    fn next(&mut self) -> Option<Message> {
        if self.messages.is_empty() {
            let mut state = self.desk.lock();
            self.messages = std::mem::take(&mut state.outbox);
            // Under the same lock: whoever comes now tells for itself.
            state.telling = !self.messages.is_empty();
        }
        self.messages.pop_front()
    }
}

impl Drop for Telling<'_> {
    /// Only a sink that panics leaves anything here: the next one to come tells it.
    fn drop(&mut self) {
        if !self.messages.is_empty() {
            let mut state = self.desk.lock();
            self.messages.append(&mut state.outbox);
            state.outbox = std::mem::take(&mut self.messages);
            state.telling = false;
        }
    }
}
