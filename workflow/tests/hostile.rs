//! What strangers may write must cost little, whatever it is. Each of these once overflowed the stack, filled the
//! memory or never came to an end; a test that hangs is ended by the time limit of the test run.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::sync::Arc;

use workflow::case;
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

/// Each reference by name once walked the whole schema, and each input that had defaults filled in did so again.
#[test]
fn names_inside_a_schema_are_looked_up_and_not_searched() {
    let mut properties = serde_json::Map::new();
    for n in 0..1_500 {
        properties.insert(format!("p{n}"), serde_json::json!({"$ref": format!("#a{n}")}));
    }
    let anchor = |n: usize| (format!("d{n}"), serde_json::json!({"$anchor": format!("a{n}"), "default": n}));
    let definitions: serde_json::Map<_, _> = (0..1_500).map(anchor).collect();
    let schema = serde_json::json!({"properties": properties, "$defs": definitions});
    let contract = Contract::compile(&schema).unwrap();
    for _ in 0..20 {
        let filled = contract.accept_input(Payload::parse("{}").unwrap()).unwrap();
        assert!(filled.as_str().contains("\"p1499\":1499"));
    }
}

#[test]
fn the_patterns_of_a_document_are_counted_together() {
    let document = |tasks: usize| {
        let mut text = "name: a\nversion: 1.0.0\nsteps: [{id: s, task: t0}]\ntasks:\n".to_owned();
        for n in 0..tasks {
            let patterns: Vec<String> = (0..50).map(|p| format!("p{p}: {{pattern: '^{n}-{p}$'}}")).collect();
            text.push_str(&format!("  t{n}: {{version: 1.0.0, input: {{properties: {{{}}}}}}}\n", patterns.join(", ")));
        }
        text
    };
    assert!(document::compile(&document(10), Format::Yaml).is_ok());
    let faults = document::compile(&document(12), Format::Yaml).unwrap_err();
    assert_eq!(faults.list().len(), 1);
    let fault = &faults.list()[0];
    assert!(fault.path == "/tasks/t10/input" && fault.message.starts_with("too many patterns"), "{fault}");
}

/// Where an expression stands was counted from the beginning of its text, for each of them.
#[test]
fn a_text_of_many_expressions_is_read_once() {
    let text =
        format!("name: a\nversion: 1.0.0\nsteps: [{{id: s, sleep: 1s}}]\nresult: \"{}\"\n", "ä${1}".repeat(50_000));
    assert!(document::compile(&text, Format::Yaml).is_ok());
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

/// The fault that a case ends with.
fn told(document: &str, case: &str) -> String {
    let documents = document::compile(document, Format::Yaml).unwrap();
    let definitions: Vec<_> = documents.into_iter().map(|compiled| Arc::new(compiled.definition)).collect();
    let case = case::parse(case).unwrap().remove(0);
    let report = case::run(&case, &definitions, case::Checks::Expectations);
    report.differences.first().map(ToString::to_string).unwrap_or_default()
}

#[test]
fn a_document_that_goes_on_as_new_at_once_ends_its_test_case() {
    let document = "{name: a, version: 1.0.0, steps: [{id: n, continue_as_new: {input: {}}}]}";
    let text = told(document, "- {name: x, expect: {status: completed}}");
    assert!(text.contains("10000 runs and no end in sight"), "{text}");
}

#[test]
fn children_that_have_children_end_their_test_case() {
    let child = "workflow: {name: a, version: 1.0.0}";
    let document = format!("{{name: a, version: 1.0.0, steps: [{{id: c, for: {{each: '[1, 2, 3]'}}, {child}}}]}}");
    let text = told(&document, "- {name: x, expect: {status: completed}}");
    assert!(text.contains("10000 runs and no end in sight"), "{text}");
}

#[test]
fn a_mock_sends_its_result_a_thousand_times_at_most() {
    let case = |times: &str| format!("- {{name: x, mocks: {{t.a: {{sent: {times}}}}}, expect: {{status: completed}}}}");
    assert!(case::parse(&case("1000")).is_ok());
    let faults = case::parse(&case("1000000000")).unwrap_err().to_string();
    assert!(faults.contains("/0/mocks/t.a/sent: ") && faults.contains("1000000000 times are too many"), "{faults}");
}

/// 100 000 unknown members below a name of 200 000 letters were once 3 GB of faults: each had its whole path.
#[test]
fn faults_and_their_paths_take_little_however_many_there_are() {
    let members: Vec<String> = (0..100_000).map(|n| format!("\"k{n}\": 1")).collect();
    let tasks = format!("{{\"{}\": {{{}}}}}", "t".repeat(200_000), members.join(","));
    let steps = "[{\"id\": \"s\", \"sleep\": 1}]";
    let text = format!("{{\"name\": \"a\", \"version\": \"1.0.0\", \"steps\": {steps}, \"tasks\": {tasks}}}");
    let faults = document::compile(&text, Format::Json).unwrap_err();
    assert_eq!(faults.list().len(), 101);
    assert!(faults.list().iter().all(|fault| fault.path.len() < 4_000 && fault.message.len() < 4_000));
    let last = faults.list().last().unwrap();
    assert_eq!(last.message, "99902 more faults from here on");
}

#[test]
fn names_of_cases_are_compared_once() {
    let mut cases = String::new();
    for n in 0..20_000 {
        cases.push_str(&format!("- {{name: c{n}, expect: {{status: completed}}}}\n"));
    }
    assert_eq!(case::parse(&cases).unwrap().len(), 20_000);
    cases.push_str("- {name: c19999, expect: {status: completed}}\n");
    let faults = case::parse(&cases).unwrap_err().to_string();
    assert!(faults.contains("two cases are called"), "{faults}");
}
