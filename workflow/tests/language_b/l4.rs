//! Blocks (L4).

use std::fmt::Write;

use workflow::decide::next_event;
use workflow::state::Execution;

use crate::help::{Play, definitions, faults, shows};

#[test]
fn the_root_is_a_block_like_any_other() {
    let inside = "
  - {id: a, task: t.a, compensate: {task: t.undo, input: {}}}
  - {id: b, after: [a], task: t.b, retry: {max_attempts: 1}}
  - {id: c, task: t.c, compensate: {task: t.undo2, input: {}}}";
    let root = format!("cancel_grace: 2s\nsteps:{inside}");
    let inside = inside.replace("\n  ", "\n      ");
    let block = format!("steps:\n  - id: box\n    cancel_grace: 2s\n    steps:{inside}");
    let case = "mocks: {t.b: {error: {code: NO}}, t.c: {never: true}}, expect: {status: failed, error: NO}";
    let root = shows(&root, case);
    let block = shows(&block, case);
    let in_root = root.part("StepScheduled a attempt=1", "CompensationCompleted (workflow)");
    let in_block = block.part("StepScheduled box.a attempt=1", "CompensationCompleted box");
    let rename = |line: &&str| line.replace("box.", "").replace("grace:box", "grace:").replace("box", "(workflow)");
    assert_eq!(in_block.iter().map(rename).collect::<Vec<_>>(), in_root);
}

#[test]
fn a_block_closes_alike_wherever_it_stands() {
    let inside =
        "steps: [{id: a, task: t.a, compensate: {task: t.undo, input: {}}}, {id: b, after: [a], fail: {code: NO}}]";
    for (around, key, attributes) in [
        ("", "box", ""),
        ("", "box[0]", "for: {each: '[1]'}, "),
        ("", "box#1", "repeat: {until: 'true'}, "),
        ("", "box~1", "retry: {max_attempts: 1}, "),
        ("outer", "outer.box", ""),
        ("on:failure", "on:failure.box", ""),
    ] {
        let step = format!("{{id: box, {attributes}{inside}}}");
        let body = match around {
            "outer" => format!("steps: [{{id: outer, steps: [{step}]}}]"),
            "on:failure" => format!("steps: [{{id: x, fail: {{code: FIRST}}}}]\nhandlers: {{failure: [{step}]}}"),
            _ => format!("steps: [{step}]"),
        };
        let story = shows(&body, "expect: {status: failed, calls: {t.undo: 1}}");
        let closing = format!("StepClosing {key} failed");
        let undone = format!("CompensationCompleted {key}");
        assert_eq!(
            story.part(&closing, &undone),
            [
                closing.as_str(),
                &format!("CompensationStarted {key} {key}.a"),
                &format!("StepScheduled compensate:{key}.a attempt=1"),
                &format!("StepDispatched compensate:{key}.a"),
                &format!("StepSucceeded compensate:{key}.a"),
                &undone
            ]
        );
    }
}

#[test]
fn a_block_may_stand_wherever_a_step_may() {
    let steps = "
signals: {s: {type: object}}
steps:
  - {id: plain, steps: [{id: inner, steps: [{id: one, compute: '1'}], result: '${steps.one.output}'}],
     result: '${steps.inner.output}'}
  - {id: each, for: {each: '[2, 3]'}, steps: [{id: two, compute: 'item'}], result: '${steps.two.output}'}
  - {id: again, repeat: {until: 'iteration == 2'}, steps: [{id: three, compute: 'iteration'}],
     result: '${steps.three.output}'}
  - {id: wait, await: {signal: s}}
result: ['${steps.plain.output}', '${steps.each.output}', '${steps.again.output}']
handlers: {exit: [{id: last, steps: [{id: four, compute: '4'}]}]}";
    let case = "signals: [{at: 1s, name: s}], expect: {status: completed, output: [1, [2, 3], 2], includes: [
        StepSucceeded plain.inner.one, 'StepSucceeded each[0].two', 'StepSucceeded again#2.three',
        'StepSucceeded on:exit.last.four']}";
    shows(steps, case);
}

