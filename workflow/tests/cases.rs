//! Documents of every kind that the language has, each with its cases: the engine must do what they say, and after
//! each command its history must add up to its state.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use workflow::case::{self, Checks};
use workflow::document::{self, Format};

/// The cases of one document and their differences.
fn run(document: &Path, cases: &Path) -> (usize, Vec<String>) {
    let source = std::fs::read_to_string(document).unwrap();
    let compiled = document::compile(&source, Format::Yaml).unwrap_or_else(|faults| panic!("{document:?}:\n{faults}"));
    let definitions: Vec<_> = compiled.into_iter().map(|compiled| Arc::new(compiled.definition)).collect();
    let text = std::fs::read_to_string(cases).unwrap();
    let cases = case::parse_for(&text, &definitions).unwrap_or_else(|faults| panic!("{cases:?}:\n{faults}"));
    let mut differences = Vec::new();
    for case in &cases {
        let report = case::run(case, &definitions, Checks::Engine);
        let name = document.file_name().unwrap().to_string_lossy();
        differences
            .extend(report.differences.iter().map(|difference| format!("{name}: {}: {difference}", report.name)));
        let again = case::run(case, &definitions, Checks::Expectations);
        assert_eq!(again.timeline, report.timeline, "{name}: {}: another time, another history", report.name);
    }
    (cases.len(), differences)
}

/// Runs the cases of every cases file in `dir`; the document of the same name lies in the first of `homes` that has it.
fn run_all(dir: &Path, homes: &[PathBuf]) -> (usize, usize) {
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.to_string_lossy().ends_with(".test.yaml"));
    files.sort();
    let (mut count, mut all) = (0, Vec::new());
    for file in &files {
        let name = file.file_name().unwrap().to_string_lossy().replace(".test.yaml", ".yaml");
        let document =
            homes.iter().map(|home| home.join(&name)).find(|document| document.exists()).expect("a document");
        let (cases, differences) = run(&document, file);
        count += cases;
        all.extend(differences);
    }
    println!("{count} cases of {} documents", files.len());
    assert!(all.is_empty(), "{} differences:\n{}", all.len(), all.join("\n"));
    (count, files.len())
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/language")
}

#[test]
fn the_first_workflow_does_what_its_page_says() {
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/first-workflow");
    let ran = run_all(&home, std::slice::from_ref(&home));
    assert_eq!(ran, (6, 1), "cases and documents");
}

#[test]
fn a_workflow_without_workers_does_what_its_cases_say() {
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/webhook");
    let ran = run_all(&home, std::slice::from_ref(&home));
    assert_eq!(ran, (5, 1), "cases and documents");
}

#[test]
fn every_kind_of_step_does_what_its_cases_say() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let ran = run_all(&tests.join("cases"), &[tests.join("documents"), examples()]);
    assert_eq!(ran, (58, 23), "cases and documents");
}

#[test]
fn the_examples_do_what_their_cases_say() {
    let ran = run_all(&examples(), &[examples()]);
    assert_eq!(ran, (76, 25), "cases and documents");
}
