//! Between executions: children, signals, ends (L8, L10).

use std::sync::Arc;

use super::live::{At, Shipment};
use super::report::Difference;
use super::world::{Act, World};
use crate::command::{Answered, Cancel, Start, end_of_child, undeliverable, unstartable};
use crate::event::{Parent, TaskError};
use crate::key::Key;
use crate::state::{RunStatus, Unit, Work};
use crate::value::{Payload, Value};

/// What leaves a run.
#[derive(Clone, Debug)]
pub(super) struct Parcel {
    key: Key,
    attempt: u32,
    work: Work,
    input: Payload,
}

impl Parcel {
    pub(super) fn of(key: &Key, unit: &Unit) -> Option<Self> {
        let work = unit.work.clone().filter(|work| !matches!(work, Work::Task(_)))?;
        let input = unit.input.clone().unwrap_or_default();
        Some(Self { key: key.clone(), attempt: unit.attempt, work, input })
    }
}

impl World<'_> {
    pub(super) fn deliver(&mut self, at: At, parcel: Parcel) {
        let Parcel { key, attempt, work, input } = parcel;
        match work {
            Work::Signal(target) => {
                let input = if input.is_null() { Payload::from(Value::map::<&str>([])) } else { input };
                let result = match self.signal(&target.execution, &target.name, input, None) {
                    Ok(_) => Ok(Payload::null()),
                    Err(refused) => Err(undeliverable(refused.code, &target.execution, &refused.why)),
                };
                self.answer(at, &key, attempt, result);
            }
            Work::Child(child) => {
                let head = &self.lives[at.0].run.state().head;
                let parent = Parent {
                    execution_id: self.lives[at.0].run.execution_id().to_owned(),
                    created_at_ms: head.first_created_at_ms,
                    run: head.run,
                    step: key.clone(),
                    attempt,
                };
                let known = self.newest(&child.id).map(|at| &self.lives[at.0].run.state().head.parent);
                if known.is_some_and(|other| other.as_ref() == Some(&parent)) {
                    return;
                }
                let Some(definition) = self.definition(&child.workflow, Some(&child.version)) else {
                    let wanted = format!("{} {} among the documents of the case", child.workflow, child.version);
                    return self.stop(Difference::new(format!("the child of {key}"), wanted, "none"));
                };
                if let Err(refused) = self.start(&child.id, &definition, input, Some(parent)) {
                    self.answer(at, &key, attempt, Err(unstartable(refused.code, &child.id, &refused.why)));
                }
            }
            Work::Task(_) => {}
        }
    }

    /// The document of this name; without a version the first one.
    pub(super) fn definition(&self, name: &str, version: Option<&str>) -> Option<Arc<crate::definition::Definition>> {
        let fits = |version: &str, wanted: Option<&str>| wanted.is_none_or(|wanted| wanted == version);
        let found = self
            .definitions
            .iter()
            .find(|definition| definition.name == name && fits(&definition.version.to_string(), version));
        found.cloned()
    }

    pub(super) fn answer(&mut self, at: At, key: &Key, attempt: u32, result: Result<Payload, TaskError>) {
        // An answer that nobody waits for any more is refused, and nothing follows.
        let _ = self.give(at, Answered { unit: key, attempt, result });
        self.effects(at);
    }

    pub(super) fn stop_child(&mut self, at: At, key: &Key, child: &str, force: bool) {
        let ours = self.lives[at.0].run.execution_id().to_owned();
        let Some(newest) = self.newest(child) else { return };
        let parent = &self.lives[newest.0].run.state().head.parent;
        if parent.as_ref().is_some_and(|parent| parent.execution_id == ours && parent.step == *key) {
            let _ = self.tell(child, Cancel { reason: "parent".to_owned(), force });
        }
    }

    /// Passes an end on, once: the next run, children that a force left behind, the parent.
    pub(super) fn after_end(&mut self, at: At) {
        let live = &mut self.lives[at.0];
        let ends = live.run.state().head.ends;
        if !live.shipped.insert(Shipment::End(ends)) {
            return;
        }
        if live.run.state().head.status == RunStatus::Continued {
            return self.next_runs(at);
        }
        let mut units: Vec<_> = live.run.state().units.iter().filter(|(_, unit)| unit.is_in_flight()).collect();
        units.sort_by_key(|(_, unit)| unit.since);
        let units: Vec<_> = units.into_iter().map(|(key, unit)| (key.clone(), unit.clone())).collect();
        for (key, unit) in units {
            match &unit.work {
                Some(Work::Child(child)) => {
                    let child = child.id.clone();
                    self.at(self.now_ms, Act::StopChild { at, key, child, force: true });
                }
                Some(Work::Signal(_)) => self.ship(at, &key, &unit),
                _ => {}
            }
        }
        self.tell_parent(at);
    }

    fn tell_parent(&mut self, at: At) {
        let Some((parent, result)) = end_of_child(&self.lives[at.0].run) else { return };
        let Parent { execution_id, run: number, step, attempt, .. } = parent;
        let index = (number as usize).saturating_sub(1);
        if let Some(parent) = self.runs.get(&execution_id).and_then(|runs| runs.get(index)).copied() {
            self.at(self.now_ms, Act::TellParent { at: parent, key: step, attempt, result });
        }
    }

    /// The next run, and those after it that end as soon as they begin.
    fn next_runs(&mut self, at: At) {
        self.continued.push_back(at);
        if self.continued.len() > 1 {
            // Somebody further out starts them, one after the other.
            return;
        }
        while let Some(at) = self.continued.front().copied() {
            if !self.stopped {
                self.next_run(at);
            }
            self.continued.pop_front();
        }
    }

    /// Created, unconsumed signals, started: one commit (L10).
    fn next_run(&mut self, at: At) {
        let run = &self.lives[at.0].run;
        let command = Start::next_run(run.state());
        let (definition, id) = (Arc::clone(run.definition()), run.execution_id().to_owned());
        let next = self.add_run(&definition, &id);
        self.runs.entry(id.clone()).or_default().push(next);
        if let Err(refusal) = self.give(next, command) {
            return self.stop(Difference::new(format!("the next run of {id}"), "that it starts", refusal.to_string()));
        }
        self.effects(next);
    }
}
