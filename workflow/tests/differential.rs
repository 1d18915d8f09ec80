//! A second implementation of the language, in Python, runs random documents against random workers, callers and
//! disturbances and writes down commands and histories; the engine must write the same events (L4: the order of events
//! is a function of the state alone).
//!
//! `DIFFERENTIAL_SEEDS=first..end` chooses the seeds; a failing one prints the command that runs it again.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process};
use std::sync::Arc;

use serde_json::Value as Json;
use workflow::command::{
    Answered, Cancel, CarriedSignal, Complete, Expire, Expiry, Fail, OfferTaken, Pause, Redrive, Resume, Run,
    SendSignal, Start, TimeoutDue, TimerDue, Token, Uncertain,
};
use workflow::definition::Definition;
use workflow::document::{self, Format};
use workflow::event::{Event, Recorded, RedriveAction, TaskError, UncertainReason};
use workflow::key::Key;
use workflow::state::{Execution, Status};
use workflow::value::{Payload, Value};

mod history;
mod shelf;

#[allow(dead_code, reason = "each suite asks for a part of it")]
mod properties {
    pub mod constructs;
    pub mod outline;
}

use properties::constructs::Constructs;
use properties::outline::Outline;

/// A short form: `make long PART=differential` runs many more. On two free cores it takes two minutes.
const SEEDS: std::ops::Range<u32> = 0..4_000;

/// How often each construct that the model's documents have must have occurred in the short form.
const ENOUGH: u64 = 20;
const WORKERS: u32 = 2;

#[test]
fn the_second_implementation_writes_the_same_events() {
    let seeds = std::env::var("DIFFERENTIAL_SEEDS").map_or(SEEDS, |text| {
        let (first, end) = text.split_once("..").expect("DIFFERENTIAL_SEEDS=first..end");
        first.parse().unwrap()..end.parse().unwrap()
    });
    let share = seeds.len() as u32 / WORKERS + 1;
    let parts = (0..WORKERS).map(|n| {
        let first = (seeds.start + n * share).min(seeds.end);
        first..(first + share).min(seeds.end)
    });
    let mut table = Table::default();
    std::thread::scope(|scope| {
        let running: Vec<_> = parts.map(|part| scope.spawn(move || compare(part))).collect();
        for part in running {
            table.add(part.join().expect("a difference was found"));
        }
    });
    println!("{table}");
    if let Some(path) = std::env::var_os("ORBIT_FIGURES") {
        let figures = serde_json::json!({
            "seeds": format!("{}..{}", seeds.start, seeds.end),
            "figures": {
                "events": table.events, "runs": table.runs, "occurred": table.occurred,
                "constructs": table.constructs.events().collect::<BTreeMap<_, _>>(),
            },
        });
        std::fs::write(path, figures.to_string()).unwrap();
    }
    assert!(table.events > 40 * seeds.len() as u64, "too little happened to be a test: {table}");
    if seeds.len() >= SEEDS.len() {
        let rare: Vec<_> = table.constructs.events().filter(|(_, events)| *events < ENOUGH).collect();
        assert!(rare.is_empty(), "constructs that occur too rarely: {rare:?}");
    }
}

/// What occurred, how often.
#[derive(Default)]
struct Table {
    events: u64,
    runs: u64,
    occurred: BTreeMap<String, u64>,
    constructs: Constructs,
}

impl Table {
    fn add(&mut self, other: Self) {
        self.events += other.events;
        self.runs += other.runs;
        for (what, count) in other.occurred {
            *self.occurred.entry(what).or_default() += count;
        }
        self.constructs.add(&other.constructs);
    }

    fn count(&mut self, what: impl Into<String>) {
        *self.occurred.entry(what.into()).or_default() += 1;
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{} events of {} runs are the same", self.events, self.runs)?;
        for (what, count) in &self.occurred {
            writeln!(f, "{count:>9} {what}")?;
        }
        writeln!(f, "events by construct")?;
        for (construct, events) in self.constructs.events() {
            writeln!(f, "{events:>9} {construct}")?;
        }
        Ok(())
    }
}

