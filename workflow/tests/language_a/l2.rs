//! L2: where expressions stand, and what a failing one does.

use workflow::document::{self, Format};

use crate::help::*;

/// Every place of bare CEL.
const BARE: &str = r#"
attributes: {twice: {type: integer, value: "input.n * 2"}}
signals: {s: {}}
queries: {sum: "steps.gate.output + 1"}
steps:
  - {id: gate, when: "input.n > 1", compute: "input.n"}
  - {id: each, for: {each: "range(input.n)"}, steps: [{id: y, compute: "item"}], result: "${steps.y.output}"}
  - {id: loop, repeat: {until: "iteration >= input.n"}, steps: [{id: z, compute: "1"}]}
  - {id: wait, await: {signal: s, where: "payload.n == input.n", until: "count == 2"}}
  - {id: box, done_when: "steps.fast.status == 'succeeded'", steps: [{id: fast, sleep: 1s}, {id: slow, sleep: 1h}]}
  - id: quorum
    for: {each: "[1, 2]", done_when: "succeeded == 1"}
    await: {signal: s, timeout: 5s, on_timeout: continue}
  - {id: ends, fail: {code: E}, when: "steps.box.status == 'failed'"}
result: {gate: "${steps.gate.output}", each: "${steps.each.output}", wait: "${steps.wait.output.size()}"}
"#;

#[test]
fn conditions_lists_and_computations_are_bare_expressions() {
    let signals = "signals: [{at: 1s, name: s, payload: {n: 9}}, {at: 2s, name: s, payload: {n: 3}}, \
                   {at: 3s, name: s, payload: {n: 3}}]";
    let queries = "queries: [{at: 1ms, name: sum, value: 4}]";
    let created = "events_like: [{type: WorkflowCreated, attributes: {twice: 6}}]";
    let output = "{gate: 3, each: [0, 1, 2], wait: 2}";
    let expected = format!(
        "{{status: completed, output: {output}, {created}, includes: [StepClosing box done], \
         count: {{'SignalConsumed wait': 2, StepSkipped: 1}}}}"
    );
    shows(BARE, &format!("input: {{n: 3}}, {signals}, {queries}, expect: {expected}"));
}

#[test]
fn a_bare_expression_is_no_template() {
    document::compile(&named(BARE), Format::Yaml).unwrap();
    for bare in [
        "input.n > 1",
        "input.n * 2",
        "steps.gate.output + 1",
        "range(input.n)",
        "iteration >= input.n",
        "payload.n == input.n",
        "count == 2",
        "steps.fast.status == 'succeeded'",
        "succeeded == 1",
    ] {
        let template = BARE.replace(&format!("\"{bare}\""), &format!("\"${{{bare}}}\""));
        assert_ne!(template, BARE, "{bare}");
        fault(&template);
    }
}

