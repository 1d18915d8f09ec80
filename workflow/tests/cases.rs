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
    let cases = case::parse(&std::fs::read_to_string(cases).unwrap()).unwrap_or_else(|faults| panic!("{cases:?}:\n{faults}"));
    let mut differences = Vec::new();
    for case in &cases {
        let report = case::run(case, &definitions, Checks::Engine);
        let name = document.file_name().unwrap().to_string_lossy();
        differences.extend(report.differences.iter().map(|difference| format!("{name}: {}: {difference}", report.name)));
        let again = case::run(case, &definitions, Checks::Expectations);
        assert_eq!(again.timeline, report.timeline, "{name}: {}: another time, another history", report.name);
    }
    (cases.len(), differences)
}

fn documents(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "yaml"));
    files.sort();
    files
}

/// Runs the cases of all documents of which `cases` knows the file.
fn run_all(dir: &Path, cases: impl Fn(&Path) -> PathBuf) -> (usize, usize) {
    let (mut count, mut with_cases, mut all) = (0, 0, Vec::new());
    for document in documents(dir) {
        let file = cases(&document);
        if file.exists() && file != document {
            let (cases, differences) = run(&document, &file);
            count += cases;
            with_cases += 1;
            all.extend(differences);
        }
    }
    println!("{count} cases of {with_cases} documents");
    assert!(all.is_empty(), "{} differences:\n{}", all.len(), all.join("\n"));
    (count, with_cases)
}

#[test]
fn every_kind_of_step_does_what_its_cases_say() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let dir = std::env::var_os("DOCS").map_or(tests.join("documents"), PathBuf::from);
    let ran = run_all(&dir, |document| tests.join("cases").join(document.file_name().unwrap()));
    assert_eq!(ran, (134, 47), "cases and documents");
}

#[test]
fn the_examples_do_what_their_cases_say() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/language");
    let ran = run_all(&dir, |document| document.with_extension("test.yaml"));
    assert_eq!(ran, (74, 25), "cases and documents");
}
