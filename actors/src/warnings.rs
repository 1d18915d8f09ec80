//! What is allowed and probably not meant, as far as only a node can know it.

use std::sync::Arc;

use orbit_raft::Environment;
use semver::Version;
use workflow::definition::Definition;
use workflow::document::{self, Registry};

use crate::api::TaskVersion;
use crate::definitions::Definitions;
use crate::desk::Desk;
use crate::error::Result;

/// What a node knows beside a document.
struct Known<'a, E: Environment> {
    desk: &'a Desk,
    definitions: &'a Definitions<E>,
}

impl<E: Environment> Registry for Known<'_, E> {
    fn is_served(&self, task: &str, version: &Version) -> bool {
        self.desk.is_served(task, &version.to_string())
    }

    fn definition(&self, name: &str, version: &Version) -> Option<Arc<Definition>> {
        self.definitions.local(name, &version.to_string()).ok().flatten()
    }
}

/// Warnings about a definition that is registered.
pub(crate) fn registry_warnings<E: Environment>(
    definition: &Definition,
    desk: &Desk,
    definitions: &Definitions<E>,
) -> Vec<String> {
    let warnings = document::registry_warnings(definition, &Known { desk, definitions });
    // They are about the definition, which has no lines.
    warnings.iter().map(|warning| format!("{}: {}", warning.path, warning.message)).collect()
}

/// Warnings about versions that no definition uses.
pub(crate) fn unused_contracts<E: Environment>(
    contracts: &[TaskVersion],
    definitions: &Definitions<E>,
) -> Result<Vec<String>> {
    let used = definitions.task_versions()?;
    let unused = contracts.iter().filter(|contract| !used.contains(contract));
    let warning = |TaskVersion { task_name, contract_version }: &TaskVersion| {
        format!("no registered workflow uses {task_name} {contract_version}; check name and version, or deploy one")
    };
    Ok(unused.map(warning).collect())
}
