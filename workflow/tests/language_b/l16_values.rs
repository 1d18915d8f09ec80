//! Fine print of values (L16).

use crate::help::{faults, shows};

/// Each expression yields its value, or none: EXPRESSION_ERROR.
fn yields(table: &[(&str, Option<&str>)]) {
    for (expression, value) in table {
        let steps = format!(
            "input: {{type: object, properties: {{m: {{default: {{k: null, n: 1}}}}, l: {{default: [1]}}}}}}\n\
             steps: [{{id: a, compute: \"{expression}\"}}]\nresult: '${{steps.a.output}}'"
        );
        let expect = match value {
            Some(value) => format!("status: completed, output: {value}"),
            None => "status: failed, error: EXPRESSION_ERROR".to_owned(),
        };
        shows(&steps, &format!("expect: {{{expect}}}"));
    }
}

#[test]
fn times_and_durations_are_integers_in_ms() {
    yields(&[
        ("timestamp('1970-01-01T00:00:02Z')", Some("2000")),
        ("duration('1h30m')", Some("5400000")),
        ("timestamp('1970-01-01T00:00:01.500Z') + duration('250ms')", Some("1750")),
        ("execution.started_at + 1 > execution.started_at", Some("true")),
    ]);
}

#[test]
fn only_member_and_index_access_read_null() {
    yields(&[
        ("input.m.no", Some("null")),
        ("input.m.k.no.such", Some("null")),
        ("input.l[9]", Some("null")),
        ("input.m.no[0]", Some("null")),
        ("input.m.no == null", Some("true")),
        ("input.m.no != 1", Some("true")),
        ("null in [null, 1]", Some("true")),
    ]);
}

#[test]
fn other_operators_methods_and_macros_on_null_are_errors() {
    yields(&[
        ("null + 1", None),
        ("null < 1", None),
        ("-input.m.no", None),
        ("!input.m.no", None),
        ("input.m.no ? 1 : 2", None),
        ("input.m.no.size()", None),
        ("input.m.no.split(',')", None),
        ("input.m.no.map(x, x)", None),
        ("input.m.no.exists(x, true)", None),
    ]);
}

#[test]
fn a_deciding_side_wins_over_an_error() {
    yields(&[
        ("1 / 0 == 1 || true", Some("true")),
        ("true || 1 / 0 == 1", Some("true")),
        ("1 / 0 == 1 && false", Some("false")),
        ("[0, 1].exists(x, 1 / x == 1)", Some("true")),
        ("[0, 2].all(x, 1 / x == 1)", Some("false")),
        ("1 / 0 == 1 || false", None),
        ("1 / 0 == 1 && true", None),
        ("[0, 2].exists(x, 1 / x == 1)", None),
        ("[0, 1].all(x, 1 / x == 1)", None),
    ]);
}

#[test]
fn has_is_true_for_a_key_whose_value_is_null() {
    yields(&[("has(input.m.k)", Some("true")), ("has(input.m.n)", Some("true")), ("has(input.m.no)", Some("false"))]);
}

#[test]
fn steps_itself_is_no_value() {
    for expression in ["steps", "size(steps)", "steps == null", "[steps]"] {
        let faults = faults(&format!("steps: [{{id: a, compute: '1'}}, {{id: b, compute: \"{expression}\"}}]"));
        assert!(faults.contains("steps"), "{expression}: {faults}");
    }
}
