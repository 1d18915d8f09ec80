//! An event of a history as a line.

use serde::Deserialize;
use serde_json::value::RawValue;
use workflow::event::Recorded;

use super::Error;
use super::json::members;
use super::why::why;
use crate::client;

/// What is shown of an event.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) seq: u64,
    pub(crate) timestamp_ms: u64,
    /// `StepScheduled charge attempt=1`.
    pub(crate) text: String,
    /// Why, by whom, when; may be empty.
    pub(crate) why: String,
    pub(crate) end: Option<End>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The execution is over.
    Over,
    /// It goes on in this run.
    Continued(u32),
}

/// What any event has, also one that this version does not know.
#[derive(Deserialize)]
struct Any {
    seq: u64,
    timestamp_ms: u64,
    r#type: String,
    #[serde(default)]
    step: Option<String>,
    #[serde(default)]
    run: Option<u32>,
}

/// Events that end a run.
const LAST: [&str; 4] = ["WorkflowCompleted", "WorkflowFailed", "WorkflowCancelled", "WorkflowTimedOut"];

/// Members of events that are payloads, or hold some.
const VALUES: [&str; 8] = ["input", "items", "output", "payload", "event", "failure", "result", "error"];

impl Line {
    pub(crate) fn read(event: &RawValue) -> Result<Self, Error> {
        let any: Any = serde_json::from_str(event.get())
            .map_err(|error| client::Error::NotUnderstood { why: error.to_string() })?;
        // A newer node may write events that this version does not know.
        let (text, why) = match Recorded::from_json(event.get()) {
            Ok(recorded) => (recorded.event.to_string(), why(&recorded)),
            Err(_) => {
                let text = format!("{} {}", any.r#type, any.step.as_deref().unwrap_or_default());
                (text.trim_end().to_owned(), String::new())
            }
        };
        let end = match any.r#type.as_str() {
            "WorkflowContinuedAsNew" => any.run.map(End::Continued),
            name => LAST.contains(&name).then_some(End::Over),
        };
        Ok(Self { seq: any.seq, timestamp_ms: any.timestamp_ms, text, why, end })
    }
}

/// What went in, came out or was wrong, in the order in which an event has it, each as JSON.
pub(crate) fn values(event: &RawValue) -> Result<Vec<(String, String)>, Error> {
    let members = members(event.get()).map_err(|error| client::Error::NotUnderstood { why: error.to_string() })?;
    let values = members.into_iter().filter(|(name, _)| VALUES.contains(&&**name));
    Ok(values.map(|(name, value)| (name.into_owned(), value.get().to_owned())).collect())
}
