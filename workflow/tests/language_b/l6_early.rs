//! Ways to close early: `done_when`, `deadline` (L6).

use workflow::command::Expiry;

use crate::help::{Play, shows};

#[test]
fn done_when_is_evaluated_after_each_change_inside() {
    // A skip, a success and a handled failure are changes; so is a success deep inside.
    for (done_when, last) in [
        ("steps.skipped.status == 'skipped'", "StepSkipped race.skipped"),
        ("steps.failed.status == 'failed'", "StepFailed race.failed NO handled=true"),
        ("steps.good.status == 'succeeded'", "StepSucceeded race.good"),
        ("steps.box.output == 1", "StepSucceeded race.box"),
    ] {
        let steps = format!(
            "
steps:
  - id: race
    done_when: \"{done_when}\"
    steps:
      - {{id: good, task: t.a}}
      - {{id: skipped, after: [good], when: 'false', compute: '1'}}
      - {{id: failed, after: [good], fail: {{code: NO}}, on_failure: continue}}
      - {{id: box, after: [good], steps: [{{id: x, compute: '1'}}], result: '${{steps.x.output}}'}}
      - {{id: never, task: t.c}}"
        );
        let steps = steps.replace("fail: {code: NO}", "compute: 'json(\"\")'").replace("NO", "EXPRESSION_ERROR");
        let last = last.replace("NO", "EXPRESSION_ERROR");
        let case = format!(
            "mocks: {{t.c: {{never: true}}}}, expect: {{status: completed,
             includes: ['{last}', StepClosing race done, StepCancelled race.never, StepSucceeded race]}}"
        );
        let story = shows(&steps, &case);
        assert_eq!(story.part(&last, "StepClosing race done").len(), 2, "at once");
    }
}

#[test]
fn a_timer_beside_work_closes_its_block() {
    let steps = "
steps:
  - id: box
    done_when: \"steps.timer.status == 'succeeded'\"
    steps: [{id: work, task: t.a}, {id: timer, sleep: 5s}]
    result: '${steps.work.status}'
result: '${steps.box.output}'";
    shows(steps, "mocks: {t.a: {never: true}}, expect: {status: completed, output: running, ends_by: 5s}");
}

#[test]
fn the_first_good_answer_closes_a_for() {
    let steps = "
steps: [{id: ask, for: {each: '[1, 2, 3]', max_failures: all, done_when: 'succeeded == 1'}, task: t.a,
        input: {n: '${item}'},
  retry: {max_attempts: 1}}]
result: '${steps.ask.output}'";
    let case =
        "mocks: {t.a: [{when: 'input.n == 1', error: {code: NO}}, {when: 'input.n == 2', after: 1s, output: yes},
        {never: true}]}, expect: {status: completed, output: [null, 'yes', null], ends_by: 1s}";
    shows(steps, &case.replace("output: yes", "output: 'yes'"));
}

/// Each with one part that is there after 10 s and one that never comes; `OUTPUT` is what is there.
const LATE: [(&str, &str); 6] = [
    ("for: {each: '[1, 2]'}, task: t.a, input: {n: '${item}'}", "[1, null]"),
    ("repeat: {until: 'false'}, task: t.a, input: {n: '${iteration}'}", "1"),
    (
        "steps: [{id: x, task: t.a, input: {n: 1}}, {id: y, task: t.a, input: {n: 2}}],
         result: ['${steps.x.output}', '${steps.y.output}']",
        "[1, null]",
    ),
    ("await: {signal: s, until: 'false'}", "[{n: 1}]"),
    ("await: {signal: never}", "null"),
    ("task: t.a, input: {n: 2}", "null"),
];

fn late(body: &str, on_deadline: &str) -> String {
    format!(
        "signals: {{s: {{type: object}}, never: {{type: object}}}}\n\
         steps: [{{id: a, deadline: 10s, on_deadline: {on_deadline}, {body}}}]\nresult: '${{steps.a.output}}'"
    )
}

const LATE_MOCKS: &str =
    "mocks: {t.a: [{when: 'input.n == 1', output: 1}, {never: true}]}, signals: [{at: 1s, name: s, payload: {n: 1}}]";

#[test]
fn a_deadline_that_continues_succeeds_with_what_is_there() {
    for (body, output) in LATE {
        let case = format!(
            "{LATE_MOCKS}, expect: {{status: completed, output: {output}, includes: ['TimerFired deadline:a',
             StepClosing a deadline, StepSucceeded a], ends_by: 10s}}"
        );
        shows(&late(body, "continue"), &case);
    }
}

#[test]
fn a_deadline_that_fails_closes_with_deadline_exceeded() {
    for (body, _) in LATE {
        let case = format!(
            "{LATE_MOCKS}, expect: {{status: failed, error: DEADLINE_EXCEEDED, includes: ['TimerFired deadline:a',
             StepClosing a deadline_failed, StepFailed a DEADLINE_EXCEEDED], ends_by: 10s}}"
        );
        shows(&late(body, "fail"), &case);
    }
}

#[test]
fn what_succeeded_before_a_deadline_that_continues_is_kept() {
    let body =
        "for: {each: '[1, 2]'}, task: t.a, input: {n: '${item}'}, compensate: {task: t.undo, input: {of: '${item}'}}";
    let case =
        format!("{LATE_MOCKS}, expect: {{status: completed, output: [1, null], inputs: {{t.undo: [{{of: 2}}]}}}}");
    shows(&late(body, "continue"), &case);
    let case = format!("{LATE_MOCKS}, expect: {{status: failed, inputs: {{t.undo: [{{of: 2}}, {{of: 1}}]}}}}");
    shows(&late(body, "fail"), &case);
}

#[test]
fn a_time_out_is_of_one_attempt_a_deadline_of_all() {
    let steps = "steps: [{id: a, task: t.a, timeout: 1s, deadline: 1h, retry: {max_attempts: 2}}]";
    let mut play = Play::start(steps);
    for attempt in 1..=2 {
        play.hand_over("a");
        let handed_over = play.last_of("StepDispatched");
        assert_eq!(handed_over["deadline_ms"], play.now_ms + 1_000, "attempt {attempt}");
        play.expire("a", Expiry::Timeout);
        if attempt == 1 {
            assert_eq!(play.lines().last().unwrap(), "RetryScheduled a next=2");
            play.fire("a");
        }
    }
    assert!(play.lines().contains(&"StepFailed a TIMEOUT handled=false".to_owned()));
    let deadlines = play.lines().iter().filter(|line| *line == "TimerStarted deadline:a").count();
    assert_eq!(deadlines, 1);
}
