//! One live token per unit, no hand-over after the success, one key, attempts that never fall (I15, I26).

use std::collections::BTreeMap;

use crate::history::HandOver;
use crate::{Event, Fault, Faults, History};

/// What a unit has come to so far.
#[derive(Default)]
struct Unit<'a> {
    /// The attempt that waits for a hand-over.
    scheduled: Option<u64>,
    /// Place of the hand-over that is live.
    live: Option<u64>,
    succeeded: bool,
    attempt: u64,
    key: Option<&'a str>,
}

/// Hand-overs of one history.
#[must_use]
pub fn check(history: &History) -> Vec<Fault> {
    let mut faults = Faults::of(&history.execution_id);
    let mut units: BTreeMap<&str, Unit<'_>> = BTreeMap::new();
    let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
    for event in &history.events {
        let unit = units.entry(event.step()).or_default();
        match event.kind() {
            "StepScheduled" => {
                scheduled(event, unit, &mut faults);
                let owner = owners.entry(event.text("idempotency_key")).or_insert(event.step());
                if *owner != event.step() {
                    faults.add("I15", format!("{} and {owner} have one idempotency key", event.step()));
                }
            }
            "StepDispatched" => dispatched(history, event, unit, &mut faults),
            "StepAttemptFailed" | "StepAttemptUncertain" | "StepFailed" | "StepCancelled" | "StepSuspended" => {
                (unit.live, unit.scheduled) = (None, None);
            }
            "StepSucceeded" => {
                if unit.succeeded {
                    faults.add("I15", format!("{} succeeded twice", event.step()));
                }
                (unit.live, unit.scheduled, unit.succeeded) = (None, None, true);
            }
            _ => {}
        }
    }
    faults.found()
}

fn scheduled<'a>(event: &'a Event, unit: &mut Unit<'a>, faults: &mut Faults<'_>) {
    let step = event.step();
    if unit.succeeded {
        faults.add("I15", format!("{step} is scheduled again after its success"));
    }
    if let Some(live) = unit.live {
        faults.add("I26", format!("{step} is scheduled at {} while the hand-over at {live} is live", event.seq()));
    }
    if event.attempt() < unit.attempt {
        faults.add("I15", format!("attempt {} of {step} comes after {}", event.attempt(), unit.attempt));
    }
    let key = event.text("idempotency_key");
    if key.is_empty() || unit.key.is_some_and(|known| known != key) {
        faults.add("I15", format!("{step} has the key {key:?} at {}, before {:?}", event.seq(), unit.key));
    }
    (unit.attempt, unit.key, unit.scheduled) = (event.attempt(), Some(key), Some(event.attempt()));
}

fn dispatched(history: &History, event: &Event, unit: &mut Unit<'_>, faults: &mut Faults<'_>) {
    let (step, seq) = (event.step(), event.seq());
    if unit.succeeded {
        faults.add("I15", format!("{step} is handed over at {seq} after its success"));
    }
    if let Some(live) = unit.live {
        faults.add("I26", format!("{step} is handed over at {seq} while the hand-over at {live} is live"));
    }
    if unit.scheduled.take() != Some(event.attempt()) {
        faults.add("I26", format!("attempt {} of {step} is handed over at {seq}, not scheduled", event.attempt()));
    }
    let named = HandOver::of(event.text("token"));
    let own = HandOver { execution_id: history.execution_id.clone(), run: history.run, seq };
    if named != Some(own) {
        faults.add("I26", format!("the token of {step} at {seq} names {named:?}"));
    }
    unit.live = Some(seq);
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::history::written::{broken, history, token};

    fn scheduled(step: &str, attempt: u64, key: &str) -> (&'static str, String, Value) {
        ("StepScheduled", step.to_owned(), json!({"attempt": attempt, "idempotency_key": key}))
    }

    fn dispatched(step: &str, attempt: u64, seq: u64) -> (&'static str, String, Value) {
        ("StepDispatched", step.to_owned(), json!({"attempt": attempt, "token": token(seq)}))
    }

    fn ended(kind: &'static str, step: &str) -> (&'static str, String, Value) {
        (kind, step.to_owned(), json!({"attempt": 1}))
    }

    fn found(events: &[(&'static str, String, Value)]) -> Vec<&'static str> {
        let events: Vec<_> = events.iter().map(|(kind, step, more)| (*kind, step.as_str(), more.clone())).collect();
        broken(&check(&history(&events)))
    }

    #[test]
    fn redelivery_and_retry_are_good() {
        let events = [
            scheduled("a", 1, "k"),
            dispatched("a", 1, 2),
            ended("StepAttemptUncertain", "a"),
            scheduled("a", 1, "k"),
            dispatched("a", 1, 5),
            ended("StepAttemptFailed", "a"),
            scheduled("a", 2, "k"),
            dispatched("a", 2, 8),
            ended("StepSucceeded", "a"),
            scheduled("b", 1, "l"),
        ];
        assert_eq!(found(&events), [""; 0]);
    }

    #[test]
    fn two_live_tokens_are_found() {
        let events = [scheduled("a", 1, "k"), dispatched("a", 1, 2), dispatched("a", 1, 3)];
        assert_eq!(found(&events), ["I26", "I26"]);
        let events = [scheduled("a", 1, "k"), dispatched("a", 1, 2), scheduled("a", 1, "k"), dispatched("a", 1, 4)];
        assert_eq!(found(&events), ["I26", "I26"]);
    }

    #[test]
    fn a_hand_over_after_the_success_is_found() {
        let done = [scheduled("a", 1, "k"), dispatched("a", 1, 2), ended("StepSucceeded", "a")];
        let again = [&done[..], &[scheduled("a", 1, "k"), dispatched("a", 1, 5)]].concat();
        assert_eq!(found(&again), ["I15", "I15"]);
        assert_eq!(found(&[&done[..], &[ended("StepSucceeded", "a")]].concat()), ["I15"]);
    }

    #[test]
    fn a_key_that_changes_or_is_shared_is_found() {
        let changed = [scheduled("a", 1, "k"), ended("StepAttemptFailed", "a"), scheduled("a", 2, "l")];
        assert_eq!(found(&changed), ["I15"]);
        assert_eq!(found(&[scheduled("a", 1, "k"), scheduled("b", 1, "k")]), ["I15"]);
    }

    #[test]
    fn an_attempt_that_falls_is_found() {
        let fallen = [scheduled("a", 2, "k"), ended("StepAttemptUncertain", "a"), scheduled("a", 1, "k")];
        assert_eq!(found(&fallen), ["I15"]);
    }

    #[test]
    fn a_hand_over_that_was_not_due_and_a_foreign_token_are_found() {
        assert_eq!(found(&[dispatched("a", 1, 1)]), ["I26"]);
        assert_eq!(found(&[scheduled("a", 1, "k"), dispatched("a", 2, 2)]), ["I26"]);
        assert_eq!(found(&[scheduled("a", 1, "k"), dispatched("a", 1, 7)]), ["I26"]);
    }
}
