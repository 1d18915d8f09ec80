//! What callers do, at which time, and what they must be told.

use super::file::{CancelStep, Case, PlainStep, QueryStep, RedriveStep, SignalStep, StartStep, Told};
use super::refused::Refused;
use super::report::{self, Difference};
use super::scalar::Ms;
use super::world::World;
use crate::command::{Cancel, Pause, Redrive, Resume};
use crate::decide::BlockScope;
use crate::event::RedriveAction;
use crate::key::Key;
use crate::value::{Payload, Value};

/// The execution that is meant when a case names none.
pub(super) const MAIN: &str = "x";

/// Something that a caller does.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) at_ms: u64,
    told: Told,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Start(StartStep),
    Signal(SignalStep),
    Cancel(CancelStep),
    Pause(PlainStep),
    Resume(PlainStep),
    Redrive(RedriveStep),
    Query(QueryStep),
}

impl Step {
    /// The script of a case, in the order in which things of the same moment happen.
    pub(super) fn of(case: &Case) -> Vec<Self> {
        let mut steps = Vec::new();
        let mut add = |at: Ms, told: Told, what: What| steps.push(Self { at_ms: at.0, told, what });
        for step in case.all_starts() {
            add(step.at, step.told(), What::Start(step));
        }
        for step in &case.signals {
            add(step.at, step.told(), What::Signal(step.clone()));
        }
        for step in &case.cancel.0 {
            add(step.at, step.told(), What::Cancel(step.clone()));
        }
        for step in &case.pause.0 {
            add(step.at, step.told(), What::Pause(step.clone()));
        }
        for step in &case.resume.0 {
            add(step.at, step.told(), What::Resume(step.clone()));
        }
        for step in &case.redrive {
            add(step.at, step.told(), What::Redrive(step.clone()));
        }
        for step in &case.queries {
            add(step.at, Told::default(), What::Query(step.clone()));
        }
        steps
    }

    /// For messages.
    fn name(&self) -> String {
        let what = match &self.what {
            What::Start(step) => format!("start {}", step.id),
            What::Signal(step) => format!("signal {}", step.name),
            What::Cancel(_) => "cancel".to_owned(),
            What::Pause(_) => "pause".to_owned(),
            What::Resume(_) => "resume".to_owned(),
            What::Redrive(_) => "redrive".to_owned(),
            What::Query(step) => format!("query {}", step.name),
        };
        format!("{what} at {}", report::duration(self.at_ms))
    }

    /// Whether a refusal that the case says nothing about is a difference: signals and cancels may come too late.
    fn must_succeed(&self, refused: Option<&str>) -> bool {
        !matches!(self.what, What::Signal(_) | What::Cancel(_)) || refused != Some("EXECUTION_FINISHED")
    }
}

fn target(to: Option<&String>) -> &str {
    to.map_or(MAIN, String::as_str)
}

fn payload(value: Option<&Value>) -> Payload {
    match value {
        None | Some(Value::Null) => Payload::from(Value::map::<&str>([])),
        Some(value) => Payload::from(value),
    }
}

impl World<'_> {
    /// Step `index` of the script happens.
    pub(super) fn play(&mut self, index: usize) {
        let step = self.script[index].clone();
        let answer = match &step.what {
            What::Start(start) => self.start_by_name(start),
            What::Signal(signal) => self.send(signal),
            What::Cancel(cancel) => {
                let command = Cancel { reason: "test".to_owned(), force: cancel.force };
                self.tell(target(cancel.to.as_ref()), command).map(|()| Value::Null)
            }
            What::Pause(pause) => self.tell(target(pause.to.as_ref()), Pause).map(|()| Value::Null),
            What::Resume(resume) => self.tell(target(resume.to.as_ref()), Resume).map(|()| Value::Null),
            What::Redrive(redrive) => self.redrive(redrive),
            What::Query(query) => return self.query(&step, query),
        };
        self.compare_answer(&step, answer);
    }

    fn compare_answer(&mut self, step: &Step, answer: Result<Value, Refused>) {
        let refused = answer.as_ref().err().map(|refused| refused.code);
        let came = match &answer {
            Ok(answer) if answer.is_null() => "accepted".to_owned(),
            Ok(answer) => format!("accepted with {answer}"),
            Err(refused) => refused.to_string(),
        };
        let expected = step.told.refused.as_deref();
        if refused != expected && (expected.is_some() || step.must_succeed(refused)) {
            self.start_refused |= matches!(step.what, What::Start(_)) && refused.is_some();
            let expected = expected.map_or("accepted".to_owned(), |code| format!("refused {code}"));
            self.differences.push(Difference::new(step.name(), expected, came));
        } else if let Some(expected) = &step.told.answer
            && answer.as_ref() != Ok(expected)
        {
            self.differences.push(Difference::new(step.name(), format!("accepted with {expected}"), came));
        }
    }

    fn start_by_name(&mut self, step: &StartStep) -> Result<Value, Refused> {
        let definition = match &step.workflow {
            Some(name) => self.definition(name, None),
            None => self.definitions.first().cloned(),
        };
        let definition = definition.ok_or_else(|| {
            let known: Vec<_> = self.definitions.iter().map(|definition| definition.name.as_str()).collect();
            Refused::because("WORKFLOW_NOT_FOUND", format!("the documents here are {}", known.join(", ")))
        })?;
        self.start(&step.id, &definition, payload(step.input.as_ref()), None).map(|()| Value::Null)
    }

    fn send(&mut self, step: &SignalStep) -> Result<Value, Refused> {
        let to = target(step.to.as_ref());
        let accepted = self.signal(to, &step.name, payload(step.payload.as_ref()), step.dedup_id.as_deref())?;
        Ok(Value::map([("run", Value::from(accepted.run)), ("seq", Value::from(accepted.seq))]))
    }

    fn redrive(&mut self, step: &RedriveStep) -> Result<Value, Refused> {
        let steps = step.steps.as_ref();
        let command = Redrive {
            steps: steps.map(|steps| steps.iter().map(|key| Key::from(key.as_str())).collect()),
            action: step.action.unwrap_or(RedriveAction::Retry),
            output: step.output.as_ref().map(Payload::from),
        };
        self.tell(target(step.to.as_ref()), command).map(|()| Value::Null)
    }

    fn query(&mut self, step: &Step, query: &QueryStep) {
        let came = match self.newest(target(query.to.as_ref())) {
            None => Err("there is no such execution".to_owned()),
            Some(at) => {
                let run = &self.lives[at.0].run;
                match run.definition().queries.get(&query.name) {
                    None => Err("the workflow declares no such query".to_owned()),
                    Some(expression) => {
                        let scope = BlockScope::root(run.facts(self.now_ms));
                        expression.evaluate(&scope).map_err(|error| format!("EXPRESSION_ERROR: {}", error.message))
                    }
                }
            }
        };
        if came.as_ref() != Ok(&query.value) {
            let came = came.map_or_else(|fault| fault, |value| value.to_string());
            self.differences.push(Difference::new(step.name(), query.value.to_string(), came));
        }
    }
}
