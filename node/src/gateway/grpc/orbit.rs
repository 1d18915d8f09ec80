//! The calls of clients.

use orbit_actors::api::StartExecution;
use orbit_actors::engine::raise::Raised;
use orbit_actors::error::{Code, Error};
use orbit_proto::api::orbit_service_server::OrbitService;
use orbit_proto::api::{
    Batch, CancelExecutionRequest, CheckClusterRequest, CheckReport, Cluster, DeleteExecutionRequest,
    DeleteExecutionResponse, DrainNodeRequest, DrainNodeResponse, ExecutionState, GetBatchRequest, GetClusterRequest,
    GetExecutionRequest, GetHistoryRequest, GetHistoryResponse, GetWorkflowRequest, GetWorkflowResponse,
    LeaveClusterRequest, ListExecutionsRequest, ListExecutionsResponse, ListWorkflowsRequest, ListWorkflowsResponse,
    PauseExecutionRequest, QueryExecutionRequest, QueryExecutionResponse, RaiseClusterRequest, RaiseClusterResponse,
    RedriveExecutionRequest, RegisterWorkflowsRequest, RegisterWorkflowsResponse, ResumeExecutionRequest,
    SignalExecutionRequest, SignalExecutionResponse, StartBatchRequest, StartBatchResponse, StartExecutionRequest,
    StartExecutionResponse, StopBatchRequest, WaitExecutionRequest,
};
use orbit_raft::Environment;
use tonic::{Request, Response, Status};
use workflow::document::Format;

use super::convert;
use super::error::status;
use super::worker::CALLER;
use crate::gateway::Service;
use crate::gateway::cluster::intent;

/// Answers clients.
pub(super) struct Clients<E: Environment>(pub(super) Service<E>);

type Answer<T> = Result<Response<T>, Status>;

fn answer<T>(result: orbit_actors::error::Result<T>) -> Answer<T> {
    result.map(Response::new).map_err(|error| status(&error))
}

fn traceparent<T>(request: &Request<T>) -> Option<String> {
    request.metadata().get("traceparent").and_then(|value| value.to_str().ok()).map(str::to_owned)
}

#[tonic::async_trait]
impl<E: Environment> OrbitService for Clients<E> {
    async fn register_workflows(
        &self,
        request: Request<RegisterWorkflowsRequest>,
    ) -> Answer<RegisterWorkflowsResponse> {
        let RegisterWorkflowsRequest { source, format } = request.into_inner();
        let format = match format.as_str() {
            "yaml" => Format::Yaml,
            "json" => Format::Json,
            other => {
                let message = format!("`format` is {other:?}; it is `yaml` or `json`");
                return answer(Err(Error::new(Code::InvalidRequest, message)));
            }
        };
        let registered = self.0.deploy(CALLER, &source, format).await;
        answer(registered.map(|workflows| RegisterWorkflowsResponse {
            workflows: workflows.into_iter().map(convert::workflow).collect(),
        }))
    }

    async fn list_workflows(&self, _: Request<ListWorkflowsRequest>) -> Answer<ListWorkflowsResponse> {
        let workflows = self.0.workflows(CALLER).await;
        answer(workflows.map(|workflows| ListWorkflowsResponse {
            workflows: workflows.into_iter().map(convert::workflow_summary).collect(),
        }))
    }

    async fn get_workflow(&self, request: Request<GetWorkflowRequest>) -> Answer<GetWorkflowResponse> {
        let GetWorkflowRequest { name, version, source } = request.into_inner();
        let stored = self.0.workflow(CALLER, &name, version.as_deref()).await;
        answer(stored.map(|stored| GetWorkflowResponse {
            name: stored.name,
            version: stored.version,
            definition_hash: stored.definition_hash,
            document: if source { stored.source } else { stored.normal_form },
        }))
    }

    async fn start_execution(&self, request: Request<StartExecutionRequest>) -> Answer<StartExecutionResponse> {
        let traceparent = traceparent(&request);
        let request = request.into_inner();
        let input = convert::payload("input", &request.input, "{}").map_err(|error| status(&error))?;
        let started = self.0.start(
            CALLER,
            StartExecution {
                workflow: request.workflow,
                version: request.version,
                input,
                execution_id: request.execution_id,
                fairness_key: request.fairness_key,
                priority: request.priority.map(|priority| priority.min(5) as u8),
                traceparent,
            },
        );
        answer(started.await.map(|started| StartExecutionResponse {
            execution_id: started.execution_id,
            run: started.run,
            created: started.created,
        }))
    }

    async fn list_executions(&self, request: Request<ListExecutionsRequest>) -> Answer<ListExecutionsResponse> {
        let request = request.into_inner();
        let limit = request.limit.map(u64::from);
        let request = convert::list(request).map_err(|error| status(&error))?;
        let page = self.0.list(CALLER, request, limit).await.map_err(|error| status(&error))?;
        let executions: Result<Vec<_>, Error> = page.executions.iter().map(convert::summary).collect();
        answer(executions.map(|executions| ListExecutionsResponse {
            executions,
            next_cursor: page.next_cursor,
            as_of_ms: page.as_of_ms,
        }))
    }

    async fn get_execution(&self, request: Request<GetExecutionRequest>) -> Answer<ExecutionState> {
        let GetExecutionRequest { execution_id, run } = request.into_inner();
        answer(self.0.show(CALLER, &execution_id, run).await.and_then(|state| convert::state(&state)))
    }

