//! What callers and workers were told, kept outside of what is tested, against the histories (I11, I15, I17, I21).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::history::HandOver;
use crate::{Event, Fault, Faults, History, family, signal};

/// A start that was acknowledged.
#[derive(Debug, Clone)]
pub struct Start {
    /// The workflow.
    pub workflow: String,
    /// What it was given; the document fills in no defaults.
    pub input: Value,
    /// How often an answer said `created: true`.
    pub created: u32,
}

/// A task as a worker received it.
#[derive(Debug, Clone)]
pub struct Received {
    /// Who.
    pub worker_id: String,
    /// The unit.
    pub unit: String,
    /// Which attempt.
    pub attempt: u64,
    /// Whether it was told that this attempt may have been handed over before.
    pub redelivery: bool,
    /// The key that services know repetitions by.
    pub idempotency_key: String,
    /// What it got.
    pub input: Value,
    /// What it reported, once it did.
    pub result: Option<Outcome>,
    /// Whether the report was accepted, once that was answered.
    pub answered: Option<bool>,
}

/// What a worker reported.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// A success with this output.
    Success(Value),
    /// A failure with this code.
    Failure(String),
}

/// All of it.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    /// Acknowledged starts by execution id.
    pub starts: BTreeMap<String, Start>,
    /// Received tasks by token.
    pub tasks: BTreeMap<String, Received>,
    /// Answered cancels by execution id: acknowledged, or refused because it is over.
    pub cancels: BTreeMap<String, bool>,
    /// Signals that were sent, by execution id: all names, and the accepted ones in their order.
    pub signals: BTreeMap<String, (BTreeSet<String>, Vec<String>)>,
    /// Ends that a caller has read, as the type of the last event.
    pub ends: BTreeMap<String, String>,
    /// Histories that a caller has read on the way.
    pub read: Vec<History>,
    /// Results that were answered again, and otherwise than before.
    pub contradictions: Vec<Fault>,
}

impl Ledger {
    /// A result was answered. The same answer again is good: a repetition.
    pub fn answered(&mut self, token: &str, accepted: bool) {
        let Some(task) = self.tasks.get_mut(token) else { return };
        if task.answered.is_some_and(|before| before != accepted) {
            let execution_id = HandOver::of(token).map_or_else(String::new, |of| of.execution_id);
            let what = format!("the result of {} was answered {accepted} after {}", task.unit, !accepted);
            self.contradictions.push(Fault { invariant: "I17", execution_id, what });
        }
        task.answered.get_or_insert(accepted);
    }

    /// Everything that was told, against all histories by execution id.
    #[must_use]
    pub fn check(&self, histories: &BTreeMap<String, History>) -> Vec<Fault> {
        let mut found = self.contradictions.clone();
        for (id, start) in &self.starts {
            found.extend(start.check(id, histories.get(id)));
        }
        found.extend(self.ends_stand(histories));
        found.extend(family::check(histories));
        for (id, (sent, accepted)) in &self.signals {
            found.extend(histories.get(id).map(|history| signal::check(history, accepted, sent)).unwrap_or_default());
        }
        for earlier in &self.read {
            let later = histories.get(&earlier.execution_id).map_or(&[][..], |later| &later.events);
            if !later.starts_with(&earlier.events) {
                let mut faults = Faults::of(&earlier.execution_id);
                faults.add("I13", format!("{} events that were read once are no longer so", earlier.events.len()));
                found.extend(faults.found());
            }
        }
        found.extend(self.told_again());
        let mut keys: BTreeMap<&str, (String, &str)> = BTreeMap::new();
        for (token, task) in &self.tasks {
            let Some(named) = HandOver::of(token) else {
                let what = format!("a task has the token {token}, which is none");
                found.push(Fault { invariant: "I26", execution_id: String::new(), what });
                continue;
            };
            let unit = (named.execution_id.clone(), task.unit.as_str());
            let owner = keys.entry(&task.idempotency_key).or_insert_with(|| unit.clone());
            if *owner != unit {
                let what = format!("{} and {owner:?} have one idempotency key", task.unit);
                found.push(Fault { invariant: "I15", execution_id: unit.0.clone(), what });
            }
            found.extend(task.check(&named, histories.get(&named.execution_id)));
        }
        found
    }
}

