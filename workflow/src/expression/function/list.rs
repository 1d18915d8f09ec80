//! Functions of lists.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::{integer_in, list_in, text_in, wrong};
use crate::expression::EvalError;
use crate::expression::meter::Meter;
use crate::expression::operator::{equal, exact, order};
use crate::value::Value;

/// Longest list that `range` makes.
const RANGE_MAX: i64 = 1_000_000;

pub(super) fn range(arguments: &[Value], meter: &mut Meter) -> Result<Value, EvalError> {
    let length = integer_in(arguments, 0, "range")?;
    if length > RANGE_MAX {
        return Err(EvalError::new(format!("range() makes at most {RANGE_MAX} numbers")));
    }
    let length = length.max(0);
    meter.list_of(length as usize)?;
    Ok(Value::list((0..length).map(Value::Int)))
}

/// Integers add up exactly; with the first double the sum becomes one.
pub(super) fn sum(arguments: &[Value], meter: &mut Meter) -> Result<Value, EvalError> {
    let list = list_in(arguments, 0, "sum")?;
    meter.elements(list.len())?;
    let (mut integers, mut doubles) = (0_i128, None);
    for value in list {
        match (value, doubles) {
            // A list has fewer than 2^63 elements.
            (Value::Int(integer), None) => integers += i128::from(*integer),
            (Value::Int(integer), Some(sum)) => doubles = Some(sum + *integer as f64),
            (Value::Double(double), sum) => doubles = Some(sum.unwrap_or(integers as f64) + double),
            (other, _) => return Err(wrong("sum", "numbers", other)),
        }
    }
    Ok(doubles.map_or_else(|| exact(integers), Value::Double))
}

/// The least; null of an empty list.
pub(super) fn min(arguments: &[Value], meter: &mut Meter) -> Result<Value, EvalError> {
    let list = comparable(arguments, "min", meter)?;
    Ok(list.iter().min_by(|a, b| ordered(a, b)).cloned().unwrap_or_default())
}

/// The greatest; null of an empty list.
pub(super) fn max(arguments: &[Value], meter: &mut Meter) -> Result<Value, EvalError> {
    let list = comparable(arguments, "max", meter)?;
    Ok(list.iter().max_by(|a, b| ordered(a, b)).cloned().unwrap_or_default())
}

/// Numbers or strings in their order; equal ones stay as they stood.
pub(super) fn sort(arguments: &[Value], meter: &mut Meter) -> Result<Value, EvalError> {
    let list = comparable(arguments, "sort", meter)?;
    let mut sorted = list.to_vec();
    sorted.sort_by(ordered);
    Ok(Value::from(sorted))
}

/// The list, if all its elements are numbers or all are strings; ordering them is paid for.
fn comparable<'v>(arguments: &'v [Value], name: &str, meter: &mut Meter) -> Result<&'v [Value], EvalError> {
    let list = list_in(arguments, 0, name)?;
    // Looking for the odd one costs too, and `exists` may swallow the error.
    meter.elements(list.len())?;
    if let Some((first, rest)) = list.split_first()
        && let Some(odd) = std::iter::once(first).chain(rest).find(|value| order(first, value).is_none())
    {
        return Err(wrong(name, "numbers or strings, all alike", odd));
    }
    let rounds = rounds(list.len());
    list.iter().try_for_each(|value| meter.walk(value, rounds))?;
    Ok(list)
}

/// How often an element is compared when n are ordered.
fn rounds(length: usize) -> usize {
    length.checked_ilog2().unwrap_or(0) as usize + 1
}

fn ordered(a: &Value, b: &Value) -> Ordering {
    order(a, b).unwrap_or(Ordering::Equal)
}

/// Lists among the elements become their elements, one level deep.
pub(super) fn flatten(arguments: &[Value], meter: &mut Meter) -> Result<Value, EvalError> {
    let list = list_in(arguments, 0, "flatten")?;
    let length = list.iter().map(|value| value.as_list().map_or(1, <[Value]>::len)).sum();
    meter.list_of(length)?;
    meter.elements(list.len())?;
    Ok(Value::list(list.iter().flat_map(|value| value.as_list().unwrap_or(std::slice::from_ref(value))).cloned()))
}

/// The first of equal elements each, where it stood.
pub(super) fn distinct(arguments: &[Value], meter: &mut Meter) -> Result<Value, EvalError> {
    let list = list_in(arguments, 0, "distinct")?;
    let rounds = rounds(list.len());
    list.iter().try_for_each(|value| meter.walk(value, rounds))?;
    let mut seen = BTreeSet::new();
    Ok(Value::list(list.iter().filter(|value| seen.insert(Ordered(value))).cloned()))
}

/// Any values in some order that agrees with the language's equality.
struct Ordered<'v>(&'v Value);

impl Ord for Ordered<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.0, other.0) {
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (Value::List(a), Value::List(b)) => a.iter().map(Ordered).cmp(b.iter().map(Ordered)),
            (Value::Map(a), Value::Map(b)) => {
                let entry = |(key, value)| (key, Ordered(value));
                a.iter().map(entry).cmp(b.iter().map(entry))
            }
            (a, b) => order(a, b).unwrap_or_else(|| a.kind().cmp(b.kind())),
        }
    }
}

impl PartialOrd for Ordered<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ordered<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ordered<'_> {}

/// Lists of so many elements each, the last of what is left.
pub(super) fn chunk(arguments: &[Value], meter: &mut Meter) -> Result<Value, EvalError> {
    let list = list_in(arguments, 0, "chunk")?;
    let length = integer_in(arguments, 1, "chunk")?;
    if length < 1 {
        return Err(EvalError::new("chunk() makes lists of at least one element"));
    }
    meter.list_of(list.len())?;
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    Ok(Value::list(list.chunks(length).map(|chunk| Value::from(chunk.to_vec()))))
}

/// The elements from one place to before another; places outside the list are its ends.
pub(super) fn slice(arguments: &[Value], meter: &mut Meter) -> Result<Value, EvalError> {
    let list = list_in(arguments, 0, "slice")?;
    let place = |place: usize| -> Result<usize, EvalError> {
        let place = integer_in(arguments, place, "slice")?.max(0);
        Ok(usize::try_from(place).unwrap_or(usize::MAX).min(list.len()))
    };
    let (from, to) = (place(1)?, place(2)?);
    let part = list.get(from..to).unwrap_or_default();
    meter.list_of(part.len())?;
    Ok(Value::from(part.to_vec()))
}

pub(super) fn join(arguments: &[Value], meter: &mut Meter) -> Result<Value, EvalError> {
    let list = list_in(arguments, 0, "join")?;
    let separator = text_in(arguments, 1, "join")?;
    meter.elements(list.len())?;
    let texts = list
        .iter()
        .map(|value| value.as_str().ok_or_else(|| wrong("join", "strings", value)))
        .collect::<Result<Vec<_>, _>>()?;
    let length = texts.iter().map(|text| text.len()).sum::<usize>();
    meter.text_of(length.saturating_add(separator.len().saturating_mul(texts.len().saturating_sub(1))))?;
    Ok(Value::from(texts.join(separator)))
}

/// Where the first equal element stands, from 0; -1 where there is none.
pub(super) fn index_of(arguments: &[Value], meter: &mut Meter) -> Result<Value, EvalError> {
    let list = list_in(arguments, 0, "indexOf")?;
    let wanted = arguments.get(1).unwrap_or(&Value::Null);
    for (place, value) in list.iter().enumerate() {
        if equal(value, wanted, meter)? {
            return Ok(Value::from(place));
        }
    }
    Ok(Value::Int(-1))
}
