//! Where a node really listens, and the file that says so.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::Path;

use serde::Serialize;
use tokio::net::TcpListener;

use super::{Error, Exposure};
use crate::config::Config;

/// Where a node listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Addresses {
    /// The HTTP API.
    pub http: SocketAddr,
    /// The gRPC API.
    pub grpc: SocketAddr,
    /// Other nodes.
    pub peer: SocketAddr,
    /// Probes and metrics.
    pub health: SocketAddr,
}

/// The listeners of a node.
pub(super) struct Listeners {
    pub(super) http: TcpListener,
    pub(super) grpc: TcpListener,
    pub(super) peer: TcpListener,
    pub(super) health: TcpListener,
    pub(super) addresses: Addresses,
}

const FILE: &str = "addresses.json";

/// Refuses addresses that others reach.
///
/// `peers`: who may reach the port for other nodes. Whoever does is taken for one: nothing lets a node be known by yet.
pub(super) fn check(config: &Config, exposure: Exposure, peers: Exposure) -> Result<(), Error> {
    let reached = [
        ("http", config.http_listen, exposure),
        ("grpc", config.grpc_listen, exposure),
        ("health", config.health_listen, exposure),
        ("peer", config.peer_listen, peers),
    ];
    for (key, address, exposure) in reached {
        if address.ip().to_canonical().is_loopback() {
            continue;
        }
        if exposure == Exposure::Loopback {
            return Err(Error::NotLoopback { key, address });
        }
        let key = format!("{key}.listen");
        tracing::warn!(key, %address, "anybody who reaches this address may do anything here");
    }
    Ok(())
}

impl Listeners {
    /// Removes the file of the last life and listens.
    pub(super) async fn bind(config: &Config) -> Result<Self, Error> {
        let file = config.data_dir.join(FILE);
        let failed = |source| Error::File { path: file.clone(), source };
        match std::fs::remove_file(&file) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let http = bind("http", config.http_listen).await?;
        let grpc = bind("grpc", config.grpc_listen).await?;
        let peer = bind("peer", config.peer_listen).await?;
        let health = bind("health", config.health_listen).await?;
        let addresses = Addresses {
            http: http.local_addr().map_err(failed)?,
            grpc: grpc.local_addr().map_err(failed)?,
            peer: peer.local_addr().map_err(failed)?,
            health: health.local_addr().map_err(failed)?,
        };
        Ok(Self { http, grpc, peer, health, addresses })
    }

    /// Writes the file of this life.
    pub(super) fn announce(&self, config: &Config) -> Result<(), Error> {
        let path = config.data_dir.join(FILE);
        write(&path, &self.addresses).map_err(|source| Error::File { path, source })
    }
}

async fn bind(key: &'static str, address: SocketAddr) -> Result<TcpListener, Error> {
    TcpListener::bind(address).await.map_err(|source| Error::Listen { key, address, source })
}

/// As a whole or not at all.
fn write(file: &Path, addresses: &Addresses) -> io::Result<()> {
    let new = file.with_extension("json.new");
    std::fs::write(&new, serde_json::to_vec_pretty(addresses)?)?;
    std::fs::rename(&new, file)
}
