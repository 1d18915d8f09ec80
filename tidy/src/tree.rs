//! The repository as a list of text files: what git tracks or would track, so that build output never counts.

use std::{collections::BTreeMap, path::Path, process::Command};

/// Why the repository could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Without git there is no telling a source file from build output.
    #[error("git ls-files failed: {0}")]
    Git(String),
    /// A file is there but cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file, from the root.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
}

/// Paths from the root, with `/`, and the texts behind them. Files that are not UTF-8 have no text and no lines.
#[derive(Debug, Default)]
pub struct Tree {
    files: BTreeMap<String, String>,
}

impl Tree {
    /// Reads the repository at `root`.
    ///
    /// # Errors
    /// When git cannot be asked or a file cannot be read.
    pub fn read(root: &Path) -> Result<Self, Error> {
        let mut tree = Self::default();
        for path in listed(root)? {
            match std::fs::read(root.join(&path)) {
                Ok(bytes) => {
                    let text = String::from_utf8(bytes).unwrap_or_default();
                    tree.files.insert(path, text);
                }
                // Deleted but not yet committed; or a folder that is a repository of its own.
                Err(error) if !root.join(&path).is_file() => drop(error),
                Err(source) => return Err(Error::Read { path, source }),
            }
        }
        Ok(tree)
    }

    /// A tree made of texts, for the tests of the rules.
    #[must_use]
    pub fn of(files: &[(&str, &str)]) -> Self {
        Self { files: files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect() }
    }

    /// All files in the order of their paths.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The files whose name ends so.
    pub fn ending<'a>(&'a self, ending: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.files().filter(move |(path, _)| path.ends_with(ending))
    }

    /// The text of one file.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Whether any file lies in this folder.
    #[must_use]
    pub fn has_folder(&self, folder: &str) -> bool {
        let folder = format!("{}/", folder.trim_end_matches('/'));
        self.files.keys().any(|path| path.starts_with(&folder))
    }
}

fn listed(root: &Path) -> Result<Vec<String>, Error> {
    let answer = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .map_err(|error| Error::Git(error.to_string()))?;
    if !answer.status.success() {
        return Err(Error::Git(String::from_utf8_lossy(&answer.stderr).into_owned()));
    }
    let listing = String::from_utf8_lossy(&answer.stdout).into_owned();
    Ok(listing.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
}
