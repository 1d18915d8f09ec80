//! The cases file as its author writes it (L15).

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde::Deserialize;

use super::names::Names;
use super::scalar::{Moments, Ms, OneOrMany, Output, Times, When, present};
use super::wording;
use crate::definition::Definition;
use crate::document::{Data, Fault, Faults, Format, Found};
use crate::event::UncertainReason;
use crate::value::Value;

/// One case: what is given, what the world does, what must come of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// What the case is called.
    pub name: String,
    #[serde(default)]
    pub(super) input: Option<Value>,
    #[serde(default)]
    pub(super) workflow: Option<String>,
    #[serde(default)]
    pub(super) mocks: BTreeMap<String, OneOrMany<Outcome>>,
    #[serde(default)]
    pub(super) signals: Vec<SignalStep>,
    #[serde(default)]
    pub(super) cancel: Moments<CancelStep>,
    #[serde(default)]
    pub(super) pause: Moments<PlainStep>,
    #[serde(default)]
    pub(super) resume: Moments<PlainStep>,
    #[serde(default)]
    pub(super) redrive: Vec<RedriveStep>,
    #[serde(default)]
    pub(super) queries: Vec<QueryStep>,
    #[serde(default)]
    pub(super) starts: Vec<StartStep>,
    #[serde(default)]
    pub(super) until: Option<Ms>,
    #[serde(default)]
    pub(super) expect: Expect,
}

impl Case {
    /// Whether nothing is ever started, as the case expects it: then there is no end that could be expected.
    fn starts_nothing(&self) -> bool {
        self.all_starts().iter().all(|start| start.refused.is_some())
    }

    /// Who is started: the one that the case is about, when it lists none.
    pub(super) fn all_starts(&self) -> Vec<StartStep> {
        if !self.starts.is_empty() {
            return self.starts.clone();
        }
        vec![StartStep {
            at: Ms::default(),
            refused: None,
            answer: None,
            id: super::script::MAIN.to_owned(),
            workflow: self.workflow.clone(),
            input: self.input.clone(),
        }]
    }
}

/// What a mocked worker does with one hand-over.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Outcome {
    /// Only for hand-overs for which this holds.
    pub(super) when: Option<When>,
    /// Only so often.
    pub(super) times: Option<u64>,
    /// How long it takes; 10 ms.
    pub(super) after: Option<Ms>,
    /// It never answers.
    pub(super) never: bool,
    /// It neither answers nor shows a sign of life.
    pub(super) silent: bool,
    /// The hand-over becomes uncertain then; with `after` the worker answers all the same.
    pub(super) lost: Option<Ms>,
    /// Why it becomes uncertain: `worker_lost` unless written.
    pub(super) reason: Option<UncertainReason>,
    /// How long it waits in the queue.
    pub(super) pickup: Option<Ms>,
    /// How often the same result is sent.
    pub(super) sent: Option<Times>,
    /// How long after one another; 10 ms.
    pub(super) again: Option<Ms>,
    /// What it yields: `{}` unless written.
    #[serde(deserialize_with = "present")]
    pub(super) output: Option<Output>,
    /// What it fails with.
    pub(super) error: Option<MockError>,
}

/// How a mocked worker fails.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MockError {
    pub(super) code: String,
    #[serde(default)]
    pub(super) message: String,
    #[serde(default = "yes")]
    pub(super) retryable: bool,
    #[serde(default)]
    pub(super) details: Option<Value>,
    /// It may have happened all the same.
    #[serde(default)]
    pub(super) unknown: bool,
}

fn yes() -> bool {
    true
}

/// What the caller must be told.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    pub(super) refused: Option<String>,
    pub(super) answer: Option<Value>,
}

