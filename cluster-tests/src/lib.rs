//! What a run with real node processes left behind, and whether it is as it must be.
//!
//! Read the modules in this order:
//!
//! - [`history`]: a history as `GET /v1/executions/{id}/history` gives it, all pages;
//! - [`order`]: gapless, in the order of time, ended once (I13, I14);
//! - [`hand_over`]: who was asked, with which key, how often (I15, I26);
//! - [`timer`]: never early, at most once (I18);
//! - [`undo`]: what was undone, and in which order (I22);
//! - [`family`]: parents and children, over all histories (I23);
//! - [`signal`]: signals of one sender (I19);
//! - [`ledger`]: what callers and workers were told, against the histories (I11, I15–I17, I21).
//!
//! A checker is a function from what is there to its [`Fault`]s. It knows nothing of how the run was disturbed, so
//! every suite uses the same ones: [`all`] for one history, [`ledger::Ledger::check`] for all of them together. The
//! suites in `tests/` that start processes need the feature `processes`.

#![warn(missing_docs)]

use std::fmt;

pub mod family;
pub mod hand_over;
pub mod history;
pub mod ledger;
pub mod order;
pub mod signal;
pub mod timer;
pub mod undo;

pub use history::{Event, History};

/// Something that must never be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Which invariant, `I13`.
    pub invariant: &'static str,
    /// Where.
    pub execution_id: String,
    /// What, for a reader who has the history beside it.
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.invariant, self.execution_id, self.what)
    }
}

/// Collects the faults of one history.
#[derive(Debug)]
pub(crate) struct Faults<'a> {
    execution_id: &'a str,
    found: Vec<Fault>,
}

impl<'a> Faults<'a> {
    pub(crate) fn of(execution_id: &'a str) -> Self {
        Self { execution_id, found: Vec::new() }
    }

    pub(crate) fn add(&mut self, invariant: &'static str, what: impl Into<String>) {
        self.found.push(Fault { invariant, execution_id: self.execution_id.to_owned(), what: what.into() });
    }

    pub(crate) fn found(self) -> Vec<Fault> {
        self.found
    }
}

/// Everything that one history alone shows. `compensated` are the steps of its document that say how they are undone.
#[must_use]
pub fn all(history: &History, compensated: &[&str]) -> Vec<Fault> {
    [order::check(history), hand_over::check(history), timer::check(history), undo::check(history, compensated)]
        .concat()
}
