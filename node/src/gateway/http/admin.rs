//! Looking after what is stored.

use axum::http::StatusCode;
use axum::response::Response;
use orbit_actors::error::Result;
use orbit_raft::Environment;
use serde::Deserialize;

use super::answer::json;
use super::call::Call;
use super::number::Number;
use super::operation::CALLER;
use super::query::Nothing;
use crate::gateway::Service;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckBody {
    #[serde(default)]
    shard: Option<Number>,
}

pub(super) async fn check<E: Environment>(service: &Service<E>, call: &Call) -> Result<Response> {
    let Nothing {} = call.query()?;
    let body: CheckBody = call.json()?;
    json(StatusCode::OK, &service.check(CALLER, body.shard.map(Number::small)).await?)
}
