//! What the tests share: a document around a few steps, one case on it, and a run that is driven by hand.

use std::sync::Arc;

use workflow::case::{self, Checks};
use workflow::command::{
    Cancel, Command, Complete, Expire, Expiry, Fail, OfferTaken, Redrive, Refusal, ResultAnswer, Run, SendSignal,
    Start, TimerDue, Token, Uncertain,
};
use workflow::definition::Definition;
use workflow::document::{self, Format};
use workflow::event::{Event, Recorded, RedriveAction, TaskError, UncertainReason};
use workflow::key::Key;
use workflow::value::Payload;

/// Tasks that any document here may use without saying so.
const TASKS: &str = "tasks: {t.a: {version: 1.0.0}, t.b: {version: 1.0.0}, t.c: {version: 1.0.0}, \
                     t.undo: {version: 1.0.0}, t.undo2: {version: 1.0.0}, t.note: {version: 1.0.0}}\n";

/// `body` with a head and the usual tasks, where it has none of its own; more documents may follow.
fn whole(body: &str) -> String {
    let body = body.trim_start_matches('\n');
    let first = body.split("\n---").next().unwrap_or_default();
    let tasks = if first.contains("tasks:") { "" } else { TASKS };
    format!("name: w\nversion: 1.0.0\n{tasks}{body}")
}

pub fn definitions(body: &str) -> Vec<Arc<Definition>> {
    let source = whole(body);
    let compiled = document::compile(&source, Format::Yaml).unwrap_or_else(|faults| panic!("{faults}\n{source}"));
    compiled.into_iter().map(|compiled| Arc::new(compiled.definition)).collect()
}

/// The faults of a document that is none.
pub fn faults(body: &str) -> String {
    document::compile(&whole(body), Format::Yaml).expect_err("the document is refused").to_string()
}

/// What happened, line by line, each with its time.
pub struct Story(Vec<(u64, String)>);

/// Runs one case, `mocks: …, expect: …`, on `body`. It must come out as it says, and each history add up to its state.
pub fn shows(body: &str, case: &str) -> Story {
    let cases = case::parse(&format!("- {{name: it, {case}}}")).unwrap_or_else(|faults| panic!("{faults}\n{case}"));
    let report = case::run(&cases[0], &definitions(body), Checks::Engine);
    let story = Story(report.timeline.iter().map(|moment| (moment.at_ms, moment.line.clone())).collect());
    let told: Vec<_> = report.differences.iter().map(ToString::to_string).collect();
    assert!(told.is_empty(), "{}\n{body}\n{:#?}", told.join("\n"), story.0);
    story
}

impl Story {
    pub fn lines(&self) -> &[(u64, String)] {
        &self.0
    }

    /// When `line` came first.
    pub fn at(&self, line: &str) -> u64 {
        let found = self.0.iter().find(|(_, found)| found == line);
        found.unwrap_or_else(|| panic!("no {line:?} in {:#?}", self.0)).0
    }

    /// The lines from the first `from` to the first `to` after it.
    pub fn part(&self, from: &str, to: &str) -> Vec<&str> {
        part(self.0.iter().map(|(_, line)| line.as_str()), from, to)
    }
}

fn part<'a>(lines: impl Iterator<Item = &'a str> + Clone, from: &str, to: &str) -> Vec<&'a str> {
    let all: Vec<_> = lines.clone().collect();
    let mut found = Vec::new();
    for line in lines.skip_while(|line| *line != from) {
        found.push(line);
        if line == to {
            return found;
        }
    }
    panic!("no part from {from:?} to {to:?} in {all:#?}");
}

/// A run driven by hand, execution `x`.
pub struct Play {
    pub run: Run,
    pub history: Vec<Recorded>,
    pub now_ms: u64,
}

impl Play {
    /// Started with `{}` at 1 s.
    pub fn start(body: &str) -> Self {
        Self::begin(body, Start::with_input(json("{}")))
    }

    pub fn begin(body: &str, start: Start) -> Self {
        let run = Run::new(definitions(body).remove(0), "x");
        let mut play = Self { run, history: Vec::new(), now_ms: 1_000 };
        play.tell(start).unwrap();
        play
    }

