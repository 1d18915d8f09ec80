//! The listeners of a node, and what answers on each: it may change while they are open.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use futures::FutureExt;
use futures::future::BoxFuture;
use orbit_raft::Production;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::addresses::{Addresses, Listeners};
use super::health::{self, Later};
use super::serve::{Speaks, serve};
use crate::config::Config;
use crate::gateway::http::refusal;
use orbit_actors::error::{Code, Error};

/// A listener that is served.
pub(super) struct Served {
    stop: CancellationToken,
    served: JoinHandle<()>,
}

impl Served {
    fn start(listener: TcpListener, router: Router, speaks: Speaks, config: &Config) -> Self {
        let stop = CancellationToken::new();
        let served = tokio::spawn(serve(listener, router, speaks, config.connections_max, stop.clone()));
        Self { stop, served }
    }

    pub(super) async fn stop(self) {
        self.stop.cancel();
        // It ends by itself; one that panicked has ended as well.
        let _ = self.served.await;
    }
}

/// What answers on a listener now.
#[derive(Clone)]
pub(super) struct Switch(Arc<RwLock<Router>>);

impl Switch {
    fn new() -> (Self, Router) {
        let starting = || async { refusal(&Error::new(Code::NoLeader, "this node is starting; repeat the call")) };
        let switch = Self(Arc::new(RwLock::new(Router::new().fallback(starting))));
        let router = Router::new().fallback_service(switch.clone());
        (switch, router)
    }

    /// From now on this answers.
    pub(super) fn set(&self, router: Router) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = router;
    }
}

impl tower::Service<Request<Body>> for Switch {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let router = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        router.oneshot(request).boxed()
    }
}

/// The listeners of a node, served.
pub(super) struct Open {
    pub(super) addresses: Addresses,
    /// The service, once it is there.
    pub(super) later: Later<Production>,
    pub(super) http: Served,
    pub(super) http_switch: Switch,
    pub(super) grpc: Served,
    pub(super) grpc_switch: Switch,
    pub(super) peer: Served,
    pub(super) peer_switch: Switch,
    pub(super) health: Served,
}

impl Open {
    pub(super) fn of(listeners: Listeners, config: &Config) -> Self {
        let Listeners { http, grpc, peer, health, addresses } = listeners;
        let later = Arc::new(OnceLock::new());
        let health = Served::start(health, health::router(Arc::clone(&later)), Speaks::Http, config);
        let (http_switch, router) = Switch::new();
        let http = Served::start(http, router, Speaks::Http, config);
        let (grpc_switch, router) = Switch::new();
        let grpc = Served::start(grpc, router, Speaks::Grpc, config);
        let (peer_switch, router) = Switch::new();
        let peer = Served::start(peer, router, Speaks::Peer, config);
        Self { addresses, later, http, http_switch, grpc, grpc_switch, peer, peer_switch, health }
    }

    pub(super) async fn stop(self) {
        let Self { http, grpc, peer, health, .. } = self;
        tokio::join!(http.stop(), grpc.stop(), peer.stop(), health.stop());
    }
}
