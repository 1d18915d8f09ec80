//! Three nodes under load, and what may happen to them. Whatever was acknowledged is there, reads are current, all that
//! was started ends.
//!
//! - `scene`: the three nodes, and what is asked of them;
//! - `probe`: writes at one node that another must show or refuse to answer for;
//! - `failover`: a node is killed, again and again;
//! - `partition`: nodes are cut off, in one direction or both, or stand still;
//! - `power`: all nodes are gone at once;
//! - `rolling`: nodes are stopped and started one after the other;
//! - `replace`: a node loses its disk;
//! - `bad_input`: what is no peer, and what is refused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

#[path = "../support/mod.rs"]
mod support;

mod bad_input;
mod failover;
mod partition;
mod power;
mod probe;
mod replace;
mod rolling;
mod scene;

/// A number of the environment.
fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| text.parse().unwrap())
}
