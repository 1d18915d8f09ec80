//! What follows from one command may be cut into several batches; a process that is killed between two of them leaves
//! a history that another goes on with as if nothing had happened (L12).

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::Write;
use std::path::Path;
use std::process::Command as Process;
use std::sync::Arc;

use workflow::command::{BATCH_EVENTS_MAX, Batch, Run, Start};
use workflow::definition::Definition;
use workflow::document::{self, Format};
use workflow::event::Recorded;
use workflow::state::{Execution, Table};
use workflow::value::Payload;

const FAN_OUT: &str = r#"
name: many
version: 1.0.0
tasks: {m.do: {version: 1.0.0}}
steps:
  - {id: all, for: {each: "range(2500)", concurrency: 10000}, task: m.do, input: {i: "${item}"}}
"#;

/// Tells the child process where to write; without it the child's part of this test is nothing.
const FILE: &str = "ORBIT_CUT_BATCH_FILE";

fn definition() -> Arc<Definition> {
    Arc::new(document::compile(FAN_OUT, Format::Yaml).unwrap().remove(0).definition)
}

fn start(run: &mut Run) -> Batch {
    run.handle(1_000, Start::with_input(Payload::parse("{}").unwrap())).unwrap().1
}

/// Runs only in the child process: writes the first batch, syncs it, and is killed.
#[test]
fn child_writes_one_batch_and_is_killed() {
    let Some(file) = std::env::var_os(FILE) else { return };
    let batch = start(&mut Run::new(definition(), "x"));
    assert!(batch.unfinished, "2 500 elements do not fit one batch");
    let mut file = std::fs::File::create(file).unwrap();
    for recorded in &batch.events {
        writeln!(file, "{}", recorded.to_json()).unwrap();
    }
    file.sync_all().unwrap();
    let me = std::process::id().to_string();
    Process::new("kill").args(["-9", &me]).status().unwrap();
    unreachable!("kill -9 is final");
}

#[test]
fn a_killed_process_loses_no_decision_of_a_cut_batch() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("history.jsonl");
    let child = Process::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_writes_one_batch_and_is_killed"])
        .env(FILE, &file)
        .output()
        .unwrap();
    assert!(!child.status.success(), "the child was to be killed");

    let mut history = read(&file);
    assert_eq!(history.len(), BATCH_EVENTS_MAX, "exactly the first batch was written");
    let mut run = Run::stored(definition(), "x", Execution::fold(&history), Table::default(), true);
    go_on(&mut run, &mut history);

    let mut uninterrupted = Run::new(definition(), "x");
    let mut batch = start(&mut uninterrupted);
    let mut expected = std::mem::take(&mut batch.events);
    go_on(&mut uninterrupted, &mut expected);
    assert_eq!(history, expected);
    assert_eq!(run.state(), uninterrupted.state());
}

/// Later batches, each within its bound; together they come to the fixpoint.
fn go_on(run: &mut Run, history: &mut Vec<Recorded>) {
    loop {
        let mut batch = run.proceed(1_000);
        assert!(batch.events.len() <= BATCH_EVENTS_MAX);
        history.append(&mut batch.events);
        if !batch.unfinished {
            break;
        }
    }
    assert_eq!(history.len(), 2 + 1 + 2_500, "created, started, fan-out, and each element scheduled");
}

fn read(file: &Path) -> Vec<Recorded> {
    std::fs::read_to_string(file).unwrap().lines().map(|line| Recorded::from_json(line).unwrap()).collect()
}

#[test]
fn a_cut_history_is_decided_like_any_other() {
    let definition = definition();
    let mut run = Run::new(Arc::clone(&definition), "x");
    let mut batch = start(&mut run);
    let mut events = std::mem::take(&mut batch.events);
    events.truncate(300);
    // Not checked to its end: the end is no fixpoint. Every prefix is.
    let state = Execution::fold(&events[..200]);
    let next = workflow::decide::next_event(&definition, &state, "x", 1_000).unwrap();
    assert_eq!(next, events[200].event);
}
