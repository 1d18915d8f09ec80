//! `orbit batch ID`: how far an action on many executions is.

use super::Error;
use super::many;
use super::print::Output;
use super::remote::{self, Asks, Remote};
use crate::client::answers::Batch as State;
use crate::client::{Call, Client, Harm};

/// Show how far an action on many executions is, or stop it.
#[derive(Debug, clap::Args)]
pub(crate) struct Batch {
    /// The batch.
    #[arg(value_parser = remote::execution_id)]
    id: String,
    /// Begin nothing more; what was done stays done.
    #[arg(long)]
    stop: bool,
    #[command(flatten)]
    remote: Remote,
}

impl Asks for Batch {
    fn remote(&self) -> &Remote {
        &self.remote
    }

    async fn ask(&self, client: &Client, output: &mut Output) -> Result<(), Error> {
        let call = match self.stop {
            true => Call::post(["v1", "batches", &self.id, "stop"], Harm::None),
            false => Call::get(["v1", "batches", &self.id]),
        };
        let next = || format!("`orbit batch {}` tells, and the same call again is safe", self.id);
        let answer = client.send(&call).await.map_err(|error| Error::from(error).doubted(next))?;
        self.remote.show(&answer, output, |output, state: State| many::print(output, &state))
    }
}
