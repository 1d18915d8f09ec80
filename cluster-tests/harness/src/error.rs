//! What goes wrong with a world. None of it says anything about the product: a harness fault is no verdict.

use std::path::{Path, PathBuf};

/// Why the harness could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The machine refused something.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// What the machine said.
        source: std::io::Error,
    },
    /// A program that the harness calls failed.
    #[error("`{command}` ended with {status}: {said}")]
    Program {
        /// What was called.
        command: String,
        /// How it ended.
        status: std::process::ExitStatus,
        /// What it said on standard error.
        said: String,
    },
    /// A name that is not in this world, or is taken, or cannot be a name.
    #[error("{name:?} {why}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A node is in a state in which this cannot be done to it.
    #[error("{node} {why}")]
    State {
        /// Which node.
        node: String,
        /// In which state.
        why: &'static str,
    },
    /// A node did not become ready.
    #[error("{node} is not ready: {why}; the end of its log:\n{log}")]
    NotReady {
        /// Which node.
        node: String,
        /// How that showed.
        why: String,
        /// Its last lines.
        log: String,
    },
    /// `ORBIT_BIN` names no binary.
    #[error("ORBIT_BIN is {0:?}, which is no file; scripts/node-for-tests builds a node and prints where it is")]
    Binary(Option<PathBuf>),
    /// A file is not what it should be.
    #[error("{}: {why}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

impl Error {
    /// For `map_err`: the machine refused `what`.
    pub(crate) fn system<E: Into<std::io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        let what = what.into();
        move |source| Self::System { what, source: source.into() }
    }

    /// For `map_err`: the machine refused to do something with a file.
    pub(crate) fn file<E: Into<std::io::Error>>(what: &str, path: &Path) -> impl FnOnce(E) -> Self {
        Self::system(format!("{what} {}", path.display()))
    }

    pub(crate) fn name(name: &str, why: &'static str) -> Self {
        Self::Name { name: name.to_owned(), why }
    }
}
