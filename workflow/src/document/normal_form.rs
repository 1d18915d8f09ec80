//! The normal form (IR): the one way in which a document is stored (L1).
//!
//! Shorthands are written out, fixed durations are ms, `depends_on` says who waits for whom, the steps of each block
//! stand in the order of the walk. What is not written is not filled in, so that a new default changes no old hash;
//! words that say what holds anyway (`on_failure: fail`) are left out. Its own normal form is a normal form itself.

use serde_json::{Map, Value as Json};

use super::check::Checked;
use super::grammar::{DOCUMENT, FAILURE_RULE, Field, STEP, Shape};
use super::marked::{Marked, Tree, join};
use super::text::duration_ms;

/// Fields of steps that the normal form replaces: `depends_on` says it all.
const REPLACED: [&str; 3] = ["after", "depends_on", "steps"];

/// Writes a document in which no rule has found a fault.
pub(super) fn write(checked: &Checked<'_>) -> Json {
    let writer = Writer { checked };
    let Shape::Object(fields) = DOCUMENT else { return Json::Null };
    let document = checked.outline.document;
    let mut written = Map::new();
    for entry in document.entries() {
        let value = match entry.key.as_str() {
            "steps" => Some(writer.block(0)),
            "ir_version" => None,
            "handlers" => Some(writer.handlers(&entry.value)),
            name => fields.iter().find(|field| field.name == name).and_then(|field| value(&entry.value, field)),
        };
        if let Some(value) = value {
            written.insert(entry.key.clone(), value);
        }
    }
    written.insert("ir_version".to_owned(), checked.ir_version.name().into());
    Json::Object(written)
}

/// Whether `on_failure` says what holds without it.
pub(super) fn is_default_failure(node: Option<&Marked>) -> bool {
    let Some(node) = node else { return true };
    match &node.tree {
        Tree::Text(word) => word == "fail",
        Tree::List(rules) => rules.iter().all(|rule| rule.get("then").and_then(Marked::text) == Some("fail")),
        _ => false,
    }
}

struct Writer<'c, 'a> {
    checked: &'c Checked<'a>,
}

impl Writer<'_, '_> {
    fn handlers(&self, node: &Marked) -> Json {
        let mut written = Map::new();
        for entry in node.entries() {
            let path = join("/handlers", &entry.key);
            let value = if entry.key == "event" {
                let events = entry.value.entries().iter();
                let events = events.map(|event| (event.key.clone(), self.handler(&join(&path, &event.key))));
                Some(Json::Object(events.filter_map(|(name, steps)| Some((name, steps?))).collect()))
            } else {
                self.handler(&path)
            };
            if let Some(value) = value {
                written.insert(entry.key.clone(), value);
            }
        }
        Json::Object(written)
    }

    /// The block at `path`; none for what is a remark (`x-…`).
    fn handler(&self, path: &str) -> Option<Json> {
        let block = self.checked.outline.blocks.iter().position(|block| block.path == path)?;
        Some(self.block(block))
    }

    fn block(&self, block: usize) -> Json {
        self.checked.graph.order[block].iter().map(|&step| self.step(step)).collect()
    }

    fn step(&self, index: usize) -> Json {
        let step = &self.checked.outline.steps[index];
        let mut written = Map::new();
        for entry in step.node.entries().iter().filter(|entry| !REPLACED.contains(&entry.key.as_str())) {
            let field = STEP.iter().find(|field| field.name == entry.key);
            if let Some(value) = field.and_then(|field| value(&entry.value, field)) {
                written.insert(entry.key.clone(), value);
            }
        }
        let waits_for = &self.checked.graph.depends_on[index];
        if !waits_for.is_empty() {
            let order = &self.checked.graph.order[step.block];
            let ids = order.iter().filter(|placed| waits_for.contains(placed));
            let ids: Vec<Json> = ids.map(|&placed| self.checked.outline.steps[placed].id.into()).collect();
            written.insert("depends_on".to_owned(), ids.into());
        }
        if let Some(inner) = step.inner {
            written.insert("steps".to_owned(), self.block(inner));
        }
        Json::Object(written)
    }
}

/// The value of a field, unless it is one that is not stored.
fn value(node: &Marked, field: &Field) -> Option<Json> {
    match (field.name, &node.tree) {
        ("result", Tree::Null) => return None,
        ("as", Tree::Text(name)) if name == "item" => return None,
        ("always", Tree::Boolean(false)) => return None,
        ("after" | "non_retryable", Tree::List(items)) if items.is_empty() => return None,
        _ => {}
    }
    shaped(node, &field.shape)
}

fn shaped(node: &Marked, shape: &Shape) -> Option<Json> {
    match shape {
        Shape::Beside => None,
        Shape::Choice(words) => node.text().filter(|text| words.first() != Some(text)).map(Json::from),
        Shape::Duration(_) => Some(duration_ms(node).map_or_else(|| node.to_json(), Json::from)),
        Shape::FailureRules if is_default_failure(Some(node)) => None,
        Shape::FailureRules => Some(match node.text() {
            Some(word) => serde_json::json!([{ "then": word }]),
            None => node.items().iter().map(|rule| object(rule, FAILURE_RULE)).collect(),
        }),
        Shape::Object(fields) => Some(object(node, fields)),
        Shape::Named(form, inner) => {
            let names = node.entries().iter().filter(|entry| form.fits(&entry.key));
            Some(Json::Object(
                names.filter_map(|entry| Some((entry.key.clone(), shaped(&entry.value, inner)?))).collect(),
            ))
        }
        _ => Some(node.to_json()),
    }
}

fn object(node: &Marked, fields: &[Field]) -> Json {
    let mut written = Map::new();
    for entry in node.entries() {
        let field = fields.iter().find(|field| field.name == entry.key);
        if let Some(value) = field.and_then(|field| value(&entry.value, field)) {
            written.insert(entry.key.clone(), value);
        }
    }
    Json::Object(written)
}
