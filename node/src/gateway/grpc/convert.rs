//! Messages to requests, answers to messages.

use bytes::Bytes;
use orbit_actors::api;
use orbit_actors::error::{Code, Error, Result};
use orbit_proto::{api as clients, worker as workers};
use serde::Serialize;
use workflow::value::Payload;

use crate::gateway::batch::Fields;
use crate::gateway::cluster::ClusterState;
use crate::gateway::http::status_filter;

/// JSON out of a message; nothing is `default`.
pub(super) fn payload(field: &str, bytes: &Bytes, default: &str) -> Result<Payload> {
    let invalid = |reason: String| Error::new(Code::InvalidRequest, format!("`{field}` is no JSON: {reason}"));
    let text = std::str::from_utf8(bytes).map_err(|error| invalid(error.to_string()))?;
    Payload::parse(if text.is_empty() { default } else { text }).map_err(|error| invalid(error.to_string()))
}

/// An answer as the JSON that HTTP has for it.
pub(super) fn json(value: &impl Serialize) -> Result<Bytes> {
    let text = serde_json::to_vec(value);
    text.map(Bytes::from).map_err(|error| Error::new(Code::Internal, format!("the answer cannot be written: {error}")))
}

pub(super) use orbit_actors::wire::register_in as register;

pub(super) fn registered(answer: api::Registered) -> workers::RegisterResponse {
    workers::RegisterResponse {
        accepted: answer.accepted,
        worker_session_id: answer.worker_session_id,
        heartbeat_interval_ms: answer.heartbeat_interval_ms,
        session_timeout_ms: answer.session_timeout_ms,
        warnings: answer.warnings,
    }
}

pub(super) fn task(task: api::Task) -> workers::Task {
    orbit_actors::wire::task(&task)
}

pub(super) fn complete(request: workers::CompleteRequest) -> Result<api::Complete> {
    Ok(api::Complete {
        output: payload("output", &request.output, "null")?,
        token: request.token,
        worker_session_id: request.worker_session_id.filter(|session| !session.is_empty()),
        free_slots: request.free_slots.unwrap_or(0),
    })
}

pub(super) fn fail(request: workers::FailRequest) -> Result<api::Fail> {
    Ok(api::Fail {
        details: request.details.as_ref().map(|details| payload("details", details, "null")).transpose()?,
        token: request.token,
        error_code: request.error_code,
        error_message: request.error_message,
        retryable: request.retryable.unwrap_or(true),
        unknown: request.unknown.unwrap_or(false),
        worker_session_id: request.worker_session_id.filter(|session| !session.is_empty()),
        free_slots: request.free_slots.unwrap_or(0),
    })
}

pub(super) fn result(answer: api::ResultAnswer) -> workers::ResultResponse {
    workers::ResultResponse {
        accepted: answer.accepted,
        reason: answer.reason,
        tasks: answer.tasks.unwrap_or_default().into_iter().map(task).collect(),
    }
}

pub(super) fn workflow(answer: api::RegisteredWorkflow) -> clients::RegisteredWorkflow {
    clients::RegisteredWorkflow {
        name: answer.name,
        version: answer.version,
        definition_hash: answer.definition_hash,
        created: answer.created,
        warnings: answer.warnings,
    }
}

pub(super) fn workflow_summary(answer: api::WorkflowSummary) -> clients::WorkflowSummary {
    clients::WorkflowSummary {
        name: answer.name,
        version: answer.version,
        description: answer.description,
        definition_hash: answer.definition_hash,
        steps: answer.steps,
        tasks: answer.tasks,
    }
}

pub(super) fn signal(request: clients::SignalExecutionRequest, traceparent: Option<String>) -> Result<api::SendSignal> {
    let id = request.execution_id;
    let start = |start: clients::SignalStart| {
        Ok(api::StartExecution {
            workflow: start.workflow,
            version: start.version,
            input: payload("input", &start.input, "{}")?,
            execution_id: Some(id.clone()),
            traceparent,
            ..api::StartExecution::default()
        })
    };
    Ok(api::SendSignal {
        start: request.start.map(start).transpose()?,
        signal: request.signal,
        payload: payload("payload", &request.payload, "{}")?,
        dedup_id: request.dedup_id,
        execution_id: id,
    })
}

pub(super) fn signalled(answer: api::Signalled) -> clients::SignalExecutionResponse {
    clients::SignalExecutionResponse {
        execution_id: answer.execution_id,
        run: answer.run,
        signal: answer.signal,
        accepted: answer.accepted,
        seq: answer.seq,
        created: answer.created,
    }
}

pub(super) fn query_answer(answer: api::QueryAnswer) -> Result<clients::QueryExecutionResponse> {
    Ok(clients::QueryExecutionResponse {
        value: answer.value.as_ref().map(json).transpose()?.unwrap_or_default(),
        omitted: answer.omitted.into_iter().map(str::to_owned).collect(),
        execution_id: answer.execution_id,
        query: answer.query,
    })
}

pub(super) fn redrive(request: clients::RedriveExecutionRequest) -> Result<api::Redrive> {
    Ok(api::Redrive {
        output: request.output.as_ref().map(|output| payload("output", output, "null")).transpose()?,
        execution_id: request.execution_id,
        // A list cannot be absent in a message.
        steps: Some(request.steps).filter(|steps| !steps.is_empty()),
        action: request.action,
    })
}

