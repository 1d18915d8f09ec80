//! A worker reports that a task succeeded.
//!
//! A success counts for **any** token ever issued while the unit is unresolved: the work really happened, whoever was
//! asked last. Afterwards, and while the unit itself closes, it is stale: noted in the history, changing nothing (L5).

use super::result::digest;
use super::{Command, Refusal, ResultAnswer, Token, Turn};
use crate::event::{ResultKind, StepSucceeded, TaskError};
use crate::key::Key;
use crate::state::{Unit, Work};
use crate::value::Payload;

/// A success.
#[derive(Debug)]
pub struct Complete<'a> {
    /// The hand-over.
    pub token: &'a Token,
    /// The worker's JSON.
    pub output: Payload,
}

impl Command for Complete<'_> {
    type Answer = ResultAnswer;

    fn decide(self, turn: &mut Turn<'_>) -> Result<ResultAnswer, Refusal> {
        let digest = digest("complete", &[self.output.as_str()]);
        let Self { token, output } = self;
        Ok(turn.first_result(token, digest, |turn, key, attempt| turn.completed(key, token, attempt, output)))
    }
}

impl Turn<'_> {
    fn completed(&mut self, key: &Key, token: &Token, attempt: u32, output: Payload) -> ResultAnswer {
        let Some(unit) = self.unit(key) else { return ResultAnswer::refused("unknown token") };
        if unit.is_resolved() || self.state().closing(key).is_some() {
            return self.stale(key, token, ResultKind::Success);
        }
        let in_flight = unit.token == Some(token.seq);
        match self.refuse_output(key, unit, &output) {
            None => {
                self.emit(StepSucceeded { step: key.clone(), attempt, output: Some(output) });
                ResultAnswer::accepted()
            }
            Some(fault) if in_flight => {
                let answer = ResultAnswer::refused(&fault.code);
                self.attempt_failed(key, fault, true);
                answer
            }
            Some(_) => self.stale(key, token, ResultKind::Success),
        }
    }

    /// An output that breaks the contract or the limit ends the attempt; it may have happened all the same.
    fn refuse_output(&self, key: &Key, unit: &Unit, output: &Payload) -> Option<TaskError> {
        let Some(Work::Task(queue)) = &unit.work else { return None };
        let most = self.limits().output_bytes_max;
        if output.len() > most {
            let message = format!("the output has {} bytes, at most {most} are taken", output.len());
            return Some(TaskError::permanent("PAYLOAD_TOO_LARGE", message));
        }
        let contract = self.definition().tasks.get(&queue.task)?.output.as_ref()?;
        let faults = contract.check(output).err()?;
        let what = format!("the output of {} for {key}", queue.task);
        Some(crate::decide::violation("OUTPUT_CONTRACT_VIOLATION", &what, &faults))
    }
}
