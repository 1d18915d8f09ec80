//! What the routes take and answer, as an OpenAPI document: made from the table of routes, with the shapes of bodies
//! and answers from `openapi.json`. A test holds both to what a node really answers.
//!
//! Answers may get further fields in later versions; so their shapes do not forbid them.

use serde_json::{Map, Value, json};

use super::route::{Operation, ROUTES, Route, Takes};
use crate::gateway::API_VERSION;

/// Parameters and shapes, by name.
const COMPONENTS: &str = include_str!("openapi.json");

/// The document.
///
/// # Errors
/// What is built in is no JSON.
pub(super) fn document() -> serde_json::Result<Value> {
    let components: Value = serde_json::from_str(COMPONENTS)?;
    let mut paths = Map::new();
    for route in ROUTES {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.to_ascii_lowercase()] = operation(route);
    }
    let info = json!({
        "title": "Orbit",
        "version": API_VERSION,
        "description": "Durable workflows. Errors, limits and who repeats what stand in docs/api.md.",
    });
    Ok(json!({"openapi": "3.1.0", "info": info, "paths": paths, "components": components}))
}

fn operation(route: &Route) -> Value {
    let name = format!("{:?}", route.operation);
    let mut operation = json!({
        "operationId": name[..1].to_ascii_lowercase() + &name[1..],
        "summary": summary(route.operation),
        "responses": responses(route.operation),
    });
    let in_path = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.split('}').next());
    let in_path = in_path.map(|name| match (name, route.operation) {
        ("id", Operation::Batch | Operation::StopBatch) => "batch_id",
        ("name", Operation::Signal | Operation::SignalWithStart) => "signal",
        ("name", Operation::Query) => "query",
        (name, _) => name,
    });
    let parameters: Vec<_> = in_path.chain(parameters(route.operation).iter().copied()).collect();
    if !parameters.is_empty() {
        let refer = |name| json!({"$ref": format!("#/components/parameters/{name}")});
        operation["parameters"] = parameters.into_iter().map(refer).collect();
    }
    if let Some(body) = body(route) {
        operation["requestBody"] = body;
    }
    operation
}

fn summary(operation: Operation) -> &'static str {
    match operation {
        Operation::Health => "How the node is",
        Operation::Metrics => "Counters for Prometheus",
        Operation::OpenApi => "This document",
        Operation::Deploy => "Register workflows: all documents or none",
        Operation::Workflows => "List workflows",
        Operation::LatestWorkflow => "The newest version of a workflow",
        Operation::Workflow => "A version of a workflow",
        Operation::Start => "Start an execution",
        Operation::List => "Find executions, newest first",
        Operation::Count => "Count executions",
        Operation::Show => "The state of an execution",
        Operation::Units => "Its units, page by page",
        Operation::Input => "Its input alone",
        Operation::Output => "Its output alone",
        Operation::History => "What happened in it",
        Operation::Runs => "Its runs",
        Operation::Wait => "Its state, as soon as it is over or at the time-out",
        Operation::Cancel => "Ask it to stop and to undo what it did",
        Operation::Signal => "Give it a signal; the body is the payload",
        Operation::SignalWithStart => "Give it a signal, and start it first if it is not there",
        Operation::Query => "What a query of its workflow gives now",
        Operation::Pause => "Halt it: nothing is decided or handed over",
        Operation::Resume => "Let it go on",
        Operation::Redrive => "Let it go on from what failed, or move suspended units",
        Operation::Delete => "Remove one that is over, with all its runs",
        Operation::StartBatch => "Begin one action on all executions that fit a filter",
        Operation::Batch => "How far a batch is",
        Operation::StopBatch => "Begin nothing more of a batch",
        Operation::Cluster => "The nodes of the cluster",
        Operation::Init => "Make a cluster of this node, unless it belongs to one",
        Operation::Leave => "Remove a node from the cluster for good",
        Operation::Raise => "Raise the format of the cluster to the newest that this node knows",
        Operation::Drain => "Let this node give its leaderships away, finish and end",
        Operation::Check => "Check what is stored, all shards or one; nothing is changed",
        Operation::Workers => "Workers that this node has seen lately",
        Operation::Register => "Make a worker known, or resume its session",
        Operation::Heartbeat => "Say that a worker lives, and what it holds",
        Operation::Poll => "Wait for tasks",
        Operation::Unregister => "End a session",
        Operation::Complete => "Report a success",
        Operation::Fail => "Report a failure",
        Operation::TaskHeartbeat => "Say that a worker is still at a task",
    }
}

/// What may stand behind the question mark or in a header, by the names of the components.
fn parameters(operation: Operation) -> &'static [&'static str] {
    match operation {
        Operation::LatestWorkflow | Operation::Workflow => &["form"],
        Operation::Start | Operation::SignalWithStart => &["traceparent"],
        Operation::Signal => &["dedup_id"],
        Operation::Query => &["wait_ms"],
        Operation::List => {
            &["status", "of_workflow", "of_version", "since", "until", "attention", "attributes", "limit", "cursor"]
        }
        Operation::Count => &["status", "of_workflow", "of_version", "since", "until", "attention", "attributes"],
        Operation::Show | Operation::Input | Operation::Output => &["run"],
        Operation::Units => &["run", "prefix", "cursor"],
        Operation::History => &["run", "from", "events"],
        Operation::Wait => &["timeout_ms"],
        _ => &[],
    }
}

