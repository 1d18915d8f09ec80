//! One rule a file; each is a function from the tree to what breaks it, with a test that plants an offender.

pub mod decisions;
pub mod error_pages;
pub mod length;
pub mod links;
pub mod shown;
pub mod unused;
pub mod width;
pub mod words;

use crate::{Finding, tree::Tree};

/// A house rule.
pub type Rule = fn(&Tree) -> Vec<Finding>;

/// Every rule there is.
pub const ALL: &[Rule] = &[
    width::check,
    length::functions,
    length::files,
    words::check,
    links::check,
    decisions::check,
    error_pages::check,
    shown::check,
    unused::check,
];
