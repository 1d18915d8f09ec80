//! Executions as actors over replicated shards: deciding, committing, handing over.
//!
//! Read in this order:
//!
//! - [`api`] and [`error`]: the words of every surface
//! - [`history`]: events as they are kept
//! - `table`: the tables of a shard and their keys
//! - [`format`]: what may be written while not all nodes know everything
//! - `facet`: by what executions are found; `expiry`: when they are removed
//! - `rows` and `index`: a run from its rows, and what of it lies in the index tables
//! - `execution`: one execution: an actor that decides and commits
//! - `shard`: the executions of a shard, its timers, what a new leader derives
//! - `desk`: where ready tasks meet idle slots; worker sessions
//! - `definitions`: registered documents
//! - `read`: answers about executions
//! - `remote`: what the nodes of a cluster ask each other
//! - [`disk`] and [`condition`]: how full disks are, how the nodes are, and what follows from it
//! - `check`: whether what is stored is what must be stored
//! - `supervisor` and `found`: the shards of a node, and how a cluster begins
//! - [`engine`]: all of it as one handle

#![warn(missing_docs)]

pub mod api;
mod check;
pub mod condition;
mod definitions;
mod desk;
pub mod disk;
pub mod engine;
pub mod error;
mod execution;
mod expiry;
mod facet;
mod failure;
pub mod format;
mod found;
pub mod history;
mod index;
mod post;
mod read;
mod remote;
mod rows;
mod shard;
mod supervisor;
mod table;
mod warnings;

pub use desk::Connection;
pub use remote::wire;
pub use shard::Dice;
