//! Requests and answers as messages of `orbit.node.v1`.

use std::sync::Arc;

use bytes::Bytes;
use orbit_proto::{node as wire, worker};
use workflow::command::{HeartbeatAnswer, Token};
use workflow::definition::Definition;
use workflow::event::{RedriveAction, TaskError, UncertainReason};
use workflow::key::Key;
use workflow::value::Payload;

use super::{Free, Request, Response};
use crate::api;
use crate::error::{Code, Error, Result};
use crate::execution::ask::{Signal, Start};
use crate::post::Batch;
use crate::table::Number;

fn malformed(what: &str) -> Error {
    Error::new(Code::Internal, format!("another node sent {what} that this one does not understand"))
}

fn json(payload: &Payload) -> Bytes {
    Bytes::copy_from_slice(payload.as_str().as_bytes())
}

fn payload(bytes: &Bytes) -> Result<Payload> {
    let text = std::str::from_utf8(bytes).map_err(|_| malformed("a payload"))?;
    Payload::parse(text).map_err(|_| malformed("a payload"))
}

fn token(text: &str) -> Result<Token> {
    text.parse().map_err(|_| malformed("a token"))
}

// ---- faults

/// An error as it crosses the wire.
pub(crate) fn fault(error: &Error) -> wire::Fault {
    wire::Fault {
        code: error.code.as_str().to_owned(),
        message: error.message.clone(),
        details: error.details.as_ref().map(|details| details.to_string().into()).unwrap_or_default(),
    }
}

/// … and back. A code of a newer release is an internal error here.
pub(crate) fn fault_in(fault: wire::Fault) -> Error {
    let code = Code::of_wire(&fault.code).unwrap_or(Code::Internal);
    let details = serde_json::from_slice(&fault.details).ok().map(Box::new);
    Error { code, message: fault.message, details }
}

// ---- requests

/// A request for an execution.
pub(crate) fn ask(id: &str, request: &Request) -> wire::Ask {
    use wire::ask::What;
    let what = match request {
        Request::Start(start) => What::Start(start_out(start)),
        Request::Complete { token, output, free } => {
            What::Complete(wire::Complete { token: token.to_string(), output: json(output), free: free_out(free) })
        }
        Request::Fail { token, error, unknown, free } => What::Fail(wire::Fail {
            token: token.to_string(),
            error_code: error.code.clone(),
            error_message: error.message.clone(),
            retryable: error.retryable,
            unknown: *unknown,
            details: error.details.as_ref().map(json),
            free: free_out(free),
        }),
        Request::TaskHeartbeat { token, details } => {
            let details = details.as_ref().map(json);
            What::TaskHeartbeat(wire::TaskHeartbeat { token: token.to_string(), details })
        }
        Request::Cancel { reason, force } => What::Cancel(wire::Cancel { reason: reason.clone(), force: *force }),
        Request::Signal(signal) => What::Signal(wire::Signal {
            name: signal.name.clone(),
            payload: json(&signal.payload),
            dedup_id: signal.dedup_id.clone(),
            start: signal.start.as_ref().map(start_out),
        }),
        Request::Pause => What::Pause(wire::Pause {}),
        Request::Resume => What::Resume(wire::Resume {}),
        Request::Redrive { steps, action, output } => What::Redrive(wire::Redrive {
            has_steps: steps.is_some(),
            steps: steps.iter().flatten().map(Key::to_string).collect(),
            action: action.as_str().to_owned(),
            output: output.as_ref().map(json),
        }),
        Request::Remove => What::Remove(wire::Remove {}),
        Request::Messages(batch) => What::Messages(messages_out(batch)),
        Request::TakeBack { token, reason } => {
            What::TakeBack(wire::TakeBack { token: token.to_string(), reason: reason.as_str().to_owned() })
        }
    };
    wire::Ask { execution_id: id.to_owned(), what: Some(what) }
}

/// Finds the definition that a start was resolved to.
pub(crate) trait Find {
    /// The definition with this hash.
    fn find(&self, hash: &str) -> Result<Arc<Definition>>;
}

