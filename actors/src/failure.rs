//! What callers are told when something did not work.

use orbit_raft::state_store::PartOutcome;
use orbit_raft::{Applied, ProposeError, ReadError};
use serde_json::json;
use workflow::command::Refusal;
use workflow::contract::ValueFault;

use crate::error::{Code, Error};

/// Why a commit did not come through, if it did not.
pub(crate) fn of_commit(id: &str, outcome: Result<Applied, ProposeError>) -> Option<Error> {
    match outcome {
        Ok(applied) if applied.outcomes.iter().all(|part| *part == PartOutcome::Applied) => None,
        Ok(_) => Some(Error::new(Code::NoLeader, "the execution has moved on under another leader; repeat the call")),
        Err(error) => Some(of_proposal(id, &error)),
    }
}

/// Why a proposal did not come through.
pub(crate) fn of_proposal(id: &str, error: &ProposeError) -> Error {
    let code = match error {
        ProposeError::NotLeader { .. } | ProposeError::Stopped => Code::NoLeader,
        ProposeError::OutcomeUnknown => Code::OutcomeUnknown,
        ProposeError::Overloaded => Code::Overloaded,
        ProposeError::TooLarge { .. } => Code::PayloadTooLarge,
        ProposeError::NotYet { .. } => Code::ClusterFormat,
        ProposeError::Malformed(_) => Code::Internal,
    };
    match code {
        Code::OutcomeUnknown => outcome_unknown(id),
        Code::NoLeader => Error::new(code, "no node leads the shard right now; repeat the call"),
        _ => Error::new(code, error.to_string()),
    }
}

/// It may have happened or not.
pub(crate) fn outcome_unknown(id: &str) -> Error {
    let message = "it is not known whether this was done; look at the execution, or repeat the call with its id";
    Error::new(Code::OutcomeUnknown, message).with_details(json!({ "execution_id": id }))
}

/// Another node leads, or none; nothing was done.
pub(crate) fn not_led() -> Error {
    Error::new(Code::NoLeader, "this node does not lead the shard; repeat the call")
}

/// The disk of the node that leads is full, and nobody else takes over; nothing was done.
pub(crate) fn disk_full() -> Error {
    let message = "the disk of the node that leads this shard is full; make room there, or raise its \
                   limits.disk_full_percent, then repeat the call";
    Error::new(Code::Overloaded, message).with_details(json!({ "reason": "DISK_FULL" }))
}

/// The disks of a quorum of the nodes that hold it are nearly used up; nothing was done.
pub(crate) fn read_only() -> Error {
    let message = "the disks of most nodes that hold this are nearly used up, so only deletions are taken; make room \
                   there, then repeat the call";
    Error::new(Code::Overloaded, message).with_details(json!({ "reason": "DISK_FULL" }))
}

/// The engine is being shut down; nothing was done.
pub(crate) fn going_away() -> Error {
    Error::new(Code::NoLeader, "this node is going away; ask another one")
}

/// Why a read did not come through.
pub(crate) fn of_read(error: &ReadError) -> Error {
    match error {
        ReadError::Overloaded => Error::new(Code::Overloaded, "too many reads are waiting; repeat it later"),
        _ => Error::new(Code::NoLeader, "no node leads the shard right now; repeat the call"),
    }
}

/// Stored rows cannot be read.
pub(crate) fn of_storage(error: impl std::fmt::Display) -> Error {
    Error::new(Code::StorageError, format!("stored data cannot be read: {error}"))
}

/// A command was refused.
pub(crate) fn of_refusal(refusal: &Refusal) -> Error {
    let code = match refusal {
        Refusal::Finished => Code::ExecutionFinished,
        Refusal::InvalidInput(_) => Code::InvalidInput,
        Refusal::UnknownSignal { .. } => Code::UnknownSignal,
        Refusal::InvalidSignal(_) => Code::InvalidSignal,
        Refusal::SignalBufferFull => Code::Overloaded,
        Refusal::NotRedrivable(_) => Code::NotRedrivable,
        Refusal::ReservedCode(_) | Refusal::NotReady | Refusal::NotDue | Refusal::NotInFlight => Code::InvalidRequest,
    };
    let error = Error::new(code, refusal.to_string());
    match refusal {
        Refusal::InvalidInput(faults) | Refusal::InvalidSignal(faults) => error.with_details(listed(faults)),
        _ => error,
    }
}

/// The faults of a value.
pub(crate) fn listed(faults: &[ValueFault]) -> serde_json::Value {
    let fault = |fault: &ValueFault| json!({ "path": fault.path, "message": fault.message });
    json!({ "faults": faults.iter().map(fault).collect::<Vec<_>>() })
}
