//! The nodes: who they are, who leaves, what they may write, whether what they hold is right.

use orbit_actors::api::{CheckReport, NodeSummary};
use orbit_actors::engine::raise::{Intent, Raised};
use orbit_actors::error::Result;
use orbit_raft::{Environment, Identity};
use serde::Serialize;

use super::audit::{self, Deed};
use super::caller::{Action, Caller, authorize};
use super::service::Service;

/// The nodes of a cluster.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)] // as in docs/api.md
pub struct ClusterState {
    pub cluster: uuid::Uuid,
    pub format: u32,
    pub nodes: Vec<NodeSummary>,
}

#[allow(missing_docs)] // as in docs/api.md
impl<E: Environment> Service<E> {
    pub async fn cluster(&self, caller: Caller) -> Result<ClusterState> {
        authorize(caller, Action::Inspect)?;
        let (engine, cluster) = (self.engine(), self.engine().identity().cluster);
        let nodes = engine.nodes().await?;
        Ok(ClusterState { cluster, format: engine.format()?, nodes })
    }

    pub fn identity(&self, caller: Caller) -> Result<Identity> {
        authorize(caller, Action::Inspect)?;
        Ok(self.engine().identity())
    }

    pub async fn leave(&self, caller: Caller, node: u64, lost: bool) -> Result<()> {
        authorize(caller, Action::Administer)?;
        let left = self.engine().leave(node, lost).await;
        audit::record(caller, Deed::Leave, &node.to_string(), &left);
        left
    }

    pub async fn raise(&self, caller: Caller, intent: Intent) -> Result<Raised> {
        authorize(caller, Action::Administer)?;
        let raised = self.engine().raise(intent).await;
        if intent == Intent::Do {
            audit::record(caller, Deed::Raise, &self.0.node, &raised);
        }
        raised
    }

    pub fn drain(&self, caller: Caller) -> Result<()> {
        authorize(caller, Action::Administer)?;
        audit::record(caller, Deed::Drain, &self.0.node, &Ok(()));
        self.0.drain.send_replace(true);
        Ok(())
    }

    pub async fn check(&self, caller: Caller, shard: Option<u32>) -> Result<CheckReport> {
        authorize(caller, Action::Administer)?;
        // One beyond all that can be: there is none, and that is said.
        let shard = shard.map(|shard| u16::try_from(shard).unwrap_or(u16::MAX));
        self.engine().check_cluster(shard).await
    }
}

/// What a raise is asked for, by what every surface calls `dry_run`.
pub(super) fn intent(dry_run: bool) -> Intent {
    if dry_run { Intent::Try } else { Intent::Do }
}
