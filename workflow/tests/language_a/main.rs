//! Sentences of the language, one test or one row of a table for each: the document, expressions, what lets a step
//! start, keys, events, codes and test cases (L1–L3, L11–L13, L15). The index in `docs/language-index.md` says which.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod help;
mod l11;
mod l12;
mod l13;
mod l15;
mod l1_document;
mod l1_durations;
mod l1_steps;
mod l1_table;
mod l2;
mod l2_scope;
mod l3;
