//! L15: test cases: what they can say, and that a case which says otherwise fails.

use workflow::event::Recorded;

use crate::help::*;

const TASKS: &str = r#"
tasks: {t: {version: 1.0.0}, u: {version: 1.0.0}}
signals: {s: {}}
queries: {q: "steps.x.status"}
steps:
  - {id: x, task: t, input: {n: "${input.n}"}, retry: {jitter: 0}}
  - {id: y, task: u, after: [x]}
result: {x: "${steps.x.output}"}
"#;

fn holds(case: &str) {
    shows(TASKS, case);
}

/// The case does not come out, and this is told.
fn tells(case: &str, said: &str) {
    let told = differences(TASKS, case);
    assert!(told.contains(said), "{said:?} is not in:\n{told}");
}

#[test]
fn a_case_has_fields() {
    holds("input: {n: 1}, expect: {status: completed, inputs: {t: [{n: 1}]}}");
    holds("mocks: {t: {output: 5}}, expect: {status: completed, output: {x: 5}}");
    holds("mocks: {t: [{times: 1, error: {code: E}}, {output: 6}]}, expect: {status: completed, output: {x: 6}}");
    holds("signals: [{at: 5ms, name: s, payload: {k: 1}}], expect: {status: completed, includes: [SignalReceived s]}");
    holds("cancel: 5ms, expect: {status: cancelled}");
    holds(
        "mocks: {t: {error: {code: E, retryable: false}}}, redrive: [{at: 1m, steps: [x], action: resolve}], \
           expect: {status: completed, output: {x: null}}",
    );
    holds("queries: [{at: 5ms, name: q, value: running}], expect: {status: completed}");
    holds("mocks: {t: {after: 1h}}, until: 30m, expect: {status: running}");
    // The second document is meant only where it is named; a signal may go to another execution.
    let two = "name: a\nversion: 1.0.0\nsteps: [{id: x, compute: '1'}]\nresult: 1\n---\n\
               {name: b, version: 1.0.0, signals: {s: {}}, steps: [{id: x, await: {signal: s}}], result: 2}\n";
    shows(two, "expect: {status: completed, output: 1}");
    let late = "signals: [{at: 1s, name: s, to: x}]";
    shows(two, &format!("workflow: b, {late}, expect: {{status: completed, output: 2}}"));
    let starts = "starts: [{id: one, at: 0, workflow: a}, {id: two, at: 5s, workflow: b, input: {n: 1}}]";
    let signals = "signals: [{at: 10s, name: s, to: two}]";
    shows(two, &format!("{starts}, {signals}, expect: {{status: completed, of: two, output: 2, not_before: 10s}}"));
}

#[test]
fn an_outcome_is_chosen_by_condition_and_number() {
    holds(
        "input: {n: 1}, mocks: {t: [{when: input.n == 2, output: two}, {when: input.n == 1, output: one}]}, \
           expect: {status: completed, output: {x: one}}",
    );
    let failing = "error: {code: E}";
    holds(&format!(
        "mocks: {{t: [{{when: attempt < 3, {failing}}}, {{output: '${{attempt}}'}}]}}, \
                    expect: {{status: completed, output: {{x: 3}}}}"
    ));
    holds(&format!(
        "mocks: {{t: [{{when: call == 1, {failing}}}, {{when: unit == 'x', output: found}}]}}, \
                    expect: {{status: completed, output: {{x: found}}}}"
    ));
    holds(&format!(
        "mocks: {{t: [{{times: 2, {failing}}}, {{output: third}}]}}, \
                    expect: {{status: completed, output: {{x: third}}, calls: {{t: 3}}}}"
    ));
}

#[test]
fn an_outcome_takes_ten_milliseconds_unless_it_says_otherwise() {
    let lines = shows(TASKS, "mocks: {t: {after: 1h}}, expect: {status: completed}");
    assert_eq!(at(&lines, "StepSucceeded x"), 3_600_000);
    assert_eq!(at(&lines, "StepSucceeded y"), 3_600_010);
    holds("mocks: {t: {never: true}}, expect: {status: running, excludes: [StepSucceeded x]}");
}