fn body(route: &Route) -> Option<Value> {
    let shape = match route.operation {
        Operation::Start => "StartBody",
        Operation::Cancel => "CancelBody",
        Operation::Signal => "Json",
        Operation::SignalWithStart => "SignalWithStartBody",
        Operation::Pause | Operation::Resume => "NoBody",
        Operation::Redrive => "RedriveBody",
        Operation::StartBatch => "BatchBody",
        Operation::StopBatch | Operation::Init | Operation::Drain => "NoBody",
        Operation::Leave => "LeaveBody",
        Operation::Check => "CheckBody",
        Operation::Raise => "RaiseBody",
        Operation::Register => "RegisterRequest",
        Operation::Heartbeat => "HeartbeatRequest",
        Operation::Poll => "PollRequest",
        Operation::Unregister => "UnregisterRequest",
        Operation::Complete => "CompleteRequest",
        Operation::Fail => "FailRequest",
        Operation::TaskHeartbeat => "TaskHeartbeatRequest",
        _ => "Document",
    };
    let json = json!({"schema": shape_of(shape)});
    match route.takes {
        Takes::Nothing => None,
        Takes::Document => {
            let yaml = json!({"schema": {"type": "string"}});
            Some(json!({"required": true, "content": {"application/yaml": yaml, "application/json": json}}))
        }
        // An absent body is `{}`.
        Takes::Json | Takes::Payload | Takes::WorkerJson => {
            let optional = matches!(
                route.operation,
                Operation::Cancel
                    | Operation::Signal
                    | Operation::Pause
                    | Operation::Resume
                    | Operation::Redrive
                    | Operation::StopBatch
                    | Operation::Init
                    | Operation::Drain
                    | Operation::Check
            );
            let required = !optional;
            Some(json!({"required": required, "content": {"application/json": json}}))
        }
    }
}

fn shape_of(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// What a status comes with.
enum Answer {
    Json(&'static str),
    Text,
    JsonOrText(&'static str),
    Nothing,
}

fn responses(operation: Operation) -> Value {
    use Answer::{Json, JsonOrText, Nothing, Text};
    let answers = match operation {
        Operation::Health => vec![(200, Json("Health")), (503, Json("Health"))],
        Operation::Metrics => vec![(200, Text)],
        Operation::OpenApi => vec![(200, Json("Document"))],
        Operation::Deploy => vec![(200, Json("Registered")), (201, Json("Registered"))],
        Operation::Workflows => vec![(200, Json("Workflows"))],
        Operation::LatestWorkflow | Operation::Workflow => vec![(200, JsonOrText("Document"))],
        Operation::Start => vec![(200, Json("Started")), (201, Json("Started"))],
        Operation::List => vec![(200, Json("Executions"))],
        Operation::Count => vec![(200, Json("Counted"))],
        Operation::Show
        | Operation::Wait
        | Operation::Cancel
        | Operation::Pause
        | Operation::Resume
        | Operation::Redrive => vec![(200, Json("State"))],
        Operation::Delete => vec![(204, Nothing)],
        Operation::StartBatch => vec![(200, Json("BatchStarted")), (202, Json("BatchStarted"))],
        Operation::Batch | Operation::StopBatch => vec![(200, Json("Batch"))],
        Operation::Signal => vec![(200, Json("Signalled"))],
        Operation::SignalWithStart => vec![(200, Json("Signalled")), (201, Json("Signalled"))],
        Operation::Query => vec![(200, Json("QueryAnswer"))],
        Operation::Units => vec![(200, Json("Units"))],
        Operation::Input | Operation::Output => vec![(200, Json("Json"))],
        Operation::History => vec![(200, Json("History"))],
        Operation::Runs => vec![(200, Json("Runs"))],
        Operation::Cluster | Operation::Leave => vec![(200, Json("Cluster"))],
        Operation::Init => vec![(200, Json("Founded"))],
        Operation::Raise => vec![(200, Json("Raised"))],
        Operation::Drain => vec![(202, Json("NoBody"))],
        Operation::Check => vec![(200, Json("CheckReport"))],
        Operation::Workers => vec![(200, Json("Workers"))],
        Operation::Register => vec![(200, Json("RegisterResponse"))],
        Operation::Heartbeat => vec![(200, Json("HeartbeatResponse"))],
        Operation::Poll => vec![(200, Json("Polled")), (204, Nothing)],
        Operation::Unregister => vec![(200, Json("UnregisterResponse"))],
        Operation::Complete | Operation::Fail => vec![(200, Json("ResultResponse"))],
        Operation::TaskHeartbeat => vec![(200, Json("TaskHeartbeatResponse"))],
    };
    let mut responses = json!({"default": response("Refused", &Json("Error"))});
    for (status, answer) in answers {
        let description = match status {
            201 => "It is new",
            202 => "It has begun",
            204 if operation == Operation::Delete => "It is gone",
            204 => "There was none in this time",
            503 => "It takes no requests, or not yet",
            _ => "Done",
        };
        responses[status.to_string()] = response(description, &answer);
    }
    responses
}

fn response(description: &str, answer: &Answer) -> Value {
    let text = json!({"schema": {"type": "string"}});
    let content = match answer {
        Answer::Json(shape) => json!({"application/json": {"schema": shape_of(shape)}}),
        Answer::Text => json!({"text/plain": text}),
        Answer::JsonOrText(shape) => json!({"application/json": {"schema": shape_of(shape)}, "text/plain": text}),
        Answer::Nothing => return json!({"description": description}),
    };
    json!({"description": description, "content": content})
}
