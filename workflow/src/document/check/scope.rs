//! Which names an expression may use, by where it stands (L2, L6, L7, L9).

/// Names that the language gives somewhere; no loop variable may hide one.
pub(super) const LANGUAGE_NAMES: [&str; 20] = [
    "input",
    "execution",
    "steps",
    "index",
    "iteration",
    "previous",
    "output",
    "error",
    "failure",
    "event",
    "signal",
    "payload",
    "count",
    "last",
    "succeeded",
    "failed",
    "total",
    "unknown",
    "idempotency_key",
    "attempt",
];

/// Members of `execution`.
pub(super) const EXECUTION_FIELDS: [&str; 8] =
    ["id", "run", "workflow", "version", "started_at", "scheduled_at", "parent_id", "history_events"];

/// Names in scope beside steps.
#[derive(Clone, Debug)]
pub(super) struct Variables<'a> {
    names: Vec<&'a str>,
}

impl<'a> Variables<'a> {
    /// What is in scope everywhere.
    pub(super) fn everywhere() -> Variables<'a> {
        Variables { names: vec!["input", "execution"] }
    }

    pub(super) fn with(&self, more: &[&'a str]) -> Variables<'a> {
        let mut names = self.names.clone();
        names.extend(more);
        Variables { names }
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.names.contains(&name)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.names.iter().copied()
    }
}
