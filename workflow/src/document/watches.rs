//! Whether some condition that is looked at again and again reads what changes elsewhere.

use std::collections::BTreeSet;

use crate::definition::{Block, Definition, Kind, Step, StepIndex};
use crate::expression::Expression;

/// See [`Definition::watches_elsewhere`].
pub(super) fn watches_elsewhere(definition: &Definition) -> bool {
    let watcher = Watcher::of(definition);
    let handlers = &definition.handlers;
    let ends = [&handlers.failure, &handlers.cancel, &handlers.timeout, &handlers.exit];
    let handlers = ends.into_iter().flatten().chain(handlers.event.values());
    watcher.block(&definition.root, Side::Root) || handlers.into_iter().any(|block| watcher.block(block, Side::Handler))
}

/// See [`Definition::waits_watch_elsewhere`]. In a handler it is enough to name a step of the root.
pub(super) fn waits_watch_elsewhere(definition: &Definition) -> bool {
    let watcher = Watcher::of(definition);
    definition.steps.iter().any(|step| match &step.kind {
        Kind::Await(wait) => {
            let side = if watcher.is_in_root(step) { Side::Root } else { Side::Handler };
            watcher.reads(wait.accept.as_ref(), side)
        }
        _ => false,
    })
}

/// Whose steps a condition stands among.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Root,
    Handler,
}

struct Watcher<'a> {
    definition: &'a Definition,
    root_ids: BTreeSet<&'a str>,
}

impl<'a> Watcher<'a> {
    fn of(definition: &'a Definition) -> Self {
        let root_ids = definition.root.steps.iter().map(|&index| definition.step(index).id.as_str());
        Watcher { definition, root_ids: root_ids.collect() }
    }

    fn is_in_root(&self, step: &Step) -> bool {
        let mut top = step;
        while let Some(parent) = top.parent {
            top = self.definition.step(parent);
        }
        self.root_ids.contains(top.id.as_str())
    }

    fn block(&self, block: &Block, side: Side) -> bool {
        let own = |id: &str| block.steps.iter().any(|&step| self.definition.step(step).id == id);
        self.reads(block.done_when.as_ref(), side)
            || names_others(block.done_when.as_ref(), own)
            || block.steps.iter().any(|&step| self.step(step, side))
    }

    fn step(&self, index: StepIndex, side: Side) -> bool {
        let step = self.definition.step(index);
        let elements_done = step.for_each.as_ref().and_then(|each| each.done_when.as_ref());
        let around = [elements_done, step.repeat.as_ref().map(|repeat| &repeat.until)];
        let inside = match &step.kind {
            Kind::Await(wait) => self.reads(wait.accept.as_ref(), side) || self.reads(wait.until.as_ref(), side),
            Kind::Steps(block) => self.block(block, side),
            _ => false,
        };
        inside
            || names_others(elements_done, |_| false)
            || around.into_iter().any(|condition| self.reads(condition, side))
    }

    fn reads(&self, condition: Option<&Expression>, side: Side) -> bool {
        let Some(names) = condition.map(Expression::references) else { return false };
        // `execution` as a whole shows the number of events too.
        let whole = names.variables.contains_key("execution") && names.execution_fields.is_empty();
        whole
            || names.execution_fields.contains("history_events")
            || side == Side::Handler && names.steps.keys().any(|id| self.root_ids.contains(id.as_str()))
    }
}

/// `done_when` implies no dependency: a step outside that it names may still change.
fn names_others(done_when: Option<&Expression>, own: impl Fn(&str) -> bool) -> bool {
    done_when.is_some_and(|condition| condition.references().steps.keys().any(|id| !own(id)))
}
