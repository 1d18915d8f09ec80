//! Results of workers: the first counts, the same again is answered as the first time (L5).

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Token, Turn};
use crate::event::{
    ResultKind, StaleResultIgnored, StepAttemptFailed, StepAttemptUncertain, TaskError, UncertainReason,
};
use crate::key::Key;
use crate::plant::{Plant, planted};
use crate::state::Unit;

/// The first result for a hand-over, remembered until retention, so also after the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstResult {
    digest: [u8; 32],
    answer: ResultAnswer,
}

/// What a worker is told about its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultAnswer {
    /// Whether it counts.
    pub accepted: bool,
    /// Why not.
    pub reason: Option<String>,
}

impl ResultAnswer {
    pub(super) fn accepted() -> Self {
        Self { accepted: true, reason: None }
    }

    pub(super) fn refused(reason: &str) -> Self {
        Self { accepted: false, reason: Some(reason.to_owned()) }
    }
}

/// The digest that tells one result of a hand-over from another.
pub(super) fn digest(kind: &str, parts: &[&str]) -> [u8; 32] {
    let mut hash = Sha256::new_with_prefix(kind);
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

impl Turn<'_> {
    /// The answer to a result of `token`: as the first time, or what `take` makes of it now.
    pub(super) fn first_result(
        &mut self,
        token: &Token,
        digest: [u8; 32],
        take: impl FnOnce(&mut Self, &Key, u32) -> ResultAnswer,
    ) -> ResultAnswer {
        if let Some(first) = self.run.results.get(&token.seq)
            && first.digest == digest
            && self.run.hand_over(token).is_some()
        {
            return first.answer.clone();
        }
        let Some(hand_over) = self.run.hand_over(token) else { return ResultAnswer::refused("unknown token") };
        let (unit, attempt) = (hand_over.unit.clone(), hand_over.attempt);
        let answer = if self.state().is_over() {
            ResultAnswer::refused("the execution is over")
        } else {
            take(self, &unit, attempt)
        };
        if !self.run.results.contains(&token.seq) && !planted(Plant::DedupForgotten) {
            self.run.results.insert(token.seq, FirstResult { digest, answer: answer.clone() });
        }
        answer
    }

    pub(super) fn unit(&self, key: &str) -> Option<&Unit> {
        self.state().unit(key)
    }

    /// A result that changes nothing. If the unit closes itself and this result was waited for, the wait is over.
    pub(super) fn stale(&mut self, key: &Key, token: &Token, outcome: ResultKind) -> ResultAnswer {
        self.emit(StaleResultIgnored { step: key.clone(), token: token.to_string(), outcome });
        let waited_for = self.unit(key).filter(|unit| unit.token == Some(token.seq)).map(|unit| unit.attempt);
        if let (Some(attempt), Some(_)) = (waited_for, self.state().closing(key)) {
            self.emit(StepAttemptUncertain { step: key.clone(), attempt, reason: UncertainReason::Stopped });
        }
        ResultAnswer::refused("too late")
    }

    pub(super) fn attempt_failed(&mut self, key: &Key, error: TaskError, unknown: bool) {
        let attempt = self.unit(key).map_or(1, |unit| unit.attempt);
        let unknown = unknown || TaskError::leaves_outcome_unknown(&error.code);
        self.emit(StepAttemptFailed { step: key.clone(), attempt, error, unknown });
    }
}