/// A step of the script: its fields, and when, to whom and with what answer, like every other.
macro_rules! steps {
    ($($(#[$doc:meta])* $name:ident { $($(#[$attr:meta])* $field:ident: $type:ty,)* })*) => { $(
        $(#[$doc])*
        #[derive(Clone, Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(super) struct $name {
            #[serde(default)]
            pub(super) at: Ms,
            #[serde(default)]
            pub(super) refused: Option<String>,
            #[serde(default, deserialize_with = "present")]
            answer: Option<Value>,
            $($(#[$attr])* pub(super) $field: $type,)*
        }

        impl $name {
            pub(super) fn told(&self) -> Told {
                Told { refused: self.refused.clone(), answer: self.answer.clone() }
            }
        }
    )* };
}

steps! {
    /// A signal is sent.
    SignalStep {
        name: String,
        #[serde(default)]
        payload: Option<Value>,
        #[serde(default)]
        to: Option<String>,
        #[serde(default)]
        dedup_id: Option<String>,
    }
    /// Somebody cancels.
    CancelStep {
        #[serde(default)]
        to: Option<String>,
        #[serde(default)]
        force: bool,
    }
    /// Somebody pauses or resumes.
    PlainStep {
        #[serde(default)]
        to: Option<String>,
    }
    /// An operator redrives.
    RedriveStep {
        #[serde(default)]
        to: Option<String>,
        #[serde(default)]
        steps: Option<Vec<String>>,
        #[serde(default)]
        action: Option<crate::event::RedriveAction>,
        #[serde(default, deserialize_with = "present")]
        output: Option<Value>,
    }
    /// An execution is started.
    StartStep {
        id: String,
        #[serde(default)]
        workflow: Option<String>,
        #[serde(default)]
        input: Option<Value>,
    }
}

impl From<Ms> for CancelStep {
    fn from(at: Ms) -> Self {
        Self { at, refused: None, answer: None, to: None, force: false }
    }
}

impl From<Ms> for PlainStep {
    fn from(at: Ms) -> Self {
        Self { at, refused: None, answer: None, to: None }
    }
}

/// Somebody asks.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QueryStep {
    pub(super) at: Ms,
    pub(super) name: String,
    pub(super) value: Value,
    #[serde(default)]
    pub(super) to: Option<String>,
}

/// What must have come of it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expect {
    /// Left out only where every start is refused.
    #[serde(default)]
    pub(super) status: Option<String>,
    /// Of this execution: status, output, error, events.
    #[serde(default)]
    pub(super) of: Option<String>,
    /// Lines of this execution only.
    #[serde(default)]
    pub(super) of_lines: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub(super) output: Option<Value>,
    #[serde(default)]
    pub(super) error: Option<String>,
    /// These lines, in this order.
    #[serde(default)]
    pub(super) includes: Vec<String>,
    /// None of these lines.
    #[serde(default)]
    pub(super) excludes: Vec<String>,
    /// How many lines begin so.
    #[serde(default)]
    pub(super) count: BTreeMap<String, usize>,
    /// How often each task was handed over.
    #[serde(default)]
    pub(super) calls: BTreeMap<String, usize>,
    /// … and with what.
    #[serde(default)]
    pub(super) inputs: BTreeMap<String, Vec<Value>>,
    /// Events with these fields, in this order.
    #[serde(default)]
    pub(super) events_like: Vec<BTreeMap<String, Value>>,
    /// Sizes of the batches of the start.
    #[serde(default)]
    pub(super) first_batches: Option<Vec<usize>>,
    /// How many events the last run has.
    #[serde(default)]
    pub(super) events: Option<usize>,
    /// How many runs there are.
    #[serde(default)]
    pub(super) runs: Option<usize>,
    /// The last event is at this time or earlier.
    #[serde(default)]
    pub(super) ends_by: Option<Ms>,
    /// … or later.
    #[serde(default)]
    pub(super) not_before: Option<Ms>,
}

impl Expect {
    /// Whether it says anything of an execution, so that there must be one.
    pub(super) fn is_about_an_execution(&self) -> bool {
        let Self { status, output, error, events_like, first_batches, events, runs, ends_by, not_before, .. } = self;
        let ends = status.is_some() || output.is_some() || error.is_some() || runs.is_some();
        let times = ends_by.is_some() || not_before.is_some();
        ends || times || events.is_some() || first_batches.is_some() || !events_like.is_empty()
    }
}

/// Reads a cases file.
///
/// # Errors
/// Every case that is none, each with the place of its first fault.
pub fn parse(source: &str) -> Result<Vec<Case>, Faults> {
    read(source, None)
}

/// Reads a cases file that lies beside these documents.
///
/// # Errors
/// As [`parse`]; and every name that means nothing in them, with its place.
pub fn parse_for(source: &str, definitions: &[Arc<Definition>]) -> Result<Vec<Case>, Faults> {
    read(source, Some(&Names::of(definitions)))
}

fn read(source: &str, names: Option<&Names<'_>>) -> Result<Vec<Case>, Faults> {
    let files = Data::read(source, Format::Yaml)?;
    let mut faults = Found::default();
    let mut cases = Vec::new();
    for file in &files {
        let json = file.to_json();
        let Some(items) = json.as_array() else {
            faults.push(file.fault("", "a cases file is a list of cases: `- name: …`, `expect: {status: …}`"));
            continue;
        };
        for (index, item) in items.iter().enumerate() {
            match serde_path_to_error::deserialize::<_, Case>(item) {
                Ok(case) => {
                    if case.expect.status.is_none() && !case.starts_nothing() {
                        faults.push(without_status(file, index, item, &case.name));
                    }
                    if let Some(names) = names {
                        names.check(file, index, &case, &mut faults);
                    }
                    cases.push(case);
                }
                Err(error) => faults.push(case_fault(file, index, item, &error)),
            }
        }
    }
    let mut seen = HashSet::new();
    for case in &cases {
        if !seen.insert(&case.name) {
            let message = format!("two cases are called {:?}; give each a name of its own", case.name);
            faults.push(files[0].fault("", message));
        }
    }
    match Faults::of(faults) {
        Some(faults) => Err(faults),
        None => Ok(cases),
    }
}

fn without_status(file: &Data, index: usize, item: &serde_json::Value, name: &str) -> Fault {
    let (at, field) = match item.get("expect") {
        Some(_) => (format!("/{index}/expect"), "status"),
        None => (format!("/{index}"), "expect"),
    };
    let message =
        format!("case {name:?}: missing field `{field}`; only where every start is `refused` there is no end");
    file.fault(&at, message)
}

fn case_fault(
    file: &Data,
    index: usize,
    item: &serde_json::Value,
    error: &serde_path_to_error::Error<serde_json::Error>,
) -> Fault {
    use serde_path_to_error::Segment;
    let mut pointer = format!("/{index}");
    for segment in error.path() {
        let name = match segment {
            Segment::Seq { index } => index.to_string(),
            Segment::Map { key } => key.replace('~', "~0").replace('/', "~1"),
            Segment::Enum { .. } | Segment::Unknown => break,
        };
        pointer = format!("{pointer}/{name}");
    }
    let name = item.get("name").and_then(serde_json::Value::as_str);
    let case = name.map(|name| format!("case {name:?}: ")).unwrap_or_default();
    file.fault(&pointer, format!("{case}{}", wording::plain(&error.inner().to_string())))
}
