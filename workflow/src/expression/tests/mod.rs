//! What the language says about expressions, a row each.

mod bounds;
mod language;
mod random;
mod templates;
mod views;

use std::collections::BTreeMap;

use super::{CompileError, EvalError, Expression};
use crate::value::Value;

type Variables = BTreeMap<String, Value>;

fn scope(json: &str) -> Variables {
    let Value::Map(entries) = Value::from_json(json).unwrap() else { panic!("a map") };
    entries.iter().map(|(name, value)| (name.to_string(), value.clone())).collect()
}

fn compile(text: &str) -> Expression {
    Expression::compile(text).unwrap_or_else(|fault| panic!("{text}: {fault} at {}", fault.offset))
}

fn fault(text: &str) -> CompileError {
    match Expression::compile(text) {
        Ok(_) => panic!("{text}: compiles"),
        Err(fault) => fault,
    }
}

fn evaluate(text: &str, scope: &Variables) -> Result<Value, EvalError> {
    compile(text).evaluate(scope)
}

/// Each row: an expression, and the JSON of its value, or `error`.
fn check(scope: &Variables, rows: &[(&str, &str)]) {
    for (text, expected) in rows {
        let found = evaluate(text, scope).map_or_else(|_| "error".to_owned(), |value| value.to_json());
        assert_eq!(found, *expected, "{text}");
    }
}
