//! Exactly one kind for each step, and only the attributes that L1's table gives it.

use super::Report;
use crate::document::fault::Fault;
use crate::document::grammar::STEP;
use crate::document::marked::join;
use crate::document::outline::{Home, Kind, Outline, StepNode};

/// Fields that every step may have.
const ALWAYS: [&str; 4] = ["id", "when", "after", "depends_on"];

const AROUND_ALL: [&str; 7] = ["on_failure", "for", "repeat", "deadline", "on_deadline", "retry", "compensate"];
const AROUND_AWAIT: [&str; 5] = ["on_failure", "for", "repeat", "deadline", "on_deadline"];
const OF_TASK: [&str; 5] = ["input", "language", "timeout", "queue_timeout", "heartbeat_timeout"];

pub(super) fn check(outline: &Outline<'_>, report: &mut Report) {
    for step in &outline.steps {
        match Kind::written(step.node)[..] {
            [] => none(step, report),
            [kind] => attributes(step, kind, report),
            [first, second, ..] => {
                let message = format!("a step has one kind; this one has `{}` and `{}`", first.field(), second.field());
                report.fault(step.node.place, &step.path, message);
            }
        }
        let root = outline.blocks[step.block].home == Home::Root;
        if step.kind == Some(Kind::ContinueAsNew) && !root {
            let message = "`continue_as_new` stands among the steps of the workflow itself only";
            report.fault(step.node.place, &step.path, message);
        }
    }
}

fn none(step: &StepNode<'_>, report: &mut Report) {
    let kinds = Kind::ALL.map(Kind::field);
    let message = format!("a step needs one of {}", kinds.join(", "));
    report.fault(step.node.place, &step.path, message);
}

fn attributes(step: &StepNode<'_>, kind: Kind, report: &mut Report) {
    for entry in step.node.entries() {
        if entry.key == "depends_on" && !report.is_normal_form {
            let message = "`depends_on` stands in a normal form (beside `ir_version`); a document says `after`";
            let fault = Fault::new(entry.key_place, join(&step.path, &entry.key), message);
            report.faults.push(fault.suggest(Some("after")));
            continue;
        }
        let known = STEP.iter().any(|field| field.name == entry.key);
        if known && entry.key != kind.field() && !allowed(kind, &entry.key) {
            let message = format!("`{}` is not allowed on a step of the kind `{}`", entry.key, kind.field());
            report.fault(entry.key_place, join(&step.path, &entry.key), message);
        }
    }
    if step.node.get("on_deadline").is_some() && step.node.get("deadline").is_none() {
        let place = step.node.get("on_deadline").map_or(step.node.place, |node| node.place);
        report.fault(place, join(&step.path, "on_deadline"), "`on_deadline` needs a `deadline`");
    }
}

/// The table of L1.
fn allowed(kind: Kind, field: &str) -> bool {
    let more: &[&[&str]] = match kind {
        Kind::Task => &[&AROUND_ALL, &OF_TASK],
        Kind::Workflow => &[&AROUND_ALL, &["input"]],
        Kind::Steps => &[&AROUND_ALL, &["result", "done_when", "cancel_grace"]],
        Kind::Await => &[&AROUND_AWAIT],
        Kind::Signal => &[&AROUND_ALL],
        Kind::Sleep | Kind::SleepUntil | Kind::Compute => &[&["on_failure"]],
        Kind::Fail | Kind::ContinueAsNew => &[],
    };
    ALWAYS.contains(&field) || more.iter().any(|fields| fields.contains(&field))
}