fn model() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/model")
}

/// Emits and compares in pieces, so that little lies on the disk at a time.
fn compare(seeds: std::ops::Range<u32>) -> Table {
    let mut table = Table::default();
    let dir = std::env::temp_dir().join(format!("orbit-differential-{}-{}", std::process::id(), seeds.start));
    let mut next = start_emitting(&seeds, seeds.start, &dir.join("0"));
    for (turn, first) in seeds.clone().step_by(PIECE as usize).enumerate() {
        let here = dir.join(turn.to_string());
        let status = next.wait().expect("python3 runs");
        assert!(status.success(), "the model fails by itself: python3 fuzz.py {PIECE} {first}");
        next = start_emitting(&seeds, first + PIECE, &dir.join((turn + 1).to_string()));
        for seed in first..(first + PIECE).min(seeds.end) {
            let file = here.join(format!("{seed}.jsonl"));
            if let Ok(text) = std::fs::read_to_string(&file) {
                compare_file(seed, &text, &mut table);
            }
        }
        std::fs::remove_dir_all(&here).unwrap();
    }
    next.wait().unwrap();
    let _ = std::fs::remove_dir_all(&dir);
    table
}

const PIECE: u32 = 100;

fn start_emitting(seeds: &std::ops::Range<u32>, first: u32, dir: &Path) -> Child {
    let count = seeds.end.saturating_sub(first).min(PIECE);
    Process::new("python3")
        .arg(model().join("fuzz.py"))
        .args(["--emit-only", &count.to_string(), &first.to_string()])
        .arg(dir)
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("python3 is installed")
}

fn compare_file(seed: u32, text: &str, table: &mut Table) {
    let (mut definitions, mut outlines) = (HashMap::new(), HashMap::new());
    let mut runs: HashMap<(String, u64), Replayed> = HashMap::new();
    for line in text.lines() {
        let line: Json = serde_json::from_str(line).unwrap();
        if let Some(document) = line.get("document") {
            let Some(definition) = compile(seed, document) else {
                table.count("document left out");
                return;
            };
            outlines.insert(definition.name.clone(), Outline::of(document));
            definitions.insert(definition.name.clone(), Arc::new(definition));
            continue;
        }
        let id = line["execution_id"].as_str().unwrap().to_owned();
        let number = line["run"].as_u64().unwrap();
        let run = runs.entry((id.clone(), number)).or_insert_with(|| {
            let name = line["events"][0]["workflow"].as_str().unwrap();
            Replayed::new(seed, Run::new(Arc::clone(&definitions[name]), id))
        });
        if let Some(end) = line.get("end") { run.compare_end(end) } else { run.replay(&line, table) }
    }
    for run in runs.values() {
        table.runs += 1;
        let outline = &outlines[&run.run.definition().name];
        run.history.iter().for_each(|recorded| table.constructs.note(outline, &recorded.event));
        // Walking over everything at each event is slow; a part of the runs is enough to see a forgotten edge.
        if seed.is_multiple_of(4) {
            run.check();
        }
    }
}

/// What the engine refuses at registration and the model only when it is evaluated.
const SEEN_EARLIER: &str = "`steps` is no value by itself";

fn compile(seed: u32, document: &Json) -> Option<Definition> {
    if evaluates_an_input_in_vain(document) {
        return None;
    }
    match document::compile(&document.to_string(), Format::Json) {
        Ok(mut compiled) => Some(compiled.remove(0).definition),
        Err(faults) if faults.to_string().lines().all(|line| line.contains(SEEN_EARLIER)) => None,
        Err(faults) => panic!("seed {seed}: the model accepts this document, the engine does not:\n{faults}"),
    }
}

