//! Registered definitions: kept by the group above the shards, compiled once and shared.
//!
//! A definition never changes, so one that is found in this node's own replica is good. What is not found there, and
//! which version is the latest, is asked with a read that misses nothing acknowledged.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use orbit_proto::engine::{DefinitionName, DefinitionRecord};
use orbit_proto::store::{self, Precondition, precondition::Check, write};
use orbit_raft::state_store::PartOutcome;
use orbit_raft::{Environment, Group, Part, Write};
use semver::Version;
use serde_json::json;
use workflow::definition::{Definition, Kind};
use workflow::document::{self, Compiled, Format};

use crate::api::{RegisteredWorkflow, StoredWorkflow, TaskVersion, WorkflowSummary};
use crate::error::{Code, Error, Result};
use crate::failure::{of_proposal, of_read, of_storage};
use crate::table;

/// Compiled definitions that are kept though nothing uses them.
const KEPT_MAX: usize = 1_000;
/// How often registering is tried when others register at the same time.
const TRIES: usize = 5;
/// What applying does not look at: it tells a reader of a log what a part is.
const PART_DEFINITIONS: u32 = 2;

/// The definitions of the cluster as this node sees them.
pub(crate) struct Definitions<E: Environment> {
    meta: Group<E>,
    compiled: Arc<Mutex<HashMap<String, Arc<Definition>>>>,
}

impl<E: Environment> Clone for Definitions<E> {
    fn clone(&self) -> Self {
        Self { meta: self.meta.clone(), compiled: Arc::clone(&self.compiled) }
    }
}

impl<E: Environment> fmt::Debug for Definitions<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Definitions")
    }
}

impl<E: Environment> Definitions<E> {
    pub(crate) fn new(meta: Group<E>) -> Self {
        Self { meta, compiled: Arc::default() }
    }

    /// The definition with a hash, if this node has it.
    pub(crate) fn by_hash(&self, hash: &str) -> Result<Option<Arc<Definition>>> {
        if let Some(known) = self.known(hash) {
            return Ok(Some(known));
        }
        let row = self.meta.read(|reader| reader.get(&table::by_hash(hash))).map_err(of_storage)?;
        let Some(row) = row else { return Ok(None) };
        let name: DefinitionName = table::decode("definitions by hash", &row).map_err(of_storage)?;
        match self.record(&name.name, &name.version)? {
            Some(record) => self.compile(&record).map(Some),
            None => Ok(None),
        }
    }

    /// A definition by name; without a version the latest one.
    pub(crate) async fn resolve(&self, name: &str, version: Option<&str>) -> Result<Arc<Definition>> {
        let record = self.find(name, version).await?.1;
        self.compile(&record)
    }

    /// A definition as it is stored.
    pub(crate) async fn stored(&self, name: &str, version: Option<&str>) -> Result<StoredWorkflow> {
        let (version, record) = self.find(name, version).await?;
        Ok(StoredWorkflow {
            name: name.to_owned(),
            version,
            definition_hash: record.hash,
            normal_form: record.normal_form,
            source: record.source,
        })
    }

    async fn find(&self, name: &str, version: Option<&str>) -> Result<(String, DefinitionRecord)> {
        if let Some(version) = version
            && let Some(record) = self.record(name, version)?
        {
            return Ok((version.to_owned(), record));
        }
        self.meta.read_index().await.map_err(|error| of_read(&error))?;
        let version = match version {
            Some(version) => Some(version.to_owned()),
            None => self.latest(name)?,
        };
        let found = version.map(|version| Ok((self.record(name, &version)?, version))).transpose()?;
        match found {
            Some((Some(record), version)) => Ok((version, record)),
            Some((None, version)) => Err(not_registered(&format!("{name} {version}"))),
            None => Err(not_registered(name)),
        }
    }

    fn latest(&self, name: &str) -> Result<Option<String>> {
        let range = table::definitions(Some(name));
        let rows = self.meta.read(|reader| reader.range(&range, usize::MAX)).map_err(of_storage)?;
        let versions = rows.iter().filter_map(|(key, _)| table::definition_parts(key)?.1.parse::<Version>().ok());
        Ok(versions.max().map(|version| version.to_string()))
    }

