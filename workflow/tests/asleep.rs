//! Executions sleep as rows; a wake-up costs what it touches, not what the execution has become.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;
use std::sync::Arc;

use workflow::command::{Complete, OfferTaken, Run, SendSignal, Start, TimerDue};
use workflow::definition::Definition;
use workflow::document::{self, Format};
use workflow::state::{ReadRows, RowError, RowKind};
use workflow::value::Payload;

mod shelf;
use shelf::Shelf;

fn definition(document: &str) -> Arc<Definition> {
    Arc::new(document::compile(document, Format::Yaml).unwrap().remove(0).definition)
}

fn started(definition: &Arc<Definition>, input: &str, shelf: &Shelf) {
    let mut run = Run::new(Arc::clone(definition), "x");
    let (_, mut batch) = run.handle(0, Start::with_input(Payload::parse(input).unwrap())).unwrap();
    while batch.unfinished {
        batch = run.proceed(0);
    }
    shelf.store(run.take_changes());
}

fn woken(definition: &Arc<Definition>, shelf: &Arc<Shelf>) -> Run {
    let rows: Arc<dyn ReadRows> = shelf.clone();
    Run::asleep(Arc::clone(definition), "x", &rows, false).unwrap().unwrap()
}

/// Rows read and written to take one result of one element among `n`.
fn cost_of_one_result(n: usize) -> (u64, usize) {
    let definition = definition(
        r#"
name: many
version: 1.0.0
input: {type: object, properties: {n: {type: integer}}}
tasks: {m.do: {version: 1.0.0}}
steps:
  - {id: all, for: {each: "range(input.n)", concurrency: 10000}, task: m.do, input: {i: "${item}", n: "${input.n}"}}
  - {id: after, after: [all], task: m.do}
"#,
    );
    let shelf = Arc::new(Shelf::default());
    started(&definition, &format!("{{\"n\": {n}}}"), &shelf);
    shelf.take_reads();
    let mut run = woken(&definition, &shelf);
    let offer = OfferTaken { unit: "all[7]", worker_id: "w", worker_session: "s", nonce: [1; 8] };
    let (token, _) = run.handle(1, offer).unwrap();
    shelf.store(run.take_changes());
    let mut run = woken(&definition, &shelf);
    run.handle(2, Complete { token: &token, output: Payload::null() }).unwrap();
    let written = run.take_changes();
    assert!(written.iter().any(|change| change.kind == RowKind::Unit && change.key == b"all[7]"));
    (shelf.take_reads(), written.len())
}

#[test]
fn one_result_of_many_reads_and_writes_a_bounded_number_of_rows() {
    let (few, many) = (cost_of_one_result(50), cost_of_one_result(9_000));
    assert_eq!(few, many, "rows read and written do not grow with the fan-out");
    assert!(few.0 < 60 && few.1 < 10, "{few:?}");
}

/// Rows read and written in turn `n`; each turn is woken from what the one before left.
fn cost_of_turn(
    n: u32,
    definition: &Arc<Definition>,
    shelf: &Arc<Shelf>,
    turn: impl Fn(&mut Run, u32),
) -> (u64, usize) {
    for number in 1..n {
        let mut run = woken(definition, shelf);
        turn(&mut run, number);
        shelf.store(run.take_changes());
    }
    shelf.take_reads();
    let mut run = woken(definition, shelf);
    turn(&mut run, n);
    let written = run.take_changes();
    (shelf.take_reads(), written.len())
}

/// A worker takes a task and does it.
fn done(run: &mut Run, unit: &str) {
    let offer = OfferTaken { unit, worker_id: "w", worker_session: "s", nonce: [1; 8] };
    let (token, _) = run.handle(1, offer).unwrap();
    run.handle(2, Complete { token: &token, output: Payload::parse("7").unwrap() }).unwrap();
}

/// Rows read and written to end iteration `n` of a repeat and begin the next.
fn cost_of_one_iteration(n: u32) -> (u64, usize) {
    let definition = definition(
        r#"
name: again
version: 1.0.0
tasks: {m.do: {version: 1.0.0}}
steps: [{id: x, repeat: {until: "iteration == 200"}, task: m.do, input: {before: "${previous}"}}]
"#,
    );
    let shelf = Arc::new(Shelf::default());
    started(&definition, "{}", &shelf);
    cost_of_turn(n, &definition, &shelf, |run, number| done(run, &format!("x#{number}")))
}

