//! `orbit replay ID|FILE`: decides a recorded history again, and reports the first event that is another.

use std::path::Path;

use serde::Serialize;
use serde_json::value::RawValue;
use workflow::definition::Definition;
use workflow::event::{Event, Recorded};
use workflow::replay::{self, Difference, Replayed};

use super::history::{self, Whole};
use super::print::{Form, Output};
use super::remote::{self, Remote, block_on};
use super::{Error, source};
use crate::client::Client;

/// Decide a recorded history again and report the first difference.
#[derive(Debug, clap::Args)]
pub(crate) struct Replay {
    /// An execution, or a file that `orbit history ID --output json` wrote: that needs no node.
    #[arg(value_name = "ID|FILE")]
    what: String,
    /// Its run; the newest if not given.
    #[arg(long)]
    run: Option<u32>,
    #[command(flatten)]
    remote: Remote,
}

/// What came of it, for programs.
#[derive(Serialize)]
struct Report<'a> {
    execution_id: &'a str,
    run: u32,
    same: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decided: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<&'a Event>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recorded: Option<&'a Event>,
}

impl Replay {
    pub(crate) fn run(&self, output: &mut Output) -> Vec<Error> {
        let replayed = if Path::new(&self.what).is_file() {
            self.read().and_then(|whole| self.replay(&whole, output))
        } else {
            remote::execution_id(&self.what)
                .map_err(|_| Error::Source(source::Error::Missing(self.what.clone().into())))
                .and_then(|_| Ok(self.remote.client()?))
                .and_then(|client| block_on(self.fetch(&client)).and_then(|fetched| fetched))
                .and_then(|whole| self.replay(&whole, output))
        };
        replayed.err().into_iter().collect()
    }

    async fn fetch(&self, client: &Client) -> Result<Whole, Error> {
        let pages = history::all(client, &self.what, self.run, 1).await?;
        history::whole(client, pages).await
    }

    fn no_history(&self, why: impl ToString) -> Error {
        Error::NoHistory { file: self.what.clone(), why: why.to_string() }
    }

    fn read(&self) -> Result<Whole, Error> {
        let text = source::read(self.what.as_ref())?.map_err(|fault| self.no_history(fault))?;
        let whole: Whole = serde_json::from_str(&text).map_err(|error| self.no_history(error))?;
        match self.run {
            Some(run) if run != whole.run => {
                Err(Error::Usage(format!("{} holds run {}, not run {run}; name its file", self.what, whole.run)))
            }
            _ => Ok(whole),
        }
    }

    fn replay(&self, whole: &Whole, output: &mut Output) -> Result<(), Error> {
        let definition = Definition::from_normal_form(whole.definition.get());
        let definition = definition.map_err(|error| self.no_history(format!("its definition: {error}")))?;
        let read = |(place, event): (usize, &RawValue)| {
            Recorded::from_json(event.get()).map_err(|error| self.no_history(format!("event {}: {error}", place + 1)))
        };
        let events = whole.events.iter().map(AsRef::as_ref).enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
        match replay::replay(&definition, &whole.execution_id, &events) {
            Ok(replayed) => {
                self.same(whole, replayed, output);
                Ok(())
            }
            Err(replay::Error::Difference(difference)) => {
                self.different(whole, &difference, output);
                Err(Error::Different { id: whole.execution_id.clone(), seq: difference.seq })
            }
            Err(error) => Err(Error::NotReplayed(error)),
        }
    }

    fn same(&self, whole: &Whole, Replayed { events, decided }: Replayed, output: &mut Output) {
        let Whole { execution_id, run, .. } = whole;
        match self.remote.output {
            Form::Table => output.line(format_args!(
                "{execution_id} run {run}: the same, {} of which {decided} were decided again",
                super::counted(events as usize, "event")
            )),
            form => {
                let report = Report { events: Some(events), decided: Some(decided), ..report(whole, true) };
                self.remote.show_text(form, &written(&report), output);
            }
        }
    }

    fn different(&self, whole: &Whole, difference: &Difference, output: &mut Output) {
        let Difference { seq, expected, recorded } = difference;
        if self.remote.output != Form::Table {
            let sides = (expected.as_ref(), recorded.as_ref());
            let report = Report { seq: Some(*seq), expected: sides.0, recorded: sides.1, ..report(whole, false) };
            return self.remote.show_text(self.remote.output, &written(&report), output);
        }
        output.line(format_args!("{} run {}: event {seq} is another", whole.execution_id, whole.run));
        let side = |event: &Option<Event>, none: &str| event.as_ref().map_or_else(|| none.to_owned(), written);
        output
            .line(format_args!("  expected {}", side(expected, "nothing: the rules wait for something from outside")));
        output.line(format_args!("  recorded {}", side(recorded, "nothing: the history ends before")));
    }
}

fn report(whole: &Whole, same: bool) -> Report<'_> {
    let Whole { execution_id, run, .. } = whole;
    Report { execution_id, run: *run, same, events: None, decided: None, seq: None, expected: None, recorded: None }
}

/// An event with everything that it says, so that both sides can be held against each other; or a report.
fn written(what: &impl Serialize) -> String {
    // Every key is a string and every payload valid JSON, so there is nothing that can fail.
    serde_json::to_string(what).unwrap_or_default()
}
