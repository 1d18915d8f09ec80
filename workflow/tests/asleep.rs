//! Executions sleep as rows; a wake-up costs what it touches, not what the execution has become.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;
use std::sync::Arc;

use workflow::command::{Complete, OfferTaken, Run, Start, TimerDue};
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
    for number in 1..=n {
        shelf.take_reads();
        let mut run = woken(&definition, &shelf);
        let unit = format!("x#{number}");
        let offer = OfferTaken { unit: &unit, worker_id: "w", worker_session: "s", nonce: [1; 8] };
        let (token, _) = run.handle(1, offer).unwrap();
        run.handle(2, Complete { token: &token, output: Payload::parse("7").unwrap() }).unwrap();
        let written = run.take_changes();
        if number == n {
            return (shelf.take_reads(), written.len());
        }
        shelf.store(written);
    }
    (0, 0)
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