#[test]
fn inside_one_sees_what_is_visible_outside_and_the_steps_of_the_block() {
    let steps = "
input: {type: object, properties: {n: {default: 1}}}
steps:
  - {id: before, compute: '2'}
  - id: outer
    for: {each: '[3]', as: item}
    steps:
      - {id: own, compute: '4'}
      - {id: inner, steps: [{id: all, compute: '[input.n, steps.before.output, item, index, steps.own.output]'}],
         result: '${steps.all.output}'}
    result: '${steps.inner.output}'
result: '${steps.outer.output}'";
    shows(steps, "expect: {status: completed, output: [[1, 2, 3, 0, 4]]}");
}

#[test]
fn outside_sees_only_the_block() {
    for elsewhere in
        ["{id: out, compute: 'steps.inside.output'}", "{id: out, steps: [{id: x, compute: 'steps.inside.output'}]}"]
    {
        let faults = faults(&format!("steps: [{{id: box, steps: [{{id: inside, compute: '1'}}]}}, {elsewhere}]"));
        assert!(faults.contains("inside"), "{faults}");
    }
    let faults = faults("steps: [{id: box, steps: [{id: inside, compute: '1'}]}]\nresult: '${steps.inside.output}'");
    assert!(faults.contains("inside"), "{faults}");
}

#[test]
fn after_names_steps_of_the_same_block() {
    let same = "steps: [{id: a, compute: '1'}, {id: box, steps: [{id: b, compute: '1'}, {id: c, after: [AFTER],
        compute: '1'}]}]";
    shows(&same.replace("AFTER", "b"), "expect: {status: completed}");
    let faults = faults(&same.replace("AFTER", "a"));
    assert!(faults.contains("after"), "{faults}");
}

#[test]
fn a_block_depends_on_every_outer_step_that_its_inside_names() {
    let steps = "
steps:
  - {id: a, task: t.a}
  - {id: b, task: t.b}
  - {id: box, steps: [{id: free, compute: '1'}, {id: deep, steps: [{id: x, compute: 'steps.a.output'}]},
     {id: send, task: t.c, input: {b: '${steps.b.output}'}}]}";
    let story = shows(steps, "mocks: {t.a: {after: 1s}, t.b: {after: 2s}}, expect: {status: completed}");
    assert_eq!(story.at("StepOpened box"), 2_000, "even `free` waits for what the block needs");
    assert_eq!(story.at("StepSucceeded box.free"), 2_000);
}

#[test]
fn blocks_are_at_most_8_deep_and_steps_at_most_1_000() {
    let deep = |depth: usize| {
        let blocks = (0..depth)
            .fold(String::from("{id: s, compute: '1'}"), |inside, n| format!("{{id: b{n}, steps: [{inside}]}}"));
        format!("steps: [{blocks}]")
    };
    let many = |count: usize| {
        (0..count).fold(String::from("steps:\n"), |mut text, n| {
            let _ = writeln!(text, "  - {{id: s{n}, compute: '1'}}");
            text
        })
    };
    definitions(&deep(7));
    definitions(&deep(8));
    assert!(faults(&deep(9)).contains('8'), "{}", faults(&deep(9)));
    definitions(&many(1_000));
    assert!(faults(&many(1_001)).contains("1000"), "{}", faults(&many(1_001)));
}

#[test]
fn a_block_opens_runs_and_yields_its_result() {
    let mut play = Play::start("steps: [{id: box, steps: [{id: a, task: t.a}], result: {got: '${steps.a.output}'}}]");
    play.succeed("box.a", "7");
    assert_eq!(
        play.since(2),
        [
            "StepOpened box",
            "StepScheduled box.a attempt=1",
            "StepDispatched box.a",
            "StepSucceeded box.a",
            "StepSucceeded box",
            "WorkflowCompleted"
        ]
    );
    assert_eq!(play.last_of("StepSucceeded")["output"]["got"], 7);
}

