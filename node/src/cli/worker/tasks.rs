//! Which versions of which tasks a worker works for.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::super::{Error, near};
use crate::client::answers::Workflows;
use crate::client::{self, Call, Client};

/// A version of a task.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Contract {
    task_name: String,
    contract_version: String,
}

/// What was asked for, and what the workflows that have been looked at so far use of it.
pub(super) struct Wanted {
    fixed: BTreeSet<Contract>,
    /// Tasks in all versions.
    any: BTreeSet<String>,
    /// Definitions never change, so each is looked at once.
    used: BTreeMap<String, BTreeSet<Contract>>,
    /// All tasks that workflows use.
    known: BTreeSet<String>,
}

/// What is read of a definition.
#[derive(Deserialize)]
struct Definition {
    #[serde(default)]
    tasks: BTreeMap<String, Task>,
}

#[derive(Deserialize)]
struct Task {
    version: String,
}

/// Names of tasks, as documents may have them.
fn is_name(text: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=100).contains(&text.len()) && text.bytes().all(inside) && text.as_bytes()[0].is_ascii_alphanumeric()
}

impl Wanted {
    /// `NAME` or `NAME@VERSION`.
    pub(super) fn parse(tasks: &[String]) -> Result<Self, Error> {
        let (mut fixed, mut any) = (BTreeSet::new(), BTreeSet::new());
        for text in tasks {
            match text.split_once('@') {
                Some((name, version)) => {
                    if !is_name(name) || semver::Version::parse(version).is_err() {
                        return Err(Error::Task(text.clone()));
                    }
                    fixed.insert(Contract { task_name: name.to_owned(), contract_version: version.to_owned() });
                }
                None if !is_name(text) => return Err(Error::Task(text.clone())),
                None => _ = any.insert(text.clone()),
            }
        }
        Ok(Self { fixed, any, used: BTreeMap::new(), known: BTreeSet::new() })
    }

    /// Whether new workflows may change what is worked for.
    pub(super) fn may_grow(&self) -> bool {
        !self.any.is_empty()
    }

    /// Looks at workflows that are new.
    pub(super) async fn refresh(&mut self, client: &Client) -> Result<(), client::Error> {
        if !self.may_grow() {
            return Ok(());
        }
        let Workflows { workflows } = client.send(&Call::get(["v1", "workflows"])).await?.read()?;
        let hashes: BTreeSet<_> = workflows.iter().map(|workflow| &workflow.definition_hash).collect();
        self.known = workflows.iter().flat_map(|workflow| &workflow.tasks).cloned().collect();
        self.used.retain(|hash, _| hashes.contains(hash));
        for workflow in &workflows {
            let concerns = workflow.tasks.iter().any(|task| self.any.contains(task));
            if !concerns || self.used.contains_key(&workflow.definition_hash) {
                continue;
            }
            let call = Call::get(["v1", "workflows", &workflow.name, &workflow.version]);
            let Definition { tasks } = client.send(&call).await?.read()?;
            let wanted = tasks.into_iter().filter(|(name, _)| self.any.contains(name));
            let contracts = wanted.map(|(task_name, task)| Contract { task_name, contract_version: task.version });
            self.used.insert(workflow.definition_hash.clone(), contracts.collect());
        }
        Ok(())
    }

    /// What is said of tasks without a version that no workflow uses; none: all are used.
    pub(super) fn said_of_unused(&self) -> Option<String> {
        let known = || self.known.iter().map(String::as_str);
        let unused = self.any.iter().filter(|name| !self.known.contains(*name));
        let names: Vec<_> = unused.map(|name| format!("{name}{}", near::meant(name, known()))).collect();
        (!names.is_empty()).then(|| format!("no workflow uses {} yet", names.join(", ")))
    }

    /// All that is worked for.
    pub(super) fn contracts(&self) -> BTreeSet<Contract> {
        self.used.values().flatten().chain(&self.fixed).cloned().collect()
    }
}
