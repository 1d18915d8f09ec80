//! Random texts: nothing panics, every evaluation ends, and doing it twice gives the same.

use proptest::prelude::*;

use super::*;
use crate::expression::Template;

/// Texts that are often nearly expressions.
fn text() -> impl Strategy<Value = String> {
    const PIECES: &[&str] = &[
        "1",
        "2.5",
        "'a'",
        "null",
        "true",
        "x",
        "m",
        "l",
        "steps.a",
        ".k",
        ".size()",
        "[0]",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        "?",
        " + ",
        "-",
        " * ",
        "/",
        "%",
        "!",
        "&&",
        "||",
        "==",
        "<",
        " in ",
        ".map(y, ",
        ".filter(y, ",
        ".exists(y, ",
        "y",
        "range(",
        "string(",
        "coalesce(",
        ".sort()",
        ".join('')",
        "\\",
        "\"",
        "ä",
        "😀",
        "${",
        "$",
        "//",
        "\n",
        "r'",
        "0x",
        "1e",
        "u",
        "json(",
        ".distinct()",
        "9223372036854775807",
        "1e308",
        "has(",
    ];
    prop::collection::vec(prop::sample::select(PIECES), 0..24).prop_map(|pieces| pieces.concat())
}

fn evaluates_alike(text: &str) {
    let scope = scope(r#"{"x": 1, "m": {"k": [1, 2.5, "z"]}, "l": [3, null, {"a": "ä"}]}"#);
    if let Ok(expression) = Expression::compile(text) {
        let first = expression.evaluate(&scope);
        assert_eq!(first, expression.evaluate(&scope), "{text}");
        if let Ok(value) = first {
            // What leaves an expression can be read again, and is the same.
            assert_eq!(Value::from_json(&value.to_json()).unwrap().to_json(), value.to_json());
        }
    }
    if let Ok(template) = Template::text(text) {
        assert_eq!(template.evaluate(&scope), template.evaluate(&scope), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn near_expressions(text in text()) {
        evaluates_alike(&text);
    }

    #[test]
    fn any_texts(text in any::<String>()) {
        evaluates_alike(&text);
    }
}