#[test]
fn elsewhere_expressions_stand_in_braces() {
    let body = r#"
steps: [{id: x, compute: "input.m"}]
result: {typed: "${input.m}", spliced: "<${input.s}|${null}|${input.m}|${2.0}>", literal: "$${input.s}",
         braces: "${ {'a': {'b': '}'}}.a.b }", bare: "input.m"}
"#;
    let driven = Driven::start_with(body, r#"{"m": {"k": [1.50]}, "s": "text"}"#).unwrap();
    let spliced = r#""spliced":"<text||{\"k\":[1.5]}|2>""#;
    let expected =
        format!(r#"{{"bare":"input.m","braces":"}}","literal":"${{input.s}}",{spliced},"typed":{{"k":[1.5]}}}}"#);
    assert_eq!(driven.result(), expected);
}

/// What another run would answer otherwise has no name.
#[test]
fn there_is_no_clock_no_chance_and_no_world() {
    for call in ["now()", "timestamp()", "uuid()", "random()", "rand()", "env('HOME')", "file('a')", "http('http://a')"]
    {
        fault(&format!("steps: [{{id: x, compute: \"{call}\"}}]\n"));
    }
    for name in ["now", "env", "secrets", "request", "execution.now", "execution.history"] {
        fault(&format!("steps: [{{id: x, compute: \"{name}\"}}]\n"));
    }
}

#[test]
fn a_value_that_leaves_an_expression_is_normalised() {
    let output = |expression: &str| {
        let driven =
            Driven::start(&format!("steps: [{{id: x, compute: \"{expression}\"}}]\nresult: \"${{steps.x.output}}\"\n"));
        driven.last_of("StepSucceeded");
        let event = driven.history.iter().find(|recorded| recorded.event.name() == "StepSucceeded").unwrap().to_json();
        event.split_once(r#""output":"#).unwrap().1.trim_end_matches('}').to_owned()
    };
    for (expression, text) in [
        ("4.0 / 2", "2"),
        ("1e3", "1000"),
        ("-0.0", "0"),
        ("[2.0, 2.5]", "[2,2.5]"),
        ("9223372036854774784.0", "9223372036854774784"),
        ("-9223372036854775808.0", "-9223372036854775808"),
        ("9223372036854775808.0", "9.223372036854776e+18"),
        ("1e300", "1e+300"),
    ] {
        assert_eq!(output(expression), text, "{expression}");
    }
}

#[test]
fn cost_is_bounded_at_registration_and_when_run() {
    let nested = |levels: usize| {
        let loops = "[1].map(x, ".repeat(levels) + "x" + &")".repeat(levels);
        format!("steps: [{{id: x, compute: \"{loops}\"}}]\n")
    };
    compile(&nested(16));
    fault(&nested(17));
    let deep = |levels: usize| format!("steps: [{{id: x, compute: \"{}1\"}}]\n", "1 + ".repeat(levels));
    fault(&deep(20_000));
    // What is dear only with this input is found when it is run.
    let dear = "steps: [{id: x, compute: 'range(input.n).map(x, range(600).exists(y, y < 0)).size()'}]\n\
                result: \"${steps.x.output}\"\n";
    shows(dear, "input: {n: 200}, expect: {status: completed, output: 200}");
    shows(dear, "input: {n: 2000}, expect: {status: failed, error: EXPRESSION_ERROR}");
}

#[test]
fn an_error_in_a_step_fails_the_step() {
    let body = r#"
tasks: {t: {version: 1.0.0}}
steps:
  - {id: a, when: "input.n > 1", compute: "1", on_failure: continue}
  - {id: b, compute: "1 / 0", on_failure: continue}
  - {id: c, task: t, input: "${1 / 0}", on_failure: continue}
  - {id: d, sleep: "${input.n}", on_failure: continue}
  - {id: e, task: t, for: {each: "input.n"}, on_failure: continue}
result: "${[steps.a, steps.b, steps.c, steps.d, steps.e].map(step, step.error.code)}"
"#;
    let codes = ["EXPRESSION_ERROR"; 5].join(", ");
    shows(body, &format!("expect: {{status: completed, output: [{codes}], excludes: [StepScheduled, StepSkipped]}}"));
    let unhandled = "steps: [{id: a, compute: '1 / 0'}]\n";
    shows(
        unhandled,
        "expect: {status: failed, error: EXPRESSION_ERROR, includes: [StepFailed a EXPRESSION_ERROR handled=false]}",
    );
}

#[test]
fn an_error_in_result_done_when_or_until_closes_what_it_belongs_to() {
    for (body, closes) in [
        ("steps: [{id: x, compute: '1'}]\nresult: \"${1 / 0}\"\n", "(workflow)"),
        ("done_when: '1 / steps.x.output == 1'\nsteps: [{id: x, compute: '0'}]\n", "(workflow)"),
        ("steps: [{id: box, steps: [{id: x, compute: '1'}], result: \"${1 / 0}\"}]\n", "box"),
        ("steps: [{id: box, steps: [{id: x, compute: '0'}], done_when: '1 / steps.x.output == 1'}]\n", "box"),
        (
            "steps: [{id: x, for: {each: '[0]', done_when: '1 / last.output == 1'}, steps: [{id: y, compute: '0'}]}]\n",
            "x",
        ),
        ("steps: [{id: x, repeat: {until: '1 / 0 == 1'}, steps: [{id: y, compute: '1'}]}]\n", "x"),
    ] {
        let expected = format!("includes: [StepClosing {closes} failed, WorkflowFailed EXPRESSION_ERROR]");
        shows(body, &format!("expect: {{status: failed, error: EXPRESSION_ERROR, {expected}}}"));
    }
}

#[test]
fn an_error_in_a_compensation_is_recorded_and_the_rest_is_undone() {
    let body = r#"
tasks: {t: {version: 1.0.0}, undo: {version: 1.0.0}}
steps:
  - {id: a, task: t, compensate: {task: undo, input: "${input.n}"}}
  - {id: b, task: t, after: [a], compensate: {task: undo, input: "${output.n / 0}"}}
  - {id: c, after: [b], fail: {code: E}}
"#;
    let lines = "includes: [CompensationStarted (workflow) b a, CompensationFailed b EXPRESSION_ERROR, \
                 StepSucceeded compensate:a, WorkflowFailed E compensation=failed]";
    shows(
        body,
        &format!("mocks: {{t: {{output: {{n: 1}}}}}}, expect: {{status: failed, calls: {{undo: 1}}, {lines}}}"),
    );
}

#[test]
fn an_error_in_where_or_on_failure_is_no_match() {
    let body = r#"
signals: {s: {}}
steps: [{id: x, await: {signal: s, where: "payload.n > 1"}}]
result: "${steps.x.output.n}"
"#;
    let signals =
        "signals: [{at: 1s, name: s, payload: {n: text}}, {at: 2s, name: s}, {at: 3s, name: s, payload: {n: 2}}]";
    shows(body, &format!("{signals}, expect: {{status: completed, output: 2, not_before: 3s}}"));
    let body = r#"
steps:
  - id: y
    compute: "1 / 0"
    on_failure: [{when: "error.details.n > 1", then: fail}, {when: "error.code", then: fail}, {then: continue}]
"#;
    let lines = "includes: [StepFailed y EXPRESSION_ERROR handled=true]";
    shows(body, &format!("expect: {{status: completed, {lines}}}"));
}

#[test]
fn naming_a_step_is_waiting_for_it_except_where_nothing_waits() {
    let body = r#"
tasks: {t: {version: 1.0.0}}
queries: {q: "steps.x.output"}
done_when: "steps.x.output == 1"
steps:
  - {id: x, compute: "1"}
  - {id: y, compute: "1"}
  - {id: by_when, when: "steps.x.output == 1", sleep: 1s}
  - {id: by_each, for: {each: "steps.x.output"}, task: t}
  - {id: by_until, repeat: {until: "steps.x.output == 1"}, task: t}
  - {id: by_deadline, deadline: "${steps.x.output}", task: t}
  - {id: by_inside, steps: [{id: z, sleep: "${steps.x.output}"}, {id: zz, compute: "steps.y.output"}]}
  - {id: by_failure, task: t, on_failure: [{when: "steps.x.output == 1", then: continue}]}
  - {id: not_undo, task: t, compensate: {task: t, input: "${steps.x.output}"}}
  - {id: not_done, done_when: "steps.x.output == 1", steps: [{id: w, sleep: 1s}]}
handlers: {exit: [{id: bye, task: t, input: "${steps.x.output}"}]}
"#;
    let definition = definition(body);
    let waits = |id: &str| {
        let step = definition.step_named(id).unwrap();
        step.depends_on.iter().map(|&index| definition.step(index).id.clone()).collect::<Vec<_>>()
    };
    for id in ["by_when", "by_each", "by_until", "by_deadline", "by_failure"] {
        assert_eq!(waits(id), ["x"], "{id}");
    }
    assert_eq!(waits("by_inside"), ["x", "y"]);
    for id in ["not_undo", "not_done", "w", "bye", "x"] {
        assert!(waits(id).is_empty(), "{id}");
    }
}

#[test]
fn what_yaml_reads_itself_stands_in_quotes() {
    let step = |when: &str| format!("steps:\n  - id: x\n    when: {when}\n    sleep: 1s\n");
    compile(&step("execution.run == 1"));
    for expression in ["{'a': 1}.a == 1", "[1, 2].size() == 2", "!(execution.run == 1)", "'a' == 'b'", "\"a #\" == 'b'"]
    {
        let quoted = format!("\"{}\"", expression.replace('"', "\\\""));
        compile(&step(&quoted));
        fault(&step(expression));
    }
    fault(&step("execution.run == 1 ? true: false"));
    compile(&step("\"execution.run == 1 ? true: false\""));
}
