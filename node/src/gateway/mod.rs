//! What clients and workers talk to: HTTP and gRPC, thin over one [`Service`].
//!
//! ```text
//!   HTTP ──▶ guard ──▶ routes ──┐
//!                               ├──▶ Service: who may, what fits ──▶ engine
//!   gRPC ──▶ guard ──▶ calls  ──┘
//! ```
//!
//! - [`caller`]: who asks, and whether he may;
//! - [`service`]: every operation once, typed: checked, cut to its limits, handed to the engine;
//! - [`batch`], [`cluster`]: the same for actions on many executions, and for the nodes;
//! - `audit`: who changed what, in the log;
//! - [`status`]: what a code is in HTTP and in gRPC;
//! - [`guard`]: requests that a web page made a browser send;
//! - [`counters`]: what is counted, and how it is shown;
//! - [`http`]: the routes, as one table;
//! - [`grpc`]: the services.

mod audit;
pub mod batch;
pub mod caller;
pub mod cluster;
pub mod counters;
pub mod grpc;
pub mod guard;
pub mod http;
pub mod service;
pub mod status;
mod validate;

pub use service::{Service, Standing};

/// The version of the API, in every answer.
pub const API_VERSION: &str = "orbit-api/1";
