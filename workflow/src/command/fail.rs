//! A worker reports that a task failed.
//!
//! A failure counts only for the token in flight; a later one is stale (L5, I16).

use super::result::digest;
use super::{Command, Refusal, ResultAnswer, Token, Turn};
use crate::event::{ResultKind, TaskError, is_own_code};
use crate::state::{Unit, Work};
use crate::value::Payload;

/// A failure.
#[derive(Debug)]
pub struct Fail<'a> {
    /// The hand-over.
    pub token: &'a Token,
    /// Why; none of Orbit's own codes, except from a built-in.
    pub error: TaskError,
    /// It may have happened all the same.
    pub unknown: bool,
}

impl Command for Fail<'_> {
    type Answer = ResultAnswer;

    fn decide(self, turn: &mut Turn<'_>) -> Result<ResultAnswer, Refusal> {
        let Self { token, error, unknown } = self;
        let unit = turn.run.hand_over(token).and_then(|hand_over| turn.unit(&hand_over.unit));
        if is_own_code(&error.code) && !unit.is_some_and(is_built_in) {
            return Err(Refusal::ReservedCode(error.code));
        }
        let details = error.details.as_ref().map_or("", Payload::as_str);
        let flags = format!("{} {unknown}", error.retryable);
        let digest = digest("fail", &[&error.code, &error.message, details, &flags]);
        Ok(turn.first_result(token, digest, |turn, key, _| {
            if turn.unit(key).is_none_or(|unit| unit.token != Some(token.seq)) {
                return turn.stale(key, token, ResultKind::Failure);
            }
            turn.attempt_failed(key, error, unknown);
            ResultAnswer::accepted()
        }))
    }
}

fn is_built_in(unit: &Unit) -> bool {
    matches!(&unit.work, Some(Work::Task(queue)) if queue.task.starts_with("orbit."))
}
