//! What a run that is not over waits for.

use super::live::Live;
use crate::definition::Kind;
use crate::key::{self, Key};
use crate::state::{Status, Unit, Work};

/// Units that are named; the rest is counted.
const SHOWN_MAX: usize = 5;

/// `prepare~1.offers.fast (its mock never answers)`, in the order in which they began; empty: nothing.
/// `until` tells that the case stopped looking, rather than that nothing more would have happened.
pub(super) fn waiting_for(live: &Live, until: bool) -> String {
    let state = live.run.state();
    let mut units: Vec<_> = state.units.iter().filter(|(_, unit)| !unit.status.is_resolved()).collect();
    units.sort_by_key(|(_, unit)| unit.since);
    let mut named: Vec<_> =
        units.into_iter().filter_map(|(key, unit)| Some(format!("{key} ({})", why(live, key, unit, until)?))).collect();
    if live.is_paused() {
        named.insert(0, "a resume (it is paused)".to_owned());
    }
    let more = named.len().saturating_sub(SHOWN_MAX);
    named.truncate(SHOWN_MAX);
    if more > 0 {
        named.push(format!("{more} more"));
    }
    named.join(", ")
}

/// Why it is not resolved; `None`: it waits for others that are named themselves.
fn why(live: &Live, key: &Key, unit: &Unit, until: bool) -> Option<String> {
    Some(match unit.status {
        Status::Suspended => {
            let code = unit.error.as_ref().map_or("", |error| error.code.as_str());
            format!("suspended: {code}")
        }
        Status::Dispatched if until => "its mock has not answered yet".to_owned(),
        Status::Dispatched => "its mock never answers".to_owned(),
        Status::Scheduled => match &unit.work {
            Some(Work::Child(child)) => format!("its child {} is not over", child.id),
            _ => "nobody has taken it yet".to_owned(),
        },
        Status::Waiting => "asleep".to_owned(),
        Status::RetryWait => "tried again later".to_owned(),
        Status::Open => return awaited(live, key, unit),
        _ => return None,
    })
}

/// The signals that an open wait takes.
fn awaited(live: &Live, key: &Key, unit: &Unit) -> Option<String> {
    let segment = key::last_segment(key);
    let step = live.run.definition().step_named(segment.id)?;
    let Kind::Await(wait) = &step.kind else { return None };
    // A `for` or `repeat` over it waits for its parts.
    let container = unit.fan_out.is_some() || step.repeat.is_some() && segment.iteration.is_none();
    (!container).then(|| format!("no signal {} has come", wait.signals.join(" or ")))
}
