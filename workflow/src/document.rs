//! From what an author writes to a definition: read with places, checked, put into the normal form, compiled.
//!
//! ```text
//! source ─ yaml | json ─▶ marked tree ─ check/ (one rule a file, all faults) ─▶ normal form ─ build ─▶ Definition
//! ```
//!
//! What holds:
//!
//! - YAML and JSON, any order of keys, any formatting: the same meaning gives the same normal form and the same hash;
//! - the normal form of a normal form is itself;
//! - a [`Definition`] is built from the normal form alone, so a node that has only that builds the same one;
//! - no source, however hostile, makes this panic, recurse deeply or take long: it is at most [`SOURCE_BYTES_MAX`]
//!   long, nested at most a hundred levels, and aliases may add at most a megabyte.
//!
//! Places count lines and columns from 1, columns in characters; paths are JSON pointers into the document.

use crate::definition::Definition;

mod build;
mod check;
mod data;
mod fault;
mod grammar;
mod hash;
mod json;
mod marked;
mod normal_form;
mod outline;
mod registered;
mod text;
mod watches;
mod yaml;

pub use crate::event::CODES as OWN_CODES;
pub use build::NormalFormError;
pub(crate) use data::Data;
pub use fault::{FAULTS_MAX, Fault, Faults, Warning};
pub(crate) use fault::{Found, nearest};
pub use grammar::BUILT_IN_TASKS;
pub(crate) use marked::join;
pub use registered::{Registry, registry_warnings};

/// The JSON Schema (2020-12) of the document, for editors. It sees form, not meaning: names, scopes, cycles and
/// versions are the compiler's.
pub const JSON_SCHEMA: &str = include_str!("../../schemas/orbit-workflow.schema.json");

/// Longest source, in bytes.
pub const SOURCE_BYTES_MAX: usize = 2 << 20;

/// What a source is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// YAML 1.2, one or several documents.
    Yaml,
    /// JSON, one document.
    Json,
}

/// One document that may be registered.
#[derive(Debug)]
pub struct Compiled {
    /// Ready to be decided on.
    pub definition: Definition,
    /// Canonical JSON; what is stored.
    pub normal_form: String,
    /// `sha256:<hex>`.
    pub hash: String,
    /// The source as it came, with all documents that it holds.
    pub source: String,
    /// What is allowed and probably not meant.
    pub warnings: Vec<Warning>,
}

/// Compiles every document of a source, in its order.
///
/// # Errors
/// Every fault of every document.
pub fn compile(source: &str, format: Format) -> Result<Vec<Compiled>, Faults> {
    let documents = read(source, format)?;
    let mut compiled = Vec::new();
    let mut faults = Found::default();
    for document in &documents {
        match compile_one(document, source) {
            Ok(one) => compiled.push(one),
            Err(found) => faults.append(found),
        }
    }
    match Faults::of(faults) {
        Some(faults) => Err(faults),
        None => Ok(compiled),
    }
}

/// Reads a source as far as its notation goes; what its documents mean is not looked at.
fn read(source: &str, format: Format) -> Result<Vec<marked::Marked>, Faults> {
    let start = marked::Place { line: 1, column: 1 };
    if source.len() > SOURCE_BYTES_MAX {
        let message = format!("{} bytes; a source has at most {SOURCE_BYTES_MAX}", source.len());
        return Err(Fault::new(start, "", message).into());
    }
    let source = source.strip_prefix('\u{feff}').unwrap_or(source);
    if let Some(place) = control_character(source) {
        return Err(Fault::new(place, "", "a control character that no text has").into());
    }
    let documents = match format {
        Format::Yaml => yaml::read(source)?,
        Format::Json => vec![json::read(source)?],
    };
    if documents.is_empty() {
        return Err(Fault::new(start, "", "there is no document in this source").into());
    }
    Ok(documents)
}

/// Where the first NUL or other control character stands that neither notation allows.
fn control_character(source: &str) -> Option<marked::Place> {
    let is_bad = |c: char| c < ' ' && !matches!(c, '\t' | '\n' | '\r');
    let at = source.find(is_bad)?;
    let before = &source[..at];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
    Some(marked::Place {
        line: u32::try_from(line).unwrap_or(u32::MAX),
        column: u32::try_from(column).unwrap_or(u32::MAX),
    })
}

fn compile_one(document: &marked::Marked, source: &str) -> Result<Compiled, Found> {
    let mut report = check::Report::default();
    let checked = check::check(document, &mut report);
    let (Some(checked), true) = (checked, report.faults.is_empty()) else { return Err(report.faults) };
    let json = normal_form::write(&checked);
    let hash = hash::definition_hash(&json);
    if let Some(written) = document.get("definition_hash")
        && written.text() != Some(&hash)
    {
        let message = format!("this is not the hash of the document, which is {hash}");
        return Err(Fault::new(written.place, "/definition_hash", message).into());
    }
    let normal_form = hash::canonical(&json);
    // What the checks let through can be built; should that ever fail, it is a fault of the document, not a panic.
    let definition = Definition::from_normal_form(&normal_form)
        .map_err(|error| Fault::new(document.place, error.path.clone(), error.message))?;
    Ok(Compiled { definition, normal_form, hash, source: source.to_owned(), warnings: report.warnings })
}

#[cfg(test)]
mod tests;