/// The model evaluates an `input` beside an undo by signal, though it has no use for it; that may fail.
fn evaluates_an_input_in_vain(document: &Json) -> bool {
    let undo = document.get("compensate").filter(|undo| undo.get("signal").is_some());
    if undo.is_some_and(|undo| undo["input"].to_string().contains("output.n")) {
        return true;
    }
    match document {
        Json::Object(members) => members.values().any(evaluates_an_input_in_vain),
        Json::Array(items) => items.iter().any(evaluates_an_input_in_vain),
        _ => false,
    }
}

/// A run that follows the model's commands.
struct Replayed {
    seed: u32,
    run: Run,
    history: Vec<Recorded>,
    /// The model's token → ours.
    tokens: HashMap<String, String>,
    /// Where the run sleeps between commands, for some seeds.
    shelf: Option<Arc<shelf::Shelf>>,
}

impl Replayed {
    fn new(seed: u32, run: Run) -> Self {
        let shelf = seed.is_multiple_of(3).then(Arc::default);
        Self { seed, run, history: Vec::new(), tokens: HashMap::new(), shelf }
    }

    fn replay(&mut self, line: &Json, table: &mut Table) {
        let at_ms = line["at_ms"].as_u64().unwrap();
        let before = self.history.len();
        let answer = self.give(line, at_ms);
        let command = line["command"].as_str().unwrap();
        table.count(format!("command {command}{}", if answer.is_err() { " refused" } else { "" }));
        let expected = line["events"].as_array().unwrap();
        let place = format!("seed {}, {}: {}", self.seed, self.run.execution_id(), brief(line));
        for (index, expected) in expected.iter().enumerate() {
            let Some(ours) = self.history.get(before + index) else {
                self.fail(&place, &format!("nothing more, but the model goes on with {expected}"));
            };
            if let (Some(token), Event::StepDispatched(e)) = (expected["token"].as_str(), &ours.event) {
                self.tokens.insert(token.to_owned(), e.token.clone());
            }
            let (a, b) = (normal(expected, &self.tokens), normal(&parse(&ours.to_json()), &HashMap::new()));
            if a != b {
                self.fail(&place, &format!("\n  model  {a}\n  engine {b}"));
            }
            table.count(ours.event.name());
            table.events += 1;
        }
        if let Some(more) = self.history.get(before + expected.len()) {
            self.fail(&place, &format!("the model is done, the engine goes on with {}", more.to_json()));
        }
        let faults = self.run.state().check();
        assert!(faults.is_empty(), "{place}: {faults:?}");
    }

    /// Folding gives the state, and walking over everything gives each event of the history.
    fn check(&self) {
        let place = format!("seed {}, {}", self.seed, self.run.execution_id());
        history::check(self.run.definition(), self.run.execution_id(), &self.history, &place);
        assert_eq!(&Execution::fold(&self.history), self.run.state(), "{place}: the fold is another state");
    }

    fn fail(&self, place: &str, what: &str) -> ! {
        let last = self.history.iter().rev().take(12).rev();
        let lines: Vec<_> = last.map(|e| format!("    {} {} {}", e.seq, e.timestamp_ms, e.event)).collect();
        panic!(
            "{place}: {what}\n  history:\n{}\n  \
             again: DIFFERENTIAL_SEEDS={}..{} cargo test -p orbit-workflow --test differential",
            lines.join("\n"),
            self.seed,
            self.seed + 1
        );
    }

    fn handle<C: workflow::command::Command>(&mut self, at_ms: u64, command: C) -> Result<(), String> {
        let (_, mut batch) = self.run.handle(at_ms, command).map_err(|refusal| refusal.to_string())?;
        loop {
            self.history.append(&mut batch.events);
            self.sleep(batch.unfinished);
            if !batch.unfinished {
                return Ok(());
            }
            batch = self.run.proceed(at_ms);
        }
    }

