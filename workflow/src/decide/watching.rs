//! Conditions that read what changes elsewhere (L2: `done_when` implies no dependency), and whom an event concerns.

use std::collections::BTreeSet;
use std::ops::Bound;

use super::repeat::iteration_key;
use super::{Facts, Role};
use crate::definition::{Definition, Step, StepIndex, Watch};
use crate::event::Event;
use crate::key::{self, COMPENSATE, DEADLINE, GRACE, Key, ROOT};
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

fn open_watchers(facts: &Facts<'_>) -> BTreeSet<Key> {
    let watches =
        |step: &Step| facts.definition.watchers.iter().any(|watch| facts.definition.step(watch.step).id == step.id);
    facts.open_units_of(watches).into_iter().collect()
}

/// Steps that are looked for, and what may hold one.
struct Wanted<'a> {
    ids: BTreeSet<&'a str>,
    holders: BTreeSet<StepIndex>,
}

impl<'a> Facts<'a> {
    /// The keys of all open units of these steps, wherever they lie. What is open lies in what is open, so only that is
    /// read: of a `repeat` the current iteration, not all that came before; of a `for` everything below it.
    pub(super) fn open_units_of(&self, is_one: impl Fn(&Step) -> bool) -> Vec<Key> {
        let mut wanted = Wanted { ids: BTreeSet::new(), holders: BTreeSet::new() };
        let mut tops = BTreeSet::new();
        for (index, step) in (0..).map(StepIndex).zip(&self.definition.steps).filter(|(_, step)| is_one(step)) {
            wanted.ids.insert(&step.id);
            let around = std::iter::successors(Some(index), |index| self.definition.step(*index).parent);
            wanted.holders.extend(around.clone());
            tops.extend(around.last());
        }
        let (in_root, in_handlers): (Vec<StepIndex>, Vec<StepIndex>) =
            tops.into_iter().partition(|top| self.definition.root.steps.contains(top));
        let mut found = Vec::new();
        let mut look = |path: &str, tops: &[StepIndex]| {
            for top in tops {
                self.open_below(key::join(path, &self.definition.step(*top).id), *top, &wanted, &mut found);
            }
        };
        look(ROOT, &in_root);
        if !in_handlers.is_empty() {
            self.running_handlers().for_each(|path| look(path, &in_handlers));
        }
        found
    }

    /// The paths of running handlers. Those that are done lie there in any number and are not read while none runs.
    fn running_handlers(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let state = self.state;
        let may_run = state.head.handlers_running > 0 || state.closing(ROOT).is_some();
        let handlers = may_run.then(|| state.handlers.iter()).into_iter().flatten();
        handlers.filter(|(_, handler)| !handler.done).map(|(path, _)| &**path)
    }

    fn open_below(&self, key: Key, index: StepIndex, wanted: &Wanted<'_>, found: &mut Vec<Key>) {
        let Some(unit) = self.unit(&key).filter(|unit| unit.status == Status::Open) else { return };
        let role = self.role(&key);
        if role == Role::For {
            let below = self.state.units.under(&key).filter(|(_, unit)| unit.status == Status::Open);
            let is_one = |key: &&Key| wanted.ids.contains(key::last_segment(key).id);
            found.extend(below.map(|(key, _)| key).filter(is_one).cloned());
            return;
        }
        if wanted.ids.contains(&*self.definition.step(index).id) {
            found.push(key.clone());
        }
        match role {
            Role::Repeat => {
                let current = unit.iteration.unwrap_or(0) + 1;
                self.open_below(iteration_key(&key, current), index, wanted, found);
            }
            Role::Steps => {
                let instance = self.instance(&key);
                for inner in self.block_at(&key).iter().flat_map(|block| &block.steps) {
                    if wanted.holders.contains(inner) {
                        self.open_below(key::join(&instance, &self.definition.step(*inner).id), *inner, wanted, found);
                    }
                }
            }
            _ => {}
        }
    }
}
