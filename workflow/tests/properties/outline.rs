//! A document as the checkers read it: the author's own JSON and the keys of the language, nothing of the engine's
//! compiled form.

use std::collections::HashMap;

use serde_json::Value as Json;
use workflow::key;

/// What a unit is, seen from its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    For,
    Repeat,
    Block,
    Task,
    /// A child or a signal: in flight from its StepScheduled.
    Delivery,
    Wait,
    Other,
}

/// A document's steps by id.
#[derive(Clone, Debug)]
pub struct Outline {
    steps: HashMap<String, Json>,
}

impl Outline {
    pub fn of(document: &Json) -> Self {
        let mut steps = HashMap::new();
        collect(&document["steps"], &mut steps);
        for (name, handler) in document["handlers"].as_object().into_iter().flatten() {
            match name.as_str() {
                "event" => handler.as_object().into_iter().flatten().for_each(|(_, h)| collect(h, &mut steps)),
                _ => collect(handler, &mut steps),
            }
        }
        Self { steps }
    }

    /// The step that the last segment of `key` names.
    pub fn step(&self, key: &str) -> Option<&Json> {
        self.steps.get(key::last_segment(key).id)
    }

    fn has(&self, key: &str, attribute: &str) -> bool {
        self.step(key).is_some_and(|step| step.get(attribute).is_some())
    }

    pub fn has_retry(&self, key: &str) -> bool {
        self.has(key, "retry")
    }

    pub fn role(&self, key: &str) -> Role {
        let segment = key::last_segment(key);
        match () {
            () if self.has(key, "for") && segment.element.is_none() => Role::For,
            () if self.has(key, "repeat") && segment.iteration.is_none() => Role::Repeat,
            () if self.has(key, "steps") => Role::Block,
            () if self.has(key, "task") => Role::Task,
            () if self.has(key, "workflow") || self.has(key, "signal") => Role::Delivery,
            () if self.has(key, "await") => Role::Wait,
            () => Role::Other,
        }
    }

    /// The signals of which the wait at `key` takes every one.
    pub fn unconditional(&self, key: &str) -> Vec<&str> {
        let Some(wait) = self.step(key).map(|step| &step["await"]).filter(|wait| wait.get("where").is_none()) else {
            return Vec::new();
        };
        let one = wait["signal"].as_str();
        one.into_iter().chain(wait["signal"].as_array().into_iter().flatten().filter_map(Json::as_str)).collect()
    }

    /// Whether a block instance may be open at `path`.
    pub fn is_block(&self, path: &str) -> bool {
        self.has(path, "steps")
    }

    /// The `compensate` that belongs to this very unit: to each element and iteration, not to what is around them.
    pub fn compensate(&self, key: &str) -> Option<&Json> {
        if matches!(self.role(key), Role::For | Role::Repeat) {
            return None;
        }
        self.step(key)?.get("compensate")
    }

    pub fn is_always(&self, key: &str) -> bool {
        self.compensate(key).is_some_and(|undo| undo["always"] == true)
    }
}

fn collect(block: &Json, steps: &mut HashMap<String, Json>) {
    let inner = block.as_array().or_else(|| block["steps"].as_array());
    for step in inner.into_iter().flatten() {
        steps.insert(step["id"].as_str().unwrap_or_default().to_owned(), step.clone());
        collect(&step["steps"], steps);
    }
}

/// The outermost `for` at or below `top` around `key` and the element of it: what may be undone side by side.
pub fn lane(key: &str, top: &str) -> Option<(String, String)> {
    let mut path = String::new();
    for segment in key.split('.') {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(segment);
        if key::is_under(&path, top) && !key::is_handler_path(&path) && key::last_segment(&path).element.is_some() {
            return Some((key::step_of(&path).to_owned(), key::element_of(&path).to_owned()));
        }
    }
    None
}
