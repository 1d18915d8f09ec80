//! L1: the document as a whole.

use serde_json::{Value as Json, json as js};
use sha2::{Digest, Sha256};
use workflow::command::{Refusal, SendSignal, Start};
use workflow::document::{self, Format};

use crate::help::*;

fn normal_form(body: &str) -> Json {
    serde_json::from_str(&compile(body).normal_form).unwrap()
}

fn hash(source: &str) -> String {
    compiled(source).remove(0).hash
}

#[test]
fn yaml_and_json_say_the_same() {
    let yaml = "name: a\nversion: 1.0.0\nsteps:\n  - id: one # a remark\n    sleep: 1s\n";
    let json = r#"{"steps": [{"sleep": "1s", "id": "one"}], "version": "1.0.0", "name": "a"}"#;
    let read = |source, format| document::compile(source, format).unwrap().remove(0).normal_form;
    assert_eq!(read(yaml, Format::Yaml), read(json, Format::Json));
    assert_eq!(read(json, Format::Yaml), read(json, Format::Json), "YAML 1.2 contains JSON");
    // `on` and `no` are texts since 1.2.
    let texts = normal_form("steps: [{id: one, sleep: 1s}]\nresult: [on, no, yes, 0o17]\n");
    assert_eq!(texts["result"], js!(["on", "no", "yes", 15]));
}

