//! Names in a cases file that mean nothing in its documents: a slip there would make a case pass or fail for nothing.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::file::{Case, Expect};
use crate::definition::Definition;
use crate::document::{BUILT_IN_TASKS, Data, FAULTS_MAX, Found, join, nearest};
use crate::event::Event;
use crate::key::{self, COMPENSATE, DEADLINE, GRACE};
use crate::state::RunStatus;

/// How the workflow itself prints in a line.
const WORKFLOW: &str = "(workflow)";
/// Types of events whose second word is a step, by how they begin.
const ABOUT_STEPS: [&str; 7] =
    ["Step", "Timer", "RetryScheduled", "Compensation", "Handler", "SignalConsumed", "StaleResultIgnored"];

/// What the documents of a file name. A task that is chosen by expression is one of the declared ones.
pub(super) struct Names<'d> {
    tasks: BTreeSet<&'d str>,
    steps: BTreeSet<&'d str>,
    signals: BTreeSet<&'d str>,
    queries: BTreeSet<&'d str>,
    workflows: BTreeSet<&'d str>,
    /// How many unknown ones there were.
    slips: Cell<usize>,
}

/// What is wrong with a name, and the one that was probably meant.
type Slip = (String, Option<String>);

impl<'d> Names<'d> {
    pub(super) fn of(definitions: &'d [Arc<Definition>]) -> Self {
        let mut names = Self {
            tasks: BTreeSet::from(BUILT_IN_TASKS),
            steps: BTreeSet::new(),
            signals: BTreeSet::new(),
            queries: BTreeSet::new(),
            workflows: BTreeSet::new(),
            slips: Cell::new(0),
        };
        for definition in definitions {
            names.tasks.extend(definition.tasks.keys().map(String::as_str));
            names.steps.extend(definition.by_id.keys().map(String::as_str));
            names.signals.extend(definition.signals.keys().map(String::as_str));
            names.queries.extend(definition.queries.keys().map(String::as_str));
            names.workflows.insert(&definition.name);
        }
        names
    }

    /// Faults of case `index` of `file`. A name that is to be refused may be any.
    pub(super) fn check(&self, file: &Data, index: usize, case: &Case, faults: &mut Found) {
        let mut at_value = |pointer: String, slip: Option<Slip>| {
            if let Some((message, meant)) = slip {
                faults.push(file.fault(&pointer, message).suggest(meant));
            }
        };
        let at = format!("/{index}");
        if let Some(name) = &case.workflow {
            at_value(format!("{at}/workflow"), self.workflow(name));
        }
        for (number, start) in case.starts.iter().enumerate().filter(|(_, start)| start.refused.is_none()) {
            let slip = start.workflow.as_ref().and_then(|name| self.workflow(name));
            at_value(format!("{at}/starts/{number}/workflow"), slip);
        }
        for (number, signal) in case.signals.iter().enumerate().filter(|(_, signal)| signal.refused.is_none()) {
            at_value(format!("{at}/signals/{number}/name"), self.signal(&signal.name));
        }
        for (number, query) in case.queries.iter().enumerate() {
            let slip =
                self.unknown(&query.name, &self.queries, |name| format!("the workflow declares no query {name}"));
            at_value(format!("{at}/queries/{number}/name"), slip);
        }
        for (number, redrive) in case.redrive.iter().enumerate().filter(|(_, redrive)| redrive.refused.is_none()) {
            for (place, step) in redrive.steps.iter().flatten().enumerate() {
                at_value(format!("{at}/redrive/{number}/steps/{place}"), self.step(step));
            }
        }
        for (list, lines) in [("includes", &case.expect.includes), ("excludes", &case.expect.excludes)] {
            for (number, line) in lines.iter().enumerate() {
                at_value(format!("{at}/expect/{list}/{number}"), self.line(line));
            }
        }
        at_value(format!("{at}/expect/status"), case.expect.status.as_ref().and_then(|word| self.status(word)));
        self.check_members(file, &at, case, faults);
    }

