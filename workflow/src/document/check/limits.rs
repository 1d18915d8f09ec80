//! Bounds of a document (L4).

use super::Report;
use crate::document::grammar::{DEPTH_MAX, STEPS_MAX};
use crate::document::outline::Outline;

/// Whether the document is small enough to be looked at further.
pub(super) fn check(outline: &Outline<'_>, report: &mut Report) -> bool {
    if let Some(step) = outline.steps.get(STEPS_MAX) {
        let message = format!("{} steps; a document has at most {STEPS_MAX}", outline.steps.len());
        report.fault(step.node.place, &step.path, message);
        return false;
    }
    for block in outline.blocks.iter().filter(|block| block.depth == DEPTH_MAX + 1) {
        if let Some(node) = block.node {
            report.fault(node.place, &block.path, format!("blocks lie in each other deeper than {DEPTH_MAX}"));
        }
    }
    true
}
