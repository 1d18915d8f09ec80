//! What all commands that speak to a node have in common.

use std::future::Future;
use std::io::Read;
use std::time::Duration;

use workflow::expression::text::parse_duration_ms;
use workflow::value::Payload;

use super::json::Json;
use super::print::{Form, Output};
use super::{Error, source};
use crate::client::{self, Answer, Client, Refusal};

/// Which node, and how its answers are shown.
#[derive(Debug, clap::Args)]
pub(crate) struct Remote {
    /// Where a node answers.
    #[arg(long, env = "ORBIT_ADDRESS", default_value = "http://127.0.0.1:7400", value_name = "URL")]
    address: String,
    /// Who is asking.
    #[arg(long, env = "ORBIT_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// For how long a call is repeated while no node can take it.
    #[arg(long, default_value = "5s", value_parser = duration, value_name = "DURATION")]
    retry_for: Duration,
    /// How the result is shown.
    #[arg(long, value_enum, default_value_t = Form::Table)]
    pub(crate) output: Form,
}

impl Remote {
    /// The way to the node.
    pub(crate) fn client(&self) -> Result<Client, client::Error> {
        let token = self.token.clone().filter(|token| !token.is_empty());
        Client::new(&self.address, token, self.retry_for)
    }

    /// Shows an answer: what the node said, or what `table` makes of it.
    pub(crate) fn show<T: serde::de::DeserializeOwned>(
        &self,
        answer: &Answer,
        output: &mut Output,
        table: impl FnOnce(&mut Output, T),
    ) -> Result<(), Error> {
        match self.output {
            Form::Table => table(output, answer.read()?),
            form => self.show_text(form, &answer.text, output),
        }
        Ok(())
    }

    /// Shows JSON as it is, or as YAML.
    pub(crate) fn show_text(&self, form: Form, text: &str, output: &mut Output) {
        match form {
            Form::Yaml => output.value(form, &Json(text)),
            Form::Json | Form::Table => output.line(text.trim_end()),
        }
    }

    /// Shows what a refusal says beside its sentence: faults that do not stand in it.
    fn show_refusal(&self, refusal: &Refusal, output: &mut Output) {
        match self.output {
            Form::Table => {
                let faults = refusal.faults().into_iter().filter(|fault| !refusal.message.contains(&fault.message));
                let what = if refusal.code == "INVALID_SIGNAL" { "payload" } else { "input" };
                faults.for_each(|fault| output.note(fault.shown(what)));
            }
            form => self.show_text(form, &refusal.text, output),
        }
    }
}

/// A command that speaks to a node.
pub(crate) trait Asks {
    /// Which node.
    fn remote(&self) -> &Remote;

    /// Does it.
    async fn ask(&self, client: &Client, output: &mut Output) -> Result<(), Error>;

    /// Does it from outside any runtime.
    fn run(&self, output: &mut Output) -> Vec<Error> {
        let asked = match self.remote().client() {
            Ok(client) => block_on(self.ask(&client, output)).and_then(|asked| asked),
            Err(error) => Err(error.into()),
        };
        if let Err(Error::Client(client::Error::Refused(refusal))) = &asked {
            self.remote().show_refusal(refusal, output);
        }
        asked.err().into_iter().collect()
    }
}

/// Waits for what a command does.
pub(crate) fn block_on<F: Future>(future: F) -> Result<F::Output, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    Ok(runtime.map_err(|error| Error::System(error.to_string()))?.block_on(future))
}

/// A duration of the command line: `250ms`, `30s`, `1h30m`, or 0.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    match parse_duration_ms(text) {
        Some(ms) => Ok(Duration::from_millis(ms)),
        None if text == "0" => Ok(Duration::ZERO),
        None => Err("write a duration like 250ms, 30s or 1h30m".to_owned()),
    }
}

/// An id of an execution. What could not be one never becomes a path.
pub(crate) fn execution_id(text: &str) -> Result<String, String> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    // Those of children, which Orbit makes, are longer than those that callers may give.
    if (1..=1_000).contains(&text.len()) && text.bytes().all(allowed) && text.bytes().any(|byte| byte != b'.') {
        Ok(text.to_owned())
    } else {
        Err("an id is 1 to 200, of a child 1 to 1 000, of A-Z a-z 0-9 - _ . : and not only dots".to_owned())
    }
}

/// A name that is to be part of a path.
pub(crate) fn name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.bytes().all(|byte| byte == b'.') {
        return Err("a name is not empty and not only dots".to_owned());
    }
    Ok(text.to_owned())
}

/// JSON as it is given on the command line: itself, `@FILE`, or `@-` for stdin. Kept byte for byte.
pub(crate) fn payload(given: &str) -> Result<Payload, Error> {
    let (text, from) = match given.strip_prefix('@') {
        Some("-") => {
            let mut text = String::new();
            let read = std::io::stdin().read_to_string(&mut text);
            read.map_err(|error| Error::Json { from: "stdin".to_owned(), why: error.to_string() })?;
            (text, "stdin".to_owned())
        }
        Some(file) => match source::read(file.as_ref())? {
            Ok(text) => (text, file.to_owned()),
            Err(fault) => return Err(Error::Json { from: file.to_owned(), why: fault.to_string() }),
        },
        None => (given.to_owned(), "the command line".to_owned()),
    };
    Payload::parse(text.trim()).map_err(|error| Error::Json { from, why: error.to_string() })
}
