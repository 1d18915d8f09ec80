//! The messages of Orbit: what crosses the wire and what stays on disk.
//!
//! Read in this order:
//!
//! - [`store`]: the records a node keeps, log and state;
//! - [`history`]: the events of executions, as they are kept;
//! - [`peer`]: how nodes speak to each other;
//! - [`engine`]: what the engine keeps beside the histories;
//! - [`worker`]: how workers get tasks and report results;
//! - [`api`]: what clients ask of Orbit;
//! - [`node`]: what nodes ask each other above replication.
//!
//! The code is generated from the files under `proto/`, whose comments are the reference. A released field never
//! changes its number, type or meaning.

#![warn(missing_docs)]

pub use generated::api::v1 as api;
pub use generated::engine::v1 as engine;
pub use generated::history::v1 as history;
pub use generated::node::v1 as node;
pub use generated::peer::v1 as peer;
pub use generated::store::v1 as store;
pub use generated::worker::v1 as worker;

/// All of the `.proto` files as an encoded `FileDescriptorSet` without comments: for reflection, and to compare
/// releases.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.binpb"));

/// The `.proto` files that workers and clients compile, with the paths by which they are imported. They import nothing
/// but each other, so whoever has them needs no source tree.
pub const PUBLIC: [(&str, &str); 2] = [
    ("orbit/worker/v1/worker.proto", include_str!("../proto/orbit/worker/v1/worker.proto")),
    ("orbit/api/v1/orbit.proto", include_str!("../proto/orbit/api/v1/orbit.proto")),
];

/// The packages nest as the generated code expects them to: it names its neighbours by `super::super`.
#[allow(missing_docs, missing_debug_implementations, clippy::all)]
mod generated {
    pub mod store {
        pub mod v1 {
            tonic::include_proto!("orbit.store.v1");
        }
    }
    pub mod history {
        pub mod v1 {
            tonic::include_proto!("orbit.history.v1");
        }
    }
    pub mod peer {
        pub mod v1 {
            tonic::include_proto!("orbit.peer.v1");
        }
    }
    pub mod engine {
        pub mod v1 {
            tonic::include_proto!("orbit.engine.v1");
        }
    }
    pub mod worker {
        pub mod v1 {
            tonic::include_proto!("orbit.worker.v1");
        }
    }
    pub mod api {
        pub mod v1 {
            tonic::include_proto!("orbit.api.v1");
        }
    }
    pub mod node {
        pub mod v1 {
            tonic::include_proto!("orbit.node.v1");
        }
    }
}
