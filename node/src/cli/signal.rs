//! `orbit signal ID NAME [PAYLOAD]`: gives an execution a signal, and starts it first if asked to.

use serde::Serialize;
use workflow::value::Payload;

use super::print::Output;
use super::remote::{self, Asks, Remote, payload};
use super::{Error, start};
use crate::client::answers::Signalled;
use crate::client::{Call, Client, Harm};

/// Give an execution a signal.
#[derive(Debug, clap::Args)]
pub(crate) struct Signal {
    /// The execution.
    #[arg(value_parser = remote::execution_id)]
    id: String,
    /// The signal.
    #[arg(value_parser = remote::name)]
    name: String,
    /// What it says: JSON, @FILE, or @- for stdin; {} if not given.
    #[arg(value_name = "JSON")]
    payload: Option<String>,
    /// Your name for this signal: with the same one it counts once, however often this is called.
    #[arg(long, value_name = "ID")]
    dedup_id: Option<String>,
    /// Start an execution of this workflow if there is none with this id, in one step with the signal.
    #[arg(long, value_name = "WORKFLOW")]
    start_workflow: Option<String>,
    /// Its version; the latest if not given.
    #[arg(long, value_name = "VERSION", requires = "start_workflow")]
    start_version: Option<String>,
    /// What it gets: JSON, @FILE, or @- for stdin.
    #[arg(long, value_name = "JSON", requires = "start_workflow")]
    start_input: Option<String>,
    #[command(flatten)]
    remote: Remote,
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
    fn call(&self, dedup_id: &str) -> Result<Call, Error> {
        let payload = self.payload.as_deref().map(payload).transpose()?;
        let Some(workflow) = &self.start_workflow else {
            let call = Call::post(["v1", "executions", &self.id, "signals", &self.name], Harm::None);
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
        let name = format!("{}:start", self.name);
        Ok(Call::post(["v1", "executions", &self.id, "signals", &name], Harm::None).json(&request))
    }
}
