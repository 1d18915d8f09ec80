//! Units that wait for another execution: a child, or whoever gets a signal.
//!
//! ```text
//!   parent's shard        message in its outbox ──▶ taken in with its mark ──▶ … ──▶ answer in the other's outbox
//!                    ◀───────────────────────────────────────────────────────────── taken in: it waits no longer
//! ```
//!
//! Each arrow is one commit of one shard, and what is behind an arrow is there before what is ahead of it goes. So the
//! places are looked at *in the direction of the message*, each look later than the one before, each as of one moment
//! and with all that was acknowledged before it:
//!
//! 1. the parent waits and its message is not in its outbox: it has arrived before that;
//! 2. so the other one is a child of it that runs, or has posted the answer: if neither is seen, the answer has arrived
//!    before that;
//! 3. so the parent waits no longer. If it still does, for the same attempt, nobody will ever answer.
//!
//! Nothing that moves meanwhile raises a false alarm, because it can only be further ahead than where it is looked for,
//! and the last look is at where everything ends.

use std::ops::ControlFlow;
use std::sync::Arc;

use orbit_proto::engine::Message;
use orbit_proto::engine::message::Body;
use orbit_raft::state_store::read::Reader;
use workflow::state::{Execution, ReadRows, RowKind, RunStatus, Status, Work};

use crate::error::Result;
use crate::failure::of_storage;
use crate::rows::SomeRows;
use crate::table;

/// A unit that waits for another execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Awaited {
    /// Who waits.
    pub(crate) id: Arc<str>,
    pub(crate) run: u32,
    pub(crate) unit: String,
    pub(crate) attempt: u32,
    /// For whom.
    pub(crate) other: String,
}

/// The units of a run that wait for another execution and whose message has left (look 1).
pub(super) fn of(reader: &Reader<'_>, id: &Arc<str>, run: u32, state: &Execution) -> Result<Vec<Awaited>> {
    let mut awaited = Vec::new();
    if state.is_over() {
        return Ok(awaited);
    }
    for (key, unit) in state.units.iter().filter(|(_, unit)| unit.status == Status::Scheduled) {
        let other = match &unit.work {
            Some(Work::Child(child)) => child.id.clone(),
            Some(Work::Signal(target)) => target.execution.clone(),
            Some(Work::Task(_)) | None => continue,
        };
        let one = Awaited { id: Arc::clone(id), run, unit: key.to_string(), attempt: unit.attempt, other };
        if !one.is_sent_by(reader)? && !one.is_answered_by(reader)? {
            awaited.push(one);
        }
    }
    Ok(awaited)
}

impl Awaited {
    /// Whether the message lies in the outbox of whoever waits.
    fn is_sent_by(&self, reader: &Reader<'_>) -> Result<bool> {
        any_message(reader, &self.other, |message| {
            let same = |run, step: &str, attempt| (run, step, attempt) == (self.run, &*self.unit, self.attempt);
            message.from == *self.id
                && match &message.body {
                    Some(Body::Start(start)) => {
                        start.parent.as_ref().is_some_and(|parent| same(parent.run, &parent.step, parent.attempt))
                    }
                    Some(Body::Signal(signal)) => same(signal.run, &signal.step, signal.attempt),
                    _ => false,
                }
        })
    }

    /// Whether an answer lies in the outbox of this shard.
    fn is_answered_by(&self, reader: &Reader<'_>) -> Result<bool> {
        any_message(reader, &self.id, |message| match &message.body {
            Some(Body::Answer(answer)) => {
                (&*message.to, answer.run, &*answer.step, answer.attempt)
                    == (&*self.id, self.run, &*self.unit, self.attempt)
            }
            _ => false,
        })
    }

    /// Look 2, at the shard of the other one: whether it will answer, or has.
    pub(crate) fn is_known_there(&self, reader: &Reader<'_>) -> Result<bool> {
        let Some(position) = reader.position(self.other.as_bytes()).map_err(of_storage)? else {
            return self.is_answered_by(reader);
        };
        let state = state(reader, &self.other, position.run, None)?;
        // The next run of one that continues may begin in a commit of its own.
        let goes_on = |state: &Execution| !state.is_over() || state.head.status == RunStatus::Continued;
        let ours = state.filter(goes_on).and_then(|state| state.head.parent);
        let ours = ours.is_some_and(|parent| {
            (&*parent.execution_id, parent.run, &*parent.step, parent.attempt)
                == (&*self.id, self.run, &*self.unit, self.attempt)
        });
        Ok(ours || self.is_answered_by(reader)?)
    }

    /// Look 3, at the shard of whoever waits: whether it still does.
    pub(crate) fn still_waits(&self, reader: &Reader<'_>) -> Result<bool> {
        let Some(position) = reader.position(self.id.as_bytes()).map_err(of_storage)? else { return Ok(false) };
        if position.run != self.run {
            return Ok(false);
        }
        let Some(state) = state(reader, &self.id, self.run, Some(&self.unit))? else { return Ok(false) };
        let waits = |state: &Execution| {
            let unit = state.unit(&self.unit);
            unit.is_some_and(|unit| unit.status == Status::Scheduled && unit.attempt == self.attempt)
        };
        Ok(!state.is_over() && waits(&state))
    }
}

/// Head and one unit of a run.
fn state(reader: &Reader<'_>, id: &str, run: u32, unit: Option<&str>) -> Result<Option<Execution>> {
    let mut rows = SomeRows::default();
    rows.take_one(reader, id, run, RowKind::Head, &[]).map_err(of_storage)?;
    if let Some(unit) = unit {
        rows.take_one(reader, id, run, RowKind::Unit, unit.as_bytes()).map_err(of_storage)?;
    }
    let rows: Arc<dyn ReadRows> = Arc::new(rows);
    // What cannot be read is a finding of its own where it lies.
    Ok(Execution::asleep(&rows).unwrap_or_default())
}

/// Whether a message for an execution lies in the outbox of a shard.
fn any_message(reader: &Reader<'_>, to: &str, wanted: impl Fn(&Message) -> bool) -> Result<bool> {
    let mut found = false;
    let scanned = reader.scan(&table::outbox_of(table::slot(to)), |_, value| {
        // One that cannot be read is a finding of its own.
        found = table::decode::<Message>("messages", value).is_ok_and(|message| wanted(&message));
        if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    scanned.map_err(of_storage)?;
    Ok(found)
}
