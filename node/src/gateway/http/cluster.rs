//! The nodes of the cluster.

use axum::http::StatusCode;
use axum::response::Response;
use orbit_actors::engine::raise::Raised;
use orbit_actors::error::Result;
use orbit_raft::Environment;
use serde::Deserialize;

use super::answer::json;
use super::call::Call;
use super::number::Number;
use super::operation::CALLER;
use super::query::Nothing;
use super::route::Operation;
use crate::gateway::Service;
use crate::gateway::cluster::intent;
use crate::server::founded;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LeaveBody {
    node_id: Number,
    #[serde(default)]
    lost: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RaiseBody {
    #[serde(default)]
    dry_run: bool,
}

pub(super) async fn run<E: Environment>(service: &Service<E>, operation: Operation, call: &Call) -> Result<Response> {
    let Nothing {} = call.query()?;
    match operation {
        Operation::Init => {
            let Nothing {} = call.json()?;
            json(StatusCode::OK, &founded(&service.identity(CALLER)?))
        }
        Operation::Leave => {
            let body: LeaveBody = call.json()?;
            service.leave(CALLER, body.node_id.0, body.lost).await?;
            json(StatusCode::OK, &service.cluster(CALLER).await?)
        }
        Operation::Raise => {
            let body: RaiseBody = call.json()?;
            let Raised { from, to, raised } = service.raise(CALLER, intent(body.dry_run)).await?;
            json(StatusCode::OK, &serde_json::json!({ "from": from, "to": to, "raised": raised }))
        }
        Operation::Drain => {
            let Nothing {} = call.json()?;
            service.drain(CALLER)?;
            json(StatusCode::ACCEPTED, &serde_json::json!({}))
        }
        _ => json(StatusCode::OK, &service.cluster(CALLER).await?),
    }
}
