//! Messages between shards: those that lie in the outbox, and the marks of those that came.
//!
//! Of a slot one parcel is under way at a time, the first messages of its outbox as far as they are for one execution;
//! its rows go once all of it has arrived. So at any moment what has arrived and still lies there is the beginning of
//! one parcel. *Arrived* is what is not above a mark that was read **before** the moment at which the outbox is seen:
//! a mark never goes back, so nothing that is on its way is taken for one that arrived.
//!
//! The other way round, a mark above everything that its sender has ever numbered would swallow what comes. It is held
//! against what the sender has applied **after** the mark was seen: a message is applied there before it is shipped.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use orbit_proto::engine::Message;
use orbit_raft::state_store::read::Reader;

use super::{At, Findings, Rule};
use crate::error::Result;
use crate::failure::of_storage;
use crate::table::{self, Number};

/// Messages of a parcel: see `engine::shipper`.
const PARCEL_MAX: usize = crate::engine::PARCEL_MESSAGES_MAX;
/// Messages that have arrived and are still there, of which it is seen later whether they have gone: as many as one
/// parcel for each slot may have, so all of them where nothing is wrong.
const LINGERING_MAX: usize = 100_000;

/// What lies in outbox and inbox.
#[derive(Debug, Default)]
pub(crate) struct Post {
    /// What the slots of other shards had received from here before.
    pub(crate) marks: BTreeMap<u16, Number>,
    /// Keys of messages that have arrived: they go within a bound.
    pub(crate) lingering: Vec<Vec<u8>>,
    /// The highest mark of each sender, and the slot that has it.
    pub(crate) received: BTreeMap<u16, (Number, u16)>,
}

/// The marks that the slots of a shard have for what comes from another.
pub(crate) fn marks_of(reader: &Reader<'_>, source: u16, marks: &mut BTreeMap<u16, Number>) -> Result<()> {
    let scanned = reader.scan(&table::all_inbox(), |key, value| {
        if let (Some((slot, from)), Some(number)) = (table::inbox_parts(key), mark(value))
            && from == source
        {
            marks.insert(slot, number);
        }
        ControlFlow::Continue(())
    });
    scanned.map_err(of_storage)
}

fn mark(value: &[u8]) -> Option<Number> {
    value.strip_prefix(&[1]).and_then(|number| number.try_into().ok())
}

/// The entry that numbered a message.
pub(crate) fn index_of(number: &Number) -> u64 {
    number.first_chunk::<8>().map_or(0, |index| u64::from_be_bytes(*index))
}

impl Post {
    pub(super) fn look(&mut self, reader: &Reader<'_>, shards: u16, findings: &mut Findings) -> Result<()> {
        self.outbox(reader, findings)?;
        self.inbox(reader, shards, findings)
    }

    fn outbox(&mut self, reader: &Reader<'_>, findings: &mut Findings) -> Result<()> {
        let applied = reader.applied().map_err(of_storage)?.map_or(0, |applied| applied.log_id.index);
        let mut parcel: Option<(u16, String, usize)> = None;
        let scanned = reader.scan(&table::outbox(), |key, value| {
            let place = || format!("outbox {}", key.escape_ascii());
            let Some((slot, number)) = table::outbox_parts(key) else {
                findings.add(Rule::Outbox, At::SHARD, place(), "a key", "slot and number of a message");
                return ControlFlow::Continue(());
            };
            let message: Message = match table::decode("messages", value) {
                Ok(message) => message,
                Err(error) => {
                    findings.add(Rule::Outbox, At::SHARD, place(), error, "a message that can be read");
                    return ControlFlow::Continue(());
                }
            };
            let at = At::id(&message.from);
            if table::slot(&message.to) != slot {
                let expected = format!("under slot {}, to which {} belongs", table::slot(&message.to), message.to);
                findings.add(Rule::Outbox, at, place(), format!("under slot {slot}"), expected);
            }
            if index_of(&number) > applied {
                let found = format!("numbered by entry {}", index_of(&number));
                findings.add(Rule::Outbox, at, place(), found, format!("at most {applied}, the last one applied"));
            }
            if self.marks.get(&slot).is_some_and(|mark| number <= *mark) {
                let first = parcel.take().filter(|(of, ..)| *of == slot);
                let (_, to, before) = first.unwrap_or_else(|| (slot, message.to.clone(), 0));
                if to != message.to || before >= PARCEL_MAX {
                    let found = format!("it would be taken for one that came, behind {before} for {to}");
                    findings.add(Rule::Outbox, at, place(), found, "above the mark of the receiver");
                } else if self.lingering.len() < LINGERING_MAX {
                    self.lingering.push(key.to_vec());
                }
                parcel = Some((slot, to, before + 1));
            }
            ControlFlow::Continue(())
        });
        scanned.map_err(of_storage)
    }

    fn inbox(&mut self, reader: &Reader<'_>, shards: u16, findings: &mut Findings) -> Result<()> {
        let scanned = reader.scan(&table::all_inbox(), |key, value| {
            let place = format!("inbox {}", key.escape_ascii());
            match (table::inbox_parts(key), mark(value)) {
                (Some((slot, source)), Some(number)) if source < shards => {
                    let highest = self.received.entry(source).or_insert((number, slot));
                    *highest = (number, slot).max(*highest);
                }
                _ => findings.add(Rule::Inbox, At::SHARD, place, "a row", "the number of a message of a shard"),
            }
            ControlFlow::Continue(())
        });
        scanned.map_err(of_storage)
    }
}
