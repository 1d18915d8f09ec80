//! Registered definitions: kept by the group above the shards, compiled once and shared.
//!
//! A definition never changes, so one that is found in this node's own replica is good. What is not found there, and
//! which version is the latest, is asked with a read that misses nothing acknowledged.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use orbit_proto::engine::{DefinitionName, DefinitionRecord};
use orbit_proto::store::{Precondition, precondition::Check};
use orbit_raft::{Environment, Group, Part};
use semver::Version;
use serde_json::json;
use workflow::definition::{Definition, Kind, UndoAction};
use workflow::document::{self, Compiled, Format};
use workflow::expression::Template;

use crate::api::{RegisteredWorkflow, StoredWorkflow, TaskVersion, WorkflowSummary};
use crate::error::{Code, Error, Result};
use crate::failure::of_storage;
use crate::remote::Cluster;
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
    cluster: Cluster<E>,
    compiled: Arc<Mutex<Compilations>>,
}

/// Definitions that were compiled already. They never change, so no start reads a document that is here.
#[derive(Debug, Default)]
struct Compilations {
    by_hash: HashMap<String, Arc<Definition>>,
    by_name: HashMap<(String, String), Arc<Definition>>,
}

impl Compilations {
    fn keep(&mut self, definition: Arc<Definition>) -> Arc<Definition> {
        if self.by_hash.len() >= KEPT_MAX {
            self.by_name.clear();
            self.by_hash.retain(|_, definition| Arc::strong_count(definition) > 1);
        }
        let kept = Arc::clone(self.by_hash.entry(definition.hash.clone()).or_insert(definition));
        self.by_name.insert((kept.name.clone(), kept.version.to_string()), Arc::clone(&kept));
        kept
    }
}

impl<E: Environment> Clone for Definitions<E> {
    fn clone(&self) -> Self {
        Self { meta: self.meta.clone(), cluster: self.cluster.clone(), compiled: Arc::clone(&self.compiled) }
    }
}

impl<E: Environment> fmt::Debug for Definitions<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Definitions")
    }
}

impl<E: Environment> Definitions<E> {
    pub(crate) fn new(meta: Group<E>, cluster: Cluster<E>) -> Self {
        Self { meta, cluster, compiled: Arc::default() }
    }

    /// The group they are in.
    pub(crate) fn meta(&self) -> &Group<E> {
        &self.meta
    }

    /// Waits until this node's replica has every definition that was registered before.
    pub(crate) async fn be_current(&self) -> Result<()> {
        self.cluster.read_index(&self.meta, None).await.map(drop)
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
        if let Some(version) = version
            && let Some(known) = self.local(name, version)?
        {
            return Ok(known);
        }
        self.be_current().await?;
        let latest = if version.is_none() { self.latest(name)? } else { None };
        let found = version.or(latest.as_deref()).map(|version| self.local(name, version)).transpose()?;
        found.flatten().ok_or_else(|| not_registered(name, version))
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
        self.be_current().await?;
        let version = match version {
            Some(version) => Some(version.to_owned()),
            None => self.latest(name)?,
        };
        let found = version.map(|version| Ok((self.record(name, &version)?, version))).transpose()?;
        match found {
            Some((Some(record), version)) => Ok((version, record)),
            Some((None, version)) => Err(not_registered(name, Some(&version))),
            None => Err(not_registered(name, None)),
        }
    }

    fn latest(&self, name: &str) -> Result<Option<String>> {
        let versions =
            self.registered(Some(name))?.into_iter().filter_map(|(_, version)| version.parse::<Version>().ok());
        // A pre-release only where there is no release (L1).
        Ok(versions.max_by_key(|version| (version.pre.is_empty(), version.clone())).map(|version| version.to_string()))
    }

    /// Names and versions of all definitions, or of one name. Documents are not read.
    fn registered(&self, name: Option<&str>) -> Result<Vec<(String, String)>> {
        let mut all = Vec::new();
        let scanned = self.meta.read(|reader| {
            reader.scan(&table::definitions(name), |key, _| {
                let parts = table::definition_parts(key);
                all.extend(parts.map(|(name, version)| (name.to_owned(), version.to_owned())));
                ControlFlow::Continue(())
            })
        });
        scanned.map_err(of_storage)?;
        Ok(all)
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
        self.compilations().by_hash.get(hash).cloned()
    }

    fn compile(&self, record: &DefinitionRecord) -> Result<Arc<Definition>> {
        if let Some(known) = self.known(&record.hash) {
            return Ok(known);
        }
        let definition = Definition::from_normal_form(&record.normal_form).map_err(of_storage)?;
        Ok(self.compilations().keep(Arc::new(definition)))
    }

