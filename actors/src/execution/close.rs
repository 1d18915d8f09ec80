//! Closing a turn: what was decided becomes parts for the shard's log.

use std::collections::BTreeSet;
use std::sync::Arc;

use orbit_proto::engine::{HeldRow, ReadyRow, RunRecord};
use orbit_raft::{Environment, Part, Write};
use workflow::command::{Run, Token};
use workflow::decide::Limits;
use workflow::event::{Event, Recorded, StepDispatched, WorkflowCreated};
use workflow::key::Key;
use workflow::state::{Execution, RowChange, RunStatus, Work};
use workflow::value::{Payload, Value};

use super::Life;
use super::loaded::{Expected, Loaded, StoredBefore, list_row};
use super::turn::{HandedOver, Turn};
use crate::api::Task;
use crate::error::Result;
use crate::expiry::{self, Subject};
use crate::facet::{self, Place};
use crate::history;
use crate::index::{Change, turns_everything};
use crate::post;
use crate::table::{self, delete, put};

/// A row of a run.
pub(super) fn row(id: &str, run: u32, change: RowChange) -> Write {
    let key = table::run_state(id, run, change.kind, &change.key);
    match change.value {
        Some(value) => put(key, value),
        None => delete(key),
    }
}

impl<E: Environment> Life<E> {
    /// Makes the parts of a turn; none if nothing is to be written.
    ///
    /// # Errors
    /// What was decided must not be committed; whoever asked is told why.
    pub(super) fn close(&mut self, turn: &mut Turn) -> Result<()> {
        if let Some(error) = turn.broken.take() {
            return Err(error);
        }
        self.close_run(turn)
    }

    /// Makes a part of what the current run has decided so far.
    pub(super) fn close_run(&mut self, turn: &mut Turn) -> Result<()> {
        let mut writes = std::mem::take(&mut turn.extra_writes);
        writes.extend(turn.marks.drain().map(|(key, number)| put(key, [&[1], &number[..]].concat())));
        let Some(loaded) = self.loaded.as_mut() else {
            // Messages for an execution that is not there: it may not come into being meanwhile.
            if !writes.is_empty() {
                turn.parts.push(self.part(1, Expected::Absent, Vec::new(), writes));
            }
            return Ok(());
        };
        if let Some(error) = loaded.row_failure() {
            return Err(error);
        }
        let (expected, number) = (loaded.expected, loaded.number);
        let details = turn.flush && loaded.run.has_unwritten_details();
        let nothing_beside = !loaded.run.has_new_results() && loaded.unfinished == loaded.stored_unfinished;
        if turn.events.is_empty() && !details && nothing_beside {
            if !writes.is_empty() {
                turn.parts.push(self.part(number, expected, Vec::new(), writes));
            }
            return Ok(());
        }
        let events = std::mem::take(&mut turn.events);
        self.rows(turn, &events, &mut writes)?;
        let encoded = events.iter().map(history::encode).collect();
        turn.parts.push(self.part(number, expected, encoded, writes));
        Ok(())
    }

    pub(super) fn part(&self, run: u32, expected: Expected, events: Vec<bytes::Bytes>, writes: Vec<Write>) -> Part {
        Part {
            kind: PART_EXECUTION,
            execution_id: bytes::Bytes::copy_from_slice(self.id.as_bytes()),
            run,
            preconditions: vec![expected.precondition()],
            events,
            writes,
        }
    }

