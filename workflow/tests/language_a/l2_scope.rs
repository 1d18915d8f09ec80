//! L2: what expressions see.

use workflow::command::Start;
use workflow::event::Parent;
use workflow::key::Key;

use crate::help::*;

#[test]
fn input_is_what_the_run_was_started_with() {
    let body = "steps: [{id: x, compute: input.n + 1}]\nresult: [\"${input}\", \"${steps.x.output}\"]\n";
    assert_eq!(Driven::start_with(body, r#"{"n": 1}"#).unwrap().result(), r#"[{"n":1},2]"#);
}

#[test]
fn execution_has_eight_members() {
    let names = "id, run, workflow, version, started_at, scheduled_at, parent_id, history_events";
    let all = names.split(", ").map(|name| format!("execution.{name}")).collect::<Vec<_>>().join(", ");
    let body = format!("steps: [{{id: x, compute: '[{all}]'}}]\nresult: \"${{steps.x.output}}\"\n");
    let parent = Parent { execution_id: "p".into(), created_at_ms: 5, run: 1, step: Key::from("child"), attempt: 1 };
    let start = Start {
        run: 2,
        first_created_at_ms: Some(700),
        parent: Some(parent),
        schedule: Some(("nightly".to_owned(), 800)),
        ..Start::with_input(json("{}"))
    };
    // Created and started: two events before the first step.
    assert_eq!(Driven::begin(&body, start).unwrap().result(), r#"["x",2,"a","1.0.0",1000,800,"p",2]"#);
    assert_eq!(Driven::start(&body).result(), r#"["x",1,"a","1.0.0",1000,null,null,2]"#);
    fault("steps: [{id: x, compute: execution.nothing}]\n");
}

#[test]
fn a_step_has_seven_members() {
    let body = r#"
steps:
  - {id: x, sleep: 5s}
  - {id: y, compute: "7", after: [x]}
  - {id: bad, compute: "1 / 0", after: [x], on_failure: continue}
  - {id: loop, repeat: {until: "iteration == 3"}, steps: [{id: z, compute: "1"}], after: [x]}
  - {id: each, for: {each: "[4, 5]"}, steps: [{id: w, compute: "item"}], result: "${steps.w.output}", after: [x]}
result:
  x: ["${steps.x.status}", "${steps.x.output}", "${steps.x.error}", "${steps.x.started_at}", "${steps.x.finished_at}"]
  y: ["${steps.y.output}", "${steps.y.started_at}"]
  bad: ["${steps.bad.status}", "${steps.bad.output}", "${steps.bad.error.code}", "${steps.bad.error.retryable}"]
  loop: "${steps.loop.iteration}"
  each: ["${steps.each.output}", "${steps.each.units}"]
"#;
    let mut driven = Driven::start(body);
    driven.fire("x");
    let unit =
        |index: u32, output: u32| format!(r#"{{"error":null,"index":{index},"output":{output},"status":"succeeded"}}"#);
    let expected = format!(
        r#"{{"bad":["failed",null,"EXPRESSION_ERROR",false],"each":[[4,5],[{},{}]],"loop":3,"#,
        unit(0, 4),
        unit(1, 5)
    ) + r#""x":["succeeded",null,null,1000,6000],"y":[7,6000]}"#;
    assert_eq!(driven.result(), expected);
}

#[test]
fn an_element_sees_its_item_and_its_index() {
    let body = r#"
steps:
  - id: plain
    for: {each: "['a', 'b']"}
    steps: [{id: x, compute: "item + string(index)"}]
    result: "${steps.x.output}"
  - id: outer
    for: {each: "[10, 20]", as: row}
    steps:
      - id: inner
        for: {each: "[1, 2]", as: column}
        steps: [{id: y, compute: "row + column + index * 100"}]
        result: "${steps.y.output}"
    result: "${steps.inner.output}"
result: ["${steps.plain.output}", "${steps.outer.output}"]
"#;
    assert_eq!(Driven::start(body).result(), r#"[["a0","b1"],[[11,112],[21,122]]]"#);
}

#[test]
fn an_iteration_sees_its_number_and_the_output_before() {
    let body = r#"
steps:
  - id: sum
    repeat: {until: "iteration == 3"}
    steps: [{id: x, compute: "coalesce(previous, 0) + iteration * 10"}]
    result: "${steps.x.output}"
result: "${steps.sum.output}"
"#;
    assert_eq!(Driven::start(body).result(), "60");
}

#[test]
fn output_is_seen_by_until_and_by_the_undo() {
    let body = r#"
tasks: {t: {version: 1.0.0}, undo: {version: 1.0.0}}
steps:
  - id: x
    task: t
    input: "${iteration}"
    repeat: {until: "output.n == 2"}
    compensate: {task: undo, input: "${output.n}"}
  - {id: y, after: [x], fail: {code: E}}
"#;
    let mocks = "mocks: {t: {output: {n: '${input}'}}}";
    shows(body, &format!("{mocks}, expect: {{status: failed, calls: {{t: 2}}, inputs: {{undo: [2, 1]}}}}"));
}

#[test]
fn error_is_seen_by_on_failure() {
    let body = r#"
tasks: {t: {version: 1.0.0}}
steps:
  - id: x
    task: t
    retry: {max_attempts: 1}
    on_failure:
      - when: "error.code == 'E' && error.message == 'no' && !error.retryable && error.details.n == 1"
        then: continue
"#;
    let error =
        |n: u32| format!("mocks: {{t: {{error: {{code: E, message: 'no', retryable: false, details: {{n: {n}}}}}}}}}");
    shows(body, &format!("{}, expect: {{status: completed, includes: [StepFailed x E handled=true]}}", error(1)));
    shows(body, &format!("{}, expect: {{status: failed, error: E}}", error(2)));
}

#[test]
fn handlers_see_failure_and_event() {
    let body = r#"
tasks: {t: {version: 1.0.0}, tell: {version: 1.0.0}}
signals: {bell: {}}
steps: [{id: x, sleep: 1s}, {id: y, after: [x], fail: {code: E, message: "no", details: {n: 1}}}]
handlers:
  event: {bell: [{id: ring, task: tell, input: "${event.n}"}]}
  failure: [{id: sorry, task: tell, input: "${failure}"}]
  exit: [{id: bye, task: tell, input: "${failure.code}"}]
"#;
    let failure = "{reason: failed, code: E, message: 'no', details: {n: 1}}";
    let expected = format!("{{status: failed, inputs: {{tell: [7, {failure}, E]}}}}");
    shows(body, &format!("signals: [{{at: 10ms, name: bell, payload: {{n: 7}}}}], expect: {expected}"));
}

#[test]
fn a_running_repeat_shows_its_last_finished_iteration() {
    let body = r#"
tasks: {t: {version: 1.0.0}}
queries: {sofar: "[steps.x.status, steps.x.iteration, steps.x.output]"}
steps: [{id: x, task: t, input: "${iteration}", repeat: {until: "iteration == 3"}}]
"#;
    let queries = "queries: [{at: 5ms, name: sofar, value: [running, null, null]}, \
                   {at: 15ms, name: sofar, value: [running, 1, 10]}, {at: 25ms, name: sofar, value: [running, 2, 20]}, \
                   {at: 35ms, name: sofar, value: [succeeded, 3, 30]}]";
    shows(body, &format!("mocks: {{t: {{output: '${{input * 10}}'}}}}, {queries}, expect: {{status: completed}}"));
}

#[test]
fn a_step_has_one_of_seven_statuses() {
    let body = r#"
tasks: {t: {version: 1.0.0}}
queries: {all: "[steps.p.status, steps.r.status, steps.u.status, steps.s.status, steps.f.status, steps.k.status]"}
done_when: "steps.r.status == 'succeeded'"
steps:
  - {id: r, sleep: 1h}
  - {id: p, sleep: 1s, after: [r]}
  - {id: u, compute: "1 / 0", on_failure: suspend}
  - {id: s, compute: "1"}
  - {id: f, compute: "1 / 0", on_failure: continue}
  - {id: k, when: "false", sleep: 1s}
"#;
    let queries = "queries: [\
                   {at: 1s, name: all, value: [pending, running, suspended, succeeded, failed, skipped]}, \
                   {at: 2h, name: all, value: [pending, succeeded, cancelled, succeeded, failed, skipped]}]";
    shows(body, &format!("{queries}, expect: {{status: completed}}"));
}
