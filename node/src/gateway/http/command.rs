//! What is said to an execution that is there, and what it is asked.

use axum::http::StatusCode;
use axum::response::Response;
use orbit_actors::api::{Redrive, SendSignal, StartExecution};
use orbit_actors::error::Result;
use orbit_raft::Environment;
use serde::Deserialize;
use workflow::value::Payload;

use super::answer::{empty, json};
use super::call::Call;
use super::json::{Input, given};
use super::operation::CALLER;
use super::query::{Ask, Dedup, Nothing};
use super::route::Operation;
use crate::gateway::Service;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CancelBody {
    #[serde(default)]
    reason: String,
    #[serde(default)]
    force: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignalWithStartBody {
    workflow: String,
    version: Option<String>,
    #[serde(default)]
    input: Input,
    #[serde(default)]
    payload: Input,
    dedup_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RedriveBody {
    steps: Option<Vec<String>>,
    action: Option<String>,
    // A unit may be resolved with null.
    #[serde(default, deserialize_with = "given")]
    output: Option<Payload>,
}

pub(super) async fn run<E: Environment>(service: &Service<E>, operation: Operation, call: &Call) -> Result<Response> {
    match operation {
        Operation::Signal => return signal(service, call).await,
        Operation::Query => return query(service, call).await,
        _ => {
            let Nothing {} = call.query()?;
        }
    }
    let id = call.path("id");
    let state = match operation {
        Operation::SignalWithStart => return signal_with_start(service, call).await,
        Operation::Delete => {
            service.delete(CALLER, id).await?;
            return Ok(empty());
        }
        Operation::Redrive => {
            let RedriveBody { steps, action, output } = call.json()?;
            service.redrive(CALLER, Redrive { execution_id: id.to_owned(), steps, action, output }).await?
        }
        Operation::Pause => {
            let Nothing {} = call.json()?;
            service.pause(CALLER, id).await?
        }
        Operation::Resume => {
            let Nothing {} = call.json()?;
            service.resume(CALLER, id).await?
        }
        _ => {
            let CancelBody { reason, force } = call.json()?;
            service.cancel(CALLER, id, &reason, force).await?
        }
    };
    json(StatusCode::OK, &state)
}

async fn signal<E: Environment>(service: &Service<E>, call: &Call) -> Result<Response> {
    let Dedup { dedup_id } = call.query()?;
    let request = SendSignal {
        execution_id: call.path("id").to_owned(),
        signal: call.path("name").to_owned(),
        payload: call.payload()?,
        dedup_id,
        start: None,
    };
    json(StatusCode::OK, &service.signal(CALLER, request).await?)
}

async fn signal_with_start<E: Environment>(service: &Service<E>, call: &Call) -> Result<Response> {
    let body: SignalWithStartBody = call.json()?;
    let id = call.path("id").to_owned();
    let start = StartExecution {
        workflow: body.workflow,
        version: body.version,
        input: body.input.0,
        execution_id: Some(id.clone()),
        traceparent: call.traceparent(),
        ..StartExecution::default()
    };
    let request = SendSignal {
        execution_id: id,
        signal: call.path("name").to_owned(),
        payload: body.payload.0,
        dedup_id: body.dedup_id,
        start: Some(start),
    };
    let signalled = service.signal(CALLER, request).await?;
    let status = if signalled.created == Some(true) { StatusCode::CREATED } else { StatusCode::OK };
    json(status, &signalled)
}

async fn query<E: Environment>(service: &Service<E>, call: &Call) -> Result<Response> {
    let Ask { wait_ms } = call.query()?;
    let answer = service.query(CALLER, call.path("id"), call.path("name"), wait_ms.map(|time| time.0)).await?;
    json(StatusCode::OK, &answer)
}
