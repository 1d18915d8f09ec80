//! Which blocks and steps a document has, found once for all rules.
//!
//! Tolerant: what is not a step (reported elsewhere) is left out, what lacks an id has an empty one.

use std::collections::HashMap;

use super::marked::{Marked, join};

/// All blocks and steps of a document, outer ones before inner ones, siblings in the order of the source.
pub(super) struct Outline<'a> {
    pub(super) document: &'a Marked,
    pub(super) steps: Vec<StepNode<'a>>,
    pub(super) blocks: Vec<BlockNode<'a>>,
    /// The first step of each id.
    pub(super) by_id: HashMap<&'a str, usize>,
}

pub(super) struct StepNode<'a> {
    pub(super) node: &'a Marked,
    pub(super) path: String,
    /// Empty when there is none.
    pub(super) id: &'a str,
    /// `None` unless exactly one is written.
    pub(super) kind: Option<Kind>,
    pub(super) block: usize,
    pub(super) inner: Option<usize>,
}

pub(super) struct BlockNode<'a> {
    pub(super) home: Home<'a>,
    /// What holds `steps`, `result`, `done_when`; a handler has only steps, so nothing.
    pub(super) node: Option<&'a Marked>,
    pub(super) path: String,
    pub(super) steps: Vec<usize>,
    /// 0 for the workflow and handlers.
    pub(super) depth: usize,
}

/// What a block belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Home<'a> {
    Root,
    Step(usize),
    Handler,
    EventHandler(&'a str),
}

/// Kinds of steps (L1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Task,
    Workflow,
    Await,
    Sleep,
    SleepUntil,
    Compute,
    Signal,
    Steps,
    Fail,
    ContinueAsNew,
}

impl Kind {
    pub(super) const ALL: [Kind; 10] = [
        Kind::Task,
        Kind::Workflow,
        Kind::Await,
        Kind::Sleep,
        Kind::SleepUntil,
        Kind::Compute,
        Kind::Signal,
        Kind::Steps,
        Kind::Fail,
        Kind::ContinueAsNew,
    ];

    /// The field that makes a step of this kind.
    pub(super) fn field(self) -> &'static str {
        match self {
            Kind::Task => "task",
            Kind::Workflow => "workflow",
            Kind::Await => "await",
            Kind::Sleep => "sleep",
            Kind::SleepUntil => "sleep_until",
            Kind::Compute => "compute",
            Kind::Signal => "signal",
            Kind::Steps => "steps",
            Kind::Fail => "fail",
            Kind::ContinueAsNew => "continue_as_new",
        }
    }

    /// The kinds that a step names; more or less than one is a fault.
    pub(super) fn written(step: &Marked) -> Vec<Kind> {
        Kind::ALL.into_iter().filter(|kind| step.get(kind.field()).is_some()).collect()
    }
}

impl<'a> Outline<'a> {
    pub(super) fn of(document: &'a Marked) -> Outline<'a> {
        let mut outline = Outline { document, steps: Vec::new(), blocks: Vec::new(), by_id: HashMap::new() };
        outline.block(Home::Root, Some(document), document.get("steps"), "", "/steps", 0);
        for entry in document.get("handlers").into_iter().flat_map(Marked::entries) {
            let path = join("/handlers", &entry.key);
            if entry.key == "event" {
                for handler in entry.value.entries().iter().filter(|handler| !handler.key.starts_with("x-")) {
                    let path = join(&path, &handler.key);
                    outline.block(Home::EventHandler(&handler.key), None, Some(&handler.value), &path, &path, 0);
                }
            } else if matches!(entry.key.as_str(), "failure" | "cancel" | "timeout" | "exit") {
                outline.block(Home::Handler, None, Some(&entry.value), &path, &path, 0);
            }
        }
        outline
    }

    fn block(
        &mut self,
        home: Home<'a>,
        node: Option<&'a Marked>,
        steps: Option<&'a Marked>,
        path: &str,
        steps_path: &str,
        depth: usize,
    ) -> usize {
        let block = self.blocks.len();
        self.blocks.push(BlockNode { home, node, path: path.to_owned(), steps: Vec::new(), depth });
        let first = self.steps.len();
        for (index, node) in steps.map_or(&[][..], Marked::items).iter().enumerate() {
            if matches!(node.tree, super::marked::Tree::Map(_)) {
                self.step(node, join(steps_path, index), block);
            }
        }
        for index in first..self.steps.len() {
            let node = self.steps[index].node;
            if let Some(inner) = node.get("steps") {
                let path = self.steps[index].path.clone();
                let inner =
                    self.block(Home::Step(index), Some(node), Some(inner), &path, &join(&path, "steps"), depth + 1);
                self.steps[index].inner = Some(inner);
            }
        }
        block
    }

    fn step(&mut self, node: &'a Marked, path: String, block: usize) {
        let index = self.steps.len();
        let id = node.get("id").and_then(Marked::text).unwrap_or("");
        let kinds = Kind::written(node);
        let kind = if let [kind] = kinds[..] { Some(kind) } else { None };
        self.steps.push(StepNode { node, path, id, kind, block, inner: None });
        self.blocks[block].steps.push(index);
        if !id.is_empty() {
            self.by_id.entry(id).or_insert(index);
        }
    }

    /// The step called `id` that an expression standing in `block` can see, or where it is hidden.
    pub(super) fn seen_from(&self, block: usize, id: &str) -> Sight {
        let Some(&target) = self.by_id.get(id) else { return Sight::Unknown };
        let mut at = block;
        loop {
            if self.steps[target].block == at {
                return Sight::Visible(target);
            }
            at = match self.blocks[at].home {
                Home::Step(owner) => self.steps[owner].block,
                // Handlers see the steps of the workflow itself; it is the first block.
                Home::Handler | Home::EventHandler(_) => 0,
                Home::Root => return Sight::Hidden(target),
            };
        }
    }

    /// Ids that an expression standing in `block` can name, for suggestions.
    pub(super) fn visible(&self, block: usize) -> impl Iterator<Item = &'a str> + '_ {
        self.steps
            .iter()
            .map(|step| step.id)
            .filter(move |id| !id.is_empty() && matches!(self.seen_from(block, id), Sight::Visible(_)))
    }
}

/// How a step looks from somewhere.
pub(super) enum Sight {
    Visible(usize),
    /// It exists, inside a block or handler that is closed from here.
    Hidden(usize),
    Unknown,
}
