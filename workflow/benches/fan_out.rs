//! What one element, one step, one undo costs, and that it costs the same however many there are (L6: constant cost
//! per element).
//!
//! First the ratios: each story at its small and its large size, the same amount of work each, the median of several
//! rounds. Above 1.2 for a fan-out the bench exits 1. Then Criterion's own figures; `RATIOS_ONLY=1` leaves them out.

#![allow(clippy::disallowed_methods)] // a bench measures time; nothing here decides
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput};
use serde_json::{Value as Json, json};
use workflow::command::{Batch, Cancel, Command, Complete, OfferTaken, Run, SendSignal, Start, Token};
use workflow::definition::Definition;
use workflow::document::{self, Format};
use workflow::event::Event;
use workflow::key::Key;
use workflow::state::ReadRows;
use workflow::value::Payload;

#[path = "../tests/shelf/mod.rs"]
mod shelf;

/// A large fan-out may cost this many times what a small one does, per element.
const RATIO_MAX: f64 = 1.2;

const ROUNDS: usize = 7;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Story {
    /// A fan-out to its end, every element in flight.
    AllInFlight,
    /// A fan-out to its end, a thousand elements in flight.
    Default,
    /// The same at the limit of a fan-out.
    Widest,
    /// Steps one after another.
    Chain,
    /// Iterations of a repeat, each with a task.
    Repeat,
    /// Signals that are buffered, then taken one after another.
    Signals,
    /// Every element is done, then all of them are undone.
    Undo,
    /// Every element is open, then the run is cancelled.
    Close,
}

const STORIES: [Story; 8] = [
    Story::AllInFlight,
    Story::Default,
    Story::Widest,
    Story::Chain,
    Story::Repeat,
    Story::Signals,
    Story::Undo,
    Story::Close,
];

impl Story {
    fn sizes(self) -> (usize, usize) {
        match self {
            Self::Chain => (10, 1_000),
            Self::Widest => (100, 100_000),
            _ => (100, 10_000),
        }
    }

    fn rounds(self) -> usize {
        if self == Self::Widest { 3 } else { ROUNDS }
    }

    fn definition(self, size: usize) -> Arc<Definition> {
        let task = |id: String| json!({"id": id, "task": "work"});
        let steps: Vec<Json> = match self {
            Self::Chain => {
                let mut steps: Vec<Json> = (0..size).map(|n| task(format!("s{n}"))).collect();
                steps
                    .iter_mut()
                    .enumerate()
                    .skip(1)
                    .for_each(|(n, step)| step["after"] = json!([format!("s{}", n - 1)]));
                steps
            }
            Self::Repeat => {
                let repeat = json!({"until": format!("iteration == {size}"), "max": size});
                vec![json!({"id": "again", "task": "work", "input": {"n": "${previous}"}, "repeat": repeat})]
            }
            Self::Signals => {
                let repeat = json!({"until": format!("iteration == {size}"), "max": size});
                vec![
                    task("first".into()),
                    json!({"id": "turn", "after": ["first"], "repeat": repeat, "await": {"signal": "go"}}),
                ]
            }
            _ => {
                let mut step = task("each".into());
                step["input"] = json!({"n": "${item}"});
                step["for"] = json!({"each": format!("range({size})")});
                if !matches!(self, Self::Default | Self::Widest) {
                    step["for"]["concurrency"] = json!(10_000);
                }
                if self == Self::Undo {
                    step["compensate"] = json!({"task": "undo", "input": {"of": "${output}"}});
                }
                vec![step, task("last".into())]
            }
        };
        let document = json!({
            "name": "bench", "version": "1.0.0", "steps": steps, "signals": {"go": {}},
            "tasks": {"work": {"version": "1.0.0"}, "undo": {"version": "1.0.0"}},
        });
        let compiled =
            document::compile(&document.to_string(), Format::Json).unwrap_or_else(|faults| panic!("{faults}"));
        Arc::new(compiled.into_iter().next().unwrap().definition)
    }
}

/// A run whose worker does everything at once.
struct Line {
    run: Run,
    ready: std::collections::VecDeque<Key>,
    output: Payload,
}

impl Line {
    fn start(definition: &Arc<Definition>) -> Self {
        let run = Run::new(Arc::clone(definition), "bench");
        let output = Payload::parse("{\"n\":1}").unwrap();
        let mut line = Self { run, ready: Default::default(), output };
        line.give(Start::with_input(Payload::parse("{}").unwrap()));
        line
    }

    fn give<C: Command>(&mut self, command: C) -> C::Answer {
        let (answer, mut batch) = self.run.handle(1_000, command).unwrap();
        loop {
            self.take(&batch);
            if !batch.unfinished {
                return answer;
            }
            batch = self.run.proceed(1_000);
        }
    }

    fn take(&mut self, batch: &Batch) {
        for recorded in &batch.events {
            if let Event::StepScheduled(e) = &recorded.event {
                self.ready.push_back(e.step.clone());
            }
        }
    }

    fn hand_over(&mut self) -> Option<Token> {
        let unit = self.ready.pop_front()?;
        Some(self.give(OfferTaken { unit: &unit, worker_id: "w", worker_session: "s", nonce: [1; 8] }))
    }

    /// Hands over everything that is ready, then completes it, until nothing more comes.
    fn work(&mut self, until: impl Fn(&Self) -> bool) {
        while !until(self) {
            let tokens: Vec<Token> = std::iter::from_fn(|| self.hand_over()).collect();
            if tokens.is_empty() {
                return;
            }
            for token in tokens {
                let output = self.output.clone();
                self.give(Complete { token: &token, output });
            }
        }
    }
}

