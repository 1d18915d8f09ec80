//! Expressions compile, and name only what is in scope where they stand; what they name is noted for the graph.
//!
//! Around a body, from outside: `when` → `deadline` → `for` → `repeat` → `retry` (L1). Each sees what the layers
//! outside it give: the loop variables begin inside `for`, `iteration` and `previous` inside `repeat`.

use std::collections::BTreeSet;

use super::scope::{EXECUTION_FIELDS, Variables};
use super::{Report, literals, members};
use crate::document::fault::bounded;
use crate::document::marked::{Marked, Place, Tree, join};
use crate::document::outline::{BlockNode, Home, Outline, Sight};
use crate::expression::{Expression, References, Template};

/// A step named by an expression.
#[derive(Clone, Debug)]
pub(in crate::document) struct Use {
    /// The block in whose sight the expression stands.
    pub(in crate::document) block: usize,
    /// The step of that block that it belongs to; none: the block itself (`result`).
    pub(in crate::document) by: Option<usize>,
    pub(in crate::document) target: usize,
    pub(in crate::document) place: Place,
    pub(in crate::document) path: String,
    pub(in crate::document) orders: Orders,
}

/// Whether naming a step means waiting for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::document) enum Orders {
    Yes,
    /// Queries, `done_when`, `compensate`, handlers of what is outside.
    No,
}

/// What expressions name, and what the advice needs to know of them.
#[derive(Default)]
pub(in crate::document) struct Uses {
    pub(in crate::document) list: Vec<Use>,
    /// Steps whose output an expression takes without showing that it may be missing.
    pub(in crate::document) unguarded: Vec<Use>,
    /// Steps that the `when` of a step looks at, as (step, named step).
    pub(in crate::document) guards: BTreeSet<(usize, usize)>,
    /// Steps whose undo takes `output` and not `idempotency_key`, and where it says so.
    pub(in crate::document) output_only_undo: Vec<(usize, Place, String)>,
}

pub(super) fn check(outline: &Outline<'_>, report: &mut Report) -> Uses {
    let input = members::declared_input(outline.document);
    let mut checker = Checker { outline, report, input, uses: Uses::default() };
    for index in 0..outline.blocks.len() {
        let home = outline.blocks[index].home;
        let more: &[&str] = match home {
            Home::Step(_) => continue,
            Home::Root => &[],
            Home::Handler => &["failure"],
            Home::EventHandler(_) => &["event"],
        };
        checker.block(index, &Variables::everywhere().with(more));
    }
    checker.document();
    checker.uses
}

struct Checker<'c, 'a> {
    outline: &'c Outline<'a>,
    report: &'c mut Report,
    /// The properties of `input`, when there can be no others.
    input: Option<Vec<&'a str>>,
    uses: Uses,
}

/// Where an expression stands.
#[derive(Clone, Copy)]
struct At<'v, 'a> {
    /// `None`: no steps are in sight (attributes).
    block: Option<usize>,
    by: Option<usize>,
    orders: Orders,
    variables: &'v Variables<'a>,
}

