//! The house rules of this repository, kept by an ordinary test instead of by memory.
//!
//! Reading order: [`tree`] is the repository as texts; [`rule`] holds one rule a file, each a function from the tree to
//! its [`Finding`]s; [`exceptions`] takes out what `ci/tidy.toml` excuses with a reason and complains about excuses
//! that excuse nothing; [`language_index`] ties the sentences of the language reference to the tests that show them.

pub mod exceptions;
pub mod language_index;
pub mod rule;
pub mod rust_source;
pub mod tree;

use std::fmt;

/// One place that breaks one rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The rule's name, as exceptions cite it.
    pub rule: &'static str,
    /// The file, from the repository's root.
    pub path: String,
    /// From 1; 0 is the file as a whole.
    pub line: usize,
    /// What is wrong there, for a reader who does not know the rule.
    pub message: String,
}

impl Finding {
    /// A finding about one line.
    #[must_use]
    pub fn at(rule: &'static str, path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { rule, path: path.to_owned(), line, message: message.into() }
    }

    /// A finding about a file as a whole.
    #[must_use]
    pub fn about(rule: &'static str, path: &str, message: impl Into<String>) -> Self {
        Self::at(rule, path, 0, message)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {} [{}]", self.path, self.message, self.rule),
            line => write!(f, "{}:{line}: {} [{}]", self.path, self.message, self.rule),
        }
    }
}

/// All rules over one tree, in the order of path and line.
#[must_use]
pub fn findings(tree: &tree::Tree) -> Vec<Finding> {
    let mut all: Vec<Finding> = rule::ALL.iter().flat_map(|rule| rule(tree)).collect();
    all.extend(language_index::Index::read(tree).findings(tree));
    all.sort();
    all
}
