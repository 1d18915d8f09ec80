//! The desk as shards and gateways see it: one file per subject, and a model against which everything is played.

mod lines;
mod model;
mod polls;
mod sessions;
mod streams;
mod tokens;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;
use workflow::command::Token;
use workflow::event::{Queue, UncertainReason};
use workflow::key::Key;

use super::{Connection, Desk, DeskSettings, Held, Order, Poll, Ready, ShardId, ShardSink, Slot, UnitRef};
use crate::api::{Delivery, Register, Task, TaskVersion};

const RECEIPT: Duration = Duration::from_secs(2);
const SESSION: Duration = Duration::from_secs(30);

/// A shard that only writes down what it is told. Execution `3/x` lives on shard 3.
#[derive(Debug)]
struct Shard {
    id: ShardId,
    offers: Mutex<VecDeque<(Ready, Slot)>>,
    lost: Mutex<Vec<(Token, UncertainReason)>>,
    refills: Mutex<Vec<Queue>>,
}

impl ShardSink for Shard {
    fn offer(&self, ready: Ready, slot: Slot) {
        self.offers.lock().unwrap().push_back((ready, slot));
    }

    fn take_back(&self, token: Token, reason: UncertainReason) {
        self.lost.lock().unwrap().push((token, reason));
    }

    fn refill(&self, queue: Queue) {
        self.refills.lock().unwrap().push(queue);
    }

    fn owns(&self, execution_id: &str) -> bool {
        execution_id.starts_with(&format!("{}/", self.id))
    }
}

impl Shard {
    fn offered(&self) -> Option<(Ready, Slot)> {
        self.offers.lock().unwrap().pop_front()
    }

    /// The names of all units that were offered since, in order.
    fn names(&self) -> Vec<String> {
        self.offers.lock().unwrap().iter().map(|(ready, _)| ready.unit.execution_id.to_string()).collect()
    }

    fn lost(&self) -> Vec<(Token, UncertainReason)> {
        std::mem::take(&mut self.lost.lock().unwrap())
    }

    fn refills(&self) -> usize {
        std::mem::take(&mut *self.refills.lock().unwrap()).len()
    }
}

fn settings() -> DeskSettings {
    DeskSettings {
        heartbeat_interval: Duration::from_secs(5),
        session_timeout: SESSION,
        receipt_timeout: RECEIPT,
        window_max: 3,
    }
}

/// A desk with shards that have nothing in flight.
fn desk<const N: usize>(ids: [ShardId; N]) -> (Desk, [Arc<Shard>; N]) {
    let desk = Desk::new(settings());
    let shards = ids.map(|id| lead(&desk, id));
    for shard in &shards {
        desk.adopt(shard.id, Vec::new(), Instant::now());
    }
    (desk, shards)
}

fn lead(desk: &Desk, id: ShardId) -> Arc<Shard> {
    let shard = Arc::new(Shard { id, offers: Mutex::default(), lost: Mutex::default(), refills: Mutex::default() });
    desk.lead(id, shard.clone());
    shard
}

fn queue(task: &str) -> Queue {
    Queue { task: task.into(), version: Some("1".into()), language: None }
}

fn order(age: u64) -> Order {
    Order { priority: 3, turn: 0, ready_at_ms: age, seq: 5 }
}

fn ready(task: &str, execution: &str, age: u64) -> Ready {
    let unit = UnitRef { execution_id: Arc::from(execution), run: 1, unit: Key::from("a") };
    Ready { queue: queue(task), order: order(age), unit, attempt: 1 }
}

fn token(execution: &str, nonce: u8) -> Token {
    Token { execution_id: execution.into(), run: 1, seq: 7, nonce: [nonce; 8] }
}

fn task(token: &Token) -> Task {
    Task {
        token: token.to_string(),
        execution_id: token.execution_id.clone(),
        run: token.run,
        workflow: "w".into(),
        workflow_version: "1".into(),
        step_id: "a".into(),
        task_name: "pay".into(),
        contract_version: "1".into(),
        input: workflow::value::Payload::default(),
        idempotency_key: "k".into(),
        attempt: 1,
        redelivery: false,
        deadline_ms: None,
        timeout_ms: None,
        heartbeat_timeout_ms: None,
        last_heartbeat_details: None,
        traceparent: None,
    }
}

fn worker(id: &str, tasks: &[&str]) -> Register {
    let version = |task: &&str| TaskVersion { task_name: (*task).into(), contract_version: "1".into() };
    Register {
        worker_id: id.into(),
        runtime: "rust".into(),
        contracts: tasks.iter().map(version).collect(),
        ..Register::default()
    }
}

/// A worker registers; its session is called like it.
fn register(desk: &Desk, id: &str, tasks: &[&str]) -> String {
    desk.register(worker(id, tasks), Instant::now(), || id.into()).unwrap().worker_session_id
}

fn poll(desk: &Desk, session: &str, slots: u32) -> Poll {
    desk.open_poll(session, slots, Instant::now()).unwrap()
}

fn stream(desk: &Desk, id: &str, tasks: &[&str], slots: u32) -> Connection {
    let connection = desk.open_stream(worker(id, tasks), Instant::now(), || id.into()).unwrap();
    connection.offer_slots(slots);
    connection
}

/// One task goes from its shard through a stream to the worker: offered, committed, delivered.
fn hand_over(desk: &Desk, shard: &Shard, execution: &str, nonce: u8) -> Token {
    desk.enqueue(shard.id, ready("pay", execution, 1));
    let (_, slot) = shard.offered().unwrap();
    let token = token(execution, nonce);
    desk.dispatched(shard.id, slot, task(&token));
    token
}

fn texts(tokens: &[&Token]) -> Vec<String> {
    tokens.iter().map(ToString::to_string).collect()
}

fn delivered(connection: &mut Connection) -> Vec<Delivery> {
    std::iter::from_fn(|| connection.deliveries.try_recv().ok()).collect()
}

fn delivery(token: &Token) -> Delivery {
    Delivery::Task(Box::new(task(token)))
}

/// Nothing is left behind by what has come and gone.
fn assert_no_hand_over(desk: &Desk) {
    let state = desk.lock();
    assert!(state.held.is_empty() && state.reserved.is_empty(), "{state:?}");
    assert!(state.agenda.values().all(|due| matches!(due, super::state::Due::Session(_))), "{:?}", state.agenda);
    assert!(state.sessions.all().all(|session| session.held.is_empty() && session.reserved == 0));
}
