//! From a call to the service and back.

use axum::http::StatusCode;
use axum::response::Response;
use orbit_actors::api::{Complete, Fail, Register, StartExecution, StoredWorkflow, TaskVersion};
use orbit_actors::error::{Code, Error, Result};
use orbit_raft::Environment;
use serde::Deserialize;
use serde_json::json;
use workflow::value::Payload;

use super::answer::{empty, json, raw};
use super::call::Call;
use super::filter::Filter;
use super::json::Input;
use super::number::Number;
use super::query::{Form, History, Nothing, Run, Units, Wait};
use super::route::Operation;
use super::{admin, batch, cluster, command, openapi};
use crate::gateway::Service;
use crate::gateway::caller::{Action, Caller, authorize};

/// Whoever calls: there is no credential yet.
pub(super) const CALLER: Caller = Caller::Open;

/// Does what a call asks for.
pub(super) async fn run<E: Environment>(service: &Service<E>, operation: Operation, call: &Call) -> Result<Response> {
    match operation {
        Operation::Health | Operation::Metrics | Operation::OpenApi => node(service, operation, call),
        Operation::Deploy | Operation::Workflows | Operation::LatestWorkflow | Operation::Workflow => {
            workflows(service, operation, call).await
        }
        Operation::Start => start(service, call).await,
        Operation::List | Operation::Count => find(service, operation, call).await,
        Operation::Show | Operation::Units | Operation::Input | Operation::Output => {
            look(service, operation, call).await
        }
        Operation::History | Operation::Runs | Operation::Wait => follow(service, operation, call).await,
        Operation::Cancel
        | Operation::Signal
        | Operation::SignalWithStart
        | Operation::Query
        | Operation::Pause
        | Operation::Resume
        | Operation::Redrive
        | Operation::Delete => command::run(service, operation, call).await,
        Operation::StartBatch | Operation::Batch | Operation::StopBatch => batch::run(service, operation, call).await,
        Operation::Cluster | Operation::Init | Operation::Leave | Operation::Raise | Operation::Drain => {
            cluster::run(service, operation, call).await
        }
        Operation::Check => admin::check(service, call).await,
        Operation::Workers | Operation::Register | Operation::Heartbeat | Operation::Poll | Operation::Unregister => {
            worker(service, operation, call).await
        }
        Operation::Complete | Operation::Fail | Operation::TaskHeartbeat => task(service, operation, call).await,
    }
}

