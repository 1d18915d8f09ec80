//! The patterns of `matches`: regular expressions without backtracking, bounded in size.

use regex::{Regex, RegexBuilder};

use crate::expression::EvalError;

/// Bytes that a compiled pattern may take.
const SIZE_MAX_BYTES: usize = 1 << 20;

/// Steps for compiling a pattern that is no literal.
pub(in crate::expression) const COST_TO_COMPILE: u64 = 5_000;

/// What a byte searched costs, in bytes of text copied.
pub(in crate::expression) const COST_PER_BYTE: usize = 16;

/// Compiles a pattern.
pub(in crate::expression) fn compile(pattern: &str) -> Result<Regex, EvalError> {
    RegexBuilder::new(pattern).size_limit(SIZE_MAX_BYTES).build().map_err(|fault| {
        let fault = fault.to_string();
        // The crate draws several lines; the last one says what is wrong.
        let reason = fault.lines().last().unwrap_or_default().trim_start_matches("error: ");
        EvalError::new(format!("matches() cannot read its pattern: {reason}"))
    })
}