#[test]
fn a_source_may_hold_several_documents() {
    let source = "name: a\nversion: 1.0.0\nsteps: [{id: one, sleep: 1s}]\n---\n\
                  name: b\nversion: 2.0.0\nsteps: [{id: one, sleep: 1s}]\n";
    let names: Vec<_> = compiled(source).into_iter().map(|compiled| compiled.definition.name).collect();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn the_normal_form_has_no_shorthands() {
    let form = normal_form(
        r#"
timeout: 1h30m
tasks: {t: {version: 1.0.0}}
steps:
  - {id: late, task: t, input: "${steps.early.output}", timeout: 10s, on_failure: continue}
  - {id: early, task: t, after: []}
  - id: box
    after: [late]
    steps: [{id: second, sleep: 2s, after: [first]}, {id: first, sleep: 250ms}]
"#,
    );
    let expected = js!({
        "ir_version": "orbit-ir/3", "name": "a", "version": "1.0.0", "timeout": 5_400_000,
        "tasks": {"t": {"version": "1.0.0"}},
        "steps": [
            {"id": "early", "task": "t"},
            {"id": "late", "task": "t", "input": "${steps.early.output}", "timeout": 10_000,
             "on_failure": [{"then": "continue"}], "depends_on": ["early"]},
            {"id": "box", "depends_on": ["late"],
             "steps": [{"id": "first", "sleep": 250}, {"id": "second", "sleep": 2_000, "depends_on": ["first"]}]},
        ],
    });
    assert_eq!(form, expected);
}

/// Tasks `t`, and what belongs to the document, before the steps.
const VERSIONS: &[(&str, &str, &str)] = &[
    ("orbit-ir/1", "", "{id: x, sleep: 1s}"),
    ("orbit-ir/1", "", "{id: x, task: t, for: {each: '[1]', concurrency: 2}, retry: {}, compensate: {task: t}}"),
    ("orbit-ir/1", "", "{id: x, workflow: {name: c, version: 1.0.0}, compensate: {task: t}}"),
    ("orbit-ir/1", "", "{id: x, continue_as_new: {input: {}}}"),
    ("orbit-ir/2", "signals: {s: {}}", "{id: x, sleep: 1s}"),
    ("orbit-ir/2", "queries: {q: '1'}", "{id: x, sleep: 1s}"),
    ("orbit-ir/2", "signals: {s: {}}", "{id: x, await: {signal: s, timeout: 1s}}"),
    ("orbit-ir/2", "", "{id: x, compute: '1'}"),
    ("orbit-ir/2", "", "{id: x, signal: {execution: e, name: n}}"),
    ("orbit-ir/3", "workflows: {c: {version: 1.0.0}}", "{id: x, workflow: {name: c}}"),
    ("orbit-ir/3", "done_when: 'false'", "{id: x, sleep: 1s}"),
    ("orbit-ir/3", "handlers: {exit: [{id: y, sleep: 1s}]}", "{id: x, sleep: 1s}"),
    ("orbit-ir/3", "", "{id: x, steps: [{id: y, sleep: 1s}]}"),
    ("orbit-ir/3", "", "{id: x, fail: {code: E}}"),
    ("orbit-ir/3", "", "{id: x, sleep: 1s, on_failure: continue}"),
    ("orbit-ir/3", "", "{id: x, task: t, repeat: {until: 'true'}}"),
    ("orbit-ir/3", "", "{id: x, task: t, deadline: 1s}"),
    ("orbit-ir/3", "signals: {s: {}}", "{id: x, await: {signal: s}, for: {each: '[1]'}}"),
    ("orbit-ir/3", "", "{id: x, signal: {execution: e, name: n}, for: {each: '[1]'}}"),
    ("orbit-ir/3", "", "{id: x, signal: {execution: e, name: n}, compensate: {task: t}}"),
    ("orbit-ir/3", "", "{id: x, task: t, for: {each: '[1]', max_failures: 1}}"),
    ("orbit-ir/3", "", "{id: x, task: t, for: {each: '[1]', done_when: 'false'}}"),
    ("orbit-ir/3", "signals: {s: {}}", "{id: x, await: {signal: s, where: 'true'}}"),
    ("orbit-ir/3", "signals: {s: {}}", "{id: x, await: {signal: s, until: 'true'}}"),
    ("orbit-ir/3", "", "{id: x, task: t, compensate: {task: t, always: true}}"),
    ("orbit-ir/3", "", "{id: x, task: '${input.t}'}"),
    ("orbit-ir/3", "", "{id: x, workflow: {name: '${input.c}'}}"),
];

#[test]
fn the_version_is_the_lowest_that_has_all_that_occurs() {
    for (version, more, step) in VERSIONS {
        let body = format!("tasks: {{t: {{version: 1.0.0}}}}\n{more}\nsteps:\n  - {step}\n");
        assert_eq!(normal_form(&body)["ir_version"], *version, "{body}");
    }
}

#[test]
fn a_written_version_may_be_higher_and_not_lower() {
    let with = |version: &str| format!("ir_version: {version}\nsteps: [{{id: x, compute: '1'}}]\n");
    assert!(fault(&with("orbit-ir/1")).contains("needs orbit-ir/2"));
    for version in ["orbit-ir/2", "orbit-ir/3"] {
        compile(&with(version));
    }
    compile("steps: [{id: x, compute: '1'}]\n");
}

#[test]
fn the_hash_is_of_the_canonical_normal_form_without_what_stands_beside_it() {
    let body = "description: it sleeps\nsteps: [{id: one, sleep: 1s}]\nresult: {ä: 1.50, b: [1e3]}\n";
    let compiled = compile(body);
    let mut form: Json = serde_json::from_str(&compiled.normal_form).unwrap();
    for beside in ["source", "source_map", "definition_hash", "description"] {
        form.as_object_mut().unwrap().remove(beside);
    }
    let canonical = serde_json_canonicalizer::to_string(&form).unwrap();
    let digest: String = Sha256::digest(canonical).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(compiled.hash, format!("sha256:{digest}"));
    let hash_line = format!("definition_hash: {}\nsource: 1\nsource_map: {{}}\n", compiled.hash);
    let beside = format!("{hash_line}{}", body.replace("it sleeps", "it rests"));
    assert_eq!(hash(&named(&beside)), compiled.hash);
}

#[test]
fn defaults_are_not_written_into_the_normal_form() {
    let bare = r#"
tasks: {t: {version: 1.0.0}}
signals: {s: {}}
steps:
  - {id: x, task: t, for: {each: "[1]"}, retry: {}, compensate: {task: t}, deadline: 1s, repeat: {until: "true"}}
  - {id: y, await: {signal: s}}
"#;
    let form = normal_form(bare);
    assert_eq!(
        form["steps"][0],
        js!({"id": "x", "task": "t", "for": {"each": "[1]"}, "retry": {}, "compensate": {"task": "t"},
             "deadline": 1_000, "repeat": {"until": "true"}})
    );
    assert_eq!(form["steps"][1], js!({"id": "y", "await": {"signal": "s"}}));
    let members: Vec<_> = form.as_object().unwrap().keys().collect();
    assert_eq!(members, ["ir_version", "name", "signals", "steps", "tasks", "version"]);
    // Written out, what holds anyway is the same document.
    let written = bare
        .replace("each: \"[1]\"", "each: \"[1]\", as: item")
        .replace("deadline: 1s", "deadline: 1s, on_deadline: fail, on_failure: fail, after: []")
        .replace("{task: t},", "{task: t, always: false, on_failure: fail},")
        .replace("{signal: s}", "{signal: s, on_timeout: fail}");
    assert_eq!(compile(&written).hash, compile(bare).hash);
}

#[test]
fn the_text_of_the_author_is_kept() {
    let source = "# why\nname:   a\nversion: 1.0.0\nsteps: [{id: one, sleep: 1s}] # it rests\n";
    assert_eq!(compiled(source)[0].source, source);
}

#[test]
fn names_and_versions_have_their_forms() {
    let source = |name: &str, version: &str| format!("name: {name}\nversion: {version}\nsteps: [{{id: x, sleep: 1}}]");
    let longest = "a".repeat(100);
    for name in ["a", "0", "order-fulfilment", "a.b_c-9", &longest] {
        compiled(&source(&format!("'{name}'"), "1.0.0"));
    }
    let too_long = "a".repeat(101);
    for name in ["A", "-a", ".a", "_a", "a b", "ä", &too_long] {
        assert!(document::compile(&source(&format!("'{name}'"), "1.0.0"), Format::Yaml).is_err(), "{name}");
    }
    for version in ["1.2.0", "0.0.1-rc.1"] {
        compiled(&source("a", version));
    }
    for version in ["'1.2'", "v1.0.0", "1.0.0+build", "latest", "01.0.0"] {
        assert!(document::compile(&source("a", version), Format::Yaml).is_err(), "{version}");
    }
}

#[test]
fn the_timeout_is_of_the_whole_run_and_optional() {
    let steps = "tasks: {t: {version: 1.0.0}}\nsteps: [{id: x, task: t}, {id: y, task: t, after: [x]}]\n";
    let case = "mocks: {t: {after: 20h}}";
    shows(steps, &format!("{case}, expect: {{status: completed, not_before: 40h}}"));
    let lines = shows(&format!("timeout: 24h\n{steps}"), &format!("{case}, expect: {{status: timed_out}}"));
    assert_eq!(at(&lines, "WorkflowTimeoutReached"), 24 * 3_600_000);
}

#[test]
fn undeclared_properties_of_the_input_are_refused_unless_the_schema_is_open() {
    let with = |schema: &str, input: &str| {
        let body = format!("{schema}\nsteps: [{{id: x, sleep: 1s}}]\n");
        Driven::start_with(&body, input).map(|_| ()).map_err(|refusal| refusal.code())
    };
    let declared = "input: {type: object, properties: {n: {type: integer}}}";
    assert_eq!(with(declared, r#"{"n": 1}"#), Ok(()));
    assert_eq!(with(declared, r#"{"n": 1, "m": 2}"#), Err("INVALID_INPUT"));
    assert_eq!(with(declared, r#"{"n": "one"}"#), Err("INVALID_INPUT"));
    // Only at the top.
    let deep = "input: {type: object, properties: {o: {type: object, properties: {n: {type: integer}}}}}";
    assert_eq!(with(deep, r#"{"o": {"n": 1, "m": 2}}"#), Ok(()));
    let open = "input: {type: object, properties: {n: {type: integer}}, additionalProperties: true}";
    assert_eq!(with(open, r#"{"n": 1, "m": 2}"#), Ok(()));
    assert_eq!(with("input: {type: object}", r#"{"m": 2}"#), Ok(()));
    assert_eq!(with("", r#"{"m": 2}"#), Ok(()));
    assert_eq!(with("", "[1]"), Err("INVALID_INPUT"));
}

#[test]
fn defaults_are_filled_in_at_any_depth_before_validation() {
    let body = r#"
input:
  type: object
  required: [express, box]
  properties:
    express: {type: boolean, default: false}
    box: {type: object, default: {}, required: [size], properties: {size: {type: integer, default: 3}}}
    items: {type: array, items: {type: object, required: [n], properties: {n: {type: integer, default: 1}}}}
steps: [{id: x, compute: "1"}]
result: "${input}"
"#;
    let driven = Driven::start_with(body, r#"{"items": [{}, {"n": 2}]}"#).unwrap();
    assert_eq!(driven.result(), r#"{"box":{"size":3},"express":false,"items":[{"n":1},{"n":2}]}"#);
}

#[test]
fn attributes_are_evaluated_once_over_input_and_execution() {
    let body = r#"
attributes:
  who: {type: string, value: "input.who + '@' + execution.id"}
  run: {type: integer, value: execution.run}
  share: {type: number, value: "1.0 / 4"}
  big: {type: boolean, value: "input.n > 10"}
  due: {type: time, value: execution.scheduled_at}
  begun: {type: time, value: execution.started_at}
  none: {type: string, value: input.nothing}
steps: [{id: x, sleep: 1s}]
"#;
    let input = json(r#"{"who": "Ada", "n": 11}"#);
    let start = Start { schedule: Some(("nightly".to_owned(), 500)), ..Start::with_input(input) };
    let mut driven = Driven::begin(body, start).unwrap();
    let expected = js!({"who": "Ada@x", "run": 1, "share": 0.25, "big": true, "due": 500, "begun": 1_000});
    assert_eq!(driven.last_of("WorkflowCreated")["attributes"], expected);
    driven.fire("x");
    let created = driven.history.iter().filter(|recorded| recorded.to_json().contains("attributes")).count();
    assert_eq!(created, 1, "at the start and never again");
    let wrong = Driven::start_with(body, r#"{"who": "Ada", "n": null}"#).map(|_| ()).unwrap_err();
    assert!(matches!(wrong, Refusal::InvalidInput(_)), "{wrong:?}");
    assert!(fault("attributes: {a: {type: colour, value: '1'}}\nsteps: [{id: x, sleep: 1}]").contains("boolean"));
}

#[test]
fn a_block_has_a_cancel_grace_of_its_own() {
    let body = r#"
cancel_grace: 5s
tasks: {t: {version: 1.0.0}}
steps:
  - {id: x, task: t, compensate: {task: t}}
  - {id: box, cancel_grace: 2s, deadline: 1s, on_failure: continue, steps: [{id: y, task: t, compensate: {task: t}}]}
"#;
    let case = "mocks: {t: [{times: 2, never: true}, {}]}, cancel: 10s, expect: {status: cancelled}";
    let lines = shows(body, case);
    assert_eq!(at(&lines, "StepAttemptUncertain box.y stopped"), 3_000);
    assert_eq!(at(&lines, "StepAttemptUncertain x stopped"), 15_000);
}

#[test]
fn children_are_pinned() {
    let source = r#"
name: a
version: 1.0.0
workflows: {invoicing: {version: 1.0.0}}
steps: [{id: x, workflow: {name: invoicing}}]
result: "${steps.x.output}"
---
{name: invoicing, version: 2.0.0, steps: [{id: y, compute: "2"}], result: "${steps.y.output}"}
---
{name: invoicing, version: 1.0.0, steps: [{id: y, compute: "1"}], result: "${steps.y.output}"}
"#;
    shows(source.trim_start(), "expect: {status: completed, output: 1}");
}

#[test]
fn a_signal_has_a_contract() {
    let body = "signals: {approve: {type: object, properties: {by: {type: string}}}}\n\
                steps: [{id: x, await: {signal: approve}}]\nresult: \"${steps.x.output.by}\"\n";
    let mut driven = Driven::start(body);
    let signal = |payload| SendSignal { name: "approve".to_owned(), payload: json(payload), dedup_id: None };
    assert_eq!(driven.tell(signal(r#"{"by": 1}"#)).unwrap_err().code(), "INVALID_SIGNAL");
    driven.tell(signal(r#"{"by": "Ada"}"#)).unwrap();
    assert_eq!(driven.result(), r#""Ada""#);
}

#[test]
fn a_query_is_an_expression_over_the_steps() {
    let body = "tasks: {t: {version: 1.0.0}}\nqueries: {progress: steps.ship.status}\nsteps: [{id: ship, task: t}]\n";
    let asked = "queries: [{at: 5ms, name: progress, value: running}, {at: 20ms, name: progress, value: succeeded}]";
    shows(body, &format!("{asked}, expect: {{status: completed}}"));
}

#[test]
fn the_result_is_what_the_run_yields_and_null_by_default() {
    let steps = "steps: [{id: total, compute: '7'}]\n";
    assert_eq!(Driven::start(steps).result(), "null");
    let result = format!("{steps}result: {{total: \"${{steps.total.output}}\"}}\n");
    assert_eq!(Driven::start(&result).result(), r#"{"total":7}"#);
}

#[test]
fn done_when_ends_the_run() {
    let body = "done_when: steps.fast.status == 'succeeded'\nsteps: [{id: fast, sleep: 1s}, {id: slow, sleep: 1h}]\n";
    shows(
        body,
        "expect: {status: completed, ends_by: 1s, includes: [StepClosing (workflow) done, StepCancelled slow]}",
    );
}

#[test]
fn handlers_run_at_the_end() {
    let body = "steps: [{id: x, fail: {code: E}}]\n\
                handlers: {failure: [{id: y, sleep: 1s}], cancel: [{id: no, sleep: 1s}], exit: [{id: z, sleep: 1s}]}\n";
    let expected = "includes: [StepClosing (workflow) failed, HandlerStarted on:failure, StepSucceeded on:failure.y, \
                    HandlerStarted on:exit, StepSucceeded on:exit.z, WorkflowFailed E], \
                    excludes: [HandlerStarted on:cancel]";
    shows(body, &format!("expect: {{status: failed, {expected}}}"));
}

#[test]
fn signals_queries_and_attributes_are_named_like_steps() {
    let longest = "a".repeat(64);
    let too_long = "a".repeat(65);
    let with = |name: &str, field: &str, value: &str| {
        format!("{field}: {{'{name}': {value}}}\nsteps: [{{id: x, sleep: 1s}}]\n")
    };
    for (field, value) in [("signals", "{}"), ("queries", "'1'"), ("attributes", "{type: integer, value: '1'}")] {
        for good in ["a", "_", "a_9", &longest] {
            compile(&with(good, field, value));
        }
        for bad in ["", "A", "9a", "a-b", "a.b", "ä", &too_long] {
            fault(&with(bad, field, value));
        }
    }
}

#[test]
fn fields_that_begin_with_x_are_ignored_where_the_grammar_is_the_documents_own() {
    let body = r#"
x-owner: us
tasks: {t: {version: 1.0.0, x-note: 1}}
signals: {s: {}}
steps:
  - {id: x, x-why: because, task: t, input: {x-in: 1}, retry: {x-retry: 1}}
  - {id: y, signal: {execution: e, name: n, payload: {x-payload: 1}, x-signal: 1}}
  - {id: z, fail: {code: E, details: {x-details: 1}}}
result: {x-result: 1}
"#;
    let form = compile(body).normal_form;
    for ignored in ["x-owner", "x-note", "x-why", "x-retry", "x-signal"] {
        assert!(!form.contains(ignored), "{ignored} in {form}");
    }
    for data in [r#"{"x-in":1}"#, r#"{"x-payload":1}"#, r#"{"x-details":1}"#, r#"{"x-result":1}"#] {
        assert!(form.contains(data), "{data} not in {form}");
    }
    let schema = compile("input: {type: object, x-schema: 1}\nsteps: [{id: x, sleep: 1s}]\n");
    assert!(schema.normal_form.contains(r#""x-schema":1"#), "no field of the document's own grammar");
    let plain = "steps: [{id: x, sleep: 1s}]\n";
    assert_eq!(compile(&format!("x-owner: us\n{plain}")).hash, compile(plain).hash);
}
