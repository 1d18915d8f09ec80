//! What `$ref` points to inside one schema.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;

use serde_json::Value as Json;

use super::schema::each;

/// Parts by the name that they give themselves.
type Named<'a> = HashMap<&'a str, &'a Json>;

/// The references of one schema. Names are gathered once, when the first is asked for: a schema may refer by name as
/// often as it likes.
pub(super) struct References<'a> {
    root: &'a Json,
    ids: OnceCell<Named<'a>>,
    /// By the part that they are searched in.
    anchors: RefCell<HashMap<*const Json, Named<'a>>>,
}

impl<'a> References<'a> {
    pub(super) fn of(root: &'a Json) -> Self {
        Self { root, ids: OnceCell::new(), anchors: RefCell::default() }
    }

    /// The schema that `part` points to.
    pub(super) fn target(&self, part: &Json) -> Option<&'a Json> {
        let target = part.get("$ref").or_else(|| part.get("$dynamicRef")).and_then(Json::as_str)?;
        self.resolve(target)
    }

    /// The schema that a reference names.
    pub(super) fn resolve(&self, target: &str) -> Option<&'a Json> {
        let (resource, fragment) = target.split_once('#').unwrap_or((target, ""));
        let base = if resource.is_empty() { self.root } else { *self.ids().get(resource)? };
        if fragment.is_empty() {
            return Some(base);
        }
        if !fragment.starts_with('/') {
            return self.anchor(base, fragment);
        }
        base.pointer(&percent_decoded(fragment))
    }

    /// Whether a part calls itself so.
    pub(super) fn has_id(&self, id: &str) -> bool {
        self.ids().contains_key(id)
    }

    /// Whether any part has a name: then what a pointer means depends on where it stands.
    pub(super) fn has_ids(&self) -> bool {
        !self.ids().is_empty()
    }

    fn ids(&self) -> &Named<'a> {
        self.ids.get_or_init(|| named(self.root, "$id"))
    }

    fn anchor(&self, base: &'a Json, name: &str) -> Option<&'a Json> {
        let mut anchors = self.anchors.borrow_mut();
        let named = anchors.entry(std::ptr::from_ref(base)).or_insert_with(|| {
            let mut anchors = named(base, "$dynamicAnchor");
            anchors.extend(named(base, "$anchor"));
            anchors
        });
        named.get(name).copied()
    }
}

/// The parts of `base` to which `keyword` gives a name; the first of each.
fn named<'a>(base: &'a Json, keyword: &str) -> Named<'a> {
    let mut found = HashMap::new();
    each(base, &mut |_, part| {
        if let Some(name) = part.get(keyword).and_then(Json::as_str) {
            found.entry(name).or_insert(part);
        }
    });
    found
}

fn percent_decoded(fragment: &str) -> String {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match code.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_default()
}
