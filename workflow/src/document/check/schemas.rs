//! Members of a JSON Schema that are no keywords: allowed, and without effect.

use super::Report;
use crate::document::fault::nearest;
use crate::document::marked::{Entry, Marked, Tree, join};

/// The keywords of JSON Schema 2020-12, and the two of older drafts that are still read.
const KEYWORDS: [&str; 61] = [
    "$anchor",
    "$comment",
    "$defs",
    "$dynamicAnchor",
    "$dynamicRef",
    "$id",
    "$ref",
    "$schema",
    "$vocabulary",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "default",
    "definitions",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "deprecated",
    "description",
    "else",
    "enum",
    "example",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "if",
    "items",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "nullable",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "readOnly",
    "required",
    "then",
    "title",
    "type",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
];

/// The types of JSON Schema.
pub(super) const TYPES: [&str; 7] = ["string", "integer", "number", "boolean", "object", "array", "null"];

/// Warns of unknown members of a whole schema, and deeper inside of those that are a slip of the pen.
pub(super) fn check(schema: &Marked, path: &str, report: &mut Report) {
    for entry in schema.entries() {
        if report.has_warned_enough() {
            return;
        }
        if !is_known(&entry.key) && nearest(&entry.key, KEYWORDS).is_none() {
            let (key, value) = (&entry.key, property(&entry.value));
            let message = format!(
                "`{key}` is no keyword of JSON Schema and has no effect; a property is written \
                 properties: {{{key}: {value}}}"
            );
            report.warn(entry.key_place, &join(path, key), message);
        }
    }
    slips(schema, path, report);
}

fn slips(schema: &Marked, path: &str, report: &mut Report) {
    for entry in schema.entries() {
        if report.has_warned_enough() {
            return;
        }
        let at = join(path, &entry.key);
        if !is_known(&entry.key) {
            slip(entry, &at, report);
            continue;
        }
        match entry.key.as_str() {
            "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
                for named in entry.value.entries() {
                    slips(&named.value, &join(&at, &named.key), report);
                }
            }
            "allOf" | "anyOf" | "oneOf" | "prefixItems" => {
                for (index, part) in entry.value.items().iter().enumerate() {
                    slips(part, &join(&at, index), report);
                }
            }
            "items"
            | "additionalProperties"
            | "contains"
            | "not"
            | "if"
            | "then"
            | "else"
            | "propertyNames"
            | "unevaluatedItems"
            | "unevaluatedProperties" => slips(&entry.value, &at, report),
            _ => {}
        }
    }
}

fn slip(entry: &Entry, path: &str, report: &mut Report) {
    if let Some(keyword) = nearest(&entry.key, KEYWORDS) {
        let message =
            format!("`{}` is no keyword of JSON Schema and has no effect (did you mean `{keyword}`?)", entry.key);
        report.warn(entry.key_place, path, message);
    }
}

fn is_known(key: &str) -> bool {
    key.starts_with("x-") || key.starts_with('$') || KEYWORDS.contains(&key)
}

/// How the schema of a property is written that was given as `value`.
fn property(value: &Marked) -> String {
    match &value.tree {
        Tree::Text(text) if TYPES.contains(&text.as_str()) => format!("{{type: {text}}}"),
        _ => "{…}".to_owned(),
    }
}
