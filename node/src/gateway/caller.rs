//! Who asks, and whether he may.

use orbit_actors::error::Result;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// Whoever reaches the node. There is no credential, so the node listens where only this machine reaches it.
    Open,
}

impl std::fmt::Display for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Open => f.write_str("open"),
        }
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Registering workflows.
    Deploy,
    /// Starting executions.
    Start,
    /// Finding executions and workflows.
    List,
    /// Looking at one.
    Read,
    /// Telling executions something.
    Signal,
    /// Asking executions what their queries give.
    Query,
    /// Stopping executions.
    Cancel,
    /// Halting executions, and letting them go on.
    Pause,
    /// Letting what has failed go on.
    Redrive,
    /// Removing executions that are over.
    Delete,
    /// Getting tasks and reporting results.
    Work,
    /// Looking at the node.
    Inspect,
    /// Changing the nodes of the cluster.
    Administer,
}

/// Whether a caller may do this: the one place where that is decided.
///
/// # Errors
/// He may not.
pub fn authorize(caller: Caller, action: Action) -> Result<()> {
    match (caller, action) {
        (Caller::Open, _) => Ok(()),
    }
}
