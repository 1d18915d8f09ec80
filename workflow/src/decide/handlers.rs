//! Handlers: blocks beside the steps, one per signal, and blocks at the end (L9).

use super::events::closing_badly;
use super::{Outcome, Walk, Walked, next};
use crate::event::{CloseReason, Failure, HandlerFinished, HandlerStarted};
use crate::key::{Key, ROOT};

impl Walk<'_> {
    /// A signal with a handler starts an instance of it, unless the root is closing.
    pub(super) fn start_event_handlers(&mut self) -> Walked {
        let facts = self.facts;
        let seq = self.memo.waiting.oldest_of(&facts, facts.definition.handlers.event.keys());
        let Some((seq, signal)) = seq.and_then(|seq| Some((seq, facts.state.signals.get(&seq)?))) else {
            return Ok(());
        };
        let step = Key::from(format!("on:event:{}@{seq}", signal.signal));
        next(HandlerStarted { step, event: Some(signal.payload.clone()), failure: None })
    }

    /// A bad end of the root closes running event handlers; a good end waits for them.
    pub(super) fn visit_event_handler(&mut self, handler: &str) -> Walked {
        if self.state.handlers.get(handler).is_none_or(|row| row.done) {
            return Ok(());
        }
        if let Some(closing) = self.state.closing(ROOT)
            && closing.reason.is_bad()
            && self.state.closing(handler).is_none()
        {
            return next(closing_badly(handler, closing.reason, closing.error.clone()));
        }
        self.handler(handler)
    }

    fn handler(&mut self, handler: &str) -> Walked {
        match self.block(handler)? {
            Some(Ok(result)) => next(HandlerFinished { step: Key::from(handler), result, error: None }),
            Some(Err(error)) => next(HandlerFinished { step: Key::from(handler), result: None, error }),
            None => Ok(()),
        }
    }

    /// `failure`, `cancel` or `timeout`, then `exit`. True when they are over.
    pub(super) fn end_handlers(&mut self, reason: CloseReason, outcome: &Outcome) -> Walked<bool> {
        let handlers = &self.definition.handlers;
        let by_reason = match reason {
            CloseReason::Failed => handlers.failure.as_ref().map(|_| "failure"),
            CloseReason::Cancelled => handlers.cancel.as_ref().map(|_| "cancel"),
            CloseReason::Timeout => handlers.timeout.as_ref().map(|_| "timeout"),
            _ => None,
        };
        let exit = handlers.exit.as_ref().map(|_| "exit");
        for name in by_reason.into_iter().chain(exit) {
            let handler = match self.state.head.ends {
                1 => format!("on:{name}"),
                end => format!("on:{name}~{end}"),
            };
            match self.state.handlers.get(&*handler) {
                None => {
                    let failure = outcome.as_ref().err().map(|error| failure(reason, error.as_ref()));
                    return next(HandlerStarted { step: Key::from(handler), event: None, failure });
                }
                Some(row) if !row.done => {
                    self.handler(&handler)?;
                    return Ok(false);
                }
                Some(_) => {}
            }
        }
        Ok(true)
    }
}

fn failure(reason: CloseReason, error: Option<&crate::event::TaskError>) -> Failure {
    Failure {
        reason,
        code: error.map(|error| error.code.clone()),
        message: error.map(|error| error.message.clone()),
        details: error.and_then(|error| error.details.clone()),
    }
}
