//! Defaults: put in where a property is missing, before anything is checked (L1).

use serde_json::Value as Json;

use super::references::References;

/// Schemas that are looked at for one payload: far more than any honest one needs, so that parts which refer to each
/// other twice at every level cannot take for ever. What is left after that keeps its gaps.
const STEPS_MAX: usize = 1_000_000;

/// Fills `value` by `schema`; whether anything was put in.
pub(super) fn fill(schema: &Json, value: &mut Json) -> bool {
    let mut filler =
        Filler { references: References::of(schema), inserting: Vec::new(), steps_left: STEPS_MAX, filled: false };
    filler.value(schema, value);
    filler.filled
}

struct Filler<'a> {
    references: References<'a>,
    /// Schemas whose default is being filled itself: one that holds itself again is put in once.
    inserting: Vec<&'a Json>,
    steps_left: usize,
    filled: bool,
}

impl<'a> Filler<'a> {
    fn value(&mut self, schema: &'a Json, value: &mut Json) {
        if !(value.is_object() || value.is_array()) || !self.step() {
            return;
        }
        match value {
            Json::Object(_) => self.object(schema, value),
            Json::Array(items) => self.list(schema, items),
            _ => {}
        }
        if let Some(target) = self.references.target(schema) {
            self.value(target, value);
        }
        for part in schema.get("allOf").and_then(Json::as_array).into_iter().flatten() {
            self.value(part, value);
        }
    }

    fn step(&mut self) -> bool {
        self.steps_left = self.steps_left.saturating_sub(1);
        self.steps_left > 0
    }

    fn object(&mut self, schema: &'a Json, value: &mut Json) {
        let Json::Object(members) = value else { return };
        let properties = schema.get("properties").and_then(Json::as_object);
        for (name, property) in properties.into_iter().flatten() {
            if let Some(member) = members.get_mut(name) {
                self.value(property, member);
            } else if let Some((part, default)) = self.default_of(property)
                && !self.inserting.iter().any(|open| std::ptr::eq(*open, part))
            {
                let mut inserted = default.clone();
                self.inserting.push(part);
                self.value(property, &mut inserted);
                self.inserting.pop();
                members.insert(name.clone(), inserted);
                self.filled = true;
            }
        }
        // Members that `properties` does not know follow `additionalProperties`, unless a pattern claims them.
        let others = schema.get("additionalProperties").filter(|_| schema.get("patternProperties").is_none());
        if let Some(others) = others.filter(|others| others.is_object()) {
            for (name, member) in members.iter_mut() {
                if properties.is_none_or(|properties| !properties.contains_key(name)) {
                    self.value(others, member);
                }
            }
        }
    }

    fn list(&mut self, schema: &'a Json, items: &mut [Json]) {
        let first = schema.get("prefixItems").and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
        for (index, item) in items.iter_mut().enumerate() {
            if let Some(part) = first.get(index).or_else(|| schema.get("items")) {
                self.value(part, item);
            }
        }
    }

    /// The default of a property, its own or that of what it refers to or is made of, and the schema that says it.
    fn default_of(&mut self, property: &'a Json) -> Option<(&'a Json, &'a Json)> {
        if let Some(default) = property.get("default") {
            return Some((property, default));
        }
        if !self.step() {
            return None;
        }
        // References in place do not go round in circles: the schema has been checked for that.
        if let Some(found) = self.references.target(property).and_then(|target| self.default_of(target)) {
            return Some(found);
        }
        let parts = property.get("allOf").and_then(Json::as_array);
        parts.into_iter().flatten().find_map(|part| self.default_of(part))
    }
}
