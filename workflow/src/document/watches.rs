//! Which conditions that are looked at again and again read what changes elsewhere.

use std::collections::BTreeSet;

use crate::definition::{Definition, Kind, Step, StepIndex, Watch};
use crate::expression::Expression;

/// Fills in [`Definition::watches_elsewhere`] and what belongs to it.
pub(super) fn find(definition: &mut Definition) {
    let root_ids = definition.root.steps.iter().map(|&index| definition.step(index).id.as_str());
    let watcher = Watcher { definition, root_ids: root_ids.collect() };
    let mut found: Vec<Watch> =
        (0..).zip(&definition.steps).map(|(n, step)| watcher.step(StepIndex(n), step)).collect();
    let waits = definition.steps.iter().any(|step| match &step.kind {
        Kind::Await(wait) => watcher.seen(wait.accept.as_ref(), watcher.side(step)).watches(),
        _ => false,
    });
    if waits {
        // A signal may then be for any wait after any event.
        for (watch, step) in found.iter_mut().zip(&definition.steps) {
            watch.counts |= matches!(step.kind, Kind::Await(_));
        }
    }
    let root = watcher.seen(definition.root.done_when.as_ref(), Side::Root);
    let root = root.watches()
        || names_others(definition.root.done_when.as_ref(), |id| watcher.root_ids.contains(id)).next().is_some();
    found.retain(|watch| watch.counts || !watch.steps.is_empty());
    definition.waits_watch_elsewhere = waits;
    definition.watches_elsewhere = root || !found.is_empty();
    definition.watchers = found;
}

/// Whose steps a condition stands among.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Root,
    Handler,
}

/// What a condition reads that changes elsewhere.
#[derive(Default)]
struct Seen {
    /// The number of events.
    counts: bool,
    steps: BTreeSet<String>,
}

impl Seen {
    fn watches(&self) -> bool {
        self.counts || !self.steps.is_empty()
    }
}

struct Watcher<'a> {
    definition: &'a Definition,
    root_ids: BTreeSet<&'a str>,
}

impl Watcher<'_> {
    fn step(&self, index: StepIndex, step: &Step) -> Watch {
        let side = self.side(step);
        let mut watch = Watch { step: index, counts: false, steps: BTreeSet::new() };
        let mut see = |condition: Option<&Expression>| {
            let seen = self.seen(condition, side);
            watch.counts |= seen.counts;
            watch.steps.extend(seen.steps);
        };
        let elements_done = step.for_each.as_ref().and_then(|each| each.done_when.as_ref());
        see(elements_done);
        see(step.repeat.as_ref().map(|repeat| &repeat.until));
        if let Kind::Await(wait) = &step.kind {
            see(wait.accept.as_ref());
            see(wait.until.as_ref());
        }
        let done_when = step.block().and_then(|block| block.done_when.as_ref());
        see(done_when);
        let own: BTreeSet<&str> = step.block().iter().flat_map(|block| &block.steps).map(|&own| self.id(own)).collect();
        watch.steps.extend(names_others(done_when, |id| own.contains(id)).cloned());
        watch.steps.extend(names_others(elements_done, |_| false).cloned());
        watch
    }

    fn id(&self, index: StepIndex) -> &str {
        &self.definition.step(index).id
    }

    fn side(&self, step: &Step) -> Side {
        let mut top = step;
        while let Some(parent) = top.parent {
            top = self.definition.step(parent);
        }
        if self.root_ids.contains(top.id.as_str()) { Side::Root } else { Side::Handler }
    }

    fn seen(&self, condition: Option<&Expression>, side: Side) -> Seen {
        let Some(names) = condition.map(Expression::references) else { return Seen::default() };
        // `execution` as a whole shows the number of events too.
        let whole = names.variables.contains_key("execution") && names.execution_fields.is_empty();
        let of_the_root = |id: &&String| side == Side::Handler && self.root_ids.contains(id.as_str());
        Seen {
            counts: whole || names.execution_fields.contains("history_events"),
            steps: names.steps.keys().filter(of_the_root).cloned().collect(),
        }
    }
}

/// `done_when` implies no dependency: a step outside that it names may still change.
fn names_others(done_when: Option<&Expression>, own: impl Fn(&str) -> bool) -> impl Iterator<Item = &String> {
    let names = done_when.into_iter().flat_map(|condition| condition.references().steps.keys());
    names.filter(move |id| !own(id))
}
