//! `orbit show ID`: the state of an execution.

use workflow::case;

use super::print::Output;
use super::remote::{self, Asks, Remote};
use super::{Error, table, time};
use crate::client::answers::{Failure, State, Unit};
use crate::client::{Call, Client};

/// Show the state of an execution.
#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    /// The execution.
    #[arg(value_parser = remote::execution_id)]
    id: String,
    /// Its run; the newest if not given.
    #[arg(long)]
    run: Option<u32>,
    #[command(flatten)]
    remote: Remote,
}

impl Asks for Show {
    fn remote(&self) -> &Remote {
        &self.remote
    }

    async fn ask(&self, client: &Client, output: &mut Output) -> Result<(), Error> {
        let call = Call::get(["v1", "executions", &self.id]).query("run", self.run);
        let answer = client.send(&call).await?;
        self.remote.show(&answer, output, print)
    }
}

fn print(output: &mut Output, state: State) {
    let created_at_ms = state.created_at_ms;
    let State { execution_id, run, workflow, version, status, .. } = &state;
    let run = if *run == 1 { String::new() } else { format!(" run {run}") };
    output.line(format_args!("{execution_id}{run}: {status}"));
    output.line(format_args!("workflow  {workflow} {version}"));
    output.line(format_args!("created   {}", time::seconds(created_at_ms)));
    if let Some(finished_at_ms) = state.finished_at_ms {
        let took = case::duration(finished_at_ms.saturating_sub(created_at_ms));
        output.line(format_args!("finished  {} after {took}", time::seconds(finished_at_ms)));
    }
    if let Some(Failure { code, message }) = &state.error {
        output.line(format_args!("error     {code} {message}"));
    }
    for (what, value) in [("input", &state.input), ("output", &state.output)] {
        if let Some(value) = value {
            output.line(format_args!("{what:<9} {}", value.get()));
        }
    }
    for what in &state.omitted {
        output.line(format_args!("{what:<9} too large to be shown here"));
    }
    if !state.waiting_for.is_empty() {
        output.line(format_args!("waits for {}", state.waiting_for.join(", ")));
    }
    if state.attention > 0 {
        output.line(format_args!("attention {} units wait for somebody to decide", state.attention));
    }
    output.line("");
    let mut units: Vec<_> = state.units.into_iter().collect();
    units.sort_by_key(|(_, unit)| unit.scheduled_at_ms.or(unit.finished_at_ms).unwrap_or(u64::MAX));
    let rows = units.into_iter().map(|(key, unit)| row(key, unit, created_at_ms)).collect();
    let headings = ["UNIT", "STATUS", "ATTEMPT", "WORKER", "SINCE START", "ERROR"];
    table::print(output, &headings, rows, "no unit yet");
    if let Some(omitted) = state.units_omitted {
        output.line(format_args!("and {omitted} more units"));
    }
}

fn row(key: String, unit: Unit, created_at_ms: u64) -> Vec<String> {
    let after = |ms: u64| format!("+{}", case::duration(ms.saturating_sub(created_at_ms)));
    let when = match (unit.finished_at_ms, unit.wake_at_ms) {
        (Some(finished), _) => after(finished),
        (None, Some(wake)) => format!("until {}", after(wake)),
        (None, None) => unit.scheduled_at_ms.map(after).unwrap_or_default(),
    };
    let attempt = if unit.attempt > 1 { unit.attempt.to_string() } else { String::new() };
    let error = unit.error.map(|Failure { code, message }| format!("{code} {message}")).unwrap_or_default();
    vec![key, unit.status, attempt, unit.worker_id.unwrap_or_default(), when, error]
}