pub(super) fn list(request: clients::ListExecutionsRequest) -> Result<api::ListExecutions> {
    Ok(api::ListExecutions {
        status: request.status.as_deref().map(status_filter).transpose()?,
        workflow: request.workflow,
        version: request.version,
        since_ms: request.since_ms,
        until_ms: request.until_ms,
        attention: request.attention,
        attributes: request.attributes,
        limit: 0,
        cursor: request.cursor,
    })
}

pub(super) fn start_batch(request: clients::StartBatchRequest) -> Result<api::StartBatch> {
    let filter = request.filter.unwrap_or_default();
    let filter = api::ListExecutions {
        status: filter.status.as_deref().map(status_filter).transpose()?,
        workflow: filter.workflow,
        version: filter.version,
        since_ms: filter.since_ms,
        until_ms: filter.until_ms,
        attention: filter.attention,
        attributes: filter.attributes,
        limit: 0,
        cursor: None,
    };
    let fields = Fields {
        action: request.action,
        reason: request.reason,
        force: request.force,
        // A list cannot be absent in a message.
        steps: Some(request.steps).filter(|steps| !steps.is_empty()),
        redrive_action: request.redrive_action,
        output: request.output.as_ref().map(|output| payload("output", output, "null")).transpose()?,
        signal: request.signal,
        payload: request.payload.as_ref().map(|given| payload("payload", given, "{}")).transpose()?,
    };
    Ok(api::StartBatch { filter, action: fields.action()?, dry_run: request.dry_run })
}

pub(super) fn cluster(answer: ClusterState) -> clients::Cluster {
    let node = |node: api::NodeSummary| clients::ClusterNode {
        id: node.id,
        name: node.name,
        address: node.address,
        is_this: node.is_this,
        leads: node.leads,
        joined_at_ms: node.joined_at_ms,
        leaving: node.leaving,
        condition: node.condition.map(condition),
        version: node.version,
        format: node.format,
    };
    let nodes = answer.nodes.into_iter().map(node).collect();
    clients::Cluster { cluster: answer.cluster.to_string(), nodes, format: answer.format }
}

pub(super) fn check(answer: api::CheckReport) -> clients::CheckReport {
    let shards = answer.shards.into_iter().map(shard_check).collect();
    clients::CheckReport { findings_total: answer.findings_total, shards }
}

fn shard_check(answer: api::ShardCheck) -> clients::ShardCheck {
    let finding = |finding: api::Finding| clients::Finding {
        rule: finding.rule.to_owned(),
        execution_id: finding.execution_id,
        run: finding.run,
        place: finding.place,
        found: finding.found,
        expected: finding.expected,
        advice: finding.advice.to_owned(),
    };
    let replica = |replica: api::ReplicaCheck| clients::ReplicaCheck {
        node: replica.node,
        name: replica.name,
        hash: replica.hash,
        not_compared: replica.not_compared,
    };
    clients::ShardCheck {
        shard: u32::from(answer.shard),
        node: answer.node,
        index: answer.index,
        executions: answer.executions,
        runs: answer.runs,
        events: answer.events,
        rows: answer.rows,
        findings: answer.findings.into_iter().map(finding).collect(),
        findings_total: answer.findings_total,
        replicas: answer.replicas.into_iter().map(replica).collect(),
    }
}

fn condition(node: api::NodeCondition) -> clients::NodeCondition {
    clients::NodeCondition {
        disk: node.disk.to_owned(),
        disk_used_ratio: node.disk_used_ratio,
        clock_ahead_ms: node.clock_ahead_ms,
        clock_off: node.clock_off,
    }
}

pub(super) fn batch(answer: api::BatchState) -> clients::Batch {
    let fault = |fault: api::BatchFault| clients::BatchFault {
        execution_id: fault.execution_id,
        code: fault.code,
        message: fault.message,
    };
    clients::Batch {
        batch_id: answer.batch_id,
        action: answer.action.to_owned(),
        status: answer.status.to_owned(),
        stopped: answer.stopped,
        total: answer.total,
        at_least: answer.at_least,
        done: answer.done,
        failed: answer.failed,
        errors: answer.errors.into_iter().map(fault).collect(),
        created_at_ms: answer.created_at_ms,
        finished_at_ms: answer.finished_at_ms,
    }
}

pub(super) fn summary(answer: &api::Summary) -> Result<clients::ExecutionSummary> {
    let error = answer.error.as_ref();
    Ok(clients::ExecutionSummary {
        execution_id: answer.execution_id.clone(),
        run: answer.run,
        workflow: answer.workflow.clone(),
        version: answer.version.clone(),
        definition_hash: answer.definition_hash.clone(),
        status: answer.status.to_owned(),
        attention: answer.attention,
        created_at_ms: answer.created_at_ms,
        updated_at_ms: answer.updated_at_ms,
        finished_at_ms: answer.finished_at_ms,
        attributes: json(&answer.attributes)?,
        error: error.map(|error| clients::Error { code: error.code.clone(), message: error.message.clone() }),
    })
}

pub(super) fn state(answer: &api::ExecutionState) -> Result<clients::ExecutionState> {
    Ok(clients::ExecutionState { summary: Some(summary(&answer.summary)?), state: json(answer)? })
}
