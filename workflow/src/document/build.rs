//! From a stored normal form to a [`Definition`].
//!
//! Nothing is judged again: what was once registered must always be readable, whatever later releases refuse. Only what
//! cannot be built at all is an error.

mod parts;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::{Map, Value as Json};

use super::hash::definition_hash;
use crate::contract::Contract;
use crate::definition::{Attribute, AttributeKind, Block, Definition, Handlers, Kind, Step, StepIndex, TaskContract};
use crate::expression::Expression;
use parts::{expression, failure_rules, for_each, repeat, retry, template, text, version};

/// A text is no normal form that this release can read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a normal form: {path}: {message}")]
pub struct NormalFormError {
    /// Where in the normal form, as a JSON pointer; as near as is known.
    pub path: String,
    /// What is wrong.
    pub message: String,
}

type Result<T> = std::result::Result<T, NormalFormError>;

/// An error about `what`; the path is put in front on the way out.
fn wrong<T>(message: impl Into<String>) -> Result<T> {
    Err(NormalFormError { path: String::new(), message: message.into() })
}

/// Says in which member an error lies.
fn within<T>(segment: &str, result: Result<T>) -> Result<T> {
    result.map_err(|error| NormalFormError { path: format!("/{segment}{}", error.path), message: error.message })
}

impl Definition {
    /// Builds a definition from its normal form, as [`super::Compiled::normal_form`] gives it.
    ///
    /// # Errors
    /// The text is no JSON or no normal form.
    pub fn from_normal_form(normal_form: &str) -> Result<Definition> {
        let json: Json = match serde_json::from_str(normal_form) {
            Ok(json) => json,
            Err(error) => return wrong(error.to_string()),
        };
        let Json::Object(document) = &json else { return wrong("an object expected") };
        let mut builder = Builder::default();
        let root = builder.block(document, None)?;
        let handlers = within("handlers", builder.handlers(document.get("handlers")))?;
        let steps: Option<Vec<Step>> = builder.steps.into_iter().collect();
        let Some(steps) = steps else { return wrong("a step is missing") };
        let mut definition = Definition {
            name: within("name", text(document, "name"))?,
            version: within("version", version(document, "version"))?,
            description: document.get("description").and_then(Json::as_str).map(str::to_owned),
            hash: definition_hash(&json),
            normal_form: Arc::from(normal_form),
            timeout_ms: document.get("timeout").and_then(Json::as_u64),
            retention_ms: document.get("retention").and_then(Json::as_u64),
            input: within("input", contract(document.get("input"), Contract::compile_closed))?,
            output: within("output", contract(document.get("output"), Contract::compile))?,
            attributes: within("attributes", named(document.get("attributes"), attribute))?,
            tasks: within("tasks", named(document.get("tasks"), task_contract))?,
            workflows: within("workflows", named(document.get("workflows"), |child| version(child, "version")))?,
            signals: within("signals", signals(document.get("signals")))?,
            queries: within("queries", queries(document.get("queries")))?,
            steps,
            root,
            handlers,
            by_id: builder.by_id,
            watches_elsewhere: false,
            waits_watch_elsewhere: false,
            watchers: Vec::new(),
        };
        super::watches::find(&mut definition);
        Ok(definition)
    }
}

/// Gathers steps; a block's own ones lie side by side, each inner block behind the block that holds it.
#[derive(Default)]
struct Builder {
    steps: Vec<Option<Step>>,
    by_id: HashMap<String, StepIndex>,
}

impl Builder {
    /// What stands in `node` beside `steps` is the block's too.
    fn block(&mut self, node: &Map<String, Json>, parent: Option<StepIndex>) -> Result<Block> {
        Ok(Block {
            steps: within("steps", self.list(node.get("steps"), parent))?,
            result: within("result", template(node, "result"))?,
            done_when: within("done_when", expression(node, "done_when"))?,
            cancel_grace_ms: node.get("cancel_grace").and_then(Json::as_u64),
        })
    }

    fn list(&mut self, steps: Option<&Json>, parent: Option<StepIndex>) -> Result<Vec<StepIndex>> {
        let Some(Json::Array(nodes)) = steps else { return wrong("a list of steps expected") };
        let mut indexes = Vec::with_capacity(nodes.len());
        for node in nodes {
            let Ok(index) = u32::try_from(self.steps.len()) else { return wrong("too many steps") };
            let Json::Object(node) = node else { return wrong("a step expected") };
            self.by_id.insert(text(node, "id")?, StepIndex(index));
            self.steps.push(None);
            indexes.push(StepIndex(index));
        }
        for (position, (node, &index)) in nodes.iter().zip(&indexes).enumerate() {
            let Json::Object(node) = node else { continue };
            let step = within(&position.to_string(), self.step(node, index, parent, position))?;
            self.steps[index.0 as usize] = Some(step);
        }
        self.link(&indexes);
        Ok(indexes)
    }

    /// Tells each step who waits for it.
    fn link(&mut self, indexes: &[StepIndex]) {
        let mut dependents: BTreeMap<StepIndex, Vec<StepIndex>> = BTreeMap::new();
        for &index in indexes {
            let step = self.steps[index.0 as usize].as_ref();
            for &target in step.map_or(&[][..], |step| &step.depends_on) {
                dependents.entry(target).or_default().push(index);
            }
        }
        for (target, waiting) in dependents {
            if let Some(step) = &mut self.steps[target.0 as usize] {
                step.dependents = waiting;
            }
        }
    }

