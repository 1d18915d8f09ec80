//! JSON as Orbit sees it: [`Value`], which expressions compute with, and [`Payload`], which only passes through.
//!
//! A value knows JSON's kinds, with numbers split into integers (i64) and doubles. A payload is the text that an
//! author or a worker sent, kept byte for byte, so `1.10` and integers beyond 2^53 come out as they went in; it is
//! read into a value only when an expression asks for it.
//!
//! Both refuse the same texts: what is no JSON, numbers beyond a double (`1e400`), nesting deeper than
//! [`DEPTH_MAX`]. So a value that left an expression can always be stored and read again.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

mod payload;

pub use payload::{Payload, PayloadError};

/// How deep lists and maps may lie in each other in a JSON text: serde_json's own bound.
pub const DEPTH_MAX: usize = 127;

/// An owned JSON value: cheap to clone, maps in the order of their keys.
///
/// Equality is the language's: numbers are equal when they are the same number (`1 == 1.0`), everything else when
/// kind and content agree (`true != 1`).
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// JSON's null.
    #[default]
    Null,
    /// True or false.
    Bool(bool),
    /// An integer within i64.
    Int(i64),
    /// Any other number; finite wherever a value is stored or has left an expression.
    Double(f64),
    /// A text.
    String(Arc<str>),
    /// A list.
    List(Arc<Vec<Value>>),
    /// A map, read in the order of its keys.
    Map(Arc<BTreeMap<Arc<str>, Value>>),
}

impl Value {
    /// Reads one JSON value. Integers beyond i64 become doubles.
    ///
    /// # Errors
    ///
    /// The text is no JSON, holds a number beyond a double, or is nested deeper than [`DEPTH_MAX`].
    pub fn from_json(text: &str) -> Result<Self, PayloadError> {
        serde_json::from_str(text).map_err(|fault| PayloadError::new(&fault))
    }

    /// The compact JSON text: keys in order, nothing escaped that need not be, whole doubles within i64 as integers.
    /// A double that is not finite prints as `null`; none leaves an expression.
    pub fn to_json(&self) -> String {
        // Writing a tree with text keys into memory cannot fail.
        serde_json::to_string(self).unwrap_or_else(|_| "null".to_owned())
    }

    /// A list of these values.
    pub fn list(values: impl IntoIterator<Item = Value>) -> Self {
        Value::List(Arc::new(values.into_iter().collect()))
    }

    /// A map of these entries; of two with the same key the later one stays.
    pub fn map<K: Into<Arc<str>>>(entries: impl IntoIterator<Item = (K, Value)>) -> Self {
        Value::Map(Arc::new(entries.into_iter().map(|(key, value)| (key.into(), value)).collect()))
    }

    /// Whether this is null.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// The boolean, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The integer, also of a whole double within i64.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Value::Int(value) => Some(*value),
            Value::Double(value) => whole(*value),
            _ => None,
        }
    }

    /// The number as a double; integers beyond 2^53 lose their last digits.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::Int(value) => Some(*value as f64),
            Value::Double(value) => Some(*value),
            _ => None,
        }
    }

    /// The text, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(value) => Some(value),
            _ => None,
        }
    }

    /// The elements, if it is a list.
    pub fn as_list(&self) -> Option<&[Value]> {
        match self {
            Value::List(values) => Some(values),
            _ => None,
        }
    }

    /// The entries, if it is a map.
    pub fn as_map(&self) -> Option<&BTreeMap<Arc<str>, Value>> {
        match self {
            Value::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// The member of this name; none when it is missing or this is no map.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.as_map()?.get(name)
    }

    /// The element at this place, from 0; none when it is missing or this is no list.
    pub fn index(&self, index: usize) -> Option<&Value> {
        self.as_list()?.get(index)
    }

    /// What it is, as messages name it: `null`, `boolean`, `number`, `string`, `list`, `map`.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Int(_) | Value::Double(_) => "number",
            Value::String(_) => "string",
            Value::List(_) => "list",
            Value::Map(_) => "map",
        }
    }
}

/// The integer that a whole double within i64 stands for.
pub(crate) fn whole(value: f64) -> Option<i64> {
    // 2^63 is a double, i64::MAX is none: hence the half-open range.
    let within = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value);
    (within && value.fract() == 0.0).then_some(value as i64)
}

