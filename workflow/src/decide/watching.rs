//! Conditions that read what changes elsewhere (L2: `done_when` implies no dependency), and whom an event concerns.

use std::collections::BTreeSet;
use std::ops::Bound;

use super::Facts;
use crate::definition::{Definition, Step, Watch};
use crate::event::Event;
use crate::key::{self, COMPENSATE, DEADLINE, GRACE, Key};
use crate::state::Status;

/// Open units of the steps that watch. Volatile: worked out from the state where it is missing.
#[derive(Debug, Default)]
pub(crate) struct Watching {
    open: Option<BTreeSet<Key>>,
}

impl Watching {
    /// Takes note of an event; gives the open units whose conditions may have changed by it.
    pub(super) fn note(&mut self, facts: &Facts<'_>, event: &Event) -> Vec<Key> {
        let watchers = &facts.definition.watchers;
        if watchers.is_empty() {
            return Vec::new();
        }
        let step = event.step().map(|step| bare(step));
        let open = self.open.get_or_insert_with(|| open_watchers(facts));
        if let Some(key) = step.filter(|key| watch_of(facts.definition, key).is_some()) {
            if is_open(facts, key) {
                open.insert(Key::from(key));
            } else {
                open.remove(key);
            }
        }
        let mut due = Vec::new();
        for watch in watchers {
            let around = match step {
                _ if watch.counts => "",
                Some(key) if watch.steps.contains(key::last_segment(key).id) => key::parent(key::step_of(key)),
                _ => continue,
            };
            let id = &facts.definition.step(watch.step).id;
            let below = open
                .range::<str, _>((Bound::Included(around), Bound::Unbounded))
                .take_while(|key| key.starts_with(around));
            let below = below.filter(|key| around.is_empty() || key::is_under(key, around));
            due.extend(below.filter(|key| key::last_segment(key).id == id).cloned());
        }
        due
    }

    /// Nothing is known any more.
    pub(super) fn forget(&mut self) {
        self.open = None;
    }
}

/// The key of the unit that an event about `name` is about.
fn bare(name: &str) -> &str {
    let mut bare = name;
    while let Some(rest) = [COMPENSATE, DEADLINE, GRACE].iter().find_map(|prefix| bare.strip_prefix(prefix)) {
        bare = rest;
    }
    bare
}

fn watch_of<'a>(definition: &'a Definition, key: &str) -> Option<&'a Watch> {
    let index = definition.by_id.get(key::last_segment(key).id)?;
    definition.watchers.iter().find(|watch| watch.step == *index)
}

fn is_open(facts: &Facts<'_>, key: &str) -> bool {
    facts.unit(key).is_some_and(|unit| unit.status == Status::Open)
}

/// Only units are read that can be or hold one.
fn open_watchers(facts: &Facts<'_>) -> BTreeSet<Key> {
    let watches =
        |step: &Step| facts.definition.watchers.iter().any(|watch| facts.definition.step(watch.step).id == step.id);
    let open = facts.units_of(watches).filter(|key| is_open(facts, key));
    open.collect()
}

impl<'a> Facts<'a> {
    /// The keys of all units of these steps, wherever they lie.
    pub(super) fn units_of(&self, is_one: impl Fn(&Step) -> bool + 'a) -> impl Iterator<Item = Key> + 'a {
        let facts = *self;
        let steps = facts.definition.steps.iter().filter(|step| is_one(step));
        let ids: BTreeSet<&str> = steps.clone().map(|step| step.id.as_str()).collect();
        let tops: BTreeSet<&str> = steps.map(|step| facts.top_of(step)).collect();
        let running = facts.state.handlers.iter().filter(|(_, handler)| !handler.done).map(|(path, _)| path);
        let in_handlers = running.flat_map(|path| tops.iter().map(|top| key::join(path, top))).collect::<Vec<_>>();
        let tops: Vec<Key> = tops.into_iter().map(Key::from).chain(in_handlers).collect();
        tops.into_iter().flat_map(move |top| {
            let units = facts.state.units.under(&top).map(|(key, _)| key);
            units.filter(|key| ids.contains(key::last_segment(key).id)).cloned().collect::<Vec<_>>()
        })
    }

    /// The id of the outermost step around `step`.
    fn top_of(&self, step: &'a Step) -> &'a str {
        let mut top = step;
        while let Some(parent) = top.parent {
            top = self.definition.step(parent);
        }
        &top.id
    }
}
