//! What a workflow document means and what an execution does: everything of Orbit that is pure.
//!
//! No runtime, no clock, no randomness, no input or output: time and chance come in as arguments, and what the world
//! owes comes out as events. So the same history gives the same decisions on every node, in a test and in a replay.
//!
//! Read in this order:
//!
//! - [`value`]: JSON as expressions see it, and payloads kept byte for byte
//! - [`expression`]: the expressions and templates of a document
//! - [`contract`]: JSON Schemas of inputs and outputs
//! - [`definition`]: a checked document, ready to be decided on
//! - [`document`]: from what an author writes to a definition, with every fault at its place
//! - [`key`]: how units, timers and idempotency keys are named
//! - [`event`]: everything that can happen to an execution
//! - [`state`]: what a history adds up to: the fold
//! - [`decide`]: what follows from a state: the rules of the language
//! - [`command`]: what can come from outside, and its answers
//! - [`replay`]: a recorded history, decided again
//! - [`case`]: test cases of a workflow: the engine with mocked tasks and skipped time

#![warn(missing_docs)]

pub mod case;
pub mod command;
pub mod contract;
pub mod decide;
pub mod definition;
pub mod document;
pub mod event;
pub mod expression;
pub mod key;
mod plant;
pub mod replay;
pub mod state;
pub mod value;