    fn step(
        &mut self,
        node: &Map<String, Json>,
        index: StepIndex,
        parent: Option<StepIndex>,
        position: usize,
    ) -> Result<Step> {
        let kind = match node.get("steps") {
            Some(_) => Kind::Steps(self.block(node, Some(index))?),
            None => parts::kind(node)?,
        };
        let mut depends_on = Vec::new();
        for id in node.get("depends_on").and_then(Json::as_array).into_iter().flatten() {
            let target = id.as_str().and_then(|id| self.by_id.get(id));
            let Some(&target) = target else { return within("depends_on", wrong(format!("unknown step {id}"))) };
            depends_on.push(target);
        }
        // Indexes of one block ascend with the position.
        depends_on.sort_unstable();
        Ok(Step {
            id: text(node, "id")?,
            parent,
            // At most as many as there are indexes, which fit.
            position: u32::try_from(position).unwrap_or(u32::MAX),
            depends_on,
            dependents: Vec::new(),
            when: within("when", expression(node, "when"))?,
            kind,
            for_each: within("for", node.get("for").map(for_each).transpose())?,
            repeat: within("repeat", node.get("repeat").map(repeat).transpose())?,
            retry: within("retry", node.get("retry").map(retry).transpose())?,
            deadline: within("deadline", parts::deadline(node))?,
            on_failure: within("on_failure", failure_rules(node.get("on_failure")))?,
            compensate: within("compensate", node.get("compensate").map(parts::compensate).transpose())?,
        })
    }

    fn handlers(&mut self, node: Option<&Json>) -> Result<Handlers> {
        let mut handlers = Handlers::default();
        let Some(Json::Object(node)) = node else { return Ok(handlers) };
        handlers.failure = self.handler(node, "failure")?;
        handlers.cancel = self.handler(node, "cancel")?;
        handlers.timeout = self.handler(node, "timeout")?;
        handlers.exit = self.handler(node, "exit")?;
        if let Some(Json::Object(events)) = node.get("event") {
            for signal in events.keys() {
                if let Some(block) = self.handler(events, signal)? {
                    handlers.event.insert(signal.clone(), block);
                }
            }
        }
        Ok(handlers)
    }

    fn handler(&mut self, node: &Map<String, Json>, name: &str) -> Result<Option<Block>> {
        let Some(steps) = node.get(name) else { return Ok(None) };
        let steps = within(name, self.list(Some(steps), None))?;
        Ok(Some(Block { steps, ..Block::default() }))
    }
}

fn contract(
    schema: Option<&Json>,
    compile: impl Fn(&Json) -> std::result::Result<Contract, Vec<crate::contract::ContractFault>>,
) -> Result<Option<Contract>> {
    let Some(schema) = schema else { return Ok(None) };
    match compile(schema) {
        Ok(contract) => Ok(Some(contract)),
        Err(faults) => wrong(faults.first().map(ToString::to_string).unwrap_or_default()),
    }
}

/// An object of objects.
fn named<T>(node: Option<&Json>, read: impl Fn(&Map<String, Json>) -> Result<T>) -> Result<BTreeMap<String, T>> {
    let mut found = BTreeMap::new();
    for (name, node) in node.and_then(Json::as_object).into_iter().flatten() {
        let Json::Object(node) = node else { return within(name, wrong("an object expected")) };
        found.insert(name.clone(), within(name, read(node))?);
    }
    Ok(found)
}

fn attribute(node: &Map<String, Json>) -> Result<Attribute> {
    let kind = match node.get("type").and_then(Json::as_str) {
        Some("string") => AttributeKind::String,
        Some("integer") => AttributeKind::Integer,
        Some("number") => AttributeKind::Number,
        Some("boolean") => AttributeKind::Boolean,
        Some("time") => AttributeKind::Time,
        _ => return wrong("an unknown type"),
    };
    match expression(node, "value")? {
        Some(value) => Ok(Attribute { kind, value }),
        None => wrong("`value` is missing"),
    }
}

fn task_contract(node: &Map<String, Json>) -> Result<TaskContract> {
    Ok(TaskContract {
        version: version(node, "version")?,
        input: within("input", contract(node.get("input"), Contract::compile))?,
        output: within("output", contract(node.get("output"), Contract::compile))?,
    })
}

fn signals(node: Option<&Json>) -> Result<BTreeMap<String, Contract>> {
    let mut found = BTreeMap::new();
    for (name, schema) in node.and_then(Json::as_object).into_iter().flatten() {
        if let Some(contract) = within(name, contract(Some(schema), Contract::compile))? {
            found.insert(name.clone(), contract);
        }
    }
    Ok(found)
}

fn queries(node: Option<&Json>) -> Result<BTreeMap<String, Expression>> {
    let mut found = BTreeMap::new();
    let Some(Json::Object(queries)) = node else { return Ok(found) };
    for name in queries.keys() {
        if let Some(query) = within(name, expression(queries, name))? {
            found.insert(name.clone(), query);
        }
    }
    Ok(found)
}