    fn compilations(&self) -> MutexGuard<'_, Compilations> {
        self.compiled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All definitions: by name, newest version first.
    pub(crate) async fn list(&self) -> Result<Vec<WorkflowSummary>> {
        self.be_current().await?;
        let mut all = Vec::new();
        for definition in self.all()? {
            all.push((definition.name.clone(), Reverse(definition.version.clone()), summary(&definition)));
        }
        all.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
        Ok(all.into_iter().map(|(_, _, summary)| summary).collect())
    }

    /// All definitions that this node's replica has.
    fn all(&self) -> Result<Vec<Arc<Definition>>> {
        let names = self.registered(None)?;
        let found = names.iter().map(|(name, version)| self.local(name, version));
        Ok(found.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    /// A definition that this node's replica has.
    pub(crate) fn local(&self, name: &str, version: &str) -> Result<Option<Arc<Definition>>> {
        let key = (name.to_owned(), version.to_owned());
        let known = self.compilations().by_name.get(&key).cloned();
        match known {
            Some(known) => Ok(Some(known)),
            None => self.record(name, version)?.map(|record| self.compile(&record)).transpose(),
        }
    }

    /// Every task version that some registered definition uses, as far as this node's replica knows.
    pub(crate) fn task_versions(&self) -> Result<BTreeSet<TaskVersion>> {
        let mut used = BTreeSet::new();
        for definition in self.all()? {
            used.extend(definition.tasks.iter().map(|(name, contract)| TaskVersion {
                task_name: name.clone(),
                contract_version: contract.version.to_string(),
            }));
        }
        Ok(used)
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
        self.be_current().await?;
        let (mut part, mut registered) = (Part { kind: PART_DEFINITIONS, ..Part::default() }, Vec::new());
        for one in compiled {
            self.children_are_there(&one.definition, compiled)?;
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
        let applied = self.cluster.propose(&self.meta, "", vec![part]).await?;
        if applied.iter().all(|applied| *applied) {
            // Whoever asks this node next finds it.
            self.be_current().await?;
            return Ok(Some(registered));
        }
        Ok(None)
    }

    /// Every child is registered, or comes along.
    fn children_are_there(&self, definition: &Definition, together: &[Compiled]) -> Result<()> {
        let mut missing = Vec::new();
        for (name, version) in children(definition) {
            let same =
                |other: &Compiled| other.definition.name == name && other.definition.version.to_string() == version;
            if !together.iter().any(same) && self.record(&name, &version)?.is_none() {
                missing.push((name, version));
            }
        }
        if missing.is_empty() { Ok(()) } else { Err(children_missing(definition, &missing)) }
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
        part.writes.push(table::put(key, table::encode(&record)));
        let named = DefinitionName { name: name.clone(), version: version.to_owned() };
        part.writes.push(table::put(table::by_hash(&one.hash), table::encode(&named)));
    }
}

fn not_registered(name: &str, version: Option<&str>) -> Error {
    let what = version.map_or_else(|| name.to_owned(), |version| format!("{name} {version}"));
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

/// Every workflow that a definition may start, with the version that it pins.
fn children(definition: &Definition) -> BTreeSet<(String, String)> {
    let mut children: BTreeSet<_> =
        definition.workflows.iter().map(|(name, version)| (name.clone(), version.to_string())).collect();
    let mut pinned = |name: &Template, version: &Option<Version>| {
        let name = name.constant().and_then(|name| name.as_str().map(str::to_owned));
        children.extend(name.zip(version.as_ref().map(Version::to_string)));
    };
    for step in &definition.steps {
        if let Kind::Workflow { name, version, .. } = &step.kind {
            pinned(name, version);
        }
        if let Some(UndoAction::Workflow { name, version, .. }) = step.compensate.as_ref().map(|undo| &undo.action) {
            pinned(name, version);
        }
    }
    children
}

fn children_missing(definition: &Definition, missing: &[(String, String)]) -> Error {
    let listed: Vec<_> = missing.iter().map(|(name, version)| format!("{name} {version}")).collect();
    let message = format!(
        "{} {} starts workflows that are not registered: {}; deploy them first, or all together",
        definition.name,
        definition.version,
        listed.join(", ")
    );
    let children = missing.iter().map(|(name, version)| json!({ "name": name, "version": version }));
    Error::new(Code::ChildNotRegistered, message).with_details(json!({ "children": children.collect::<Vec<_>>() }))
}