    async fn get_history(&self, request: Request<GetHistoryRequest>) -> Answer<GetHistoryResponse> {
        let GetHistoryRequest { execution_id, run, from, limit } = request.into_inner();
        let page = self.0.history(CALLER, &execution_id, run, from, limit.map(u64::from)).await;
        let page = page.map_err(|error| status(&error))?;
        let events: Result<Vec<_>, Error> = page.events.iter().map(convert::json).collect();
        answer(events.map(|events| GetHistoryResponse {
            execution_id: page.execution_id,
            run: page.run,
            events,
            next: page.next,
        }))
    }

    async fn wait_execution(&self, request: Request<WaitExecutionRequest>) -> Answer<ExecutionState> {
        let WaitExecutionRequest { execution_id, timeout_ms } = request.into_inner();
        answer(self.0.wait(CALLER, &execution_id, timeout_ms).await.and_then(|state| convert::state(&state)))
    }

    async fn cancel_execution(&self, request: Request<CancelExecutionRequest>) -> Answer<ExecutionState> {
        let CancelExecutionRequest { execution_id, reason, force } = request.into_inner();
        answer(self.0.cancel(CALLER, &execution_id, &reason, force).await.and_then(|state| convert::state(&state)))
    }

    async fn signal_execution(&self, request: Request<SignalExecutionRequest>) -> Answer<SignalExecutionResponse> {
        let traceparent = traceparent(&request);
        let request = convert::signal(request.into_inner(), traceparent).map_err(|error| status(&error))?;
        answer(self.0.signal(CALLER, request).await.map(convert::signalled))
    }

    async fn query_execution(&self, request: Request<QueryExecutionRequest>) -> Answer<QueryExecutionResponse> {
        let QueryExecutionRequest { execution_id, query, wait_ms } = request.into_inner();
        answer(self.0.query(CALLER, &execution_id, &query, wait_ms).await.and_then(convert::query_answer))
    }

    async fn pause_execution(&self, request: Request<PauseExecutionRequest>) -> Answer<ExecutionState> {
        let PauseExecutionRequest { execution_id } = request.into_inner();
        answer(self.0.pause(CALLER, &execution_id).await.and_then(|state| convert::state(&state)))
    }

    async fn resume_execution(&self, request: Request<ResumeExecutionRequest>) -> Answer<ExecutionState> {
        let ResumeExecutionRequest { execution_id } = request.into_inner();
        answer(self.0.resume(CALLER, &execution_id).await.and_then(|state| convert::state(&state)))
    }

    async fn redrive_execution(&self, request: Request<RedriveExecutionRequest>) -> Answer<ExecutionState> {
        let request = convert::redrive(request.into_inner()).map_err(|error| status(&error))?;
        answer(self.0.redrive(CALLER, request).await.and_then(|state| convert::state(&state)))
    }

    async fn delete_execution(&self, request: Request<DeleteExecutionRequest>) -> Answer<DeleteExecutionResponse> {
        let DeleteExecutionRequest { execution_id } = request.into_inner();
        answer(self.0.delete(CALLER, &execution_id).await.map(|()| DeleteExecutionResponse {}))
    }

    async fn start_batch(&self, request: Request<StartBatchRequest>) -> Answer<StartBatchResponse> {
        let request = convert::start_batch(request.into_inner()).map_err(|error| status(&error))?;
        answer(self.0.start_batch(CALLER, request).await.map(|started| StartBatchResponse {
            batch_id: started.batch_id,
            total: started.total,
            at_least: started.at_least,
        }))
    }

    async fn get_batch(&self, request: Request<GetBatchRequest>) -> Answer<Batch> {
        answer(self.0.batch(CALLER, &request.into_inner().batch_id).await.map(convert::batch))
    }

    async fn stop_batch(&self, request: Request<StopBatchRequest>) -> Answer<Batch> {
        answer(self.0.stop_batch(CALLER, &request.into_inner().batch_id).await.map(convert::batch))
    }

    async fn get_cluster(&self, _: Request<GetClusterRequest>) -> Answer<Cluster> {
        answer(self.0.cluster(CALLER).await.map(convert::cluster))
    }

    async fn leave_cluster(&self, request: Request<LeaveClusterRequest>) -> Answer<Cluster> {
        let LeaveClusterRequest { node_id, lost } = request.into_inner();
        self.0.leave(CALLER, node_id, lost).await.map_err(|error| status(&error))?;
        answer(self.0.cluster(CALLER).await.map(convert::cluster))
    }

    async fn raise_cluster(&self, request: Request<RaiseClusterRequest>) -> Answer<RaiseClusterResponse> {
        let asked = self.0.raise(CALLER, intent(request.into_inner().dry_run)).await;
        answer(asked.map(|Raised { from, to, raised }| RaiseClusterResponse { from, to, raised }))
    }

    async fn drain_node(&self, _: Request<DrainNodeRequest>) -> Answer<DrainNodeResponse> {
        answer(self.0.drain(CALLER).map(|()| DrainNodeResponse {}))
    }

    async fn check_cluster(&self, request: Request<CheckClusterRequest>) -> Answer<CheckReport> {
        answer(self.0.check(CALLER, request.into_inner().shard).await.map(convert::check))
    }
}
