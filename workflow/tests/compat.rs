//! Histories that releases have left, decided again: at each place this version decides exactly the event that stands
//! there. An execution that began under an old version goes on under a new one (L16).

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use workflow::definition::Definition;
use workflow::document::{self, Format};
use workflow::event::{Event, Recorded};

mod history;

fn files(directory: &Path, ending: &str) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == ending));
    files.sort();
    files
}

fn definitions(directory: &Path) -> HashMap<String, Definition> {
    let mut definitions = HashMap::new();
    for path in files(directory, "yaml") {
        let source = fs::read_to_string(&path).unwrap();
        for compiled in document::compile(&source, Format::Yaml).expect("a document of an old version is still one") {
            definitions.insert(compiled.definition.name.to_string(), compiled.definition);
        }
    }
    definitions
}

#[test]
fn histories_of_old_versions_are_decided_the_same() {
    let compat = Path::new(env!("CARGO_MANIFEST_DIR")).join("../compat");
    let mut events = 0;
    for version in fs::read_dir(compat).unwrap() {
        let directory = version.unwrap().path().join("histories");
        let definitions = definitions(&directory);
        for path in files(&directory, "jsonl") {
            let place = path.display().to_string();
            let text = fs::read_to_string(&path).unwrap();
            let history: Vec<_> = text.lines().map(|line| Recorded::from_json(line).unwrap()).collect();
            for (line, recorded) in text.lines().zip(&history) {
                assert_eq!(recorded.to_json(), line, "{place}");
            }
            let Some(Event::WorkflowCreated(created)) = history.first().map(|first| &first.event) else {
                panic!("{place} begins with something else");
            };
            let definition = &definitions[&*created.workflow];
            let (id, _) = path.file_stem().unwrap().to_str().unwrap().rsplit_once('.').unwrap();
            let replayed = history::check(definition, id, &history, &place);
            assert!(replayed.decided > 0, "{place}");
            events += replayed.events;
        }
    }
    assert!(events > 150, "{events} events are too few to be a test");
}
