//! What is measured: one node or several that are a cluster, started here unless one is named.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::kernel::{cpu_time, rss_bytes, written_bytes};
use super::own::Own;
use super::{Error, Options, number};
use crate::client::{Call, Client};

/// How long a call to a node may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Nodes that answer.
pub(super) struct Target {
    /// The HTTP side of each.
    clients: Vec<Client>,
    /// `host:port` of the gRPC side of each.
    pub(super) grpc: Vec<String>,
    pub(super) token: Option<String>,
    /// Their processes, as far as they are known.
    pub(super) pids: Vec<u32>,
    own: Option<Own>,
}

impl Target {
    /// The node that was named, or new ones.
    pub(super) async fn get(options: &Options, nodes: u16) -> Result<Self, Error> {
        let Some(foreign) = &options.node else { return Self::start(options, nodes).await };
        let client = Client::new(&foreign.address, foreign.token.clone(), PATIENCE)?;
        client.send(&Call::get(["v1", "health"])).await?;
        // With or without the scheme, as a node prints it and as it is written in `addresses.json`.
        let grpc = foreign.grpc_address.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let pids = foreign.pid.into_iter().collect();
        Ok(Self { clients: vec![client], grpc: vec![grpc], token: foreign.token.clone(), pids, own: None })
    }

    async fn start(options: &Options, nodes: u16) -> Result<Self, Error> {
        let own = Own::start(options, nodes).await?;
        let clients = own.http().map(|http| Client::new(http, None, PATIENCE)).collect::<Result<_, _>>()?;
        Ok(Self { clients, grpc: own.grpc(), token: None, pids: own.pids(), own: Some(own) })
    }

    /// Where its data lies, if that is known.
    pub(super) fn data(&self) -> Option<PathBuf> {
        self.own.as_ref().map(Own::data)
    }

    /// Entries that its shards have applied since they exist.
    pub(super) async fn applied(&self) -> Result<u64, Error> {
        let health: Value = self.clients[0].send(&Call::get(["v1", "health"])).await?.read()?;
        let shards = health.get("shards").and_then(Value::as_array);
        Ok(shards.into_iter().flatten().map(|shard| number(shard, "applied")).sum())
    }

    /// Executions that are not over; none if a node was named, for it speaks only of the shards that it leads.
    pub(super) async fn active(&self) -> Result<Option<u64>, Error> {
        if self.own.is_none() {
            return Ok(None);
        }
        let mut active = 0;
        for client in &self.clients {
            let health: Value = client.send(&Call::get(["v1", "health"])).await?.read()?;
            active += number(&health, "active_executions");
        }
        Ok(Some(active))
    }

    /// What it says it is.
    pub(super) async fn version(&self) -> String {
        let health = self.clients[0].once(&Call::get(["v1", "health"])).await.and_then(|answer| answer.read::<Value>());
        let version = health.ok().and_then(|health| health.get("runtime_version")?.as_str().map(str::to_owned));
        version.unwrap_or_default()
    }

    /// Bytes that all processes have caused to be written to storage.
    pub(super) fn written_bytes(&self) -> Option<u64> {
        self.sum(written_bytes)
    }

    /// Memory of all processes that is in RAM.
    pub(super) fn rss_bytes(&self) -> Option<u64> {
        self.sum(rss_bytes)
    }

    /// Time that all processes have had on a processor.
    pub(super) fn cpu_time(&self) -> Option<Duration> {
        self.sum(cpu_time)
    }

    fn sum<T: std::iter::Sum>(&self, of: impl Fn(u32) -> Option<T>) -> Option<T> {
        if self.pids.is_empty() { None } else { self.pids.iter().map(|pid| of(*pid)).sum() }
    }

    /// Stops what was started here.
    pub(super) async fn stop(self) {
        if let Some(own) = self.own {
            own.stop().await;
        }
    }
}
