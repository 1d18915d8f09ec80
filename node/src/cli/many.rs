//! Acting on all executions that fit a filter, in place of one.
//!
//! First they are counted and the first of them shown; then somebody agrees; then the node carries it out as a batch,
//! which goes on also when nobody watches.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use serde::Serialize;
use tokio::time::{Instant, sleep};
use workflow::value::Payload;

use super::print::{Form, Output};
use super::remote::Remote;
use super::{Error, counted, near, table, time};
use crate::client::answers::{Batch, BatchStarted, ExecutionPage, Summary};
use crate::client::{self, Answer, Call, Client, Harm};

/// Keys of a filter; any name may stand behind `attr.`.
const KEYS: [&str; 6] = ["status", "workflow", "version", "since", "until", "attention"];
/// How many executions are shown before, and errors after.
const SHOWN: usize = 5;
/// How often a batch is looked at: at first, and later.
const LOOK: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// How often its progress is told where it cannot be told in place.
const TELL: Duration = Duration::from_secs(5);

/// Which executions, in place of one.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "In place of one execution")]
pub(crate) struct Many {
    /// All that fit: keys are status, workflow, version, since, until, attention and attr.NAME, times as in `list`.
    #[arg(long, value_name = "KEY=VALUE,…", value_delimiter = ',', value_parser = condition)]
    filter: Vec<(String, String)>,
    /// Do not ask.
    #[arg(long, requires = "filter")]
    yes: bool,
    /// Print the id of the batch, and do not wait until it is done.
    #[arg(long, requires = "filter")]
    no_wait: bool,
}

/// A batch, in the words of a node.
#[derive(Serialize)]
struct Request<'a> {
    filter: BTreeMap<&'a str, &'a str>,
    #[serde(flatten)]
    deed: &'a Deed<'a>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    dry_run: bool,
}

/// What is done to each execution.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Deed<'a> {
    pub(crate) action: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) force: bool,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub(crate) steps: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) redrive_action: Option<super::redrive::Action>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<Payload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) signal: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) payload: Option<Payload>,
}

/// `KEY=VALUE` of a filter.
fn condition(text: &str) -> Result<(String, String), String> {
    let Some((key, value)) = text.split_once('=') else {
        return Err("write KEY=VALUE, for example status=running,attr.customer=c1".to_owned());
    };
    let is_attribute = key.strip_prefix("attr.").is_some_and(|name| !name.is_empty());
    if !is_attribute && !KEYS.contains(&key) {
        let meant = near::meant(key, KEYS);
        return Err(format!("there is no key {key:?}{meant}; there are {} and attr.NAME", KEYS.join(", ")));
    }
    let value = if matches!(key, "since" | "until") { time::moment(value)? } else { value.to_owned() };
    Ok((key.to_owned(), value))
}

impl Many {
    /// Whether a filter was given.
    pub(crate) fn is_given(&self) -> bool {
        !self.filter.is_empty()
    }

