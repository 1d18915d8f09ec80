//! Durations and moments as a document writes them.

use super::marked::{Marked, Tree};
use crate::expression::text;

/// A fixed duration in ms; `None` when it is none.
pub(super) fn duration_ms(node: &Marked) -> Option<u64> {
    match &node.tree {
        Tree::Integer(ms) => u64::try_from(*ms).ok(),
        Tree::Text(written) => text::parse_duration_ms(written),
        _ => None,
    }
}

/// Whether a text is a moment of RFC 3339.
pub(super) fn is_moment(written: &str) -> bool {
    text::parse_timestamp_ms(written).is_some()
}
