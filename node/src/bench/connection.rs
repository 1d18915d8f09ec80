//! The way to the nodes: a few gRPC connections to each for all callers.

use std::time::Duration;

use orbit_proto::api::orbit_service_client::OrbitServiceClient;
use orbit_proto::api::{
    ExecutionState, GetHistoryRequest, RegisterWorkflowsRequest, StartExecutionRequest, WaitExecutionRequest,
};
use orbit_proto::worker::worker_service_client::WorkerServiceClient;
use serde_json::Value;
use tonic::metadata::AsciiMetadataValue;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use super::Error;
use super::documents::Document;
use super::target::Target;

/// Callers on one connection.
const CALLERS_PER_CONNECTION: u32 = 128;
/// How long a node is asked to wait for the end of an execution at a time.
const WAIT: Duration = Duration::from_secs(60);
/// Longest message: an answer of a node is at most 3 MiB.
const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// Adds the token to each call.
#[derive(Clone)]
pub(super) struct Credential(Option<AsciiMetadataValue>);

impl Interceptor for Credential {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(value) = &self.0 {
            request.metadata_mut().insert("authorization", value.clone());
        }
        Ok(request)
    }
}

type Api = OrbitServiceClient<InterceptedService<Channel, Credential>>;
pub(super) type Workers = WorkerServiceClient<InterceptedService<Channel, Credential>>;

/// A clone uses the same connections.
#[derive(Clone)]
pub(super) struct Connection {
    channels: Vec<Channel>,
    credential: Credential,
}

/// The operations of a client, over one of the connections.
#[derive(Clone)]
pub(super) struct Caller(Api);

/// Why an execution is not begun.
pub(super) enum NotStarted {
    /// The node asks to come again later.
    Busy,
    Refused(Box<Status>),
}

impl Connection {
    pub(super) async fn open(node: &Target, callers: u32) -> Result<Self, Error> {
        let mut channels = Vec::new();
        for _ in 0..callers.div_ceil(CALLERS_PER_CONNECTION).max(1) {
            for grpc in &node.grpc {
                let endpoint = Endpoint::from_shared(format!("http://{grpc}"))?.tcp_nodelay(true);
                channels.push(endpoint.connect().await?);
            }
        }
        let bearer = node.token.as_ref().map(|token| format!("Bearer {token}").parse());
        let value = bearer.transpose().map_err(|_| Error::Node("the token is no text for a header".to_owned()))?;
        Ok(Self { channels, credential: Credential(value) })
    }

    /// The operations of the caller with this number.
    pub(super) fn caller(&self, number: u32) -> Caller {
        let channel = self.channels[number as usize % self.channels.len()].clone();
        let api = OrbitServiceClient::with_interceptor(channel, self.credential.clone());
        Caller(api.max_decoding_message_size(MESSAGE_BYTES_MAX))
    }

    /// The operations of a worker, at the node with this number.
    pub(super) fn workers(&self, node: usize) -> Workers {
        // The first connections go to one node each.
        let channel = self.channels[node].clone();
        let workers = WorkerServiceClient::with_interceptor(channel, self.credential.clone());
        workers.max_decoding_message_size(MESSAGE_BYTES_MAX)
    }
}

impl Caller {
    pub(super) async fn register(&mut self, document: &Document) -> Result<(), Error> {
        let request = RegisterWorkflowsRequest { source: document.source.clone(), format: "yaml".to_owned() };
        self.0.register_workflows(request).await.map(drop).map_err(Error::call("registering a workflow"))
    }

    pub(super) async fn start(&mut self, workflow: &str, id: &str, input: String) -> Result<(), NotStarted> {
        let request = StartExecutionRequest {
            workflow: workflow.to_owned(),
            input: input.into_bytes().into(),
            execution_id: Some(id.to_owned()),
            ..StartExecutionRequest::default()
        };
        self.0.start_execution(request).await.map(drop).map_err(|status| match code(&status) {
            "OVERLOADED" | "NO_LEADER" | "OUTCOME_UNKNOWN" => NotStarted::Busy,
            _ => NotStarted::Refused(Box::new(status)),
        })
    }

    /// How an execution ended.
    pub(super) async fn end(&mut self, id: &str) -> Result<String, Box<Status>> {
        loop {
            let timeout_ms = u64::try_from(WAIT.as_millis()).ok();
            let request = WaitExecutionRequest { execution_id: id.to_owned(), timeout_ms };
            match self.0.wait_execution(request).await.map(tonic::Response::into_inner) {
                Ok(ExecutionState { summary: Some(summary), .. }) if summary.status != "RUNNING" => {
                    return Ok(summary.status);
                }
                Ok(_) => {}
                Err(status) if matches!(code(&status), "OVERLOADED" | "NO_LEADER") => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Err(status) => return Err(Box::new(status)),
            }
        }
    }

    /// Everything that happened to an execution.
    pub(super) async fn history(&mut self, id: &str) -> Result<Vec<Value>, Error> {
        let (mut events, mut from) = (Vec::new(), Some(1));
        while from.is_some() {
            let request = GetHistoryRequest { execution_id: id.to_owned(), run: None, from, limit: Some(10_000) };
            let page = self.0.get_history(request).await.map_err(Error::call("reading a history"))?.into_inner();
            events.extend(page.events.iter().filter_map(|event| serde_json::from_slice::<Value>(event).ok()));
            from = page.next;
        }
        Ok(events)
    }
}

/// Orbit's own code of an error.
fn code(status: &Status) -> &str {
    status.metadata().get("orbit-error-code").and_then(|value| value.to_str().ok()).unwrap_or_default()
}
