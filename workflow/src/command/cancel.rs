//! Somebody asks to cancel (L10).

use super::{Command, Refusal, Turn};
use crate::event::{CancelRequested, WorkflowResumed};
use crate::key::ROOT;
use crate::state::RunStatus;

/// Closes the root; idempotent.
#[derive(Debug)]
pub struct Cancel {
    /// Why.
    pub reason: String,
    /// End now, without undo.
    pub force: bool,
}

impl Command for Cancel {
    type Answer = ();

    fn decide(self, turn: &mut Turn<'_>) -> Result<(), Refusal> {
        let state = turn.state();
        match state.head.status {
            RunStatus::Running => {}
            RunStatus::Cancelled => return Ok(()),
            _ => return Err(Refusal::Finished),
        }
        let paused = state.head.paused;
        if self.force || state.closing(ROOT).is_none() && state.head.cancel.is_none() {
            turn.emit(CancelRequested { reason: self.reason, force: self.force });
        }
        // A force ends now, nothing between (L16).
        if paused && !self.force {
            turn.emit(WorkflowResumed {});
        }
        Ok(())
    }
}