impl Ledger {
    /// Whoever is handed an attempt that was handed over before is told so.
    fn told_again(&self) -> Vec<Fault> {
        let mut attempts: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (token, task) in &self.tasks {
            // A token that is none is found elsewhere.
            let Some(named) = HandOver::of(token) else { continue };
            let attempt = (named.execution_id, named.run, task.unit.as_str(), task.attempt);
            attempts.entry(attempt).or_default().push((named.seq, task.redelivery));
        }
        let mut found = Vec::new();
        for ((id, _, unit, attempt), mut hand_overs) in attempts {
            hand_overs.sort_unstable();
            let mut faults = Faults::of(&id);
            for (seq, _) in hand_overs.iter().skip(1).filter(|(_, redelivery)| !redelivery) {
                let before = hand_overs[0].0;
                faults.add("I15", format!("attempt {attempt} of {unit} came at {before} and at {seq}, without a word"));
            }
            found.extend(faults.found());
        }
        found
    }

    /// An end that was read stays, and a cancel that was acknowledged is how it ended.
    fn ends_stand(&self, histories: &BTreeMap<String, History>) -> Vec<Fault> {
        let mut found = Vec::new();
        let end = |id: &String| histories.get(id).and_then(History::end).map_or("", Event::kind);
        for (id, acknowledged) in &self.cancels {
            let mut faults = Faults::of(id);
            if (end(id) == "WorkflowCancelled") != *acknowledged {
                faults.add("I21", format!("its cancel was answered {acknowledged}, and it ended {:?}", end(id)));
            }
            found.extend(faults.found());
        }
        for (id, told) in &self.ends {
            let mut faults = Faults::of(id);
            if end(id) != told {
                faults.add("I14", format!("{told} was read, and it ended {:?}", end(id)));
            }
            found.extend(faults.found());
        }
        found
    }
}

impl Start {
    fn check(&self, id: &str, history: Option<&History>) -> Vec<Fault> {
        let mut faults = Faults::of(id);
        if self.created > 1 {
            faults.add("I12", format!("it was created {} times", self.created));
        }
        match history.and_then(|history| history.events.first()) {
            None => faults.add("I11", "its start was acknowledged, and it is not there"),
            Some(first) => {
                if first.text("workflow") != self.workflow || first.0["input"] != self.input {
                    faults.add("I11", format!("it began as {}, acknowledged was {self:?}", first.0));
                }
            }
        }
        faults.found()
    }
}

impl Received {
    fn check(&self, named: &HandOver, history: Option<&History>) -> Vec<Fault> {
        let mut faults = Faults::of(&named.execution_id);
        let unit = &self.unit;
        let Some(history) = history else {
            faults.add("I6", format!("{unit} was handed over, and the execution is not there"));
            return faults.found();
        };
        let dispatched = history.events.iter().find(|event| event.seq() == named.seq);
        let as_told = dispatched.is_some_and(|event| {
            event.kind() == "StepDispatched"
                && (event.step(), event.attempt()) == (unit.as_str(), self.attempt)
                && event.text("worker_id") == self.worker_id
        });
        if !as_told {
            let there = dispatched.map(|event| &event.0);
            faults.add("I6", format!("{unit} was handed over at {}, where {there:?} stands", named.seq));
        }
        let of_unit = || history.events.iter().filter(|event| event.step() == unit);
        let scheduled = || of_unit().filter(|event| event.kind() == "StepScheduled");
        if scheduled().next().is_none_or(|event| event.text("idempotency_key") != self.idempotency_key) {
            faults.add("I15", format!("{unit} was handed over with the key {}", self.idempotency_key));
        }
        if scheduled().next().is_none_or(|event| event.0["input"] != self.input) {
            faults.add("I15", format!("{unit} was handed over with the input {}", self.input));
        }
        if self.answered == Some(true) {
            self.counts(named, &of_unit().collect::<Vec<_>>(), &mut faults);
        }
        faults.found()
    }

