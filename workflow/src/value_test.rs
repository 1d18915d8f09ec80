use super::*;

#[test]
fn numbers_are_read_as_integers_while_they_fit() {
    for (text, expected) in [
        ("1", Value::Int(1)),
        ("-9223372036854775808", Value::Int(i64::MIN)),
        ("9223372036854775807", Value::Int(i64::MAX)),
        ("9223372036854775808", Value::Double(9_223_372_036_854_775_808.0)),
        ("18446744073709551615", Value::Double(18_446_744_073_709_551_615.0)),
        ("123456789012345678901234567890", Value::Double(1.234_567_890_123_456_8e29)),
        ("1.0", Value::Double(1.0)),
        ("-0", Value::Int(0)),
    ] {
        let read = Value::from_json(text).unwrap();
        assert_eq!(read, expected, "{text}");
        assert_eq!(Value::from(&serde_json::from_str::<serde_json::Value>(text).unwrap()), expected, "{text}");
    }
}

#[test]
fn whole_doubles_print_as_integers() {
    for (value, text) in [
        (1.0, "1"),
        (-0.0, "0"),
        (0.1, "0.1"),
        (1e15, "1000000000000000"),
        (-9_223_372_036_854_775_808.0, "-9223372036854775808"),
        (9_223_372_036_854_775_808.0, "9.223372036854776e+18"),
        (1e300, "1e+300"),
        (5e-324, "5e-324"),
    ] {
        assert_eq!(Value::Double(value).to_json(), text);
        assert_eq!(serde_json::Value::from(&Value::Double(value)).to_string(), text);
    }
}

#[test]
fn texts_are_compact_with_keys_in_order() {
    let value = Value::from_json("{ \"b\": [1, null, true], \"a\": \"ä\\n\\u0001\\\"\" }").unwrap();
    assert_eq!(value.to_json(), "{\"a\":\"ä\\n\\u0001\\\"\",\"b\":[1,null,true]}");
    assert_eq!(value.to_string(), value.to_json());
}

#[test]
fn equality_is_that_of_the_language() {
    let value = |text: &str| Value::from_json(text).unwrap();
    for (a, b, equal) in [
        ("1", "1.0", true),
        ("true", "1", false),
        ("null", "false", false),
        ("9007199254740993", "9007199254740992.0", false),
        ("9223372036854775807", "9223372036854775808", false),
        ("[1, {\"a\": 2.0}]", "[1.0, {\"a\": 2}]", true),
        ("{\"a\": null}", "{}", false),
        ("\"1\"", "1", false),
    ] {
        assert_eq!(value(a) == value(b), equal, "{a} == {b}");
        assert_eq!(value(b) == value(a), equal, "{b} == {a}");
    }
    assert_ne!(Value::Double(f64::NAN), Value::Int(0));
}

#[test]
fn mixed_comparison_is_exact() {
    for (integer, double, expected) in [
        (1, 1.5, Some(Ordering::Less)),
        (-1, -1.5, Some(Ordering::Greater)),
        (2, 1.5, Some(Ordering::Greater)),
        (i64::MAX, 9_223_372_036_854_775_808.0, Some(Ordering::Less)),
        (i64::MIN, -9_223_372_036_854_775_808.0, Some(Ordering::Equal)),
        (0, f64::INFINITY, Some(Ordering::Less)),
        (0, f64::NEG_INFINITY, Some(Ordering::Greater)),
        (0, f64::NAN, None),
    ] {
        assert_eq!(compare_mixed(integer, double), expected, "{integer} {double}");
    }
}

#[test]
fn what_is_no_value_is_refused() {
    for text in ["", " ", "1 2", "{", "[1,]", "nul", "1e400", "-1e400", "NaN", "'a'", "\u{feff}1", "{1:2}", "01"] {
        assert!(Value::from_json(text).is_err(), "{text}");
        assert!(Payload::parse(text).is_err(), "{text}");
    }
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(Payload::parse(&nested(DEPTH_MAX)).is_ok());
    for depth in [DEPTH_MAX + 1, 100_000] {
        let fault = Payload::parse(&nested(depth)).unwrap_err();
        assert!(fault.to_string().contains("recursion limit"), "{fault}");
    }
}

#[test]
fn payloads_keep_every_byte() {
    for text in ["1.10", "18446744073709551616", "{ \"b\" : 1,\n \"a\":1e2 }", "\"\\u00e4\"", "null"] {
        let payload = Payload::parse(text).unwrap();
        assert_eq!(payload.as_str(), text);
        assert_eq!(payload.len(), text.len());
        let embedded = serde_json::to_string(&serde_json::json!(null)).map(|_| serde_json::to_string(&[&payload]));
        assert_eq!(embedded.unwrap().unwrap(), format!("[{text}]"));
        let [read] = serde_json::from_str::<[Payload; 1]>(&format!("[ {text} ]")).unwrap();
        assert_eq!(read, payload);
        let bytes = bincode::serialize(&payload).unwrap();
        assert_eq!(bincode::deserialize::<Payload>(&bytes).unwrap(), payload);
    }
    assert_eq!(Payload::stored("[1.10]").as_str(), "[1.10]");
    assert!(Payload::stored("[1.10").value().is_null(), "no JSON after all");
    assert_eq!(Payload::parse(" \n1.10\t").unwrap().as_str(), "1.10");
    assert_eq!(Payload::parse("1.10").unwrap().value(), Value::Double(1.1));
    assert_eq!(Payload::from(Value::Double(2.0)).as_str(), "2");
    assert!(Payload::null().is_null() && Payload::default().value().is_null());
    assert!(serde_json::from_str::<Payload>("1e400").is_err());
    assert!(bincode::deserialize::<Payload>(&bincode::serialize("{").unwrap()).is_err());
}

#[test]
fn values_survive_binary_formats() {
    let value = Value::from_json("{\"a\": [1, 2.5, null, \"x\", true]}").unwrap();
    let bytes = bincode::serialize(&value).unwrap();
    assert_eq!(bincode::deserialize::<Value>(&bytes).unwrap(), value);
    assert_eq!(serde_json::from_str::<Value>(&serde_json::to_string(&value).unwrap()).unwrap(), value);
}

#[test]
fn accessors_answer_for_their_kind_only() {
    let value = Value::from_json("{\"a\": [1, 2.0, \"x\", true, null]}").unwrap();
    let list = value.get("a").unwrap();
    assert_eq!(list.index(0).and_then(Value::as_i64), Some(1));
    assert_eq!(list.index(1).and_then(Value::as_i64), Some(2));
    assert_eq!(list.index(2).and_then(Value::as_str), Some("x"));
    assert_eq!(list.index(3).and_then(Value::as_bool), Some(true));
    assert!(list.index(4).is_some_and(Value::is_null));
    assert_eq!(list.index(5), None);
    assert_eq!(list.get("a"), None);
    assert_eq!(Value::from(Some(1_i64)), Value::Int(1));
    assert_eq!(Value::from(None::<bool>), Value::Null);
    assert_eq!(Value::from(u64::MAX), Value::Double(u64::MAX as f64));
}
