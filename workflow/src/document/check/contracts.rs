//! JSON Schemas in the document: they compile, and fetch nothing.

use super::Report;
use crate::contract::Contract;
use crate::document::marked::{Marked, Tree, join};

pub(super) fn check(document: &Marked, report: &mut Report) {
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

fn schema(node: Option<&Marked>, path: &str, report: &mut Report) {
    let Some(node) = node.filter(|node| matches!(node.tree, Tree::Map(_) | Tree::Boolean(_))) else { return };
    let Err(faults) = Contract::compile(&node.to_json()) else { return };
    for fault in faults {
        let place = node.place_of(&fault.pointer);
        report.fault(place, format!("{path}{}", fault.pointer), fault.message);
    }
}