impl<'a> Checker<'_, 'a> {
    /// Queries and attributes: `result` and `done_when` are looked at with the root block.
    fn document(&mut self) {
        let variables = Variables::everywhere();
        let queries = At { block: Some(0), by: None, orders: Orders::No, variables: &variables };
        let document = self.outline.document;
        for entry in document.get("queries").into_iter().flat_map(Marked::entries) {
            self.expression(Some(&entry.value), &join("/queries", &entry.key), queries);
        }
        for entry in document.get("attributes").into_iter().flat_map(Marked::entries) {
            let path = join(&join("/attributes", &entry.key), "value");
            self.expression(entry.value.get("value"), &path, At { block: None, ..queries });
        }
    }

    fn block(&mut self, index: usize, variables: &Variables<'a>) {
        let outline = self.outline;
        let block: &BlockNode<'a> = &outline.blocks[index];
        for &step in &block.steps {
            self.step(step, variables);
        }
        if let Some(node) = block.node {
            let at = At { block: Some(index), by: None, orders: Orders::Yes, variables };
            self.template(node.get("result"), &join(&block.path, "result"), at);
            let at = At { orders: Orders::No, ..at };
            self.expression(node.get("done_when"), &join(&block.path, "done_when"), at);
        }
    }

    fn step(&mut self, index: usize, outer: &Variables<'a>) {
        let outline = self.outline;
        let step = &outline.steps[index];
        let (node, path) = (step.node, step.path.as_str());
        let field = |name: &str| join(path, name);
        let at = At { block: Some(step.block), by: Some(index), orders: Orders::Yes, variables: outer };
        if let Some(references) = self.expression(node.get("when"), &field("when"), at) {
            for id in references.steps.keys() {
                if let Sight::Visible(named) = outline.seen_from(step.block, id) {
                    self.uses.guards.insert((index, named));
                }
            }
        }
        self.template(node.get("deadline"), &field("deadline"), at);
        let looped = self.for_each(node.get("for"), &field("for"), at);
        let at = At { variables: &looped, ..at };
        let repeated = self.repeat(node.get("repeat"), &field("repeat"), at);
        let at = At { variables: &repeated, ..at };
        self.retry(node.get("retry"), &field("retry"), at);
        self.body(node, path, at);
        if let Some(inner) = step.inner {
            self.block(inner, &repeated);
        }
        self.failure_rules(node.get("on_failure"), &field("on_failure"), at);
        self.undo(index, node.get("compensate"), &field("compensate"), at);
    }

    fn for_each(&mut self, node: Option<&'a Marked>, path: &str, at: At<'_, 'a>) -> Variables<'a> {
        let Some(node) = node else { return at.variables.clone() };
        self.expression(node.get("each"), &join(path, "each"), at);
        self.template(node.get("concurrency"), &join(path, "concurrency"), at);
        self.template(node.get("max_failures"), &join(path, "max_failures"), at);
        let asked = at.variables.with(&["succeeded", "failed", "total", "last"]);
        let done = At { orders: Orders::No, variables: &asked, ..at };
        self.expression(node.get("done_when"), &join(path, "done_when"), done);
        let variable = node.get("as").and_then(Marked::text).unwrap_or("item");
        at.variables.with(&[variable, "index"])
    }

    fn repeat(&mut self, node: Option<&Marked>, path: &str, at: At<'_, 'a>) -> Variables<'a> {
        let Some(node) = node else { return at.variables.clone() };
        self.template(node.get("delay"), &join(path, "delay"), at);
        self.template(node.get("max_delay"), &join(path, "max_delay"), at);
        let inside = at.variables.with(&["iteration", "previous"]);
        let asked = inside.with(&["output"]);
        self.expression(node.get("until"), &join(path, "until"), At { variables: &asked, ..at });
        inside
    }

    fn retry(&mut self, node: Option<&Marked>, path: &str, at: At<'_, 'a>) {
        for field in ["initial_delay", "max_delay"] {
            self.template(node.and_then(|node| node.get(field)), &join(path, field), at);
        }
    }

    fn body(&mut self, node: &'a Marked, path: &str, at: At<'_, 'a>) {
        for field in ["task", "input", "timeout", "queue_timeout", "heartbeat_timeout", "sleep", "sleep_until"] {
            self.template(node.get(field), &join(path, field), at);
        }
        for (field, inner) in [
            ("workflow", "name"),
            ("signal", "execution"),
            ("signal", "name"),
            ("signal", "payload"),
            ("fail", "message"),
            ("fail", "details"),
            ("continue_as_new", "input"),
        ] {
            self.template(node.get(field).and_then(|node| node.get(inner)), &join(&join(path, field), inner), at);
        }
        self.expression(node.get("compute"), &join(path, "compute"), at);
        if let Some(wait) = node.get("await") {
            let path = join(path, "await");
            self.template(wait.get("timeout"), &join(&path, "timeout"), at);
            let taking = at.variables.with(&["signal", "payload"]);
            self.expression(wait.get("where"), &join(&path, "where"), At { variables: &taking, ..at });
            let counting = at.variables.with(&["count", "last"]);
            self.expression(wait.get("until"), &join(&path, "until"), At { variables: &counting, ..at });
        }
    }

    fn failure_rules(&mut self, node: Option<&Marked>, path: &str, at: At<'_, 'a>) {
        let failed = at.variables.with(&["error"]);
        for (index, rule) in node.map_or(&[][..], Marked::items).iter().enumerate() {
            let path = join(&join(path, index), "when");
            self.expression(rule.get("when"), &path, At { variables: &failed, ..at });
        }
    }

    /// Looked at when something is undone: it waits for nobody, and may name its own step.
    fn undo(&mut self, step: usize, node: Option<&Marked>, path: &str, at: At<'_, 'a>) {
        let Some(node) = node else { return };
        let undoing = at.variables.with(&["output", "unknown", "idempotency_key"]);
        let at = At { orders: Orders::No, variables: &undoing, ..at };
        for field in ["task", "timeout", "queue_timeout", "heartbeat_timeout"] {
            self.template(node.get(field), &join(path, field), at);
        }
        let mut names = self.template(node.get("input"), &join(path, "input"), at);
        for (field, inner) in [("workflow", "name"), ("signal", "execution"), ("signal", "name"), ("signal", "payload")]
        {
            let found =
                self.template(node.get(field).and_then(|node| node.get(inner)), &join(&join(path, field), inner), at);
            names.variables.extend(found.variables);
            names.step_outputs.extend(found.step_outputs);
        }
        self.retry(node.get("retry"), &join(path, "retry"), at);
        let own = self.outline.steps[step].id;
        let takes_output = names.variables.contains_key("output") || names.step_outputs.contains_key(own);
        if takes_output && !names.variables.contains_key("idempotency_key") {
            self.uses.output_only_undo.push((step, node.place, path.to_owned()));
        }
    }

    /// Bare CEL.
    fn expression(&mut self, node: Option<&Marked>, path: &str, at: At<'_, 'a>) -> Option<References> {
        let node = node?;
        let text = node.text()?;
        match Expression::compile(text) {
            Ok(expression) => {
                self.references(expression.references(), node, 0, path, at);
                Some(expression.references().clone())
            }
            Err(error) => {
                let spliced = text.chars().nth(error.offset) == Some('$');
                let message = if spliced { without_braces(path) } else { error.message };
                self.report.fault(place_inside(node, error.offset), path, message);
                None
            }
        }
    }

    /// `${…}` in any text of a JSON value.
    fn template(&mut self, node: Option<&Marked>, path: &str, at: At<'_, 'a>) -> References {
        let mut all = References::default();
        let Some(node) = node else { return all };
        match &node.tree {
            Tree::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    add(&mut all, self.template(Some(item), &join(path, index), at));
                }
            }
            Tree::Map(entries) => {
                for entry in entries {
                    add(&mut all, self.template(Some(&entry.value), &join(path, &entry.key), at));
                }
            }
            Tree::Text(text) if text.contains("${") => self.spliced(text, node, path, at, &mut all),
            Tree::Text(_) => literals::check(self.outline, at.block, node, path, self.report),
            _ => {}
        }
        all
    }

    fn spliced(&mut self, text: &str, node: &Marked, path: &str, at: At<'_, 'a>, all: &mut References) {
        match Template::text(text) {
            Ok(template) => {
                for (offset, expression) in template.offsets() {
                    self.references(expression.references(), node, offset, path, at);
                    add(all, expression.references().clone());
                }
            }
            Err(faults) => {
                for fault in faults {
                    self.report.fault(place_inside(node, fault.offset), path, fault.message);
                }
            }
        }
    }

    /// Names of one expression that begins `start` characters into the text of `node`.
    fn references(&mut self, names: &References, node: &Marked, start: usize, path: &str, at: At<'_, 'a>) {
        for (name, offset) in &names.variables {
            if name != "steps" && !at.variables.contains(name) {
                self.unknown_name(name, place_inside(node, start + offset), path, at);
            }
        }
        for field in names.execution_fields.iter().filter(|field| !EXECUTION_FIELDS.contains(&field.as_str())) {
            let message = format!("`execution` has no `{field}`");
            self.report.misnamed(place_inside(node, start), path, message, field, EXECUTION_FIELDS);
        }
        let written = members::Written { names, node, start, path, block: at.block };
        members::check(self.outline, self.input.as_deref(), &written, self.report);
        for (id, offset) in &names.steps {
            let place = place_inside(node, start + offset);
            let Some(target) = self.target(id, place, path, at) else { continue };
            let Some(block) = at.block else { continue };
            let found = Use { block, by: at.by, target, place, path: bounded(path.to_owned()), orders: at.orders };
            if names.step_outputs.contains_key(id) && !names.guarded_steps.contains(id) {
                self.uses.unguarded.push(found.clone());
            }
            self.uses.list.push(found);
        }
    }

    fn target(&mut self, id: &str, place: Place, path: &str, at: At<'_, 'a>) -> Option<usize> {
        let Some(block) = at.block else {
            self.report.fault(place, path, "no steps are known here: this is evaluated before any starts");
            return None;
        };
        match self.outline.seen_from(block, id) {
            Sight::Visible(target) => Some(target),
            Sight::Hidden(target) => {
                let home = self.outline.blocks[self.outline.steps[target].block].home;
                let message = match home {
                    Home::Step(owner) => {
                        let owner = self.outline.steps[owner].id;
                        format!(
                            "the step `{id}` lies inside the block `{owner}`; give the block a `result` that shows it"
                        )
                    }
                    _ => format!("the step `{id}` belongs to a handler and is not seen here"),
                };
                self.report.fault(place, path, message);
                None
            }
            Sight::Unknown => {
                let outline = self.outline;
                self.report.misnamed(place, path, format!("unknown step `{id}`"), id, outline.visible(block));
                None
            }
        }
    }

    fn unknown_name(&mut self, name: &str, place: Place, path: &str, at: At<'_, 'a>) {
        let is_step = at.block.is_some_and(|block| matches!(self.outline.seen_from(block, name), Sight::Visible(_)));
        if is_step {
            let message = format!("unknown name `{name}`");
            let suggestion = format!("steps.{name}");
            self.report.faults.push(super::super::fault::Fault::new(place, path, message).suggest(Some(suggestion)));
        } else {
            let known: Vec<&str> = at.variables.iter().chain(["steps"]).collect();
            self.report.misnamed(place, path, format!("unknown name `{name}`"), name, known);
        }
    }
}

/// What to say of `${…}` where bare CEL stands.
fn without_braces(path: &str) -> String {
    let field = path.rsplit('/').next().unwrap_or_default();
    let what = if path.starts_with("/queries/") { "a query".to_owned() } else { format!("`{field}`") };
    format!("{what} is an expression already; write it without ${{ }}")
}

fn add(all: &mut References, more: References) {
    all.variables.extend(more.variables);
    all.steps.extend(more.steps);
    all.step_outputs.extend(more.step_outputs);
    all.guarded_steps.extend(more.guarded_steps);
}

/// The place `offset` characters into a text, or of the text as a whole when the source does not show it on one line.
pub(super) fn place_inside(node: &Marked, offset: usize) -> Place {
    match node.inside {
        Some(first) => first.moved(u32::try_from(offset).unwrap_or(u32::MAX)),
        None => node.place,
    }
}
