//! One action on many executions.

use axum::http::StatusCode;
use axum::response::Response;
use orbit_actors::api::StartBatch;
use orbit_actors::error::{Code, Error, Result};
use orbit_raft::Environment;
use serde::Deserialize;
use workflow::value::Payload;

use super::answer::json;
use super::call::Call;
use super::filter::Filter;
use super::json::given;
use super::operation::CALLER;
use super::query::Nothing;
use super::route::Operation;
use crate::gateway::Service;
use crate::gateway::batch::Fields;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchBody {
    filter: Filter,
    action: String,
    #[serde(default)]
    dry_run: bool,
    reason: Option<String>,
    force: Option<bool>,
    steps: Option<Vec<String>>,
    redrive_action: Option<String>,
    #[serde(default, deserialize_with = "given")]
    output: Option<Payload>,
    signal: Option<String>,
    #[serde(default, deserialize_with = "given")]
    payload: Option<Payload>,
}

impl BatchBody {
    fn request(self) -> Result<StartBatch> {
        if self.filter.limit.is_some() || self.filter.cursor.is_some() {
            let message = "a batch has no pages; leave `limit` and `cursor` out of `filter`";
            return Err(Error::new(Code::InvalidRequest, message));
        }
        let fields = Fields {
            action: self.action,
            reason: self.reason,
            force: self.force,
            steps: self.steps,
            redrive_action: self.redrive_action,
            output: self.output,
            signal: self.signal,
            payload: self.payload,
        };
        Ok(StartBatch { filter: self.filter.request()?, action: fields.action()?, dry_run: self.dry_run })
    }
}

pub(super) async fn run<E: Environment>(service: &Service<E>, operation: Operation, call: &Call) -> Result<Response> {
    let Nothing {} = call.query()?;
    let id = call.path("id");
    match operation {
        Operation::StartBatch => {
            let started = service.start_batch(CALLER, call.json::<BatchBody>()?.request()?).await?;
            let status = if started.batch_id.is_some() { StatusCode::ACCEPTED } else { StatusCode::OK };
            json(status, &started)
        }
        Operation::StopBatch => {
            let Nothing {} = call.json()?;
            json(StatusCode::OK, &service.stop_batch(CALLER, id).await?)
        }
        _ => json(StatusCode::OK, &service.batch(CALLER, id).await?),
    }
}
