//! The first ask of an execution, and its repetitions.

use orbit_proto::engine;
use orbit_raft::Environment;
use sha2::{Digest, Sha256};
use workflow::command::{self, CarriedSignal, Run};
use workflow::definition::Definition;
use workflow::event::Parent;
use workflow::value::Payload;

use super::ask::Start;
use super::loaded::{Expected, Loaded};
use super::turn::Turn;
use super::{Life, Reply};
use crate::api::Started;
use crate::error::{Code, Error, Result};
use crate::failure::of_storage;
use crate::table;

/// What an execution begins with beside what was asked for.
#[derive(Default)]
pub(super) struct Origin {
    /// Signals that are there before anything is decided.
    pub(super) carried: Vec<CarriedSignal>,
    /// Whose child it is.
    pub(super) parent: Option<Parent>,
}

impl<E: Environment> Life<E> {
    pub(super) fn start(&mut self, start: Start, reply: Reply<Started>, turn: &mut Turn) {
        let known = self.load().map(|loaded| loaded.map(|loaded| loaded.number));
        let answer = match known {
            Ok(Some(run)) => self.again(&start, run, turn),
            // A child that a parent on another node waits for begins all the same.
            Ok(None) => self.context.may_begin().and_then(|()| self.begin(&start, Origin::default(), turn)),
            Err(error) => Err(error),
        };
        turn.answer(reply, answer);
    }

    pub(super) fn begin(&mut self, start: &Start, origin: Origin, turn: &mut Turn) -> Result<Started> {
        let request = &start.request;
        let run = self.limited(Run::new(start.definition.clone(), &*self.id));
        self.loaded = Some(Loaded::new(run, 1, Expected::Absent));
        let command = command::Start {
            priority: request.priority,
            fairness_key: request.fairness_key.clone(),
            traceparent: request.traceparent.clone(),
            carried: origin.carried,
            parent: origin.parent,
            ..command::Start::with_input(request.input.clone())
        };
        if let Err(refused) = self.command(turn, command) {
            self.loaded = None;
            return Err(refused);
        }
        turn.effects.alive += 1;
        let input = self.loaded.as_ref().and_then(|loaded| loaded.run.state().head.input.clone()).unwrap_or_default();
        let record = engine::StartRecord {
            workflow: start.definition.name.clone(),
            version: start.definition.version.to_string(),
            definition_hash: start.definition.hash.clone(),
            input_sha256: digest(&input).to_vec().into(),
        };
        turn.extra_writes.push(table::put(table::start(&self.id), table::encode(&record)));
        self.started = Some(record);
        Ok(Started { execution_id: self.id.to_string(), run: 1, created: true })
    }

    /// The same start again is answered as the first time; another one is a conflict.
    fn again(&mut self, start: &Start, run: u32, _: &Turn) -> Result<Started> {
        let record = match &self.started {
            Some(record) => record.clone(),
            None => {
                let row = self.context.group.read(|reader| reader.get(&table::start(&self.id))).map_err(of_storage)?;
                let row = row.ok_or_else(|| of_storage("the record of the start is missing"))?;
                table::decode("starts", &row).map_err(of_storage)?
            }
        };
        let request = &start.request;
        if let Some(difference) = self.difference(&record, request)? {
            let message = format!("execution {} exists with another {difference}; choose another id", self.id);
            return Err(Error::new(Code::ExecutionExists, message));
        }
        Ok(Started { execution_id: self.id.to_string(), run, created: false })
    }

    fn difference(
        &self,
        record: &engine::StartRecord,
        request: &crate::api::StartExecution,
    ) -> Result<Option<&'static str>> {
        if record.workflow != request.workflow {
            return Ok(Some("workflow"));
        }
        if request.version.as_ref().is_some_and(|version| *version != record.version) {
            return Ok(Some("version"));
        }
        // With the defaults of the definition that the execution began with.
        let Some(definition) = self.context.definitions.by_hash(&record.definition_hash)? else {
            return Err(of_storage("the definition of the first run is missing"));
        };
        let same = filled(&definition, &request.input).is_some_and(|input| digest(&input)[..] == record.input_sha256);
        Ok((!same).then_some("input"))
    }
}

fn filled(definition: &Definition, input: &Payload) -> Option<Payload> {
    match &definition.input {
        Some(contract) => contract.accept_input(input.clone()).ok(),
        None => Some(input.clone()),
    }
}

/// Tells one input from another: over the canonical text, in which members are in order and numbers written one way.
pub(super) fn digest(input: &Payload) -> [u8; 32] {
    Sha256::digest(input.value().to_json()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_sees_what_is_said_and_not_how() {
        let payload = |text: &str| Payload::parse(text).unwrap();
        let one = digest(&payload(r#"{"a": 1, "b": [1.5, 9007199254740993]}"#));
        assert_eq!(one, digest(&payload(r#"{"b":[15e-1,9007199254740993],"a":1.0}"#)));
        assert_ne!(one, digest(&payload(r#"{"b":[1.5,9007199254740992],"a":1}"#)));
    }
}
