//! Functions of any values: conversions, sizes, the first that is not null.

use super::{text_in, wrong};
use crate::expression::EvalError;
use crate::expression::leave::{leave, size as json_size};
use crate::expression::meter::{BYTES_MAX, Meter};
use crate::expression::scope::Operand;
use crate::value::Value;

/// Characters (Unicode scalar values) of a string, elements of a list, entries of a map.
pub(super) fn size<'a>(arguments: Vec<Operand<'a>>, meter: &mut Meter) -> Result<Operand<'a>, EvalError> {
    let operand = arguments.into_iter().next().unwrap_or_else(Operand::null);
    let size = match operand {
        Operand::List(elements) => elements.len(),
        other => match other.into_value(meter)? {
            Value::String(text) => {
                meter.bytes(text.len())?;
                text.chars().count()
            }
            Value::List(values) => values.len(),
            Value::Map(entries) => entries.len(),
            other => return Err(wrong("size", "a string, a list or a map", &other)),
        },
    };
    Ok(Operand::value(size))
}

/// The first argument that is not null; null when all are.
pub(super) fn coalesce<'a>(arguments: Vec<Operand<'a>>, _: &mut Meter) -> Result<Operand<'a>, EvalError> {
    let found = arguments.into_iter().find(|operand| !matches!(operand, Operand::Value(Value::Null)));
    Ok(found.unwrap_or_else(Operand::null))
}

/// A string as it is, `null`, all else as compact JSON.
pub(super) fn string(arguments: &[Value], meter: &mut Meter) -> Result<Value, EvalError> {
    match arguments.first() {
        Some(Value::String(text)) => Ok(Value::String(text.clone())),
        _ => to_json(arguments, meter),
    }
}

/// Compact JSON, keys in order.
pub(super) fn to_json(arguments: &[Value], meter: &mut Meter) -> Result<Value, EvalError> {
    let value = arguments.first().unwrap_or(&Value::Null);
    // A value that is too big has been walked as far as the bound.
    let measured = json_size(value);
    meter.bytes(*measured.as_ref().unwrap_or(&BYTES_MAX))?;
    measured?;
    Ok(Value::from(leave(value)?.to_json()))
}

/// From decimal digits, or a number without its fraction.
pub(super) fn int(arguments: &[Value], meter: &mut Meter) -> Result<Value, EvalError> {
    let value = arguments.first().unwrap_or(&Value::Null);
    match value {
        Value::Int(integer) => Ok(Value::Int(*integer)),
        Value::Double(double) if double.is_finite() => Ok(integral(double.trunc())),
        Value::Double(_) => Err(EvalError::new("int() of a number beyond a double")),
        Value::String(text) => {
            meter.bytes(text.len())?;
            let digits = text.strip_prefix('-').unwrap_or(text);
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(EvalError::new("int() needs a text of decimal digits"));
            }
            match text.parse::<i64>() {
                Ok(integer) => Ok(Value::Int(integer)),
                Err(_) => finite(text).map(Value::Double),
            }
        }
        other => Err(wrong("int", "a number or a string", other)),
    }
}

/// A double without fraction as an integer where it fits.
fn integral(double: f64) -> Value {
    Value::Double(double).as_i64().map_or(Value::Double(double), Value::Int)
}

fn finite(text: &str) -> Result<f64, EvalError> {
    let double = text.parse::<f64>().ok().filter(|double| double.is_finite());
    double.ok_or_else(|| EvalError::new("a text that is no number"))
}

pub(super) fn double(arguments: &[Value], meter: &mut Meter) -> Result<Value, EvalError> {
    let value = arguments.first().unwrap_or(&Value::Null);
    match value {
        Value::Double(double) => Ok(Value::Double(*double)),
        Value::Int(integer) => Ok(Value::Double(*integer as f64)),
        Value::String(text) => {
            meter.bytes(text.len())?;
            finite(text).map(Value::Double)
        }
        other => Err(wrong("double", "a number or a string", other)),
    }
}

pub(super) fn bool(arguments: &[Value], _: &mut Meter) -> Result<Value, EvalError> {
    let value = arguments.first().unwrap_or(&Value::Null);
    match value {
        Value::Bool(value) => Ok(Value::Bool(*value)),
        Value::String(text) if &**text == "true" => Ok(Value::Bool(true)),
        Value::String(text) if &**text == "false" => Ok(Value::Bool(false)),
        Value::String(_) => Err(EvalError::new("bool() needs `true` or `false`")),
        other => Err(wrong("bool", "a boolean or a string", other)),
    }
}

/// The value that a JSON text stands for.
pub(super) fn json(arguments: &[Value], meter: &mut Meter) -> Result<Value, EvalError> {
    let text = text_in(arguments, 0, "json")?;
    // Reading costs about as much as two passes.
    meter.text_of(text.len())?;
    meter.bytes(text.len())?;
    Value::from_json(text).map_err(|fault| EvalError::new(format!("json(): {fault}")))
}
