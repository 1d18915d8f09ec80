//! L2 and L16 "Values", a table for each rule.

use super::*;
use crate::expression::is_reserved;

fn sample() -> Variables {
    scope(
        r#"{
            "input": {"m": {"n": null, "a": 1}, "l": [1], "s": "text", "v": 2.0, "big": 9007199254740993},
            "index": 0
        }"#,
    )
}

#[test]
fn missing_members_and_indexes_read_null() {
    check(
        &sample(),
        &[
            ("input.m.no", "null"),
            ("input.m.no.such.thing", "null"),
            ("input.l[99]", "null"),
            ("input.l[-1]", "null"),
            ("input.l[0.0]", "1"),
            ("input.l[0.5]", "error"),
            ("input.l['0']", "error"),
            ("input.l[null]", "error"),
            ("input['m']['a']", "1"),
            ("input.m[1]", "null"),
            ("null[0]", "null"),
            ("null.a", "null"),
            ("input.s.length", "error"),
            ("input.s[0]", "error"),
            ("input.l.a", "error"),
            ("true.a", "error"),
            ("nosuch", "error"),
        ],
    );
}

#[test]
fn has_tells_null_from_missing() {
    check(
        &sample(),
        &[
            ("[has(input.m.no), has(input.m.a), has(input.m.n)]", "[false,true,true]"),
            ("has(input.no.such)", "false"),
            ("has(input.s.x)", "false"),
            ("has(input.l.x)", "false"),
        ],
    );
}

