//! Names: ids of steps are unique in the document, loop variables hide nothing of the language.

use super::{Report, scope};
use crate::document::marked::{Marked, join};
use crate::document::outline::Outline;
use crate::expression::is_reserved;

/// Words that CEL reads as something else even after `steps.`.
const NO_ID: [&str; 4] = ["in", "true", "false", "null"];

pub(super) fn check(outline: &Outline<'_>, report: &mut Report) {
    for (index, step) in outline.steps.iter().enumerate() {
        let Some(id) = step.node.get("id") else { continue };
        let first = outline.by_id.get(step.id).copied().unwrap_or(index);
        if first != index {
            let line = outline.steps[first].node.get("id").map_or(0, |id| id.place.line);
            let message = format!("the id `{}` is used twice; first in line {line}", step.id);
            report.fault(id.place, join(&step.path, "id"), message);
        }
        if NO_ID.contains(&step.id) {
            report.fault(id.place, join(&step.path, "id"), format!("`{}` is reserved", step.id));
        }
        let variable = step.node.get("for").and_then(|node| node.get("as"));
        if let Some((node, name)) = variable.and_then(|node| Some((node, node.text()?))) {
            let path = join(&join(&step.path, "for"), "as");
            if is_reserved(name) {
                report.fault(node.place, path, format!("`{name}` is reserved in expressions"));
            } else if scope::LANGUAGE_NAMES.contains(&name) {
                report.fault(node.place, path, format!("`{name}` means something in expressions already"));
            }
        }
    }
    for (field, what) in [("attributes", "attribute"), ("queries", "query"), ("signals", "signal")] {
        let count = outline.document.get(field).map_or(0, |node| Marked::entries(node).len());
        if count > NAMES_MAX {
            let place = outline.document.get(field).map_or(outline.document.place, |node| node.place);
            report.fault(place, join("", field), format!("more than {NAMES_MAX} names of the sort {what}"));
        }
    }
}

/// Attributes, queries or signals of one document.
const NAMES_MAX: usize = 1_000;
