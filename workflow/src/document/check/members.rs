//! Members that an expression reads and that are not there: of steps (a fault), of `input`, of the output of a block
//! that gives none, and statuses that no step can have (warnings: `has(input.x)` and the like may be meant).

use super::Report;
use super::uses::place_inside;
use crate::document::fault::{Fault, nearest};
use crate::document::marked::{Marked, Tree};
use crate::document::outline::{Kind, Outline, Sight};
use crate::expression::References;

/// Members of a step (L2).
const STEP_MEMBERS: [&str; 7] = ["status", "output", "error", "started_at", "finished_at", "iteration", "units"];

/// Members of an element of `units`.
const UNIT_MEMBERS: [&str; 4] = ["index", "status", "output", "error"];

/// Every status there is (L2).
const STATUSES: [&str; 7] = ["pending", "running", "suspended", "succeeded", "failed", "skipped", "cancelled"];

/// Keywords by which a schema says more about its object than the properties it lists.
const SAYS_MORE: [&str; 12] = [
    "$ref",
    "$dynamicRef",
    "allOf",
    "anyOf",
    "oneOf",
    "if",
    "then",
    "else",
    "not",
    "dependentSchemas",
    "patternProperties",
    "unevaluatedProperties",
];

/// The properties of `input`, when there can be no others (L1).
pub(super) fn declared_input(document: &Marked) -> Option<Vec<&str>> {
    let schema = document.get("input")?;
    let open = schema.get("additionalProperties").is_some_and(|more| more.tree != Tree::Boolean(false));
    if open || SAYS_MORE.iter().any(|keyword| schema.get(keyword).is_some()) {
        return None;
    }
    let declared: Vec<&str> = schema.get("properties")?.entries().iter().map(|entry| entry.key.as_str()).collect();
    (!declared.is_empty()).then_some(declared)
}

/// An expression that begins `start` characters into the text of `node`, and from where it looks.
pub(super) struct Written<'c> {
    pub(super) names: &'c References,
    pub(super) node: &'c Marked,
    pub(super) start: usize,
    pub(super) path: &'c str,
    /// The block in whose sight it stands.
    pub(super) block: Option<usize>,
}

pub(super) fn check(outline: &Outline<'_>, input: Option<&[&str]>, written: &Written<'_>, report: &mut Report) {
    let Written { names, node, start, path, block } = *written;
    let place = |offset: &usize| place_inside(node, start + offset);
    for ((_, member), offset) in &names.step_members {
        if !STEP_MEMBERS.contains(&member.as_str()) {
            let message = format!("a step has no `{member}`: it has {}", STEP_MEMBERS.join(", "));
            report.faults.push(Fault::new(place(offset), path, message).suggest(likely(member, &STEP_MEMBERS)));
        }
    }
    for (member, offset) in &names.unit_members {
        if !UNIT_MEMBERS.contains(&member.as_str()) {
            let message = format!("an element of `units` has no `{member}`: it has {}", UNIT_MEMBERS.join(", "));
            report.faults.push(Fault::new(place(offset), path, message).suggest(likely(member, &UNIT_MEMBERS)));
        }
    }
    for (member, offset) in &names.input_members {
        let Some(declared) = input.filter(|declared| !declared.contains(&member.as_str())) else { continue };
        let message = format!("`input` declares no `{member}`, so this reads null");
        report.warn(place(offset), path, meant(message, member, declared));
    }
    for (id, offset) in &names.output_members {
        let Some(Sight::Visible(target)) = block.map(|block| outline.seen_from(block, id)) else { continue };
        let target = &outline.steps[target];
        if target.kind == Some(Kind::Steps) && target.node.get("result").is_none() {
            let message = format!("the block `{id}` has no `result`, so its output is null: give it one");
            report.warn(place(offset), path, message);
        }
    }
    for (status, offset) in &names.statuses {
        if !STATUSES.contains(&status.as_str()) {
            let message = format!("no step ever has the status `{status}`; there are {}", STATUSES.join(", "));
            report.warn(place(offset), path, meant(message, status, &STATUSES));
        }
    }
}

/// The member that is meant; other languages' words for it come to mind as easily as a slip of the pen.
fn likely(member: &str, known: &[&'static str]) -> Option<&'static str> {
    match member {
        "result" | "results" | "value" | "data" => Some("output"),
        "state" => Some("status"),
        _ => nearest(member, known.iter().copied()),
    }
}

fn meant(message: String, written: &str, known: &[&str]) -> String {
    match nearest(written, known.iter().copied()) {
        Some(name) => format!("{message} (did you mean `{name}`?)"),
        None => message,
    }
}
