//! A node, and the command line around it.
//!
//! ```text
//!   cli ──▶ config ──▶ server ──▶ gateway (HTTP, gRPC) ──▶ engine ◀── builtin
//! ```
//!
//! Read in this order:
//!
//! - [`cli`]: the command line, one subcommand a file;
//! - [`config`]: what can be set, and where from;
//! - [`server`]: how a node starts, listens and stops;
//! - [`gateway`]: what clients and workers talk to;
//! - [`builtin`]: tasks that the node carries out itself;
//! - `client`: the other side of it, for commands;
//! - `bench`: measures a node from outside.

mod bench;
pub mod builtin;
pub mod cli;
mod client;
pub mod config;
pub mod gateway;
pub mod server;
