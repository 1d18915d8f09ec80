//! `orbit start NAME`: starts an execution, and waits for its end if asked to.

use serde::Serialize;
use workflow::value::Payload;

use super::print::{Form, Output};
use super::remote::{self, Asks, Remote, payload};
use super::{Error, follow, near};
use crate::client::answers::{Started, State, Workflows};
use crate::client::{self, Call, Client, Harm};

/// Start an execution of a workflow.
#[derive(Debug, clap::Args)]
pub(crate) struct Start {
    /// The workflow.
    #[arg(value_parser = remote::name)]
    name: String,
    /// Its version; the latest if not given.
    #[arg(long)]
    version: Option<String>,
    /// What it gets: JSON, @FILE, or @- for stdin.
    #[arg(long, value_name = "JSON")]
    input: Option<String>,
    /// Its id; with the same id, workflow and input it is started once, however often this is called.
    #[arg(long, value_parser = remote::execution_id)]
    id: Option<String>,
    /// Wait until it is over; anything but COMPLETED ends with exit code 1.
    #[arg(long)]
    wait: bool,
    /// Print the id and nothing else.
    #[arg(short, long, conflicts_with = "output")]
    quiet: bool,
    /// Executions with the same key share a priority by turns.
    #[arg(long, value_name = "KEY")]
    fairness_key: Option<String>,
    /// 1 to 5, 1 first.
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=5))]
    priority: Option<u8>,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Serialize)]
struct Request<'a> {
    workflow: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<Payload>,
    execution_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    fairness_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<u8>,
}

impl Asks for Start {
    fn remote(&self) -> &Remote {
        &self.remote
    }

    async fn ask(&self, client: &Client, output: &mut Output) -> Result<(), Error> {
        let input = self.input.as_deref().map(payload).transpose()?;
        // With an id of our own the call may be repeated, whatever became of the one before.
        let id = self.id.clone().unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
        let request = Request {
            workflow: &self.name,
            version: self.version.as_deref(),
            input,
            execution_id: &id,
            fairness_key: self.fairness_key.as_deref(),
            priority: self.priority,
        };
        let call = Call::post(["v1", "executions"], Harm::None).json(&request);
        let answer = match client.send(&call).await {
            Ok(answer) => answer,
            Err(error) => return Err(Error::from(explain(error, &self.name, client).await).about(&id)),
        };
        if !self.wait {
            return self.remote.show(&answer, output, |output, started: Started| output.line(self.said(&started)));
        }
        let started: Started = answer.read()?;
        if self.remote.output == Form::Table {
            output.line(self.said(&started));
            output.flush();
        }
        let answer = follow::wait(client, &started.execution_id).await?;
        let state: State = answer.read()?;
        match self.remote.output {
            Form::Table if self.quiet => {}
            Form::Table => follow::print_end(&state, output),
            form => self.remote.show_text(form, &answer.text, output),
        }
        follow::judge(&state)
    }
}

impl Start {
    fn said(&self, started: &Started) -> String {
        let Started { execution_id, run, created } = started;
        match created {
            _ if self.quiet => execution_id.clone(),
            true => format!("{execution_id} started"),
            false => format!("{execution_id} is there already, run {run}"),
        }
    }
}

/// Of a name that nobody has registered also the one that was probably meant.
pub(crate) async fn explain(error: client::Error, workflow: &str, client: &Client) -> client::Error {
    let client::Error::Refused(mut refusal) = error else { return error };
    if refusal.code == "WORKFLOW_NOT_FOUND"
        // Whoever may start may not always list; then the refusal says all there is to say.
        && let Ok(answer) = client.once(&Call::get(["v1", "workflows"])).await
        && let Ok(Workflows { workflows }) = answer.read()
    {
        let known = workflows.iter().map(|workflow| workflow.name.as_str()).filter(|name| *name != workflow);
        refusal.message += &near::meant(workflow, known);
    }
    client::Error::Refused(refusal)
}