    fn record(&self, name: &str, version: &str) -> Result<Option<DefinitionRecord>> {
        // What no definition has cannot be a key of one.
        if name.contains('\0') || version.contains('\0') {
            return Ok(None);
        }
        let key = table::definition(name, version);
        let row = self.meta.read(|reader| reader.get(&key)).map_err(of_storage)?;
        row.map(|row| table::decode("definitions", &row).map_err(of_storage)).transpose()
    }

    fn known(&self, hash: &str) -> Option<Arc<Definition>> {
        self.compiled.lock().unwrap_or_else(PoisonError::into_inner).get(hash).cloned()
    }

    fn compile(&self, record: &DefinitionRecord) -> Result<Arc<Definition>> {
        if let Some(known) = self.known(&record.hash) {
            return Ok(known);
        }
        let definition = Definition::from_normal_form(&record.normal_form).map_err(of_storage)?;
        let definition = Arc::new(definition);
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if compiled.len() >= KEPT_MAX {
            compiled.retain(|_, definition| Arc::strong_count(definition) > 1);
        }
        Ok(Arc::clone(compiled.entry(record.hash.clone()).or_insert(definition)))
    }

    /// All definitions: by name, newest version first.
    pub(crate) async fn list(&self) -> Result<Vec<WorkflowSummary>> {
        self.meta.read_index().await.map_err(|error| of_read(&error))?;
        let rows = self.meta.read(|reader| reader.range(&table::definitions(None), usize::MAX)).map_err(of_storage)?;
        let mut all = Vec::with_capacity(rows.len());
        for (_, value) in rows {
            let record: DefinitionRecord = table::decode("definitions", &value).map_err(of_storage)?;
            let definition = self.compile(&record)?;
            all.push((definition.name.clone(), std::cmp::Reverse(definition.version.clone()), summary(&definition)));
        }
        all.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
        Ok(all.into_iter().map(|(_, _, summary)| summary).collect())
    }

    /// A definition that this node's replica has.
    pub(crate) fn local(&self, name: &str, version: &str) -> Option<Arc<Definition>> {
        self.record(name, version).ok().flatten().and_then(|record| self.compile(&record).ok())
    }

    /// Every task version that some registered definition uses, as far as this node's replica knows.
    pub(crate) fn task_versions(&self) -> BTreeSet<TaskVersion> {
        let rows = self.meta.read(|reader| reader.range(&table::definitions(None), usize::MAX)).unwrap_or_default();
        let records = rows.iter().filter_map(|(_, value)| table::decode("definitions", value).ok());
        let mut used = BTreeSet::new();
        for definition in records.filter_map(|record: DefinitionRecord| self.compile(&record).ok()) {
            used.extend(definition.tasks.iter().map(|(name, contract)| TaskVersion {
                task_name: name.clone(),
                contract_version: contract.version.to_string(),
            }));
        }
        used
    }

    // ---- registering

    /// Registers every document of a source, or none.
    pub(crate) async fn deploy(
        &self,
        source: String,
        format: Format,
        warnings: impl Fn(&Definition) -> Vec<String>,
    ) -> Result<Vec<RegisteredWorkflow>> {
        let compiled = tokio::task::spawn_blocking(move || document::compile(&source, format)).await;
        let compiled = compiled.map_err(|_| Error::new(Code::Internal, "the document could not be compiled"))?;
        let compiled = compiled.map_err(|faults| invalid(json!(faults.list()), &faults.to_string()))?;
        compiled.iter().try_for_each(|one| supported(&one.definition))?;
        for _ in 0..TRIES {
            if let Some(registered) = self.register(&compiled, &warnings).await? {
                return Ok(registered);
            }
        }
        Err(Error::new(Code::NoLeader, "others register at the same time; repeat the call"))
    }

