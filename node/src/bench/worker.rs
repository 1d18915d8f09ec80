//! The worker: answers each task as soon as it arrives.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use orbit_proto::worker::{
    CompleteRequest, HeartbeatRequest, NodeMessage, PollRequest, RegisterRequest, RegisterResponse,
    Result as TaskResult, Task, TaskContract, Tokens, WorkerMessage, result,
};
use tokio::sync::{mpsc, watch};
use tokio::time::interval;
use tokio_stream::wrappers::ReceiverStream;

use super::connection::{Connection, Workers};
use super::documents::{TASK, TASK_VERSION};
use super::load::Tally;
use super::readiness::Receipts;
use super::{Error, Hands};

/// Messages that may wait to be sent.
const MESSAGES_MAX: usize = 1_024;
/// Codes after which a result is said again.
const AGAIN: [&str; 3] = ["NO_LEADER", "OVERLOADED", "OUTCOME_UNKNOWN"];

/// What the worker notes.
#[derive(Clone)]
pub(super) struct Notes {
    pub(super) tally: Arc<Tally>,
    pub(super) receipts: Arc<Receipts>,
}

/// A worker at one of the nodes.
pub(super) struct Worker {
    pub(super) connection: Connection,
    /// Which node.
    pub(super) at: usize,
    pub(super) slots: u32,
    pub(super) notes: Notes,
    /// One more once it is registered.
    pub(super) known: watch::Sender<usize>,
}

/// Works until dropped; ends by itself only when something is wrong.
pub(super) async fn work(worker: Worker, hands: Hands) -> Error {
    let worked = match hands {
        Hands::Stream => stream(&worker).await,
        Hands::Poll => poll(&worker).await,
    };
    match worked {
        Ok(()) => Error::Worker("the node ended the stream".to_owned()),
        Err(error) => error,
    }
}

fn registration(worker: &Worker) -> RegisterRequest {
    RegisterRequest {
        worker_id: format!("bench-{}", worker.at + 1),
        runtime: "bench".to_owned(),
        contracts: vec![TaskContract { task_name: TASK.to_owned(), contract_version: TASK_VERSION.to_owned() }],
        slots: Some(worker.slots),
        ..RegisterRequest::default()
    }
}

fn success(token: String) -> CompleteRequest {
    CompleteRequest { token, output: "{}".into(), ..CompleteRequest::default() }
}

fn succeeded(token: String) -> TaskResult {
    TaskResult { result: Some(result::Result::Complete(success(token))) }
}

/// Takes tasks from one stream. Receipts, results and new slots for all that came together go back together.
async fn stream(worker: &Worker) -> Result<(), Error> {
    let mut workers = worker.connection.workers(worker.at);
    let (send, messages) = mpsc::channel(MESSAGES_MAX);
    let hello = WorkerMessage { hello: Some(registration(worker)), slots: worker.slots, ..WorkerMessage::default() };
    let closed = |_| Error::Worker("the stream is closed".to_owned());
    send.send(hello).await.map_err(closed)?;
    let mut incoming = workers.work(ReceiverStream::new(messages)).await.map_err(Error::call("working"))?.into_inner();
    // Tokens whose result has not been answered.
    let mut held: HashSet<String> = HashSet::new();
    let mut beat = interval(Duration::from_secs(5));
    loop {
        let message = tokio::select! {
            message = incoming.message() => message.map_err(Error::call("working"))?,
            _ = beat.tick() => {
                let heartbeat = Some(Tokens { tokens: held.iter().cloned().collect() });
                send.send(WorkerMessage { heartbeat, ..WorkerMessage::default() }).await.map_err(closed)?;
                continue;
            }
        };
        let Some(NodeMessage { welcome, tasks, acks, .. }) = message else { return Ok(()) };
        if let Some(RegisterResponse { heartbeat_interval_ms, .. }) = welcome {
            beat = interval(Duration::from_millis(heartbeat_interval_ms.max(100)));
            worker.known.send_modify(|known| *known += 1);
        }
        let mut answer = WorkerMessage::default();
        for ack in acks {
            match ack.error_code.as_deref() {
                Some(code) if AGAIN.contains(&code) => answer.results.push(succeeded(ack.token)),
                code => {
                    held.remove(&ack.token);
                    if !ack.accepted {
                        let why = code.or(ack.reason.as_deref()).unwrap_or("no reason");
                        worker.notes.tally.failed(format!("a result was not accepted: {why}"));
                    }
                }
            }
        }
        for task in tasks {
            worker.notes.took(&task);
            held.insert(task.token.clone());
            answer.slots += 1;
            answer.receipts.push(task.token.clone());
            answer.results.push(succeeded(task.token));
        }
        if answer.slots > 0 || !answer.results.is_empty() {
            send.send(answer).await.map_err(closed)?;
        }
    }
}

/// Every slot asks by itself.
async fn poll(worker: &Worker) -> Result<(), Error> {
    let mut workers = worker.connection.workers(worker.at);
    let registered = workers.register(registration(worker)).await.map_err(Error::call("registering"))?.into_inner();
    worker.known.send_modify(|known| *known += 1);
    let session = registered.worker_session_id;
    let held: Arc<Mutex<HashSet<String>>> = Arc::default();
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..worker.slots {
        let (workers, session) = (worker.connection.workers(worker.at), session.clone());
        let (notes, held) = (worker.notes.clone(), Arc::clone(&held));
        asking.spawn(async move { ask(workers, session, &notes, &held).await });
    }
    let mut beat = interval(Duration::from_millis(registered.heartbeat_interval_ms.max(100)));
    loop {
        tokio::select! {
            _ = beat.tick() => {
                let tokens = held.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect();
                let tokens = Some(Tokens { tokens });
                let request = HeartbeatRequest { worker_session_id: session.clone(), tokens };
                workers.heartbeat(request).await.map_err(Error::call("a heartbeat"))?;
            }
            Some(ended) = asking.join_next() => match ended {
                Ok(result) => return result,
                Err(error) => return Err(Error::Worker(error.to_string())),
            },
        }
    }
}

/// One slot: a poll when there is nothing, and the next task with the answer to a result.
async fn ask(mut workers: Workers, session: String, notes: &Notes, held: &Mutex<HashSet<String>>) -> Result<(), Error> {
    let mut tasks = Vec::new();
    loop {
        let Some(task) = tasks.pop() else {
            let request =
                PollRequest { worker_session_id: session.clone(), max_tasks: Some(1), ..PollRequest::default() };
            tasks = workers.poll(request).await.map_err(Error::call("a poll"))?.into_inner().tasks;
            continue;
        };
        let task: Task = task;
        notes.took(&task);
        held.lock().unwrap_or_else(PoisonError::into_inner).insert(task.token.clone());
        let token = task.token.clone();
        let (worker_session_id, free_slots) = (Some(session.clone()), Some(1));
        let request = CompleteRequest { worker_session_id, free_slots, ..success(task.token) };
        let answer = workers.complete(request).await.map_err(Error::call("a result"))?.into_inner();
        held.lock().unwrap_or_else(PoisonError::into_inner).remove(&token);
        if !answer.accepted {
            notes.tally.failed(format!("a result was not accepted: {}", answer.reason.unwrap_or_default()));
        }
        tasks = answer.tasks;
    }
}

impl Notes {
    fn took(&self, task: &Task) {
        self.tally.took_task();
        self.receipts.note(task);
    }
}
