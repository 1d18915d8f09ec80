//! `orbit delete ID`: removes an execution that is over.

use super::Error;
use super::many::{Deed, Many};
use super::print::{Form, Output};
use super::remote::{self, Asks, Remote};
use crate::client::{Call, Client};

/// Remove an execution that is over, with all its runs and histories; its children stay.
#[derive(Debug, clap::Args)]
pub(crate) struct Delete {
    /// The execution.
    #[arg(value_parser = remote::execution_id, required_unless_present = "filter")]
    id: Option<String>,
    #[command(flatten)]
    remote: Remote,
    #[command(flatten)]
    many: Many,
}

impl Asks for Delete {
    fn remote(&self) -> &Remote {
        &self.remote
    }

    async fn ask(&self, client: &Client, output: &mut Output) -> Result<(), Error> {
        let Some(id) = self.many.or(self.id.as_ref())? else {
            let deed = Deed { action: "delete", ..Deed::default() };
            return self.many.act(&self.remote, client, output, &deed).await;
        };
        let next = || format!("`orbit show {id}` tells whether it is still there");
        let deleted = client.send(&Call::delete(["v1", "executions", id])).await;
        deleted.map_err(|error| Error::from(error).doubted(next))?;
        if self.remote.output == Form::Table {
            output.line(format_args!("{id} deleted"));
        }
        Ok(())
    }
}
