//! Two implementations of the expressions, one answer: some thousands of random expressions, well and ill typed, are
//! evaluated here and by the independent second implementation of the language in Python under `tests/model/`.
//! Values must be the same, and errors must be errors on both sides; what they say does not matter.

#![allow(clippy::unwrap_used, clippy::expect_used)] // A test that cannot go on fails.

use std::collections::BTreeMap;
use std::fs::File;
use std::process::{Command, Stdio};

use workflow::expression::{Expression, Template};
use workflow::value::Value;

const EXPRESSIONS: usize = 6_000;
const TEMPLATES: usize = 1_000;

const SCOPE: &str = r#"{
    "input": {"m": {"n": null, "a": 1, "b": {"c": [1, "x"]}}, "l": [3, 1, 2], "s": "text", "v": 2.0, "flag": true,
              "people": [{"name": "Ada", "age": 36}, {"name": "Bob", "age": 7.5}, {"name": "Cid"}],
              "deep": [[1], [2, [3]]]},
    "item": 5, "output": {"status": 200, "body": "{\"x\": 1}"}, "none": null, "words": ["b", "a", "c", "a"]
}"#;

/// Where the second implementation is known to differ, and why it may: a part of the expression, or of the error there.
const DEVIATIONS: &[(&str, &str)] = &[
    ("bool(", "Python finds 1 where it looks up True; CEL's bool() knows booleans and strings only"),
    ("in none", "L16 names `in` among the operators that take null: nothing is in it; there null is refused"),
    ("unhashable type", "a list or map is no key of a map: here that is false, there Python refuses to look it up"),
    ("sum() %", "an integer sum beyond i64 is a double (L2), which `%` refuses; Python's integers have no end"),
];

/// What the second implementation says: the value, or why there is none.
type Answer = Result<Value, String>;

#[test]
fn both_implementations_agree() {
    let mut random = Random(0x0b17);
    let mut questions = (0..EXPRESSIONS).map(|_| (false, random.any(4))).collect::<Vec<_>>();
    questions.extend((0..TEMPLATES).map(|_| (true, random.template())));
    let answers = ask_python(&questions);
    let scope = scope();
    let (mut values, mut differences) = (0, Vec::new());
    for ((is_template, text), theirs) in questions.iter().zip(&answers) {
        let ours = evaluate(*is_template, text, &scope);
        values += usize::from(ours.is_some());
        let known = |part: &str| text.contains(part) || theirs.as_ref().is_err_and(|error| error.contains(part));
        if ours.as_ref() != theirs.as_ref().ok() && !DEVIATIONS.iter().any(|(part, _)| known(part)) {
            differences.push(format!("{text}\n    here {ours:?}\n    there {theirs:?}"));
        }
    }
    // A generator whose expressions all failed would prove nothing.
    assert!(values > questions.len() / 2, "only {values} of {} have a value", questions.len());
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}

fn scope() -> BTreeMap<String, Value> {
    let Value::Map(entries) = Value::from_json(SCOPE).unwrap() else { panic!("a map") };
    entries.iter().map(|(name, value)| (name.to_string(), value.clone())).collect()
}

fn evaluate(is_template: bool, text: &str, scope: &BTreeMap<String, Value>) -> Option<Value> {
    if is_template {
        // Pieces may meet as `$` and `{`: what opens and does not close is an error on both sides.
        return Template::text(text).ok()?.evaluate(scope).ok();
    }
    let expression = Expression::compile(text).unwrap_or_else(|fault| panic!("{text}: {fault}"));
    expression.evaluate(scope).ok()
}

