//! A run in memory, and where its stored rows stand.

use std::collections::BTreeSet;
use std::sync::Arc;

use orbit_proto::engine;
use orbit_proto::store::{Blank, Position, Precondition, precondition::Check};
use workflow::command::Run;
use workflow::state::{Execution, ReadRows, RunStatus};

use crate::index::{self, Index};

/// What must hold of the history before the next commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// There is no such execution.
    Absent,
    /// It stands exactly here.
    At { run: u32, seq: u64 },
}

impl Expected {
    pub(crate) fn precondition(self) -> Precondition {
        let check = match self {
            Self::Absent => Check::Absent(Blank {}),
            Self::At { run, seq } => Check::Position(Position { run, seq }),
        };
        Precondition { check: Some(check) }
    }
}

/// The newest run of an execution.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) run: Run,
    /// Its number, from 1.
    pub(crate) number: u32,
    pub(crate) expected: Expected,
    /// Its last batch was cut.
    pub(crate) unfinished: bool,
    /// … according to what is stored.
    pub(crate) stored_unfinished: bool,
    /// Its rows; absent until something of it is stored.
    pub(crate) rows: Option<Arc<dyn ReadRows>>,
    pub(crate) index: Index,
    /// Paused, over: as it is stored.
    pub(crate) was: (bool, bool),
    /// The row of its execution in the list, as it is stored.
    pub(crate) listed: Option<engine::ListRow>,
    /// The rows of its execution's attributes, as they are stored; absent: not looked at yet.
    pub(crate) attributes: Option<BTreeSet<Vec<u8>>>,
    /// About how many bytes it holds.
    pub(crate) bytes: usize,
}

impl Loaded {
    /// A run of which nothing is stored.
    pub(crate) fn new(run: Run, number: u32, expected: Expected) -> Self {
        Self {
            run,
            number,
            expected,
            unfinished: false,
            stored_unfinished: false,
            rows: None,
            index: Index::of_new_run(),
            was: (false, false),
            listed: None,
            attributes: Some(BTreeSet::new()),
            bytes: 0,
        }
    }

    /// A run that wakes up.
    pub(crate) fn stored(run: Run, rows: Arc<dyn ReadRows>, unfinished: bool) -> Self {
        let state = run.state();
        let (number, seq) = (state.head.run, state.head.seq);
        Self {
            number,
            expected: Expected::At { run: number, seq },
            unfinished,
            stored_unfinished: unfinished,
            rows: Some(rows),
            index: Index::of_stored_run(state),
            was: (state.head.paused, state.is_over()),
            listed: Some(list_row(&run)),
            attributes: None,
            bytes: 0,
            run,
        }
    }
}

/// The row of a run in the list.
pub(crate) fn list_row(run: &Run) -> engine::ListRow {
    let (state, definition) = (run.state(), run.definition());
    engine::ListRow {
        run: state.head.run,
        status: status(state).into(),
        workflow: definition.name.clone(),
        version: definition.version.to_string(),
        attention: state.head.attention,
    }
}

/// The status of a run as it is stored.
pub(crate) fn status(state: &Execution) -> engine::Status {
    match state.head.status {
        RunStatus::Running if state.head.paused => engine::Status::Paused,
        RunStatus::Running => engine::Status::Running,
        RunStatus::Completed => engine::Status::Completed,
        RunStatus::Failed => engine::Status::Failed,
        RunStatus::Cancelled => engine::Status::Cancelled,
        RunStatus::TimedOut => engine::Status::TimedOut,
        RunStatus::Continued => engine::Status::Continued,
    }
}

/// Where a run was before the commit that is being made.
#[derive(Debug)]
pub(crate) struct StoredBefore {
    rows: Option<Arc<dyn ReadRows>>,
    state: Option<Option<Execution>>,
}

impl StoredBefore {
    pub(crate) fn new(rows: Option<Arc<dyn ReadRows>>) -> Self {
        Self { rows, state: None }
    }
}

impl index::Before for StoredBefore {
    fn state(&mut self) -> Option<&Execution> {
        let rows = self.rows.as_ref()?;
        let read = || {
            Execution::asleep(rows).unwrap_or_else(|error| {
                rows.fail(error);
                None
            })
        };
        self.state.get_or_insert_with(read).as_ref()
    }
}
