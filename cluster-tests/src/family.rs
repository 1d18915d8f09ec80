//! Parent and child agree: one child per call, none without its parent, none left behind (I23).

use std::collections::BTreeMap;

use crate::{Event, Fault, Faults, History};

/// All parents and children among these histories by execution id.
#[must_use]
pub fn check(histories: &BTreeMap<String, History>) -> Vec<Fault> {
    let mut found = Vec::new();
    for (id, history) in histories {
        let mut faults = Faults::of(id);
        for call in calls(history) {
            agree(history, call, histories, &mut faults);
        }
        if let Some(parent) = history.events.first().map(|first| &first.0["parent"]).filter(|parent| !parent.is_null())
        {
            let called = parent["execution_id"].as_str().and_then(|of| histories.get(of)).is_some_and(|of| {
                calls(of).any(|call| call.0["child"]["id"] == id.as_str() && call.0["step"] == parent["step"])
            });
            if !called {
                faults.add("I23", format!("its parent {parent} has not called it"));
            }
        }
        found.extend(faults.found());
    }
    found
}

/// The ids of all children that a history calls.
pub fn children(history: &History) -> impl Iterator<Item = &str> {
    calls(history).filter_map(|call| call.0["child"]["id"].as_str())
}

fn calls(history: &History) -> impl Iterator<Item = &Event> {
    history.of_kind("StepScheduled").filter(|event| !event.0["child"].is_null())
}

fn agree(parent: &History, call: &Event, histories: &BTreeMap<String, History>, faults: &mut Faults<'_>) {
    let id = call.0["child"]["id"].as_str().unwrap_or_default();
    let of_call = |event: &&Event| event.step() == call.step() && event.attempt() == call.attempt();
    let mut outcome = parent.events.iter().filter(|event| event.seq() > call.seq()).filter(of_call);
    let outcome = outcome.find(|event| ["StepSucceeded", "StepAttemptFailed"].contains(&event.kind()));
    let child = histories.get(id);
    if let Some(child) = child.filter(|_| parent.end().is_some()) {
        // No orphan: who waits for nobody any more has nobody at work.
        if child.end().is_none() {
            faults.add("I23", format!("{} is over, and its child {id} is not", parent.execution_id));
        }
    }
    let Some(outcome) = outcome else { return };
    match child.and_then(History::end) {
        None => faults.add("I23", format!("{} was told of an end of {id} that is not there", call.step())),
        Some(end) => {
            let good = end.kind() == "WorkflowCompleted";
            if good != (outcome.kind() == "StepSucceeded") || (good && end.0["output"] != outcome.0["output"]) {
                faults.add("I23", format!("{id} ended with {}, and {} was told {}", end.0, call.step(), outcome.0));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::history::written::{broken, history};

    fn family() -> BTreeMap<String, History> {
        let none = Value::Null;
        let parent = history(&[
            ("WorkflowCreated", "", none.clone()),
            ("StepScheduled", "sub", json!({"attempt": 1, "child": {"id": "p.sub"}})),
            ("StepSucceeded", "sub", json!({"attempt": 1, "output": 7})),
            ("WorkflowCompleted", "", none),
        ]);
        let child = history(&[
            ("WorkflowCreated", "", json!({"parent": {"execution_id": "p", "step": "sub"}})),
            ("WorkflowCompleted", "", json!({"output": 7})),
        ]);
        let named = |id: &str, history: History| (id.to_owned(), History { execution_id: id.to_owned(), ..history });
        BTreeMap::from([named("p", parent), named("p.sub", child)])
    }

    #[test]
    fn a_good_one_passes() {
        assert_eq!(check(&family()), []);
        assert_eq!(children(&family()["p"]).collect::<Vec<_>>(), ["p.sub"]);
    }

    #[test]
    fn an_orphan_is_found() {
        let mut left_behind = family();
        left_behind.get_mut("p.sub").unwrap().events.pop();
        left_behind.get_mut("p").unwrap().events.remove(2);
        assert_eq!(broken(&check(&left_behind)), ["I23"]);
        let mut uncalled = family();
        uncalled.get_mut("p").unwrap().events.drain(1..3);
        assert_eq!(broken(&check(&uncalled)), ["I23"]);
    }

    #[test]
    fn another_answer_than_the_childs_is_found() {
        let mut other = family();
        other.get_mut("p").unwrap().events[2].0["output"] = json!(8);
        assert_eq!(broken(&check(&other)), ["I23"]);
        let mut early = family();
        early.remove("p.sub");
        assert_eq!(broken(&check(&early)), ["I23"]);
    }
}
