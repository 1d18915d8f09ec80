//! Which constructs of the language the cases have been through, and how often the run was dropped while one was open:
//! between two commands, then built again from its rows; inside a batch, then built again from its history.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value as Json;
use workflow::event::{Event, RedriveAction};
use workflow::key;
use workflow::state::{Execution, Status};

use super::outline::{Outline, Role};

/// How often each construct must have occurred, and have been open when the run was dropped.
const ENOUGH: u64 = 10;

/// When a construct was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    /// Something happened to it.
    Happens,
    /// The run was dropped between two commands while it was open.
    Between,
    /// The run was dropped inside a batch while it was open.
    Inside,
}

const MOMENTS: [Moment; 3] = [Moment::Happens, Moment::Between, Moment::Inside];

/// Every construct, and at how many of the moments it can be met: what begins and ends with one event is never open,
/// and while a run is paused no batch has an inside.
const CONSTRUCTS: &[(&str, usize)] = &[
    ("task", 3),
    ("workflow", 3),
    ("signal", 3),
    ("await", 3),
    ("await of several", 3),
    ("await where", 3),
    ("await until", 3),
    ("await timeout", 3),
    ("sleep", 3),
    ("sleep_until", 3),
    ("compute", 1),
    ("fail", 1),
    ("block", 3),
    ("done_when", 3),
    ("when, skipped", 1),
    ("for", 3),
    ("for concurrency", 3),
    ("for max_failures", 3),
    ("for done_when", 3),
    ("repeat", 3),
    ("repeat delay", 3),
    ("retry of a task", 3),
    ("retry of a block", 3),
    ("retry of a child", 3),
    ("retry of a signal", 3),
    ("waiting for a retry", 3),
    ("deadline", 3),
    ("deadline passed", 1),
    ("on_failure continue", 3),
    ("suspended", 3),
    ("compensate: task", 3),
    ("compensate: workflow", 3),
    ("compensate: signal", 3),
    ("compensate: retry", 3),
    ("compensate: always", 3),
    ("compensate: suspended", 3),
    ("closing", 3),
    ("handler: failure", 3),
    ("handler: cancel", 3),
    ("handler: timeout", 3),
    ("handler: exit", 3),
    ("handler: event", 3),
    ("buffered signal", 3),
    ("uncertain", 1),
    ("redelivery", 3),
    ("result too late", 1),
    ("pause", 2),
    ("cancel", 1),
    ("force", 1),
    ("time-out of the run", 1),
    ("continue_as_new", 1),
    ("redrive: retry", 1),
    ("redrive: resolve", 1),
    ("redrive: fail", 1),
];

/// How often each construct was met at each moment.
#[derive(Clone, Debug, Default)]
pub struct Constructs {
    met: BTreeMap<(&'static str, Moment), u64>,
}

impl Constructs {
    fn meet(&mut self, construct: &'static str, moment: Moment) {
        debug_assert!(CONSTRUCTS.iter().any(|(known, _)| *known == construct), "{construct} is in no row");
        *self.met.entry((construct, moment)).or_default() += 1;
    }

    fn times(&self, construct: &'static str, moment: Moment) -> u64 {
        self.met.get(&(construct, moment)).copied().unwrap_or(0)
    }

    /// Each construct and its events.
    #[allow(dead_code, reason = "the differential test asks")]
    pub fn events(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        CONSTRUCTS.iter().map(|(construct, _)| (*construct, self.times(construct, Moment::Happens)))
    }

    pub fn add(&mut self, other: &Self) {
        for (cell, times) in &other.met {
            *self.met.entry(*cell).or_default() += times;
        }
    }

    /// `event` happens.
    pub fn note(&mut self, outline: &Outline, event: &Event) {
        let special = match event {
            Event::StepSkipped(_) => Some("when, skipped"),
            Event::StepAttemptUncertain(_) => Some("uncertain"),
            Event::StepScheduled(e) if e.redelivery => Some("redelivery"),
            Event::StaleResultIgnored(_) => Some("result too late"),
            Event::StepSuspended(_) => Some("suspended"),
            Event::RetryScheduled(_) => Some("waiting for a retry"),
            Event::StepClosing(_) => Some("closing"),
            Event::TimerFired(e) if e.step.starts_with(key::DEADLINE) => Some("deadline passed"),
            Event::SignalReceived(_) => Some("buffered signal"),
            Event::WorkflowPaused(_) => Some("pause"),
            Event::CancelRequested(e) => Some(if e.force { "force" } else { "cancel" }),
            Event::WorkflowTimeoutReached(_) => Some("time-out of the run"),
            Event::WorkflowContinuedAsNew(_) => Some("continue_as_new"),
            Event::WorkflowRedriven(e) => Some(match e.action {
                RedriveAction::Retry => "redrive: retry",
                RedriveAction::Resolve => "redrive: resolve",
                RedriveAction::Fail => "redrive: fail",
            }),
            _ => None,
        };
        let of_step = event.step().map(|step| of_unit(outline, step)).unwrap_or_default();
        of_step.into_iter().chain(special).for_each(|construct| self.meet(construct, Moment::Happens));
    }

