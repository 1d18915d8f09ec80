//! Warnings that need to know what else is registered (L1).

use semver::Version;

use super::fault::Warning;
use super::grammar::BUILT_IN_TASKS;
use super::marked::{Place, join};
use crate::definition::{Definition, Kind};

/// What a server knows beside the document.
pub trait Registry {
    /// Whether some worker session takes this version of a task now.
    fn is_served(&self, task: &str, version: &Version) -> bool;

    /// The definition of a child, when it is registered.
    fn definition(&self, name: &str, version: &Version) -> Option<std::sync::Arc<Definition>>;
}

/// Task versions that nobody works for, and children with compensations that are called without `compensate`: when
/// such a child has succeeded and the parent fails later, what the child did stays done.
///
/// The definition knows no places: line and column are 0, the path is that of the normal form.
#[must_use]
pub fn registry_warnings(definition: &Definition, registry: &dyn Registry) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for (name, task) in &definition.tasks {
        if !registry.is_served(name, &task.version) && !BUILT_IN_TASKS.contains(&name.as_str()) {
            let message = format!("nobody works for the task {name} {}", task.version);
            warnings.push(Warning::new(Place::default(), join("/tasks", name), message));
        }
    }
    for step in definition.steps.iter().filter(|step| step.compensate.is_none()) {
        let Kind::Workflow { name, version, .. } = &step.kind else { continue };
        let Some(name) = name.constant().and_then(|name| name.as_str()) else { continue };
        let Some(version) = version.as_ref().or_else(|| definition.workflows.get(name)) else { continue };
        let child = registry.definition(name, version);
        if child.is_some_and(|child| child.steps.iter().any(|step| step.compensate.is_some())) {
            let message = format!(
                "`{}` calls {name} {version}, which undoes its work only when it fails itself; without `compensate` \
                 nothing undoes it when this workflow fails later",
                step.id
            );
            warnings.push(Warning::new(Place::default(), join("/steps", &step.id), message));
        }
    }
    warnings
}
