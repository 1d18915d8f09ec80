//! `orbit list`: finds executions, newest first.

use serde::Serialize;
use serde_json::value::RawValue;

use super::print::{Form, Output};
use super::remote::{Asks, Remote};
use super::{Error, table, time};
use crate::client::answers::{ExecutionPage, Summary};
use crate::client::{self, Answer, Call, Client};

/// Find executions, newest first.
#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// Only with this status.
    #[arg(long)]
    status: Option<String>,
    /// Only of this workflow.
    #[arg(long, value_name = "NAME")]
    workflow: Option<String>,
    /// Only of this version.
    #[arg(long)]
    version: Option<String>,
    /// Only created at or after this: RFC 3339, milliseconds since 1970, or how long ago (`1h`).
    #[arg(long, value_name = "TIME", value_parser = time::moment)]
    since: Option<String>,
    /// Only created before this.
    #[arg(long, value_name = "TIME", value_parser = time::moment)]
    until: Option<String>,
    /// Only those in which a unit waits for somebody to decide.
    #[arg(long)]
    attention: bool,
    /// Only those whose attribute has this value; may be given several times, and then all must be true.
    #[arg(long = "attr", value_name = "NAME=VALUE", value_parser = attribute)]
    attributes: Vec<(String, String)>,
    /// How many per page.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Where the page before ended.
    #[arg(long)]
    cursor: Option<String>,
    /// All pages.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    remote: Remote,
}

/// A page when all are wanted: the largest that there is.
const LIMIT_OF_ALL: u32 = 1_000;

/// Several pages as one.
#[derive(Serialize)]
struct All {
    executions: Vec<Box<RawValue>>,
    as_of_ms: u64,
}

impl List {
    async fn page(&self, client: &Client, cursor: Option<&String>) -> Result<Answer, client::Error> {
        let mut call = Call::get(["v1", "executions"])
            .query("status", self.status.as_ref())
            .query("workflow", self.workflow.as_ref())
            .query("version", self.version.as_ref())
            .query("since", self.since.as_ref())
            .query("until", self.until.as_ref())
            .query("attention", self.attention.then_some("true"))
            .query("limit", self.limit.or(self.all.then_some(LIMIT_OF_ALL)))
            .query("cursor", cursor);
        for (name, value) in &self.attributes {
            call = call.query(format!("attr.{name}"), Some(value));
        }
        client.send(&call).await
    }
}

impl Asks for List {
    fn remote(&self) -> &Remote {
        &self.remote
    }

    async fn ask(&self, client: &Client, output: &mut Output) -> Result<(), Error> {
        let answer = self.page(client, self.cursor.as_ref()).await?;
        if !self.all {
            match self.remote.output {
                Form::Table => print(answer.read()?, output)?,
                form => self.remote.show_text(form, &answer.text, output),
            }
            return Ok(());
        }
        let mut page: ExecutionPage = answer.read()?;
        while let Some(cursor) = page.next_cursor.take() {
            let next: ExecutionPage = self.page(client, Some(&cursor)).await?.read()?;
            page.executions.extend(next.executions);
            page.next_cursor = next.next_cursor;
        }
        if self.remote.output == Form::Table {
            return print(page, output);
        }
        let all = All { executions: page.executions, as_of_ms: page.as_of_ms };
        let text = serde_json::to_string(&all).map_err(|error| Error::System(error.to_string()))?;
        self.remote.show_text(self.remote.output, &text, output);
        Ok(())
    }
}

/// `NAME=VALUE`.
fn attribute(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = pair.ok_or("write NAME=VALUE, for example customer=c1")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// `customer=c1 total=12`, as far as a cell goes.
fn attributes(summary: &Summary) -> String {
    let shown = summary.attributes.iter().map(|(name, value)| {
        let text = serde_json::from_str::<String>(value.get()).unwrap_or_else(|_| value.get().to_owned());
        format!("{name}={text}")
    });
    shown.collect::<Vec<_>>().join(" ")
}

fn print(page: ExecutionPage, output: &mut Output) -> Result<(), Error> {
    let mut rows = Vec::new();
    for execution in &page.executions {
        let summary: Summary = serde_json::from_str(execution.get())
            .map_err(|error| client::Error::NotUnderstood { why: error.to_string() })?;
        let attributes = attributes(&summary);
        rows.push(vec![
            summary.execution_id,
            format!("{} {}", summary.workflow, summary.version),
            summary.status,
            time::seconds(summary.created_at_ms),
            summary.finished_at_ms.map(time::seconds).unwrap_or_default(),
            if summary.attention == 0 { String::new() } else { summary.attention.to_string() },
            attributes,
            summary.error.map(|error| error.code).unwrap_or_default(),
        ]);
    }
    let headings = ["ID", "WORKFLOW", "STATUS", "CREATED", "FINISHED", "ATTENTION", "ATTRIBUTES", "ERROR"];
    table::print(output, &headings, rows, "no execution fits");
    if let Some(cursor) = page.next_cursor {
        output.note(format_args!("more: --cursor {cursor}, or --all"));
    }
    Ok(())
}
