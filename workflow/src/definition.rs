//! A checked definition: what a document means, ready to be decided on.
//!
//! Made from the normal form alone ([`Definition::from_normal_form`] in [`crate::document`]), so that a node that has
//! only the stored normal form builds exactly the same thing as the node that compiled the author's text. All steps of
//! the document lie in one list; blocks, the workflow itself among them, hold indexes into it, in the order in which
//! the walk looks at them (L1, L4). Nothing here can be wrong once made: names are resolved, expressions compiled,
//! shapes checked.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::contract::Contract;
use crate::expression::{Expression, Template};
use crate::value::Value;

/// A registered workflow document, immutable.
#[derive(Debug)]
pub struct Definition {
    /// `[a-z0-9][a-z0-9._-]{0,99}`.
    pub name: String,
    /// Semantic version without build metadata.
    pub version: semver::Version,
    /// What the author says of it; not part of the hash.
    pub description: Option<String>,
    /// `sha256:<hex>` over the canonical JSON of the normal form.
    pub hash: String,
    /// The normal form itself, canonical JSON.
    pub normal_form: Arc<str>,
    /// Time-out of the whole run, ms from its creation.
    pub timeout_ms: Option<u64>,
    /// How long a finished execution is kept, ms; `None`: the server's default.
    pub retention_ms: Option<u64>,
    /// What may be started with; closed against undeclared top-level properties as L1 says.
    pub input: Option<Contract>,
    /// What the workflow's result must look like.
    pub output: Option<Contract>,
    /// Searchable attributes, evaluated once at the start.
    pub attributes: BTreeMap<String, Attribute>,
    /// The contract of every worker task that the document uses, by name.
    pub tasks: BTreeMap<String, TaskContract>,
    /// Declared children: name to pinned version.
    pub workflows: BTreeMap<String, semver::Version>,
    /// Declared signals and the contract of their payload.
    pub signals: BTreeMap<String, Contract>,
    /// Queries by name.
    pub queries: BTreeMap<String, Expression>,
    /// Every step of the document, handlers included.
    pub steps: Vec<Step>,
    /// The workflow itself: the root block.
    pub root: Block,
    /// Blocks that run at the end or beside the steps (L9).
    pub handlers: Handlers,
    /// Step id to its index; ids are unique in the whole document.
    pub by_id: HashMap<String, StepIndex>,
    /// Whether some condition that is looked at again and again (`done_when`, `until`, `where`) reads what changes
    /// without an event inside of what it belongs to: `execution.history_events`, a step outside of the block whose
    /// `done_when` it is, or, in a handler, steps of the root.
    pub watches_elsewhere: bool,
    /// … among them the `where` of a wait.
    pub waits_watch_elsewhere: bool,
    /// … and which steps they belong to, but for the root itself.
    pub watchers: Vec<Watch>,
}

/// A step with a condition that reads what changes elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    /// The step.
    pub step: StepIndex,
    /// It reads the number of events: each may change it.
    pub counts: bool,
    /// Steps elsewhere that it names.
    pub steps: BTreeSet<String>,
}

/// Index of a step in [`Definition::steps`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StepIndex(pub u32);

/// A searchable attribute.
#[derive(Clone, Debug)]
pub struct Attribute {
    /// What it is indexed as.
    pub kind: AttributeKind,
    /// Over `input` and `execution`.
    pub value: Expression,
}

/// The types an attribute may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttributeKind {
    /// Text.
    String,
    /// A 64-bit integer.
    Integer,
    /// Any number.
    Number,
    /// true or false.
    Boolean,
    /// Milliseconds since 1970.
    Time,
}

/// What is agreed about one worker task.
#[derive(Clone, Debug)]
pub struct TaskContract {
    /// Versions match exactly.
    pub version: semver::Version,
    /// Checked before the unit is scheduled.
    pub input: Option<Contract>,
    /// Checked when the worker answers.
    pub output: Option<Contract>,
}

/// A block: the root, a step with `steps`, a handler.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// In the order of the walk: again and again the first in document order whose dependencies are placed.
    pub steps: Vec<StepIndex>,
    /// What it yields at a good end; null when not written.
    pub result: Option<Template>,
    /// Ends the block early and well.
    pub done_when: Option<Expression>,
    /// How long in-flight work may still answer when this block is closed; `None`: the block around it decides.
    pub cancel_grace_ms: Option<u64>,
}

