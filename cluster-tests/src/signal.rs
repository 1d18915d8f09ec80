//! Each accepted signal once, in order per sender, none invented (I19).

use std::collections::BTreeSet;

use crate::{Fault, Faults, History};

/// The signals that one sender was told are accepted, in its order, by the names that it gave them; and all that it
/// ever sent. Nobody else sends to this execution.
#[must_use]
pub fn check(history: &History, accepted: &[String], sent: &BTreeSet<String>) -> Vec<Fault> {
    let mut faults = Faults::of(&history.execution_id);
    let names = history.of_kind("SignalReceived").map(|event| event.text("dedup_id"));
    let there: Vec<&str> = names.collect();
    let mut seen = BTreeSet::new();
    for name in &there {
        if !seen.insert(*name) {
            faults.add("I19", format!("signal {name} is there twice"));
        }
        if !sent.contains(*name) {
            faults.add("I19", format!("signal {name} was never sent"));
        }
    }
    let mut rest = there.iter();
    for name in accepted {
        if !rest.any(|there| there == name) {
            let how = if seen.contains(name.as_str()) { "out of order" } else { "lost" };
            faults.add("I19", format!("signal {name} was accepted and is {how}"));
            break;
        }
    }
    faults.found()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::history::written::{broken, history};

    fn received(names: &[&str]) -> History {
        let events: Vec<_> = names.iter().map(|name| ("SignalReceived", "", json!({"dedup_id": name}))).collect();
        history(&events)
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn found(there: &[&str], accepted: &[&str]) -> Vec<&'static str> {
        let sent = names(&["a", "b", "c"]).into_iter().collect();
        broken(&check(&received(there), &names(accepted), &sent))
    }

    #[test]
    fn good_ones_pass() {
        assert!(found(&["a", "b", "c"], &["a", "b", "c"]).is_empty());
        assert!(found(&["a", "b", "c"], &["a", "c"]).is_empty(), "one whose answer was lost");
        assert!(found(&["a"], &["a"]).is_empty());
    }

    #[test]
    fn lost_doubled_invented_and_swapped_ones_are_found() {
        assert_eq!(found(&["a", "c"], &["a", "b", "c"]), ["I19"]);
        assert_eq!(found(&["a", "b", "b"], &["a", "b"]), ["I19"]);
        assert_eq!(found(&["a", "x"], &["a"]), ["I19"]);
        assert_eq!(found(&["b", "a"], &["a", "b"]), ["I19"]);
    }
}
