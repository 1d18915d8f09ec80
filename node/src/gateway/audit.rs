//! The audit log: who changed what, as lines of the node's log with the target `orbit::audit`.
//!
//! Written are the calls of operators that cannot be taken back, or that reach many executions: a cancel with force, a
//! delete, the start and the stop of a batch, the removal and the drain of a node, the raise of the format of
//! the cluster. A line is written once the outcome
//! is known, also of what failed.

use orbit_actors::api::BatchAction;
use orbit_actors::error::Result;

use super::caller::Caller;

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// An execution was ended without undoing anything.
    ForceCancel,
    /// An execution was removed.
    Delete,
    /// An action on many began.
    StartBatch(&'static str),
    /// It was stopped.
    StopBatch,
    /// A node was removed from the cluster.
    Leave,
    /// The format of the cluster was raised.
    Raise,
    /// A node was told to go away.
    Drain,
}

/// The word for what a batch does to each execution.
pub(super) fn verb(action: &BatchAction) -> &'static str {
    match action {
        BatchAction::Cancel { force: true, .. } => "force-cancel",
        BatchAction::Cancel { .. } => "cancel",
        BatchAction::Pause => "pause",
        BatchAction::Resume => "resume",
        BatchAction::Redrive { .. } => "redrive",
        BatchAction::Signal { .. } => "signal",
        BatchAction::Delete => "delete",
    }
}

/// Writes down what a caller did, or tried to do, to an execution or a batch.
pub(super) fn record<T>(caller: Caller, deed: Deed, id: &str, result: &Result<T>) {
    let outcome = match result {
        Ok(_) => "DONE",
        Err(error) => error.code.as_str(),
    };
    match deed {
        Deed::ForceCancel => {
            tracing::info!(target: "orbit::audit", action = "force-cancel", execution_id = id, %caller, outcome);
        }
        Deed::Delete => tracing::info!(target: "orbit::audit", action = "delete", execution_id = id, %caller, outcome),
        Deed::StartBatch(of_each) => {
            tracing::info!(target: "orbit::audit", action = "batch-start", of_each, batch_id = id, %caller, outcome);
        }
        Deed::Leave => tracing::info!(target: "orbit::audit", action = "leave", node = id, %caller, outcome),
        Deed::Raise => tracing::info!(target: "orbit::audit", action = "raise", node = id, %caller, outcome),
        Deed::Drain => tracing::info!(target: "orbit::audit", action = "drain", node = id, %caller, outcome),
        Deed::StopBatch => {
            tracing::info!(target: "orbit::audit", action = "batch-stop", batch_id = id, %caller, outcome);
        }
    }
}
