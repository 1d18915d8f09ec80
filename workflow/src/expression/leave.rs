//! What leaves an expression: finite, whole doubles as integers, no bigger and no deeper than can be stored.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::EvalError;
use super::meter::{BYTES_MAX, too_big};
use crate::value::{DEPTH_MAX, Value, whole};

/// The value as it leaves an expression. What needs no change is shared, not copied.
pub(super) fn leave(value: &Value) -> Result<Value, EvalError> {
    size(value)?;
    Ok(normal(value).unwrap_or_else(|| value.clone()))
}

/// The length of a value's JSON text in bytes, a little over it for doubles.
///
/// # Errors
///
/// It is over [`BYTES_MAX`], deeper than [`DEPTH_MAX`], or holds a double that is not finite. It stops there: a value
/// that shares its parts may print far bigger than it is.
pub(super) fn size(value: &Value) -> Result<usize, EvalError> {
    let mut bytes = 0;
    measure(value, DEPTH_MAX, &mut bytes)?;
    Ok(bytes)
}

fn measure(value: &Value, depth_left: usize, bytes: &mut usize) -> Result<(), EvalError> {
    let container = matches!(value, Value::List(_) | Value::Map(_));
    if container && depth_left == 0 {
        return Err(EvalError::new(format!("a value nested more than {DEPTH_MAX} levels deep")));
    }
    *bytes += match value {
        Value::Null | Value::Bool(true) => 4,
        Value::Bool(false) => 5,
        Value::Int(integer) => integer_length(*integer),
        Value::Double(double) if !double.is_finite() => return Err(EvalError::new("a number beyond a double")),
        Value::Double(double) => whole(*double).map_or(DOUBLE_LENGTH, integer_length),
        Value::String(text) => text_length(text),
        // Brackets and commas; an empty one is its brackets.
        Value::List(values) => 1 + values.len().max(1),
        Value::Map(entries) => 1 + entries.len().max(1),
    };
    if *bytes > BYTES_MAX {
        return Err(too_big());
    }
    match value {
        Value::List(values) => values.iter().try_for_each(|value| measure(value, depth_left - 1, bytes)),
        Value::Map(entries) => entries.iter().try_for_each(|(key, value)| {
            *bytes += text_length(key) + 1;
            measure(value, depth_left - 1, bytes)
        }),
        _ => Ok(()),
    }
}

/// No double prints longer than `-2.2250738585072014e-308`; most print shorter.
const DOUBLE_LENGTH: usize = 24;

fn integer_length(integer: i64) -> usize {
    let digits = integer.unsigned_abs().checked_ilog10().map_or(1, |digits| digits as usize + 1);
    digits + usize::from(integer < 0)
}

/// Quotes and escapes included.
fn text_length(text: &str) -> usize {
    let escapes = text.bytes().map(|byte| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 1,
        0..=0x1f => 5,
        _ => 0,
    });
    2 + text.len() + escapes.sum::<usize>()
}

/// The value with whole doubles as integers; none when there are none.
fn normal(value: &Value) -> Option<Value> {
    match value {
        Value::Double(double) => whole(*double).map(Value::Int),
        Value::List(values) => {
            // Each element is looked at once: twice at each level would be without end at the innermost.
            let mut elements = values.iter().enumerate();
            let (first, changed) = elements.find_map(|(place, value)| Some((place, normal(value)?)))?;
            let mut normalised = values[..first].to_vec();
            normalised.push(changed);
            normalised.extend(elements.map(|(_, value)| normal(value).unwrap_or_else(|| value.clone())));
            Some(Value::from(normalised))
        }
        Value::Map(entries) => {
            let changed = entries.iter().filter_map(|(key, value)| Some((Arc::clone(key), normal(value)?)));
            let changed = changed.collect::<BTreeMap<_, _>>();
            if changed.is_empty() {
                return None;
            }
            let mut normalised = BTreeMap::clone(entries);
            normalised.extend(changed);
            Some(Value::from(normalised))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_is_that_of_the_json_text() {
        for text in ["null", "[]", "{}", "[1,-20,true,false]", r#"{"a":"b\n\u0001","ä":[{}]}"#, "-9223372036854775808"]
        {
            let value = Value::from_json(text).unwrap();
            assert_eq!(size(&value).unwrap(), value.to_json().len(), "{text}");
        }
    }

    #[test]
    fn what_needs_no_change_is_shared() {
        let value = Value::from_json(r#"{"a":[1,2.5],"b":[1.0,"x"]}"#).unwrap();
        let left = leave(&value).unwrap();
        assert_eq!(left.to_json(), r#"{"a":[1,2.5],"b":[1,"x"]}"#);
        assert!(matches!(left.get("b").unwrap().index(0), Some(Value::Int(1))));
        let (Value::List(before), Value::List(after)) = (value.get("a").unwrap(), left.get("a").unwrap()) else {
            panic!("lists")
        };
        assert!(Arc::ptr_eq(before, after));
    }

    #[test]
    fn refuses_what_cannot_be_stored() {
        assert!(leave(&Value::Double(f64::INFINITY)).is_err());
        assert!(leave(&Value::list([Value::Double(f64::NAN)])).is_err());
        let nested = |depth: usize| (0..depth).fold(Value::Null, |inner, _| Value::list([inner]));
        assert!(Value::from_json(&leave(&nested(DEPTH_MAX)).unwrap().to_json()).is_ok());
        assert!(leave(&nested(DEPTH_MAX + 1)).is_err());
        let doubled = (0..60).fold(Value::from("x"), |inner, _| Value::list([inner.clone(), inner]));
        assert!(leave(&doubled).is_err());
    }
}
