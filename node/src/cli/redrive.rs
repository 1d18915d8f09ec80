//! `orbit redrive ID`: lets a failed execution go on, or moves suspended units of one that runs.

use clap::ValueEnum;
use serde::Serialize;
use workflow::value::Payload;

use super::Error;
use super::many::{Deed, Many};
use super::print::Output;
use super::remote::{self, Asks, Remote};
use crate::client::answers::State;
use crate::client::{Call, Client, Harm};

/// Let a failed execution go on from what failed, or move suspended units.
#[derive(Debug, clap::Args)]
pub(crate) struct Redrive {
    /// The execution.
    #[arg(value_parser = remote::execution_id, required_unless_present = "filter")]
    id: Option<String>,
    /// Only this unit, by its key; may be given several times. All that failed, were cancelled or are suspended if not
    /// given.
    #[arg(long = "step", value_name = "KEY")]
    steps: Vec<String>,
    /// What to do with them.
    #[arg(long, value_enum, default_value_t = Action::Retry)]
    action: Action,
    /// What resolved units yield: JSON, @FILE, or @- for stdin; null if not given.
    #[arg(long, value_name = "JSON")]
    value: Option<String>,
    #[command(flatten)]
    remote: Remote,
    #[command(flatten)]
    many: Many,
}

/// What becomes of the units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Action {
    /// They are tried again.
    Retry,
    /// They count as succeeded, with --value.
    Resolve,
    /// They fail.
    Fail,
}

#[derive(Serialize)]
struct Request<'a> {
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    steps: &'a [String],
    action: Action,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Payload>,
}

impl Asks for Redrive {
    fn remote(&self) -> &Remote {
        &self.remote
    }

    async fn ask(&self, client: &Client, output: &mut Output) -> Result<(), Error> {
        let value = self.value.as_deref().map(remote::payload).transpose()?;
        let Some(id) = self.many.or(self.id.as_ref())? else {
            let deed = Deed {
                action: "redrive",
                steps: &self.steps,
                redrive_action: Some(self.action),
                output: value,
                ..Deed::default()
            };
            return self.many.act(&self.remote, client, output, &deed).await;
        };
        let request = Request { steps: &self.steps, action: self.action, output: value };
        // Once more could move what has failed again since.
        let call = Call::post(["v1", "executions", id, "redrive"], Harm::Possible).json(&request);
        let next = || format!("`orbit history {id}` tells by a WorkflowRedriven at its end");
        let answer = client.send(&call).await.map_err(|error| Error::from(error).doubted(next))?;
        self.remote.show(&answer, output, |output, state: State| {
            let State { execution_id, status, attention, .. } = &state;
            let open = match attention {
                0 => String::new(),
                count => format!(
                    ", {} suspended; `orbit show {execution_id}` names them",
                    super::counted(*count as usize, "unit")
                ),
            };
            let goes_on = if state.is_over() || *attention > 0 {
                String::new()
            } else {
                format!(", goes on; `orbit watch {execution_id}` shows how")
            };
            output.line(format_args!("{execution_id} {status}{open}{goes_on}"));
        })
    }
}