#[test]
fn the_hundredth_iteration_costs_what_the_tenth_does() {
    let (tenth, hundredth) = (cost_of_one_iteration(10), cost_of_one_iteration(100));
    assert_eq!(tenth, hundredth, "old iterations lie there and nobody looks at them");
    assert!(tenth.0 < 60 && tenth.1 < 10, "{tenth:?}");
}

#[test]
fn a_sleeping_sleep_wakes_up_from_a_few_rows() {
    let definition = definition(
        r#"
name: nap
version: 1.0.0
steps: [{id: nap, sleep: 1h}, {id: then, after: [nap], compute: "6 * 7"}]
result: "${steps.then.output}"
"#,
    );
    let shelf = Arc::new(Shelf::default());
    started(&definition, "{}", &shelf);
    shelf.take_reads();
    let mut run = woken(&definition, &shelf);
    run.handle(3_600_000, TimerDue { timer: "nap" }).unwrap();
    assert_eq!(run.state().head.output.as_ref().unwrap().as_str(), "42");
    assert!(shelf.take_reads() < 30);
}

#[test]
fn a_damaged_or_newer_row_is_noticed_and_nothing_may_be_built_on_it() {
    let definition = definition("{name: n, version: 1.0.0, steps: [{id: nap, sleep: 1h}]}");
    for (damage, expected) in
        [(vec![9_u8], RowError::UnknownFormat(9)), (vec![], RowError::Damaged("it is empty".to_owned()))]
    {
        let shelf = Arc::new(Shelf::default());
        started(&definition, "{}", &shelf);
        let key = b"nap".to_vec();
        shelf.store(vec![workflow::state::RowChange { kind: RowKind::Timer, key, value: Some(damage.clone()) }]);
        let mut run = woken(&definition, &shelf);
        let _ = run.handle(3_600_000, TimerDue { timer: "nap" });
        assert_eq!(shelf.failure(), Some(expected.clone()));
        let head = workflow::state::RowChange { kind: RowKind::Head, key: Vec::new(), value: Some(damage) };
        shelf.store(vec![head]);
        let rows: Arc<dyn ReadRows> = shelf.clone();
        let refused = Run::asleep(Arc::clone(&definition), "x", &rows, false).unwrap_err();
        assert_eq!(refused, expected);
    }
}

/// Every kind of row that a run of this document leaves, byte by byte. A released row is never edited: a release that
/// changes a record writes another format and goes on reading this one. `UPDATE_GOLDEN=1` writes what is missing.
#[test]
fn rows_are_golden() {
    let definition = definition(
        r#"
name: golden
version: 1.0.0
timeout: 1d
tasks: {t.a: {version: 1.0.0}}
steps:
  - id: all
    for: {each: "[1, 2]", max_failures: 1}
    task: t.a
    input: {i: "${item}"}
    timeout: 1m
    compensate: {task: t.a}
  - {id: nap, sleep: 1h}
  - {id: made, compute: "{'a': 1.5}"}
"#,
    );
    let shelf = Arc::new(Shelf::default());
    started(&definition, "{}", &shelf);
    let mut run = woken(&definition, &shelf);
    let offer = OfferTaken { unit: "all[0]", worker_id: "w", worker_session: "s", nonce: [1; 8] };
    let (token, _) = run.handle(1, offer).unwrap();
    run.handle(2, Complete { token: &token, output: Payload::parse("[1.10]").unwrap() }).unwrap();
    run.handle(3, workflow::command::Cancel { reason: "enough".into(), force: false }).unwrap();
    shelf.store(run.take_changes());

    let lines: Vec<String> = shelf
        .rows()
        .iter()
        .map(|((kind, key), value)| {
            let hex: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{kind:?} {} {hex}", String::from_utf8_lossy(key).escape_debug())
        })
        .collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/rows.txt");
    if !path.exists() && std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, lines.join("\n") + "\n").unwrap();
    }
    let golden = std::fs::read_to_string(&path).expect("UPDATE_GOLDEN=1 writes the file when it is missing");
    assert_eq!(lines.join("\n") + "\n", golden);
}