#[test]
fn a_failed_attempt_of_a_block_is_undone_then_it_opens_again_with_new_units_and_keys() {
    let steps = "
steps:
  - id: box
    retry: {max_attempts: 2, initial_delay: 1s, jitter: 0}
    steps:
      - {id: a, task: t.a, compensate: {task: t.undo, input: {}}}
      - {id: b, after: [a], task: t.b, retry: {max_attempts: 1}}";
    let mut play = Play::start(steps);
    let key = |play: &Play| play.last_of("StepScheduled")["idempotency_key"].clone();
    let first = key(&play);
    play.succeed("box~1.a", "1");
    play.give_up("box~1.b", "NO");
    let failed = play.history.len();
    play.succeed("compensate:box~1.a", "1");
    play.fire("box");
    assert_eq!(
        play.since(failed),
        [
            "StepDispatched compensate:box~1.a",
            "StepSucceeded compensate:box~1.a",
            "CompensationCompleted box~1",
            "RetryScheduled box next=2",
            "TimerFired box",
            "StepOpened box attempt=2",
            "StepScheduled box~2.a attempt=1"
        ]
    );
    assert_ne!(key(&play), first, "new work");
}

#[test]
fn the_walk_goes_in_order_depth_first_and_looks_at_the_done_when_before_each_step() {
    let steps = "
steps:
  - {id: z, after: [m], task: t.a}
  - {id: m, task: t.b}
  - {id: each, for: {each: '[1, 2]'}, steps: [{id: q, task: t.a}, {id: p, task: t.a}]}
  - id: race
    done_when: \"steps.won.status == 'succeeded'\"
    steps: [{id: won, compute: '1'}, {id: lost, task: t.c}]
  - {id: last, task: t.c}";
    let play = Play::start(steps);
    assert_eq!(
        play.since(2),
        [
            "StepScheduled m attempt=1",
            "StepFanOut each 2 items",
            "StepOpened each[0]",
            "StepScheduled each[0].q attempt=1",
            "StepScheduled each[0].p attempt=1",
            "StepOpened each[1]",
            "StepScheduled each[1].q attempt=1",
            "StepScheduled each[1].p attempt=1",
            "StepOpened race",
            "StepSucceeded race.won",
            "StepClosing race done",
            "StepSucceeded race",
            "StepScheduled last attempt=1"
        ]
    );
}

#[test]
fn event_handlers_start_before_steps_and_end_handlers_come_last() {
    let steps = "
signals: {go: {type: object}, note: {type: object}}
steps: [{id: wait, await: {signal: go}}, {id: b, after: [wait], compute: '1'}]
handlers: {event: {note: [{id: n, compute: '1'}]}, exit: [{id: e, compute: '1'}]}";
    let mut play = Play::start(steps);
    // Both signals come in while nothing is decided, so one walk meets everything.
    play.tell(workflow::command::Pause).unwrap();
    play.signal("go", "{}").unwrap();
    play.signal("note", "{}").unwrap();
    let paused = play.history.len();
    play.tell(workflow::command::Resume).unwrap();
    let lines = play.since(paused);
    let place = |part: &str| lines.iter().position(|line| line.starts_with(part)).expect(part);
    assert!(place("HandlerStarted on:event:note@") < place("SignalConsumed wait"), "{lines:#?}");
    assert!(place("StepSucceeded b") < place("StepSucceeded on:event:note@"), "steps before handlers: {lines:#?}");
    assert!(place("HandlerFinished on:event:note@") < place("HandlerStarted on:exit"), "{lines:#?}");
    assert!(place("HandlerFinished on:exit") < place("WorkflowCompleted"), "{lines:#?}");
    assert_eq!(place("WorkflowCompleted"), lines.len() - 1);
}

#[test]
fn the_next_event_is_the_same_wherever_a_batch_is_cut() {
    let steps = "
steps:
  - {id: each, for: {each: 'range(4)', concurrency: 2}, steps: [{id: q, compute: 'item'}, {id: p, compute: 'item'}]}
  - {id: again, repeat: {until: 'iteration == 3'}, compute: 'iteration'}
  - {id: box, on_failure: continue, steps: [{id: r, compute: '1'}, {id: bad, after: [r], fail: {code: NO}}]}
  - {id: last, after: [each, box], compute: '1'}
handlers: {exit: [{id: e, compute: '1'}]}";
    let steps = steps.replace("compute: 'iteration'}", "steps: [{id: i, compute: 'iteration'}]}");
    let play = Play::start(&steps);
    assert_eq!(play.lines().last().unwrap(), "WorkflowCompleted");
    let definition = play.run.definition();
    for cut in 2..play.history.len() {
        let state = Execution::fold(&play.history[..cut]);
        let next = next_event(definition, &state, "x", play.now_ms).unwrap();
        assert_eq!(next, play.history[cut].event, "cut after {cut}");
    }
}
