//! The table of routes: what is served, and what the tests walk.

/// What a route does with a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// It has none.
    Nothing,
    /// A JSON object; unknown fields are refused.
    Json,
    /// Any JSON: it is a payload itself.
    Payload,
    /// A JSON object; unknown fields are ignored, for workers may be newer than nodes.
    WorkerJson,
    /// A workflow document, YAML or JSON.
    Document,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)] // each is the operation of the service with the same name
pub enum Operation {
    Health,
    Metrics,
    OpenApi,
    Deploy,
    Workflows,
    LatestWorkflow,
    Workflow,
    Start,
    List,
    Count,
    Show,
    Units,
    Input,
    Output,
    History,
    Runs,
    Wait,
    Cancel,
    Signal,
    SignalWithStart,
    Query,
    Pause,
    Resume,
    Redrive,
    Delete,
    StartBatch,
    Batch,
    StopBatch,
    Cluster,
    Init,
    Leave,
    Raise,
    Drain,
    Check,
    Workers,
    Register,
    Heartbeat,
    Poll,
    Unregister,
    Complete,
    Fail,
    TaskHeartbeat,
}

/// A route.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// `GET`, `POST` or `DELETE`.
    pub method: &'static str,
    /// With `{names}` for what changes.
    pub path: &'static str,
    /// What it does with a body.
    pub takes: Takes,
    /// What it asks for.
    pub operation: Operation,
}

const fn get(path: &'static str, operation: Operation) -> Route {
    Route { method: "GET", path, takes: Takes::Nothing, operation }
}

const fn post(path: &'static str, takes: Takes, operation: Operation) -> Route {
    Route { method: "POST", path, takes, operation }
}

const fn delete(path: &'static str, operation: Operation) -> Route {
    Route { method: "DELETE", path, takes: Takes::Nothing, operation }
}

/// What stands behind `{name}` where an execution is started if it is not there.
const START: &str = ":start";

impl Route {
    /// Whether the router below finds it by itself. It knows no text behind a name, so what ends with `:start` comes by
    /// the route without.
    pub(super) fn is_plain(&self) -> bool {
        !self.path.ends_with("}:start")
    }

    /// The route that a name in its last place makes of it, and what of that is the name. No signal has a colon in its
    /// name.
    pub(super) fn behind(self, name: &str) -> (Self, &str) {
        let longer = |route: &&Self| route.path.strip_suffix(START) == Some(self.path) && route.method == self.method;
        match (ROUTES.iter().find(longer), name.strip_suffix(START)) {
            (Some(route), Some(name)) => (*route, name),
            _ => (self, name),
        }
    }
}

/// Every route of the API.
pub const ROUTES: &[Route] = &[
    get("/v1/health", Operation::Health),
    get("/v1/metrics", Operation::Metrics),
    get("/v1/openapi.json", Operation::OpenApi),
    post("/v1/workflows", Takes::Document, Operation::Deploy),
    get("/v1/workflows", Operation::Workflows),
    get("/v1/workflows/{name}", Operation::LatestWorkflow),
    get("/v1/workflows/{name}/{version}", Operation::Workflow),
    post("/v1/executions", Takes::Json, Operation::Start),
    get("/v1/executions", Operation::List),
    get("/v1/executions:count", Operation::Count),
    post("/v1/executions:batch", Takes::Json, Operation::StartBatch),
    get("/v1/executions/{id}", Operation::Show),
    delete("/v1/executions/{id}", Operation::Delete),
    get("/v1/executions/{id}/units", Operation::Units),
    get("/v1/executions/{id}/input", Operation::Input),
    get("/v1/executions/{id}/output", Operation::Output),
    get("/v1/executions/{id}/history", Operation::History),
    get("/v1/executions/{id}/runs", Operation::Runs),
    get("/v1/executions/{id}/wait", Operation::Wait),
    post("/v1/executions/{id}/cancel", Takes::Json, Operation::Cancel),
    post("/v1/executions/{id}/signals/{name}", Takes::Payload, Operation::Signal),
    post("/v1/executions/{id}/signals/{name}:start", Takes::Json, Operation::SignalWithStart),
    get("/v1/executions/{id}/queries/{name}", Operation::Query),
    post("/v1/executions/{id}/pause", Takes::Json, Operation::Pause),
    post("/v1/executions/{id}/resume", Takes::Json, Operation::Resume),
    post("/v1/executions/{id}/redrive", Takes::Json, Operation::Redrive),
    get("/v1/batches/{id}", Operation::Batch),
    post("/v1/batches/{id}/stop", Takes::Json, Operation::StopBatch),
    get("/v1/cluster", Operation::Cluster),
    post("/v1/cluster/init", Takes::Json, Operation::Init),
    post("/v1/cluster/leave", Takes::Json, Operation::Leave),
    post("/v1/cluster/raise", Takes::Json, Operation::Raise),
    post("/v1/cluster/drain", Takes::Json, Operation::Drain),
    post("/v1/admin/check", Takes::Json, Operation::Check),
    get("/v1/workers", Operation::Workers),
    post("/v1/workers/register", Takes::WorkerJson, Operation::Register),
    post("/v1/workers/heartbeat", Takes::WorkerJson, Operation::Heartbeat),
    post("/v1/workers/poll", Takes::WorkerJson, Operation::Poll),
    post("/v1/workers/unregister", Takes::WorkerJson, Operation::Unregister),
    post("/v1/tasks/complete", Takes::WorkerJson, Operation::Complete),
    post("/v1/tasks/fail", Takes::WorkerJson, Operation::Fail),
    post("/v1/tasks/heartbeat", Takes::WorkerJson, Operation::TaskHeartbeat),
];