    /// An accepted result is in the history, once, and is this one.
    fn counts(&self, named: &HandOver, of_unit: &[&Event], faults: &mut Faults<'_>) {
        let after = of_unit.iter().filter(|event| event.seq() > named.seq);
        let unit = &self.unit;
        match &self.result {
            None => faults.add("I17", format!("a result of {unit} was answered that nobody reported")),
            Some(Outcome::Success(output)) => {
                let all: Vec<_> = after.filter(|event| event.kind() == "StepSucceeded").collect();
                let credited = |event: &&&Event| event.attempt() == self.attempt && event.0["output"] == *output;
                if all.len() != 1 || !all.first().is_some_and(credited) {
                    faults.add("I17", format!("{unit} was accepted with {output}, and the history has {all:?}"));
                }
            }
            Some(Outcome::Failure(code)) => {
                // A failure counts only for the hand-over in flight: it is the next thing that happens to the unit.
                let next = after.into_iter().next();
                let credited = next.is_some_and(|event| {
                    event.kind() == "StepAttemptFailed"
                        && event.attempt() == self.attempt
                        && event.0["error"]["code"] == **code
                });
                if !credited {
                    faults.add("I17", format!("{unit} was accepted as failed {code}; next came {next:?}"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::history::written::{broken, history, token};

    fn run() -> History {
        history(&[
            ("WorkflowCreated", "", json!({"workflow": "w", "input": {"n": 1}})),
            ("StepScheduled", "a", json!({"attempt": 1, "idempotency_key": "k", "input": 7})),
            ("StepDispatched", "a", json!({"attempt": 1, "worker_id": "w1", "token": token(3)})),
            ("StepAttemptFailed", "a", json!({"attempt": 1, "error": {"code": "BUSY"}})),
            ("StepScheduled", "a", json!({"attempt": 2, "idempotency_key": "k"})),
            ("StepDispatched", "a", json!({"attempt": 2, "worker_id": "w1", "token": token(6)})),
            ("StepSucceeded", "a", json!({"attempt": 2, "output": "out"})),
        ])
    }

    fn received(attempt: u64, result: Outcome) -> Received {
        Received {
            worker_id: "w1".into(),
            unit: "a".into(),
            attempt,
            redelivery: false,
            idempotency_key: "k".into(),
            input: json!(7),
            result: Some(result),
            answered: Some(true),
        }
    }

    fn ledger() -> Ledger {
        let start = Start { workflow: "w".into(), input: json!({"n": 1}), created: 1 };
        let first = received(1, Outcome::Failure("BUSY".into()));
        let second = received(2, Outcome::Success(json!("out")));
        Ledger {
            starts: [("x".to_owned(), start)].into(),
            tasks: [(token(3), first), (token(6), second)].into(),
            ..Ledger::default()
        }
    }

    fn found(ledger: &Ledger, history: Option<History>) -> Vec<&'static str> {
        broken(&ledger.check(&history.map(|history| ("x".to_owned(), history)).into_iter().collect()))
    }

    fn with(change: impl FnOnce(&mut Ledger)) -> Ledger {
        let mut ledger = ledger();
        change(&mut ledger);
        ledger
    }

    #[test]
    fn what_was_told_and_is_there_is_good() {
        assert_eq!(found(&ledger(), Some(run())), [""; 0]);
    }

    #[test]
    fn a_lost_or_changed_start_is_found() {
        assert_eq!(found(&ledger(), None), ["I11", "I6", "I6"]);
        let other = with(|ledger| ledger.starts.get_mut("x").unwrap().input = json!({"n": 2}));
        assert_eq!(found(&other, Some(run())), ["I11"]);
        let twice = with(|ledger| ledger.starts.get_mut("x").unwrap().created = 2);
        assert_eq!(found(&twice, Some(run())), ["I12"]);
    }

    #[test]
    fn a_second_hand_over_without_a_word_is_found() {
        let again = |redelivery| {
            with(|ledger| {
                let again = Received { redelivery, answered: None, ..ledger.tasks[&token(6)].clone() };
                ledger.tasks.insert(token(7), again);
            })
        };
        // A place where something else stands is found anyway.
        assert_eq!(found(&again(true), Some(run())), ["I6"]);
        assert_eq!(found(&again(false), Some(run())), ["I15", "I6"]);
    }

    #[test]
    fn a_lost_success_is_found() {
        let mut lost = run();
        lost.events.pop();
        assert_eq!(found(&ledger(), Some(lost)), ["I17"]);
        let mut other = run();
        other.events[6].0["output"] = json!("another");
        assert_eq!(found(&ledger(), Some(other)), ["I17"]);
    }

    #[test]
    fn a_success_accepted_twice_is_found() {
        let twice = with(|ledger| {
            let mut again = received(1, Outcome::Success(json!("out")));
            again.attempt = 1;
            ledger.tasks.insert(token(3), again);
        });
        assert_eq!(found(&twice, Some(run())), ["I17"]);
    }

    #[test]
    fn a_lost_failure_is_found() {
        let mut lost = run();
        lost.events[3].0["type"] = json!("StepAttemptUncertain");
        assert_eq!(found(&ledger(), Some(lost)), ["I17"]);
    }

    #[test]
    fn a_result_without_an_answer_may_be_there_or_not() {
        let unanswered = with(|ledger| ledger.tasks.values_mut().for_each(|task| task.answered = None));
        let mut lost = run();
        lost.events.pop();
        assert_eq!(found(&unanswered, Some(lost)), [""; 0]);
        assert_eq!(found(&unanswered, Some(run())), [""; 0]);
    }

    #[test]
    fn a_hand_over_that_the_history_does_not_know_is_found() {
        let mut lost = run();
        lost.events[5].0["worker_id"] = json!("another");
        assert_eq!(found(&ledger(), Some(lost)), ["I6"]);
    }

    #[test]
    fn another_key_or_input_is_found() {
        let key = with(|ledger| ledger.tasks.get_mut(&token(3)).unwrap().idempotency_key = "l".into());
        assert_eq!(found(&key, Some(run())), ["I15"]);
        let input = with(|ledger| ledger.tasks.get_mut(&token(6)).unwrap().input = json!(8));
        assert_eq!(found(&input, Some(run())), ["I15"]);
        let shared = with(|ledger| {
            let mut other = received(1, Outcome::Failure("BUSY".into()));
            (other.unit, other.answered) = ("b".into(), None);
            ledger.tasks.insert(token(2), other);
        });
        assert!(found(&shared, Some(run())).contains(&"I15"));
    }

    #[test]
    fn a_cancel_and_an_end_that_do_not_stand_are_found() {
        let mut over = run();
        over.events.push(Event(json!({"seq": 8, "timestamp_ms": 2_000, "type": "WorkflowCompleted", "step": ""})));
        let id = || "x".to_owned();
        let refused = with(|ledger| _ = ledger.cancels.insert(id(), false));
        assert_eq!(found(&refused, Some(over.clone())), [""; 0]);
        let acknowledged = with(|ledger| _ = ledger.cancels.insert(id(), true));
        assert_eq!(found(&acknowledged, Some(over.clone())), ["I21"]);
        let read = with(|ledger| _ = ledger.ends.insert(id(), "WorkflowCompleted".into()));
        assert_eq!(found(&read, Some(over.clone())), [""; 0]);
        assert_eq!(found(&read, Some(run())), ["I14"]);
        let other = with(|ledger| _ = ledger.ends.insert(id(), "WorkflowFailed".into()));
        assert_eq!(found(&other, Some(over)), ["I14"]);
    }

    #[test]
    fn a_history_that_was_read_and_changed_is_found() {
        let mut part = run();
        part.events.truncate(4);
        let read = with(|ledger| ledger.read.push(part.clone()));
        assert_eq!(found(&read, Some(run())), [""; 0]);
        part.events[3].0["error"] = json!({"code": "OTHER"});
        let read = with(|ledger| ledger.read.push(part));
        assert_eq!(found(&read, Some(run())), ["I13"]);
    }

    #[test]
    fn answers_that_contradict_each_other_are_found() {
        let same = with(|ledger| ledger.answered(&token(6), true));
        assert_eq!(found(&same, Some(run())), [""; 0]);
        let other = with(|ledger| ledger.answered(&token(6), false));
        assert_eq!(found(&other, Some(run())), ["I17"]);
    }
}
