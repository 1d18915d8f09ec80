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
    /// Members of `input` that are read, and where each first stands.
    pub input_members: BTreeMap<String, usize>,
    /// Members read of steps, as (step, member), and where each first stands.
    pub step_members: BTreeMap<(String, String), usize>,
    /// Members read of elements of some step's `units`, and where each first stands.
    pub unit_members: BTreeMap<String, usize>,
    /// Steps of whose `output` a member is read, and where each first stands.
    pub output_members: BTreeMap<String, usize>,
    /// Texts that a `status` is compared with, and where each first stands.
    pub statuses: BTreeMap<String, usize>,
    /// Steps whose `output` is read, and where each first stands.
    pub step_outputs: BTreeMap<String, usize>,
    /// Steps that the expression shows awareness of being without output: it reads their `status` or `error`,
    /// compares something of their output with `==`, `!=` or `in`, or gives it to `coalesce` or `has`.
    pub guarded_steps: BTreeSet<String>,
}
