//! The parts of a step.

use serde_json::{Map, Value as Json};

use super::{Result, within, wrong};
use crate::definition::{
    Await, Compensate, Deadline, DurationSpec, FailureRule, ForEach, Kind, OnExpiry, OnFailure, Repeat, Retry,
    SignalSpec, Task, UndoAction,
};
use crate::expression::{Expression, Template};

type Node = Map<String, Json>;

/// What a step of any kind but `steps` does.
pub(super) fn kind(node: &Node) -> Result<Kind> {
    if node.contains_key("task") {
        return Ok(Kind::Task(task(node)?));
    }
    if let Some(child) = node.get("workflow") {
        let (name, version) = within("workflow", child_name(child))?;
        return Ok(Kind::Workflow { name, version, input: input(node)? });
    }
    if let Some(wait) = node.get("await") {
        return Ok(Kind::Await(within("await", wait_for(wait))?));
    }
    if let Some(wait) = duration(node, "sleep")? {
        return Ok(Kind::Sleep(wait));
    }
    if let Some(moment) = template(node, "sleep_until")? {
        return Ok(Kind::SleepUntil(moment));
    }
    if let Some(value) = expression(node, "compute")? {
        return Ok(Kind::Compute(value));
    }
    if let Some(spec) = node.get("signal") {
        return Ok(Kind::Signal(within("signal", signal(spec))?));
    }
    if let Some(fail) = node.get("fail") {
        let fail = object(fail)?;
        let (message, details) = (template(fail, "message")?, template(fail, "details")?);
        return Ok(Kind::Fail { code: text(fail, "code")?, message, details });
    }
    match node.get("continue_as_new") {
        Some(next) => Ok(Kind::ContinueAsNew { input: input(object(next)?)? }),
        None => wrong("a step without a kind"),
    }
}

fn task(node: &Node) -> Result<Task> {
    Ok(Task {
        name: needed(node, "task")?,
        input: input(node)?,
        language: node.get("language").and_then(Json::as_str).map(str::to_owned),
        timeout: duration(node, "timeout")?,
        queue_timeout: duration(node, "queue_timeout")?,
        heartbeat_timeout: duration(node, "heartbeat_timeout")?,
    })
}

fn child_name(child: &Json) -> Result<(Template, Option<semver::Version>)> {
    let child = object(child)?;
    let pinned = child.contains_key("version").then(|| version(child, "version")).transpose()?;
    Ok((needed(child, "name")?, pinned))
}

fn signal(node: &Json) -> Result<SignalSpec> {
    let node = object(node)?;
    let payload = match template(node, "payload")? {
        Some(payload) => payload,
        None => empty()?,
    };
    Ok(SignalSpec { execution: needed(node, "execution")?, name: needed(node, "name")?, payload })
}

fn wait_for(node: &Json) -> Result<Await> {
    let node = object(node)?;
    let (signals, several) = match node.get("signal") {
        Some(Json::String(name)) => (vec![name.clone()], false),
        Some(Json::Array(names)) => (names.iter().filter_map(Json::as_str).map(str::to_owned).collect(), true),
        _ => return wrong("`signal` is missing"),
    };
    Ok(Await {
        signals,
        several,
        accept: expression(node, "where")?,
        until: expression(node, "until")?,
        timeout: duration(node, "timeout")?,
        on_timeout: on_expiry(node, "on_timeout"),
    })
}

pub(super) fn for_each(node: &Json) -> Result<ForEach> {
    let node = object(node)?;
    let Some(each) = expression(node, "each")? else { return wrong("`each` is missing") };
    Ok(ForEach {
        each,
        variable: node.get("as").and_then(Json::as_str).unwrap_or("item").to_owned(),
        concurrency: template(node, "concurrency")?,
        max_failures: template(node, "max_failures")?,
        done_when: expression(node, "done_when")?,
    })
}

pub(super) fn repeat(node: &Json) -> Result<Repeat> {
    let node = object(node)?;
    let Some(until) = expression(node, "until")? else { return wrong("`until` is missing") };
    Ok(Repeat {
        until,
        delay: duration(node, "delay")?,
        multiplier: node.get("multiplier").and_then(Json::as_f64),
        max_delay: duration(node, "max_delay")?,
        max: small(node, "max"),
    })
}

pub(super) fn retry(node: &Json) -> Result<Retry> {
    let node = object(node)?;
    let codes = node.get("non_retryable").and_then(Json::as_array).into_iter().flatten();
    Ok(Retry {
        max_attempts: small(node, "max_attempts"),
        initial_delay: duration(node, "initial_delay")?,
        multiplier: node.get("multiplier").and_then(Json::as_f64),
        max_delay: duration(node, "max_delay")?,
        jitter: node.get("jitter").and_then(Json::as_f64),
        non_retryable: codes.filter_map(Json::as_str).map(str::to_owned).collect(),
    })
}

