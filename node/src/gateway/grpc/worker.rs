//! The calls of workers.

use std::pin::Pin;

use futures::Stream;
use orbit_proto::worker::worker_service_server::WorkerService;
use orbit_proto::worker::{
    CompleteRequest, FailRequest, HeartbeatRequest, HeartbeatResponse, NodeMessage, PollRequest, PollResponse,
    RegisterRequest, RegisterResponse, ResultResponse, TaskHeartbeatRequest, TaskHeartbeatResponse, UnregisterRequest,
    UnregisterResponse, WorkerMessage,
};
use orbit_raft::Environment;
use tonic::{Request, Response, Status, Streaming};

use super::convert::{self, payload};
use super::error::status;
use super::stream;
use crate::gateway::Service;
use crate::gateway::caller::Caller;

/// Whoever calls: there is no credential yet.
pub(super) const CALLER: Caller = Caller::Open;

/// Answers workers.
pub(super) struct Workers<E: Environment>(pub(super) Service<E>);

#[tonic::async_trait]
impl<E: Environment> WorkerService for Workers<E> {
    type WorkStream = Pin<Box<dyn Stream<Item = Result<NodeMessage, Status>> + Send>>;

    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<RegisterResponse>, Status> {
        let answer = self.0.register(CALLER, convert::register(request.into_inner())).await;
        answer.map(|answer| Response::new(convert::registered(answer))).map_err(|error| status(&error))
    }

    async fn heartbeat(&self, request: Request<HeartbeatRequest>) -> Result<Response<HeartbeatResponse>, Status> {
        let HeartbeatRequest { worker_session_id, tokens } = request.into_inner();
        let tokens = tokens.as_ref().map(|list| list.tokens.as_slice());
        let alive = self.0.heartbeat(CALLER, &worker_session_id, tokens).await.map_err(|error| status(&error))?;
        Ok(Response::new(HeartbeatResponse { accepted: alive.accepted, cancel: alive.cancel }))
    }

    async fn poll(&self, request: Request<PollRequest>) -> Result<Response<PollResponse>, Status> {
        let PollRequest { worker_session_id, wait_ms, max_tasks } = request.into_inner();
        let tasks = self.0.poll(CALLER, &worker_session_id, max_tasks.map(u64::from), wait_ms).await;
        let tasks = tasks.map_err(|error| status(&error))?;
        Ok(Response::new(PollResponse { tasks: tasks.into_iter().map(convert::task).collect() }))
    }

    async fn complete(&self, request: Request<CompleteRequest>) -> Result<Response<ResultResponse>, Status> {
        let request = convert::complete(request.into_inner()).map_err(|error| status(&error))?;
        let answer = self.0.complete(CALLER, request).await;
        answer.map(|answer| Response::new(convert::result(answer))).map_err(|error| status(&error))
    }

    async fn fail(&self, request: Request<FailRequest>) -> Result<Response<ResultResponse>, Status> {
        let request = convert::fail(request.into_inner()).map_err(|error| status(&error))?;
        let answer = self.0.fail(CALLER, request).await;
        answer.map(|answer| Response::new(convert::result(answer))).map_err(|error| status(&error))
    }

    async fn task_heartbeat(
        &self,
        request: Request<TaskHeartbeatRequest>,
    ) -> Result<Response<TaskHeartbeatResponse>, Status> {
        let TaskHeartbeatRequest { token, details } = request.into_inner();
        let details = details.as_ref().map(|details| payload("details", details, "null")).transpose();
        let details = details.map_err(|error| status(&error))?;
        let alive = self.0.task_heartbeat(CALLER, &token, details).await.map_err(|error| status(&error))?;
        Ok(Response::new(TaskHeartbeatResponse { accepted: alive.accepted, cancel: alive.cancel }))
    }

    async fn unregister(&self, request: Request<UnregisterRequest>) -> Result<Response<UnregisterResponse>, Status> {
        let session = request.into_inner().worker_session_id;
        self.0.unregister(CALLER, &session).await.map_err(|error| status(&error))?;
        Ok(Response::new(UnregisterResponse { accepted: true }))
    }

    async fn work(&self, request: Request<Streaming<WorkerMessage>>) -> Result<Response<Self::WorkStream>, Status> {
        let answers = stream::open(self.0.clone(), request.into_inner()).await?;
        Ok(Response::new(Box::pin(answers)))
    }
}
