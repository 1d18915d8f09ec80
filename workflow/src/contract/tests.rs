//! Schemas are compiled without fetching, values checked without losing digits, defaults filled at any depth.

use serde_json::{Value as Json, json};

use super::*;

fn contract(schema: Json) -> Contract {
    Contract::compile(&schema).unwrap()
}

fn payload(json: Json) -> Payload {
    Payload::parse(&json.to_string()).unwrap()
}

fn refused(schema: Json) -> (String, String) {
    let fault = Contract::compile(&schema).unwrap_err().remove(0);
    (fault.pointer, fault.message)
}

#[test]
fn all_faults_of_a_value_are_told_and_none_shows_it() {
    let contract = contract(json!({
        "type": "object", "required": ["id"],
        "properties": {"n": {"type": "integer"}, "s": {"type": "string", "maxLength": 3}}
    }));
    let faults = contract.check(&payload(json!({"n": "secret", "s": "secret"}))).unwrap_err();
    let paths: Vec<_> = faults.iter().map(|fault| fault.path.as_str()).collect();
    assert_eq!(paths.len(), 3);
    assert!(paths.contains(&"/n") && paths.contains(&"/s") && paths.contains(&""));
    assert!(faults.iter().all(|fault| !fault.message.contains("secret")), "{faults:?}");
}

#[test]
fn the_number_of_faults_is_bounded() {
    let contract = contract(json!({"items": {"type": "string"}}));
    let many = payload((0..1_000).collect());
    assert_eq!(contract.check(&many).unwrap_err().len(), VALUE_FAULTS_MAX);
}

#[test]
fn integers_compare_exactly() {
    let contract = contract(json!({"maximum": 9_007_199_254_740_993_i64}));
    assert!(contract.check(&Payload::parse("9007199254740993").unwrap()).is_ok());
    assert!(contract.check(&Payload::parse("9007199254740994").unwrap()).is_err());
    let contract = super::tests::contract(json!({"const": u64::MAX}));
    assert!(contract.check(&Payload::parse("18446744073709551615").unwrap()).is_ok());
    assert!(contract.check(&Payload::parse("18446744073709551614").unwrap()).is_err());
    let contract = super::tests::contract(json!({"type": "integer"}));
    assert!(contract.check(&Payload::parse("9223372036854775807").unwrap()).is_ok());
    assert!(contract.check(&Payload::parse("1.0").unwrap()).is_ok());
}

#[test]
fn nothing_is_ever_fetched() {
    assert_eq!(refused(json!({"properties": {"a": {"$ref": "https://example.com/a"}}})).0, "/properties/a/$ref");
    assert_eq!(refused(json!({"$ref": "other.json"})).0, "/$ref");
    assert_eq!(refused(json!({"items": {"$dynamicRef": "file:///a#x"}})).0, "/items/$dynamicRef");
    // A property that is called so is no reference; nor is what stands in a constant.
    contract(json!({"properties": {"$ref": {"type": "string"}}}));
    contract(json!({"const": {"$ref": "https://example.com/a"}}));
    // What is bundled is there.
    contract(json!({"$ref": "https://example.com/a", "$defs": {"a": {"$id": "https://example.com/a"}}}));
}

#[test]
fn schemas_without_end_are_refused_and_recursive_values_are_not() {
    for endless in [json!({"$ref": "#"}), json!({"allOf": [{"$ref": "#"}]}), json!({"not": {"$ref": "#"}})] {
        assert!(refused(endless).1.contains("itself without end"));
    }
    let tree = contract(json!({"properties": {"next": {"$ref": "#"}}, "required": ["n"]}));
    assert!(tree.check(&payload(json!({"n": 1, "next": {"n": 2}}))).is_ok());
    assert!(tree.check(&payload(json!({"n": 1, "next": {}}))).is_err());
}

#[test]
fn patterns_do_not_backtrack_and_are_bounded() {
    assert_eq!(refused(json!({"pattern": "["})).0, "/pattern");
    assert_eq!(refused(json!({"pattern": "(?=a)"})).0, "/pattern");
    assert_eq!(refused(json!({"patternProperties": {"(a{1000}){1000}": {}}})).0, "/patternProperties/(a{1000}){1000}");
    let evil = contract(json!({"pattern": "^(a+)+$"}));
    assert!(evil.check(&payload(json!("a".repeat(100_000) + "b"))).is_err());
}

#[test]
fn what_is_no_schema_is_refused() {
    assert_eq!(refused(json!([])).0, "");
    assert_eq!(refused(json!({"type": "objekt"})).0, "/type");
    assert_eq!(refused(json!({"$schema": "http://json-schema.org/draft-07/schema#"})).0, "/$schema");
    assert_eq!(refused(json!({"$ref": "#/$defs/none"})).0, "/$ref");
    let parts: serde_json::Map<String, Json> = (0..20_000).map(|n| (n.to_string(), json!({}))).collect();
    assert!(refused(json!({"properties": parts})).1.starts_with("too big"));
}