    /// Everything that lies beside the events.
    fn rows(&mut self, turn: &mut Turn, events: &[Recorded], writes: &mut Vec<Write>) -> Result<()> {
        let id = Arc::clone(&self.id);
        let Some(loaded) = self.loaded.as_mut() else { return Ok(()) };
        let changes = loaded.run.take_changes();
        let state = loaded.run.state();
        let everything = turns_everything(loaded.was, state);
        let mut before = StoredBefore::new(loaded.rows.clone());
        let differences = loaded.index.differences(&id, &mut before, state, &changes, everything);
        for change in &differences {
            writes.push(index_write(&id, loaded.number, change, |seq| held_row(events, state, seq)));
        }
        for message in post::outgoing(&loaded.run, events, loaded.was.1) {
            writes.push(table::post(&message.to, table::encode(&message)));
            turn.effects.posted.push(table::slot(&message.to));
        }
        note_settled(turn, &loaded.run, &differences);
        note_stopped(turn, &loaded.run, events);
        watch_for_silence(turn, &loaded.run);
        loaded.bytes += changes.iter().map(|change| change.value.as_ref().map_or(0, Vec::len)).sum::<usize>();
        writes.extend(changes.into_iter().map(|change| row(&id, loaded.number, change)));
        if loaded.unfinished != loaded.stored_unfinished {
            let key = table::unfinished(&id, loaded.number);
            writes.push(if loaded.unfinished { put(key, vec![1]) } else { delete(key) });
            loaded.stored_unfinished = loaded.unfinished;
        }
        let retention_ms = self.context.retention_ms;
        list_writes(&id, loaded, events, writes);
        let state = loaded.run.state();
        // Also when it was over before: a redrive may come to its end at once.
        if state.is_over() && !events.is_empty() {
            let retention_ms = loaded.run.definition().retention_ms.unwrap_or(retention_ms);
            writes.push(expires(&id, state, retention_ms));
        }
        if state.is_over() && !loaded.was.1 {
            turn.effects.alive -= 1;
            turn.effects.over = state.head.status != RunStatus::Continued;
        }
        if !state.is_over() && loaded.was.1 {
            turn.effects.alive += 1;
        }
        turn.effects.changes.extend(differences);
        let is_long = Limits::default().are_near(&state.head);
        if is_long && !loaded.was_long {
            let (events, bytes) = (state.head.seq, state.head.history_bytes);
            tracing::warn!(execution = %id, events, bytes, "a history has come to a fifth of its limit");
            self.context.count_long();
        }
        loaded.was_long = is_long;
        loaded.was = (state.head.paused, state.is_over());
        loaded.expected = Expected::At { run: loaded.number, seq: state.head.seq };
        for HandedOver { slot, unit, token } in std::mem::take(&mut turn.handed_over) {
            let task = task(&loaded.run, &unit, &token);
            turn.effects.tasks.extend(task.map(|task| (slot, Box::new(task))));
        }
        loaded.row_failure().map_or(Ok(()), Err)
    }
}

/// What applying does not look at: it tells a reader of a log whose part it is.
const PART_EXECUTION: u32 = 1;

fn index_write(id: &str, run: u32, change: &Change, held: impl Fn(u64) -> HeldRow) -> Write {
    match change {
        Change::Ready(ready) => {
            let row = ReadyRow { attempt: ready.attempt };
            put(table::ready(&ready.queue, &ready.order, &ready.unit), table::encode(&row))
        }
        Change::NotReady(queue, order, unit) => delete(table::ready(queue, order, unit)),
        Change::Held(_, seq) => put(table::held(id, run, *seq), table::encode(&held(*seq))),
        Change::NotHeld(_, seq) => delete(table::held(id, run, *seq)),
        Change::Timer(timer) => put(timer.key(), vec![1]),
        Change::NoTimer(timer) => delete(timer.key()),
    }
}

fn held_row(events: &[Recorded], state: &Execution, seq: u64) -> HeldRow {
    let dispatched = events.iter().find(|recorded| recorded.seq == seq).and_then(|recorded| match &recorded.event {
        Event::StepDispatched(event) => Some(event),
        _ => None,
    });
    let silence = |unit: &str| state.unit(unit).and_then(|unit| unit.heartbeat_timeout_ms);
    match dispatched {
        Some(StepDispatched { step, token, worker_id, worker_session, .. }) => HeldRow {
            heartbeat_timeout_ms: silence(step),
            unit: step.to_string(),
            token: token.clone(),
            worker_id: worker_id.clone(),
            worker_session: worker_session.clone(),
        },
        // A hand-over of an earlier commit whose row had gone: its session is not in the state.
        None => state.hand_overs.get(&seq).map_or_else(HeldRow::default, |hand_over| HeldRow {
            heartbeat_timeout_ms: silence(&hand_over.unit),
            unit: hand_over.unit.to_string(),
            token: hand_over.token.clone(),
            worker_id: hand_over.worker_id.clone(),
            worker_session: String::new(),
        }),
    }
}

