//! Nothing is decided or handed over for a while (L10).

use super::{Command, Refusal, Turn};
use crate::event::{WorkflowPaused, WorkflowResumed};

/// Results and signals are taken, nothing follows from them.
#[derive(Debug)]
pub struct Pause;

impl Command for Pause {
    type Answer = ();

    fn decide(self, turn: &mut Turn<'_>) -> Result<(), Refusal> {
        if turn.state().is_over() {
            return Err(Refusal::Finished);
        }
        if !turn.state().head.paused {
            turn.emit(WorkflowPaused {});
        }
        Ok(())
    }
}

/// Deciding goes on.
#[derive(Debug)]
pub struct Resume;

impl Command for Resume {
    type Answer = ();

    fn decide(self, turn: &mut Turn<'_>) -> Result<(), Refusal> {
        if turn.state().head.paused {
            turn.emit(WorkflowResumed {});
        }
        Ok(())
    }
}
