//! The port for probes and metrics: these four, and nothing else. Who runs the machine asks here, by whatever name;
//! there is nothing to be done here and nothing to be known of any workflow.

use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use orbit_actors::error::{Code, Error};
use orbit_raft::Environment;

use crate::gateway::Service;
use crate::gateway::caller::Caller;
use crate::gateway::http::refusal;

/// The service of a node, once it is there.
pub(super) type Later<E> = Arc<OnceLock<Service<E>>>;

/// The four routes.
pub(super) fn router<E: Environment>(service: Later<E>) -> Router {
    Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/startupz", get(started::<E>))
        .route("/readyz", get(ready::<E>))
        .route("/metrics", get(metrics::<E>))
        .fallback(|| async { refusal(&Error::new(Code::NotFound, "here are /startupz, /livez, /readyz and /metrics")) })
        .method_not_allowed_fallback(|| async { refusal(&Error::new(Code::MethodNotAllowed, "this can only be read")) })
        .with_state(service)
}

fn told(yes: bool, otherwise: &'static str) -> Response {
    if yes { "ok\n".into_response() } else { (StatusCode::SERVICE_UNAVAILABLE, otherwise).into_response() }
}

async fn started<E: Environment>(State(service): State<Later<E>>) -> Response {
    told(service.get().is_some(), "starting\n")
}

async fn ready<E: Environment>(State(service): State<Later<E>>) -> Response {
    told(service.get().is_some_and(|service| service.health().is_ok()), "not ready\n")
}

async fn metrics<E: Environment>(State(service): State<Later<E>>) -> Response {
    match service.get().map(|service| service.metrics(Caller::Open)) {
        Some(Ok(text)) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response(),
        Some(Err(error)) => refusal(&error),
        None => told(false, "starting\n"),
    }
}
