//! JSON Schemas in the document: they compile, and fetch nothing.

use serde_json::Value as Json;

use super::Report;
use super::schemas::{self, TYPES};
use crate::contract::{Contract, PATTERNS_MAX};
use crate::document::marked::{Marked, Tree, join};

pub(super) fn check(document: &Marked, report: &mut Report) {
    let mut patterns = 0;
    let mut schema = |node: Option<&Marked>, path: &str, report: &mut Report| {
        let Some(node) = node.filter(|node| matches!(node.tree, Tree::Map(_) | Tree::Boolean(_))) else { return };
        let json = node.to_json();
        let before = patterns;
        patterns += Contract::patterns(&json);
        if patterns <= PATTERNS_MAX {
            check_one(node, &json, path, report);
        } else if before <= PATTERNS_MAX {
            let message = format!("too many patterns: the schemas of a document have at most {PATTERNS_MAX} in all");
            report.fault(node.place, path, message);
        }
    };
    for field in ["input", "output"] {
        schema(document.get(field), &join("", field), report);
    }
    for entry in document.get("signals").into_iter().flat_map(Marked::entries) {
        schema(Some(&entry.value), &join("/signals", &entry.key), report);
    }
    for entry in document.get("tasks").into_iter().flat_map(Marked::entries) {
        let path = join("/tasks", &entry.key);
        for field in ["input", "output"] {
            schema(entry.value.get(field), &join(&path, field), report);
        }
    }
}

fn check_one(node: &Marked, json: &Json, path: &str, report: &mut Report) {
    schemas::check(node, path, report);
    let Err(faults) = Contract::compile(json) else { return };
    for fault in faults {
        let place = node.place_of(&fault.pointer);
        let path = format!("{path}{}", fault.pointer);
        match unknown_type(json, &fault.pointer) {
            Some(written) => {
                let message = format!("`{written}` is no type of JSON Schema: {}", TYPES.join(", "));
                report.misnamed(place, &path, message, written, TYPES);
            }
            None => report.fault(place, path, fault.message),
        }
    }
}

/// The text that stands as `type` at `pointer` and names none.
fn unknown_type<'a>(schema: &'a Json, pointer: &str) -> Option<&'a str> {
    let written = schema.pointer(pointer)?.as_str()?;
    (pointer.ends_with("/type") && !TYPES.contains(&written)).then_some(written)
}
