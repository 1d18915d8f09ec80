//! Everything that is checked of a document, one rule a file; all faults are found at once.
//!
//! Rules are tolerant: what one has reported, the others pass over in silence.

pub(super) mod advice;
pub(super) mod compensations;
pub(super) mod contracts;
pub(super) mod failures;
pub(super) mod graph;
pub(super) mod ids;
pub(super) mod ir_version;
pub(super) mod kinds;
pub(super) mod limits;
pub(super) mod literals;
pub(super) mod members;
pub(super) mod schemas;
pub(super) mod scope;
pub(super) mod shape;
pub(super) mod signals;
pub(super) mod tasks;
pub(super) mod uses;

use super::fault::{FAULTS_MAX, Fault, Found, Warning};
use super::marked::{Marked, Place};
use super::outline::Outline;

/// What the rules have found.
#[derive(Default)]
pub(super) struct Report {
    pub(super) faults: Found,
    pub(super) warnings: Vec<Warning>,
    /// Whether the document names the version of its normal form, as a stored one does: it counts in ms.
    pub(super) is_normal_form: bool,
}

impl Report {
    pub(super) fn fault(&mut self, place: Place, path: impl Into<String>, message: impl Into<String>) {
        self.faults.push(Fault::new(place, path, message));
    }

    /// A fault with the name that was probably meant; looking for one is spared once there is enough to mend.
    pub(super) fn misnamed<'a>(
        &mut self,
        place: Place,
        path: &str,
        message: String,
        written: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) {
        let suggestion = if self.faults.len() < FAULTS_MAX { super::fault::nearest(written, known) } else { None };
        self.faults.push(Fault::new(place, path, message).suggest(suggestion));
    }

    pub(super) fn warn(&mut self, place: Place, path: &str, message: String) {
        if !self.has_warned_enough() {
            self.warnings.push(Warning::new(place, path, message));
        }
    }

    /// Whether further warnings are not kept: nothing need be looked for.
    pub(super) fn has_warned_enough(&self) -> bool {
        self.warnings.len() >= FAULTS_MAX
    }
}

/// A document in which nothing is wrong, as far as the normal form needs it.
pub(super) struct Checked<'a> {
    pub(super) outline: Outline<'a>,
    pub(super) graph: graph::Graph,
    pub(super) ir_version: ir_version::IrVersion,
}

/// Checks one document. The result is of use only when nothing was reported.
pub(super) fn check<'a>(document: &'a Marked, report: &mut Report) -> Option<Checked<'a>> {
    report.is_normal_form = document.get("ir_version").is_some();
    shape::check(document, &super::grammar::DOCUMENT, "", report);
    let outline = Outline::of(document);
    if !limits::check(&outline, report) {
        return None;
    }
    ids::check(&outline, report);
    kinds::check(&outline, report);
    failures::check(&outline, report);
    compensations::check(&outline, report);
    contracts::check(document, report);
    tasks::check(&outline, report);
    signals::check(&outline, report);
    let ir_version = ir_version::check(&outline, report);
    let uses = uses::check(&outline, report);
    let graph = graph::check(&outline, &uses, report);
    advice::check(&outline, &uses, report);
    Some(Checked { outline, graph, ir_version })
}