/// What changes by what an execution is found.
fn list_writes(id: &str, loaded: &mut Loaded, events: &[Recorded], writes: &mut Vec<Write>) {
    let place = Place::new(loaded.run.state().head.first_created_at_ms, id);
    let listed = list_row(&loaded.run);
    if loaded.listed.as_ref() != Some(&listed) {
        let before = loaded.listed.as_ref().map_or_else(BTreeSet::new, |listed| facet::rows(listed, &place));
        facet::move_rows(&before, &facet::rows(&listed, &place), writes);
        writes.push(put(table::list(place.created_at_ms(), id), table::encode(&listed)));
        loaded.listed = Some(listed);
    }
    let created = events.iter().find_map(|recorded| match &recorded.event {
        Event::WorkflowCreated(event) => Some(event),
        _ => None,
    });
    if let Some(created) = created {
        writes.push(record_write(&loaded.run, created));
        // A new run may have other attributes than the one before.
        let attributes = facet::attribute_rows(&created.attributes, &place);
        facet::move_rows(&loaded.attributes.take().unwrap_or_default(), &attributes, writes);
        loaded.attributes = Some(attributes);
    }
}

/// When a run that is over is to be removed.
fn expires(id: &str, state: &Execution, retention_ms: u64) -> Write {
    let (ended_at_ms, run) = (state.head.updated_at_ms, state.head.run);
    let subject = Subject::Run { id: id.to_owned(), run };
    expiry::hint(ended_at_ms.saturating_add(retention_ms), &subject, ended_at_ms)
}

/// The record of a run, when it begins.
fn record_write(run: &Run, created: &WorkflowCreated) -> Write {
    let attributes = match created.attributes.is_empty() {
        true => bytes::Bytes::new(),
        false => {
            let values = created.attributes.iter().map(|(name, value)| (name.as_str(), value.clone()));
            Payload::from(Value::map(values)).as_str().to_owned().into()
        }
    };
    let record = RunRecord {
        workflow: created.workflow.clone(),
        version: created.version.clone(),
        definition_hash: created.definition_hash.clone(),
        rules: created.rules,
        attributes,
        schedule_id: created.schedule_id.clone(),
        traceparent: created.traceparent.clone(),
        priority: created.priority.map(u32::from),
        fairness_key: created.fairness_key.clone(),
        created_at_ms: run.state().head.created_at_ms,
    };
    put(table::run(run.execution_id(), created.run), table::encode(&record))
}

/// Hand-overs that are no longer in flight.
fn note_settled(turn: &mut Turn, run: &Run, differences: &[Change]) {
    for change in differences {
        let Change::NotHeld(_, seq) = change else { continue };
        let token = run.state().hand_overs.get(seq).and_then(|hand_over| hand_over.token.parse::<Token>().ok());
        if let Some(token) = token {
            let tell = !turn.reported.contains(&token);
            turn.effects.settled.push((token, tell));
        }
    }
}

/// Hand-overs whose worker should stop, because something around them closes.
fn note_stopped(turn: &mut Turn, run: &Run, events: &[Recorded]) {
    for recorded in events {
        let Event::StepClosing(closing) = &recorded.event else { continue };
        for (_, unit) in run.state().units.under(&closing.step) {
            let hand_over = unit.token.and_then(|seq| run.state().hand_overs.get(&seq));
            turn.effects.stop.extend(hand_over.and_then(|hand_over| hand_over.token.parse().ok()));
        }
    }
}

fn watch_for_silence(turn: &mut Turn, run: &Run) {
    for HandedOver { unit, token, .. } in &turn.handed_over {
        let limit = run.state().unit(unit).and_then(|unit| unit.heartbeat_timeout_ms);
        turn.effects.watched.extend(limit.map(|ms| (token.clone(), ms)));
    }
}

/// What the worker gets.
fn task(run: &Run, key: &Key, token: &Token) -> Option<Task> {
    let (state, definition) = (run.state(), run.definition());
    let unit = state.unit(key)?;
    let Some(Work::Task(queue)) = &unit.work else { return None };
    let deadline_ms = unit.timeout_ms.map(|ms| unit.at_ms.saturating_add(ms));
    Some(Task {
        token: token.to_string(),
        execution_id: run.execution_id().to_owned(),
        run: state.head.run,
        workflow: definition.name.clone(),
        workflow_version: definition.version.to_string(),
        step_id: key.to_string(),
        task_name: queue.task.clone(),
        contract_version: queue.version.clone().unwrap_or_default(),
        input: unit.input.clone().unwrap_or_default(),
        idempotency_key: unit.idempotency_key.clone().unwrap_or_default(),
        attempt: unit.attempt,
        redelivery: unit.redelivery,
        deadline_ms,
        timeout_ms: unit.timeout_ms,
        heartbeat_timeout_ms: unit.heartbeat_timeout_ms,
        last_heartbeat_details: run.last_heartbeat(key).cloned(),
        traceparent: state.head.traceparent.clone(),
    })
}
