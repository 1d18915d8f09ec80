//! A timer never fires before its time, and at most once (I18).

use std::collections::BTreeMap;

use crate::{Fault, Faults, History};

/// What a unit whose timer this is is called; a `deadline:` or a `grace:` belongs to the step behind it.
fn owner(timer: &str) -> &str {
    timer.strip_prefix("deadline:").or_else(|| timer.strip_prefix("grace:")).unwrap_or(timer)
}

/// Timers of one history: those of sleeps and time-outs, and those of retries.
#[must_use]
pub fn check(history: &History) -> Vec<Fault> {
    let mut faults = Faults::of(&history.execution_id);
    // When it is due, and whether it is that of a retry.
    let mut armed: BTreeMap<&str, (u64, bool)> = BTreeMap::new();
    for event in &history.events {
        let step = event.step();
        match event.kind() {
            "TimerStarted" | "RetryScheduled" => {
                armed.insert(step, (event.number("fire_at_ms"), event.kind() == "RetryScheduled"));
            }
            "TimerFired" => match armed.remove(step) {
                None => faults.add("I18", format!("the timer of {step} fires at {} and is not armed", event.seq())),
                Some((due, _)) if event.at_ms() < due => {
                    let early = due - event.at_ms();
                    faults.add("I18", format!("the timer of {step} fires {early} ms early at {}", event.seq()));
                }
                Some(_) => {}
            },
            "StepScheduled" => {
                if let Some((_, true)) = armed.remove(step) {
                    faults.add("I18", format!("{step} is tried again at {} before its delay is over", event.seq()));
                }
            }
            // An operator does not wait for delays.
            "WorkflowRedriven" => armed.clear(),
            _ if event.resolves() => armed.retain(|timer, _| owner(timer) != step),
            _ => {}
        }
    }
    // What succeeded by time alone needs its timer to have fired.
    for event in history.of_kind("TimerStarted").filter(|event| owner(event.step()) == event.step()) {
        let step = event.step();
        let fired = history.of_kind("TimerFired").any(|fired| fired.step() == step);
        let opened = history.of_kind("StepOpened").any(|opened| opened.step() == step);
        let succeeded = history.of_kind("StepSucceeded").any(|done| done.step() == step);
        if succeeded && !fired && !opened {
            faults.add("I18", format!("{step} is over without its timer"));
        }
    }
    faults.found()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::history::written::{broken, history};

    fn due(at: u64) -> Value {
        json!({"fire_at_ms": at})
    }

    fn found(events: &[(&str, &str, Value)]) -> Vec<&'static str> {
        broken(&check(&history(events)))
    }

    #[test]
    fn a_sleep_and_a_retry_in_time_are_good() {
        let none = Value::Null;
        let events = [
            ("TimerStarted", "nap", due(1_001)),
            ("TimerFired", "nap", none.clone()),
            ("StepSucceeded", "nap", none.clone()),
            ("RetryScheduled", "a", due(1_004)),
            ("TimerFired", "a", none.clone()),
            ("StepScheduled", "a", none.clone()),
            ("TimerStarted", "deadline:a", due(9_000)),
            ("StepSucceeded", "a", none),
        ];
        assert_eq!(found(&events), [""; 0]);
    }

    #[test]
    fn an_early_timer_is_found() {
        assert_eq!(found(&[("TimerStarted", "nap", due(1_002)), ("TimerFired", "nap", Value::Null)]), ["I18"]);
        assert_eq!(found(&[("RetryScheduled", "a", due(1_002)), ("TimerFired", "a", Value::Null)]), ["I18"]);
    }

    #[test]
    fn a_timer_that_fires_twice_or_unarmed_is_found() {
        let none = Value::Null;
        let twice = [
            ("TimerStarted", "nap", due(1_000)),
            ("TimerFired", "nap", none.clone()),
            ("TimerFired", "nap", none.clone()),
        ];
        assert_eq!(found(&twice), ["I18"]);
        let late = [
            ("TimerStarted", "deadline:a", due(1_000)),
            ("StepSucceeded", "a", none.clone()),
            ("TimerFired", "deadline:a", none),
        ];
        assert_eq!(found(&late), ["I18"]);
    }

    #[test]
    fn a_retry_without_its_delay_and_a_sleep_without_its_timer_are_found() {
        assert_eq!(found(&[("RetryScheduled", "a", due(1_000)), ("StepScheduled", "a", Value::Null)]), ["I18"]);
        assert_eq!(found(&[("TimerStarted", "nap", due(1_000)), ("StepSucceeded", "nap", Value::Null)]), ["I18"]);
    }
}
