//! Functions of strings.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::text_in;
use crate::expression::EvalError;
use crate::expression::meter::Meter;
use crate::expression::text::{parse_duration_ms, parse_timestamp_ms};
use crate::value::Value;

pub(super) fn base64(arguments: &[Value], meter: &mut Meter) -> Result<Value, EvalError> {
    let text = text_in(arguments, 0, "base64")?;
    meter.text_of(text.len().div_ceil(3) * 4)?;
    Ok(Value::from(STANDARD.encode(text)))
}

/// In hexadecimal digits.
pub(super) fn sha256(arguments: &[Value], meter: &mut Meter) -> Result<Value, EvalError> {
    let text = text_in(arguments, 0, "sha256")?;
    meter.steps(1)?;
    meter.bytes(text.len())?;
    let digest = Sha256::digest(text);
    Ok(Value::from(digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
}

/// In milliseconds.
pub(super) fn duration(arguments: &[Value], meter: &mut Meter) -> Result<Value, EvalError> {
    let text = text_in(arguments, 0, "duration")?;
    meter.bytes(text.len())?;
    let ms = parse_duration_ms(text).and_then(|ms| i64::try_from(ms).ok());
    ms.map(Value::Int).ok_or_else(|| EvalError::new("duration() needs a text like 250ms, 1.5s or 1h30m"))
}

/// In milliseconds since 1970.
pub(super) fn timestamp(arguments: &[Value], meter: &mut Meter) -> Result<Value, EvalError> {
    let text = text_in(arguments, 0, "timestamp")?;
    meter.bytes(text.len())?;
    let ms = parse_timestamp_ms(text).map(Value::Int);
    ms.ok_or_else(|| EvalError::new("timestamp() needs an RFC 3339 text like 2026-01-31T12:00:00Z"))
}

pub(super) fn starts_with(arguments: &[Value], meter: &mut Meter) -> Result<Value, EvalError> {
    let (text, part) = (text_in(arguments, 0, "startsWith")?, text_in(arguments, 1, "startsWith")?);
    meter.bytes(part.len())?;
    Ok(Value::Bool(text.starts_with(part)))
}

pub(super) fn ends_with(arguments: &[Value], meter: &mut Meter) -> Result<Value, EvalError> {
    let (text, part) = (text_in(arguments, 0, "endsWith")?, text_in(arguments, 1, "endsWith")?);
    meter.bytes(part.len())?;
    Ok(Value::Bool(text.ends_with(part)))
}

pub(super) fn contains(arguments: &[Value], meter: &mut Meter) -> Result<Value, EvalError> {
    let (text, part) = (text_in(arguments, 0, "contains")?, text_in(arguments, 1, "contains")?);
    meter.bytes(text.len() + part.len())?;
    Ok(Value::Bool(text.contains(part)))
}

/// At each separator; into characters where it is empty.
pub(super) fn split(arguments: &[Value], meter: &mut Meter) -> Result<Value, EvalError> {
    let (text, separator) = (text_in(arguments, 0, "split")?, text_in(arguments, 1, "split")?);
    meter.bytes(text.len())?;
    if separator.is_empty() {
        meter.list_of(text.chars().count())?;
        return Ok(Value::list(text.chars().map(|c| Value::from(c.encode_utf8(&mut [0; 4]) as &str))));
    }
    meter.list_of(text.matches(separator).count() + 1)?;
    Ok(Value::list(text.split(separator).map(Value::from)))
}

pub(super) fn lower_ascii(arguments: &[Value], meter: &mut Meter) -> Result<Value, EvalError> {
    let text = text_in(arguments, 0, "lowerAscii")?;
    meter.text_of(text.len())?;
    Ok(Value::from(text.to_ascii_lowercase()))
}

pub(super) fn upper_ascii(arguments: &[Value], meter: &mut Meter) -> Result<Value, EvalError> {
    let text = text_in(arguments, 0, "upperAscii")?;
    meter.text_of(text.len())?;
    Ok(Value::from(text.to_ascii_uppercase()))
}

/// All of them; an empty part stands before, between and behind the characters.
pub(super) fn replace(arguments: &[Value], meter: &mut Meter) -> Result<Value, EvalError> {
    let text = text_in(arguments, 0, "replace")?;
    let (part, by) = (text_in(arguments, 1, "replace")?, text_in(arguments, 2, "replace")?);
    meter.bytes(text.len())?;
    let count = text.matches(part).count();
    meter.text_of((text.len() - count * part.len()).saturating_add(count.saturating_mul(by.len())))?;
    Ok(Value::from(text.replace(part, by)))
}

/// Without the white space at both ends.
pub(super) fn trim(arguments: &[Value], meter: &mut Meter) -> Result<Value, EvalError> {
    let text = text_in(arguments, 0, "trim")?;
    meter.text_of(text.len())?;
    Ok(Value::from(text.trim()))
}
