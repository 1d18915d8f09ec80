//! Events read back from JSON, payloads byte for byte.
//!
//! Serde's flattening would go through a buffer that loses the bytes of raw JSON, so an event is read in two passes:
//! first its members as raw text, then the fields of its type.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::{Event, Recorded};
use crate::value::Payload;

/// Why a text is no event.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It is no JSON, or a field is missing or has another type.
    #[error("no event: {0}")]
    Malformed(#[from] serde_json::Error),
    /// Its type is none that this version knows.
    #[error("unknown type of event {0:?}; a newer version of Orbit may know it")]
    UnknownType(String),
}

impl Recorded {
    /// Reads one event of a history.
    ///
    /// # Errors
    /// [`ReadError`] when the text is no event of this version.
    pub fn from_json(text: &str) -> Result<Self, ReadError> {
        let mut members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(text)?;
        let seq = serde_json::from_str(take(&mut members, "seq").get())?;
        let timestamp_ms = serde_json::from_str(take(&mut members, "timestamp_ms").get())?;
        let name: String = serde_json::from_str(take(&mut members, "type").get())?;
        let fields = serde_json::to_string(&members)?;
        let event = Event::read(&name, &fields)?.ok_or(ReadError::UnknownType(name))?;
        Ok(Self { seq, timestamp_ms, event })
    }

    /// As it stands in a history.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Every key is a string and every payload valid JSON, so there is nothing that can fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

fn take(members: &mut BTreeMap<String, Box<RawValue>>, name: &str) -> Box<RawValue> {
    members.remove(name).unwrap_or_else(|| RawValue::NULL.to_owned())
}

/// `null` is a payload, absence is none.
pub(super) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Payload>, D::Error> {
    Payload::deserialize(deserializer).map(Some)
}
