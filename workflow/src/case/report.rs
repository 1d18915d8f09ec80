//! What came of a case.

use std::fmt;

use crate::event::Event;
use crate::value::Payload;

/// Characters of a value beside a line.
const VALUE_MAX: usize = 120;

/// The result of one case.
#[derive(Clone, Debug)]
pub struct Report {
    /// The case's name.
    pub name: String,
    /// What was expected and came otherwise; nothing: it passed.
    pub differences: Vec<Difference>,
    /// What may be meant otherwise though nothing says so.
    pub notes: Vec<String>,
    /// Every event of every execution, in the order in which it was written.
    pub timeline: Vec<Moment>,
    /// Events of the last run of the execution that is looked at.
    pub events: usize,
    /// When that run ended, ms from the beginning of the case; while it runs, the last moment that was looked at.
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
    /// What went in or came out, cut short; no part of the line. Empty: nothing did.
    pub values: String,
}

/// Input or output of an event, or the message of its error.
pub(super) fn values(event: &Event) -> String {
    let payload = |name: &str, value: &Payload| format!("{name}={}", cut(value.as_str()));
    let message = |message: &str| if message.is_empty() { String::new() } else { format!("message={message:?}") };
    match event {
        Event::WorkflowCreated(e) => payload("input", &e.input),
        Event::StepScheduled(e) => e.input.as_ref().map_or_else(String::new, |input| payload("input", input)),
        Event::StepSucceeded(e) => e.output.as_ref().map_or_else(String::new, |output| payload("output", output)),
        Event::WorkflowCompleted(e) => payload("output", &e.output),
        Event::StepAttemptFailed(e) => message(&cut(&e.error.message)),
        Event::StepFailed(e) => message(&cut(&e.error.message)),
        Event::StepSuspended(e) => message(&cut(&e.error.message)),
        Event::CompensationFailed(e) => message(&cut(&e.error.message)),
        Event::WorkflowFailed(e) => message(&cut(&e.error.message)),
        _ => String::new(),
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(VALUE_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A time span as documents write it: `1h30m`, `9s`, `10ms`.
#[must_use]
pub fn duration(ms: u64) -> String {
    let mut text = String::new();
    let mut rest = ms;
    for (unit, unit_ms) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)] {
        if rest >= unit_ms {
            text.push_str(&format!("{}{unit}", rest / unit_ms));
            rest %= unit_ms;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at_ms, execution_id, line, .. } = self;
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