/// … and back.
pub(crate) fn ask_in(what: wire::ask::What, id: &str, definitions: &impl Find) -> Result<Request> {
    use wire::ask::What;
    Ok(match what {
        What::Start(start) => Request::Start(Box::new(start_in(start, id, definitions)?)),
        What::Complete(complete) => Request::Complete {
            token: token(&complete.token)?,
            output: payload(&complete.output)?,
            free: free_in(complete.free),
        },
        What::Fail(fail) => Request::Fail {
            token: token(&fail.token)?,
            error: TaskError {
                code: fail.error_code,
                message: fail.error_message,
                retryable: fail.retryable,
                details: fail.details.as_ref().map(payload).transpose()?,
            },
            unknown: fail.unknown,
            free: free_in(fail.free),
        },
        What::TaskHeartbeat(alive) => Request::TaskHeartbeat {
            token: token(&alive.token)?,
            details: alive.details.as_ref().map(payload).transpose()?,
        },
        What::Cancel(cancel) => Request::Cancel { reason: cancel.reason, force: cancel.force },
        What::Signal(signal) => Request::Signal(Box::new(Signal {
            name: signal.name,
            payload: payload(&signal.payload)?,
            dedup_id: signal.dedup_id,
            start: signal.start.map(|start| start_in(start, id, definitions)).transpose()?,
        })),
        What::Pause(_) => Request::Pause,
        What::Resume(_) => Request::Resume,
        What::Redrive(redrive) => Request::Redrive {
            steps: redrive.has_steps.then(|| redrive.steps.iter().map(|step| Key::from(step.as_str())).collect()),
            action: word(RedriveAction::ALL, RedriveAction::as_str, &redrive.action, "an action")?,
            output: redrive.output.as_ref().map(payload).transpose()?,
        },
        What::Remove(_) => Request::Remove,
        What::Messages(messages) => Request::Messages(Box::new(messages_in(messages)?)),
        What::TakeBack(back) => Request::TakeBack {
            token: token(&back.token)?,
            reason: word(UncertainReason::ALL, UncertainReason::as_str, &back.reason, "a reason")?,
        },
    })
}

fn word<T: Copy>(all: &[T], text: impl Fn(T) -> &'static str, wanted: &str, what: &str) -> Result<T> {
    all.iter().copied().find(|one| text(*one) == wanted).ok_or_else(|| malformed(what))
}

fn start_out(start: &Start) -> wire::Start {
    let request = &start.request;
    wire::Start {
        workflow: request.workflow.clone(),
        version: request.version.clone(),
        definition_hash: start.definition.hash.clone(),
        input: json(&request.input),
        fairness_key: request.fairness_key.clone(),
        priority: request.priority.map(u32::from),
        traceparent: request.traceparent.clone(),
    }
}

fn start_in(start: wire::Start, id: &str, definitions: &impl Find) -> Result<Start> {
    let request = api::StartExecution {
        workflow: start.workflow,
        version: start.version,
        input: payload(&start.input)?,
        execution_id: Some(id.to_owned()),
        fairness_key: start.fairness_key,
        priority: start.priority.and_then(|priority| u8::try_from(priority).ok()),
        traceparent: start.traceparent,
    };
    Ok(Start { request, definition: definitions.find(&start.definition_hash)? })
}

fn free_out(free: &Option<Free>) -> Option<wire::FreeSlots> {
    free.as_ref().map(|free| wire::FreeSlots { worker_session_id: free.session.clone(), slots: free.slots })
}

fn free_in(free: Option<wire::FreeSlots>) -> Option<Free> {
    free.map(|free| Free { session: free.worker_session_id, slots: free.slots })
}

fn messages_out(batch: &Batch) -> wire::Messages {
    let message = |(number, message): &(Number, orbit_proto::engine::Message)| wire::NumberedMessage {
        number: Bytes::copy_from_slice(number),
        message: Some(message.clone()),
    };
    wire::Messages { source: u32::from(batch.source), messages: batch.messages.iter().map(message).collect() }
}

fn messages_in(messages: wire::Messages) -> Result<Batch> {
    let message = |one: wire::NumberedMessage| {
        let number: Number = one.number.as_ref().try_into().map_err(|_| malformed("a message"))?;
        Ok((number, one.message.ok_or_else(|| malformed("a message"))?))
    };
    let source = u16::try_from(messages.source).map_err(|_| malformed("a message"))?;
    Ok(Batch { source, messages: messages.messages.into_iter().map(message).collect::<Result<_>>()? })
}

// ---- responses

