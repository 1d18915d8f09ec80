//! The root: what ends a run, and its end.

use super::events::{closing_badly, closing_failed};
use super::place::Node;
use super::{Outcome, Walk, Walked, next};
use crate::event::{
    CloseReason, Event, TaskError, WorkflowCancelled, WorkflowCompleted, WorkflowContinuedAsNew, WorkflowFailed,
    WorkflowTimedOut,
};
use crate::key::ROOT;
use crate::value::Payload;

impl Walk<'_> {
    /// Force, time-out and cancel, event handlers to start, then the root block.
    pub(super) fn visit_root(&mut self) -> Walked<Option<Node>> {
        let head = &self.state.head;
        if head.force {
            // Ends now, whatever is closing (L10, L16).
            return next(self.cancelled());
        }
        if self.state.closing(ROOT).is_none() {
            if head.timed_out {
                return next(closing_badly(ROOT, CloseReason::Timeout, None));
            }
            if head.cancel.is_some() {
                return next(closing_badly(ROOT, CloseReason::Cancelled, None));
            }
            if self.history_is_full() {
                let error = TaskError::permanent("HISTORY_LIMIT", format!("the history has {} events", head.seq));
                return next(closing_failed(ROOT, error));
            }
            self.start_event_handlers()?;
        }
        Ok(self.block(ROOT)?.map(|_| Node::End))
    }

    fn history_is_full(&self) -> bool {
        let (head, limits) = (&self.state.head, self.limits);
        head.seq >= limits.history_events_max || head.history_bytes >= limits.history_bytes_max
    }

    /// End handlers, then the terminal event.
    pub(super) fn visit_end(&mut self) -> Walked {
        let Some(outcome) = self.block(ROOT)? else { return Ok(()) };
        if self.state.head.handlers_running > 0 {
            return Ok(());
        }
        let reason = self.state.closing(ROOT).map_or(CloseReason::Done, |closing| closing.reason);
        if reason == CloseReason::Continued {
            return next(self.continued(outcome));
        }
        if !self.end_handlers(reason, &outcome)? {
            return Ok(());
        }
        next(self.terminal(reason, outcome))
    }

    fn terminal(&self, reason: CloseReason, outcome: Outcome) -> Event {
        let unconsumed_signals = self.state.head.unconsumed_signals;
        let compensation = self.state.compensation();
        match (reason, outcome) {
            (CloseReason::Cancelled, _) => self.cancelled().into(),
            (CloseReason::Timeout, _) => WorkflowTimedOut { compensation, unconsumed_signals }.into(),
            (_, Ok(output)) => {
                WorkflowCompleted { output: output.unwrap_or_else(Payload::null), unconsumed_signals }.into()
            }
            (_, Err(error)) => {
                let error = error.unwrap_or_else(|| TaskError::permanent("INTERNAL", "no reason given"));
                WorkflowFailed { error, compensation, unconsumed_signals }.into()
            }
        }
    }

    fn cancelled(&self) -> WorkflowCancelled {
        let unconsumed_signals = self.state.head.unconsumed_signals;
        WorkflowCancelled { compensation: self.state.compensation(), unconsumed_signals }
    }

    fn continued(&self, outcome: Outcome) -> WorkflowContinuedAsNew {
        WorkflowContinuedAsNew {
            run: self.state.head.run + 1,
            input: outcome.ok().flatten().unwrap_or_else(Payload::null),
            unconsumed_signals: self.state.head.unconsumed_signals,
        }
    }
}
