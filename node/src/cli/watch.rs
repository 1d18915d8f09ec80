//! `orbit watch ID`: what happens to an execution, as it happens, until it is over.

use std::time::Duration;

use tokio::time::sleep;
use workflow::case;

use super::event::{End, Line};
use super::print::{Form, Output};
use super::remote::{self, Asks, Remote};
use super::{Error, follow, history, table};
use crate::client::Client;
use crate::client::answers::State;

/// Pauses between two looks at a history: the first after something happened, then twice as long each time.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
/// The longest pause; the end is told by the node at once.
const PAUSE_LONGEST: Duration = Duration::from_secs(1);
/// Longest reason that is shown beside an event.
const WHY_MAX: usize = 300;

/// Show what happens to an execution until it is over; exit code 1 if it does not complete.
#[derive(Debug, clap::Args)]
pub(crate) struct Watch {
    /// The execution.
    #[arg(value_parser = remote::execution_id)]
    id: String,
    /// From this run on; the newest if not given.
    #[arg(long)]
    run: Option<u32>,
    #[command(flatten)]
    remote: Remote,
}

/// How far a watcher has seen.
struct Seen {
    run: Option<u32>,
    next: u64,
    began_ms: Option<u64>,
}

impl Asks for Watch {
    fn remote(&self) -> &Remote {
        &self.remote
    }

    async fn ask(&self, client: &Client, output: &mut Output) -> Result<(), Error> {
        let mut seen = Seen { run: self.run, next: 1, began_ms: None };
        let mut pause = PAUSE_FIRST;
        let mut waiting = Box::pin(follow::wait_once(client, &self.id));
        loop {
            let before = (seen.run, seen.next);
            if self.look(client, &mut seen, output).await? {
                break;
            }
            // `| head` has seen enough.
            if output.is_closed() {
                return Ok(());
            }
            pause = if (seen.run, seen.next) == before { (pause * 2).min(PAUSE_LONGEST) } else { PAUSE_FIRST };
            tokio::select! {
                () = sleep(pause) => {}
                state = &mut waiting => {
                    // Over, or still running after a while: the history tells. A run that ended without that being
                    // in the history yet is looked at again after the usual pause.
                    state?;
                    sleep(PAUSE_FIRST).await;
                    waiting.set(follow::wait_once(client, &self.id));
                }
            }
        }
        let state: State = follow::wait(client, &self.id).await?.read()?;
        if self.remote.output == Form::Table {
            follow::print_end(&state, output);
        }
        follow::judge(&state)
    }
}

impl Watch {
    /// Prints what is new; true when the execution is over.
    async fn look(&self, client: &Client, seen: &mut Seen, output: &mut Output) -> Result<bool, Error> {
        loop {
            let page = history::page(client, &self.id, seen.run, seen.next).await?;
            seen.run = Some(page.run);
            let mut end = None;
            for event in &page.events {
                let line = Line::read(event)?;
                seen.next = line.seq + 1;
                end = line.end;
                self.print(&line, event.get(), seen, output);
            }
            output.flush();
            match end {
                Some(End::Over) => return Ok(true),
                Some(End::Continued(run)) => (seen.run, seen.next) = (Some(run), 1),
                None if page.next.is_some() => {}
                None => return Ok(false),
            }
        }
    }

    fn print(&self, line: &Line, event: &str, seen: &mut Seen, output: &mut Output) {
        match self.remote.output {
            Form::Table => {
                let began_ms = *seen.began_ms.get_or_insert(line.timestamp_ms);
                let after = case::duration(line.timestamp_ms.saturating_sub(began_ms));
                let gap = if line.why.is_empty() { "" } else { "  " };
                let why = table::cut(&line.why, WHY_MAX);
                output.line(format_args!("{:>12}  {}{gap}{why}", format!("+{after}"), line.text));
            }
            Form::Json => output.line(event),
            Form::Yaml => {
                output.line("---");
                self.remote.show_text(Form::Yaml, event, output);
            }
        }
    }
}