    /// Stores what changed, forgets the run and wakes it up with nothing but its head: the same must follow.
    fn sleep(&mut self, unfinished: bool) {
        let Some(shelf) = &self.shelf else { return };
        shelf.store(self.run.take_changes());
        let rows: Arc<dyn workflow::state::ReadRows> = shelf.clone();
        let (definition, id) = (Arc::clone(self.run.definition()), self.run.execution_id().to_owned());
        self.run = Run::asleep(definition, id, &rows, unfinished).unwrap().expect("it was stored");
        assert_eq!(rows.failure(), None);
    }

    fn give(&mut self, line: &Json, at: u64) -> Result<(), String> {
        let text = |name: &str| line[name].as_str().map(str::to_owned);
        let step = text("step").unwrap_or_default();
        let payload = |value: &Json| Payload::parse(&value.to_string()).unwrap();
        match line["command"].as_str().unwrap() {
            "start" => self.handle(at, start(line)),
            "dispatch" => {
                let offer = OfferTaken { unit: &step, worker_id: "w", worker_session: "s", nonce: [7; 8] };
                self.handle(at, offer)
            }
            "complete" => {
                let token = self.token(line)?;
                self.handle(at, Complete { token: &token, output: payload(&line["output"]) })
            }
            "fail" => {
                let token = self.token(line)?;
                let unknown = line["unknown"].as_bool().unwrap_or(false);
                self.handle(at, Fail { token: &token, error: error(&line["error"]), unknown })
            }
            "uncertain" => {
                let token = self.token(line)?;
                let reason: UncertainReason = serde_json::from_value(line["reason"].clone()).unwrap();
                self.handle(at, Uncertain { token: &token, reason })
            }
            "expire" => {
                let expiry = match line["code"].as_str().unwrap() {
                    "TIMEOUT" => Expiry::Timeout,
                    "HEARTBEAT_TIMEOUT" => Expiry::Heartbeat,
                    _ => Expiry::Queue,
                };
                self.handle(at, Expire { unit: &step, expiry })
            }
            "answered" => {
                let result = match line.get("error").filter(|error| !error.is_null()) {
                    Some(fault) => Err(error(fault)),
                    None => Ok(payload(&line["output"])),
                };
                let attempt = line["attempt"].as_u64().unwrap() as u32;
                self.handle(at, Answered { unit: &step, attempt, result })
            }
            "timer" => self.handle(at, TimerDue { timer: &step }),
            "workflow_timeout" => self.handle(at, TimeoutDue),
            "signal" => {
                let name = text("name").unwrap();
                self.handle(at, SendSignal { name, payload: payload(&line["payload"]), dedup_id: text("dedup_id") })
            }
            "cancel" => {
                let force = line["force"].as_bool().unwrap_or(false);
                self.handle(at, Cancel { reason: text("reason").unwrap_or_default(), force })
            }
            "pause" => self.handle(at, Pause),
            "resume" => self.handle(at, Resume),
            "redrive" => self.handle(at, redrive(line)),
            other => panic!("the model gives a command {other}"),
        }
    }

    fn token(&self, line: &Json) -> Result<Token, String> {
        let token = line["token"].as_str().unwrap();
        self.tokens.get(token).ok_or("unknown token")?.parse().map_err(|_| "no token".to_owned())
    }

    fn compare_end(&self, end: &Json) {
        let state = self.run.state();
        let place = format!("seed {}, {}", self.seed, self.run.execution_id());
        assert_eq!(state.head.status.as_str(), end["status"].as_str().unwrap(), "{place}");
        let units = end["units"].as_object().unwrap();
        assert_eq!(state.units.len(), units.len(), "{place}");
        for (key, theirs) in units {
            let ours = state.unit(key).unwrap_or_else(|| panic!("{place}: no unit {key}"));
            assert_eq!(name(ours.status), theirs["status"].as_str().unwrap(), "{place}: {key}");
            assert_eq!(u64::from(ours.attempt), theirs["attempt"].as_u64().unwrap(), "{place}: {key}");
            assert_eq!(ours.unknown, theirs["unknown"].as_bool().unwrap(), "{place}: {key}");
            let output = ours.output.as_ref().map_or(Value::Null, Payload::value);
            assert_eq!(output, Value::from(&theirs["output"]), "{place}: {key}");
        }
    }
}

