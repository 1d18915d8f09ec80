//! What a schema says about itself: its parts, its references, whether it can be compiled.

use std::collections::{HashMap, HashSet};

use jsonschema::meta;
use serde_json::Value as Json;

use super::references::References;
use super::{ContractFault, contract_fault, short};
use crate::document::join;

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Faults of one schema that are told.
const FAULTS_MAX: usize = 20;

/// Schemas inside one schema.
const PARTS_MAX: usize = 10_000;

/// Patterns inside one schema, and inside one document: compiling one may take milliseconds.
pub(super) const PATTERNS_MAX: usize = 500;

/// The longest chain of schemas about one value: how deep checking goes.
const CHAIN_MAX: usize = 100;

/// Schemas that checking one value may visit.
const VISITS_MAX: usize = 1_000;

/// Keywords that hold one schema.
const ONE: [&str; 13] = [
    "items",
    "contains",
    "additionalProperties",
    "unevaluatedProperties",
    "unevaluatedItems",
    "propertyNames",
    "not",
    "if",
    "then",
    "else",
    "contentSchema",
    "additionalItems",
    "dependencies",
];
/// Keywords that hold a list of schemas.
const LIST: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
/// Keywords that hold schemas by name.
const NAMED: [&str; 5] = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
/// Keywords whose schemas speak about the same value as the schema that they stand in.
const IN_PLACE: [&str; 8] = ["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"];

/// Everything that is wrong with `schema`, bounded.
pub(super) fn faults(schema: &Json) -> Vec<ContractFault> {
    if !(schema.is_object() || schema.is_boolean()) {
        let message = "a JSON Schema is an object or a boolean".to_owned();
        return vec![ContractFault { pointer: String::new(), message }];
    }
    let mut found = Vec::new();
    match schema.get("$schema").map(Json::as_str) {
        None => {}
        Some(Some(dialect)) if dialect.trim_end_matches('#') == DIALECT => {}
        Some(_) => found.push(fault("/$schema", &format!("only JSON Schema 2020-12 is known: {DIALECT}"))),
    }
    let mut parts = 0;
    each(schema, &mut |_, _| parts += 1);
    if parts > PARTS_MAX || patterns(schema) > PATTERNS_MAX {
        let message = format!("too big: a schema has at most {PARTS_MAX} parts and {PATTERNS_MAX} patterns");
        return vec![fault("", &message)];
    }
    let references = References::of(schema);
    each(schema, &mut |pointer, part| {
        if found.len() < FAULTS_MAX {
            part_faults(&references, pointer, part, &mut found);
        }
    });
    if found.is_empty() {
        let validator = meta::options();
        if let Err(error) = validator.validate(schema) {
            found.push(contract_fault(&error));
        }
    }
    if found.is_empty() {
        endless(schema, &mut found);
    }
    found.truncate(FAULTS_MAX);
    found
}

/// How many patterns a schema has.
pub(super) fn patterns(schema: &Json) -> usize {
    let mut patterns = 0;
    each(schema, &mut |_, part| {
        patterns += usize::from(part.get("pattern").is_some());
        patterns += part.get("patternProperties").and_then(Json::as_object).map_or(0, serde_json::Map::len);
    });
    patterns
}

fn part_faults(references: &References<'_>, pointer: &str, part: &Json, found: &mut Vec<ContractFault>) {
    for keyword in ["$ref", "$dynamicRef"] {
        let Some(target) = part.get(keyword).and_then(Json::as_str) else { continue };
        let (resource, fragment) = target.split_once('#').unwrap_or((target, ""));
        let at = format!("{pointer}/{keyword}");
        if !resource.is_empty() && !references.has_id(resource) {
            found.push(fault(&at, &format!("refers outside this schema, which is never fetched: {target}")));
        } else if resource.is_empty()
            && fragment.starts_with('/')
            && !references.has_ids()
            && references.resolve(target).is_none()
        {
            found.push(fault(&at, &format!("refers to nothing: {target}")));
        }
    }
    let patterns = part.get("pattern").and_then(Json::as_str).map(|text| ("pattern".to_owned(), text));
    let keys = part.get("patternProperties").and_then(Json::as_object);
    let keys = keys.into_iter().flatten().map(|(key, _)| (format!("patternProperties/{}", escaped(key)), key.as_str()));
    for (at, text) in patterns.into_iter().chain(keys) {
        if let Err(message) = pattern(text) {
            found.push(fault(&format!("{pointer}/{at}"), &message));
        }
    }
}

/// Whether the engine takes `text`, asked by compiling a schema of nothing else.
fn pattern(text: &str) -> Result<(), String> {
    match super::build(&serde_json::json!({ "pattern": text })) {
        Ok(_) => Ok(()),
        Err(_) => {
            Err(format!("no regular expression (or one that needs look-around or backtracking, or is too big): {text}"))
        }
    }
}

/// How far the schemas that speak about one value reach.
#[derive(Clone, Copy)]
struct Reach {
    /// The longest chain of them.
    length: usize,
    /// How many are visited when none decides early: a schema that is referred to twice counts twice.
    visits: usize,
}

/// Schemas that refer to themselves about the same value, or on and on: checking would never end, or take too long.
fn endless(root: &Json, found: &mut Vec<ContractFault>) {
    let (mut known, references) = (HashMap::new(), References::of(root));
    each(root, &mut |pointer, part| {
        if found.is_empty()
            && let Err(message) = reach(&references, part, &mut Vec::new(), &mut known)
        {
            found.push(fault(pointer, &message));
        }
    });
}

