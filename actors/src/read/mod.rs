//! Reading executions: from applied state, as of one moment, never more than an answer may hold.

mod history;
mod list;
mod run;
mod state;
mod walk;

pub(crate) use history::history;
pub(crate) use list::{count, page};
pub(crate) use run::run;
pub(crate) use state::{
    Page, attributes, ended_runs, load, load_for_show, payload_of, run_number, runs, show, status_word, summary, units,
    units_total,
};

/// Most bytes of an answer: clients refuse more than 4 MiB.
pub(crate) const ANSWER_BYTES_MAX: usize = 3 << 20;
