//! The network of a world: a bridge in a namespace of its own, and each node behind a cable of its own.
//!
//! ```text
//!   clients' namespace                        a node's namespace
//! ┌─────────────────────────────┐          ┌─────────────────────┐
//! │ bridge 10.77.0.1 ── port n1 ┼──────────┼ eth0 10.77.0.11     │
//! │                  ── port n2 ┼───…      └─────────────────────┘
//! └─────────────────────────────┘
//! ```
//!
//! No cable leads out, so all worlds have the same addresses, and none can take away an address of the machine.

use std::net::Ipv4Addr;
use std::sync::Arc;

use crate::{Error, Namespace};

/// Where the clients of each world are: the test itself, its workers, the servers that it plays.
pub const CLIENTS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// How many nodes a world can have.
pub const NODES_MAX: u8 = 100;

/// What the rules of a namespace are made of: whose packets are dropped, and whose are answered with a refusal. A
/// refusal itself always passes, or two sides that refuse each other would never hear of it.
const RULES: &str = "
table inet orbit {
  set silent { type ipv4_addr; }
  set rejected { type ipv4_addr; }
  chain input {
    type filter hook input priority 0; policy accept;
    ip saddr @silent drop
    ip saddr @rejected tcp flags rst accept
    ip saddr @rejected icmp type destination-unreachable accept
    ip saddr @rejected meta l4proto tcp reject with tcp reset
    ip saddr @rejected reject
  }
}
";

/// The clients' end: their namespace with the bridge. `name` is what its thread is called.
///
/// # Errors
///
/// Without the right to make one, or without `ip` and `nft`.
pub fn bridge(name: &str) -> Result<Namespace, Error> {
    let namespace = Namespace::new(name)?;
    namespace
        .ip(&format!("link add bridge type bridge\naddress add {CLIENTS}/24 brd + dev bridge\nlink set bridge up\n"))?;
    namespace.nft(RULES)?;
    Ok(namespace)
}

/// The end of the node with this number, from 1, on the bridge.
///
/// # Errors
///
/// As for [`bridge`], and when there are too many.
pub fn attach(bridge: &Namespace, name: &str, number: u8) -> Result<(Arc<Namespace>, Ipv4Addr), Error> {
    if number > NODES_MAX {
        return Err(Error::name(name, "is one node more than a world can have"));
    }
    let namespace = Namespace::new(name)?;
    let address = Ipv4Addr::new(10, 77, 0, 10 + number);
    let node = namespace.path().display();
    bridge.ip(&format!(
        "link add n{number} type veth peer name eth0 netns {node}\n\
         link set n{number} master bridge\nlink set n{number} up\n"
    ))?;
    namespace.ip(&format!("address add {address}/24 brd + dev eth0\nlink set eth0 up\n"))?;
    namespace.nft(RULES)?;
    Ok((Arc::new(namespace), address))
}
