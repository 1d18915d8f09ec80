//! What the nodes of a cluster may write and whom they speak with, while not all of them know everything.
//!
//! A cluster has a *format*, a number that only the layers above give a meaning to. They say here, in one place, which
//! parts a leader may propose under it. The greeting between nodes tells how far each of them knows; who does not know
//! the format of the cluster is not spoken with, because it could not read what it is sent.

use std::sync::{Arc, OnceLock};

use orbit_proto::peer::Hello;
use orbit_proto::store::Part;

use crate::types::GroupId;

/// What a binary knows; told to every peer in the greeting.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Knows {
    /// Its version.
    pub version: String,
    /// The newest format of a cluster that it knows.
    pub format: u32,
    /// The versions of the rules by which it decides.
    pub rules: Vec<u32>,
}

/// Says what may be written.
pub trait Gate: Send + Sync + 'static {
    /// The format of the cluster, as far as this node knows.
    fn format(&self) -> u32;

    /// Why parts may not be proposed to a group under the present format; nothing if they may.
    fn refusal(&self, group: GroupId, parts: &[Part]) -> Option<String>;
}

/// The gate of a node, once the layers above have set it; before that everything may pass.
#[derive(Clone, Default)]
pub(crate) struct Gated(Arc<OnceLock<Arc<dyn Gate>>>);

impl std::fmt::Debug for Gated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Gated").field(&self.0.get().map(|gate| gate.format())).finish()
    }
}

impl Gated {
    /// Sets it, once in the life of a node.
    pub(crate) fn set(&self, gate: Arc<dyn Gate>) {
        // A second one is a mistake of the caller, and the first one stands.
        let set = self.0.set(gate);
        debug_assert!(set.is_ok(), "the gate of a node is set once");
    }

    pub(crate) fn refusal(&self, group: GroupId, parts: &[Part]) -> Option<String> {
        self.0.get()?.refusal(group, parts)
    }

    /// Why a peer is not spoken with; nothing if it is.
    pub(crate) fn refuses_peer(&self, hello: &Hello) -> Option<String> {
        let format = self.0.get()?.format();
        // Versions that do not say it know the first format.
        let knows = hello.format.max(1);
        (knows < format).then(|| {
            format!(
                "node {} (version {}) knows formats up to {knows}, the cluster has format {format}: start it with a \
                 newer version",
                hello.node_id,
                if hello.version.is_empty() { "unknown" } else { &hello.version },
            )
        })
    }
}
