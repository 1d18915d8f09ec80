//! Where a node listens.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Error;

/// `host:port` of each surface, as `addresses.json` in the data folder has them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Addresses {
    /// The HTTP API.
    pub http: String,
    /// The gRPC API.
    pub grpc: String,
    /// Other nodes.
    pub peer: String,
    /// Health and metrics.
    pub health: String,
}

impl Addresses {
    /// Reads what a node has written into its data folder.
    ///
    /// # Errors
    ///
    /// When it is not there, or not so.
    pub fn read(data_dir: &Path) -> Result<Self, Error> {
        let path = data_dir.join("addresses.json");
        let text = std::fs::read(&path).map_err(Error::file("reading", &path))?;
        serde_json::from_slice(&text).map_err(|error| Error::File { path, why: error.to_string() })
    }
}
