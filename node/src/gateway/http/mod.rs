//! HTTP: the routes of the API, one table, over the service.
//!
//! - [`route`]: the table;
//! - `call`: a request as operations see it, with its body read;
//! - `json`: what bodies and payloads must look like;
//! - `query`: what may stand behind the question mark;
//! - `filter`: which executions are wanted;
//! - `answer`: answers and errors;
//! - `openapi`: what the routes take and answer, for programs;
//! - `operation`: from a call to the service and back;
//! - `command`: the same for what is said to an execution that is there;
//! - `batch`, `cluster`: the same for what is done to many, and for the nodes.
//!
//! A request goes through [`guard`](super::guard) first. Every answer, also to what was never understood, carries the
//! version of the API and an id of the request.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{MatchedPath, RawPathParams, Request, State};
use axum::http::{HeaderName, HeaderValue, Method, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use futures::FutureExt;
use orbit_actors::error::{Code, Error};
use orbit_raft::Environment;
use uuid::Uuid;

mod admin;
mod answer;
mod batch;
mod call;
mod cluster;
mod command;
mod filter;
mod json;
mod number;
mod openapi;
mod operation;
mod query;
pub mod route;

pub(crate) use answer::refusal;
use call::Call;
pub(crate) use filter::status as status_filter;
use route::{ROUTES, Route};

use super::counters::Surface;
use super::guard::{self, Names};
use super::{API_VERSION, Service};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const VERSION: HeaderName = HeaderName::from_static("x-orbit-api-version");

struct Border<E: Environment> {
    service: Service<E>,
    names: Names,
}

/// All routes.
pub fn router<E: Environment>(service: Service<E>, names: Names) -> Router {
    let border = Arc::new(Border { service: service.clone(), names });
    let mut router = Router::new();
    for route in ROUTES.iter().filter(|route| route.is_plain()) {
        let filter = match route.method {
            "GET" => MethodFilter::GET,
            "DELETE" => MethodFilter::DELETE,
            _ => MethodFilter::POST,
        };
        let handler = move |State(service): State<Service<E>>,
                            path: Result<RawPathParams, RawPathParamsRejection>,
                            request: Request| answer_one(service, *route, path, request);
        router = router.route(route.path, on(filter, handler));
    }
    router
        .fallback(|| async { refusal(&Error::new(Code::NotFound, "there is no such route; docs/api.md lists them")) })
        .method_not_allowed_fallback(|| async {
            refusal(&Error::new(Code::MethodNotAllowed, "this route has other methods; `allow` lists them"))
        })
        .layer(from_fn_with_state(border, at_the_border))
        .with_state(service)
}

async fn answer_one<E: Environment>(
    service: Service<E>,
    route: Route,
    path: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
) -> Response {
    let answered = match Call::read(route, path, request, service.limits()).await {
        Ok(call) => operation::run(&service, call.operation(), &call).await,
        Err(error) => Err(error),
    };
    answered.unwrap_or_else(|error| refusal(&error))
}

/// Lets in what may come in, and sees to it that every answer is one.
async fn at_the_border<E: Environment>(State(border): State<Arc<Border<E>>>, request: Request, next: Next) -> Response {
    let _under_way = border.service.counters().begin();
    let id = Uuid::now_v7().to_string();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    let mut response = match guard::check(&border.names, request.uri(), request.headers()) {
        Err(error) => refusal(&error),
        Ok(()) => AssertUnwindSafe(next.run(request)).catch_unwind().await.unwrap_or_else(|_| {
            tracing::error!(request_id = %id, %method, route, "a request was not answered: a panic");
            refusal(&Error::new(Code::Internal, format!("the node failed; its log tells more of request {id}")))
        }),
    };
    let status = response.status();
    tracing::debug!(request_id = %id, %method, route, status = status.as_u16(), "answered");
    if method == Method::HEAD {
        border.service.counters().request(Surface::Http, &format!("HEAD {route}"), status.as_u16());
    } else {
        border.service.counters().request(Surface::Http, &route, status.as_u16());
    }
    let headers = response.headers_mut();
    headers.insert(VERSION, HeaderValue::from_static(API_VERSION));
    if let Ok(id) = HeaderValue::try_from(id) {
        headers.insert(REQUEST_ID, id);
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
