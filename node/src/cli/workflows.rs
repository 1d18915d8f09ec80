//! `orbit workflows`: what is deployed.

use super::print::Output;
use super::remote::{Asks, Remote};
use super::{Error, table};
use crate::client::answers::{WorkflowSummary, Workflows as Answer};
use crate::client::{Call, Client};

/// Show which workflows are deployed, and the tasks that they use.
#[derive(Debug, clap::Args)]
pub(crate) struct Workflows {
    #[command(flatten)]
    remote: Remote,
}

impl Asks for Workflows {
    fn remote(&self) -> &Remote {
        &self.remote
    }

    async fn ask(&self, client: &Client, output: &mut Output) -> Result<(), Error> {
        let answer = client.send(&Call::get(["v1", "workflows"])).await?;
        self.remote.show(&answer, output, print)
    }
}

fn print(output: &mut Output, answer: Answer) {
    let row = |workflow: WorkflowSummary| {
        let WorkflowSummary { name, version, description, tasks, .. } = workflow;
        vec![name, version, description.unwrap_or_default(), tasks.join(" ")]
    };
    let rows = answer.workflows.into_iter().map(row).collect();
    let headings = ["WORKFLOW", "VERSION", "DESCRIPTION", "TASKS"];
    table::print(output, &headings, rows, "no workflow is deployed yet; `orbit deploy FILE` does that");
}