#[test]
fn numbers_follow_one_rule() {
    check(
        &sample(),
        &[
            ("[7 / 2, -7 / 2, -7 % 3, 7 % -3, 7.0 / 2, 1.5 + 1.5]", "[3,-3,-1,1,3.5,3]"),
            ("7 % 2.0", "error"),
            ("input.v / 4", "0.5"),
            ("input.v", "2"),
            ("1 + 2.5 * 2", "6"),
            ("9223372036854775807 + 1", "9.223372036854776e+18"),
            ("9223372036854775807 + 1 > 0", "true"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("-9223372036854775808 / -1", "9.223372036854776e+18"),
            ("-9223372036854775808 % -1", "0"),
            ("9223372036854775807 * 9223372036854775807", "8.507059173023462e+37"),
            ("1 / 0", "error"),
            ("1 % 0", "error"),
            ("1.0 / 0", "error"),
            ("1 / 0.0", "error"),
            ("-0.0", "0"),
            ("1e308 * 10", "error"),
            ("1e308 * 10 > 5", "true"),
            ("input.big", "9007199254740993"),
            ("1u + 0x10 + 0xFu", "32"),
            (
                "[1 == 1.0, 1 == true, '1' == 1, 2 < 2.5, 9007199254740993 > 9007199254740992.0]",
                "[true,false,false,true,true]",
            ),
            ("1e3", "1000"),
            ("1e300", "1e+300"),
            (".5 + 0", "0.5"),
            ("-'a'", "error"),
            ("- -1", "1"),
            ("2 - -1", "3"),
            ("2--1", "3"),
        ],
    );
}

#[test]
fn only_some_operators_take_null() {
    check(
        &sample(),
        &[
            (
                "[null == null, null != 1, 1 == null, null in [null], null in [1], 'a' in null]",
                "[true,true,false,true,false,false]",
            ),
            ("null + 1", "error"),
            ("null < 1", "error"),
            ("-null", "error"),
            ("!null", "error"),
            ("!!null", "error"),
            ("null && true", "error"),
            ("null ? 1 : 2", "error"),
            ("null.map(x, x)", "error"),
            ("input.no.size()", "error"),
            ("size(null)", "error"),
            ("input.no.exists(x, true)", "error"),
            ("merge(null)", "error"),
            ("true < false", "error"),
            ("1 < 'a'", "error"),
            ("'a' + 1", "error"),
            ("{'a': 1} + {'b': 2}", "error"),
            ("'a' in 'abc'", "error"),
            ("['a' in {'a': null}, 1 in {'a': 1}, 1.0 in [1]]", "[true,false,true]"),
            ("['b' > 'a', 'ä' > 'z', '' < 'a']", "[true,true,true]"),
        ],
    );
}

#[test]
fn a_deciding_side_wins_over_an_error() {
    check(
        &sample(),
        &[
            ("[null || true, true || null, false && input.m.a > 'x', (1 / 0 == 1) || true]", "[true,true,false,true]"),
            ("null || false", "error"),
            ("true && 1", "error"),
            ("1 / 0 == 1 || false || true", "true"),
            ("1 / 0 == 1 && true && false", "false"),
            ("[1, 2].exists(x, x / 0 == 1 || x == 2)", "true"),
            ("[1, 2].exists(x, x / 0 == 1)", "error"),
            ("[0, 1].all(x, 1 / x == 2)", "false"),
            ("[0, 1].all(x, 1 / x == 1)", "error"),
            ("[].exists(x, x)", "false"),
            ("[].all(x, x)", "true"),
            ("false ? 1 / 0 : 1", "1"),
            ("true ? 1 : 1 / 0", "1"),
        ],
    );
}

#[test]
fn macros_run_over_lists_and_keys_in_order() {
    check(
        &sample(),
        &[
            ("[1, 2, 3].map(x, x * 2)", "[2,4,6]"),
            ("[1, 2, 3].map(x, x > 1, x * 2)", "[4,6]"),
            ("[1, 2, 3].map(x, x > 1, x)", "[2,3]"),
            ("[1, 2, 3].filter(x, x > 1)", "[2,3]"),
            ("[1, 2, 3].exists_one(x, x > 2)", "true"),
            ("[1, 2, 3].exists_one(x, x > 1)", "false"),
            ("[1, 0].exists_one(x, 1 / x == 1)", "error"),
            ("{'b': 1, 'a': 2}.map(k, k)", r#"["a","b"]"#),
            ("{'b': 1, 'a': 2}.filter(k, k == 'b')", r#"["b"]"#),
            ("[[1, 2], [3]].map(x, x.map(y, y + x.size()))", "[[3,4],[4]]"),
            ("[1, 2].map(x, [10].map(x, x)[0] + x)", "[11,12]"),
            ("[1].map(input, input)[0]", "1"),
            ("'abc'.map(x, x)", "error"),
            ("[1].filter(x, x)", "error"),
        ],
    );
}

#[test]
fn functions_of_lists() {
    check(
        &sample(),
        &[
            ("[3, 1, 2].sort()", "[1,2,3]"),
            ("['b', 'a'].sort()", r#"["a","b"]"#),
            ("[2.5, 1, 2].sort()", "[1,2,2.5]"),
            ("[1, 'a'].sort()", "error"),
            ("[true].sort()", "error"),
            ("[null].max()", "error"),
            ("[[].sort(), [].min(), [].max(), [].sum()]", "[[],null,null,0]"),
            ("[[3, 1].min(), [3, 1].max(), ['a', 'b'].max()]", r#"[1,3,"b"]"#),
            ("[1, 2].sum()", "3"),
            ("[9223372036854775807, 1, -1].sum()", "9223372036854775807"),
            ("[0.5, 1].sum()", "1.5"),
            ("['a'].sum()", "error"),
            (
                "[1, 1.0, 2, '1', true, null, null, [1], [1.0], {'a': 1}, {'a': 1.0}].distinct()",
                r#"[1,2,"1",true,null,[1],{"a":1}]"#,
            ),
            ("[[1], 2, [3, [4]]].flatten()", "[1,2,3,[4]]"),
            ("[1, 2, 3, 4].slice(1, 3)", "[2,3]"),
            ("[[1, 2].slice(-5, 9), [1, 2].slice(2, 1), [1, 2].slice(5, 9)]", "[[1,2],[],[]]"),
            ("[1].slice(null, 1)", "error"),
            ("[5, 6].indexOf(6)", "1"),
            ("[5].indexOf(1)", "-1"),
            ("[1, 2, 3].chunk(2)", "[[1,2],[3]]"),
            ("[1].chunk(0)", "error"),
            ("[range(3), range(0), range(-1)]", "[[0,1,2],[],[]]"),
            ("range(1.5)", "error"),
            ("['a', 'b'].join('-')", r#""a-b""#),
            ("[[].join(','), ['a'].join(',')]", r#"["","a"]"#),
            ("[1].join(',')", "error"),
            ("[1] + [2]", "[1,2]"),
            ("[1, 2] == [1.0, 2]", "true"),
            ("[1,].size() + size([1, 2])", "3"),
        ],
    );
}

#[test]
fn functions_of_maps() {
    check(
        &sample(),
        &[
            ("input.m.keys()", r#"["a","n"]"#),
            ("input.m.values()", "[1,null]"),
            ("{'b': 1, 'a': 2}.entries()", r#"[{"key":"a","value":2},{"key":"b","value":1}]"#),
            ("merge({'a': 1}, {'a': 2, 'b': 3})", r#"{"a":2,"b":3}"#),
            ("merge()", "{}"),
            ("{'a': 1, 'a': 2}", r#"{"a":2}"#),
            ("{1: 2}", "error"),
            ("{'a': 1,}.size()", "1"),
            ("[].keys()", "error"),
        ],
    );
}

#[test]
fn functions_of_strings() {
    check(
        &sample(),
        &[
            ("'a,b'.split(',')", r#"["a","b"]"#),
            ("['äb'.split(''), ''.split(''), ''.split(',')]", r#"[["ä","b"],[],[""]]"#),
            ("'Äb'.upperAscii() + 'ÄB'.lowerAscii()", r#""ÄBÄb""#),
            ("' x '.trim()", r#""x""#),
            ("'aa'.replace('a', 'b')", r#""bb""#),
            ("'ab'.replace('', '-')", r#""-a-b-""#),
            ("['abc'.startsWith('ab'), 'abc'.endsWith('bc'), 'abc'.contains('x')]", "[true,true,false]"),
            ("['abc'.matches('^a.c$'), 'xay'.matches('a'), 'b'.matches('a')]", "[true,true,false]"),
            ("'a'.matches('(' + '')", "error"),
            ("['aä😀'.size(), size('aä😀')]", "[3,3]"),
            ("1.startsWith('a')", "error"),
            ("'a'.startsWith(1)", "error"),
            (r"'\n\x41\u00e4' + r'\n' + '''a'b'''", r#""\nAä\\na'b""#),
        ],
    );
}

#[test]
fn conversions() {
    check(
        &sample(),
        &[
            ("toJson({'b': 1.0, 'a': [null], 'c': 'ä\"'})", r#""{\"a\":[null],\"b\":1,\"c\":\"ä\\\"\"}""#),
            ("json('{\"x\": 1}').x", "1"),
            ("json('{')", "error"),
            ("json('1e400')", "error"),
            ("json('18446744073709551615')", "1.8446744073709552e+19"),
            ("[string(1.0), string('a'), string(null), string([1]), string(true)]", r#"["1","a","null","[1]","true"]"#),
            ("[int('12'), int('-5'), int(1.9), int(-1.9), int(3)]", "[12,-5,1,-1,3]"),
            ("[int(''), 1]", "error"),
            ("int('1.5')", "error"),
            ("int(null)", "error"),
            ("int(true)", "error"),
            ("int('99999999999999999999')", "1e+20"),
            ("[double('1.5'), double(2), double('1e3')]", "[1.5,2,1000]"),
            ("double('inf')", "error"),
            ("double('x')", "error"),
            ("[bool('true'), bool(false)]", "[true,false]"),
            ("bool('yes')", "error"),
            ("[coalesce(null, input.no, 5), coalesce(), coalesce(null), coalesce(false, 1)]", "[5,null,null,false]"),
            ("[base64('hi'), sha256('').startsWith('e3b0c442')]", r#"["aGk=",true]"#),
            ("[duration('1h30m'), timestamp('1970-01-01T00:00:01Z')]", "[5400000,1000]"),
            ("duration('soon')", "error"),
            ("timestamp('1970-01-01')", "error"),
        ],
    );
}

#[test]
fn conditions_are_boolean() {
    let scope = sample();
    assert_eq!(compile("input.m.a == 1").condition(&scope), Ok(true));
    for text in ["null", "1", "'true'", "input.no", "1 / 0"] {
        assert!(compile(text).condition(&scope).is_err(), "{text}");
    }
    let error = compile("input.no").condition(&scope).unwrap_err();
    assert_eq!(error.message, "a condition must be true or false, not null in `input.no`");
}

#[test]
fn what_is_not_ours_is_told_where() {
    for (text, offset, message) in [
        ("", 0, "ends where an expression is expected"),
        ("1 +", 3, "ends where an expression is expected"),
        ("'ä' + )", 6, "`)` where an expression is expected"),
        ("1 2", 2, "a number where the end is expected"),
        ("a = 1", 2, "unexpected `=`: equality is `==`"),
        ("'ä", 0, "a string that does not end"),
        ("1 + b'x'", 4, "bytes are not part of this language: use a string, or base64()"),
        ("'ä' == Foo{a: 1}", 7, "messages are not part of this language"),
        ("a.?b", 2, "optional members are not part of this language"),
        ("[?a]", 1, "optional elements are not part of this language"),
        ("{?'a': b}", 1, "optional entries are not part of this language"),
        ("a.`b`", 2, "quoted names are not part of this language: write m['name']"),
        ("1 + type(1)", 4, "unknown function `type`"),
        ("a.sizee()", 2, "unknown function `sizee`: is `size` meant?"),
        ("a.map(x)", 6, "`map` is a macro: .map(x, value) or (x, condition, value), x a new name"),
        ("a.exists(1, true)", 9, "`exists` is a macro: .exists(x, condition), x a new name"),
        ("a.filter(x, x, x)", 2, "`filter` is a macro: .filter(x, condition), x a new name"),
        ("a.map(for, 1)", 6, "`for` is reserved by CEL and can be no name"),
        ("has(a)", 0, "has() takes one member, as in has(m.k)"),
        ("has(a[0])", 0, "has() takes one member, as in has(m.k)"),
        ("steps", 0, "`steps` is no value by itself: name a step, as in steps.<id>"),
        ("1 + steps[x].output", 4, "`steps` is no value by itself: name a step, as in steps.<id>"),
        ("steps.size()", 0, "`steps` is no value by itself: name a step, as in steps.<id>"),
        ("'a'.matches('(')", 12, "matches() cannot read its pattern: unclosed group"),
        ("9223372036854775808", 0, "an integer beyond 64 bits: write it as a double, as in 1e20"),
        ("1e400", 0, "a number beyond a double"),
        ("1abc", 0, "a number ends where a name begins"),
        ("a.in", 2, "`in` is no member name: write ['in']"),
        ("while + 1", 0, "`while` is reserved by CEL and can be no name"),
        ("f(1,)", 4, "`)` where an expression is expected"),
    ] {
        assert_eq!(fault(text), CompileError { message: message.to_owned(), offset }, "{text}");
    }
    assert!(is_reserved("in") && is_reserved("while") && !is_reserved("item"));
}

#[test]
fn references_are_gathered_with_their_places() {
    let text = "coalesce(steps.a.output, 1) + steps['b'].output.x + execution.id.size() + \
                item.map(v, v + w).size() + (steps.c.status == 'failed' ? steps.c.output : w) + \
                [1].map(steps, steps)[0]";
    let references = compile(text).references().clone();
    let names = |map: &BTreeMap<String, usize>| map.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&references.variables), ["execution", "item", "steps", "w"]);
    assert_eq!(names(&references.steps), ["a", "b", "c"]);
    assert_eq!(references.steps["b"], 30);
    assert_eq!(references.variables["w"], text.find("w)").unwrap());
    assert_eq!(names(&references.functions), ["coalesce", "map", "size"]);
    assert!(references.execution_fields.iter().eq(["id"]));
    assert_eq!(names(&references.step_outputs), ["a", "b", "c"]);
    assert!(references.guarded_steps.iter().eq(["a", "c"]));
    let guarded = compile("has(steps.a.output.x) || steps.b.output != null").references().clone();
    assert!(guarded.guarded_steps.iter().eq(["a", "b"]));
}

#[test]
fn equal_by_text_and_printed_as_text() {
    assert_eq!(compile("1 + 1"), compile("1 + 1"));
    assert_ne!(compile("1 + 1"), compile("1+1"));
    assert_eq!(format!("{:?} {}", compile("1"), compile("1")), "Expression(\"1\") 1");
}