    /// Names that are the names of members.
    fn check_members(&self, file: &Data, at: &str, case: &Case, faults: &mut Found) {
        let mut at_name = |around: String, name: &str, slip: Option<Slip>| {
            if let Some((message, meant)) = slip {
                faults.push(file.fault_at_name(&join(&around, name), message).suggest(meant));
            }
        };
        let Expect { calls, inputs, count, .. } = &case.expect;
        for name in case.mocks.keys() {
            at_name(format!("{at}/mocks"), name, self.task(name));
        }
        for name in calls.keys() {
            at_name(format!("{at}/expect/calls"), name, self.task(name));
        }
        for name in inputs.keys() {
            at_name(format!("{at}/expect/inputs"), name, self.task(name));
        }
        for line in count.keys() {
            at_name(format!("{at}/expect/count"), line, self.line(line));
        }
    }

    fn task(&self, name: &str) -> Option<Slip> {
        self.unknown(name, &self.tasks, |name| format!("the workflow uses no task {name}"))
    }

    fn signal(&self, name: &str) -> Option<Slip> {
        self.unknown(name, &self.signals, |name| format!("the workflow declares no signal {name}"))
    }

    fn workflow(&self, name: &str) -> Option<Slip> {
        self.unknown(name, &self.workflows, |name| format!("no document beside the cases is called {name}"))
    }

    /// A step by its key: the id in its last segment counts.
    fn step(&self, key: &str) -> Option<Slip> {
        if key.is_empty() || key == WORKFLOW {
            return None;
        }
        let mut bare = key;
        while let Some(rest) = [COMPENSATE, DEADLINE, GRACE].iter().find_map(|prefix| bare.strip_prefix(prefix)) {
            bare = rest;
        }
        // The signal of an event handler may be anything in front of its `@`.
        if bare.is_empty() || key::is_handler(bare) && (!bare.contains('.') || key::last_segment(bare).id.contains('@'))
        {
            return None;
        }
        let id = key::last_segment(bare).id;
        let (message, meant) = self.unknown(id, &self.steps, |id| format!("the workflow has no step {id}"))?;
        // The whole key is shown as it would be right.
        let meant =
            meant.and_then(|meant| key.rfind(id).map(|at| key[..at].to_owned() + &meant + &key[at + id.len()..]));
        Some((message, meant))
    }

    /// A line of the timeline, or its beginning.
    fn line(&self, line: &str) -> Option<Slip> {
        let mut words = line.split(' ');
        let kind = words.next().unwrap_or_default();
        let slip = if !Event::TYPES.contains(&kind) {
            let types = Event::TYPES.iter().copied().collect();
            (kind, self.unknown(kind, &types, |kind| format!("there is no event of the type {kind:?}")))
        } else if kind == "SignalReceived" {
            words.next().map(|name| (name, self.signal(name)))?
        } else {
            let steps: Box<dyn Iterator<Item = &str>> = match kind {
                "CompensationStarted" => Box::new(words),
                "WorkflowRedriven" => Box::new(words.skip(1)),
                _ if ABOUT_STEPS.iter().any(|begin| kind.starts_with(begin)) => Box::new(words.take(1)),
                _ => return None,
            };
            steps.map(|step| (step, self.step(step))).find(|(_, slip)| slip.is_some())?
        };
        let (word, slip) = slip;
        let (message, meant) = slip?;
        Some((message, meant.map(|meant| line.replacen(word, &meant, 1))))
    }

    fn status(&self, word: &str) -> Option<Slip> {
        let known = BTreeSet::from(RunStatus::ALL.map(RunStatus::as_str));
        let message = |word: &str| format!("no execution is ever {word}; {} are", listed(&known));
        self.unknown(&word.to_lowercase(), &known, message)
    }

    /// A name that is not among the known ones. Looking for the one that was meant is spared once there is enough to
    /// mend.
    fn unknown(&self, name: &str, known: &BTreeSet<&str>, message: impl Fn(&str) -> String) -> Option<Slip> {
        if known.contains(name) {
            return None;
        }
        self.slips.set(self.slips.get() + 1);
        let meant = if self.slips.get() > FAULTS_MAX { None } else { nearest(name, known.iter().copied()) };
        Some((message(name), meant.map(str::to_owned)))
    }
}

fn listed(names: &BTreeSet<&str>) -> String {
    names.iter().copied().collect::<Vec<_>>().join(", ")
}
