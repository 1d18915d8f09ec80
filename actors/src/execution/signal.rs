//! Signals from outside (L7). Each that its sender named leaves a row of its own, by which a repetition is known
//! whatever the runs do, also after the end.

use orbit_proto::engine::SignalRecord;
use orbit_raft::Environment;
use workflow::command::{Accepted, CarriedSignal, Refusal, SendSignal};
use workflow::definition::Definition;

use super::ask::{Signal, Start};
use super::decide::not_found;
use super::start::{Origin, digest};
use super::turn::Turn;
use super::{Life, Reply};
use crate::api::Signalled;
use crate::error::{Code, Error, Result};
use crate::expiry::{self, Subject};
use crate::failure::{of_refusal, of_storage};
use crate::table;

impl<E: Environment> Life<E> {
    pub(super) fn signal(&mut self, signal: Signal, reply: Reply<Signalled>, turn: &mut Turn) {
        let answer = self.signalled(signal, turn);
        turn.answer(reply, answer);
    }

    fn signalled(&mut self, mut signal: Signal, turn: &mut Turn) -> Result<Signalled> {
        let start = signal.start.take();
        let Some(loaded) = self.load()? else {
            let start = start.ok_or_else(|| not_found(&self.id))?;
            return self.start_with(&start, signal, turn);
        };
        let definition = loaded.run.definition().clone();
        let runs = start.as_ref().map(|start| &start.request.workflow);
        if runs.is_some_and(|workflow| *workflow != definition.name) {
            let message = format!("execution {} exists with another workflow; choose another id", self.id);
            return Err(Error::new(Code::ExecutionExists, message));
        }
        if !definition.signals.contains_key(&signal.name) {
            return Err(of_refusal(&Refusal::unknown_signal(&definition, &signal.name)));
        }
        let created = start.map(|_| false);
        if let Some(first) = self.first_time(&signal, turn)? {
            return Ok(Signalled { created, ..first });
        }
        let Signal { name, payload, dedup_id, .. } = signal.clone();
        let Accepted { run, seq } = self.command(turn, SendSignal { name, payload, dedup_id })?;
        self.remember(&signal, run, seq, turn);
        Ok(self.taken(&signal, run, seq, created))
    }

    /// Start and signal in one commit: the signal is there before anything is decided.
    fn start_with(&mut self, start: &Start, signal: Signal, turn: &mut Turn) -> Result<Signalled> {
        fits(&start.definition, &signal)?;
        self.context.may_begin()?;
        let Signal { name, payload, dedup_id, .. } = signal.clone();
        let carried = vec![CarriedSignal { signal: name, payload, dedup_id }];
        self.begin(start, Origin { carried, parent: None }, turn)?;
        // The event after WorkflowCreated.
        let (run, seq) = (1, 2);
        self.remember(&signal, run, seq, turn);
        Ok(self.taken(&signal, run, seq, Some(true)))
    }

    fn taken(&self, signal: &Signal, run: u32, seq: u64, created: Option<bool>) -> Signalled {
        let (execution_id, signal) = (self.id.to_string(), signal.name.clone());
        Signalled { execution_id, run, signal, accepted: true, seq, created }
    }

    /// What was answered the first time, if this is a repetition.
    fn first_time(&self, signal: &Signal, turn: &Turn) -> Result<Option<Signalled>> {
        let Some(dedup_id) = &signal.dedup_id else { return Ok(None) };
        let key = table::signal(&self.id, &signal.name, dedup_id);
        let record = match turn.signals.get(&key) {
            Some(record) => record.clone(),
            None => match self.context.group.read(|reader| reader.get(&key)).map_err(of_storage)? {
                Some(row) => table::decode("signals", &row).map_err(of_storage)?,
                None => return Ok(None),
            },
        };
        if record.payload_sha256[..] != digest(&signal.payload) {
            let message = format!(
                "signal {} with dedup_id {dedup_id} came before with another payload; choose another dedup_id",
                signal.name
            );
            return Err(Error::new(Code::DedupConflict, message));
        }
        Ok(Some(self.taken(signal, record.run, record.seq, None)))
    }

    fn remember(&self, signal: &Signal, run: u32, seq: u64, turn: &mut Turn) {
        let Some(dedup_id) = &signal.dedup_id else { return };
        let record = SignalRecord {
            run,
            seq,
            payload_sha256: digest(&signal.payload).to_vec().into(),
            received_at_ms: self.context.group.now_ms(),
        };
        let key = table::signal(&self.id, &signal.name, dedup_id);
        let of_document = self.loaded.as_ref().and_then(|loaded| loaded.run.definition().retention_ms);
        let retention_ms = of_document.unwrap_or(self.context.retention_ms);
        let (id, name) = (self.id.to_string(), signal.name.clone());
        let subject = Subject::Signal { id, name, dedup_id: dedup_id.to_owned() };
        let due_ms = record.received_at_ms.saturating_add(retention_ms);
        turn.extra_writes.push(expiry::hint(due_ms, &subject, record.received_at_ms));
        turn.extra_writes.push(table::put(key.clone(), table::encode(&record)));
        turn.signals.insert(key, record);
    }
}

/// Whether a workflow that has not begun would take the signal.
fn fits(definition: &Definition, signal: &Signal) -> Result<()> {
    let refused = match definition.signals.get(&signal.name) {
        None => Refusal::unknown_signal(definition, &signal.name),
        Some(contract) => match contract.check(&signal.payload) {
            Ok(()) => return Ok(()),
            Err(faults) => Refusal::InvalidSignal(faults),
        },
    };
    Err(of_refusal(&refused))
}
