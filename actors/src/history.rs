//! The durable form of histories: an event as it is kept for years.
//!
//! ```text
//! 01 │ Event of history.proto         the place of the event is in its key, not here
//! ```
//!
//! The `.proto` file is the reference. Events are written to it and read from it directly, since this is done for each
//! event of each execution: the generated messages would cost a copy of every text and payload on the way. Payloads are
//! copied once and not read as JSON.
//!
//! - [`events`]: the events, their fields and the numbers of both
//! - [`parts`]: what events are made of
//! - [`field`]: how each type stands in a field
//! - [`wire`]: protobuf's bytes
//!
//! Fields that this version does not know are overlooked; events and words that it does not know are refused.

use bytes::Bytes;
use workflow::event::{Recorded, Seq};

mod error;
mod events;
mod field;
mod parts;
mod wire;

pub use error::{Fault, HistoryError};

use field::One;
use wire::{Length, Raw, Sink, Source};

/// The format byte of the events that this version writes.
pub const FORMAT: u8 = 1;

/// The field of an event's time; the others of `Event` are its kinds.
const TIMESTAMP_MS: u32 = 1;

/// An event as it is kept.
#[must_use]
pub fn encode(recorded: &Recorded) -> Bytes {
    let kind = events::number(&recorded.event);
    let mut body = Length::default();
    events::write(&recorded.event, &mut body);
    let mut head = Length::default();
    write_head(recorded.timestamp_ms, kind, body, &mut head);

    let mut bytes = Vec::with_capacity(1 + head.bytes() + body.bytes());
    bytes.push(FORMAT);
    write_head(recorded.timestamp_ms, kind, body, &mut bytes);
    events::write(&recorded.event, &mut bytes);
    Bytes::from(bytes)
}

/// All that stands before the fields of the kind.
fn write_head<S: Sink>(timestamp_ms: u64, kind: u32, body: Length, sink: &mut S) {
    field::Field::write(&timestamp_ms, TIMESTAMP_MS, sink);
    sink.head(kind, body);
}

/// Reads what [`encode`] wrote; `seq` is the event's place, from its key.
///
/// # Errors
/// [`HistoryError`] when the bytes are no event, or one of a newer version.
pub fn decode(seq: Seq, bytes: &[u8]) -> Result<Recorded, HistoryError> {
    let damaged = |fault| HistoryError::from(fault).at("Event");
    let (&format, fields) = bytes.split_first().ok_or_else(|| damaged(Fault::Cut))?;
    if format != FORMAT {
        return Err(HistoryError::UnknownFormat(format));
    }
    let (mut timestamp_ms, mut event, mut unknown) = (0, None, None);
    for found in Source::new(fields) {
        let (number, raw) = found.map_err(damaged)?;
        if number == TIMESTAMP_MS {
            timestamp_ms = One::get(raw).map_err(|error| error.at("Event.timestamp_ms"))?;
        } else if let Some(read) = events::read(number, raw)? {
            event = Some(read);
        } else if matches!(raw, Raw::Bytes(_)) {
            unknown = Some(number);
        }
    }
    match (event, unknown) {
        (Some(event), _) => Ok(Recorded { seq, timestamp_ms, event }),
        (None, Some(number)) => Err(HistoryError::UnknownType(number)),
        (None, None) => Err(damaged(Fault::Missing)),
    }
}

#[cfg(test)]
mod table_test;
