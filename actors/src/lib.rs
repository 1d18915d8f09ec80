//! Executions as actors over replicated shards.

#![warn(missing_docs)]

pub mod api;
#[allow(dead_code, reason = "the shard leaders that use all of it come with the engine")]
mod desk;
pub mod engine;
pub mod error;
