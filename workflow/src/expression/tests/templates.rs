//! Templates: typed, spliced, literal; faults with their places.

use super::*;
use crate::expression::{Template, TemplateFault};
use serde_json::json;

fn render(template: serde_json::Value) -> String {
    let scope = scope(r#"{"s": "text", "n": null, "m": {"k": [1]}}"#);
    let template = Template::compile(&template).unwrap();
    template.evaluate(&scope).map_or_else(|_| "error".to_owned(), |value| value.to_json())
}

#[test]
fn one_expression_is_typed_others_are_spliced() {
    for (text, expected) in [
        ("${m}", r#"{"k":[1]}"#),
        ("${2.0}", "2"),
        ("${n}", "null"),
        (" ${n}", r#"" ""#),
        ("${s}${s}", r#""texttext""#),
        ("a ${s} ${null} ${2.0} ${{'k': [1]}} $${x} ${'}'}", r#""a text  2 {\"k\":[1]} ${x} }""#),
        ("", r#""""#),
        ("$", r#""$""#),
        ("$$", r#""$$""#),
        ("$x {y}", r#""$x {y}""#),
        ("$${x}", r#""${x}""#),
        ("$$${s}", r#""$${s}""#),
        ("${'a\\'}b'}", r#""a'}b""#),
        ("${\"}\" + '''}'}'''}", r#""}}'}""#),
        ("${r'\\' + s}", r#""\\text""#),
        ("${s == '' ? 1 : {'a': {'b': 2}}}", r#"{"a":{"b":2}}"#),
        ("ä${s}ä", r#""ätextä""#),
        ("${1 / 0}", "error"),
    ] {
        assert_eq!(render(json!(text)), expected, "{text}");
    }
}

#[test]
fn values_hold_templates_at_any_depth() {
    assert_eq!(
        render(json!({"b": ["${m.k[0]}", 2.0, {"c": "x${n}"}], "a": null, "${s}": true})),
        r#"{"${s}":true,"a":null,"b":[1,2,{"c":"x"}]}"#
    );
}

#[test]
fn constants_are_known_at_compile_time() {
    let constant = Template::compile(&json!({"a": [1, 2.0, "$${x}"]})).unwrap();
    assert_eq!(constant.constant().unwrap().to_json(), r#"{"a":[1,2,"${x}"]}"#);
    assert_eq!(constant.source(), json!({"a": [1, 2.0, "$${x}"]}));
    let other = Template::compile(&json!({"a/b": [1, "${x}"], "c": "${y} ${z}"})).unwrap();
    assert_eq!(other.constant(), None);
    let expressions = other.expressions().map(|(pointer, e)| format!("{pointer} {e}")).collect::<Vec<_>>();
    assert_eq!(expressions, ["/a~1b/1 x", "/c y", "/c z"]);
    assert_eq!(Template::text("${x}").unwrap(), Template::compile(&json!("${x}")).unwrap());
}

#[test]
fn all_faults_come_at_once() {
    let faults = Template::compile(&json!({"a": "ä${1 +} ${)}", "b": ["${x"], "c": "${}"})).unwrap_err();
    let fault = |pointer: &str, offset, message: &str| TemplateFault {
        pointer: pointer.to_owned(),
        message: message.to_owned(),
        offset,
    };
    assert_eq!(
        faults,
        [
            fault("/a", 6, "ends where an expression is expected"),
            fault("/a", 10, "`)` where an expression is expected"),
            fault("/b/0", 0, "`${` without its `}`"),
            fault("/c", 2, "ends where an expression is expected"),
        ]
    );
}