pub(super) fn deadline(node: &Node) -> Result<Option<Deadline>> {
    let Some(after) = duration(node, "deadline")? else { return Ok(None) };
    Ok(Some(Deadline { after, on_deadline: on_expiry(node, "on_deadline") }))
}

pub(super) fn failure_rules(rules: Option<&Json>) -> Result<Vec<FailureRule>> {
    let mut found = Vec::new();
    for rule in rules.and_then(Json::as_array).into_iter().flatten() {
        let rule = object(rule)?;
        let then = match rule.get("then").and_then(Json::as_str) {
            Some("fail") => OnFailure::Fail,
            Some("continue") => OnFailure::Continue,
            Some("suspend") => OnFailure::Suspend,
            _ => return wrong("`then` is missing"),
        };
        found.push(FailureRule { when: expression(rule, "when")?, then });
    }
    Ok(found)
}

pub(super) fn compensate(node: &Json) -> Result<Compensate> {
    let node = object(node)?;
    let action = if node.contains_key("task") {
        UndoAction::Task(task(node)?)
    } else if let Some(child) = node.get("workflow") {
        let (name, version) = child_name(child)?;
        UndoAction::Workflow { name, version, input: input(node)? }
    } else {
        match node.get("signal") {
            Some(spec) => UndoAction::Signal(signal(spec)?),
            None => return wrong("an undo without an action"),
        }
    };
    Ok(Compensate {
        action,
        retry: node.get("retry").map(retry).transpose()?,
        always: node.get("always").and_then(Json::as_bool).unwrap_or(false),
        suspend_on_failure: node.get("on_failure").and_then(Json::as_str) == Some("suspend"),
    })
}

fn on_expiry(node: &Node, field: &str) -> OnExpiry {
    match node.get(field).and_then(Json::as_str) {
        Some("continue") => OnExpiry::Continue,
        _ => OnExpiry::Fail,
    }
}

/// `input`; `{}` when it is not written.
fn input(node: &Node) -> Result<Template> {
    match template(node, "input")? {
        Some(input) => Ok(input),
        None => empty(),
    }
}

fn empty() -> Result<Template> {
    compiled(&Json::Object(Node::new()))
}

fn needed(node: &Node, field: &str) -> Result<Template> {
    match template(node, field)? {
        Some(template) => Ok(template),
        None => wrong(format!("`{field}` is missing")),
    }
}

pub(super) fn template(node: &Node, field: &str) -> Result<Option<Template>> {
    within(field, node.get(field).map(compiled).transpose())
}

fn compiled(json: &Json) -> Result<Template> {
    match Template::compile(json) {
        Ok(template) => Ok(template),
        Err(faults) => wrong(faults.first().map(|fault| fault.message.clone()).unwrap_or_default()),
    }
}

pub(super) fn expression(node: &Node, field: &str) -> Result<Option<Expression>> {
    match node.get(field) {
        None => Ok(None),
        Some(Json::String(text)) => match Expression::compile(text) {
            Ok(expression) => Ok(Some(expression)),
            Err(error) => within(field, wrong(error.message)),
        },
        Some(_) => within(field, wrong("an expression expected")),
    }
}

fn duration(node: &Node, field: &str) -> Result<Option<DurationSpec>> {
    match node.get(field) {
        None => Ok(None),
        Some(json) => match json.as_u64() {
            Some(ms) => Ok(Some(DurationSpec::Fixed(ms))),
            None => Ok(Some(DurationSpec::Evaluated(within(field, compiled(json))?))),
        },
    }
}

fn small(node: &Node, field: &str) -> Option<u32> {
    node.get(field).and_then(Json::as_u64).and_then(|number| u32::try_from(number).ok())
}

pub(super) fn text(node: &Node, field: &str) -> Result<String> {
    match node.get(field).and_then(Json::as_str) {
        Some(text) => Ok(text.to_owned()),
        None => wrong(format!("`{field}` is missing")),
    }
}

pub(super) fn version(node: &Node, field: &str) -> Result<semver::Version> {
    match semver::Version::parse(&text(node, field)?) {
        Ok(version) => Ok(version),
        Err(error) => wrong(error.to_string()),
    }
}

fn object(node: &Json) -> Result<&Node> {
    match node.as_object() {
        Some(node) => Ok(node),
        None => wrong("an object expected"),
    }
}