    /// The run is dropped while it stands at `state`.
    pub fn dropped(&mut self, outline: &Outline, state: &Execution, moment: Moment) {
        let mut open = BTreeSet::new();
        for (key, unit) in state.units.iter().filter(|(_, unit)| !unit.is_resolved()) {
            open.extend(of_unit(outline, key));
            open.extend((unit.status == Status::RetryWait).then_some("waiting for a retry"));
            open.extend((unit.redelivery && unit.status == Status::Scheduled).then_some("redelivery"));
            if unit.status == Status::Suspended {
                open.insert(if key::is_undo(key) { "compensate: suspended" } else { "suspended" });
            }
            open.extend(state.closing(key).map(|_| "closing"));
        }
        open.extend(state.head.paused.then_some("pause"));
        open.extend((state.head.unconsumed_signals > 0).then_some("buffered signal"));
        open.into_iter().for_each(|construct| self.meet(construct, moment));
    }

    /// What was met too rarely.
    pub fn missing(&self) -> Vec<String> {
        let cells = CONSTRUCTS.iter().flat_map(|(row, moments)| MOMENTS[..*moments].iter().map(move |at| (*row, *at)));
        let rare = cells.filter(|(construct, moment)| self.times(construct, *moment) < ENOUGH);
        rare.map(|(construct, moment)| format!("{construct} {moment:?}: {}", self.times(construct, moment))).collect()
    }
}

/// Everything of the language that the unit at `key` is an example of.
fn of_unit(outline: &Outline, key: &str) -> Vec<&'static str> {
    if let Some(undone) = key.strip_prefix(key::COMPENSATE) {
        return outline.compensate(undone).map(of_undo).unwrap_or_default();
    }
    let mut all = Vec::new();
    let handlers = [
        ("on:failure", "handler: failure"),
        ("on:cancel", "handler: cancel"),
        ("on:timeout", "handler: timeout"),
        ("on:exit", "handler: exit"),
        ("on:event:", "handler: event"),
    ];
    all.extend(handlers.iter().find(|(prefix, _)| key.starts_with(prefix)).map(|(_, construct)| *construct));
    let Some(step) = outline.step(key) else { return all };
    let has = |attribute: &str| !step[attribute].is_null();
    match outline.role(key) {
        Role::For => {
            all.push("for");
            let attributes = [
                ("concurrency", "for concurrency"),
                ("max_failures", "for max_failures"),
                ("done_when", "for done_when"),
            ];
            all.extend(attributes.iter().filter(|(name, _)| !step["for"][name].is_null()).map(|(_, row)| *row));
        }
        Role::Repeat => {
            all.push("repeat");
            all.extend((!step["repeat"]["delay"].is_null()).then_some("repeat delay"));
        }
        Role::Block => {
            all.push("block");
            all.extend(has("done_when").then_some("done_when"));
            all.extend(has("retry").then_some("retry of a block"));
        }
        Role::Task => all.extend(std::iter::once("task").chain(has("retry").then_some("retry of a task"))),
        Role::Delivery if has("workflow") => {
            all.extend(std::iter::once("workflow").chain(has("retry").then_some("retry of a child")));
        }
        Role::Delivery => all.extend(std::iter::once("signal").chain(has("retry").then_some("retry of a signal"))),
        Role::Wait => of_wait(&step["await"], &mut all),
        Role::Other => {
            let kinds = ["sleep", "sleep_until", "compute", "fail"];
            all.extend(kinds.into_iter().find(|kind| has(kind)));
        }
    }
    all.extend(has("deadline").then_some("deadline"));
    all.extend((step["on_failure"] == "continue").then_some("on_failure continue"));
    all
}

fn of_wait(wait: &Json, all: &mut Vec<&'static str>) {
    all.push("await");
    all.extend(wait["signal"].is_array().then_some("await of several"));
    let attributes = [("where", "await where"), ("until", "await until"), ("timeout", "await timeout")];
    all.extend(attributes.iter().filter(|(name, _)| !wait[name].is_null()).map(|(_, row)| *row));
}

fn of_undo(undo: &Json) -> Vec<&'static str> {
    let kinds = [("task", "compensate: task"), ("workflow", "compensate: workflow"), ("signal", "compensate: signal")];
    let mut all: Vec<_> = kinds.iter().filter(|(kind, _)| !undo[kind].is_null()).map(|(_, row)| *row).collect();
    all.extend((!undo["retry"].is_null()).then_some("compensate: retry"));
    all.extend((undo["always"] == true).then_some("compensate: always"));
    all.extend((undo["on_failure"] == "suspend").then_some("compensate: suspended"));
    all
}

impl fmt::Display for Constructs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<24}{:>9}{:>20}{:>18}", "construct", "events", "dropped between", "dropped inside")?;
        for (construct, moments) in CONSTRUCTS {
            let times = |at: usize| match MOMENTS[..*moments].get(at) {
                Some(moment) => self.times(construct, *moment).to_string(),
                None => "-".to_owned(),
            };
            writeln!(f, "{construct:<24}{:>9}{:>20}{:>18}", times(0), times(1), times(2))?;
        }
        Ok(())
    }
}
