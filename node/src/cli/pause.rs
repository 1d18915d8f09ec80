//! `orbit pause ID` and `orbit resume ID`: halt an execution, and let it go on.

use super::Error;
use super::many::{Deed, Many};
use super::print::Output;
use super::remote::{self, Asks, Remote};
use crate::client::answers::State;
use crate::client::{Answer, Call, Client, Harm};

/// Halt an execution: nothing is decided or handed over until it is resumed.
#[derive(Debug, clap::Args)]
pub(crate) struct Pause {
    /// The execution.
    #[arg(value_parser = remote::execution_id, required_unless_present = "filter")]
    id: Option<String>,
    #[command(flatten)]
    remote: Remote,
    #[command(flatten)]
    many: Many,
}

/// Let a paused execution go on.
#[derive(Debug, clap::Args)]
pub(crate) struct Resume {
    /// The execution.
    #[arg(value_parser = remote::execution_id, required_unless_present = "filter")]
    id: Option<String>,
    #[command(flatten)]
    remote: Remote,
    #[command(flatten)]
    many: Many,
}

impl Asks for Pause {
    fn remote(&self) -> &Remote {
        &self.remote
    }

    async fn ask(&self, client: &Client, output: &mut Output) -> Result<(), Error> {
        let Some(id) = self.many.or(self.id.as_ref())? else {
            let deed = Deed { action: "pause", ..Deed::default() };
            return self.many.act(&self.remote, client, output, &deed).await;
        };
        let answer = ask(client, id, "pause").await?;
        self.remote.show(&answer, output, |output, State { execution_id, status, .. }: State| {
            output.line(format_args!("{execution_id} {status}; `orbit resume {execution_id}` lets it go on"));
        })
    }
}

impl Asks for Resume {
    fn remote(&self) -> &Remote {
        &self.remote
    }

    async fn ask(&self, client: &Client, output: &mut Output) -> Result<(), Error> {
        let Some(id) = self.many.or(self.id.as_ref())? else {
            let deed = Deed { action: "resume", ..Deed::default() };
            return self.many.act(&self.remote, client, output, &deed).await;
        };
        let answer = ask(client, id, "resume").await?;
        self.remote.show(&answer, output, |output, State { execution_id, status, .. }: State| {
            output.line(format_args!("{execution_id} {status}"));
        })
    }
}

/// Twice is the same as once.
async fn ask(client: &Client, id: &str, what: &str) -> Result<Answer, Error> {
    let call = Call::post(["v1", "executions", id, what], Harm::None);
    let next = || format!("`orbit show {id}` tells, and the same call again is safe");
    client.send(&call).await.map_err(|error| Error::from(error).doubted(next))
}
