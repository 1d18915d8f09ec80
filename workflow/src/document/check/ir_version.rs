//! Which version of the normal form a document needs (L1).

use super::Report;
use crate::document::marked::{Marked, Tree};
use crate::document::outline::{Kind, Outline, StepNode};

/// Versions of the normal form, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::document) enum IrVersion {
    One,
    Two,
    Three,
}

impl IrVersion {
    pub(in crate::document) fn name(self) -> &'static str {
        match self {
            IrVersion::One => "orbit-ir/1",
            IrVersion::Two => "orbit-ir/2",
            IrVersion::Three => "orbit-ir/3",
        }
    }
}

const ALL: [IrVersion; 3] = [IrVersion::One, IrVersion::Two, IrVersion::Three];

/// The version that the document needs; one written lower is a fault.
pub(super) fn check(outline: &Outline<'_>, report: &mut Report) -> IrVersion {
    let needed = needed(outline);
    if let Some((node, text)) = outline.document.get("ir_version").and_then(|node| Some((node, node.text()?))) {
        match ALL.into_iter().find(|version| version.name() == text) {
            None => report.fault(node.place, "/ir_version", "orbit-ir/1, orbit-ir/2 or orbit-ir/3 expected"),
            Some(written) if written < needed => {
                let message = format!("what this document uses needs {}", needed.name());
                report.fault(node.place, "/ir_version", message);
            }
            Some(_) => {}
        }
    }
    needed
}

fn needed(outline: &Outline<'_>) -> IrVersion {
    let document = outline.document;
    let third = ["workflows", "done_when", "handlers"].iter().any(|field| document.get(field).is_some());
    if third || outline.steps.iter().any(needs_third) {
        return IrVersion::Three;
    }
    let second = ["signals", "queries"].iter().any(|field| document.get(field).is_some());
    let kinds = [Kind::Signal, Kind::Await, Kind::Compute];
    if second || outline.steps.iter().any(|step| step.kind.is_some_and(|kind| kinds.contains(&kind))) {
        return IrVersion::Two;
    }
    IrVersion::One
}

/// What L1, L4–L9 mark with ③.
fn needs_third(step: &StepNode<'_>) -> bool {
    let has = |field: &str| step.node.get(field).is_some();
    let within = |field: &str, inner: &str| step.node.get(field).is_some_and(|node| node.get(inner).is_some());
    let chosen = |node: Option<&Marked>| node.and_then(Marked::text).is_some_and(crate::expression::is_spliced);
    let plain = matches!(step.kind, Some(Kind::Task | Kind::Workflow));
    let undo = step.node.get("compensate");
    let always = undo.and_then(|undo| undo.get("always")).is_some_and(|flag| flag.tree == Tree::Boolean(true));
    matches!(step.kind, Some(Kind::Steps | Kind::Fail))
        || has("on_failure") && !super::super::normal_form::is_default_failure(step.node.get("on_failure"))
        || has("repeat")
        || has("deadline")
        || has("for") && !plain
        || has("compensate") && !plain
        || within("for", "max_failures")
        || within("for", "done_when")
        || within("await", "where")
        || within("await", "until")
        || always
        || chosen(step.node.get("task"))
        || chosen(step.node.get("workflow").and_then(|child| child.get("name")))
        || chosen(undo.and_then(|undo| undo.get("task")))
        || chosen(undo.and_then(|undo| undo.get("workflow")).and_then(|child| child.get("name")))
}