fn start(line: &Json) -> Start {
    let carried = line["carried"].as_array().into_iter().flatten().map(|signal| CarriedSignal {
        signal: signal["signal"].as_str().unwrap().to_owned(),
        payload: Payload::parse(&signal["payload"].to_string()).unwrap(),
        dedup_id: signal["dedup_id"].as_str().map(str::to_owned),
    });
    let run = line["run"].as_u64().unwrap() as u32;
    Start {
        run,
        first_created_at_ms: (run > 1).then(|| line["created_at_ms"].as_u64().unwrap()),
        parent: line.get("parent").filter(|p| !p.is_null()).map(|p| serde_json::from_value(p.clone()).unwrap()),
        carried: carried.collect(),
        ..Start::with_input(Payload::parse(&line["input"].to_string()).unwrap())
    }
}

fn redrive(line: &Json) -> Redrive {
    let steps =
        line["steps"].as_array().map(|steps| steps.iter().map(|key| Key::from(key.as_str().unwrap())).collect());
    let action = match line["action"].as_str().unwrap_or("retry") {
        "retry" => RedriveAction::Retry,
        "resolve" => RedriveAction::Resolve,
        _ => RedriveAction::Fail,
    };
    let output = line.get("output").map(|output| Payload::parse(&output.to_string()).unwrap());
    Redrive { steps, action, output }
}

fn error(json: &Json) -> TaskError {
    serde_json::from_value(json.clone()).unwrap()
}

fn parse(text: &str) -> Json {
    serde_json::from_str(text).unwrap()
}

fn brief(line: &Json) -> String {
    let mut line = line.clone();
    let members = line.as_object_mut().unwrap();
    for name in ["events", "created_at_ms", "execution_id"] {
        members.remove(name);
    }
    line.to_string()
}

/// What may differ is taken out: what the model leaves out, tokens, and the words of messages that Orbit makes.
fn normal(event: &Json, tokens: &HashMap<String, String>) -> Value {
    let mut event = event.clone();
    let members = event.as_object_mut().unwrap();
    members.retain(|_, value| !value.is_null());
    members.remove("definition_hash");
    if let Some(token) = members.get_mut("token") {
        let ours = token.as_str().and_then(|theirs| tokens.get(theirs)).map_or("", String::as_str);
        if !ours.is_empty() {
            *token = Json::from(ours);
        }
    }
    let makes_its_own = |code: &Json| code.as_str().is_some_and(workflow::event::is_own_code);
    for name in ["error", "failure"] {
        let Some(error) = members.get_mut(name).and_then(Json::as_object_mut) else { continue };
        if name == "failure" {
            // The page names reason, code, message and details; the model passes the whole error on.
            error.remove("retryable");
        }
        if error.get("code").is_some_and(makes_its_own) {
            error.remove("message");
        }
    }
    Value::from(&event)
}

fn name(status: Status) -> &'static str {
    match status {
        Status::Pending => "pending",
        Status::Waiting => "waiting",
        Status::Open => "open",
        Status::Scheduled => "scheduled",
        Status::Dispatched => "dispatched",
        Status::Uncertain => "uncertain",
        Status::AttemptFailed => "attempt_failed",
        Status::RetryWait => "retry_wait",
        Status::Suspended => "suspended",
        Status::Resolving => "resolving",
        Status::Failing => "failing",
        Status::Redriven => "redriven",
        Status::Succeeded => "succeeded",
        Status::Failed => "failed",
        Status::Skipped => "skipped",
        Status::Cancelled => "cancelled",
    }
}
