//! Documents of every kind that the language has, each with its cases: the engine must do what they say, and after
//! each command its history must add up to its state.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::collections::BTreeSet;
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

/// The files of a folder of `examples/` whose names end so.
fn ending(folder: &Path, ending: &str) -> BTreeSet<PathBuf> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|file| file.to_string_lossy().ends_with(ending)).collect()
}

/// Runs the cases beside every document of a folder of `examples/`: how many there were, and of how many documents.
fn run_all(folder: &str) -> (usize, usize) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(folder);
    let beside = ending(&folder, ".test.yaml");
    let documents: BTreeSet<_> = ending(&folder, ".yaml").difference(&beside).cloned().collect();
    let expected: BTreeSet<_> = documents.iter().map(|document| document.with_extension("test.yaml")).collect();
    assert_eq!(beside, expected, "each document has its cases, and all cases have a document");
    let (mut count, mut all) = (0, Vec::new());
    for document in &documents {
        let (cases, differences) = run(document, &document.with_extension("test.yaml"));
        count += cases;
        all.extend(differences);
    }
    println!("{count} cases of {} documents", documents.len());
    assert!(all.is_empty(), "{} differences:\n{}", all.len(), all.join("\n"));
    (count, documents.len())
}

#[test]
fn the_first_workflow_does_what_its_page_says() {
    assert_eq!(run_all("first-workflow"), (6, 1), "cases and documents");
}

#[test]
fn a_workflow_without_workers_does_what_its_cases_say() {
    assert_eq!(run_all("webhook"), (5, 1), "cases and documents: none is lost");
}

#[test]
fn every_example_of_the_language_does_what_its_cases_say() {
    assert_eq!(run_all("language"), (134, 47), "cases and documents: none is lost");
}

#[test]
fn every_example_of_the_guide_does_what_its_cases_say() {
    assert_eq!(run_all("guide"), (97, 32), "cases and documents: none is lost");
}

#[test]
fn every_recipe_does_what_its_cases_say() {
    assert_eq!(run_all("recipes"), (59, 16), "cases and documents: none is lost");
}
