//! What the tests share: documents without their head, one case on a document, and a run driven by hand.

use std::sync::Arc;

use workflow::case::{self, Checks, Report};
use workflow::command::{
    Batch, Command, Complete, Expire, Expiry, Fail, OfferTaken, Refusal, ResultAnswer, Run, Start, TimerDue, Token,
};
use workflow::definition::Definition;
use workflow::document::{self, Compiled, Format};
use workflow::event::{Event, Recorded, TaskError};
use workflow::value::{Payload, Value};

/// A document called `a`, version 1.0.0.
pub fn named(body: &str) -> String {
    format!("name: a\nversion: 1.0.0\n{}", body.trim_start_matches('\n'))
}

/// All documents of a source that is good.
pub fn compiled(source: &str) -> Vec<Compiled> {
    document::compile(source, Format::Yaml).unwrap_or_else(|faults| panic!("{faults}\n{source}"))
}

/// The only document of a source: `body` with a head.
pub fn compile(body: &str) -> Compiled {
    compiled(&named(body)).remove(0)
}

/// The first fault of a document that is none.
pub fn fault(body: &str) -> String {
    match document::compile(&named(body), Format::Yaml) {
        Ok(_) => panic!("accepted:\n{body}"),
        Err(faults) => faults.list()[0].to_string(),
    }
}

/// Runs one case, `{input: …, mocks: …, expect: …}` without its braces, on `body`; whatever else it says, each history
/// must add up to its state.
pub fn report(body: &str, case: &str) -> Report {
    let source = if body.starts_with("name:") { body.to_owned() } else { named(body) };
    let definitions: Vec<_> = compiled(&source).into_iter().map(|compiled| Arc::new(compiled.definition)).collect();
    let cases = case::parse(&format!("- {{name: it, {case}}}")).unwrap_or_else(|faults| panic!("{faults}\n{case}"));
    case::run(&cases[0], &definitions, Checks::Engine)
}

/// The case comes out as it says; gives the lines of all executions with their times.
pub fn shows(body: &str, case: &str) -> Vec<(u64, String)> {
    let report = report(body, case);
    let lines = || report.timeline.iter().map(|moment| (moment.at_ms, moment.line.clone()));
    let told = report.differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    assert!(report.passed(), "{told}\n{body}\n{:#?}", lines().collect::<Vec<_>>());
    lines().collect()
}

/// What the case expects and does not get.
pub fn differences(body: &str, case: &str) -> String {
    report(body, case).differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// When the first such line came.
pub fn at(lines: &[(u64, String)], line: &str) -> u64 {
    let found = lines.iter().find(|(_, found)| found == line);
    found.unwrap_or_else(|| panic!("no {line:?} in {lines:#?}")).0
}

/// The lines in their order, without times.
pub fn order(lines: &[(u64, String)]) -> Vec<&str> {
    lines.iter().map(|(_, line)| line.as_str()).collect()
}

/// A run driven by hand.
pub struct Driven {
    pub run: Run,
    pub history: Vec<Recorded>,
    pub now_ms: u64,
}

impl Driven {
    /// Execution `x` of `body`, started with `{}` at 1 s.
    pub fn start(body: &str) -> Self {
        Self::start_with(body, "{}").unwrap()
    }

    pub fn start_with(body: &str, input: &str) -> Result<Self, Refusal> {
        Self::begin(body, Start::with_input(json(input)))
    }

    pub fn begin(body: &str, start: Start) -> Result<Self, Refusal> {
        let run = Run::new(definition(body), "x");
        let mut driven = Self { run, history: Vec::new(), now_ms: 1_000 };
        driven.tell(start).map(|()| driven)
    }

    /// Takes a command and all batches that follow from it.
    pub fn tell<C: Command>(&mut self, command: C) -> Result<C::Answer, Refusal> {
        let (answer, batch) = self.run.handle(self.now_ms, command)?;
        self.take(batch);
        Ok(answer)
    }

    fn take(&mut self, mut batch: Batch) {
        while batch.unfinished {
            self.history.append(&mut batch.events);
            batch = self.run.proceed(self.now_ms);
        }
        self.history.append(&mut batch.events);
    }

    pub fn hand_over(&mut self, unit: &str) -> Token {
        let nonce = [7; 8];
        self.tell(OfferTaken { unit, worker_id: "w", worker_session: "s", nonce }).unwrap()
    }

    pub fn complete(&mut self, token: &Token, output: &str) -> ResultAnswer {
        self.tell(Complete { token, output: json(output) }).unwrap()
    }

    pub fn fail(&mut self, token: &Token, error: TaskError) -> ResultAnswer {
        self.tell(Fail { token, error, unknown: false }).unwrap()
    }

    /// Hands a unit over and completes it.
    pub fn do_it(&mut self, unit: &str, output: &str) {
        let token = self.hand_over(unit);
        assert!(self.complete(&token, output).accepted);
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

    pub fn lines(&self) -> Vec<String> {
        self.history.iter().map(|recorded| recorded.event.to_string()).collect()
    }

    /// The last event as it stands in the history.
    pub fn last_of(&self, kind: &str) -> serde_json::Value {
        let found = self.history.iter().rev().find(|recorded| recorded.event.name() == kind);
        serde_json::from_str(&found.unwrap_or_else(|| panic!("no {kind}: {:#?}", self.lines())).to_json()).unwrap()
    }

    pub fn result(&self) -> String {
        match &self.history.last().unwrap().event {
            Event::WorkflowCompleted(completed) => Value::from_json(completed.output.as_str()).unwrap().to_json(),
            other => panic!("{other}: {:#?}", self.lines()),
        }
    }
}

pub fn definition(body: &str) -> Arc<Definition> {
    Arc::new(compile(body).definition)
}

pub fn json(text: &str) -> Payload {
    Payload::parse(text).unwrap()
}
