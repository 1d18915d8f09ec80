//! `orbit show ID`: the state of an execution.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;
use workflow::case;

use super::json::members;
use super::print::{Form, Output};
use super::remote::{self, Asks, Remote};
use super::{Error, table, time};
use crate::client::answers::{Failure, State, Unit, UnitPage};
use crate::client::{self, Call, Client};

/// Show the state of an execution.
#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    /// The execution.
    #[arg(value_parser = remote::execution_id)]
    id: String,
    /// Its run; the newest if not given.
    #[arg(long)]
    run: Option<u32>,
    /// Only the units whose keys begin like this, all of them.
    #[arg(long, value_name = "PREFIX", conflicts_with = "all")]
    units: Option<String>,
    /// All units, also when there are more than fit into one answer.
    #[arg(long)]
    all: bool,
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
        let form = self.remote.output;
        if self.units.is_none() && !self.all {
            return self.remote.show(&answer, output, print);
        }
        let mut state: State = answer.read()?;
        let units = self.all_units(client, state.run).await?;
        if form == Form::Table {
            let read = |(key, unit): (String, Box<RawValue>)| Ok((key, serde_json::from_str(unit.get())?));
            let units: serde_json::Result<_> = units.into_iter().map(read).collect();
            state.units = units.map_err(|error| client::Error::NotUnderstood { why: error.to_string() })?;
            state.units_omitted = None;
            match self.units {
                Some(_) => print_units(output, state),
                None => print(output, state),
            }
            return Ok(());
        }
        let text = if self.all { with_units(&answer.text, &units) } else { serde_json::to_string(&Units { units }) };
        let text = text.map_err(|error| client::Error::NotUnderstood { why: error.to_string() })?;
        self.remote.show_text(form, &text, output);
        Ok(())
    }
}

/// The units of several pages as one.
#[derive(Serialize)]
struct Units {
    units: BTreeMap<String, Box<RawValue>>,
}

impl Show {
    /// From page to page; each is as of its own moment.
    async fn all_units(&self, client: &Client, run: u32) -> Result<BTreeMap<String, Box<RawValue>>, Error> {
        let (mut all, mut cursor) = (BTreeMap::new(), None::<String>);
        loop {
            let call = Call::get(["v1", "executions", &self.id, "units"])
                // The newest run may be another by now.
                .query("run", Some(run))
                .query("prefix", self.units.as_ref())
                .query("cursor", cursor.as_ref());
            let page: UnitPage = client.send(&call).await?.read()?;
            all.extend(page.units);
            match page.next_cursor {
                Some(next) => cursor = Some(next),
                None => return Ok(all),
            }
        }
    }
}

/// A state with all units in the place of those that fitted into the answer; the rest of it as the node wrote it.
fn with_units(state: &str, units: &BTreeMap<String, Box<RawValue>>) -> serde_json::Result<String> {
    let units = serde_json::value::to_raw_value(units)?;
    let members: Vec<_> = members(state)?
        .into_iter()
        .filter(|(name, _)| name != "units_omitted")
        .map(|(name, value)| {
            let value = if name == "units" { &*units } else { value };
            Ok(format!("{}:{}", serde_json::to_string(&name)?, value.get()))
        })
        .collect::<serde_json::Result<_>>()?;
    Ok(format!("{{{}}}", members.join(",")))
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
        let (wait, them) = if state.attention == 1 { ("waits", "it") } else { ("wait", "them") };
        let units = super::counted(state.attention as usize, "unit");
        let moves = format!("`orbit redrive {}` moves {them}", state.execution_id);
        output.line(format_args!("attention {units} {wait} for somebody to decide; {moves}"));
    }
    output.line("");
    print_units(output, state);
}

/// First what needs somebody, then what is open, then the rest; each in the order in which it was scheduled.
fn print_units(output: &mut Output, state: State) {
    let mut units: Vec<_> = state.units.into_iter().collect();
    units.sort_by_cached_key(|(key, unit)| {
        let began_ms = unit.scheduled_at_ms.or(unit.finished_at_ms).unwrap_or(u64::MAX);
        (urgency(&unit.status), began_ms, by_number(key))
    });
    let rows = units.into_iter().map(|(key, unit)| row(key, unit, state.created_at_ms)).collect();
    let headings = ["UNIT", "STATUS", "ATTEMPT", "WORKER", "SINCE START", "DEADLINE", "ERROR"];
    table::print(output, &headings, rows, "no unit");
    if let Some(omitted) = state.units_omitted {
        let id = &state.execution_id;
        output.line(format_args!("and {omitted} more units: `orbit show {id} --all`, or --units PREFIX"));
    }
}

fn urgency(status: &str) -> u8 {
    match status {
        "FAILED" | "SUSPENDED" => 0,
        "SUCCEEDED" | "SKIPPED" | "CANCELLED" => 2,
        _ => 1,
    }
}

/// A key in which `ship[2]` comes before `ship[10]`: digits are filled up to the same length.
fn by_number(key: &str) -> String {
    let (mut sorted, mut digits) = (String::new(), String::new());
    for letter in key.chars().chain(['\0']) {
        if letter.is_ascii_digit() {
            digits.push(letter);
            continue;
        }
        if !digits.is_empty() {
            sorted.push_str(&format!("{digits:0>20}"));
            digits.clear();
        }
        sorted.push(letter);
    }
    sorted
}

fn row(key: String, unit: Unit, created_at_ms: u64) -> Vec<String> {
    let after = |ms: u64| format!("+{}", case::duration(ms.saturating_sub(created_at_ms)));
    let when = match (unit.finished_at_ms, unit.wake_at_ms) {
        (Some(finished), _) => after(finished),
        (None, Some(wake)) => format!("until {}", after(wake)),
        (None, None) => unit.scheduled_at_ms.map(after).unwrap_or_default(),
    };
    // Of what is over nobody asks any more by when it had to be.
    let deadline = unit.deadline_ms.filter(|_| unit.finished_at_ms.is_none()).map(after).unwrap_or_default();
    let attempt = if unit.attempt > 1 { unit.attempt.to_string() } else { String::new() };
    let error = unit.error.map(|Failure { code, message }| format!("{code} {message}")).unwrap_or_default();
    vec![key, unit.status, attempt, unit.worker_id.unwrap_or_default(), when, deadline, error]
}

#[cfg(test)]
mod tests {
    use super::{by_number, with_units};

    #[test]
    fn keys_sort_by_their_numbers() {
        let mut keys = ["ship[10]", "ship[2]", "a", "ship[2].x10", "ship[2].x9"];
        keys.sort_by_cached_key(|key| by_number(key));
        assert_eq!(keys, ["a", "ship[2]", "ship[2].x9", "ship[2].x10", "ship[10]"]);
    }

    #[test]
    fn all_units_take_the_place_of_some() {
        let units = serde_json::from_str(r#"{"a":{"x":1.10}}"#).expect("units");
        let text = with_units(r#"{"n": 9007199254740993, "units": {}, "units_omitted": 1, "z": [1]}"#, &units);
        assert_eq!(text.expect("a state"), r#"{"n":9007199254740993,"units":{"a":{"x":1.10}},"z":[1]}"#);
    }
}
