//! Signals, await, queries (L7).

use workflow::command::{Refusal, SendSignal};

use crate::help::{Play, json, shows};

const TWO: &str = "signals: {s: {type: object, properties: {n: {type: integer}}}, r: {type: object}}\n";

#[test]
fn a_wait_yields_the_payload_with_several_names_the_name_too() {
    for (wait, output) in [
        ("signal: s", "{n: 7}"),
        ("signal: [s, r]", "{signal: s, payload: {n: 7}}"),
        ("signal: s, until: 'count == 1'", "[{n: 7}]"),
        ("signal: [s, r], until: \"last.payload.n == 7 && last.signal == 's'\"", "[{signal: s, payload: {n: 7}}]"),
    ] {
        let steps = format!("{TWO}steps: [{{id: a, await: {{{wait}}}}}]\nresult: '${{steps.a.output}}'");
        let case = "signals: [{at: 1s, name: s, payload: {n: 7}}], expect: {status: completed, output: OUT}";
        shows(&steps, &case.replace("OUT", output));
    }
}

#[test]
fn where_leaves_other_signals_in_the_buffer() {
    let steps = format!(
        "{TWO}steps: [{{id: a, await: {{signal: s, where: 'payload.n > 1'}}}}, {{id: b, after: [a],
        await: {{signal: s}}}}]\n\
         result: ['${{steps.a.output.n}}', '${{steps.b.output.n}}']"
    );
    let mut play = Play::start(&steps);
    play.signal("s", r#"{"n": 1}"#).unwrap();
    assert_eq!(play.lines().last().unwrap(), "SignalReceived s");
    play.signal("s", r#"{"n": 2}"#).unwrap();
    assert_eq!(play.output(), "[2,1]");
}

#[test]
fn a_wait_opens_when_it_begins_and_takes_the_oldest_signal_first() {
    let steps = format!(
        "{TWO}steps: [{{id: t, task: t.a}}, {{id: a, after: [t], await: {{signal: [s,
        r]}}}}]\nresult: '${{steps.a.output.signal}}'"
    );
    let mut play = Play::start(&steps);
    play.signal("r", "{}").unwrap();
    play.signal("s", "{}").unwrap();
    let before = play.history.len();
    play.succeed("t", "1");
    let expected = ["StepOpened a", "SignalConsumed a signal_seq=4", "StepSucceeded a", "WorkflowCompleted"];
    assert_eq!(play.since(before + 2), expected);
    assert_eq!(play.output(), "\"r\"");
}

#[test]
fn of_several_waits_the_one_opened_first_gets_the_signal_then_document_order() {
    let steps = format!(
        "{TWO}steps: [{{id: t, task: t.a}}, {{id: late, after: [t], await: {{signal: s}}}}, \
         {{id: one, await: {{signal: s}}}}, {{id: two, await: {{signal: s}}}}]"
    );
    let mut play = Play::start(&steps);
    play.succeed("t", "1");
    let mut takers = Vec::new();
    for _ in 0..3 {
        play.signal("s", "{}").unwrap();
        takers.push(play.last_of("SignalConsumed")["step"].clone());
    }
    assert_eq!(takers, ["one", "two", "late"]);
}

#[test]
fn a_wait_that_times_out_fails_or_yields_what_is_there() {
    for (wait, expect) in [
        ("signal: s, timeout: 5s", "status: failed, error: AWAIT_TIMEOUT"),
        ("signal: r, timeout: 5s, on_timeout: continue", "status: completed, output: null"),
        ("signal: s, until: 'count == 2', timeout: 5s, on_timeout: continue", "status: completed, output: [{n: 7}]"),
    ] {
        let steps = format!("{TWO}steps: [{{id: a, await: {{{wait}}}}}]\nresult: '${{steps.a.output}}'");
        let signals = if wait.contains("until") { "signals: [{at: 1s, name: s, payload: {n: 7}}]," } else { "" };
        shows(&steps, &format!("{signals} expect: {{{expect}, ends_by: 5s, not_before: 5s}}"));
    }
}

#[test]
fn signals_are_validated_and_kept_in_order_across_waits() {
    let steps = format!(
        "{TWO}steps: [{{id: a, await: {{signal: s}}}}, {{id: b, after: [a], await: {{signal: s}}}}]\n\
         result: ['${{steps.a.output.n}}', '${{steps.b.output.n}}']"
    );
    let mut play = Play::start(&steps);
    let events = play.history.len();
    let refused = play.signal("s", r#"{"n": "text"}"#).unwrap_err();
    assert!(matches!(refused, Refusal::InvalidSignal(_)) && play.history.len() == events);
    play.tell(workflow::command::Pause).unwrap();
    play.signal("s", r#"{"n": 1}"#).unwrap();
    play.signal("s", r#"{"n": 2}"#).unwrap();
    play.tell(workflow::command::Resume).unwrap();
    assert_eq!(play.output(), "[1,2]");
}

#[test]
fn signals_that_nobody_took_are_counted_at_the_end() {
    let mut play = Play::start(&format!("{TWO}steps: [{{id: a, await: {{signal: s}}}}]"));
    play.signal("r", "{}").unwrap();
    play.signal("r", "{}").unwrap();
    play.signal("s", "{}").unwrap();
    assert_eq!(play.last_of("WorkflowCompleted")["unconsumed_signals"], 2);
}

#[test]
fn an_undeclared_signal_is_refused_before_anything_else_is_asked() {
    let mut play =
        Play::start(&format!("{TWO}steps: [{{id: a, task: t.a, compensate: {{task: t.undo, input: {{}}}}}}]"));
    assert_eq!(play.signal("no", "{}").unwrap_err().code(), "UNKNOWN_SIGNAL");
    play.hand_over("a");
    play.cancel(false).unwrap();
    assert_eq!(play.signal("s", "{}").unwrap_err().code(), "EXECUTION_FINISHED", "the root is closing");
    play.cancel(true).unwrap();
    assert_eq!(play.signal("s", "{}").unwrap_err().code(), "EXECUTION_FINISHED", "it is finished");
    assert_eq!(play.signal("no", "{}").unwrap_err().code(), "UNKNOWN_SIGNAL");
}

#[test]
fn a_root_that_closes_to_continue_as_new_takes_signals() {
    let steps = "
steps:
  - {id: open, task: t.a, compensate: {task: t.undo, input: {}}}
  - {id: nap, sleep: 1s}
  - {id: again, after: [nap], continue_as_new: {input: {}}}";
    let mut play = Play::start(&format!("{TWO}{steps}"));
    play.hand_over("open");
    play.fire("nap");
    assert!(play.lines().contains(&"StepClosing (workflow) continued".to_owned()));
    play.signal("s", "{}").unwrap();
}

#[test]
fn a_full_buffer_refuses_further_signals() {
    let mut play = Play::start(&format!("{TWO}steps: [{{id: a, task: t.a}}]"));
    let send =
        |play: &mut Play| play.tell(SendSignal { name: "s".to_owned(), payload: json("{}"), dedup_id: None }).map(drop);
    for _ in 0..10_000 {
        send(&mut play).unwrap();
    }
    assert_eq!(send(&mut play), Err(Refusal::SignalBufferFull));
}
