//! What follows for others from the events of a run.

use orbit_proto::engine::{Answer, AnswerError, Message, ParentOf, SendSignal, StartChild, StopChild};
use orbit_proto::engine::{answer, message::Body};
use workflow::command::{Run, end_of_child, undeliverable};
use workflow::event::{Event, Parent, Recorded, StepScheduled, TaskError};
use workflow::key::{self, Key};
use workflow::state::{RunStatus, Unit, Work};
use workflow::value::{Payload, Value};

use crate::engine::is_id;
use crate::error::Code;

/// Messages that follow from events just decided. `was_over`: the run had ended before them.
pub(crate) fn outgoing(run: &Run, events: &[Recorded], was_over: bool) -> Vec<Message> {
    let mut bodies = Vec::new();
    for recorded in events {
        match &recorded.event {
            Event::StepScheduled(event) => bodies.extend(delivery(run, event)),
            Event::StepClosing(event) if !run.state().is_over() => {
                let below = children(run, &event.step).filter(|(key, ..)| !key::is_undo(key));
                bodies.extend(below.map(|(key, child)| stop(key, child, false)));
            }
            _ => {}
        }
    }
    if run.state().is_over() && !was_over && run.state().head.status != RunStatus::Continued {
        // Only a force leaves children behind.
        bodies.extend(children(run, key::ROOT).map(|(key, child)| stop(key, child, true)));
        bodies.extend(end(run));
    }
    let from = run.execution_id();
    bodies.into_iter().map(|(to, body)| Message { to, from: from.to_owned(), body: Some(body) }).collect()
}

/// A message that answers another.
pub(crate) fn answer(
    from: &str,
    to: &str,
    (run, step, attempt): (u32, String, u32),
    result: Result<Payload, TaskError>,
) -> Message {
    let body = Some(Body::Answer(answer_body(run, step, attempt, result)));
    Message { to: to.to_owned(), from: from.to_owned(), body }
}

fn answer_body(run: u32, step: String, attempt: u32, result: Result<Payload, TaskError>) -> Answer {
    let result = match result {
        Ok(output) => answer::Result::Output(output.as_str().to_owned().into()),
        Err(error) => answer::Result::Error(AnswerError {
            code: error.code,
            message: error.message,
            retryable: error.retryable,
            details: error.details.map(|details| details.as_str().to_owned().into()),
        }),
    };
    Answer { run, step, attempt, result: Some(result) }
}

/// Said of an execution that cannot be there.
pub(crate) const NOT_THERE: &str = "there is no such execution";

/// An attempt of a child or signal, if it is still under way.
fn delivery(run: &Run, event: &StepScheduled) -> Option<(String, Body)> {
    let unit = run.state().unit(&event.step).filter(|unit| unit.attempt == event.attempt && unit.is_in_flight())?;
    let head = &run.state().head;
    let (step, attempt) = (event.step.to_string(), event.attempt);
    match unit.work.as_ref()? {
        Work::Task(_) => None,
        Work::Signal(target) => {
            let to = target.execution.clone();
            if !is_id(&to) {
                // Nobody can be there: the sender answers itself.
                let result = Err(undeliverable(Code::NotFound.as_str(), &to, NOT_THERE));
                let body = Body::Answer(answer_body(head.run, step, attempt, result));
                return Some((run.execution_id().to_owned(), body));
            }
            let (name, run) = (target.name.clone(), head.run);
            let payload = input(unit).filter(|payload| !payload.is_null());
            let payload = payload.unwrap_or_else(|| Payload::from(Value::map::<&str>([])));
            let payload = payload.as_str().to_owned().into();
            Some((to, Body::Signal(SendSignal { name, payload, run, step, attempt })))
        }
        Work::Child(child) => {
            let parent = ParentOf {
                execution_id: run.execution_id().to_owned(),
                created_at_ms: head.first_created_at_ms,
                run: head.run,
                step,
                attempt,
            };
            let start = StartChild {
                workflow: child.workflow.clone(),
                version: child.version.clone(),
                input: input(unit).unwrap_or_default().as_str().to_owned().into(),
                parent: Some(parent),
            };
            Some((child.id.clone(), Body::Start(start)))
        }
    }
}

fn input(unit: &Unit) -> Option<Payload> {
    unit.input.clone()
}

/// Children under way at or below `top`, in the order in which they were begun.
fn children<'r>(run: &'r Run, top: &'r str) -> impl Iterator<Item = (&'r Key, &'r str)> {
    let child = |(key, unit): (&'r Key, &'r Unit)| match &unit.work {
        Some(Work::Child(child)) if unit.is_in_flight() => Some((unit.since, key, child.id.as_str())),
        _ => None,
    };
    let mut children: Vec<_> = run.state().units.under(top).filter_map(child).collect();
    children.sort_by_key(|(since, ..)| *since);
    children.into_iter().map(|(_, key, child)| (key, child))
}

fn stop(key: &Key, child: &str, force: bool) -> (String, Body) {
    (child.to_owned(), Body::Stop(StopChild { step: key.to_string(), force }))
}

/// What the parent is told of an end.
fn end(run: &Run) -> Option<(String, Body)> {
    let (parent, result) = end_of_child(run)?;
    let Parent { execution_id, run: number, step, attempt, .. } = parent;
    Some((execution_id, Body::Answer(answer_body(number, step.to_string(), attempt, result))))
}
