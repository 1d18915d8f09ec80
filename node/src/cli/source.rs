//! Files as they are named on the command line.

use std::io;
use std::path::{Path, PathBuf};

use workflow::document::{self, Compiled, Fault, Faults, Format};

/// The ending of a cases file.
const CASES: &str = ".test.yaml";
/// Endings of documents.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// A file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("FILE_NOT_FOUND: there is no {}; check the path", .0.display())]
    Missing(PathBuf),
    #[error("NOT_A_FILE: {} is a directory; name the files in it", .0.display())]
    Directory(PathBuf),
    #[error("FILE_UNREADABLE: {} could not be read: {error}; check its permissions", .path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("UNKNOWN_ENDING: {} is neither .yaml, .yml nor .json; give it the ending of what it is", .0.display())]
    Ending(PathBuf),
    #[error("NO_CASES: {} has no cases beside it; write them into {}", .document.display(), .cases.display())]
    NoCases { document: PathBuf, cases: PathBuf },
    #[error(
        "NO_DOCUMENT: the cases {} have no document; it belongs beside them as {}",
        .cases.display(),
        .document.display()
    )]
    NoDocument { cases: PathBuf, document: PathBuf },
}

impl Error {
    /// Whether the command named the wrong thing.
    pub(crate) fn is_usage(&self) -> bool {
        !matches!(self, Self::Unreadable { .. })
    }
}

/// A file's text, or where it is none.
pub(crate) fn read(path: &Path) -> Result<Result<String, Fault>, Error> {
    if path.is_dir() {
        return Err(Error::Directory(path.to_owned()));
    }
    let bytes = std::fs::read(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::Missing(path.to_owned()),
        _ => Error::Unreadable { path: path.to_owned(), error },
    })?;
    Ok(String::from_utf8(bytes).map_err(|error| {
        let (valid, _) = error.as_bytes().split_at(error.utf8_error().valid_up_to());
        let text = String::from_utf8_lossy(valid);
        let line = text.matches('\n').count() + 1;
        let column = text.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
        Fault {
            message: "this is no UTF-8; save the file as UTF-8".to_owned(),
            line: u32::try_from(line).unwrap_or(u32::MAX),
            column: u32::try_from(column).unwrap_or(u32::MAX),
            path: String::new(),
            suggestion: None,
        }
    }))
}

/// Compiles the documents of a file.
pub(crate) fn compile(path: &Path) -> Result<Result<Vec<Compiled>, Faults>, Error> {
    let format = match path.extension().and_then(|ending| ending.to_str()) {
        Some("json") => Format::Json,
        Some("yaml" | "yml") => Format::Yaml,
        _ if path.exists() && !path.is_dir() => return Err(Error::Ending(path.to_owned())),
        // That it is missing or a directory is the better thing to say.
        _ => Format::Yaml,
    };
    Ok(match read(path)? {
        Ok(text) => document::compile(&text, format),
        Err(fault) => Err(fault.into()),
    })
}

/// Whether this is a cases file by its name.
pub(crate) fn is_cases(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(CASES))
}

/// A document and its cases.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pair {
    pub(crate) cases: PathBuf,
    pub(crate) document: PathBuf,
}

/// What `path` names: a document, a cases file, or all cases in a directory and below.
pub(crate) fn pairs(path: &Path) -> Result<Vec<Pair>, Error> {
    if path.is_dir() {
        let mut files = Vec::new();
        cases_below(path, &mut files)?;
        files.sort();
        return files.into_iter().map(pair_of_cases).collect();
    }
    if !path.exists() {
        return Err(Error::Missing(path.to_owned()));
    }
    if is_cases(path) {
        return Ok(vec![pair_of_cases(path.to_owned())?]);
    }
    let cases = path.with_extension(&CASES[1..]);
    let document = path.to_owned();
    if cases.exists() { Ok(vec![Pair { cases, document }]) } else { Err(Error::NoCases { document, cases }) }
}

fn pair_of_cases(cases: PathBuf) -> Result<Pair, Error> {
    let name = cases.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let stem = name.strip_suffix(CASES).unwrap_or(&name);
    let named = |ending: &str| cases.with_file_name(format!("{stem}.{ending}"));
    match ENDINGS.into_iter().map(named).find(|document| document.exists()) {
        Some(document) => Ok(Pair { cases, document }),
        None => Err(Error::NoDocument { document: named("yaml"), cases }),
    }
}

/// Links to directories are not followed: they may lead in circles.
fn cases_below(dir: &Path, files: &mut Vec<PathBuf>) -> Result<(), Error> {
    let unreadable = |error| Error::Unreadable { path: dir.to_owned(), error };
    for entry in std::fs::read_dir(dir).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let path = entry.path();
        if entry.file_type().map_err(unreadable)?.is_dir() {
            cases_below(&path, files)?;
        } else if is_cases(&path) {
            files.push(path);
        }
    }
    Ok(())
}