#[test]
fn defaults_are_filled_at_any_depth() {
    let contract = contract(json!({
        "properties": {
            "a": {"default": 1},
            "list": {"items": {"properties": {"b": {"default": [2]}}}},
            "pair": {"prefixItems": [{"properties": {"p": {"default": 0}}}]},
            "ref": {"$ref": "#/$defs/part"},
            "made": {"default": {}, "properties": {"inside": {"default": true}}},
            "others": {"additionalProperties": {"properties": {"o": {"default": null}}}}
        },
        "allOf": [{"properties": {"all": {"default": "x"}}}],
        "$defs": {"part": {"properties": {"c": {"default": 3}}, "default": {"d": 4}}}
    }));
    let given = json!({"list": [{}, {"b": 0}], "pair": [{}, {}], "others": {"k": {}}});
    let filled = contract.fill_defaults(payload(given));
    let wanted = json!({
        "a": 1, "list": [{"b": [2]}, {"b": 0}], "pair": [{"p": 0}, {}], "ref": {"d": 4, "c": 3},
        "made": {"inside": true}, "others": {"k": {"o": null}}, "all": "x"
    });
    assert_eq!(serde_json::from_str::<Json>(filled.as_str()).unwrap(), wanted);
}

#[test]
fn a_payload_without_gaps_stays_byte_for_byte() {
    let contract = contract(json!({"properties": {"a": {"default": 1}}}));
    let text = r#"{ "a" : 1.10, "big": 123456789012345678901234567890 }"#;
    assert_eq!(contract.fill_defaults(Payload::parse(text).unwrap()).as_str(), text);
    assert_eq!(contract.accept_input(Payload::parse(text).unwrap()).unwrap().as_str(), text);
    let filled = contract.accept_input(Payload::parse(r#"{"n": 18446744073709551615}"#).unwrap()).unwrap();
    assert_eq!(filled.as_str(), r#"{"a":1,"n":18446744073709551615}"#);
}

#[test]
fn defaults_that_hold_themselves_end() {
    let node = json!({"properties": {"next": {"$ref": "#/$defs/node"}}, "default": {}});
    let contract = contract(json!({"$ref": "#/$defs/node", "$defs": {"node": node}}));
    let filled = contract.fill_defaults(payload(json!({})));
    assert_eq!(filled.as_str(), r#"{"next":{}}"#);
}

#[test]
fn defaults_that_branch_at_every_level_end() {
    let twice = json!({"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]});
    let part = json!({"properties": {"next": twice, "x": {"default": 1}}});
    let contract = contract(json!({"$ref": "#/$defs/a", "$defs": {"a": part}}));
    let deep = (0..60).fold(json!({}), |inner, _| json!({"next": inner}));
    let filled = contract.fill_defaults(payload(deep));
    assert!(filled.as_str().starts_with(r#"{"next":{"next""#));
}

#[test]
fn the_input_of_a_workflow_is_closed_unless_it_says_otherwise() {
    let takes = |schema: Json, value: Json| Contract::compile_closed(&schema).unwrap().check(&payload(value)).is_ok();
    let declared = json!({"properties": {"a": {}}});
    assert!(takes(declared.clone(), json!({"a": {"anything": 1}})));
    assert!(!takes(declared, json!({"b": 1})));
    assert!(takes(json!({"properties": {"a": {}}, "additionalProperties": true}), json!({"b": 1})));
    assert!(takes(json!({"type": "object"}), json!({"b": 1})));
    assert!(takes(json!({"properties": {}}), json!({"b": 1})));
    assert!(takes(json!(true), json!({"b": 1})));
    let split = json!({"properties": {"a": {}}, "allOf": [{"properties": {"b": {}}}]});
    assert!(takes(split.clone(), json!({"a": 1, "b": 1})));
    assert!(!takes(split, json!({"c": 1})));
    let elsewhere = json!({"$ref": "#/$defs/o", "$defs": {"o": {"properties": {"a": {}}}}});
    assert!(!takes(elsewhere, json!({"b": 1})));
}

#[test]
fn a_reference_by_name_is_searched_where_it_belongs() {
    let schema = json!({
        "properties": {
            "a": {"$ref": "#x"},
            "b": {"$ref": "urn:inner#x"},
            "c": {"$ref": "#y"}
        },
        "$defs": {
            "one": {"$anchor": "x", "default": 1},
            "two": {"$id": "urn:inner", "$defs": {"x": {"$anchor": "x", "default": 2}}},
            "three": {"$dynamicAnchor": "y", "default": 3}
        }
    });
    let filled = contract(schema).fill_defaults(payload(json!({})));
    assert_eq!(filled.as_str(), r#"{"a":1,"b":2,"c":3}"#);
}

#[test]
fn a_message_begins_with_the_place_unless_it_is_the_whole_value() {
    let contract = contract(json!({"type": "object", "properties": {"n": {"type": "integer"}}}));
    let told = |json: Json| contract.check(&payload(json)).unwrap_err()[0].to_string();
    assert_eq!(told(json!([])), "this is not of type \"object\"");
    assert_eq!(told(json!({"n": true})), "/n: this is not of type \"integer\"");
    assert_eq!(Contract::compile(&json!(5)).unwrap_err()[0].to_string(), "a JSON Schema is an object or a boolean");
}
