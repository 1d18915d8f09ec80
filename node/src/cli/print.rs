//! Everything that is printed: results to stdout, errors to stderr.
//!
//! A reader that has seen enough (`| head -1`) closes the pipe: the rest is not printed, and the exit code is what it
//! would have been.

use std::fmt::Display;
use std::io::{self, BufWriter, ErrorKind, StdoutLock, Write};

use clap::ValueEnum;
use serde::Serialize;

/// How results are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// For people.
    Table,
    /// One JSON value.
    Json,
    /// The same as YAML.
    Yaml,
}

/// Where results go.
pub(crate) struct Output {
    out: BufWriter<StdoutLock<'static>>,
    result: io::Result<()>,
}

impl Output {
    pub(crate) fn new() -> Self {
        Self { out: BufWriter::new(io::stdout().lock()), result: Ok(()) }
    }

    /// One line, or several.
    pub(crate) fn line(&mut self, text: impl Display) {
        if self.result.is_ok() {
            self.result = writeln!(self.out, "{text}");
        }
    }

    /// Shows what has been printed so far to one who is watching.
    pub(crate) fn flush(&mut self) {
        if self.result.is_ok() {
            self.result = self.out.flush();
        }
    }

    /// Whether nobody reads what is printed any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.result.is_err()
    }

    /// A value as JSON or YAML.
    pub(crate) fn value(&mut self, form: Form, value: &impl Serialize) {
        let text = match form {
            Form::Yaml => serde_saphyr::to_string(value).map_err(io::Error::other),
            Form::Json | Form::Table => serde_json::to_string_pretty(value).map_err(io::Error::other),
        };
        match text {
            Ok(text) => self.line(text.trim_end()),
            Err(error) if self.result.is_ok() => self.result = Err(error),
            Err(_) => {}
        }
    }

    /// One sentence to stderr, after what has been printed so far.
    pub(crate) fn error(&mut self, error: &impl Display) {
        self.flush();
        // When stderr is closed as well there is nobody to tell.
        let _ = writeln!(io::stderr(), "error: {error}");
    }

    /// Something beside the result, to stderr: programs that read the result do not meet it there.
    pub(crate) fn note(&mut self, text: impl Display) {
        self.flush();
        let _ = writeln!(io::stderr(), "{text}");
    }

    /// Prints what is left.
    ///
    /// # Errors
    /// The results could not be printed, for another reason than that nobody reads them.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        let flushed = self.out.flush();
        match self.result.and(flushed) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            result => result,
        }
    }
}