/// What an execution answered.
pub(crate) fn response(response: Response) -> wire::AskAnswer {
    use wire::ask_answer::What;
    let what = match response {
        Response::Started(started) => What::Started(wire::Started {
            execution_id: started.execution_id,
            run: started.run,
            created: started.created,
        }),
        Response::Result(answer) => What::Result(worker::ResultResponse {
            accepted: answer.accepted,
            reason: answer.reason,
            tasks: answer.tasks.unwrap_or_default().iter().map(task).collect(),
        }),
        Response::Alive(answer) => {
            What::TaskHeartbeat(worker::TaskHeartbeatResponse { accepted: answer.accepted, cancel: answer.cancel })
        }
        Response::Signalled(signalled) => What::Signalled(wire::Signalled {
            execution_id: signalled.execution_id,
            run: signalled.run,
            signal: signalled.signal,
            seq: signalled.seq,
            created: signalled.created,
        }),
        Response::Removed(removed) => What::Removed(removed),
        Response::Done => What::Done(wire::Done {}),
    };
    wire::AskAnswer { what: Some(what) }
}

/// … and back.
pub(crate) fn response_in(answer: wire::AskAnswer) -> Result<Response> {
    use wire::ask_answer::What;
    Ok(match answer.what.ok_or_else(|| malformed("an answer"))? {
        What::Started(started) => Response::Started(api::Started {
            execution_id: started.execution_id,
            run: started.run,
            created: started.created,
        }),
        What::Result(answer) => Response::Result(api::ResultAnswer {
            accepted: answer.accepted,
            reason: answer.reason,
            tasks: Some(answer.tasks.into_iter().map(task_in).collect::<Result<_>>()?),
        }),
        What::TaskHeartbeat(alive) => {
            Response::Alive(HeartbeatAnswer { accepted: alive.accepted, cancel: alive.cancel })
        }
        What::Signalled(signalled) => Response::Signalled(api::Signalled {
            execution_id: signalled.execution_id,
            run: signalled.run,
            signal: signalled.signal,
            accepted: true,
            seq: signalled.seq,
            created: signalled.created,
        }),
        What::Removed(removed) => Response::Removed(removed),
        What::Done(_) => Response::Done,
    })
}

// ---- workers

/// A task as workers get it.
pub fn task(task: &api::Task) -> worker::Task {
    worker::Task {
        token: task.token.clone(),
        execution_id: task.execution_id.clone(),
        run: task.run,
        workflow: task.workflow.clone(),
        workflow_version: task.workflow_version.clone(),
        step_id: task.step_id.clone(),
        task_name: task.task_name.clone(),
        contract_version: task.contract_version.clone(),
        input: json(&task.input),
        idempotency_key: task.idempotency_key.clone(),
        attempt: task.attempt,
        redelivery: task.redelivery,
        deadline_ms: task.deadline_ms,
        timeout_ms: task.timeout_ms,
        heartbeat_timeout_ms: task.heartbeat_timeout_ms,
        last_heartbeat_details: task.last_heartbeat_details.as_ref().map(json),
        traceparent: task.traceparent.clone(),
    }
}

/// … and back.
pub(crate) fn task_in(task: worker::Task) -> Result<api::Task> {
    Ok(api::Task {
        input: payload(&task.input)?,
        last_heartbeat_details: task.last_heartbeat_details.as_ref().map(payload).transpose()?,
        token: task.token,
        execution_id: task.execution_id,
        run: task.run,
        workflow: task.workflow,
        workflow_version: task.workflow_version,
        step_id: task.step_id,
        task_name: task.task_name,
        contract_version: task.contract_version,
        idempotency_key: task.idempotency_key,
        attempt: task.attempt,
        redelivery: task.redelivery,
        deadline_ms: task.deadline_ms,
        timeout_ms: task.timeout_ms,
        heartbeat_timeout_ms: task.heartbeat_timeout_ms,
        traceparent: task.traceparent,
    })
}

/// A registration as it came from a worker.
pub fn register_in(request: worker::RegisterRequest) -> api::Register {
    let contract = |contract: worker::TaskContract| api::TaskVersion {
        task_name: contract.task_name,
        contract_version: contract.contract_version,
    };
    api::Register {
        worker_id: request.worker_id,
        runtime: request.runtime,
        sdk: request.sdk,
        contracts: request.contracts.into_iter().map(contract).collect(),
        slots: request.slots,
        tokens: request.tokens,
        worker_session_id: request.worker_session_id.filter(|session| !session.is_empty()),
    }
}

/// … and back, for another node.
pub(crate) fn register(request: api::Register) -> worker::RegisterRequest {
    let contract = |contract: api::TaskVersion| worker::TaskContract {
        task_name: contract.task_name,
        contract_version: contract.contract_version,
    };
    worker::RegisterRequest {
        worker_id: request.worker_id,
        runtime: request.runtime,
        sdk: request.sdk,
        contracts: request.contracts.into_iter().map(contract).collect(),
        slots: request.slots,
        tokens: request.tokens,
        worker_session_id: request.worker_session_id,
    }
}