fn reach<'a>(
    references: &References<'a>,
    part: &'a Json,
    open: &mut Vec<*const Json>,
    known: &mut HashMap<*const Json, Reach>,
) -> Result<Reach, String> {
    let here = std::ptr::from_ref(part);
    if open.contains(&here) {
        return Err("refers to itself without end".to_owned());
    }
    if let Some(reach) = known.get(&here) {
        return Ok(*reach);
    }
    let mut all = Reach { length: 1, visits: 1 };
    open.push(here);
    let mut next: Vec<&Json> = references.target(part).into_iter().collect();
    next.extend(in_place(part));
    for part in next {
        // Before going deeper, so that the chain bounds the stack too.
        if open.len() >= CHAIN_MAX {
            return Err(format!("a chain of more than {CHAIN_MAX} schemas about one value"));
        }
        let further = reach(references, part, open, known)?;
        all = Reach { length: all.length.max(further.length + 1), visits: all.visits.saturating_add(further.visits) };
    }
    open.pop();
    if all.length > CHAIN_MAX {
        return Err(format!("a chain of more than {CHAIN_MAX} schemas about one value"));
    }
    if all.visits > VISITS_MAX {
        return Err(format!("too costly: checking one value may take more than {VISITS_MAX} schemas"));
    }
    known.insert(here, all);
    Ok(all)
}

/// Schemas inside `part` that speak about the same value.
fn in_place(part: &Json) -> Vec<&Json> {
    let mut all: Vec<&Json> = Vec::new();
    for keyword in IN_PLACE {
        match part.get(keyword) {
            Some(Json::Array(list)) => all.extend(list),
            Some(Json::Object(named)) if keyword == "dependentSchemas" => all.extend(named.values()),
            Some(one) => all.push(one),
            None => {}
        }
    }
    all
}

/// Visits `schema` and every schema inside it; what stands in `const`, `enum`, `default`, `examples` is no schema.
pub(super) fn each<'a>(schema: &'a Json, visit: &mut impl FnMut(&str, &'a Json)) {
    each_at(schema, "", visit);
}

fn each_at<'a>(schema: &'a Json, pointer: &str, visit: &mut impl FnMut(&str, &'a Json)) {
    let Json::Object(members) = schema else { return };
    visit(pointer, schema);
    for (keyword, value) in members {
        let at = join(pointer, keyword);
        match value {
            Json::Object(_) if ONE.contains(&keyword.as_str()) => each_at(value, &at, visit),
            Json::Array(list) if LIST.contains(&keyword.as_str()) => {
                for (index, part) in list.iter().enumerate() {
                    each_at(part, &join(&at, index), visit);
                }
            }
            Json::Object(named) if NAMED.contains(&keyword.as_str()) => {
                for (name, part) in named {
                    each_at(part, &join(&at, name), visit);
                }
            }
            _ => {}
        }
    }
}

/// Whether any part has a default.
pub(super) fn mentions_default(schema: &Json) -> bool {
    let mut mentions = false;
    each(schema, &mut |_, part| mentions |= part.get("default").is_some());
    mentions
}

/// `schema` with undeclared top-level properties refused, where L1 says so.
pub(super) fn closed(schema: &Json) -> Json {
    let (mut parts, mut seen) = (Vec::new(), HashSet::new());
    same_value(&References::of(schema), schema, &mut parts, &mut seen);
    let says = |keyword: &str| parts.iter().any(|part| part.get(keyword).is_some());
    let declares = parts
        .iter()
        .any(|part| part.get("properties").and_then(Json::as_object).is_some_and(|properties| !properties.is_empty()));
    let mut closed = schema.clone();
    if !declares || says("additionalProperties") || says("unevaluatedProperties") {
        return closed;
    }
    if let Json::Object(members) = &mut closed {
        // What other parts declare counts as declared, and only the "unevaluated" keyword sees it.
        let keyword = if parts.len() == 1 { "additionalProperties" } else { "unevaluatedProperties" };
        members.insert(keyword.to_owned(), Json::Bool(false));
    }
    closed
}

/// `part` and everything in it that speaks about the same value.
fn same_value<'a>(
    references: &References<'a>,
    part: &'a Json,
    parts: &mut Vec<&'a Json>,
    seen: &mut HashSet<*const Json>,
) {
    if !seen.insert(std::ptr::from_ref(part)) {
        return;
    }
    parts.push(part);
    let mut next: Vec<&Json> = references.target(part).into_iter().collect();
    for keyword in IN_PLACE.into_iter().filter(|keyword| *keyword != "not") {
        match part.get(keyword) {
            Some(Json::Array(list)) => next.extend(list),
            Some(Json::Object(named)) if keyword == "dependentSchemas" => next.extend(named.values()),
            Some(one) => next.push(one),
            None => {}
        }
    }
    for part in next {
        same_value(references, part, parts, seen);
    }
}

fn fault(pointer: &str, message: &str) -> ContractFault {
    ContractFault { pointer: pointer.to_owned(), message: short(message.to_owned()) }
}

fn escaped(segment: &str) -> String {
    segment.replace('~', "~0").replace('/', "~1")
}
