//! An operator lets a failed run go on, or moves suspended units (L10). What moves is written into the event, so that
//! the fold needs no definition.

use std::collections::HashSet;

use super::{Command, Refusal, Turn};
use crate::event::{RedriveAction, WorkflowRedriven};
use crate::key::{self, COMPENSATE, Key, ROOT};
use crate::plant::{Plant, planted};
use crate::state::{Execution, RunStatus, Status};
use crate::value::Payload;

/// Moves failed, cancelled and suspended units.
#[derive(Debug)]
pub struct Redrive {
    /// Which; none named: all.
    pub steps: Option<Vec<Key>>,
    /// How.
    pub action: RedriveAction,
    /// What resolved ones yield.
    pub output: Option<Payload>,
}

impl Command for Redrive {
    type Answer = ();

    fn decide(self, turn: &mut Turn<'_>) -> Result<(), Refusal> {
        let state = turn.state();
        if state.head.status == RunStatus::Running {
            return self.move_suspended(turn);
        }
        if !matches!(state.head.status, RunStatus::Failed | RunStatus::TimedOut) {
            return Err(Refusal::NotRedrivable("only a failed or timed-out execution goes on"));
        }
        if !state.undo_lists.is_empty() {
            return Err(Refusal::NotRedrivable("something has been undone"));
        }
        if state.head.parent.is_some() {
            return Err(Refusal::NotRedrivable("the parent has been told of the end"));
        }
        let all = reopened(state, ROOT);
        let retries = self.action == RedriveAction::Retry;
        if self.steps.iter().flatten().any(|key| !all.contains(key)) {
            return Err(Refusal::NotRedrivable("a named step neither failed nor was cancelled"));
        }
        if self.action == RedriveAction::Fail {
            return Err(Refusal::NotRedrivable("it is over; only a suspended step of one that runs can be failed"));
        }
        if self.steps.is_none() && !retries {
            // Nobody means that everything which failed or was cancelled has one and the same output.
            return Err(Refusal::NotRedrivable("of an execution that is over, name the steps that are resolved"));
        }
        let by_hand = if retries { Vec::new() } else { outermost(self.steps.unwrap_or_default()) };
        // What lies within a step that an operator resolves stays as it ended: nothing there is to begin again.
        let tried_again =
            all.into_iter().filter(|key| !by_hand.iter().any(|named| named != key && key::is_under(key, named)));
        turn.emit(WorkflowRedriven { steps: tried_again.collect(), action: RedriveAction::Retry, output: None });
        if !by_hand.is_empty() {
            let output = resolved_output(self.action, self.output);
            turn.emit(WorkflowRedriven { steps: by_hand, action: self.action, output });
        }
        Ok(())
    }
}

impl Redrive {
    fn move_suspended(self, turn: &mut Turn<'_>) -> Result<(), Refusal> {
        let state = turn.state();
        let mut steps = self
            .steps
            .unwrap_or_else(|| by_first_event(state.units.iter().filter(|(_, unit)| unit.status == Status::Suspended)));
        let is_suspended = |key: &Key| state.unit(key).is_some_and(|unit| unit.status == Status::Suspended);
        if steps.is_empty() {
            return Err(Refusal::NotRedrivable("it runs, and nothing in it is suspended"));
        }
        if !steps.iter().all(is_suspended) {
            return Err(Refusal::NotRedrivable(
                "a named step is not suspended: name it by its whole key, as `show` does",
            ));
        }
        if self.action == RedriveAction::Retry {
            if steps.iter().any(|key| is_touched(state, key)) {
                return Err(Refusal::NotRedrivable("a part of it has been undone: resolve or fail it"));
            }
            let with_inside = |key: &Key| {
                if key::is_undo(key) { vec![key.clone()] } else { reopened(state, key) }
            };
            steps = steps.iter().flat_map(with_inside).collect();
        }
        turn.emit(WorkflowRedriven { steps, action: self.action, output: resolved_output(self.action, self.output) });
        Ok(())
    }
}

fn resolved_output(action: RedriveAction, output: Option<Payload>) -> Option<Payload> {
    (action == RedriveAction::Resolve).then(|| output.unwrap_or_else(Payload::null))
}

/// Without what lies within another of them.
fn outermost(mut steps: Vec<Key>) -> Vec<Key> {
    let named: HashSet<Key> = steps.iter().cloned().collect();
    steps.retain(|key| !key::chain(key).skip(1).any(|around| named.contains(around)));
    steps
}

fn by_first_event<'a>(units: impl Iterator<Item = (&'a Key, &'a crate::state::Unit)>) -> Vec<Key> {
    let mut units: Vec<_> = units.map(|(key, unit)| (unit.since, key.clone())).collect();
    units.sort();
    units.into_iter().map(|(_, key)| key).collect()
}

/// A failed block with `retry` opens a new attempt.
fn opens_anew(state: &Execution, key: &str) -> bool {
    state.unit(key).is_some_and(|unit| {
        unit.status != Status::Cancelled && state.closing(&format!("{key}~{}", unit.attempt)).is_some()
    })
}

/// Undone, itself or a part of it: only a block with `retry` can begin anew (L16).
fn is_touched(state: &Execution, key: &str) -> bool {
    !key.starts_with(COMPENSATE)
        && !opens_anew(state, key)
        && state.undos.under(key).any(|(_, undo)| undo.outcome.is_some())
}

/// What failed unhandled, was cancelled or is suspended at or below `top`, not inside something that succeeded, was
/// handled or opens a new attempt; in the order of first events.
fn reopened(state: &Execution, top: &str) -> Vec<Key> {
    let (mut out, mut closed): (Vec<Key>, HashSet<Key>) = (Vec::new(), Default::default());
    for key in by_first_event(state.units.under(top)) {
        let Some(unit) = state.unit(&key) else { continue };
        if key::chain(&key).skip(1).any(|around| closed.contains(around)) {
            continue;
        }
        let stays = match unit.status {
            Status::Succeeded => !planted(Plant::RedriveSucceeded),
            Status::Skipped => true,
            Status::Failed => unit.handled,
            Status::Suspended => &*key != top,
            _ => false,
        };
        if stays || opens_anew(state, &key) {
            closed.insert(key.clone());
        }
        if !stays {
            out.push(key);
        }
    }
    out
}