/// One run of the story; the time of what it is about, and the nodes that deciding all of it visited.
fn tell(story: Story, definition: &Arc<Definition>, size: usize) -> (Duration, u64) {
    let cancel = || Cancel { reason: "bench".into(), force: false };
    let begin = Instant::now();
    let mut line = Line::start(definition);
    let took = match story {
        Story::AllInFlight | Story::Default | Story::Widest | Story::Chain | Story::Repeat => {
            line.work(|_| false);
            begin.elapsed()
        }
        Story::Signals => {
            for _ in 0..size {
                line.give(SendSignal { name: "go".into(), payload: Payload::null(), dedup_id: None });
            }
            line.work(|_| false);
            begin.elapsed()
        }
        Story::Close => {
            let begin = Instant::now();
            line.give(cancel());
            begin.elapsed()
        }
        Story::Undo => {
            // The last step stays open, so that the run is there to be cancelled.
            line.ready.retain(|unit| &**unit != "last");
            line.work(|_| false);
            let begin = Instant::now();
            line.give(cancel());
            line.work(|_| false);
            begin.elapsed()
        }
    };
    assert!(line.run.state().is_over(), "{story:?} does not end");
    (took, line.run.work().visited)
}

/// Nanoseconds per unit, the same amount of work whatever the size.
fn per_unit(story: Story, definition: &Arc<Definition>, size: usize) -> f64 {
    let runs = story.sizes().1 / size;
    let took: Duration = (0..runs).map(|_| tell(story, definition, size).0).sum();
    took.as_nanos() as f64 / (runs * size) as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Whether a fan-out costs as much per element as it may.
fn ratios() -> bool {
    let mut fits = true;
    for story in STORIES {
        let (small, large) = story.sizes();
        let definitions = (story.definition(small), story.definition(large));
        let rounds: Vec<(f64, f64)> = (0..story.rounds())
            .map(|_| (per_unit(story, &definitions.0, small), per_unit(story, &definitions.1, large)))
            .collect();
        let at_small = median(rounds.iter().map(|round| round.0).collect());
        let at_large = median(rounds.iter().map(|round| round.1).collect());
        // Both sizes of one round met the same machine.
        let ratio = median(rounds.iter().map(|(small, large)| large / small).collect());
        let visited = |definition, size| tell(story, definition, size).1 as f64 / size as f64;
        let (few, many) = (visited(&definitions.0, small), visited(&definitions.1, large));
        println!(
            "{story:?}: {at_small:.0} ns per unit at {small}, {at_large:.0} ns at {large}, ratio {ratio:.3}; \
             {few:.2} and {many:.2} nodes visited per unit"
        );
        fits &= ratio <= RATIO_MAX || !matches!(story, Story::AllInFlight | Story::Default);
    }
    fits & waking()
}

/// Whether an execution with nearly as many events as there may be wakes up from as few rows as a young one.
fn waking() -> bool {
    let (young, old) = (woken_after(10), woken_after(198_000));
    println!("Waking: {} rows are read after {} events, {} after {}", young.1, young.0, old.1, old.0);
    young.1 == old.1
}

/// Events that lie behind, and rows read to wake up and take a signal.
fn woken_after(elements: usize) -> (u64, u64) {
    let each = |id: &str, count: usize| {
        let steps: Vec<Json> = (0..3).map(|n| json!({"id": format!("{id}{n}"), "compute": "1"})).collect();
        json!({"id": id, "for": {"each": format!("range({count})")}, "steps": steps})
    };
    let document = json!({
        "name": "bench", "version": "1.0.0", "signals": {"go": {}},
        "steps": [
            each("a", elements / 2), each("b", elements / 2),
            {"id": "wait", "after": ["a", "b"], "await": {"signal": "go"}},
            {"id": "nap", "after": ["wait"], "sleep": "1h"},
        ],
    });
    let definition = Arc::new(document::compile(&document.to_string(), Format::Json).unwrap().remove(0).definition);
    let mut line = Line::start(&definition);
    let shelf = Arc::new(shelf::Shelf::default());
    shelf.store(line.run.take_changes());
    shelf.take_reads();
    let rows: Arc<dyn ReadRows> = shelf.clone();
    let mut run = Run::asleep(definition, "bench", &rows, false).unwrap().unwrap();
    let events = run.state().head.seq;
    run.handle(1_000, SendSignal { name: "go".into(), payload: Payload::null(), dedup_id: None }).unwrap();
    (events, shelf.take_reads())
}

fn figures(criterion: &mut Criterion) {
    for story in STORIES {
        let mut group = criterion.benchmark_group(format!("{story:?}"));
        group.sample_size(10);
        let (small, large) = story.sizes();
        for size in [small, large] {
            let definition = story.definition(size);
            group.throughput(Throughput::Elements(size as u64));
            group.bench_with_input(BenchmarkId::from_parameter(size), &definition, |bencher, definition| {
                bencher.iter_custom(|times| (0..times).map(|_| tell(story, definition, size).0).sum());
            });
        }
        group.finish();
    }
}

fn main() {
    let fits = ratios();
    if std::env::var_os("RATIOS_ONLY").is_none() {
        let mut criterion = Criterion::default().configure_from_args();
        figures(&mut criterion);
        criterion.final_summary();
    }
    if !fits {
        println!("an element of a large fan-out costs over {RATIO_MAX} times what one of a small does");
        std::process::exit(1);
    }
}