/// Handlers of the workflow (L9).
#[derive(Clone, Debug, Default)]
pub struct Handlers {
    /// After the undo of a failed run.
    pub failure: Option<Block>,
    /// After the undo of a cancelled run.
    pub cancel: Option<Block>,
    /// After the undo of a run that timed out.
    pub timeout: Option<Block>,
    /// Always, and last.
    pub exit: Option<Block>,
    /// One instance per signal, beside the steps.
    pub event: BTreeMap<String, Block>,
}

/// One entry of the document.
#[derive(Clone, Debug)]
pub struct Step {
    /// `[a-z_][a-z0-9_]{0,63}`, unique in the document.
    pub id: String,
    /// The step whose block this one stands in; `None`: the root's or a handler's.
    pub parent: Option<StepIndex>,
    /// Place in its block's order, from 0.
    pub position: u32,
    /// Steps of the same block that must be resolved first, ascending by position.
    pub depends_on: Vec<StepIndex>,
    /// Steps of the same block that wait for this one, ascending by position.
    pub dependents: Vec<StepIndex>,
    /// False: skipped.
    pub when: Option<Expression>,
    /// What the step does.
    pub kind: Kind,
    /// One unit per element of a list.
    pub for_each: Option<ForEach>,
    /// Again and again until a condition holds.
    pub repeat: Option<Repeat>,
    /// How often and when a failed unit is tried again, as far as written.
    pub retry: Option<Retry>,
    /// Ends the step early.
    pub deadline: Option<Deadline>,
    /// First match decides; none: fail.
    pub on_failure: Vec<FailureRule>,
    /// How the step's work is undone.
    pub compensate: Option<Compensate>,
}

/// The kinds of L1.
#[derive(Clone, Debug)]
pub enum Kind {
    /// Carried out by a worker.
    Task(Task),
    /// A child execution.
    Workflow {
        /// Its name; may be an expression.
        name: Template,
        /// Pinned here, when it does not stand in `workflows`.
        version: Option<semver::Version>,
        /// What it starts with.
        input: Template,
    },
    /// Waits for signals.
    Await(Await),
    /// Waits for a while.
    Sleep(DurationSpec),
    /// Waits for a moment: RFC 3339 or ms since 1970.
    SleepUntil(Template),
    /// Evaluates an expression.
    Compute(Expression),
    /// Sends a signal to another execution.
    Signal(SignalSpec),
    /// A block of steps.
    Steps(Block),
    /// Fails on purpose.
    Fail {
        /// `[A-Z][A-Z0-9_]{0,63}`, none of Orbit's own.
        code: String,
        /// Shown to people.
        message: Option<Template>,
        /// Any JSON.
        details: Option<Template>,
    },
    /// Goes on in a new run.
    ContinueAsNew {
        /// The next run's input.
        input: Template,
    },
}

/// A worker task as a step or an undo calls it.
#[derive(Clone, Debug)]
pub struct Task {
    /// Its name; may be an expression over declared names.
    pub name: Template,
    /// What the worker gets.
    pub input: Template,
    /// Only workers that announce this runtime.
    pub language: Option<String>,
    /// One attempt, from its hand-over.
    pub timeout: Option<DurationSpec>,
    /// From scheduling to hand-over.
    pub queue_timeout: Option<DurationSpec>,
    /// Longest silence of a worker about the task.
    pub heartbeat_timeout: Option<DurationSpec>,
}

/// A wait for signals (L7).
#[derive(Clone, Debug)]
pub struct Await {
    /// Their names; the output names the signal when there are several.
    pub signals: Vec<String>,
    /// Whether the document lists them (`[a]` is not `a`).
    pub several: bool,
    /// Others stay in the buffer.
    pub accept: Option<Expression>,
    /// Takes signals until this holds; the output is the list.
    pub until: Option<Expression>,
    /// Longest wait.
    pub timeout: Option<DurationSpec>,
    /// What the time-out does.
    pub on_timeout: OnExpiry,
}

/// A signal to another execution, as written.
#[derive(Clone, Debug)]
pub struct SignalSpec {
    /// The receiver's id.
    pub execution: Template,
    /// The signal's name.
    pub name: Template,
    /// Its payload; `{}` when not written.
    pub payload: Template,
}

/// A duration: fixed, or evaluated once when the thing starts.
#[derive(Clone, Debug)]
pub enum DurationSpec {
    /// Milliseconds.
    Fixed(u64),
    /// A string that holds `${…}`; must yield a number of ms or a duration text.
    Evaluated(Template),
}

