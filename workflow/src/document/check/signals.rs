//! Signals that are awaited or handled are declared, and not both at once (L7, L9).

use super::Report;
use crate::document::marked::{Marked, Tree, join};
use crate::document::outline::Outline;

pub(super) fn check(outline: &Outline<'_>, report: &mut Report) {
    let declared: Vec<&str> = outline
        .document
        .get("signals")
        .map_or(&[][..], Marked::entries)
        .iter()
        .map(|entry| entry.key.as_str())
        .collect();
    let handlers = outline.document.get("handlers").and_then(|handlers| handlers.get("event"));
    let handled: Vec<&str> = handlers.map_or(&[][..], Marked::entries).iter().map(|entry| entry.key.as_str()).collect();
    for entry in handlers.map_or(&[][..], Marked::entries) {
        if !declared.contains(&entry.key.as_str()) {
            let message = format!("the signal `{}` is not declared in `signals`", entry.key);
            let path = join("/handlers/event", &entry.key);
            report.misnamed(entry.key_place, &path, message, &entry.key, declared.iter().copied());
        }
    }
    for step in &outline.steps {
        let Some(node) = step.node.get("await").and_then(|wait| wait.get("signal")) else { continue };
        let path = join(&join(&step.path, "await"), "signal");
        match &node.tree {
            Tree::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    awaited(item, &join(&path, index), &declared, &handled, report);
                }
            }
            _ => awaited(node, &path, &declared, &handled, report),
        }
    }
}

fn awaited(node: &Marked, path: &str, declared: &[&str], handled: &[&str], report: &mut Report) {
    let Some(name) = node.text() else { return };
    if !declared.contains(&name) {
        let message = format!("the signal `{name}` is not declared in `signals`");
        report.misnamed(node.place, path, message, name, declared.iter().copied());
    } else if handled.contains(&name) {
        report.fault(node.place, path, format!("the signal `{name}` has a handler and may not be awaited too"));
    }
}
