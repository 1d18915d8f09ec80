//! What strangers may write must cost little, whatever it is. Each of these once overflowed the stack, filled the
//! memory or never came to an end; a test that hangs is ended by the time limit of the test run.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::sync::Arc;

use workflow::command::{Run, Start};
use workflow::contract::Contract;
use workflow::document::{self, Format};
use workflow::expression::Expression;
use workflow::state::RunStatus;
use workflow::value::{Payload, Value};

/// `d0` refers to `d1`, that to `d2`…, each `times` times about the same value.
fn chain(length: usize, times: usize) -> serde_json::Value {
    let mut definitions = serde_json::Map::new();
    for n in 0..length {
        let next = serde_json::json!({"$ref": format!("#/$defs/d{}", n + 1)});
        definitions.insert(format!("d{n}"), serde_json::json!({"anyOf": vec![next; times]}));
    }
    definitions.insert(format!("d{length}"), serde_json::json!({"type": "string"}));
    serde_json::json!({"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": definitions})
}

#[test]
fn a_long_chain_of_references_is_refused_and_a_short_one_is_not() {
    assert!(Contract::compile(&chain(40, 1)).is_ok());
    let faults = Contract::compile(&chain(4_000, 1)).unwrap_err();
    assert!(faults[0].message.contains("a chain of more than 100 schemas"), "{faults:?}");
}

#[test]
fn a_schema_that_doubles_at_each_level_is_refused() {
    assert!(Contract::compile(&chain(5, 2)).is_ok());
    let faults = Contract::compile(&chain(25, 2)).unwrap_err();
    assert!(faults[0].message.contains("too costly"), "{faults:?}");
    assert!(Contract::compile_closed(&chain(25, 2)).is_err());
}

#[test]
fn aliases_as_keys_count_like_any_other() {
    let mut text = format!("name: a\nversion: 1.0.0\nx-a: &a {}\nx-b:\n", "k".repeat(500_000));
    for _ in 0..5_000 {
        text.push_str("- {*a : 1}\n");
    }
    text.push_str("steps: [{id: s, sleep: 1s}]\n");
    let faults = document::compile(&text, Format::Yaml).unwrap_err();
    assert!(faults.to_string().contains("anchors and aliases make the document grow"), "{faults}");
}

#[test]
fn a_view_that_is_shared_is_paid_for_each_time() {
    let definition = format!(
        "{{name: v, version: 1.0.0, steps: [{{id: s, on_failure: continue, compute: \"[execution]{}\"}}], \
         result: '${{steps.s.error.code}}'}}",
        ".map(a, [a, a])".repeat(30)
    );
    let definition = document::compile(&definition, Format::Yaml).unwrap().remove(0).definition;
    let mut run = Run::new(Arc::new(definition), "x");
    run.handle(0, Start::with_input(Payload::parse("{}").unwrap())).unwrap();
    assert_eq!(run.state().head.output.as_ref().unwrap().as_str(), "\"EXPRESSION_ERROR\"");
}

#[test]
fn what_is_walked_in_vain_is_paid_for_too() {
    let mut numbers: Vec<Value> = (0..20_000_i64).map(Value::from).collect();
    numbers.push(Value::from("odd"));
    let keys = (0..20_000).map(|n| (format!("k{n}"), Value::Null));
    let scope = BTreeMap::from([("l".to_owned(), Value::list(numbers)), ("m".to_owned(), Value::map(keys))]);
    for text in ["range(150000).exists(i, l.max() > 1)", "range(150000).map(i, m.exists(k, true))"] {
        let error = Expression::compile(text).unwrap().evaluate(&scope).unwrap_err();
        assert!(error.message.contains("too costly"), "{text}: {error}");
    }
}

#[test]
fn a_child_that_calls_itself_ends_where_ids_end() {
    let document = "{name: a, version: 1.0.0, steps: [{id: c, workflow: {name: a, version: 1.0.0}}]}";
    let definition = Arc::new(document::compile(document, Format::Yaml).unwrap().remove(0).definition);
    let mut run = Run::new(Arc::clone(&definition), "x".repeat(980));
    run.handle(0, Start::with_input(Payload::parse("{}").unwrap())).unwrap();
    assert_eq!(run.state().head.status, RunStatus::Running, "982 characters are an id");
    let mut run = Run::new(definition, "x".repeat(999));
    run.handle(0, Start::with_input(Payload::parse("{}").unwrap())).unwrap();
    assert_eq!(run.state().head.error.as_ref().unwrap().code, "PAYLOAD_TOO_LARGE");
}
