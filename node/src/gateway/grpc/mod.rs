//! gRPC: what workers and clients ask, health and reflection, over the service.
//!
//! - `error`: errors with their code in `google.rpc.ErrorInfo` and in metadata;
//! - `convert`: messages to requests, answers to messages;
//! - `worker` and `stream`: the calls of workers, and all of them over one connection;
//! - `orbit`: the calls of clients.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use orbit_actors::error::Code;
use orbit_proto::api::orbit_service_server::OrbitServiceServer;
use orbit_proto::worker::worker_service_server::WorkerServiceServer;
use orbit_raft::Environment;
use tonic::Status;
use tonic::service::Routes;
use tonic_health::server::{HealthReporter, health_reporter};

mod convert;
mod error;
mod orbit;
mod stream;
mod worker;

use super::Service;
use super::counters::Surface;
use super::guard::{self, Names};

/// Names of the services whose health is told, beside the node as a whole (the empty name).
const SERVICES: [&str; 3] = ["", "orbit.api.v1.OrbitService", "orbit.worker.v1.WorkerService"];

/// Services that any server of gRPC may have.
const STANDARD: [&str; 3] =
    ["grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"];

struct Border<E: Environment> {
    service: Service<E>,
    names: Names,
}

/// Tells clients of `grpc.health.v1` whether the node takes requests.
#[derive(Clone)]
pub struct Serving(HealthReporter);

impl std::fmt::Debug for Serving {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Serving")
    }
}

impl Serving {
    /// Says whether it does.
    pub async fn set(&self, serving: bool) {
        use tonic_health::ServingStatus::{NotServing, Serving};
        for service in SERVICES {
            self.0.set_service_status(service, if serving { Serving } else { NotServing }).await;
        }
    }
}

/// Why the services cannot be put together.
#[derive(Debug, thiserror::Error)]
#[error("the reflection of the gRPC services: {0}")]
pub struct DescriptorError(#[from] tonic_reflection::server::Error);

/// What a node says of itself: the services of this port, and no others of which it knows the descriptors.
fn reflection() -> tonic_reflection::server::Builder<'static> {
    use tonic_reflection::pb::{v1, v1alpha};
    let descriptors = [
        orbit_proto::DESCRIPTORS,
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        v1::FILE_DESCRIPTOR_SET,
        v1alpha::FILE_DESCRIPTOR_SET,
    ];
    let builder = tonic_reflection::server::Builder::configure().include_reflection_service(false);
    let builder =
        descriptors.into_iter().fold(builder, |builder, set| builder.register_encoded_file_descriptor_set(set));
    let ours = SERVICES.into_iter().filter(|name| !name.is_empty());
    ours.chain(STANDARD).fold(builder, tonic_reflection::server::Builder::with_service_name)
}

/// All services.
///
/// # Errors
/// The descriptors that are built in are no descriptors.
pub fn router<E: Environment>(service: Service<E>, names: Names) -> Result<(Router, Serving), DescriptorError> {
    let bytes_max = service.limits().request_bytes_max;
    let (reporter, health) = health_reporter();
    let worker = WorkerServiceServer::new(worker::Workers(service.clone())).max_decoding_message_size(bytes_max);
    let orbit = OrbitServiceServer::new(orbit::Clients(service.clone())).max_decoding_message_size(bytes_max);
    // Both, for many clients still know the older one only.
    let (newer, older) = (reflection().build_v1()?, reflection().build_v1alpha()?);
    let routes = Routes::new(worker).add_service(orbit).add_service(health);
    let routes = routes.add_service(newer).add_service(older).prepare();
    let border = Arc::new(Border { service, names });
    let router = routes.into_axum_router().layer(from_fn_with_state(border, at_the_border));
    Ok((router, Serving(reporter)))
}

/// Lets in what may come in, and gives errors of the library below the form that ours have.
async fn at_the_border<E: Environment>(State(border): State<Arc<Border<E>>>, request: Request, next: Next) -> Response {
    let method = request.uri().path().to_owned();
    let response = match guard::check(&border.names, request.uri(), request.headers()) {
        Err(refused) => error::status(&refused).into_http(),
        Ok(()) => error::coded(next.run(request).await),
    };
    let code = Status::from_header_map(response.headers()).map_or(tonic::Code::Ok, |status| status.code());
    // What is no method is counted together, for callers could make up any number of names.
    let route = if code == super::status::grpc(Code::MethodNotAllowed) { "none" } else { method.as_str() };
    border.service.counters().request(Surface::Grpc, route, code as u16);
    response
}
