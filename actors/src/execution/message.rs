//! Messages of other executions: each takes effect in the commit that notes that it came.

use orbit_proto::engine::{Answer, Message, ParentOf, SendSignal, StartChild, StopChild};
use orbit_proto::engine::{answer, message::Body};
use orbit_raft::Environment;
use workflow::command::{Answered, Cancel, SendSignal as Signal, undeliverable, unstartable};
use workflow::event::{Parent, TaskError};
use workflow::key::Key;
use workflow::value::Payload;

use super::ask::Start;
use super::start::Origin;
use super::turn::Turn;
use super::{Life, Reply};
use crate::api::StartExecution;
use crate::error::{Code, Error, Result};
use crate::failure::of_storage;
use crate::post::{self, Batch};
use crate::table::{self, Number};

impl<E: Environment> Life<E> {
    pub(super) fn messages(&mut self, batch: Batch, reply: Reply<()>, turn: &mut Turn) {
        let taken = batch.messages.into_iter().try_for_each(|(number, message)| {
            // What comes after a batch that was cut waits for it: it is sent again.
            match self.loaded.as_ref().is_some_and(|loaded| loaded.unfinished) {
                true => Err(Error::new(Code::NoLeader, "a batch is not finished yet")),
                false => self.message(batch.source, number, message, turn),
            }
        });
        turn.answer(reply, taken);
    }

    fn message(&mut self, source: u16, number: Number, message: Message, turn: &mut Turn) -> Result<()> {
        let key = table::inbox(&self.id, source);
        let last = match turn.marks.get(&key) {
            Some(last) => Some(*last),
            None => {
                let row = self.context.group.read(|reader| reader.get(&key)).map_err(of_storage)?;
                row.as_deref().and_then(|row| row.get(1..)).and_then(|row| Number::try_from(row).ok())
            }
        };
        if last.is_some_and(|last| number <= last) {
            return Ok(());
        }
        let Message { from, body, .. } = message;
        match body {
            Some(Body::Start(start)) => self.start_child(&from, start, turn)?,
            Some(Body::Signal(signal)) => self.signal_from(&from, signal, turn)?,
            Some(Body::Stop(stop)) => self.stop_child(&from, &stop, turn)?,
            Some(Body::Answer(answer)) => self.answered(answer, turn)?,
            None => return Err(of_storage("a message that this version does not know")),
        }
        turn.marks.insert(key, number);
        Ok(())
    }

    /// No child twice, and none in the place of another (L8).
    fn start_child(&mut self, from: &str, start: StartChild, turn: &mut Turn) -> Result<()> {
        let StartChild { workflow, version, input, parent } = start;
        let parent = parent_in(parent.unwrap_or_default());
        let (run, step, attempt) = (parent.run, parent.step.to_string(), parent.attempt);
        let refused = match self.load()? {
            Some(loaded) if loaded.run.state().head.parent.as_ref() == Some(&parent) => return Ok(()),
            Some(_) => Some(Error::new(Code::ExecutionExists, "it is there already, and no child of this unit")),
            None => {
                let Some(definition) = self.context.definitions.local(&workflow, &version)? else {
                    let message = format!("the definition {workflow} {version} is not here yet");
                    return Err(Error::new(Code::NoLeader, message));
                };
                let input = payload(&input)?;
                let request = StartExecution { workflow, version: Some(version), input, ..StartExecution::default() };
                let origin = Origin { parent: Some(parent), ..Origin::default() };
                match self.begin(&Start { request, definition }, origin, turn) {
                    Ok(_) => None,
                    Err(error) if error.code == Code::InvalidInput => Some(error),
                    Err(error) => return Err(error),
                }
            }
        };
        if let Some(Error { code, message, .. }) = refused {
            let error = unstartable(code.as_str(), &self.id, &message);
            self.post(post::answer(&self.id, from, (run, step, attempt), Err(error)), turn);
        }
        Ok(())
    }

    fn signal_from(&mut self, from: &str, signal: SendSignal, turn: &mut Turn) -> Result<()> {
        let SendSignal { name, payload: text, run, step, attempt } = signal;
        let command = Signal { name, payload: payload(&text)?, dedup_id: None };
        let refused = match self.load()?.is_some() {
            false => Some(Error::new(Code::NotFound, post::NOT_THERE)),
            true => self.command(turn, command).err(),
        };
        let told = |error: Error| Err(undeliverable(error.code.as_str(), &self.id, &error.message));
        let result = refused.map_or(Ok(Payload::null()), told);
        self.post(post::answer(&self.id, from, (run, step, attempt), result), turn);
        Ok(())
    }

    fn stop_child(&mut self, from: &str, stop: &StopChild, turn: &mut Turn) -> Result<()> {
        let ours = |parent: &Parent| parent.execution_id == from && *parent.step == *stop.step;
        let ours = self.load()?.is_some_and(|loaded| loaded.run.state().head.parent.as_ref().is_some_and(ours));
        if ours {
            // Refused when it is over: its answer is under way.
            let _ = self.command(turn, Cancel { reason: "parent".to_owned(), force: stop.force });
        }
        Ok(())
    }

    fn answered(&mut self, answer: Answer, turn: &mut Turn) -> Result<()> {
        let Answer { run, step, attempt, result } = answer;
        let result = match result {
            Some(answer::Result::Output(output)) => Ok(payload(&output)?),
            Some(answer::Result::Error(error)) => Err(TaskError {
                details: error.details.as_deref().map(payload).transpose()?,
                retryable: error.retryable,
                ..TaskError::permanent(&error.code, &*error.message)
            }),
            None => return Err(of_storage("an answer that this version does not know")),
        };
        if self.load()?.is_some_and(|loaded| loaded.number == run) {
            // Refused when nobody waits for it any more: then nothing follows.
            let _ = self.command(turn, Answered { unit: &step, attempt, result });
        }
        Ok(())
    }

    fn post(&self, message: Message, turn: &mut Turn) {
        turn.extra_writes.push(table::post(&message.to, table::encode(&message)));
        turn.effects.posted.push(table::slot(&message.to));
    }
}

fn parent_in(parent: ParentOf) -> Parent {
    let ParentOf { execution_id, created_at_ms, run, step, attempt } = parent;
    Parent { execution_id, created_at_ms, run, step: Key::from(step.as_str()), attempt }
}

fn payload(text: &[u8]) -> Result<Payload> {
    let text = std::str::from_utf8(text).map_err(of_storage)?;
    Payload::parse(text).map_err(of_storage)
}
