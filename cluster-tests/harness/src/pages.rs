//! A history, page by page: `GET /v1/executions/{id}/history?from=…` until no next one is named.

use std::ops::ControlFlow;

use orbit_cluster_tests::{Event, History};
use serde_json::Value;

use crate::Error;

/// So few that also short histories have several pages.
const PAGE_EVENTS: usize = 40;

/// What has been read so far of run 1 of an execution.
#[derive(Debug)]
pub struct Pages {
    history: History,
    from: u64,
}

impl Pages {
    /// Nothing yet.
    #[must_use]
    pub fn of(execution_id: &str) -> Self {
        Self { history: History { execution_id: execution_id.to_owned(), run: 1, events: Vec::new() }, from: 1 }
    }

    /// Where the next page is.
    #[must_use]
    pub fn path(&self) -> String {
        format!("/v1/executions/{}/history?from={}&limit={PAGE_EVENTS}", self.history.execution_id, self.from)
    }

    /// Adds an answer. `Break`: that is all of it; `None`: there is no such execution.
    ///
    /// # Errors
    ///
    /// When it is no page of a history.
    pub fn add(mut self, status: u16, page: &Value) -> Result<ControlFlow<Option<History>, Self>, Error> {
        match (status, page["events"].as_array()) {
            (404, _) => return Ok(ControlFlow::Break(None)),
            (200, Some(events)) => self.history.events.extend(events.iter().cloned().map(Event)),
            _ => {
                let said = std::io::Error::other(format!("HTTP {status} {page}"));
                return Err(Error::system(format!("reading {}", self.path()))(said));
            }
        }
        Ok(match page["next"].as_u64() {
            Some(next) => ControlFlow::Continue(Self { from: next, ..self }),
            None => ControlFlow::Break(Some(self.history)),
        })
    }
}
