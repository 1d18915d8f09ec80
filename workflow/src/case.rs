//! Test cases of a workflow: the engine itself, with mocked tasks and skipped time (L15).
//!
//! ```text
//!          script of the case          mocked workers, timers, outbox
//!                 │                              │
//!                 ▼                              ▼
//!   queue by (time, insertion) ──▶ command ──▶ Run ──▶ events ──▶ timeline
//!                 ▲                                     │
//!                 └──────────── effects ◀── state ◀─────┘
//! ```
//!
//! Nothing around the engine decides anything: after each command what the world owes is read off the state
//! (`effects`), put into one queue and given back as commands when its time has come. So a case is a function of
//! document and file alone, and what happens at the same moment happens in the same order every time.
//!
//! - `file`, `scalar`, `wording`: the cases file; `names`: what its names must mean in the documents
//! - `world`, `live`: the queue, the executions and what is armed for each run
//! - `effects`, `outbox`, `worker`: what states ask for
//! - `script`, `refused`: what callers do and what they are told
//! - `compare`, `waiting`, `report`: what came of it

use std::sync::Arc;

use crate::definition::Definition;

mod compare;
mod effects;
mod file;
mod live;
mod names;
mod outbox;
mod refused;
mod report;
mod scalar;
mod script;
mod verify;
mod waiting;
mod wording;
mod worker;
mod world;

pub use file::{Case, parse, parse_for};
pub use report::{Difference, Moment, Report, duration};

use world::World;

/// Whether the engine is checked beside the document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checks {
    /// Only what the case expects.
    #[default]
    Expectations,
    /// Also, after commands: folding the history gives the state, nothing more follows from it, and it is sound.
    Engine,
}

/// Runs one case against documents; the first is the one that a case means when it names none.
#[must_use]
pub fn run(case: &Case, definitions: &[Arc<Definition>], checks: Checks) -> Report {
    let mut world = World::new(case, definitions, checks);
    world.run();
    compare::compare(case, world)
}

#[cfg(test)]
mod tests;
