//! How a process is started: the program, its arguments, its environment.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use crate::Error;

/// A command line. The environment of the test is not passed on: a process gets what is said here.
#[derive(Debug, Clone)]
pub struct Launch {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// Whether `--config FILE` of the node follows.
    pub(crate) takes_config: bool,
}

impl Launch {
    /// `orbit dev --insecure-listen --peer-listen 127.0.0.1:7402 --config FILE`: a node that is the whole cluster and
    /// has nobody to listen to.
    #[must_use]
    pub fn dev(binary: impl Into<PathBuf>) -> Self {
        let command = Self::program(binary.into()).arg("dev").arg("--insecure-listen");
        Self { takes_config: true, ..command.arg("--peer-listen").arg("127.0.0.1:7402") }
    }

    /// `orbit server --config FILE`: a node of a cluster. What lets it listen where others reach it, credentials or
    /// `--insecure-listen`, is for the test to say.
    #[must_use]
    pub fn server(binary: impl Into<PathBuf>) -> Self {
        Self { takes_config: true, ..Self::program(binary.into()).arg("server") }
    }

    /// Any program, with the arguments and the environment given here and no others.
    #[must_use]
    pub fn program(program: impl Into<OsString>) -> Self {
        let backtrace = ("RUST_BACKTRACE".into(), "1".into());
        Self { program: program.into(), arguments: Vec::new(), environment: vec![backtrace], takes_config: false }
    }

    /// One more argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// A variable of the environment.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }
}

/// The node that `ORBIT_BIN` names.
///
/// # Errors
///
/// When it names none.
pub fn binary() -> Result<PathBuf, Error> {
    let path = std::env::var_os("ORBIT_BIN").map(PathBuf::from);
    path.as_ref().filter(|path| path.is_file()).cloned().ok_or(Error::Binary(path))
}
