//! Whether what lies in a shard is what must lie there: read as of one entry of its log, counted anew.
//!
//! - [`walk`]: all rows of a shard, a piece at a time, so that whoever checks can let others go first
//! - [`run`]: one run: its history, its rows, and what it waits for
//! - [`index`]: what must lie in the index tables because of an execution, and what lies there because of none
//! - [`post`]: messages that lie in the outbox, and marks of those that came
//! - [`awaited`]: what only two shards together can say: units that wait for another execution
//!
//! A row too few is work that never happens; one too many is work that comes to nothing, again at every start. Nothing
//! here repairs anything.

pub(crate) mod awaited;
mod index;
pub(crate) mod post;
mod run;
mod walk;

use orbit_raft::{Environment, Group};

pub(crate) use walk::Walk;

use crate::api::Finding;
use crate::definitions::Definitions;
use crate::error::Result;

/// Findings of a shard that are listed; the rest is only counted.
const LISTED_MAX: usize = 50;
/// Bytes of a text of a finding.
const TEXT_BYTES_MAX: usize = 400;

/// What a check looks at, with the name of each rule and what to do where it is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Events are numbered 1..n and can be read; the position says n.
    History,
    /// Head, units and all other rows of a run are the fold of its history.
    Fold,
    /// Counters and timers of a state agree with its units.
    State,
    /// Whatever runs waits for something, and nothing is left to decide.
    Cause,
    /// The queues hold exactly the tasks that wait.
    Ready,
    /// The timers are exactly those that run.
    Timers,
    /// Hand-overs in flight are exactly those that units know of.
    Held,
    /// The list and what it is searched by say what the states say.
    List,
    /// Messages that are not delivered lie where they are found, and none would be taken for one that came before.
    Outbox,
    /// Nothing that has not been sent is noted as received.
    Inbox,
    /// Who waits for another execution will be answered.
    Awaited,
    /// Replicas that are applied equally far hold the same rows.
    Replicas,
}

/// The rules, as findings name them, in the order in which they are documented.
pub const RULES: [&str; 12] =
    ["history", "fold", "state", "cause", "ready", "timers", "held", "list", "outbox", "inbox", "awaited", "replicas"];

impl Rule {
    fn name(self) -> &'static str {
        RULES[self as usize]
    }

    fn advice(self) -> &'static str {
        match self {
            Self::History | Self::Fold | Self::State => {
                "compare the replicas (rule `replicas`): if one differs, replace that node; if all are alike, keep the \
                 output of `orbit history ID --output json` and report it; the execution can be cancelled with --force"
            }
            Self::Cause => "redrive the execution, or cancel it with --force and start it anew; report it",
            Self::Ready | Self::Timers | Self::Held | Self::List => {
                "compare the replicas (rule `replicas`): if one differs, replace that node; otherwise pause and resume \
                 the execution, which writes its index rows anew, and report it"
            }
            Self::Outbox | Self::Inbox | Self::Awaited => {
                "look at both executions; one that waits in vain can be cancelled with --force or redriven; report it"
            }
            Self::Replicas => {
                "stop that node, remove it with `orbit leave --node N --lost`, and let it join again with an empty \
                 data directory"
            }
        }
    }
}

/// About what a finding is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At<'a> {
    pub(crate) id: Option<&'a str>,
    pub(crate) run: Option<u32>,
}

impl<'a> At<'a> {
    /// A run.
    pub(crate) fn run(id: &'a str, run: u32) -> Self {
        Self { id: Some(id), run: Some(run) }
    }

    /// An execution.
    pub(crate) fn id(id: &'a str) -> Self {
        Self { id: Some(id), run: None }
    }

    /// None.
    pub(crate) const SHARD: At<'static> = At { id: None, run: None };
}

/// What was found: the first findings, and how many there are.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) listed: Vec<Finding>,
    pub(crate) total: u64,
}

impl Findings {
    pub(crate) fn add(
        &mut self,
        rule: Rule,
        at: At<'_>,
        place: impl ToString,
        found: impl ToString,
        expected: impl ToString,
    ) {
        self.total += 1;
        if self.listed.len() < LISTED_MAX {
            self.listed.push(Finding {
                rule: rule.name(),
                execution_id: at.id.map(str::to_owned),
                run: at.run,
                place: short(place.to_string()),
                found: short(found.to_string()),
                expected: short(expected.to_string()),
                advice: rule.advice(),
            });
        }
    }

    /// So many more of a kind that is listed already.
    pub(crate) fn count(&mut self, more: u64) {
        self.total += more;
    }
}

fn short(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        let end = (0..=TEXT_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Checks all of a shard that needs no other one, at once.
///
/// # Errors
/// `STORAGE_ERROR`: the disk does not answer.
pub(crate) fn check<E: Environment>(
    group: &Group<E>,
    shard: (u16, u16),
    definitions: &Definitions<E>,
) -> Result<Vec<String>> {
    group.read(|reader| {
        let mut walk = Walk::new(shard);
        while walk.piece(reader, definitions)? {
            walk.awaited.clear();
        }
        let line = |finding: &Finding| serde_json::to_string(finding).unwrap_or_default();
        Ok(walk.findings.listed.iter().map(line).collect())
    })
}