#[test]
fn an_output_may_use_what_an_outcome_sees() {
    holds(
        "input: {n: 4}, mocks: {t: {output: {n: '${input.n + 1}', text: 'at ${unit} ${attempt} ${call}'}}}, \
           expect: {status: completed, output: {x: {n: 5, text: at x 1 1}}}",
    );
    holds("expect: {status: completed, output: {x: {}}}");
}

#[test]
fn an_error_of_an_outcome_is_the_workers() {
    let error = "{code: E, message: 'no', retryable: false, details: {n: 1}}";
    let event = format!("{{type: StepAttemptFailed, step: x, error: {error}, unknown: false}}");
    holds(&format!("mocks: {{t: {{error: {error}}}}}, expect: {{status: failed, error: E, events_like: [{event}]}}"));
}

#[test]
fn what_is_expected_is_compared() {
    holds("expect: {status: COMPLETED}");
    tells("expect: {status: failed}", "status: expected failed, came completed");
    tells("expect: {status: completed, output: 1}", "output: expected 1");
    tells("expect: {status: completed, error: E}", "error: expected E, came none");
    tells("expect: {status: completed, calls: {t: 2}}", "calls of t: expected 2, came 1");
    tells("expect: {status: completed, ends_by: 19ms}", "ends_by: expected 19ms or earlier, came 20ms");
    holds("expect: {status: completed, ends_by: 20ms, events: 9, calls: {t: 1, u: 1}}");
    tells("expect: {status: completed, events: 8}", "events: expected 8, came 9");
}

#[test]
fn lines_are_compared_in_order_and_by_whole_words() {
    holds("expect: {status: completed, includes: [StepScheduled x, StepSucceeded, StepScheduled y attempt=1]}");
    tells("expect: {status: completed, includes: [StepSucceeded y, StepSucceeded x]}", "includes: expected");
    tells("expect: {status: completed, includes: [StepSched]}", "came no such line");
    tells("expect: {status: completed, includes: [StepScheduled x attempt]}", "came no such line");
    tells("expect: {status: completed, excludes: [StepSucceeded y]}", "excludes: expected never");
    holds("expect: {status: completed, excludes: [StepSucceeded z, StepSucc]}");
}

#[test]
fn the_key_of_the_workflow_prints_as_a_word() {
    shows("steps: [{id: x, fail: {code: E}}]\n", "expect: {status: failed, includes: [StepClosing (workflow) failed]}");
}

