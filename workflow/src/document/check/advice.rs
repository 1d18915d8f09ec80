//! What is allowed and probably not meant (L1, L9).

use super::Report;
use super::uses::{Use, Uses};
use crate::document::marked::join;
use crate::document::outline::{Home, Kind, Outline, StepNode};

pub(super) fn check(outline: &Outline<'_>, uses: &Uses, report: &mut Report) {
    for taken in &uses.unguarded {
        let target = &outline.steps[taken.target];
        let Some(when) = target.node.get("when") else { continue };
        if taken.by == Some(taken.target) || guarded(outline, uses, taken, when.text()) {
            continue;
        }
        let id = target.id;
        let message = format!(
            "`{id}` may be skipped (it has `when`), and its output then reads null: look at `steps.{id}.status` in \
             `when`, or use `coalesce`"
        );
        report.warn(taken.place, &taken.path, message);
    }
    for step in outline.steps.iter().filter(|step| waits_without_end(outline, step)) {
        let message = "no signal is taken any more when this runs; without `timeout` it waits until somebody cancels \
                       with force"
            .to_owned();
        report.warn(step.node.place, &join(&step.path, "await"), message);
    }
    for (step, place, path) in &uses.output_only_undo {
        if matches!(outline.steps[*step].kind, Some(Kind::Task | Kind::Workflow | Kind::Signal)) {
            let message = "this undo needs `output`, which is null when the outcome is unknown; pass \
                           the key too, so that what may have happened can be found: add \
                           key: \"${idempotency_key}\" to its input";
            report.warn(*place, path, message.to_owned());
        }
    }
}

/// Whether a step in a handler of the end waits for a signal that nobody can send any more.
fn waits_without_end(outline: &Outline<'_>, step: &StepNode<'_>) -> bool {
    let Some(wait) = step.node.get("await").filter(|wait| wait.get("timeout").is_none()) else { return false };
    let mut at = step;
    while at.node.get("deadline").is_none() {
        match outline.blocks[at.block].home {
            Home::Step(owner) => at = &outline.steps[owner],
            Home::Handler => return !wait.entries().is_empty(),
            Home::Root | Home::EventHandler(_) => return false,
        }
    }
    false
}

/// Whether a `when` on the way from the expression outwards looks at the step, or is the same condition.
fn guarded(outline: &Outline<'_>, uses: &Uses, taken: &Use, when: Option<&str>) -> bool {
    let (mut block, mut by) = (taken.block, taken.by);
    loop {
        if let Some(step) = by {
            let own = outline.steps[step].node.get("when").and_then(|node| node.text());
            // A `when` that takes the output is no guard of itself.
            let is_when = taken.path == join(&outline.steps[step].path, "when");
            if !is_when && (uses.guards.contains(&(step, taken.target)) || (own.is_some() && own == when)) {
                return true;
            }
        }
        match outline.blocks[block].home {
            Home::Step(owner) => {
                by = Some(owner);
                block = outline.steps[owner].block;
            }
            Home::Root | Home::Handler | Home::EventHandler(_) => return false,
        }
    }
}
