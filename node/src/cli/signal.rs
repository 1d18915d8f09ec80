//! `orbit signal ID NAME [PAYLOAD]`: gives an execution a signal, and starts it first if asked to.

use serde::Serialize;
use workflow::value::Payload;

use super::many::{Deed, Many};
use super::print::Output;
use super::remote::{self, Asks, Remote};
use super::{Error, start};
use crate::client::answers::Signalled;
use crate::client::{Call, Client, Harm};

/// Give an execution a signal.
#[derive(Debug, clap::Args)]
#[command(override_usage = "orbit signal [OPTIONS] <ID> <NAME> [JSON]\n       \
                            orbit signal [OPTIONS] --filter <KEY=VALUE,…> <NAME> [JSON]")]
pub(crate) struct Signal {
    /// The execution, unless a filter says which; the signal; what it says: JSON, @FILE, or @- for stdin, {} if not
    /// given.
    #[arg(value_name = "ID NAME JSON", required = true, num_args = 1..=3)]
    words: Vec<String>,
    /// Your name for this signal: with the same one it counts once, however often this is called.
    #[arg(long, value_name = "ID", conflicts_with = "filter")]
    dedup_id: Option<String>,
    /// Start an execution of this workflow if there is none with this id, in one step with the signal.
    #[arg(long, value_name = "WORKFLOW", conflicts_with = "filter")]
    start_workflow: Option<String>,
    /// Its version; the latest if not given.
    #[arg(long, value_name = "VERSION", requires = "start_workflow")]
    start_version: Option<String>,
    /// What it gets: JSON, @FILE, or @- for stdin.
    #[arg(long, value_name = "JSON", requires = "start_workflow")]
    start_input: Option<String>,
    #[command(flatten)]
    remote: Remote,
    #[command(flatten)]
    many: Many,
}

#[derive(Serialize)]
struct WithStart<'a> {
    workflow: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<Payload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Payload>,
    dedup_id: &'a str,
}

impl Asks for Signal {
    fn remote(&self) -> &Remote {
        &self.remote
    }

    async fn ask(&self, client: &Client, output: &mut Output) -> Result<(), Error> {
        if self.many.is_given() {
            let (name, payload) = self.said(&self.words)?;
            let deed = Deed { action: "signal", signal: Some(name), payload, ..Deed::default() };
            return self.many.act(&self.remote, client, output, &deed).await;
        }
        // With a name of our own the call may be repeated, whatever became of the one before.
        let dedup_id = self.dedup_id.clone().unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
        let answer = match client.send(&self.call(&dedup_id)?).await {
            Ok(answer) => answer,
            Err(error) => {
                let error = match &self.start_workflow {
                    Some(workflow) => start::explain(error, workflow, client).await,
                    None => error,
                };
                return Err(Error::from(error).doubted(|| format!("the same call with --dedup-id {dedup_id} is safe")));
            }
        };
        self.remote.show(&answer, output, |output, signalled: Signalled| {
            let Signalled { execution_id, run, signal, seq, created } = signalled;
            let started = if created == Some(true) { " started," } else { "" };
            let run = if run > 1 { format!(" of run {run}") } else { String::new() };
            output.line(format_args!("{execution_id}{started} has {signal} as event {seq}{run}"));
        })
    }
}

impl Signal {
    /// `NAME [JSON]`.
    fn said<'a>(&self, words: &'a [String]) -> Result<(&'a str, Option<Payload>), Error> {
        let (name, payload) = match words {
            [name] => (name, None),
            [name, payload] => (name, Some(remote::payload(payload)?)),
            _ => return Err(self.misused()),
        };
        remote::name(name).map_err(Error::Usage)?;
        Ok((name, payload))
    }

    fn misused(&self) -> Error {
        let said = if self.many.is_given() { "NAME [JSON] beside --filter" } else { "ID NAME [JSON]" };
        Error::Usage(format!("say {said}"))
    }

    fn call(&self, dedup_id: &str) -> Result<Call, Error> {
        let [id, said @ ..] = self.words.as_slice() else { return Err(self.misused()) };
        self.many.or(Some(id))?;
        let id = remote::execution_id(id).map_err(Error::Usage)?;
        let (name, payload) = self.said(said)?;
        let Some(workflow) = &self.start_workflow else {
            let call = Call::post(["v1", "executions", &id, "signals", name], Harm::None);
            let call = call.query("dedup_id", Some(dedup_id));
            return Ok(match payload {
                Some(payload) => call.json(&payload),
                None => call,
            });
        };
        let request = WithStart {
            workflow,
            version: self.start_version.as_deref(),
            input: self.start_input.as_deref().map(remote::payload).transpose()?,
            payload,
            dedup_id,
        };
        let name = format!("{name}:start");
        Ok(Call::post(["v1", "executions", &id, "signals", &name], Harm::None).json(&request))
    }
}
