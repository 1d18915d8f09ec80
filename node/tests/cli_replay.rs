//! Histories decided again by the command line: those that releases have left, spoilt ones, and one of a node.

#![allow(clippy::expect_used)]

mod fake;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use fake::{Fake, ok, orbit, refusal, run};
use serde_json::{Value, json};
use tempfile::TempDir;
use workflow::document::{self, Format};

/// A history that a release has left: its execution, its run, its lines, and the normal form of its workflow.
struct History {
    id: String,
    run: String,
    lines: Vec<String>,
    definition: String,
}

impl History {
    /// As `orbit history --output json` writes one.
    fn whole(&self) -> String {
        let Self { id, run, lines, definition } = self;
        let events = lines.join(",");
        format!(r#"{{"execution_id":"{id}","run":{run},"events":[{events}],"definition":{definition}}}"#)
    }

    /// The first event of a type, with its place.
    fn find(&mut self, kind: &str) -> (usize, &mut String) {
        let kind = format!(r#""type":"{kind}""#);
        let found = self.lines.iter_mut().enumerate().find(|(_, line)| line.contains(&kind));
        let (index, line) = found.expect(&kind);
        (index + 1, line)
    }
}

fn files(ending: &str) -> Vec<PathBuf> {
    let compat = Path::new(env!("CARGO_MANIFEST_DIR")).join("../compat");
    let mut files = Vec::new();
    for version in fs::read_dir(compat).expect("releases") {
        let directory = version.expect("a release").path().join("histories");
        files.extend(fs::read_dir(directory).expect("histories").map(|file| file.expect("a file").path()));
    }
    files.retain(|path| path.extension().is_some_and(|extension| extension == ending));
    files.sort();
    files
}

fn histories() -> Vec<History> {
    let mut definitions = HashMap::new();
    for path in files("yaml") {
        let source = fs::read_to_string(path).expect("a document");
        for compiled in document::compile(&source, Format::Yaml).expect("a document") {
            definitions.insert(compiled.definition.name.clone(), compiled.normal_form);
        }
    }
    let read = |path: &PathBuf| {
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a name");
        let (id, run) = name.rsplit_once('.').expect("an id and a run");
        let lines: Vec<String> = fs::read_to_string(path).expect("a history").lines().map(str::to_owned).collect();
        let created: Value = serde_json::from_str(&lines[0]).expect("an event");
        let definition = definitions[created["workflow"].as_str().expect("a name")].clone();
        History { id: id.to_owned(), run: run.to_owned(), lines, definition }
    };
    files("jsonl").iter().map(read).collect()
}

fn history(id: &str) -> History {
    histories().into_iter().find(|history| history.id == id).expect(id)
}

fn replay(place: &TempDir, text: &str, options: &[&str]) -> (String, String, i32) {
    let file = place.path().join("history.json");
    fs::write(&file, text).expect("a file");
    run(orbit(&["replay", "history.json"]).args(options).current_dir(place.path()))
}

#[test]
fn histories_that_releases_have_left_are_decided_the_same() {
    let place = tempfile::tempdir().expect("a directory");
    let histories = histories();
    assert!(histories.len() >= 13, "{} are too few to be a test", histories.len());
    for history in histories {
        let (out, err, code) = replay(&place, &history.whole(), &[]);
        let History { id, run, lines, .. } = &history;
        let said = format!("{id} run {run}: the same, {} event", lines.len());
        assert!(out.starts_with(&said) && code == 0 && err.is_empty(), "{out}{err}");
    }
}

#[test]
fn the_first_difference_is_reported_with_both_sides() {
    let place = tempfile::tempdir().expect("a directory");
    let mut history = history("order-done");
    let (seq, line) = history.find("StepScheduled");
    let good = line.clone();
    *line = line.replacen(r#""attempt":1"#, r#""attempt":7"#, 1);
    assert_ne!(*line, good);
    let (out, err, code) = replay(&place, &history.whole(), &[]);
    assert!(out.starts_with(&format!("order-done run 1: event {seq} is another\n  expected {{")), "{out}");
    assert!(out.contains(r#""attempt":1"#) && out.lines().nth(2).is_some_and(|line| line.contains(r#""attempt":7"#)));
    assert!(code == 1 && err.starts_with(&format!("error: DIFFERENT: event {seq} of order-done")), "{err}");
    let (out, _, code) = replay(&place, &history.whole(), &["--output", "json"]);
    let report: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, &report["same"], &report["seq"]), (1, &json!(false), &json!(seq)));
    assert_eq!((&report["expected"]["attempt"], &report["recorded"]["attempt"]), (&json!(1), &json!(7)));
    assert_eq!(report["expected"]["type"], "StepScheduled");
}

/// Laid out for a ticket, a history was reported as changed: payloads were compared byte for byte.
#[test]
fn a_history_that_was_laid_out_anew_is_the_same() {
    let place = tempfile::tempdir().expect("a directory");
    for history in histories() {
        let whole: Value = serde_json::from_str(&history.whole()).expect("JSON");
        let (out, err, code) = replay(&place, &serde_json::to_string_pretty(&whole).expect("JSON"), &[]);
        assert!(code == 0 && out.contains(": the same, "), "{}: {out}{err}", history.id);
    }
}

#[test]
fn what_is_missing_or_comes_from_nowhere_is_a_difference() {
    let place = tempfile::tempdir().expect("a directory");
    let mut cut = history("order-done");
    cut.lines.pop();
    let (out, _, code) = replay(&place, &cut.whole(), &[]);
    assert!(code == 1 && out.ends_with("  recorded nothing: the history ends before\n"), "{out}");
    assert!(out.contains(r#"expected {"type":"WorkflowCompleted""#), "{out}");
    let mut early = history("order-queued");
    let seq = early.lines.len() + 1;
    early.lines.push(format!(
        r#"{{"seq":{seq},"timestamp_ms":1,"type":"WorkflowCompleted","output":null,"unconsumed_signals":0}}"#
    ));
    let (out, _, code) = replay(&place, &early.whole(), &[]);
    assert!(code == 1 && out.contains("expected nothing: the rules wait for something from outside"), "{out}");
}

#[test]
fn what_is_no_whole_history_is_told_apart() {
    let place = tempfile::tempdir().expect("a directory");
    let refused = |history: &History, said: &str| {
        let (_, err, code) = replay(&place, &history.whole(), &[]);
        assert!(code == 1 && err.starts_with("error: NOT_REPLAYED: ") && err.contains(said), "{err}");
    };
    let mut gap = history("order-done");
    gap.lines.remove(4);
    refused(&gap, "event 6 stands where event 5 belongs");
    let mut late = history("order-done");
    late.lines.remove(0);
    refused(&late, "does not begin with WorkflowCreated");
    let mut newer = history("order-done");
    newer.lines[0] = newer.lines[0].replace(r#""rules":1"#, r#""rules":2"#);
    refused(&newer, "began under rules 2");
    let mut other = history("order-done");
    other.definition = history("nap-due").definition;
    refused(&other, "is of the definition sha256:");
    for text in ["", "{}", "[1]", r#"{"execution_id":"a","run":1,"events":[{"type":"Fly"}],"definition":{}}"#] {
        let (_, err, code) = replay(&place, text, &[]);
        assert!(code == 2 && err.starts_with("error: NO_HISTORY: history.json holds no history"), "{text}: {err}");
    }
    let (_, err, code) = replay(&place, &history("order-done").whole(), &["--run", "2"]);
    assert!(code == 2 && err.contains("holds run 1, not run 2"), "{err}");
    assert_eq!(run(&mut orbit(&["replay", "no/such.json"])).2, 2);
}

#[test]
fn a_node_is_asked_for_all_pages_and_the_definition_of_the_run() {
    let history = history("order-done");
    let (first, second) = (history.lines[..3].join(","), history.lines[3..].join(","));
    let definition = history.definition.clone();
    let server = Fake::new(move |seen| match seen.path.as_str() {
        "/v1/executions/order-done/history?run=1&from=1" => {
            ok(&format!(r#"{{"execution_id":"order-done","run":1,"events":[{first}],"next":4}}"#))
        }
        "/v1/executions/order-done/history?run=1&from=4" => {
            ok(&format!(r#"{{"execution_id":"order-done","run":1,"events":[{second}]}}"#))
        }
        "/v1/executions/order-done?run=1" => {
            let state = r#"{"execution_id":"order-done","run":1,"workflow":"order","version":"1.0.0""#;
            ok(&format!(r#"{state},"status":"COMPLETED","created_at_ms":0,"units":{{}}}}"#))
        }
        "/v1/workflows/order/1.0.0" => ok(&definition),
        _ => refusal(404, "NOT_FOUND", "there is no such execution"),
    });
    let (out, err, code) = server.orbit(&["replay", "order-done", "--run", "1"]);
    assert!(out.starts_with("order-done run 1: the same, ") && code == 0, "{out}{err}");
    let (_, err, code) = server.orbit(&["replay", "order-gone"]);
    assert_eq!((err.as_str(), code), ("error: NOT_FOUND: there is no such execution\n", 1));
}