    /// The one execution, if it is about one.
    pub(crate) fn or<'a>(&self, id: Option<&'a String>) -> Result<Option<&'a str>, Error> {
        match id {
            Some(_) if self.is_given() => Err(Error::Usage("name one execution, or many by --filter".to_owned())),
            Some(_) if self.yes || self.no_wait => {
                Err(Error::Usage("--yes and --no-wait belong to --filter; one execution is not asked about".to_owned()))
            }
            id => Ok(id.map(String::as_str)),
        }
    }

    /// Shows which executions these are, asks, and does it.
    pub(crate) async fn act(
        &self,
        remote: &Remote,
        client: &Client,
        output: &mut Output,
        deed: &Deed<'_>,
    ) -> Result<(), Error> {
        let mut filter = BTreeMap::new();
        for (key, value) in &self.filter {
            if filter.insert(key.as_str(), value.as_str()).is_some() {
                return Err(Error::Usage(format!("the filter names {key} twice; all its conditions must be true")));
            }
        }
        let mut request = Request { filter, deed, dry_run: true };
        // Counting may be repeated.
        let counted = client.send(&batch(&request, Harm::None)).await?;
        let found: BatchStarted = counted.read()?;
        if found.total == 0 {
            match remote.output {
                Form::Table => output.line("no execution fits"),
                form => remote.show_text(form, &counted.text, output),
            }
            return Ok(());
        }
        self.preview(client, output, &found).await?;
        self.ask(deed, &found)?;
        request.dry_run = false;
        let next = || "`orbit list` with the same filter tells how far it is".to_owned();
        let started = client.send(&batch(&request, Harm::Possible)).await;
        let started = started.map_err(|error| Error::from(error).doubted(next))?;
        let BatchStarted { batch_id, .. } = started.read()?;
        let missing = || client::Error::NotUnderstood { why: "a batch without id".to_owned() };
        let id = batch_id.ok_or_else(missing)?;
        if self.no_wait {
            match remote.output {
                Form::Table => output.line(id),
                form => remote.show_text(form, &started.text, output),
            }
            return Ok(());
        }
        output.note(format_args!("batch {id}: goes on also without this command; `orbit batch {id}` tells how far"));
        let done = follow(client, &id).await?;
        let Batch { failed, total, .. } = done.read()?;
        remote.show(&done, output, |output, state| print(output, &state))?;
        if failed > 0 { Err(Error::BatchFailed { id, failed, total }) } else { Ok(()) }
    }

    /// How many, and the first of them.
    async fn preview(&self, client: &Client, output: &mut Output, found: &BatchStarted) -> Result<(), Error> {
        let mut call = Call::get(["v1", "executions"]).query("limit", Some(SHOWN));
        for (key, value) in &self.filter {
            call = call.query(key.clone(), Some(value));
        }
        let page: ExecutionPage = client.send(&call).await?.read()?;
        let mut rows = Vec::new();
        for execution in page.executions.iter().take(SHOWN) {
            let Summary { execution_id, workflow, version, status, .. } = serde_json::from_str(execution.get())
                .map_err(|error| client::Error::NotUnderstood { why: error.to_string() })?;
            rows.push(vec![execution_id, format!("{workflow} {version}"), status]);
        }
        let more = found.total.saturating_sub(rows.len() as u64);
        for line in table::lines(&["ID", "WORKFLOW", "STATUS"], rows) {
            output.note(line);
        }
        if more > 0 {
            output.note(format_args!("and {}{more} more", if found.at_least { "at least " } else { "" }));
        }
        Ok(())
    }

    /// Somebody must agree: at a terminal, or by an option.
    fn ask(&self, deed: &Deed<'_>, found: &BatchStarted) -> Result<(), Error> {
        if self.yes {
            return Ok(());
        }
        let question = question(deed, found);
        if !io::stdin().is_terminal() {
            return Err(Error::NotConfirmed(question));
        }
        let mut answer = String::new();
        let asked = write!(io::stderr(), "{question} [y/N] ").and_then(|()| io::stdin().read_line(&mut answer));
        asked.map_err(|error| Error::System(error.to_string()))?;
        let agreed = ["y", "yes"].contains(&answer.trim().to_lowercase().as_str());
        if agreed { Ok(()) } else { Err(Error::Declined) }
    }
}

/// `Cancel 120 executions?`
fn question(deed: &Deed<'_>, found: &BatchStarted) -> String {
    let action = deed.action;
    let verb = action[..1].to_uppercase() + &action[1..];
    let with = match (deed.force, deed.signal) {
        (true, _) => ", without undoing anything".to_owned(),
        (false, Some(signal)) => format!(" with {signal}"),
        (false, None) => String::new(),
    };
    let at_least = if found.at_least { "at least " } else { "" };
    let count = usize::try_from(found.total).unwrap_or(usize::MAX);
    format!("{verb} {at_least}{}{with}?", counted(count, "execution"))
}

