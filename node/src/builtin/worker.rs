//! The node as the worker `orbit` (L12): what a worker on a stream is, without a stream between.
//!
//! Its session is the incarnation of the node. A process that begins holds nothing, and says so: what was handed to the
//! process before it is handed over again at once, the same attempt with the same idempotency key (L5).
//!
//! - A slot is given for each request that may be under way, [`SLOTS`] in all, and again when its task has ended.
//! - A token is listed until its result is answered; a task that is cancelled is dropped, and its connection with it,
//!   and is listed no longer, which ends the wait for it.

use std::collections::HashMap;
use std::time::Duration;

use orbit_actors::api::{Complete, Delivery, Task};
use orbit_actors::engine::{Connection, Engine};
use orbit_actors::error::{Code, Error};
use orbit_raft::Environment;
use tokio::task::{AbortHandle, Id, JoinHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use workflow::value::Payload;

use super::failure::Failure;
use super::{Adapter, Settings};

/// How many requests are under way at a time. Each may hold an input, an answer and an output, a payload each.
const SLOTS: u32 = 128;
/// How long requests under way may take when the node goes away.
const FINISH_TIME_MAX: Duration = Duration::from_secs(5);
/// Between two tries to report a result.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Runs until it is stopped.
#[derive(Debug)]
pub(crate) struct Worker {
    stop: CancellationToken,
    carrying: JoinHandle<()>,
}

impl Worker {
    /// Takes its place at the engine, before anybody else can take its name.
    ///
    /// # Errors
    /// The engine goes away.
    pub(crate) fn start<E: Environment>(
        engine: Engine<E>,
        incarnation: Uuid,
        settings: Settings,
    ) -> Result<Self, Error> {
        let connection = engine.connect_built_in(incarnation, &[])?;
        let (stop, adapter) = (CancellationToken::new(), Adapter::new(settings));
        let carrying = Carrying { engine, incarnation, adapter, held: HashMap::new(), tasks: JoinSet::new() };
        let carrying = tokio::spawn(carrying.run(connection, stop.clone()));
        Ok(Self { stop, carrying })
    }

    /// Takes no more tasks, and gives those under way a moment. Others carry on with what is left.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        // It ends by itself; one that panicked has ended as well.
        let _ = self.carrying.await;
    }
}

struct Carrying<E: Environment> {
    engine: Engine<E>,
    incarnation: Uuid,
    adapter: Adapter,
    /// By token.
    held: HashMap<String, AbortHandle>,
    tasks: JoinSet<()>,
}

impl<E: Environment> Carrying<E> {
    async fn run(mut self, mut connection: Connection, stop: CancellationToken) {
        connection.offer_slots(SLOTS);
        let mut beat = self.beat(&connection);
        let mut taking = true;
        loop {
            tokio::select! {
                delivery = connection.deliveries.recv() => match delivery {
                    Some(Delivery::Task(task)) => self.take(&connection, *task),
                    Some(Delivery::Cancel(token)) => self.cancel(&connection, &[token]),
                    Some(Delivery::Drain) => taking = false,
                    // The session was silent for too long, say because the machine slept.
                    None => match self.connect_again() {
                        Some(again) => {
                            connection = again;
                            beat = self.beat(&connection);
                        }
                        None => return,
                    },
                },
                Some(ended) = self.tasks.join_next_with_id() => {
                    self.ended(ended.map_or_else(|error| error.id(), |(id, ())| id));
                    if taking {
                        connection.offer_slots(1);
                    }
                }
                _ = beat.tick() => self.heartbeat(&connection),
                () = stop.cancelled() => break,
            }
        }
        self.finish(connection).await;
    }

    /// Waits for what is under way, then gives up the rest.
    async fn finish(mut self, connection: Connection) {
        let until = Instant::now() + FINISH_TIME_MAX;
        while let Ok(Some(_)) = tokio::time::timeout_at(until, self.tasks.join_next()).await {}
        self.tasks.shutdown().await;
        connection.unregister();
    }

    fn beat(&self, connection: &Connection) -> tokio::time::Interval {
        let mut beat = tokio::time::interval(Duration::from_millis(connection.session.heartbeat_interval_ms.max(10)));
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        beat
    }

    fn connect_again(&self) -> Option<Connection> {
        let tokens: Vec<_> = self.held.keys().cloned().collect();
        let connection = self.engine.connect_built_in(self.incarnation, &tokens).ok()?;
        let busy = u32::try_from(self.tasks.len()).unwrap_or(SLOTS);
        connection.offer_slots(SLOTS.saturating_sub(busy));
        Some(connection)
    }

    fn take(&mut self, connection: &Connection, task: Task) {
        let token = task.token.clone();
        connection.received(std::slice::from_ref(&token));
        let (engine, adapter) = (self.engine.clone(), self.adapter.clone());
        let handle = self.tasks.spawn(carry_out(engine, adapter, task));
        self.held.insert(token, handle);
    }

    fn ended(&mut self, id: Id) {
        self.held.retain(|_, handle| handle.id() != id);
    }

    /// Drops what need not be done any more, and says that it is dropped.
    fn cancel(&mut self, connection: &Connection, tokens: &[String]) {
        let mut dropped = false;
        for handle in tokens.iter().filter_map(|token| self.held.remove(token)) {
            handle.abort();
            dropped = true;
        }
        if dropped {
            self.heartbeat(connection);
        }
    }

    fn heartbeat(&mut self, connection: &Connection) {
        let tokens: Vec<_> = self.held.keys().cloned().collect();
        // A session that is over ends its deliveries, too.
        let cancelled = connection.heartbeat(&tokens).unwrap_or_default();
        for handle in cancelled.iter().filter_map(|token| self.held.remove(token)) {
            handle.abort();
        }
    }
}

/// One task from its hand-over to its answered result.
async fn carry_out<E: Environment>(engine: Engine<E>, adapter: Adapter, task: Task) {
    let result = {
        let work = adapter.carry_out(&task);
        tokio::pin!(work);
        // With a `heartbeat_timeout` the node shows that it lives, as any worker does.
        let beat = task.heartbeat_timeout_ms.map(|ms| Duration::from_millis((ms / 3).max(1)));
        loop {
            tokio::select! {
                result = &mut work => break result,
                () = sleep(beat) => drop(engine.task_heartbeat(&task.token, None).await),
            }
        }
    };
    report(&engine, &task.token, result).await;
}

async fn sleep(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

/// Says it until it is answered: the same result again is answered as the first time.
async fn report<E: Environment>(engine: &Engine<E>, token: &str, result: Result<Payload, Failure>) {
    let mut pause = PAUSE;
    loop {
        let answered = match result.clone() {
            Ok(output) => {
                let complete = Complete { token: token.to_owned(), output, ..Complete::default() };
                engine.complete(complete).await
            }
            Err(Failure { error, unknown }) => engine.fail_built_in(token, error, unknown).await,
        };
        match answered {
            Ok(_) => return,
            Err(Error { code: Code::NoLeader | Code::OutcomeUnknown | Code::Overloaded, .. }) => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
            Err(error) => return tracing::error!(%error, "the result of a built-in task is not taken"),
        }
    }
}