/// How an integer compares with a double, exactly; none for NaN.
pub(crate) fn compare_mixed(integer: i64, double: f64) -> Option<Ordering> {
    if double.is_nan() {
        None
    } else if double >= 9_223_372_036_854_775_808.0 {
        Some(Ordering::Less)
    } else if double < -9_223_372_036_854_775_808.0 {
        Some(Ordering::Greater)
    } else {
        // Within i64 the integral part is exact; the rest decides between equal integers.
        let floor = double.floor();
        let ordering = integer.cmp(&(floor as i64));
        Some(if ordering == Ordering::Equal && double > floor { Ordering::Less } else { ordering })
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Int(a), Value::Int(b)) => a == b,
            (Value::Double(a), Value::Double(b)) => a == b,
            (Value::Int(a), Value::Double(b)) | (Value::Double(b), Value::Int(a)) => {
                compare_mixed(*a, *b) == Some(Ordering::Equal)
            }
            (Value::String(a), Value::String(b)) => a == b,
            (Value::List(a), Value::List(b)) => a == b,
            (Value::Map(a), Value::Map(b)) => a == b,
            _ => false,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_json())
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !serializer.is_human_readable() {
            // A binary format that names no types could not read the tree back.
            return serializer.serialize_str(&self.to_json());
        }
        match self {
            Value::Null => serializer.serialize_unit(),
            Value::Bool(value) => serializer.serialize_bool(*value),
            Value::Int(value) => serializer.serialize_i64(*value),
            Value::Double(value) => match whole(*value) {
                Some(integer) => serializer.serialize_i64(integer),
                None => serializer.serialize_f64(*value),
            },
            Value::String(value) => serializer.serialize_str(value),
            Value::List(values) => serializer.collect_seq(values.iter()),
            Value::Map(entries) => serializer.collect_map(entries.iter()),
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !deserializer.is_human_readable() {
            let text = String::deserialize(deserializer)?;
            return Value::from_json(&text).map_err(de::Error::custom);
        }
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(i64::try_from(value).map_or(Value::Double(value as f64), Value::Int))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        if value.is_finite() { Ok(Value::Double(value)) } else { Err(E::custom("number out of range")) }
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = items.next_element()? {
            values.push(value);
        }
        Ok(Value::List(Arc::new(values)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut entries = BTreeMap::new();
        while let Some((key, value)) = items.next_entry::<Arc<str>, Value>()? {
            entries.insert(key, value);
        }
        Ok(Value::Map(Arc::new(entries)))
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Value::Bool(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Value::Int(value)
    }
}

impl From<u32> for Value {
    fn from(value: u32) -> Self {
        Value::Int(i64::from(value))
    }
}

impl From<u64> for Value {
    /// Beyond i64 it becomes the nearest double.
    fn from(value: u64) -> Self {
        i64::try_from(value).map_or(Value::Double(value as f64), Value::Int)
    }
}

impl From<usize> for Value {
    /// Beyond i64 it becomes the nearest double.
    fn from(value: usize) -> Self {
        Value::from(value as u64)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Value::Double(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Value::String(Arc::from(value))
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Value::String(Arc::from(value))
    }
}

impl From<Arc<str>> for Value {
    fn from(value: Arc<str>) -> Self {
        Value::String(value)
    }
}

impl From<Vec<Value>> for Value {
    fn from(values: Vec<Value>) -> Self {
        Value::List(Arc::new(values))
    }
}

impl From<BTreeMap<Arc<str>, Value>> for Value {
    fn from(entries: BTreeMap<Arc<str>, Value>) -> Self {
        Value::Map(Arc::new(entries))
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}

impl From<&serde_json::Value> for Value {
    fn from(value: &serde_json::Value) -> Self {
        match value {
            serde_json::Value::Null => Value::Null,
            serde_json::Value::Bool(value) => Value::Bool(*value),
            serde_json::Value::Number(number) => match number.as_i64() {
                Some(integer) => Value::Int(integer),
                // Without `arbitrary_precision` every number that is no i64 has a finite double.
                None => Value::Double(number.as_f64().unwrap_or_default()),
            },
            serde_json::Value::String(value) => Value::from(value.as_str()),
            serde_json::Value::Array(values) => Value::list(values.iter().map(Value::from)),
            serde_json::Value::Object(entries) => {
                Value::map(entries.iter().map(|(key, value)| (key.as_str(), Value::from(value))))
            }
        }
    }
}

impl From<serde_json::Value> for Value {
    fn from(value: serde_json::Value) -> Self {
        Value::from(&value)
    }
}

impl From<&Value> for serde_json::Value {
    /// Whole doubles within i64 become integers, as in [`Value::to_json`].
    fn from(value: &Value) -> Self {
        match value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(value) => (*value).into(),
            Value::Int(value) => (*value).into(),
            Value::Double(value) => whole(*value).map_or_else(|| (*value).into(), Into::into),
            Value::String(value) => value.as_ref().into(),
            Value::List(values) => values.iter().map(serde_json::Value::from).collect(),
            Value::Map(entries) => {
                entries.iter().map(|(key, value)| (key.to_string(), serde_json::Value::from(value))).collect()
            }
        }
    }
}

#[cfg(test)]
#[path = "value_test.rs"]
mod tests;