    /// Takes a command and all batches that follow from it.
    pub fn tell<C: Command>(&mut self, command: C) -> Result<C::Answer, Refusal> {
        let (answer, mut batch) = self.run.handle(self.now_ms, command)?;
        while batch.unfinished {
            self.history.append(&mut batch.events);
            batch = self.run.proceed(self.now_ms);
        }
        self.history.append(&mut batch.events);
        Ok(answer)
    }

    pub fn hand_over(&mut self, unit: &str) -> Token {
        self.tell(OfferTaken { unit, worker_id: "w", worker_session: "s", nonce: [7; 8] }).unwrap()
    }

    pub fn complete(&mut self, token: &Token, output: &str) -> ResultAnswer {
        self.tell(Complete { token, output: json(output) }).unwrap()
    }

    pub fn fail(&mut self, token: &Token, code: &str) -> ResultAnswer {
        self.tell(Fail { token, error: TaskError::permanent(code, ""), unknown: false }).unwrap()
    }

    pub fn fail_for_now(&mut self, token: &Token, code: &str) -> ResultAnswer {
        self.tell(Fail { token, error: TaskError::transient(code, ""), unknown: false }).unwrap()
    }

    /// Hands `unit` over and completes it.
    pub fn succeed(&mut self, unit: &str, output: &str) {
        let token = self.hand_over(unit);
        assert!(self.complete(&token, output).accepted);
    }

    /// Hands `unit` over and fails it for good.
    pub fn give_up(&mut self, unit: &str, code: &str) {
        let token = self.hand_over(unit);
        assert!(self.fail(&token, code).accepted);
    }

    pub fn lose(&mut self, token: &Token) {
        self.tell(Uncertain { token, reason: UncertainReason::WorkerLost }).unwrap();
    }

    pub fn expire(&mut self, unit: &str, expiry: Expiry) {
        self.tell(Expire { unit, expiry }).unwrap();
    }

    /// Lets time pass until the timer is due, and fires it.
    pub fn fire(&mut self, timer: &str) {
        let due = self.run.state().timers.get(timer).and_then(|timer| timer.fire_at_ms);
        self.now_ms = self.now_ms.max(due.unwrap_or_else(|| panic!("{timer} does not run: {:#?}", self.lines())));
        self.tell(TimerDue { timer }).unwrap();
    }

    pub fn signal(&mut self, name: &str, payload: &str) -> Result<(), Refusal> {
        self.tell(SendSignal { name: name.to_owned(), payload: json(payload), dedup_id: None }).map(drop)
    }

    pub fn cancel(&mut self, force: bool) -> Result<(), Refusal> {
        self.tell(Cancel { reason: "asked".to_owned(), force })
    }

    pub fn redrive(&mut self, steps: &[&str], action: RedriveAction, output: Option<&str>) -> Result<(), Refusal> {
        let steps = (!steps.is_empty()).then(|| steps.iter().map(|step| Key::from(*step)).collect());
        self.tell(Redrive { steps, action, output: output.map(json) })
    }

    pub fn lines(&self) -> Vec<String> {
        self.history.iter().map(|recorded| recorded.event.to_string()).collect()
    }

    /// The lines that came after the first `count` events.
    pub fn since(&self, count: usize) -> Vec<String> {
        self.lines().split_off(count)
    }

    /// The last event of a type as it stands in the history.
    pub fn last_of(&self, kind: &str) -> serde_json::Value {
        let found = self.history.iter().rev().find(|recorded| recorded.event.name() == kind);
        serde_json::from_str(&found.unwrap_or_else(|| panic!("no {kind}: {:#?}", self.lines())).to_json()).unwrap()
    }

    /// What the workflow completed with.
    pub fn output(&self) -> &str {
        match &self.history.last().unwrap().event {
            Event::WorkflowCompleted(completed) => completed.output.as_str(),
            other => panic!("{other}: {:#?}", self.lines()),
        }
    }
}

pub fn json(text: &str) -> Payload {
    Payload::parse(text).unwrap()
}
