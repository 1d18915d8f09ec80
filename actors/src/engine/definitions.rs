//! Definitions: registering and reading them.

use orbit_raft::Environment;
use tokio::time::Instant;
use workflow::document::Format;

use super::Engine;
use crate::api::{RegisteredWorkflow, StoredWorkflow, WorkflowSummary};
use crate::error::Result;
use crate::failure::read_only;
use crate::warnings;

impl<E: Environment> Engine<E> {
    /// Registers all documents of a source or none.
    ///
    /// # Errors
    /// `INVALID_IR` with every fault, `DEFINITION_CONFLICT`, `OVERLOADED` when the disks are nearly used up.
    pub async fn deploy(&self, source: &str, format: Format) -> Result<Vec<RegisteredWorkflow>> {
        let running = self.running()?;
        let voters = running.definitions.meta().status().voters;
        if running.cluster.conditions.is_read_only(&voters, Instant::now()) {
            return Err(read_only());
        }
        let warn = |definition: &workflow::definition::Definition| {
            warnings::registry_warnings(definition, &running.desk, &running.definitions)
        };
        running.definitions.deploy(source.to_owned(), format, warn).await
    }

    /// All registered workflows, by name, newest version first.
    ///
    /// # Errors
    /// `NO_LEADER`, `STORAGE_ERROR`, as of all reads.
    pub async fn workflows(&self) -> Result<Vec<WorkflowSummary>> {
        self.running()?.definitions.list().await
    }

    /// One definition; without a version the latest.
    ///
    /// # Errors
    /// `WORKFLOW_NOT_FOUND`.
    pub async fn workflow(&self, name: &str, version: Option<&str>) -> Result<StoredWorkflow> {
        self.running()?.definitions.stored(name, version).await
    }
}
