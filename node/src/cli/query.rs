//! `orbit query ID NAME`: what a query of an execution's workflow gives.

use std::time::Duration;

use tokio::time::Instant;
use workflow::case;

use super::Error;
use super::print::Output;
use super::remote::{self, Asks, Remote};
use crate::client::answers::QueryAnswer;
use crate::client::{Call, Client};

/// How long a node is asked to wait at a time.
const WAIT: Duration = Duration::from_secs(60);

/// Show what a query of an execution gives.
#[derive(Debug, clap::Args)]
pub(crate) struct Query {
    /// The execution.
    #[arg(value_parser = remote::execution_id)]
    id: String,
    /// The query.
    #[arg(value_parser = remote::name)]
    name: String,
    /// Wait until it gives something else than null, at most this long; then null ends with exit code 1.
    #[arg(long, value_name = "DURATION", value_parser = remote::duration)]
    wait: Option<Duration>,
    #[command(flatten)]
    remote: Remote,
}

impl Asks for Query {
    fn remote(&self) -> &Remote {
        &self.remote
    }

    async fn ask(&self, client: &Client, output: &mut Output) -> Result<(), Error> {
        let until = Instant::now() + self.wait.unwrap_or_default();
        loop {
            let left = until.saturating_duration_since(Instant::now()).min(WAIT);
            let wait_ms = self.wait.map(|_| left.as_millis());
            let call = Call::get(["v1", "executions", &self.id, "queries", &self.name]).query("wait_ms", wait_ms);
            let answer = client.send(&call.within(left + Duration::from_secs(15))).await?;
            let value = answer.read::<QueryAnswer>()?.value;
            let is_null = value.as_ref().is_some_and(|value| value.get() == "null");
            // A node that goes away answers early.
            if is_null && Instant::now() < until {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
            self.remote.show(&answer, output, |output, answer: QueryAnswer| {
                if let Some(value) = answer.value {
                    output.line(value.get());
                }
            })?;
            if value.is_none() {
                return Err(Error::TooLarge { query: self.name.clone(), id: self.id.clone() });
            }
            return match self.wait {
                Some(wait) if is_null => {
                    let waited = case::duration(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
                    Err(Error::StillNull { query: self.name.clone(), id: self.id.clone(), waited })
                }
                _ => Ok(()),
            };
        }
    }
}
