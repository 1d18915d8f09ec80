//! A JSON text that only passes through.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::Value;

/// A text is not exactly one JSON value that Orbit can keep.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a JSON value: {0}")]
pub struct PayloadError(String);

impl PayloadError {
    pub(super) fn new(fault: &serde_json::Error) -> Self {
        PayloadError(fault.to_string())
    }
}

/// A JSON text kept byte for byte, known to be exactly one value. Cheap to clone.
///
/// Two payloads are equal when their texts are; compare [`Payload::value`]s to compare what they say.
#[derive(Clone)]
pub struct Payload(Arc<Kept>);

struct Kept {
    text: Box<str>,
    /// The text read, once somebody has asked for [`Payload::shared_value`].
    value: OnceLock<Value>,
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.text == other.0.text
    }
}

impl Eq for Payload {}

impl Hash for Payload {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.text.hash(state);
    }
}

impl Payload {
    fn keep(text: &str) -> Self {
        Payload(Arc::new(Kept { text: Box::from(text), value: OnceLock::new() }))
    }

    /// Keeps a text after reading it once; white space around the value goes, white space inside it stays.
    ///
    /// # Errors
    ///
    /// As [`Value::from_json`].
    pub fn parse(text: &str) -> Result<Self, PayloadError> {
        // Read with the very rules of `value`, so that `value` cannot fail later.
        Value::from_json(text)?;
        // What JSON calls white space is what may stand around the value now.
        Ok(Payload::keep(text.trim_matches([' ', '\t', '\r', '\n'])))
    }

    /// A text that was taken from a payload and kept where nothing changes it: it is not read again. One that is no
    /// JSON after all says null.
    pub fn stored(text: &str) -> Self {
        Payload::keep(text)
    }

    /// The payload `null`.
    pub fn null() -> Self {
        Payload::keep("null")
    }

    /// The text, as it came.
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// The length of the text in bytes.
    #[allow(clippy::len_without_is_empty)] // Never empty: the empty text is no JSON.
    pub fn len(&self) -> usize {
        self.0.text.len()
    }

    /// Whether it says `null`.
    pub fn is_null(&self) -> bool {
        &*self.0.text == "null"
    }

    /// The text, read. Costs as much as the text is long.
    pub fn value(&self) -> Value {
        // Whoever first made this payload has read the text with the same parser: it cannot fail here.
        Value::from_json(&self.0.text).unwrap_or_default()
    }

    /// The text, read once for all who hold this payload: for what is asked for again and again, as an execution's
    /// input by each element of a fan-out. Costs memory as long as the payload lives.
    pub fn shared_value(&self) -> Value {
        self.0.value.get_or_init(|| self.value()).clone()
    }
}

impl Default for Payload {
    fn default() -> Self {
        Payload::null()
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

impl From<&Value> for Payload {
    /// The compact text. The value must be one that was read or has left an expression, so that it can be read back.
    fn from(value: &Value) -> Self {
        Payload::keep(&value.to_json())
    }
}

impl From<Value> for Payload {
    fn from(value: Value) -> Self {
        Payload::from(&value)
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            // RawValue has the text copied as it is; it borrows, so nothing is allocated.
            let raw: &RawValue = serde_json::from_str(&self.0.text).map_err(serde::ser::Error::custom)?;
            raw.serialize(serializer)
        } else {
            serializer.serialize_str(&self.0.text)
        }
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let raw = Box::<RawValue>::deserialize(deserializer)?;
            Payload::parse(raw.get()).map_err(de::Error::custom)
        } else {
            let text = String::deserialize(deserializer)?;
            Payload::parse(&text).map_err(de::Error::custom)
        }
    }
}