fn node<E: Environment>(service: &Service<E>, operation: Operation, call: &Call) -> Result<Response> {
    let Nothing {} = call.query()?;
    match operation {
        Operation::Metrics => {
            Ok(raw(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", service.metrics(CALLER)?))
        }
        Operation::OpenApi => {
            authorize(CALLER, Action::Inspect)?;
            let document = openapi::document();
            let document = document.map_err(|error| Error::new(Code::Internal, format!("the document: {error}")))?;
            json(StatusCode::OK, &document)
        }
        _ => {
            let health = service.health();
            json(if health.is_ok() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, &health)
        }
    }
}

async fn workflows<E: Environment>(service: &Service<E>, operation: Operation, call: &Call) -> Result<Response> {
    let name = call.path("name");
    let one = |stored: StoredWorkflow, form: &Form| {
        Ok(if form.is_source()? {
            raw(StatusCode::OK, "text/plain; charset=utf-8", stored.source)
        } else {
            raw(StatusCode::OK, "application/json", stored.normal_form)
        })
    };
    match operation {
        Operation::Deploy => {
            let Nothing {} = call.query()?;
            let (source, format) = call.source()?;
            let registered = service.deploy(CALLER, source, format).await?;
            let new = registered.iter().any(|workflow| workflow.created);
            let status = if new { StatusCode::CREATED } else { StatusCode::OK };
            match registered.as_slice() {
                [one] => json(status, one),
                several => json(status, &json!({"workflows": several})),
            }
        }
        Operation::Workflow => {
            let form: Form = call.query()?;
            form.is_source()?;
            one(service.workflow(CALLER, name, Some(call.path("version"))).await?, &form)
        }
        Operation::LatestWorkflow => {
            let form: Form = call.query()?;
            form.is_source()?;
            one(service.workflow(CALLER, name, None).await?, &form)
        }
        _ => {
            let Nothing {} = call.query()?;
            json(StatusCode::OK, &json!({"workflows": service.workflows(CALLER).await?}))
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StartBody {
    workflow: String,
    version: Option<String>,
    #[serde(default)]
    input: Input,
    execution_id: Option<String>,
    fairness_key: Option<String>,
    priority: Option<Number>,
}

async fn start<E: Environment>(service: &Service<E>, call: &Call) -> Result<Response> {
    let Nothing {} = call.query()?;
    let body: StartBody = call.json()?;
    let request = StartExecution {
        workflow: body.workflow,
        version: body.version,
        input: body.input.0,
        execution_id: body.execution_id,
        fairness_key: body.fairness_key,
        priority: body.priority.map(|priority| priority.0.min(5) as u8),
        traceparent: call.traceparent(),
    };
    let started = service.start(CALLER, request).await?;
    json(if started.created { StatusCode::CREATED } else { StatusCode::OK }, &started)
}

async fn find<E: Environment>(service: &Service<E>, operation: Operation, call: &Call) -> Result<Response> {
    let filter: Filter = call.query()?;
    let limit = filter.limit.map(|limit| limit.0);
    if operation == Operation::List {
        return json(StatusCode::OK, &service.list(CALLER, filter.request()?, limit).await?);
    }
    if limit.is_some() || filter.cursor.is_some() {
        return Err(Error::new(Code::InvalidRequest, "a count has no pages; leave out `limit` and `cursor`"));
    }
    let (count, at_least) = service.count(CALLER, filter.request()?).await?;
    json(StatusCode::OK, &if at_least { json!({"count": count, "at_least": true}) } else { json!({"count": count}) })
}

async fn look<E: Environment>(service: &Service<E>, operation: Operation, call: &Call) -> Result<Response> {
    let id = call.path("id");
    if operation == Operation::Units {
        let Units { run, prefix, cursor } = call.query()?;
        let page = service.units(CALLER, id, run.map(Number::small), &prefix, cursor.as_deref()).await?;
        return json(StatusCode::OK, &page);
    }
    let run = call.query::<Run>()?.number();
    match operation {
        Operation::Input => Ok(payload(&service.input(CALLER, id, run).await?)),
        Operation::Output => Ok(payload(&service.output(CALLER, id, run).await?)),
        _ => json(StatusCode::OK, &service.show(CALLER, id, run).await?),
    }
}

fn payload(payload: &Payload) -> Response {
    raw(StatusCode::OK, "application/json", payload.as_str().to_owned())
}

async fn follow<E: Environment>(service: &Service<E>, operation: Operation, call: &Call) -> Result<Response> {
    let id = call.path("id");
    match operation {
        Operation::History => {
            let History { run, from, limit } = call.query()?;
            let (run, from, limit) = (run.map(Number::small), from.map(|n| n.0), limit.map(|n| n.0));
            json(StatusCode::OK, &service.history(CALLER, id, run, from, limit).await?)
        }
        Operation::Wait => {
            let Wait { timeout_ms } = call.query()?;
            json(StatusCode::OK, &service.wait(CALLER, id, timeout_ms.map(|time| time.0)).await?)
        }
        _ => {
            let Nothing {} = call.query()?;
            json(StatusCode::OK, &json!({"runs": service.runs(CALLER, id).await?}))
        }
    }
}

#[derive(Deserialize)]
struct Contract {
    task_name: String,
    contract_version: String,
}

#[derive(Deserialize)]
struct RegisterBody {
    worker_id: String,
    runtime: String,
    sdk: Option<String>,
    #[serde(default)]
    contracts: Vec<Contract>,
    slots: Option<Number>,
    tokens: Option<Vec<String>>,
    worker_session_id: Option<String>,
}

impl From<RegisterBody> for Register {
    fn from(body: RegisterBody) -> Self {
        let contract = |Contract { task_name, contract_version }| TaskVersion { task_name, contract_version };
        Self {
            worker_id: body.worker_id,
            runtime: body.runtime,
            sdk: body.sdk,
            contracts: body.contracts.into_iter().map(contract).collect(),
            slots: body.slots.map(Number::small),
            tokens: body.tokens.unwrap_or_default(),
            worker_session_id: body.worker_session_id,
        }
    }
}

#[derive(Deserialize)]
struct HeartbeatBody {
    worker_session_id: String,
    tokens: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct PollBody {
    worker_session_id: String,
    wait_ms: Option<Number>,
    max_tasks: Option<Number>,
}

#[derive(Deserialize)]
struct UnregisterBody {
    worker_session_id: String,
}

async fn worker<E: Environment>(service: &Service<E>, operation: Operation, call: &Call) -> Result<Response> {
    let Nothing {} = call.query()?;
    match operation {
        Operation::Register => {
            let body: RegisterBody = call.json()?;
            json(StatusCode::OK, &service.register(CALLER, body.into()).await?)
        }
        Operation::Heartbeat => {
            let HeartbeatBody { worker_session_id, tokens } = call.json()?;
            json(StatusCode::OK, &service.heartbeat(CALLER, &worker_session_id, tokens.as_deref()).await?)
        }
        Operation::Poll => {
            let PollBody { worker_session_id, wait_ms, max_tasks } = call.json()?;
            let (max, wait_ms) = (max_tasks.map(|count| count.0), wait_ms.map(|time| time.0));
            let tasks = service.poll(CALLER, &worker_session_id, max, wait_ms).await?;
            match tasks.as_slice() {
                [] => Ok(empty()),
                [task] if max_tasks.is_none() => json(StatusCode::OK, task),
                tasks => json(StatusCode::OK, &Tasks { tasks }),
            }
        }
        Operation::Unregister => {
            let UnregisterBody { worker_session_id } = call.json()?;
            service.unregister(CALLER, &worker_session_id).await?;
            json(StatusCode::OK, &json!({"accepted": true}))
        }
        _ => json(StatusCode::OK, &json!({"workers": service.workers(CALLER).await?})),
    }
}

/// Tasks of a poll. Not `json!`, which would read their payloads and write them anew.
#[derive(serde::Serialize)]
struct Tasks<'a> {
    tasks: &'a [orbit_actors::api::Task],
}

#[derive(Deserialize)]
struct CompleteBody {
    token: String,
    #[serde(default)]
    output: Payload,
    worker_session_id: Option<String>,
    free_slots: Option<Number>,
}

#[derive(Deserialize)]
struct FailBody {
    token: String,
    error_code: String,
    #[serde(default)]
    error_message: String,
    retryable: Option<bool>,
    unknown: Option<bool>,
    details: Option<Payload>,
    worker_session_id: Option<String>,
    free_slots: Option<Number>,
}

#[derive(Deserialize)]
struct TaskHeartbeatBody {
    token: String,
    details: Option<Payload>,
}

async fn task<E: Environment>(service: &Service<E>, operation: Operation, call: &Call) -> Result<Response> {
    let Nothing {} = call.query()?;
    match operation {
        Operation::Complete => {
            let CompleteBody { token, output, worker_session_id, free_slots } = call.json()?;
            let free_slots = free_slots.map_or(0, Number::small);
            let request = Complete { token, output, worker_session_id, free_slots };
            json(StatusCode::OK, &service.complete(CALLER, request).await?)
        }
        Operation::Fail => {
            let body: FailBody = call.json()?;
            let request = Fail {
                token: body.token,
                error_code: body.error_code,
                error_message: body.error_message,
                retryable: body.retryable.unwrap_or(true),
                unknown: body.unknown.unwrap_or(false),
                details: body.details,
                worker_session_id: body.worker_session_id,
                free_slots: body.free_slots.map_or(0, Number::small),
            };
            json(StatusCode::OK, &service.fail(CALLER, request).await?)
        }
        _ => {
            let TaskHeartbeatBody { token, details } = call.json()?;
            json(StatusCode::OK, &service.task_heartbeat(CALLER, &token, details).await?)
        }
    }
}
