//! What clients did, operation by operation, as JSON lines for checkers that come later.
//!
//! ```json
//! {"process":0,"name":"start","key":"x","node":"10.77.0.11:7400","input":{},"call_ns":17,"return_ns":42,
//!  "outcome":"answered","status":201,"output":{"created":true}}
//! ```
//!
//! A line is one operation of one process, and a process does one at a time. Times are nanoseconds of one clock that
//! never goes back, from the start of the recorder. The outcomes are those of Jepsen under other names:
//!
//! | outcome | Jepsen | means |
//! |---|---|---|
//! | `answered` | `ok` | a node said what came of it, be it a refusal for good (`409`): see `status` and `output` |
//! | `refused` | `fail` | it surely did not happen, and may be tried again: no connection, `NO_LEADER`, `OVERLOADED` |
//! | `unknown` | `info` | it happened, or will, or not; `return_ns` is absent, for nobody knows when it is over |
//!
//! After an unknown outcome the client goes on under a new process number, because its operation may still be going on.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::{Error, lock};

/// What is known of an operation that is over for its caller.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// A node said what came of it.
    Answered {
        /// The status of HTTP.
        status: u16,
        /// The body; null if there was none.
        output: Value,
    },
    /// It did not happen: why.
    Refused(String),
    /// Nobody knows: why.
    Unknown(String),
}

/// One operation as it is written.
#[derive(Debug, Serialize)]
struct Line<'a> {
    process: u64,
    name: &'a str,
    key: &'a str,
    node: &'a str,
    input: &'a Value,
    call_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    return_ns: Option<u64>,
    outcome: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

/// Writes operations into a file; shared by all clients of a run.
#[derive(Debug)]
pub struct Recorder {
    file: Mutex<File>,
    began: Instant,
    processes: AtomicU64,
}

impl Recorder {
    /// Writes into a new file at `path`.
    ///
    /// # Errors
    ///
    /// Those of the machine.
    pub fn create(path: &Path) -> Result<Arc<Self>, Error> {
        let file = File::create(path).map_err(Error::file("making", path))?;
        Ok(Arc::new(Self { file: Mutex::new(file), began: Instant::now(), processes: AtomicU64::new(0) }))
    }

    /// A number that no process has had.
    pub(crate) fn process(&self) -> u64 {
        self.processes.fetch_add(1, Ordering::Relaxed)
    }

    /// An operation begins.
    pub(crate) fn call(self: &Arc<Self>, process: u64, name: &str, key: &str, node: &str, input: Value) -> Operation {
        let [name, key, node] = [name, key, node].map(ToOwned::to_owned);
        let call_ns = self.now_ns();
        Operation { recorder: Arc::clone(self), process, name, key, node, input, call_ns, outcome: None }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// An operation under way. Dropped before its end, because its caller was stopped, it is unknown.
#[derive(Debug)]
pub(crate) struct Operation {
    recorder: Arc<Recorder>,
    process: u64,
    name: String,
    key: String,
    node: String,
    input: Value,
    call_ns: u64,
    outcome: Option<Outcome>,
}

impl Operation {
    /// It is over.
    pub(crate) fn end(mut self, outcome: Outcome) {
        self.outcome = Some(outcome);
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        let outcome = self.outcome.take().unwrap_or_else(|| Outcome::Unknown("its caller was stopped".into()));
        let now_ns = self.recorder.now_ns();
        let (word, return_ns, status, output, error) = match &outcome {
            Outcome::Answered { status, output } => ("answered", Some(now_ns), Some(*status), Some(output), None),
            Outcome::Refused(why) => ("refused", Some(now_ns), None, None, Some(why.as_str())),
            Outcome::Unknown(why) => ("unknown", None, None, None, Some(why.as_str())),
        };
        let (name, key, node, input) = (self.name.as_str(), self.key.as_str(), self.node.as_str(), &self.input);
        let (process, call_ns) = (self.process, self.call_ns);
        let line = Line { process, name, key, node, input, call_ns, return_ns, outcome: word, status, output, error };
        // One write per line, so that a killed test leaves whole lines; a record that cannot be kept is no record.
        let written = serde_json::to_string(&line).map_err(std::io::Error::from).and_then(|mut text| {
            text.push('\n');
            lock(&self.recorder.file).write_all(text.as_bytes())
        });
        if let (Err(error), false) = (written, std::thread::panicking()) {
            panic!("an operation cannot be recorded: {error}");
        }
    }
}
