//! What stands around a run: the commands that may come, in any order, and what each of them must and must not do.

use std::sync::Arc;

use serde_json::Value as Json;
use workflow::command::{
    Answered, Batch, Cancel, Complete, Expire, Expiry, Fail, Heartbeat, HeartbeatAnswer, OfferTaken, Pause, Redrive,
    Refusal, ResultAnswer, Resume, Run, SendSignal, Start, TimeoutDue, TimerDue, Token, Uncertain,
};
use workflow::definition::Definition;
use workflow::document::{self, Format};
use workflow::event::{Recorded, RedriveAction, TaskError, UncertainReason};
use workflow::key::Key;
use workflow::state::{Execution, ReadRows};
use workflow::value::Payload;

use super::constructs::Moment;
use super::coverage::Coverage;
use super::watch::Watch;
use crate::shelf::Shelf;

/// The execution's id in every case.
pub const ID: &str = "x";

/// A command that may come.
#[derive(Clone, Debug)]
pub enum Order {
    Start(Payload),
    HandOver(Key),
    Complete(Token, Payload),
    Fail(Token, TaskError, bool),
    Uncertain(Token, UncertainReason),
    Expire(Key, Expiry),
    Answer(Key, u32, Result<Payload, TaskError>),
    Timer(Key),
    Timeout,
    Heartbeat(Token),
    Signal(&'static str, Payload),
    Cancel(bool),
    Pause,
    Resume,
    Redrive(Option<Vec<Key>>, RedriveAction, Option<Payload>),
}

/// What was answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Nothing,
    Token(Token),
    Result(ResultAnswer),
    Heartbeat(HeartbeatAnswer),
}

/// One run, everything that is known of it, and what watches it.
pub struct World {
    pub definition: Arc<Definition>,
    pub run: Run,
    /// The run's rows, as they are stored with each batch.
    pub shelf: Arc<Shelf>,
    /// The same run, dropped and built again from its rows, as often as chance will.
    pub rebuilt: Option<Run>,
    pub history: Vec<Recorded>,
    /// What is stored: the history's fold, event by event.
    pub stored: Execution,
    pub watch: Watch,
    pub now_ms: u64,
    /// Every token ever given.
    pub tokens: Vec<(Key, Token)>,
    pub results: Vec<Order>,
    /// The first result of each token and what was answered.
    pub firsts: Vec<(Token, Order, ResultAnswer)>,
    pub commands: usize,
    /// The run is dropped more often than else.
    pub restless: bool,
    pub coverage: Coverage,
}

/// Compiles a document that a generator made; it must have no fault.
pub fn compile(document: &Json) -> Arc<Definition> {
    match document::compile(&document.to_string(), Format::Json) {
        Ok(mut compiled) => Arc::new(compiled.remove(0).definition),
        Err(faults) => panic!("a generated document is refused:\n{faults}\n{document:#}"),
    }
}

/// A JSON text that only passes through.
pub fn payload(text: &str) -> Payload {
    Payload::parse(text).expect("a payload of a test is JSON")
}

impl World {
    pub fn new(document: &Json) -> Self {
        let definition = compile(document);
        Self {
            run: Run::new(Arc::clone(&definition), ID),
            definition,
            shelf: Arc::default(),
            rebuilt: None,
            history: Vec::new(),
            stored: Execution::default(),
            watch: Watch::new(document, ID),
            now_ms: 1_000,
            tokens: Vec::new(),
            results: Vec::new(),
            firsts: Vec::new(),
            commands: 0,
            restless: false,
            coverage: Coverage::default(),
        }
    }

    /// Drops the run, with all that lies in memory, and builds it again from its rows.
    pub fn crash(&mut self, unfinished: bool) -> Result<(), String> {
        self.coverage.constructs.dropped(&self.watch.outline, &self.stored, Moment::Between);
        let rows: Arc<dyn ReadRows> = self.shelf.clone();
        let woken = Run::asleep(Arc::clone(&self.definition), ID, &rows, unfinished);
        self.rebuilt = woken.map_err(|error| format!("it cannot be read again: {error}"))?;
        Ok(())
    }

    /// What was built again is what was never dropped.
    pub fn is_the_same(&self, rebuilt: &Run) -> Result<(), String> {
        if let Some(error) = self.shelf.failure() {
            return Err(format!("rows cannot be read again: {error}"));
        }
        if rebuilt.state() != self.run.state() || rebuilt.results() != self.run.results() {
            return Err("after a crash the state is another".into());
        }
        Ok(())
    }

    /// The last events, for a failure.
    pub fn tail(&self) -> String {
        let last = self.history.iter().rev().take(40).rev();
        let lines: Vec<_> = last.map(|e| format!("    {} {} {}", e.seq, e.timestamp_ms, e.event)).collect();
        lines.join("\n")
    }
}

/// Gives `order` to `run`.
pub fn give(run: &mut Run, at: u64, order: &Order) -> Result<(Reply, Batch), Refusal> {
    match order.clone() {
        Order::Start(input) => nothing(run.handle(at, Start::with_input(input))),
        Order::HandOver(unit) => {
            let offer = OfferTaken { unit: &unit, worker_id: "w", worker_session: "s", nonce: [7; 8] };
            run.handle(at, offer).map(|(token, batch)| (Reply::Token(token), batch))
        }
        Order::Complete(token, output) => {
            run.handle(at, Complete { token: &token, output }).map(|(answer, batch)| (Reply::Result(answer), batch))
        }
        Order::Fail(token, error, unknown) => {
            let fail = Fail { token: &token, error, unknown };
            run.handle(at, fail).map(|(answer, batch)| (Reply::Result(answer), batch))
        }
        Order::Uncertain(token, reason) => nothing(run.handle(at, Uncertain { token: &token, reason })),
        Order::Expire(unit, expiry) => nothing(run.handle(at, Expire { unit: &unit, expiry })),
        Order::Answer(unit, attempt, result) => nothing(run.handle(at, Answered { unit: &unit, attempt, result })),
        Order::Timer(timer) => nothing(run.handle(at, TimerDue { timer: &timer })),
        Order::Timeout => nothing(run.handle(at, TimeoutDue)),
        Order::Heartbeat(token) => {
            let heartbeat = Heartbeat { token: &token, details: Some(payload("{\"done\": 1}")) };
            run.handle(at, heartbeat).map(|(answer, batch)| (Reply::Heartbeat(answer), batch))
        }
        Order::Signal(name, payload) => {
            let signal = SendSignal { name: name.to_owned(), payload, dedup_id: None };
            run.handle(at, signal).map(|(_, batch)| (Reply::Nothing, batch))
        }
        Order::Cancel(force) => nothing(run.handle(at, Cancel { reason: "test".to_owned(), force })),
        Order::Pause => nothing(run.handle(at, Pause)),
        Order::Resume => nothing(run.handle(at, Resume)),
        Order::Redrive(steps, action, output) => nothing(run.handle(at, Redrive { steps, action, output })),
    }
}

fn nothing(given: Result<((), Batch), Refusal>) -> Result<(Reply, Batch), Refusal> {
    given.map(|((), batch)| (Reply::Nothing, batch))
}
