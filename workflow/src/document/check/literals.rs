//! Texts that look as if they were meant to be evaluated, and are sent as they stand.

use super::Report;
use crate::document::marked::{Marked, Tree};
use crate::document::outline::{Outline, Sight};
use crate::expression::Expression;

/// Warns of a text without `${` that stands where `${…}` would be evaluated. `block` is the one in whose sight it is.
pub(super) fn check(outline: &Outline<'_>, block: Option<usize>, node: &Marked, path: &str, report: &mut Report) {
    let Some(text) = node.text() else { return };
    if text.contains("{{") || text.contains("$(") {
        report.warn(node.place, path, "this is sent as text; what is to be evaluated is written \"${…}\"".to_owned());
    } else if names_something(outline, block, text) && Expression::compile(text).is_ok() {
        report.warn(node.place, path, format!("this is sent as text; write \"${{{text}}}\""));
    }
}

/// Whether a text begins with a step in sight or a declared property of `input`.
fn names_something(outline: &Outline<'_>, block: Option<usize>, text: &str) -> bool {
    let name = |rest: &str| {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        rest[..end].to_owned()
    };
    if let Some(rest) = text.strip_prefix("steps.") {
        let id = name(rest);
        return rest[id.len()..].starts_with('.')
            && block.is_some_and(|block| matches!(outline.seen_from(block, &id), Sight::Visible(_)));
    }
    let Some(property) = text.strip_prefix("input.").map(name) else { return false };
    let declared = outline.document.get("input").and_then(|schema| schema.get("properties"));
    declared.is_some_and(|properties| properties.get(&property).is_some())
}

/// Fixed durations below a second that are written as bare numbers: ms are rarely meant. A normal form says ms.
pub(super) fn duration(node: &Marked, path: &str, report: &mut Report) {
    if let Tree::Integer(ms @ 1..1_000) = node.tree {
        report.warn(node.place, path, format!("{ms} means {ms} ms; write {ms}s or {ms}ms"));
    }
}
