//! A command whose batch is cut: the run is dropped after each part and built again from what is stored, and what
//! follows is what follows without a crash (L12).

use std::sync::Arc;

use serde_json::{Value as Json, json};
use workflow::command::Run;
use workflow::definition::Definition;
use workflow::event::Recorded;
use workflow::state::Execution;

use super::world::{ID, Order, compile, give, payload};

/// More than one batch holds.
const ELEMENTS: usize = 1_300;

/// A fan-out of many beside a step that stays open; `text` is spliced into each input.
fn document(text: &str) -> Json {
    json!({
        "name": "parts", "version": "1.0.0",
        "tasks": {"work": {"version": "1.0.0"}, "undo": {"version": "1.0.0"}},
        "steps": [
            {
                "id": "many", "task": "work", "input": {"n": "${item}", "text": text},
                "for": {"each": format!("range({ELEMENTS})"), "concurrency": 10_000},
                "compensate": {"task": "undo", "input": {"out": "${output}"}},
            },
            {"id": "idle", "sleep": "1000h"},
        ],
    })
}

/// A run that never crashes, and the same run that crashes wherever a batch is cut.
struct Pair {
    definition: Arc<Definition>,
    steady: Run,
    crashing: Run,
    history: Vec<Recorded>,
    cuts: usize,
}

impl Pair {
    fn start(text: &str) -> Self {
        let definition = compile(&document(text));
        let run = || Run::new(Arc::clone(&definition), ID);
        let mut pair =
            Self { steady: run(), crashing: run(), definition: Arc::clone(&definition), history: Vec::new(), cuts: 0 };
        pair.give(&Order::Start(payload("{}")));
        pair
    }

    fn give(&mut self, order: &Order) {
        self.give_at(1_000, order);
    }

    fn give_at(&mut self, at: u64, order: &Order) {
        let (_, mut batch) = give(&mut self.steady, at, order).expect("an accepted command");
        let (_, mut again) = give(&mut self.crashing, at, order).expect("an accepted command");
        loop {
            assert_eq!(again.unfinished, batch.unfinished, "{order:?}");
            assert!(again == batch, "{order:?}: another part of {} events follows a crash", again.events.len());
            self.history.append(&mut batch.events);
            if !batch.unfinished {
                return;
            }
            self.cuts += 1;
            let stored = Execution::fold(&self.history);
            let results = self.crashing.results().clone();
            self.crashing = Run::stored(Arc::clone(&self.definition), ID, stored, results, true);
            batch = self.steady.proceed(at);
            again = self.crashing.proceed(at);
        }
    }

    fn hand_over_all(&mut self) {
        for index in 0..ELEMENTS {
            self.give(&Order::HandOver(format!("many[{index}]").into()));
        }
    }

    fn complete_all(&mut self) {
        let tokens: Vec<String> = self.steady.state().hand_overs.iter().map(|(_, row)| row.token.clone()).collect();
        for token in tokens {
            self.give(&Order::Complete(token.parse().expect("a token"), payload("{\"n\": 1}")));
        }
    }
}

pub fn start() {
    let pair = Pair::start("");
    assert_eq!(pair.cuts, 1, "the start is cut by its events");
    let long = "x".repeat(2_000);
    let pair = Pair::start(&long);
    assert_eq!(pair.cuts, 2, "the start is cut by its bytes");
}

pub fn closing() {
    let mut pair = Pair::start("");
    let before = pair.cuts;
    pair.give(&Order::Cancel(false));
    assert_eq!(pair.cuts, before + 1, "so many are cancelled");
    assert!(pair.steady.state().is_over());
}

pub fn undoing() {
    let mut pair = Pair::start("");
    pair.hand_over_all();
    pair.complete_all();
    let before = pair.cuts;
    pair.give(&Order::Cancel(false));
    assert_eq!(pair.cuts, before + 1, "so many are undone at a time");
}

/// In flight and with a compensation: all of them are waited for, then given up at once and undone.
pub fn stopping() {
    let mut pair = Pair::start("");
    pair.hand_over_all();
    pair.give(&Order::Cancel(false));
    let before = pair.cuts;
    let timer = workflow::key::Key::from(workflow::key::GRACE);
    // Both were built at one moment; the grace is over when the clock says so.
    let at = pair.steady.state().timers.get(&*timer).and_then(|timer| timer.fire_at_ms).expect("a grace runs");
    for run in [&mut pair.steady, &mut pair.crashing] {
        assert!(give(run, at - 1, &Order::Timer(timer.clone())).is_err(), "the grace is not over");
    }
    pair.give_at(at, &Order::Timer(timer));
    assert!(pair.cuts > before, "so many are given up and undone");
}
