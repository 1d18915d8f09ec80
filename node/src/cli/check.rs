//! `orbit check F…`: compiles documents and shows every fault with its place.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use workflow::case::{self, Case};
use workflow::definition::Definition;
use workflow::document::{self, Fault, Faults, Registry, Warning};

use super::order::children_first;
use super::print::{Form, Output};
use super::{Error, counted, source};

/// Compile documents and show every fault with its place.
#[derive(Debug, clap::Args)]
pub(crate) struct Check {
    /// Documents (.yaml, .yml, .json); cases files are read as well.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// How the result is shown.
    #[arg(long, value_enum, default_value_t = Form::Table)]
    output: Form,
}

/// What was found in all files.
#[derive(Debug, Default, Serialize)]
struct Found {
    /// Children first: in the order in which they can be registered.
    documents: Vec<Document>,
    cases: Vec<Cases>,
    faults: Vec<InFile<Fault>>,
}

#[derive(Debug, Serialize)]
struct Cases {
    file: String,
    cases: usize,
}

#[derive(Debug, Serialize)]
struct Document {
    file: String,
    name: String,
    version: String,
    definition_hash: String,
    warnings: Vec<Warning>,
    #[serde(skip)]
    definition: Arc<Definition>,
}

#[derive(Debug, Serialize)]
struct InFile<T> {
    file: String,
    #[serde(flatten)]
    what: T,
}

impl Check {
    pub(crate) fn run(&self, output: &mut Output) -> Vec<Error> {
        let mut errors: Vec<Error> = Vec::new();
        let mut found = Found::default();
        for path in &self.files {
            if let Err(error) = found.add(path) {
                errors.push(error.into());
            }
        }
        found.warn_about_children();
        found.documents = children_first(found.documents, |document| vec![&document.definition]);
        match self.output {
            Form::Table => found.print(output),
            form => output.value(form, &found),
        }
        if !found.faults.is_empty() {
            let mut files: Vec<_> = found.faults.iter().map(|fault| &fault.file).collect();
            files.dedup();
            let (faults, files) = (counted(found.faults.len(), "fault"), counted(files.len(), "file"));
            errors.push(Error::Faults { faults, files });
        }
        errors
    }
}

impl Found {
    fn add(&mut self, path: &Path) -> Result<(), source::Error> {
        let file = path.display().to_string();
        let mut refused = |faults: &[Fault]| {
            let faults = faults.iter().map(|fault| InFile { file: file.clone(), what: fault.clone() });
            self.faults.extend(faults);
        };
        if source::is_cases(path) {
            match source::read(path)? {
                Ok(text) => match cases_of(path, &text) {
                    Ok(cases) => self.cases.push(Cases { file, cases: cases.len() }),
                    Err(faults) => refused(faults.list()),
                },
                Err(fault) => refused(&[fault]),
            }
            return Ok(());
        }
        match source::compile(path)? {
            Err(faults) => refused(faults.list()),
            Ok(all) => self.documents.extend(all.into_iter().map(|compiled| Document {
                file: file.clone(),
                name: compiled.definition.name.clone(),
                version: compiled.definition.version.to_string(),
                definition_hash: compiled.hash,
                warnings: compiled.warnings,
                definition: Arc::new(compiled.definition),
            })),
        }
        Ok(())
    }

    /// What can only be seen when parent and child are known.
    fn warn_about_children(&mut self) {
        let known = Known(self.documents.iter().map(|document| Arc::clone(&document.definition)).collect());
        for document in &mut self.documents {
            document.warnings.extend(document::registry_warnings(&document.definition, &known));
        }
    }

    fn print(&self, output: &mut Output) {
        for Document { file, name, version, definition_hash, warnings, .. } in &self.documents {
            output.line(format_args!("{file}: {name} {version} {definition_hash}"));
            for Warning { message, line, column, path } in warnings {
                let place = if *line == 0 { String::new() } else { format!(":{line}:{column}") };
                output.line(format_args!("{file}{place}: warning: {path}: {message}"));
            }
        }
        for Cases { file, cases } in &self.cases {
            output.line(format_args!("{file}: {}", counted(*cases, "case")));
        }
        for InFile { file, what } in &self.faults {
            output.line(format_args!("{file}:{what}"));
        }
    }
}

/// The cases of a file; their names are looked up in the document beside it, when there is one that compiles.
fn cases_of(path: &Path, text: &str) -> Result<Vec<Case>, Faults> {
    let pair = source::pairs(path).ok().and_then(|pairs| pairs.into_iter().next());
    match pair.and_then(|pair| source::compile(&pair.document).ok()) {
        Some(Ok(compiled)) => {
            let definitions: Vec<_> = compiled.into_iter().map(|compiled| Arc::new(compiled.definition)).collect();
            case::parse_for(text, &definitions)
        }
        Some(Err(_)) | None => case::parse(text),
    }
}

/// The documents of this call; whether somebody works for a task is not known here.
struct Known(Vec<Arc<Definition>>);

impl Registry for Known {
    fn is_served(&self, _task: &str, _version: &semver::Version) -> bool {
        true
    }

    fn definition(&self, name: &str, version: &semver::Version) -> Option<Arc<Definition>> {
        let fits = |definition: &&Arc<Definition>| definition.name == name && definition.version == *version;
        self.0.iter().find(fits).cloned()
    }
}
