//! Sentences of the language, one test for each or one row of a table: blocks, failure, closing, the traps and the
//! fine print, signals, children, undo and handlers, runs (L4–L10, L14, L16). `docs/language-index.md` says which.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod help;
mod l14;
mod l4;
