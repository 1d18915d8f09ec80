//! What must hold of every run at any moment, whatever the document says.

use super::live::Live;
use super::report::{self, Difference};
use crate::decide;
use crate::state::Execution;

/// Histories up to this length are checked after every command, longer ones after some: a check costs as much as the
/// history is long.
const EVENTS_MAX: usize = 300;

pub(super) fn is_worth_it(live: &Live) -> bool {
    live.history.len() <= EVENTS_MAX || live.history.len().is_multiple_of(97)
}

/// History is the truth: folding it gives the state, nothing more follows from that, and it is sound.
pub(super) fn fault(live: &Live, now_ms: u64) -> Option<Difference> {
    let (run, state) = (&live.run, live.run.state());
    let fault = |expected: &str, came: String| {
        let what = format!("the engine, {} at {}", run.execution_id(), report::duration(now_ms));
        Some(Difference::new(what, expected, came))
    };
    if Execution::fold(&live.history) != *state {
        return fault("the state that the history adds up to", "another one".to_owned());
    }
    if let Some(event) = decide::next_event(run.definition(), state, run.execution_id(), now_ms) {
        return fault("nothing more to decide", event.to_string());
    }
    let faults = state.check();
    if faults.is_empty() { None } else { fault("a sound state", faults.join("; ")) }
}