/// Fields of an event, and how it reads as a line.
const LINES: &[(&str, &str)] = &[
    (r#""type":"StepOpened","step":"x","attempt":1"#, "StepOpened x"),
    (r#""type":"StepOpened","step":"x","attempt":2"#, "StepOpened x attempt=2"),
    (
        r#""type":"StepScheduled","step":"x","attempt":3,"idempotency_key":"k","redelivery":false"#,
        "StepScheduled x attempt=3",
    ),
    (
        r#""type":"StepScheduled","step":"x","attempt":3,"idempotency_key":"k","redelivery":true"#,
        "StepScheduled x attempt=3 redelivery",
    ),
    (r#""type":"StepFailed","step":"x","error":{"code":"E"},"handled":true"#, "StepFailed x E handled=true"),
    (r#""type":"StepFailed","step":"x","error":{"code":"E"},"handled":false"#, "StepFailed x E handled=false"),
    (
        r#""type":"StepAttemptFailed","step":"x","attempt":1,"error":{"code":"E"},"unknown":false"#,
        "StepAttemptFailed x E",
    ),
    (
        r#""type":"StepAttemptFailed","step":"x","attempt":1,"error":{"code":"E"},"unknown":true"#,
        "StepAttemptFailed x E unknown",
    ),
    (r#""type":"StepSuspended","step":"x","error":{"code":"E"}"#, "StepSuspended x E"),
    (r#""type":"CompensationFailed","step":"x","error":{"code":"E"}"#, "CompensationFailed x E"),
    (r#""type":"StepClosing","step":"x","reason":"deadline_failed""#, "StepClosing x deadline_failed"),
    (r#""type":"StepClosing","step":"","reason":"done""#, "StepClosing (workflow) done"),
    (
        r#""type":"CompensationStarted","step":"","reason":"failed","steps":["b","a"]"#,
        "CompensationStarted (workflow) b a",
    ),
    (r#""type":"StepFanOut","step":"x","items":[1,2]"#, "StepFanOut x 2 items"),
    (r#""type":"RetryScheduled","step":"x","next_attempt":2,"delay_ms":1,"fire_at_ms":2"#, "RetryScheduled x next=2"),
    (r#""type":"SignalReceived","signal":"s","payload":{}"#, "SignalReceived s"),
    (r#""type":"SignalConsumed","step":"x","signal_seq":4"#, "SignalConsumed x signal_seq=4"),
    (
        r#""type":"WorkflowFailed","error":{"code":"E"},"compensation":"failed","unconsumed_signals":0"#,
        "WorkflowFailed E compensation=failed",
    ),
    (
        r#""type":"WorkflowCancelled","compensation":"completed","unconsumed_signals":0"#,
        "WorkflowCancelled compensation=completed",
    ),
    (r#""type":"WorkflowTimedOut","compensation":"none","unconsumed_signals":0"#, "WorkflowTimedOut compensation=none"),
    (
        r#""type":"StepAttemptUncertain","step":"x","attempt":1,"reason":"worker_lost""#,
        "StepAttemptUncertain x worker_lost",
    ),
    (r#""type":"StaleResultIgnored","step":"x","token":"t","outcome":"success""#, "StaleResultIgnored x success"),
    (r#""type":"StaleResultIgnored","step":"x","token":"t","outcome":"failure""#, "StaleResultIgnored x failure"),
    (r#""type":"WorkflowRedriven","steps":["x","y"],"action":"resolve""#, "WorkflowRedriven resolve x y"),
    (r#""type":"HandlerFinished","step":"on:exit","error":{"code":"E"}"#, "HandlerFinished on:exit E"),
    (r#""type":"HandlerFinished","step":"on:exit","result":null"#, "HandlerFinished on:exit"),
    (r#""type":"CancelRequested","reason":"why","force":true"#, "CancelRequested force"),
    (r#""type":"CancelRequested","reason":"why","force":false"#, "CancelRequested"),
    (r#""type":"WorkflowContinuedAsNew","run":2,"input":{},"unconsumed_signals":0"#, "WorkflowContinuedAsNew run=2"),
    (
        r#""type":"WorkflowCreated","workflow":"a","version":"1.0.0","definition_hash":"h","rules":1,"input":{},
            "run":3,"attributes":{}"#,
        "WorkflowCreated run=3",
    ),
];

#[test]
fn an_event_reads_as_a_line_with_its_details() {
    for (fields, line) in LINES {
        let recorded = Recorded::from_json(&format!("{{\"seq\":1,\"timestamp_ms\":1,{fields}}}"));
        assert_eq!(recorded.unwrap_or_else(|fault| panic!("{fields}: {fault}")).event.to_string(), *line);
    }
}

#[test]
fn a_hand_over_may_be_lost() {
    for (written, reason) in [
        ("", "worker_lost"),
        (", reason: not_received", "not_received"),
        (", reason: node_lost", "node_lost"),
        (", reason: unregistered", "unregistered"),
    ] {
        let lines = shows(
            TASKS,
            &format!("mocks: {{t: [{{times: 1, lost: 5s{written}}}, {{}}]}}, expect: {{status: completed}}"),
        );
        assert_eq!(at(&lines, &format!("StepAttemptUncertain x {reason}")), 5_000);
        assert_eq!(at(&lines, "StepScheduled x attempt=1 redelivery"), 5_000);
    }
    // With `after` it still answers later.
    let answers = "mocks: {t: [{times: 1, lost: 5s, after: 8s, output: late}, {never: true}]}";
    holds(&format!("{answers}, expect: {{status: completed, output: {{x: late}}, not_before: 8s, ends_by: 9s}}"));
}

const TIMED: &str = r#"
tasks: {t: {version: 1.0.0}}
steps: [{id: x, task: t, timeout: 1h, heartbeat_timeout: 30s, queue_timeout: 50s, retry: {max_attempts: 1}}]
"#;

#[test]
fn a_worker_may_be_silent_late_or_repeat_itself() {
    let lines = shows(TIMED, "mocks: {t: {silent: true}}, expect: {status: failed, error: HEARTBEAT_TIMEOUT}");
    assert_eq!(at(&lines, "StepAttemptFailed x HEARTBEAT_TIMEOUT unknown"), 30_000);
    let lines = shows(TIMED, "mocks: {t: {never: true}}, expect: {status: failed, error: TIMEOUT}");
    assert_eq!(at(&lines, "StepAttemptFailed x TIMEOUT unknown"), 3_600_000, "it lives, and does not answer");
    let lines =
        shows(TIMED, "mocks: {t: {pickup: 60s}}, expect: {status: failed, error: QUEUE_TIMEOUT, calls: {t: 0}}");
    assert_eq!(at(&lines, "StepAttemptFailed x QUEUE_TIMEOUT"), 50_000);
    let lines = shows(TIMED, "mocks: {t: {pickup: 40s}}, expect: {status: completed}");
    assert_eq!(at(&lines, "StepSucceeded x"), 40_010);
    // The same failure again is answered as the first time: nothing is stale.
    let again = "mocks: {t: [{times: 1, error: {code: E}, sent: 3, again: 10ms}, {}]}";
    holds(&format!("{again}, expect: {{status: completed, count: {{StepAttemptFailed: 1, StaleResultIgnored: 0}}}}"));
    let unknown = "mocks: {t: {error: {code: E, unknown: true}}}";
    shows(TIMED, &format!("{unknown}, expect: {{status: failed, includes: [StepAttemptFailed x E unknown]}}"));
}

#[test]
fn two_codes_stand_for_the_engines_own_clock() {
    for code in ["TIMEOUT", "HEARTBEAT_TIMEOUT"] {
        let mocks = format!("mocks: {{t: {{after: 7s, error: {{code: {code}}}}}}}");
        let lines = shows(TASKS, &format!("{mocks}, until: 7s, expect: {{status: running}}"));
        assert_eq!(at(&lines, &format!("StepAttemptFailed x {code} unknown")), 7_000);
    }
    tells("mocks: {t: {error: {code: QUEUE_TIMEOUT}}}, expect: {status: failed}", "one of Orbit's own codes");
}

#[test]
fn cancel_pause_and_resume_have_three_forms() {
    let slow = "mocks: {t: {after: 1h}}";
    for cancel in ["5s", "{at: 5s}", "[{at: 5s}]", "{at: 5s, to: x}", "[{at: 5s}, {at: 6s}]"] {
        holds(&format!("{slow}, cancel: {cancel}, expect: {{status: cancelled, ends_by: 5s}}"));
    }
    holds(&format!(
        "{slow}, cancel: {{at: 5s, force: true}}, expect: {{status: cancelled, includes: [CancelRequested force]}}"
    ));
    for (pause, resume) in [("5ms", "1m"), ("{at: 5ms}", "{at: 1m, to: x}"), ("[{at: 5ms, to: x}]", "[{at: 1m}]")] {
        let lines = "includes: [WorkflowPaused, StepSucceeded x, WorkflowResumed, StepScheduled y], not_before: 1m";
        holds(&format!("pause: {pause}, resume: {resume}, expect: {{status: completed, {lines}}}"));
    }
    tells(&format!("{slow}, pause: {{at: 5s, to: other}}, until: 6s, expect: {{status: running}}"), "NOT_FOUND");
}

#[test]
fn redrive_names_steps_action_and_output() {
    let body = "tasks: {t: {version: 1.0.0}}\n\
                steps: [{id: x, task: t, retry: {max_attempts: 1}, on_failure: suspend}]\n\
                result: \"${steps.x.output}\"\n";
    let once = "mocks: {t: [{times: 1, error: {code: E}}, {output: again}]}";
    shows(body, &format!("{once}, redrive: [{{at: 1m}}], expect: {{status: completed, output: again}}"));
    let resolved = "redrive: [{at: 1m, to: x, steps: [x], action: resolve, output: by hand}]";
    shows(body, &format!("{once}, {resolved}, expect: {{status: completed, output: by hand, calls: {{t: 1}}}}"));
    shows(
        body,
        &format!("{once}, redrive: [{{at: 1m, steps: [x], action: fail}}], expect: {{status: failed, error: E}}"),
    );
    let refused = "redrive: [{at: 1m, steps: [nothing], refused: NOT_REDRIVABLE}]";
    shows(body, &format!("{once}, {refused}, expect: {{status: running}}"));
}

#[test]
fn a_signal_may_have_a_dedup_id_and_every_answer_may_be_expected() {
    let first = "{at: 1ms, name: s, dedup_id: d, answer: {run: 1, seq: 5}}";
    let repeat = "{at: 2ms, name: s, dedup_id: d, answer: {run: 1, seq: 5}}";
    let other = "{at: 3ms, name: s, dedup_id: d, payload: {n: 1}, refused: DEDUP_CONFLICT}";
    let lines = "count: {SignalReceived: 1}";
    holds(&format!("signals: [{first}, {repeat}, {other}], expect: {{status: completed, {lines}}}"));
    let refused = "signals: [{at: 1m, name: s, refused: EXECUTION_FINISHED}, \
                   {at: 1m, name: z, refused: UNKNOWN_SIGNAL}], \
                   cancel: {at: 1m, refused: EXECUTION_FINISHED}, pause: {at: 1m, refused: EXECUTION_FINISHED}, \
                   resume: {at: 1m, to: z, refused: NOT_FOUND}, redrive: [{at: 1m, refused: NOT_REDRIVABLE}]";
    holds(&format!("{refused}, expect: {{status: completed}}"));
    holds("starts: [{id: x, at: 0}, {id: x, at: 1ms, refused: EXECUTION_EXISTS}], expect: {status: completed}");
    holds("cancel: {at: 1ms, answer: null}, expect: {status: cancelled}");
    tells("signals: [{at: 1ms, name: s, answer: {run: 2, seq: 5}}], expect: {status: completed}", "expected accepted");
    tells("signals: [{at: 1ms, name: s, refused: OVERLOADED}], expect: {status: completed}", "refused OVERLOADED");
}

#[test]
fn there_are_further_expectations() {
    let body = "name: a\nversion: 1.0.0\nsteps: [{id: x, workflow: {name: c, version: 1.0.0}, input: {n: 2}}]\n---\n\
                name: c\nversion: 1.0.0\ntasks: {t: {version: 1.0.0}}\nsteps:\n  \
                - {id: y, when: input.n > 0, task: t, input: {n: \"${input.n}\"}}\n  \
                - {id: z, after: [y], when: input.n > 0, continue_as_new: {input: {n: \"${input.n - 1}\"}}}\n\
                result: done\n";
    let told = |expect: &str| differences(body, &format!("expect: {{status: completed, {expect}}}"));
    assert_eq!(told("of: x.x, output: done, runs: 3, of_lines: x.x, excludes: [StepScheduled x]"), "");
    assert_eq!(
        told("inputs: {t: [{n: 2}, {n: 1}]}, count: {StepScheduled y: 2, StepScheduled: 3}, not_before: 20ms"),
        ""
    );
    assert_eq!(
        told("events_like: [{type: StepScheduled, step: x, attempt: 1}, {type: StepSucceeded, output: done}]"),
        ""
    );
    assert_eq!(told("first_batches: [3]"), "");
    assert!(told("of: y").contains("an execution y"));
    assert!(told("of_lines: x, includes: [StepScheduled y]").contains("no such line"));
    assert!(told("of: x.x, runs: 2").contains("runs: expected 2, came 3"));
    assert!(told("inputs: {t: [{n: 2}]}").contains("inputs of t: expected"));
    assert!(told("count: {StepScheduled y: 3}").contains("expected 3, came 2"));
    assert!(told("not_before: 1h").contains("not_before: expected"));
    assert!(told("events_like: [{type: StepSucceeded}, {type: StepScheduled}]").contains("events_like: expected"));
    assert!(told("first_batches: [2, 1]").contains("first_batches: expected [2, 1], came [3]"));
}
