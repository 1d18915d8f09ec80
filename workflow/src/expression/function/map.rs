//! Functions of maps.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::wrong;
use crate::expression::EvalError;
use crate::expression::meter::Meter;
use crate::value::Value;

fn map_in<'v>(arguments: &'v [Value], name: &str) -> Result<&'v BTreeMap<Arc<str>, Value>, EvalError> {
    let value = arguments.first().unwrap_or(&Value::Null);
    value.as_map().ok_or_else(|| wrong(name, "a map", value))
}

/// Later maps win.
pub(super) fn merge(arguments: &[Value], meter: &mut Meter) -> Result<Value, EvalError> {
    let mut merged = BTreeMap::new();
    for argument in arguments {
        let entries = argument.as_map().ok_or_else(|| wrong("merge", "maps", argument))?;
        meter.list_of(merged.len() + entries.len())?;
        merged.extend(entries.iter().map(|(key, value)| (Arc::clone(key), value.clone())));
    }
    Ok(Value::from(merged))
}

pub(super) fn keys(arguments: &[Value], meter: &mut Meter) -> Result<Value, EvalError> {
    let map = map_in(arguments, "keys")?;
    meter.list_of(map.len())?;
    Ok(Value::list(map.keys().cloned().map(Value::String)))
}

/// In the order of the keys.
pub(super) fn values(arguments: &[Value], meter: &mut Meter) -> Result<Value, EvalError> {
    let map = map_in(arguments, "values")?;
    meter.list_of(map.len())?;
    Ok(Value::list(map.values().cloned()))
}

/// A list of {key, value}, in the order of the keys.
pub(super) fn entries(arguments: &[Value], meter: &mut Meter) -> Result<Value, EvalError> {
    let map = map_in(arguments, "entries")?;
    meter.list_of(map.len().saturating_mul(3))?;
    Ok(Value::list(
        map.iter().map(|(key, value)| Value::map([("key", Value::String(Arc::clone(key))), ("value", value.clone())])),
    ))
}
