//! What came of a case.

use std::fmt;

/// The result of one case.
#[derive(Clone, Debug)]
pub struct Report {
    /// The case's name.
    pub name: String,
    /// What was expected and came otherwise; nothing: it passed.
    pub differences: Vec<Difference>,
    /// Every event of every execution, in the order in which it was written.
    pub timeline: Vec<Moment>,
    /// Events of the last run of the execution that is looked at.
    pub events: usize,
    /// How much time was skipped, ms.
    pub simulated_ms: u64,
}

impl Report {
    /// Whether all was as expected.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.differences.is_empty()
    }
}

/// An event of the timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Since the case began, ms.
    pub at_ms: u64,
    /// Whose event it is.
    pub execution_id: String,
    /// `Type step details…`.
    pub line: String,
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at_ms, execution_id, line } = self;
        write!(f, "{:>9}.{:03}s {execution_id} {line}", at_ms / 1_000, at_ms % 1_000)
    }
}

/// Something that was expected and came otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Which expectation.
    pub what: String,
    /// What it says.
    pub expected: String,
    /// What came instead.
    pub came: String,
    /// The lines of the timeline that are nearest to it.
    pub near: Vec<Moment>,
}

impl Difference {
    pub(super) fn new(what: impl Into<String>, expected: impl Into<String>, came: impl Into<String>) -> Self {
        Self { what: what.into(), expected: expected.into(), came: came.into(), near: Vec::new() }
    }

    pub(super) fn near(mut self, near: Vec<Moment>) -> Self {
        self.near = near;
        self
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected {}, came {}", self.what, self.expected, self.came)?;
        if !self.near.is_empty() {
            f.write_str("\n  nearest:")?;
        }
        for moment in &self.near {
            write!(f, "\n  {moment}")?;
        }
        Ok(())
    }
}
