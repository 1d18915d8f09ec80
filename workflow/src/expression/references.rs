//! What an expression mentions.

use std::collections::{BTreeMap, BTreeSet};

/// The names in an expression, for checks at registration and for dependencies. Offsets are characters before the
/// first mention.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct References {
    /// Free names (no loop variables), `steps` and `execution` included, and where each first stands.
    pub variables: BTreeMap<String, usize>,
    /// Steps named as `steps.<id>` (or `steps['<id>']`), and where each first stands.
    pub steps: BTreeMap<String, usize>,
    /// Functions, methods and macros called, and where each first stands.
    pub functions: BTreeMap<String, usize>,
    /// Members of `execution` that are read.
    pub execution_fields: BTreeSet<String>,
    /// Steps whose `output` is read, and where each first stands.
    pub step_outputs: BTreeMap<String, usize>,
    /// Steps that the expression shows awareness of being without output: it reads their `status` or `error`,
    /// compares their output with `==` or `!=`, or gives it to `coalesce` or `has`.
    pub guarded_steps: BTreeSet<String>,
}
