//! JSON Schemas (2020-12) of inputs, outputs and payloads.
//!
//! A contract is compiled once and shared. Nothing is ever fetched: a reference must lie inside its own schema.
//! Patterns run on an engine without backtracking, so a foreign payload cannot make them slow. Integers compare exactly
//! up to the whole of i64 and u64.

use std::fmt;
use std::sync::Arc;

use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use serde::Serialize;
use serde_json::Value as Json;

use crate::value::{Payload, Value};

mod fill;
mod references;
mod schema;

/// Faults of one value that are told; the first ones are enough to find the rest.
pub const VALUE_FAULTS_MAX: usize = 20;

/// Characters of one message.
const MESSAGE_MAX: usize = 300;

/// Bytes that one compiled pattern may take, and again its cache.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// Patterns of all schemas of one document.
pub(crate) const PATTERNS_MAX: usize = schema::PATTERNS_MAX;

/// What is wrong with a schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", before(pointer))]
pub struct ContractFault {
    /// JSON pointer into the schema.
    pub pointer: String,
    /// For people.
    pub message: String,
}

/// What is wrong with a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize)]
#[error("{}{message}", before(path))]
pub struct ValueFault {
    /// JSON pointer into the value.
    pub path: String,
    /// For people; never shows the value itself, which may be secret or long.
    pub message: String,
}

/// A place in front of a message; the value itself needs none.
fn before(pointer: &str) -> String {
    if pointer.is_empty() { String::new() } else { format!("{pointer}: ") }
}

/// A compiled schema; clones share it.
#[derive(Clone)]
pub struct Contract {
    inner: Arc<Inner>,
}

struct Inner {
    schema: Json,
    validator: Validator,
    /// Whether `default` occurs at all.
    has_defaults: bool,
}

impl Contract {
    /// Compiles a schema.
    ///
    /// # Errors
    /// Every place at which it is no JSON Schema 2020-12, refers outside itself or to itself without end, or has a
    /// pattern that the engine does not take.
    pub fn compile(schema: &Json) -> Result<Contract, Vec<ContractFault>> {
        let faults = schema::faults(schema);
        if !faults.is_empty() {
            return Err(faults);
        }
        let validator = build(schema).map_err(|error| vec![contract_fault(&error)])?;
        let has_defaults = schema::mentions_default(schema);
        Ok(Contract { inner: Arc::new(Inner { schema: schema.clone(), validator, has_defaults }) })
    }

    /// Compiles the schema of a workflow's input: top-level properties that it does not declare are refused, unless it
    /// says something about them or declares none (L1).
    ///
    /// # Errors
    /// As [`Contract::compile`].
    pub fn compile_closed(schema: &Json) -> Result<Contract, Vec<ContractFault>> {
        Contract::compile(schema)?;
        Contract::compile(&schema::closed(schema))
    }

    /// How many patterns a schema has: each takes time and room when it is compiled.
    pub(crate) fn patterns(schema: &Json) -> usize {
        schema::patterns(schema)
    }

    /// Checks a payload.
    ///
    /// # Errors
    /// Everything that is wrong with it, up to [`VALUE_FAULTS_MAX`].
    pub fn check(&self, payload: &Payload) -> Result<(), Vec<ValueFault>> {
        self.check_json(&read(payload))
    }

    /// Checks a value.
    ///
    /// # Errors
    /// As [`Contract::check`].
    pub fn check_value(&self, value: &Value) -> Result<(), Vec<ValueFault>> {
        self.check_json(&Json::from(value))
    }

    /// Puts in the defaults of what is missing, at any depth. A payload in which nothing is missing stays byte for
    /// byte what it was.
    #[must_use]
    pub fn fill_defaults(&self, payload: Payload) -> Payload {
        if !self.inner.has_defaults {
            return payload;
        }
        let mut json = read(&payload);
        if fill::fill(&self.inner.schema, &mut json) { written(&json) } else { payload }
    }

    /// Fills in defaults, then checks: how every input is taken (L1).
    ///
    /// # Errors
    /// As [`Contract::check`], for the filled payload.
    pub fn accept_input(&self, payload: Payload) -> Result<Payload, Vec<ValueFault>> {
        let mut json = read(&payload);
        let filled = self.inner.has_defaults && fill::fill(&self.inner.schema, &mut json);
        self.check_json(&json)?;
        Ok(if filled { written(&json) } else { payload })
    }

    /// The schema.
    #[must_use]
    pub fn schema(&self) -> &Json {
        &self.inner.schema
    }

    fn check_json(&self, value: &Json) -> Result<(), Vec<ValueFault>> {
        if self.inner.validator.is_valid(value) {
            return Ok(());
        }
        let faults = self.inner.validator.iter_errors(value).take(VALUE_FAULTS_MAX).map(|error| value_fault(&error));
        Err(faults.collect())
    }
}

impl fmt::Debug for Contract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Contract").field(&self.inner.schema).finish()
    }
}

fn build(schema: &Json) -> Result<Validator, ValidationError<'static>> {
    jsonschema::options()
        .with_draft(Draft::Draft202012)
        .offline()
        .with_pattern_options(PatternOptions::regex().size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_BYTES_MAX))
        .build(schema)
}

/// A payload is JSON that serde_json has read before (L12: kept byte for byte), so reading it again cannot fail.
fn read(payload: &Payload) -> Json {
    serde_json::from_str(payload.as_str()).unwrap_or(Json::Null)
}

fn written(json: &Json) -> Payload {
    // What serde_json wrote, it reads; the fallback keeps the promise not to panic.
    Payload::parse(&json.to_string()).unwrap_or_default()
}

fn contract_fault(error: &ValidationError<'_>) -> ContractFault {
    ContractFault { pointer: error.instance_path().to_string(), message: short(error.to_string()) }
}

fn value_fault(error: &ValidationError<'_>) -> ValueFault {
    ValueFault { path: error.instance_path().to_string(), message: short(error.masked_with("this").to_string()) }
}

fn short(message: String) -> String {
    match message.char_indices().nth(MESSAGE_MAX) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message,
    }
}

#[cfg(test)]
mod tests;