fn ask_python(questions: &[(bool, String)]) -> Vec<Answer> {
    let mut lines = SCOPE.replace('\n', " ");
    for (is_template, text) in questions {
        let key = if *is_template { "template" } else { "expression" };
        lines += &format!("\n{}", serde_json::json!({ key: text }));
    }
    // A file, because a pipe that nobody reads yet does not hold it all.
    let asked = concat!(env!("CARGO_TARGET_TMPDIR"), "/expressions.jsonl");
    std::fs::write(asked, lines).unwrap();
    let output = Command::new("python3")
        .args(["-B", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/model/eval_expressions.py")])
        .stdin(File::open(asked).unwrap())
        .stderr(Stdio::inherit())
        .output()
        .expect("python3 must be installed: it runs the second implementation");
    assert!(output.status.success());
    let answers = String::from_utf8(output.stdout).unwrap();
    let answers = answers.lines().map(|line| {
        let answer = Value::from_json(line).unwrap();
        answer.get("value").cloned().ok_or_else(|| answer.get("error").unwrap().to_string())
    });
    let answers = answers.collect::<Vec<_>>();
    assert_eq!(answers.len(), questions.len());
    answers
}

/// A small generator (splitmix64): the same expressions on every machine and in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    /// A pattern in which `N`, `S`, `B`, `L`, `M`, `A` stand for an expression of that kind, mostly.
    fn fill(&mut self, pattern: &str, depth: usize) -> String {
        let next = pattern.chars().skip(1).chain([' ']);
        pattern
            .chars()
            .zip(next)
            .map(|(c, next)| match c {
                // As in `lowerAscii`.
                _ if next.is_ascii_lowercase() => c.to_string(),
                // One in thirty is of the wrong kind.
                'N' | 'S' | 'B' | 'L' | 'M' if self.below(30) == 0 => self.any(depth),
                'N' => self.number(depth),
                'S' => self.text(depth),
                'B' => self.boolean(depth),
                'L' => self.list(depth),
                'M' => self.map(depth),
                'A' => self.any(depth),
                other => other.to_string(),
            })
            .collect()
    }

    fn some(&mut self, depth: usize, leaves: &[&str], patterns: &[&str]) -> String {
        if depth == 0 || self.below(5) == 0 {
            return self.pick(leaves).to_owned();
        }
        let pattern = self.pick(patterns);
        self.fill(pattern, depth - 1)
    }

    fn any(&mut self, depth: usize) -> String {
        match self.below(7) {
            0 => self.number(depth),
            1 => self.text(depth),
            2 => self.boolean(depth),
            3 => self.list(depth),
            4 => self.map(depth),
            5 => self.pick(&["none", "null", "input.no", "input.m.n", "input.l[9]", "input.m['a']"]).to_owned(),
            _ => self.some(
                depth,
                &["input", "item"],
                &["coalesce(A, A)", "(B ? A : A)", "L[N]", "M.a", "M[S]", "json(S)"],
            ),
        }
    }

    fn number(&mut self, depth: usize) -> String {
        self.some(
            depth,
            &[
                "0",
                "1",
                "2",
                "3",
                "-7",
                "2.5",
                "0.25",
                "input.v",
                "item",
                "9223372036854775807",
                "input.m.a",
                "1e3",
                "-9223372036854775808",
                "4.0",
                "9007199254740993",
            ],
            &[
                "(N + N)",
                "(N - N)",
                "(N * N)",
                "(N / N)",
                "(N % N)",
                "(-(N))",
                "S.size()",
                "size(L)",
                "M.size()",
                "L.sum()",
                "[N, N].max()",
                "[N, N, N].min()",
                "L.indexOf(A)",
                "int(N)",
                "int(S)",
                "double(N)",
                "(B ? N : N)",
                "coalesce(none, N)",
                "duration('1h30m')",
                "timestamp('2026-01-31T12:00:00.5+02:00')",
                "L.map(x, N).sum()",
                "[1, 2, 3][N]",
                "json('[1, 2.5]')[N]",
                "{'a': N}.a",
                "L.filter(y, B).size()",
            ],
        )
    }

    fn text(&mut self, depth: usize) -> String {
        self.some(
            depth,
            &["'a'", "\"b\"", "''", "input.s", "'äÖ 😀'", "'a,b'", "' x '", "'12'", "output.body", "'it\\'s'", "'\\n'"],
            &[
                "(S + S)",
                "S.trim()",
                "S.upperAscii()",
                "S.lowerAscii()",
                "S.replace(S, S)",
                "words.join(S)",
                "[S, S].join(',')",
                "base64(S)",
                "sha256(S)",
                "string(L)",
                "string(B)",
                "toJson(A)",
                "string(A)",
                "(B ? S : S)",
                "S.split(',')[0]",
                "M.keys()[0]",
                "[S, S].sort()[0]",
                "coalesce(input.no, S)",
                "words.map(w, w + S).join('')",
            ],
        )
    }

    fn boolean(&mut self, depth: usize) -> String {
        self.some(
            depth,
            &["true", "false", "input.flag", "has(input.m.n)", "has(input.no.x)"],
            &[
                "(!B)",
                "(B && B)",
                "(B || B)",
                "(B || B && B)",
                "(N == N)",
                "(A == A)",
                "(A != A)",
                "(N < N)",
                "(N >= N)",
                "(S <= S)",
                "(S > S)",
                "(N in L)",
                "(S in M)",
                "(A in L)",
                "S.startsWith(S)",
                "S.endsWith(S)",
                "S.contains(S)",
                "S.matches('^[a-c]+$')",
                "L.exists(x, B)",
                "L.all(x, B)",
                "L.exists_one(x, B)",
                "L.exists(x, x == A)",
                "L.all(x, x > N)",
                "M.exists(k, k == S)",
                "bool('true')",
                "bool(B)",
                "(B ? B : B)",
                "(A == null)",
                "[1, 2].exists(x, x / 0 == 1 || x == 2)",
                "(N / 0 == 1 || B)",
                "has(M.a)",
                "(A in none)",
            ],
        )
    }

    fn list(&mut self, depth: usize) -> String {
        self.some(
            depth,
            &["[]", "input.l", "[1, 2.5]", "words", "input.people", "input.deep", "[null, 1, 1.0, true]"],
            &[
                "[N, N]",
                "[A, A]",
                "[S]",
                "(L + L)",
                "range(3)",
                "L.map(x, x)",
                "L.map(x, A)",
                "L.map(x, B, x)",
                "L.filter(x, B)",
                "L.filter(x, x != A)",
                "[N, N, N].sort()",
                "[S, S].sort()",
                "L.distinct()",
                "L.flatten()",
                "L.chunk(2)",
                "L.slice(N, N)",
                "L.slice(0, 2)",
                "M.keys()",
                "M.values()",
                "M.entries()",
                "S.split(S)",
                "S.split(',')",
                "M.map(k, k)",
                "input.people.map(p, p.age)",
                "[[N], L].flatten()",
                "(B ? L : L)",
                "L.map(x, L.map(y, [x, y]))",
            ],
        )
    }

    fn map(&mut self, depth: usize) -> String {
        self.some(
            depth,
            &["{}", "input.m", "{'a': 1}", "output", "input.people[0]"],
            &[
                "{'a': A, 'b': A}",
                "{S: A}",
                "merge(M, M)",
                "merge(M, {'a': N})",
                "(B ? M : M)",
                "L.entries()",
                "[M, M][0]",
            ],
        )
    }

    fn template(&mut self) -> String {
        let pieces = self.below(4) + 1;
        (0..pieces)
            .map(|_| match self.below(4) {
                0 => self.pick(&["a ", "$", "$${x}", "ä", " } ", "{"]).to_owned(),
                _ => format!("${{{}}}", self.any(2)),
            })
            .collect()
    }
}
