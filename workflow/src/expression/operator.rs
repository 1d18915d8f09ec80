//! What the operators do with values: one rule for numbers, exact comparisons, metered walks.
//!
//! Numbers are i64 while exact, else doubles: integers mix with doubles, and an integer that would overflow becomes
//! the nearest double. A double may be infinite on the way; none leaves an expression.

use std::cmp::Ordering;

use super::EvalError;
use super::meter::Meter;
use super::node::Operator;
use crate::value::{Value, compare_mixed};

/// The language's equality, paying for every element and text compared.
pub(super) fn equal(a: &Value, b: &Value, meter: &mut Meter) -> Result<bool, EvalError> {
    meter.elements(1)?;
    match (a, b) {
        (Value::String(a), Value::String(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            meter.bytes(a.len())?;
            Ok(a == b)
        }
        (Value::List(a), Value::List(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (a, b) in a.iter().zip(b.iter()) {
                if !equal(a, b, meter)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Value::Map(a), Value::Map(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            // Both are in key order, so equal maps agree place by place.
            for ((a_key, a), (b_key, b)) in a.iter().zip(b.iter()) {
                meter.bytes(a_key.len())?;
                if a_key != b_key || !equal(a, b, meter)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        _ => Ok(a == b),
    }
}

/// The order of two numbers or two strings (by Unicode scalar values); none for anything else. NaN, which may exist
/// inside an expression, is above all numbers here, so that this is a total order.
pub(super) fn order(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Double(a), Value::Double(b)) => Some(a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))),
        (Value::Int(a), Value::Double(b)) => Some(compare_mixed(*a, *b).unwrap_or(Ordering::Less)),
        (Value::Double(a), Value::Int(b)) => Some(compare_mixed(*b, *a).map_or(Ordering::Greater, Ordering::reverse)),
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        _ => None,
    }
}

/// `<`, `<=`, `>`, `>=`.
pub(super) fn compare(operator: Operator, a: &Value, b: &Value, meter: &mut Meter) -> Result<bool, EvalError> {
    if let (Value::String(a), Value::String(b)) = (a, b) {
        meter.bytes(a.len().min(b.len()))?;
    }
    let nan = |value: &Value| matches!(value, Value::Double(double) if double.is_nan());
    let ordering = order(a, b).ok_or_else(|| {
        let (a, b) = (a.kind(), b.kind());
        EvalError::new(format!("`{}` needs two numbers or two strings, not {a} and {b}", operator.symbol()))
    })?;
    if nan(a) || nan(b) {
        return Ok(false);
    }
    Ok(match operator {
        Operator::Less => ordering.is_lt(),
        Operator::LessOrEqual => ordering.is_le(),
        Operator::Greater => ordering.is_gt(),
        _ => ordering.is_ge(),
    })
}

/// `+` of two strings, two lists or two numbers.
pub(super) fn add(a: &Value, b: &Value, meter: &mut Meter) -> Result<Value, EvalError> {
    match (a, b) {
        (Value::String(a), Value::String(b)) => {
            meter.text_of(a.len() + b.len())?;
            Ok(Value::from([a.as_ref(), b.as_ref()].concat()))
        }
        (Value::List(a), Value::List(b)) => {
            meter.list_of(a.len() + b.len())?;
            Ok(Value::from([a.as_slice(), b.as_slice()].concat()))
        }
        _ => arithmetic(Operator::Add, a, b),
    }
}

/// `+ - * / %` of numbers.
pub(super) fn arithmetic(operator: Operator, a: &Value, b: &Value) -> Result<Value, EvalError> {
    if matches!(operator, Operator::Divide | Operator::Remainder) && b.as_f64() == Some(0.0) && a.as_f64().is_some() {
        return Err(EvalError::new("division by zero"));
    }
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Ok(integers(operator, *a, *b)),
        (Value::Int(_) | Value::Double(_), Value::Int(_) | Value::Double(_)) if operator != Operator::Remainder => {
            let (a, b) = (a.as_f64().unwrap_or_default(), b.as_f64().unwrap_or_default());
            Ok(Value::Double(match operator {
                Operator::Add => a + b,
                Operator::Subtract => a - b,
                Operator::Multiply => a * b,
                _ => a / b,
            }))
        }
        _ => {
            let (a, b, symbol) = (a.kind(), b.kind(), operator.symbol());
            Err(EvalError::new(match operator {
                Operator::Remainder => format!("`%` needs two integers, not {a} and {b}"),
                Operator::Add => format!("`+` needs two numbers, two strings or two lists, not {a} and {b}"),
                _ => format!("`{symbol}` needs two numbers, not {a} and {b}"),
            }))
        }
    }
}

fn integers(operator: Operator, a: i64, b: i64) -> Value {
    // In 128 bits nothing of two i64 overflows; `b` is not 0 where it divides.
    let (a, b) = (i128::from(a), i128::from(b));
    exact(match operator {
        Operator::Add => a + b,
        Operator::Subtract => a - b,
        Operator::Multiply => a * b,
        Operator::Divide => a / b,
        _ => a % b,
    })
}

/// An integer result: i64 while exact, else the nearest double.
pub(super) fn exact(value: i128) -> Value {
    i64::try_from(value).map_or(Value::Double(value as f64), Value::Int)
}

/// `-x`.
pub(super) fn negate(value: &Value) -> Result<Value, EvalError> {
    match value {
        Value::Int(integer) => Ok(exact(-i128::from(*integer))),
        Value::Double(double) => Ok(Value::Double(-double)),
        other => Err(EvalError::new(format!("`-` needs a number, not {}", other.kind()))),
    }
}

impl Operator {
    fn symbol(self) -> &'static str {
        match self {
            Operator::Equal => "==",
            Operator::NotEqual => "!=",
            Operator::Less => "<",
            Operator::LessOrEqual => "<=",
            Operator::Greater => ">",
            Operator::GreaterOrEqual => ">=",
            Operator::In => "in",
            Operator::Add => "+",
            Operator::Subtract => "-",
            Operator::Multiply => "*",
            Operator::Divide => "/",
            Operator::Remainder => "%",
        }
    }
}
