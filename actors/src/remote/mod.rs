//! What the engines of a cluster ask each other, as values and as messages.
//!
//! - [`request`]: what an execution is asked, wherever it lives;
//! - [`wire`]: requests and answers as messages of `orbit.node.v1`;
//! - [`cluster`]: reads and proposals of a group, whoever leads it;
//! - [`members`]: the nodes of the cluster.

pub(crate) mod cluster;
pub(crate) mod members;
pub(crate) mod request;
pub mod wire;

pub(crate) use cluster::Cluster;
pub(crate) use request::{Free, Request, Response};
