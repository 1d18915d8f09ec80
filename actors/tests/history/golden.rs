//! The bytes of every event in every shape that it has. A released line is never edited: histories that were written
//! with it must be read for ever. `UPDATE_GOLDEN=1` adds lines that are missing and changes none.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use orbit_actors::history::{decode, encode};
use workflow::event::*;
use workflow::key::Key;

/// The number of the events in the golden file of their JSON, from where most shapes are.
const SEQ: Seq = 3;

fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// The shapes, each by a name of its own.
fn shapes() -> BTreeMap<String, Recorded> {
    let text = std::fs::read_to_string(in_repository("workflow/tests/golden/events.jsonl")).unwrap();
    let lines = text.lines().map(|line| line.split_once('\t').unwrap());
    let mut shapes: BTreeMap<_, _> =
        lines.map(|(name, json)| (name.to_owned(), Recorded::from_json(json).unwrap())).collect();
    for (name, event) in words() {
        let recorded = Recorded { seq: SEQ, timestamp_ms: 1_700_000_000_000, event };
        assert_eq!(shapes.insert(name.clone(), recorded), None, "{name} stands twice");
    }
    shapes
}

/// An event for each word.
fn words() -> Vec<(String, Event)> {
    let mut events: Vec<(String, Event)> = Vec::new();
    let step = || Key::from("a");
    let mut add = |about: &str, word: &str, event: Event| events.push((format!("word, {about}: {word}"), event));
    for &reason in SkipReason::ALL {
        add("skipped", reason.as_str(), StepSkipped { step: step(), reason }.into());
    }
    for &reason in CloseReason::ALL {
        add("closing", reason.as_str(), StepClosing { step: step(), reason, output: None, error: None }.into());
    }
    for &reason in UncertainReason::ALL {
        add("uncertain", reason.as_str(), StepAttemptUncertain { step: step(), attempt: 1, reason }.into());
    }
    for &outcome in ResultKind::ALL {
        add("stale", outcome.as_str(), StaleResultIgnored { step: step(), token: "AQ".into(), outcome }.into());
    }
    for &action in RedriveAction::ALL {
        add("redriven", action.as_str(), WorkflowRedriven { steps: vec![step()], action, output: None }.into());
    }
    for &compensation in Compensation::ALL {
        add("undone", compensation.as_str(), WorkflowCancelled { compensation, unconsumed_signals: 0 }.into());
    }
    events
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text.chars().map(|c| c.to_digit(16).unwrap() as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

#[test]
fn every_event_is_as_it_was_released() {
    let path = in_repository("actors/tests/golden/history.txt");
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let mut golden: BTreeMap<String, String> = BTreeMap::new();
    for line in text.lines() {
        let (before, bytes) = line.rsplit_once('\t').unwrap();
        assert_eq!(golden.insert(before.to_owned(), bytes.to_owned()), None, "{before} stands twice");
    }
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let shapes = shapes();
    for (name, recorded) in &shapes {
        let line = format!("{}\t{name}", recorded.event.name());
        let ours = hex(&encode(recorded));
        if update {
            golden.entry(line.clone()).or_insert_with(|| ours.clone());
        }
        let released = golden.get(&line).unwrap_or_else(|| panic!("{line} is new: UPDATE_GOLDEN=1 writes it down"));
        assert_eq!(&ours, released, "{line}");
        assert_eq!(&decode(recorded.seq, &unhex(released)).unwrap(), recorded, "{line}");
    }
    assert_eq!(golden.len(), shapes.len(), "a released shape is not written any more");
    let types: BTreeSet<_> = golden.keys().map(|line| line.split('\t').next().unwrap()).collect();
    assert_eq!(types, Event::TYPES.iter().copied().collect(), "not every type has a line");
    if update {
        let lines: String = golden.iter().map(|(line, bytes)| format!("{line}\t{bytes}\n")).collect();
        std::fs::write(&path, lines).unwrap();
    }
}

#[test]
fn every_event_with_a_golden_text_comes_back() {
    for (name, recorded) in shapes() {
        let read = decode(recorded.seq, &encode(&recorded)).unwrap();
        assert_eq!(read.to_json(), recorded.to_json(), "{name}");
    }
}