/// `for` (L6).
#[derive(Clone, Debug)]
pub struct ForEach {
    /// Must yield a list.
    pub each: Expression,
    /// The loop variable.
    pub variable: String,
    /// Elements in flight at a time: 1 to 10 000; not written: 1 000.
    pub concurrency: Option<Template>,
    /// Elements that may fail: a number, a percentage or `all`; not written: none.
    pub max_failures: Option<Template>,
    /// Ends the fan-out early and well.
    pub done_when: Option<Expression>,
}

/// `repeat` (L6): do-until.
#[derive(Clone, Debug)]
pub struct Repeat {
    /// Asked after each iteration.
    pub until: Expression,
    /// Before the second and further iterations.
    pub delay: Option<DurationSpec>,
    /// Grows the delay; not written: 1.
    pub multiplier: Option<f64>,
    /// Caps the delay.
    pub max_delay: Option<DurationSpec>,
    /// Most iterations; not written: 1 000.
    pub max: Option<u32>,
}

/// `retry` (L3), as far as written; what is left out has the defaults of the language.
#[derive(Clone, Debug, Default)]
pub struct Retry {
    /// Attempts in all.
    pub max_attempts: Option<u32>,
    /// Before the second attempt.
    pub initial_delay: Option<DurationSpec>,
    /// Grows the delay per attempt.
    pub multiplier: Option<f64>,
    /// Caps the delay.
    pub max_delay: Option<DurationSpec>,
    /// 0 to 1: share of the delay that varies.
    pub jitter: Option<f64>,
    /// Codes that are never tried again.
    pub non_retryable: Vec<String>,
}

/// `deadline` (L6).
#[derive(Clone, Debug)]
pub struct Deadline {
    /// From the moment the step is ready.
    pub after: DurationSpec,
    /// What happens then.
    pub on_deadline: OnExpiry,
}

/// What a time-out or deadline does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnExpiry {
    /// The step fails.
    Fail,
    /// The step succeeds with what is there.
    Continue,
}

/// One rule of `on_failure` (L5).
#[derive(Clone, Debug)]
pub struct FailureRule {
    /// Over `error` and what the step sees; not written: always.
    pub when: Option<Expression>,
    /// What is done.
    pub then: OnFailure,
}

/// What a definite failure does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// The block around closes.
    Fail,
    /// The failure is handled; dependants go.
    Continue,
    /// The unit waits for an operator.
    Suspend,
}

/// `compensate` (L9).
#[derive(Clone, Debug)]
pub struct Compensate {
    /// What is carried out.
    pub action: UndoAction,
    /// As a step's.
    pub retry: Option<Retry>,
    /// Also at the good end of the enclosing block.
    pub always: bool,
    /// A failed undo waits for an operator instead of being recorded.
    pub suspend_on_failure: bool,
}

/// How something is undone.
#[derive(Clone, Debug)]
pub enum UndoAction {
    /// By a worker.
    Task(Task),
    /// By a child execution.
    Workflow {
        /// Its name.
        name: Template,
        /// Pinned here, when it does not stand in `workflows`.
        version: Option<semver::Version>,
        /// What it starts with.
        input: Template,
    },
    /// By a signal.
    Signal(SignalSpec),
}

impl Definition {
    /// The step at `index`.
    #[must_use]
    pub fn step(&self, index: StepIndex) -> &Step {
        &self.steps[index.0 as usize]
    }

    /// The step called `id`, wherever it stands.
    #[must_use]
    pub fn step_named(&self, id: &str) -> Option<&Step> {
        self.by_id.get(id).map(|index| self.step(*index))
    }

    /// Whether the unit at `key` is one that waits for signals, and none that is around such: a fan-out, a loop.
    #[must_use]
    pub fn awaits(&self, key: &str) -> bool {
        let segment = crate::key::last_segment(key);
        self.step_named(segment.id).is_some_and(|step| {
            matches!(step.kind, Kind::Await(_))
                && step.for_each.is_some() == segment.element.is_some()
                && step.repeat.is_some() == segment.iteration.is_some()
        })
    }
}

impl Step {
    /// The inner block of a `steps` step.
    #[must_use]
    pub fn block(&self) -> Option<&Block> {
        match &self.kind {
            Kind::Steps(block) => Some(block),
            _ => None,
        }
    }

    /// Tasks, children and signals: what happens outside and can be undone.
    #[must_use]
    pub fn acts_outside(&self) -> bool {
        matches!(self.kind, Kind::Task(_) | Kind::Workflow { .. } | Kind::Signal(_))
    }
}

impl Block {
    /// The constant null that a block yields when it has no `result`.
    #[must_use]
    pub fn no_result() -> Value {
        Value::Null
    }
}
