//! `orbit cancel ID`: asks an execution to stop and undo what it did.

use serde::Serialize;

use super::Error;
use super::many::{Deed, Many};
use super::print::Output;
use super::remote::{self, Asks, Remote};
use crate::client::answers::State;
use crate::client::{Call, Client, Harm};

/// Ask an execution to stop and to undo what it did.
#[derive(Debug, clap::Args)]
pub(crate) struct Cancel {
    /// The execution.
    #[arg(value_parser = remote::execution_id, required_unless_present = "filter")]
    id: Option<String>,
    /// Why, for people.
    #[arg(long)]
    reason: Option<String>,
    /// End now, without undoing anything.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    remote: Remote,
    #[command(flatten)]
    many: Many,
}

#[derive(Serialize)]
struct Request<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    force: bool,
}

impl Asks for Cancel {
    fn remote(&self) -> &Remote {
        &self.remote
    }

    async fn ask(&self, client: &Client, output: &mut Output) -> Result<(), Error> {
        let Some(id) = self.many.or(self.id.as_ref())? else {
            let (reason, force) = (self.reason.as_deref(), self.force);
            let deed = Deed { action: "cancel", reason, force, ..Deed::default() };
            return self.many.act(&self.remote, client, output, &deed).await;
        };
        let request = Request { reason: self.reason.as_deref(), force: self.force };
        let call = Call::post(["v1", "executions", id, "cancel"], Harm::None).json(&request);
        let answer = client.send(&call).await.map_err(|error| Error::from(error).about(id))?;
        self.remote.show(&answer, output, |output, state: State| {
            let State { execution_id, status, .. } = &state;
            let doing = if state.is_over() { "" } else { ", is being cancelled; `orbit watch` shows how" };
            output.line(format_args!("{execution_id} {status}{doing}"));
        })
    }
}
