//! What a bad end undoes: exactly what happened or may have, in the right order, each once (I22).
//!
//! The rule is that of a bad end of the root (language L6), for documents without nested blocks: unknown units first,
//! the one first scheduled last, then those that succeeded, the last one first.

use std::collections::BTreeSet;

use crate::{Event, Fault, Faults, History};

const UNDO: &str = "compensate:";

/// The step of a unit: `ship` of `ship[3]`.
fn base(unit: &str) -> &str {
    unit.split_once(['[', '#']).map_or(unit, |(step, _)| step)
}

/// Compensations of one history; `compensated` are the steps whose document says how they are undone.
#[must_use]
pub fn check(history: &History, compensated: &[&str]) -> Vec<Fault> {
    let mut faults = Faults::of(&history.execution_id);
    let started: Vec<&Event> = history.of_kind("CompensationStarted").filter(|event| event.step().is_empty()).collect();
    let listed: Vec<&str> =
        started.iter().flat_map(|event| event.0["steps"].as_array()).flatten().filter_map(|s| s.as_str()).collect();
    let closing = history.of_kind("StepClosing").find(|event| event.step().is_empty());
    if let Some(closing) = closing.filter(|closing| !["done", "continued"].contains(&closing.text("reason"))) {
        let until = started.first().map_or_else(|| closing.seq(), |first| first.seq());
        let due = due(history, compensated, until);
        // A history that has not come so far shows nothing yet.
        if (!started.is_empty() || history.end().is_some()) && !forced(history) && listed != due {
            faults.add("I22", format!("it undoes {listed:?}, due is {due:?}"));
        }
    }
    each_once_in_order(history, &listed, &mut faults);
    faults.found()
}

fn forced(history: &History) -> bool {
    history.of_kind("CancelRequested").any(|event| event.0["force"] == true)
}

/// What is to be undone, in its order, as of an event.
fn due<'a>(history: &'a History, compensated: &[&str], until: u64) -> Vec<&'a str> {
    let before = || history.events.iter().take_while(|event| event.seq() < until);
    let ours = |unit: &str| compensated.contains(&base(unit));
    let mut succeeded: Vec<&str> =
        before().filter(|e| e.kind() == "StepSucceeded" && ours(e.step())).map(Event::step).collect();
    let may_have_happened =
        |e: &Event| e.kind() == "StepAttemptUncertain" || e.kind() == "StepAttemptFailed" && e.0["unknown"] == true;
    let unknown: BTreeSet<&str> = before()
        .filter(|e| may_have_happened(e) && ours(e.step()) && !succeeded.contains(&e.step()))
        .map(Event::step)
        .collect();
    let mut due: Vec<&str> = Vec::new();
    for event in before().filter(|e| e.kind() == "StepScheduled" && unknown.contains(e.step())) {
        if !due.contains(&event.step()) {
            due.push(event.step());
        }
    }
    due.reverse();
    succeeded.reverse();
    due.extend(succeeded);
    due
}

/// Each listed one is undone once, one after the other; nothing else is.
fn each_once_in_order(history: &History, listed: &[&str], faults: &mut Faults<'_>) {
    let begun = |unit: &str| history.of_kind("StepScheduled").find(|e| e.step().strip_prefix(UNDO) == Some(unit));
    let is_end = |e: &&Event, unit: &str| match e.kind() {
        "StepSucceeded" => e.step().strip_prefix(UNDO) == Some(unit),
        "CompensationFailed" => e.step() == unit,
        _ => false,
    };
    let mut before: Option<(&str, u64)> = None;
    for unit in listed {
        let ends: Vec<u64> = history.events.iter().filter(|e| is_end(e, unit)).map(Event::seq).collect();
        if ends.len() > 1 || ends.is_empty() && history.end().is_some() && !forced(history) {
            faults.add("I22", format!("{unit} is undone {} times", ends.len()));
        }
        if let (Some((earlier, ended)), Some(begun)) = (before, begun(unit))
            && begun.seq() < ended
            && base(earlier) != base(unit)
        {
            faults.add("I22", format!("the undo of {unit} begins before that of {earlier} has ended"));
        }
        before = Some((unit, ends.first().copied().unwrap_or(u64::MAX)));
    }
    let inner = history.of_kind("CompensationStarted").any(|event| !event.step().is_empty());
    for event in history.of_kind("StepScheduled") {
        if let Some(unit) = event.step().strip_prefix(UNDO)
            && !listed.contains(&unit)
            && !inner
        {
            faults.add("I22", format!("{unit} is undone at {} and was not to be", event.seq()));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::history::written::{broken, history};

    const ALL: [&str; 3] = ["a", "b", "c"];

    /// `a` and `b` succeeded, `c` is unknown, then the root fails and undoes `listed`, in the order of `undone`.
    fn failed(listed: &[&str], undone: &[&'static str]) -> History {
        let none = Value::Null;
        let mut events = vec![
            ("StepScheduled", "a", none.clone()),
            ("StepSucceeded", "a", none.clone()),
            ("StepScheduled", "b", none.clone()),
            ("StepScheduled", "c", none.clone()),
            ("StepAttemptUncertain", "c", none.clone()),
            ("StepSucceeded", "b", none.clone()),
            ("StepClosing", "", json!({"reason": "failed"})),
            ("CompensationStarted", "", json!({"steps": listed})),
        ];
        for unit in undone {
            events.push(("StepScheduled", unit, none.clone()));
            events.push(("StepSucceeded", unit, none.clone()));
        }
        events.push(("WorkflowFailed", "", none));
        history(&events)
    }

    const RIGHT: [&str; 3] = ["compensate:c", "compensate:b", "compensate:a"];

    #[test]
    fn the_right_order_is_good() {
        assert_eq!(check(&failed(&["c", "b", "a"], &RIGHT), &ALL), []);
    }

    #[test]
    fn a_wrong_list_is_found() {
        for listed in [&["b", "a", "c"][..], &["c", "a", "b"], &["c", "b"], &[]] {
            assert!(!check(&failed(listed, &[]), &ALL).is_empty(), "{listed:?}");
        }
        let none_begun = history(&[
            ("StepSucceeded", "a", Value::Null),
            ("StepClosing", "", json!({"reason": "failed"})),
            ("WorkflowFailed", "", Value::Null),
        ]);
        assert_eq!(broken(&check(&none_begun, &ALL)), ["I22"]);
        assert_eq!(check(&none_begun, &[]), [], "nothing of it can be undone");
    }

    #[test]
    fn an_undo_left_out_or_done_twice_is_found() {
        assert_eq!(broken(&check(&failed(&["c", "b", "a"], &RIGHT[..2]), &ALL)), ["I22"]);
        let twice = [&RIGHT[..], &["compensate:a"]].concat();
        assert_eq!(broken(&check(&failed(&["c", "b", "a"], &twice), &ALL)), ["I22"]);
    }

    #[test]
    fn undos_in_another_order_than_listed_are_found() {
        let swapped = ["compensate:b", "compensate:c", "compensate:a"];
        assert_eq!(broken(&check(&failed(&["c", "b", "a"], &swapped), &ALL)), ["I22"]);
    }

    #[test]
    fn an_undo_that_was_not_due_is_found() {
        let events = [("StepScheduled", "compensate:a", Value::Null), ("WorkflowCompleted", "", Value::Null)];
        assert_eq!(broken(&check(&history(&events), &ALL)), ["I22"]);
    }
}