    async fn register(
        &self,
        compiled: &[Compiled],
        warnings: &impl Fn(&Definition) -> Vec<String>,
    ) -> Result<Option<Vec<RegisteredWorkflow>>> {
        self.meta.read_index().await.map_err(|error| of_read(&error))?;
        let (mut part, mut registered) = (Part { kind: PART_DEFINITIONS, ..Part::default() }, Vec::new());
        for one in compiled {
            let (name, version) = (&one.definition.name, one.definition.version.to_string());
            let known = self.record(name, &version)?;
            if known.as_ref().is_some_and(|known| known.hash != one.hash) {
                let message = format!("{name} {version} is registered with other contents; give it a new version");
                return Err(Error::new(Code::DefinitionConflict, message));
            }
            if known.is_none() {
                self.add(&mut part, one, &version);
            }
            let own = one.warnings.iter().map(ToString::to_string);
            registered.push(RegisteredWorkflow {
                name: name.clone(),
                version,
                definition_hash: one.hash.clone(),
                created: known.is_none(),
                warnings: own.chain(warnings(&one.definition)).collect(),
            });
        }
        if part.writes.is_empty() {
            return Ok(Some(registered));
        }
        let applied = self.meta.propose(vec![part]).await.map_err(|error| of_proposal("", &error))?;
        let done = applied.outcomes.iter().all(|outcome| *outcome == PartOutcome::Applied);
        Ok(done.then_some(registered))
    }

    fn add(&self, part: &mut Part, one: &Compiled, version: &str) {
        let name = &one.definition.name;
        let record = DefinitionRecord {
            hash: one.hash.clone(),
            normal_form: one.normal_form.clone(),
            source: one.source.clone(),
            registered_at_ms: self.meta.now_ms(),
        };
        let key = table::definition(name, version);
        part.preconditions.push(Precondition { check: Some(Check::RowAbsent(key.clone().into())) });
        part.writes.push(put(key, table::encode(&record)));
        let named = DefinitionName { name: name.clone(), version: version.to_owned() };
        part.writes.push(put(table::by_hash(&one.hash), table::encode(&named)));
    }
}

fn put(key: Vec<u8>, value: bytes::Bytes) -> Write {
    Write { op: Some(write::Op::Put(store::Put { key: key.into(), value })) }
}

fn not_registered(what: &str) -> Error {
    Error::new(
        Code::WorkflowNotFound,
        format!("no workflow {what} is registered; deploy it, or check name and version"),
    )
}

fn invalid(faults: serde_json::Value, message: &str) -> Error {
    Error::new(Code::InvalidIr, message).with_details(json!({ "faults": faults }))
}

fn summary(definition: &Definition) -> WorkflowSummary {
    WorkflowSummary {
        name: definition.name.clone(),
        version: definition.version.to_string(),
        description: definition.description.clone(),
        definition_hash: definition.hash.clone(),
        steps: definition.steps.iter().map(|step| step.id.clone()).collect(),
        tasks: definition.tasks.keys().cloned().collect(),
    }
}

/// What this release cannot carry out yet is refused when it is registered, not when it is run.
fn supported(definition: &Definition) -> Result<()> {
    let built_in = |task: &workflow::definition::Task| {
        let name = task.name.constant();
        name.and_then(|name| name.as_str().map(str::to_owned)).filter(|name| name.starts_with("orbit."))
    };
    let mut faults = Vec::new();
    for step in &definition.steps {
        let what = match &step.kind {
            Kind::Workflow { .. } => Some("child workflows".to_owned()),
            Kind::Signal(_) => Some("signals to other executions".to_owned()),
            Kind::Task(task) => built_in(task).map(|name| format!("the task {name}")),
            _ => None,
        };
        if let Some(what) = what {
            let message = format!("this version of Orbit does not carry out {what} yet");
            faults.push(json!({ "message": message, "line": 0, "column": 0, "path": format!("/steps/{}", step.id) }));
        }
    }
    if faults.is_empty() {
        return Ok(());
    }
    let message =
        format!("{} {} needs what this version of Orbit does not do yet", definition.name, definition.version);
    Err(invalid(json!(faults), &message))
}
