//! Worlds of node processes: networks that are cut, disks that are full, clients that write down what they are told.
//!
//! ```no_run
//! use std::sync::Arc;
//! use orbit_harness::{Cut, Disk, Launch, NodeOptions, Notebook, Worker, World, binary};
//!
//! # fn main() -> Result<(), orbit_harness::Error> {
//! let world = World::new(std::env::temp_dir(), "an-isolated-node")?; // a test gives env!("CARGO_TARGET_TMPDIR")
//! let disk = Disk::Tmpfs { mib: 160 };
//! let nodes = world.add_cluster(&["n1", "n2", "n3"], &NodeOptions::new().disk(disk))?;
//! let launch = Launch::server(binary()?);
//! world.run(async |world| {
//!     world.start_all(&launch).await?;
//!     let notebook = Arc::new(Notebook::default());
//!     tokio::spawn(Worker::new("w", &[("do.step", "1.0.0")]).stream(Arc::clone(&notebook), world.addresses()));
//!     world.links().isolate("n1", Cut::Silent)?;
//!     nodes[1].kill().await?;
//!     world.links().heal()?;
//!     nodes[1].restart().await
//! })
//! # }
//! ```
//!
//! **A test runs at the clients' place.** [`World::run`] runs it on threads that are in a network namespace of the
//! world, the one with the bridge. So every library reaches the nodes by plain addresses, without a connector of ours
//! in between that could hide a reset or a silence; no cable leads into the network of the machine, so worlds beside
//! each other share out no addresses. The price is that a test is a plain `#[test]` that calls `run`, no
//! `#[tokio::test]`.
//!
//! **Nothing stays.** When a [`World`] is dropped, its processes, mounts and folder go; the folder of a test that
//! panicked is kept as `failed-…`. A test that is killed takes its processes and networks along; its mounts and folders
//! are removed by the next world in the same root ([`mod@sweep`]). It needs root, and the programs `ip`, `nft` and
//! `setpriv`.
//!
//! Read the modules in this order:
//!
//! - [`world`]: all of it together;
//! - [`node`]: what can be done to a node, with [`launch`], [`config`], [`addresses`];
//! - [`links`]: cut and healed, with [`network`]: how nodes are wired;
//! - [`disk`]: filled and wiped;
//! - [`worker`]: workers that go from node to node and keep a ledger, in the [`notebook`] that all share;
//! - [`client`]: operations one by one, each recorded ([`recorder`]); histories in [`pages`];
//! - [`namespace`], [`process`]: what the kernel is asked for;
//! - [`owner`], [`mod@sweep`]: whose a world is, and what becomes of those of the dead;
//! - [`error`].

#![warn(missing_docs)]

use std::sync::{Mutex, MutexGuard, PoisonError};

pub mod addresses;
pub mod client;
pub mod config;
pub mod disk;
pub mod error;
pub mod launch;
pub mod links;
pub mod namespace;
pub mod network;
pub mod node;
pub mod notebook;
pub mod owner;
pub mod pages;
pub mod process;
pub mod recorder;
pub mod sweep;
pub mod worker;
pub mod world;

pub use addresses::Addresses;
pub use client::{Client, Request};
pub use config::Config;
pub use disk::{Disk, MountedDisk};
pub use error::Error;
pub use launch::{Launch, binary};
pub use links::{CLIENTS, Cut, Links};
pub use namespace::Namespace;
pub use node::{Node, NodeOptions};
pub use notebook::Notebook;
pub use pages::Pages;
pub use process::Process;
pub use recorder::{Outcome, Recorder};
pub use sweep::sweep;
pub use worker::{Job, Plan, Worker};
pub use world::World;

/// A test that panicked while it held the lock has failed; the others go on with what is there.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