fn batch(request: &Request<'_>, harm: Harm) -> Call {
    Call::post(["v1", "executions:batch"], harm).json(request)
}

/// Waits until a batch is done, and tells on stderr how far it is.
async fn follow(client: &Client, id: &str) -> Result<Answer, Error> {
    let in_place = io::stderr().is_terminal();
    let (mut pause, mut told) = (LOOK.0, Instant::now());
    loop {
        let answer = client.send(&Call::get(["v1", "batches", id])).await?;
        let state: Batch = answer.read()?;
        let is_done = state.status == "DONE";
        // When stderr is closed there is nobody to tell.
        if in_place {
            let _ = write!(io::stderr(), "\r{}{}", progress(&state), if is_done { "\n" } else { "" });
        } else if !is_done && told.elapsed() >= TELL {
            let _ = writeln!(io::stderr(), "{}", progress(&state));
            told = Instant::now();
        }
        if is_done {
            return Ok(answer);
        }
        sleep(pause).await;
        pause = (pause * 2).min(LOOK.1);
    }
}

/// `cancel: 50 of 120, 2 failed`
fn progress(state: &Batch) -> String {
    let Batch { action, done, failed, total, .. } = state;
    let more = if state.at_least { " or more" } else { "" };
    let failures = if *failed > 0 { format!(", {failed} failed") } else { String::new() };
    format!("{action}: {} of {total}{more}{failures}", done + failed)
}

/// How a batch is, or what came of it.
pub(crate) fn print(output: &mut Output, state: &Batch) {
    let Batch { action, done, failed, errors, .. } = state;
    let how = match (state.status.as_str(), state.stopped) {
        ("DONE", true) => ", stopped",
        ("DONE", false) => "",
        _ => ", goes on",
    };
    let total = if state.at_least { format!("at least {}", state.total) } else { state.total.to_string() };
    output.line(format_args!("{action}: {done} done, {failed} failed, of {total}{how}"));
    for error in errors.iter().take(SHOWN) {
        output.line(format_args!("  {} {}: {}", error.execution_id, error.code, error.message));
    }
    let more = failed.saturating_sub(errors.len().min(SHOWN) as u64);
    if more > 0 {
        output.line(format_args!("  and {more} more; with --output json the first hundred are named"));
    }
}

#[cfg(test)]
mod tests {
    use super::{BatchStarted, Deed, condition, question};

    #[test]
    fn a_filter_names_known_keys_only() {
        let taken = |text: &str| condition(text).expect(text);
        assert_eq!(taken("status=running"), ("status".to_owned(), "running".to_owned()));
        assert_eq!(taken("attr.customer=a=b"), ("attr.customer".to_owned(), "a=b".to_owned()));
        assert_eq!(taken("since=2026-01-31T12:00:00Z").1, "2026-01-31T12:00:00Z");
        assert_eq!(taken("until=24h").1.len(), 13, "a moment by the clock here");
        assert!(condition("statsu=running").is_err_and(|said| said.contains("did you mean `status`?")));
        for bad in ["", "status", "limit=5", "cursor=a", "attr.=1", "=x"] {
            assert!(condition(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_question_says_what_is_done_to_how_many() {
        let found = |total, at_least| BatchStarted { batch_id: None, total, at_least };
        let of = |action| Deed { action, ..Deed::default() };
        assert_eq!(question(&of("cancel"), &found(120, false)), "Cancel 120 executions?");
        assert_eq!(question(&of("delete"), &found(1, false)), "Delete 1 execution?");
        let force = Deed { force: true, ..of("cancel") };
        assert_eq!(
            question(&force, &found(20_000, true)),
            "Cancel at least 20000 executions, without undoing anything?"
        );
        let signal = Deed { signal: Some("tell"), ..of("signal") };
        assert_eq!(question(&signal, &found(2, false)), "Signal 2 executions with tell?");
    }
}