/// An execution with five events an element behind it sleeps and takes a signal: events, rows read and written. The
/// bench `fan_out` asks the same of nearly a million events.
fn cost_after(elements: u32) -> (u64, u64, usize) {
    let definition = definition(
        r#"
name: long
version: 1.0.0
input: {type: object, properties: {n: {type: integer}}}
signals: {go: {}}
steps:
  - id: a
    for: {each: "range(input.n)"}
    steps: [{id: a1, compute: "1"}, {id: a2, compute: "2"}, {id: a3, compute: "3"}]
  - {id: wait, after: [a], await: {signal: go}}
  - {id: nap, after: [wait], sleep: 1h}
"#,
    );
    let shelf = Arc::new(Shelf::default());
    started(&definition, &format!("{{\"n\": {elements}}}"), &shelf);
    shelf.take_reads();
    let mut run = woken(&definition, &shelf);
    let events = run.state().head.seq;
    run.handle(1, SendSignal { name: "go".to_owned(), payload: Payload::null(), dedup_id: None }).unwrap();
    let written = run.take_changes().len();
    (events, shelf.take_reads(), written)
}

#[test]
fn waking_up_after_a_hundred_thousand_events_reads_what_it_does_after_a_few() {
    let (few, many) = (cost_after(10), cost_after(20_000));
    assert_eq!((few.1, few.2), (many.1, many.2));
    assert!(many.0 > 100_000 && many.1 < 40 && many.2 < 10, "{many:?}");
}

/// Rows read and written by the signal `n` of an execution that takes one after another, `behind` of them too late to
/// be taken at once.
fn cost_of_one_signal(n: u32, behind: u32) -> (u64, usize) {
    let definition = definition(
        r#"
name: entity
version: 1.0.0
signals: {go: {}}
tasks: {m.do: {version: 1.0.0}}
steps:
  - id: turn
    repeat: {until: "false", max: 10000}
    steps: [{id: got, await: {signal: go}}, {id: act, after: [got], task: m.do}]
"#,
    );
    let shelf = Arc::new(Shelf::default());
    started(&definition, "{}", &shelf);
    let signal = || SendSignal { name: "go".to_owned(), payload: Payload::parse("7").unwrap(), dedup_id: None };
    let mut run = woken(&definition, &shelf);
    for _ in 0..behind {
        run.handle(1, signal()).unwrap();
    }
    shelf.store(run.take_changes());
    cost_of_turn(n, &definition, &shelf, |run, turn| {
        run.handle(1, signal()).unwrap();
        done(run, &format!("turn#{turn}.act"));
    })
}

#[test]
fn a_signal_costs_the_same_however_many_came_before() {
    let (tenth, later) = (cost_of_one_signal(10, 0), cost_of_one_signal(300, 0));
    assert_eq!(tenth, later, "what was taken, and turns that are over, lie behind");
    assert!(tenth.0 < 80 && tenth.1 < 20, "{tenth:?}");
    // What still waits to be taken is read at a wake-up, once.
    let (tenth_behind, later_behind) = (cost_of_one_signal(10, 100), cost_of_one_signal(300, 100));
    assert_eq!(tenth_behind, later_behind);
    assert!(tenth_behind.0 <= tenth.0 + 110, "{tenth_behind:?}");
}

/// Rows read and written by signal `n` of an execution that answers each with a handler.
fn cost_of_one_handler(n: u32) -> (u64, usize) {
    let definition = definition(
        r#"
name: entity
version: 1.0.0
signals: {bell: {}, go: {}}
steps: [{id: wait, await: {signal: go}}]
handlers: {event: {bell: [{id: note, compute: "event"}, {id: nap, after: [note], sleep: 1s}]}}
"#,
    );
    let shelf = Arc::new(Shelf::default());
    started(&definition, "{}", &shelf);
    for turn in 1..=n {
        shelf.take_reads();
        let mut run = woken(&definition, &shelf);
        let now_ms = u64::from(turn) * 1_000;
        let signal = SendSignal { name: "bell".to_owned(), payload: Payload::null(), dedup_id: None };
        let (accepted, _) = run.handle(now_ms, signal).unwrap();
        let timer = format!("on:event:bell@{}.nap", accepted.seq);
        shelf.store(run.take_changes());
        let mut run = woken(&definition, &shelf);
        run.handle(now_ms + 1_000, TimerDue { timer: &timer }).unwrap();
        let written = run.take_changes();
        if turn == n {
            return (shelf.take_reads(), written.len());
        }
        shelf.store(written);
    }
    (0, 0)
}

#[test]
fn a_handler_costs_the_same_however_many_ran_before() {
    let (tenth, later) = (cost_of_one_handler(10), cost_of_one_handler(300));
    assert_eq!(tenth, later);
    assert!(tenth.0 < 80 && tenth.1 < 20, "{tenth:?}");
}
