//! `orbit history ID`: everything that happened to an execution.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::event::{Line, values};
use super::print::{Form, Output};
use super::remote::{self, Asks, Remote};
use super::{Error, table, time};
use crate::client::answers::{HistoryPage, State};
use crate::client::{Call, Client};

/// Show everything that happened to an execution.
#[derive(Debug, clap::Args)]
pub(crate) struct History {
    /// The execution.
    #[arg(value_parser = remote::execution_id)]
    id: String,
    /// Its run; the newest if not given.
    #[arg(long)]
    run: Option<u32>,
    /// The first event that is wanted.
    #[arg(long, default_value_t = 1, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    from: u64,
    /// Show also what went in and came out, cut where it is long.
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    remote: Remote,
}

/// Longest value that is shown below an event.
const VALUE_MAX: usize = 2_000;

/// A history that can be replayed without a node.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Whole {
    pub(crate) execution_id: String,
    pub(crate) run: u32,
    pub(crate) events: Vec<Box<RawValue>>,
    /// The normal form of its workflow.
    pub(crate) definition: Box<RawValue>,
}

/// One page of a history.
pub(crate) async fn page(client: &Client, id: &str, run: Option<u32>, from: u64) -> Result<HistoryPage, Error> {
    let call = Call::get(["v1", "executions", id, "history"]).query("run", run).query("from", Some(from));
    Ok(client.send(&call).await?.read()?)
}

/// All pages of a history, from an event on.
pub(crate) async fn all(client: &Client, id: &str, run: Option<u32>, from: u64) -> Result<HistoryPage, Error> {
    let mut history = page(client, id, run, from).await?;
    while let Some(next) = history.next {
        // The newest run may be another by now.
        let more = page(client, id, Some(history.run), next).await?;
        history.events.extend(more.events);
        history.next = more.next;
    }
    Ok(history)
}

/// A history with its definition.
pub(crate) async fn whole(client: &Client, history: HistoryPage) -> Result<Whole, Error> {
    let HistoryPage { execution_id, run, events, .. } = history;
    let call = Call::get(["v1", "executions", &execution_id]).query("run", Some(run));
    let State { workflow, version, .. } = client.send(&call).await?.read()?;
    let definition = client.send(&Call::get(["v1", "workflows", &workflow, &version])).await?.read()?;
    Ok(Whole { execution_id, run, events, definition })
}

impl Asks for History {
    fn remote(&self) -> &Remote {
        &self.remote
    }

    async fn ask(&self, client: &Client, output: &mut Output) -> Result<(), Error> {
        let history = all(client, &self.id, self.run, self.from).await?;
        if self.remote.output == Form::Table {
            return self.print(&history, output);
        }
        let whole = whole(client, history).await?;
        let text = serde_json::to_string(&whole).map_err(|error| Error::System(error.to_string()))?;
        self.remote.show_text(self.remote.output, &text, output);
        Ok(())
    }
}

impl History {
    fn print(&self, history: &HistoryPage, output: &mut Output) -> Result<(), Error> {
        let mut rows = Vec::new();
        for event in &history.events {
            let Line { seq, timestamp_ms, text, why, .. } = Line::read(event)?;
            rows.push(vec![seq.to_string(), time::milliseconds(timestamp_ms), text, why]);
        }
        let lines = table::lines(&["SEQ", "TIME", "EVENT", "WHY"], rows);
        let Some((heading, lines)) = lines.split_first() else {
            output.line("no event from there on");
            return Ok(());
        };
        output.line(heading);
        for (line, event) in lines.iter().zip(&history.events) {
            output.line(line);
            if self.verbose {
                for (name, value) in values(event)? {
                    output.line(format_args!("       {name} {}", table::cut(&value, VALUE_MAX)));
                }
            }
        }
        Ok(())
    }
}
