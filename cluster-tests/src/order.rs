//! A history is 1..n without a gap, in the order of time, and ends once (I13, I14).

use crate::{Fault, Faults, History};

/// Seqs, times and the end.
#[must_use]
pub fn check(history: &History) -> Vec<Fault> {
    let mut faults = Faults::of(&history.execution_id);
    for (index, event) in history.events.iter().enumerate() {
        let due = index as u64 + 1;
        if event.seq() != due {
            faults.add("I13", format!("event {} stands where {due} is due", event.seq()));
        }
    }
    for pair in history.events.windows(2) {
        let [earlier, later] = pair else { continue };
        if later.at_ms() < earlier.at_ms() {
            faults.add("I13", format!("event {} is older than {}", later.seq(), earlier.seq()));
        }
        if earlier.is_terminal() && later.kind() != "WorkflowRedriven" {
            faults.add("I14", format!("{} comes after {}", later.kind(), earlier.kind()));
        }
    }
    if history.events.first().is_none_or(|first| first.kind() != "WorkflowCreated") {
        faults.add("I13", "it does not begin with WorkflowCreated");
    }
    if history.of_kind("WorkflowCreated").count() > 1 {
        faults.add("I12", "it was created twice");
    }
    faults.found()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::history::written::{broken, history};

    fn good() -> History {
        let none = Value::Null;
        history(&[
            ("WorkflowCreated", "", none.clone()),
            ("WorkflowStarted", "", none.clone()),
            ("WorkflowCompleted", "", none),
        ])
    }

    #[test]
    fn a_good_one_passes() {
        assert_eq!(check(&good()), []);
    }

    #[test]
    fn a_gap_a_repetition_and_a_swap_are_found() {
        let mut gap = good();
        gap.events.remove(1);
        assert_eq!(broken(&check(&gap)), ["I13"]);
        let mut twice = good();
        twice.events.insert(1, twice.events[1].clone());
        assert!(broken(&check(&twice)).contains(&"I13"));
        let mut swapped = good();
        swapped.events.swap(0, 1);
        assert!(check(&swapped).len() >= 3, "two seqs, a time, the beginning");
    }

    #[test]
    fn time_that_goes_back_is_found() {
        let mut back = good();
        back.events[2].0["timestamp_ms"] = json!(3);
        assert_eq!(broken(&check(&back)), ["I13"]);
    }

    #[test]
    fn an_event_after_the_end_is_found_unless_it_is_a_redrive() {
        let none = Value::Null;
        let two = history(&[
            ("WorkflowCreated", "", none.clone()),
            ("WorkflowFailed", "", none.clone()),
            ("WorkflowCompleted", "", none.clone()),
        ]);
        assert_eq!(broken(&check(&two)), ["I14"]);
        let redriven = history(&[
            ("WorkflowCreated", "", none.clone()),
            ("WorkflowFailed", "", none.clone()),
            ("WorkflowRedriven", "", none.clone()),
            ("WorkflowCompleted", "", none),
        ]);
        assert_eq!(check(&redriven), []);
    }

    #[test]
    fn a_second_creation_is_found() {
        let none = Value::Null;
        let twice = history(&[("WorkflowCreated", "", none.clone()), ("WorkflowCreated", "", none)]);
        assert_eq!(broken(&check(&twice)), ["I12"]);
    }
}
