//! Executions as actors over replicated shards.

#![warn(missing_docs)]

pub mod api;
pub mod engine;
pub mod error;
pub mod history;
