//! An event of a history as a line.

use serde::Deserialize;
use serde_json::value::RawValue;
use workflow::event::Recorded;

use super::Error;
use crate::client;

/// What is shown of an event.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) seq: u64,
    pub(crate) timestamp_ms: u64,
    /// `StepScheduled charge attempt=1`.
    pub(crate) text: String,
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

impl Line {
    pub(crate) fn read(event: &RawValue) -> Result<Self, Error> {
        let any: Any = serde_json::from_str(event.get())
            .map_err(|error| client::Error::NotUnderstood { why: error.to_string() })?;
        // A newer node may write events that this version does not know.
        let text = match Recorded::from_json(event.get()) {
            Ok(recorded) => recorded.event.to_string(),
            Err(_) => format!("{} {}", any.r#type, any.step.as_deref().unwrap_or_default()).trim_end().to_owned(),
        };
        let end = match any.r#type.as_str() {
            "WorkflowContinuedAsNew" => any.run.map(End::Continued),
            name => LAST.contains(&name).then_some(End::Over),
        };
        Ok(Self { seq: any.seq, timestamp_ms: any.timestamp_ms, text, end })
    }
}
