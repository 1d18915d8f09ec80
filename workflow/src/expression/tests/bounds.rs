//! Hostile and costly expressions.

use super::*;
use crate::expression::{DEPTH_MAX, LOOPS_MAX, NESTING_MAX, TEXT_BYTES_MAX};

/// Runs with half the stack of a runtime thread.
fn on_a_small_stack(run: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap().join().unwrap();
}

#[test]
fn deep_texts_are_refused_without_overflow() {
    on_a_small_stack(|| {
        let n = 100_000;
        for text in [
            "(".repeat(n) + "1" + &")".repeat(n),
            "(".repeat(n),
            "[".repeat(n),
            "{".repeat(n),
            "f(".repeat(n),
            "!".repeat(n) + "true",
            "-".repeat(n) + "x",
            "1+".repeat(n) + "1",
            "a".to_owned() + &".b".repeat(n),
            "a".to_owned() + &"[0]".repeat(n),
            "a?b:".repeat(n) + "c",
            "a?".repeat(n),
            "a==".repeat(n) + "a",
            "a".to_owned() + &".map(x,x)".repeat(n),
            "'".repeat(n),
        ] {
            assert!(Expression::compile(&text).is_err());
            // So much of it as passes the bound of the length.
            let half = &text[..TEXT_BYTES_MAX];
            assert!(Expression::compile(half).is_err(), "{}", &half[..20]);
        }
    });
}

#[test]
fn the_deepest_texts_work() {
    on_a_small_stack(|| {
        let scope = scope(r#"{"a": {}, "x": 1}"#);
        let (n, brackets) = (DEPTH_MAX - 1, NESTING_MAX);
        for (text, expected) in [
            ("(".repeat(brackets) + "1" + &")".repeat(brackets), "1".to_owned()),
            ("1+".repeat(n) + "1", (n + 1).to_string()),
            ("!".repeat(brackets) + "true", (brackets % 2 == 0).to_string()),
            ("a".to_owned() + &".b".repeat(n), "null".to_owned()),
            ("[1]".to_owned() + &".map(x, [x])".repeat(n - 2) + ".size()", "1".to_owned()),
            ("false?1:".repeat(brackets) + "2", "2".to_owned()),
            ("size([".repeat(brackets / 2) + "1" + &"])".repeat(brackets / 2), "1".to_owned()),
            ("[1].map(x,".repeat(LOOPS_MAX) + "x" + &")[0]".repeat(LOOPS_MAX), "1".to_owned()),
        ] {
            assert_eq!(evaluate(&text, &scope).unwrap().to_json(), expected, "{}", &text[..20]);
        }
        let deeper = "1+".repeat(n + 1) + "1";
        assert!(fault(&deeper).message.contains("levels deep"));
        // Chains of these are one node, however long.
        assert_eq!(evaluate(&("false||".repeat(5_000) + "true"), &scope).unwrap().to_json(), "true");
    });
}

#[test]
fn a_million_steps_at_most() {
    let none = Variables::new();
    check(
        &none,
        &[
            ("range(2000).map(x, range(600).exists(y, y < 0)).size()", "error"),
            ("range(200).map(x, range(600).exists(y, y < 0)).size()", "200"),
            // Nothing wins over running out.
            ("range(2000).all(x, !range(600).exists(y, y < 0)) || true", "error"),
            ("range(1000).exists(x, range(1000).all(y, y >= 0) && x == 999)", "error"),
            ("range(1000000).size()", "1000000"),
            ("range(1000001)", "error"),
            ("range(100000).map(x, range(100000).size()).size()", "error"),
            ("range(10000).distinct().size()", "10000"),
            ("range(300000).exists(x, range(300000) != range(300000))", "error"),
            ("range(100000).all(x, 'a'.matches('a' + string(x)))", "false"),
            ("range(100000).exists(x, 'b'.matches('a' + string(x)))", "error"),
            ("range(300).map(x, range(10000).map(y, 10000 - y).sort()).size()", "error"),
        ],
    );
}

#[test]
fn no_value_over_8_mib() {
    let mebibyte = "x".repeat(1 << 20);
    let scope = Variables::from([("m".to_owned(), Value::from(mebibyte))]);
    check(
        &scope,
        &[
            ("(m + m + m + m + m + m + m + m).size()", "8388608"),
            ("(m + m + m + m + m + m + m + m + 'x').size()", "error"),
            ("range(9).map(x, m)", "error"),
            ("range(9).map(x, m).size()", "9"),
            ("range(9).map(x, m).join('').size()", "error"),
            ("range(7).map(x, m).join('').size()", "7340032"),
            ("toJson(range(9).map(x, m)).size()", "error"),
            ("string(range(9).map(x, m)).size()", "error"),
            ("m.replace('x', 'aaaaaaaaa').size()", "error"),
            ("m.replace('x', 'aaaaaaaa').size()", "8388608"),
            ("m.replace('', 'aaaaaaaaa').size()", "error"),
            ("base64(m + m + m + m + m + m + m).size()", "error"),
            ("base64(m).size()", "1398104"),
            ("json('[' + m + m + m + m + m + m + m + m + ']')", "error"),
            ("m.split('').size()", "1048576"),
            ("m.split('')", "[\"x\"]"),
        ][..15],
    );
    let doubled = "[1]".to_owned() + &".map(x, [x, x])".repeat(60);
    check(&scope, &[(&doubled, "error"), (&format!("{doubled} == {doubled}"), "error")]);
    // Walking as far as the bound is paid for, so that it cannot be had again and again.
    check(&scope, &[(&format!("range(3).exists(i, toJson({doubled}) == '') || true"), "true")]);
    check(&scope, &[(&format!("range(100).exists(i, toJson({doubled}) == '') || true"), "error")]);
}
