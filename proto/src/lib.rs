//! The messages of Orbit: what crosses the wire and what stays on disk.
//!
//! Read in this order:
//!
//! - [`store`]: the records a node keeps, log and state;
//! - [`peer`]: how nodes speak to each other.
//!
//! The code is generated from the files under `proto/`, whose comments are the reference. A released field never
//! changes its number, type or meaning.

#![warn(missing_docs)]

pub use generated::peer::v1 as peer;
pub use generated::store::v1 as store;

/// The packages nest as the generated code expects them to: it names its neighbours by `super::super`.
#[allow(missing_docs, missing_debug_implementations, clippy::all)]
mod generated {
    pub mod store {
        pub mod v1 {
            tonic::include_proto!("orbit.store.v1");
        }
    }
    pub mod peer {
        pub mod v1 {
            tonic::include_proto!("orbit.peer.v1");
        }
    }
}
