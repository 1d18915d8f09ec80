//! Sentences of the language, one test for each or one row of a table: blocks, failure, closing, the traps and the
//! fine print, signals, children, undo and handlers, runs (L4–L10, L14, L16). `docs/language-index.md` says which.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod help;
mod l10;
mod l14;
mod l16_close;
mod l16_rules;
mod l16_values;
mod l4;
mod l5;
mod l6_close;
mod l6_early;
mod l6_for;
mod l6_repeat;
mod l6_undo;
mod l7;
mod l8;
mod l9;
