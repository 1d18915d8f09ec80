//! The grammar of the document (L1): which fields there are and what each holds.
//!
//! One table serves three readers: [`super::check::shape`] refuses what does not fit, [`super::normal_form`] writes
//! every value the one way in which it is stored, and the messages name what is allowed.

/// A field of an object.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    pub(super) required: bool,
}

/// What a value must look like.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    /// Any text of at most so many characters.
    Text(usize),
    /// A text of a fixed form.
    Name(Form),
    /// Semantic version without build metadata.
    Version,
    Boolean,
    /// A whole number in this range.
    Integer(i64, i64),
    /// A number in this range.
    Real(f64, f64),
    /// `1h30m` or a number of ms; `${…}` where the flag of [`Evaluated`] allows it.
    Duration(Evaluated),
    /// RFC 3339, ms since 1970, or `${…}`.
    Moment,
    /// Bare CEL.
    Expression,
    /// A text with `${…}`, or without.
    Splice,
    /// A name of this form, or `${…}` that yields one.
    NameOrSplice(Form),
    /// Any JSON; `${…}` in its texts.
    Template,
    /// A JSON Schema.
    Schema,
    /// One of these words; the first is what holds when nothing is written, and is not stored.
    Choice(&'static [&'static str]),
    /// `on_failure`: a word or a list of rules.
    FailureRules,
    /// A number or `${…}`.
    Concurrency,
    /// A number, a percentage, `all` or `${…}`.
    MaxFailures,
    /// An object of these fields.
    Object(&'static [Field]),
    /// An object with any names of this form.
    Named(Form, &'static Shape),
    /// A list, each item once.
    List(&'static Shape),
    /// One, or a list of at least one.
    OneOrList(&'static Shape),
    /// Steps of a block.
    Steps,
    /// Allowed and not stored: what a stored normal form may carry beside itself.
    Beside,
}

/// Whether a duration may be a `${…}`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Evaluated {
    No,
    Yes,
}

/// Forms of names.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// `[a-z0-9][a-z0-9._-]{0,99}`
    Workflow,
    /// `[A-Za-z0-9][A-Za-z0-9._-]{0,99}`
    Task,
    /// `[a-z_][a-z0-9_]{0,63}`
    Id,
    /// `[A-Z][A-Z0-9_]{0,63}`
    Code,
    /// A loop variable: `[A-Za-z_][A-Za-z0-9_]{0,63}`
    Variable,
    /// The wire name of a signal of another workflow: as [`Form::Id`].
    Signal,
}

impl Form {
    /// The form as a regular expression, for messages and the JSON Schema.
    pub(super) fn pattern(self) -> &'static str {
        match self {
            Form::Workflow => "[a-z0-9][a-z0-9._-]{0,99}",
            Form::Task => "[A-Za-z0-9][A-Za-z0-9._-]{0,99}",
            Form::Id | Form::Signal => "[a-z_][a-z0-9_]{0,63}",
            Form::Code => "[A-Z][A-Z0-9_]{0,63}",
            Form::Variable => "[A-Za-z_][A-Za-z0-9_]{0,63}",
        }
    }

    pub(super) fn fits(self, text: &str) -> bool {
        let (first, _) = self.letters();
        let mut bytes = text.bytes();
        bytes.next().is_some_and(first) && bytes.all(|byte| self.letters().1(byte)) && text.len() <= self.length_max()
    }

    /// What may stand first, and what after it.
    fn letters(self) -> (Letters, Letters) {
        match self {
            Form::Workflow => (lower_digit, |b| lower_digit(b) || b"._-".contains(&b)),
            Form::Task => (|b| b.is_ascii_alphanumeric(), |b| b.is_ascii_alphanumeric() || b"._-".contains(&b)),
            Form::Id | Form::Signal => (|b| b.is_ascii_lowercase() || b == b'_', |b| lower_digit(b) || b == b'_'),
            Form::Code => (|b| b.is_ascii_uppercase(), |b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_'),
            Form::Variable => (|b| b.is_ascii_alphabetic() || b == b'_', |b| b.is_ascii_alphanumeric() || b == b'_'),
        }
    }

    fn length_max(self) -> usize {
        match self {
            Form::Workflow | Form::Task => 100,
            Form::Id | Form::Signal | Form::Code | Form::Variable => 64,
        }
    }
}

/// Whether a byte may stand somewhere.
type Letters = fn(u8) -> bool;

fn lower_digit(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

const fn may(name: &'static str, shape: Shape) -> Field {
    Field { name, shape, required: false }
}

const fn must(name: &'static str, shape: Shape) -> Field {
    Field { name, shape, required: true }
}

const WAIT: Shape = Shape::Duration(Evaluated::Yes);
const FIXED: Shape = Shape::Duration(Evaluated::No);

/// The document itself.
pub(super) const DOCUMENT: Shape = Shape::Object(&[
    may("ir_version", Shape::Text(20)),
    must("name", Shape::Name(Form::Workflow)),
    must("version", Shape::Version),
    may("description", Shape::Text(10_000)),
    may("timeout", FIXED),
    may("retention", FIXED),
    may("input", Shape::Schema),
    may("output", Shape::Schema),
    may("attributes", Shape::Named(Form::Id, &Shape::Object(ATTRIBUTE))),
    may("cancel_grace", FIXED),
    may("tasks", Shape::Named(Form::Task, &Shape::Object(TASK_CONTRACT))),
    may("workflows", Shape::Named(Form::Workflow, &Shape::Object(&[must("version", Shape::Version)]))),
    may("signals", Shape::Named(Form::Id, &Shape::Schema)),
    may("queries", Shape::Named(Form::Id, &Shape::Expression)),
    must("steps", Shape::Steps),
    may("result", Shape::Template),
    may("done_when", Shape::Expression),
    may("handlers", Shape::Object(HANDLERS)),
    may("definition_hash", Shape::Beside),
    may("source", Shape::Beside),
    may("source_map", Shape::Beside),
]);

const ATTRIBUTE: &[Field] = &[
    // The empty word: a type is always written.
    must("type", Shape::Choice(&["", "string", "integer", "number", "boolean", "time"])),
    must("value", Shape::Expression),
];

const TASK_CONTRACT: &[Field] =
    &[must("version", Shape::Version), may("input", Shape::Schema), may("output", Shape::Schema)];

const HANDLERS: &[Field] = &[
    may("failure", Shape::Steps),
    may("cancel", Shape::Steps),
    may("timeout", Shape::Steps),
    may("exit", Shape::Steps),
    may("event", Shape::Named(Form::Id, &Shape::Steps)),
];

/// Every field that some step may have; which kind may have which is [`super::check::kinds`]'s.
pub(super) const STEP: &[Field] = &[
    must("id", Shape::Name(Form::Id)),
    may("task", Shape::NameOrSplice(Form::Task)),
    may("workflow", Shape::Object(CHILD)),
    may("await", Shape::Object(AWAIT)),
    may("sleep", WAIT),
    may("sleep_until", Shape::Moment),
    may("compute", Shape::Expression),
    may("signal", Shape::Object(SIGNAL)),
    may("steps", Shape::Steps),
    may("fail", Shape::Object(FAIL)),
    may("continue_as_new", Shape::Object(&[must("input", Shape::Template)])),
    may("when", Shape::Expression),
    may("after", Shape::List(&Shape::Name(Form::Id))),
    may("depends_on", Shape::List(&Shape::Name(Form::Id))),
    may("on_failure", Shape::FailureRules),
    may("for", Shape::Object(FOR)),
    may("repeat", Shape::Object(REPEAT)),
    may("deadline", WAIT),
    may("on_deadline", Shape::Choice(&["fail", "continue"])),
    may("retry", Shape::Object(RETRY)),
    may("compensate", Shape::Object(COMPENSATE)),
    may("input", Shape::Template),
    may("language", Shape::Text(64)),
    may("timeout", WAIT),
    may("queue_timeout", WAIT),
    may("heartbeat_timeout", WAIT),
    may("result", Shape::Template),
    may("done_when", Shape::Expression),
    may("cancel_grace", FIXED),
];

const CHILD: &[Field] = &[must("name", Shape::NameOrSplice(Form::Workflow)), may("version", Shape::Version)];

const AWAIT: &[Field] = &[
    must("signal", Shape::OneOrList(&Shape::Name(Form::Id))),
    may("where", Shape::Expression),
    may("until", Shape::Expression),
    may("timeout", WAIT),
    may("on_timeout", Shape::Choice(&["fail", "continue"])),
];

const SIGNAL: &[Field] = &[
    must("execution", Shape::Splice),
    must("name", Shape::NameOrSplice(Form::Signal)),
    may("payload", Shape::Template),
];

const FAIL: &[Field] =
    &[must("code", Shape::Name(Form::Code)), may("message", Shape::Splice), may("details", Shape::Template)];

const FOR: &[Field] = &[
    must("each", Shape::Expression),
    may("as", Shape::Name(Form::Variable)),
    may("concurrency", Shape::Concurrency),
    may("max_failures", Shape::MaxFailures),
    may("done_when", Shape::Expression),
];

const REPEAT: &[Field] = &[
    must("until", Shape::Expression),
    may("delay", WAIT),
    may("multiplier", Shape::Real(1.0, 1_000.0)),
    may("max_delay", WAIT),
    may("max", Shape::Integer(1, 10_000)),
];

const RETRY: &[Field] = &[
    may("max_attempts", Shape::Integer(1, 10_000)),
    may("initial_delay", WAIT),
    may("multiplier", Shape::Real(1.0, 1_000.0)),
    may("max_delay", WAIT),
    may("jitter", Shape::Real(0.0, 1.0)),
    may("non_retryable", Shape::List(&Shape::Name(Form::Code))),
];

const COMPENSATE: &[Field] = &[
    may("task", Shape::NameOrSplice(Form::Task)),
    may("workflow", Shape::Object(CHILD)),
    may("signal", Shape::Object(SIGNAL)),
    may("input", Shape::Template),
    may("language", Shape::Text(64)),
    may("timeout", WAIT),
    may("queue_timeout", WAIT),
    may("heartbeat_timeout", WAIT),
    may("retry", Shape::Object(RETRY)),
    may("always", Shape::Boolean),
    may("on_failure", Shape::Choice(&["fail", "suspend"])),
];

/// One rule of a written-out `on_failure`.
pub(super) const FAILURE_RULE: &[Field] =
    &[may("when", Shape::Expression), must("then", Shape::Choice(&["", "fail", "continue", "suspend"]))];

/// Words of `on_failure`.
pub(super) const ON_FAILURE: &[&str] = &["fail", "continue", "suspend"];

/// Blocks in each other, the workflow's own not counted.
pub(super) const DEPTH_MAX: usize = 8;

/// Steps of a document in all.
pub(super) const STEPS_MAX: usize = 1_000;

/// Longest duration: a hundred years of 366 days.
pub(super) const DURATION_MS_MAX: u64 = 100 * 366 * 86_400_000;

/// Tasks that Orbit carries out itself.
pub const BUILT_IN_TASKS: [&str; 1] = ["orbit.http.request"];
