//! A worker on the stream that outlives the node: it resumes its session and lists what it holds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use orbit_cluster_tests::ledger::{Outcome, Received};
use orbit_proto::worker::worker_service_client::WorkerServiceClient;
use orbit_proto::worker::{
    CompleteRequest, FailRequest, NodeMessage, RegisterRequest, Result as Report, Task, TaskContract,
    TaskHeartbeatRequest, Tokens, WorkerMessage, result,
};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{interval, sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;
use tonic::{Code, Streaming};

use super::node::Addresses;
use super::{PATIENCE, Shared, workload};

/// How many tasks it works on at a time.
const SLOTS: usize = 8;
const PAUSE: Duration = Duration::from_millis(20);
const SIGN_OF_LIFE: Duration = Duration::from_millis(200);

/// A task that it holds, until its result has been answered.
struct Held {
    report: Option<Report>,
    heartbeats: bool,
    /// The result is on the present stream.
    sent: bool,
}

struct Worker {
    shared: Arc<Shared>,
    id: String,
    session: Option<String>,
    held: BTreeMap<String, Held>,
    done: mpsc::Sender<Done>,
    /// Work done so far: each output names it, so that no two are equal.
    count: u64,
    /// The node goes away: nothing new is taken from it, and the stream ends with what is held.
    draining: bool,
}

/// Works until it is stopped.
pub async fn run(shared: Arc<Shared>, id: String) {
    let (done, mut finished) = mpsc::channel(1_024);
    let mut worker = Worker { shared, id, session: None, held: BTreeMap::new(), done, count: 0, draining: false };
    let mut at = worker.shared.at.subscribe();
    loop {
        let address = at.wait_for(Option::is_some).await.unwrap().clone().unwrap();
        if let Some((sender, stream)) = worker.connect(&address).await {
            worker.shared.streams.send_modify(|open| *open += 1);
            worker.serve(sender, stream, &mut finished).await;
            let lost = worker.held.values().filter(|held| held.sent).count();
            worker.held.values_mut().for_each(|held| held.sent = false);
            worker.shared.unanswered.fetch_add(lost, Ordering::SeqCst);
            worker.shared.streams.send_modify(|open| *open -= 1);
        }
        sleep(PAUSE).await;
    }
}

type Sender = mpsc::Sender<WorkerMessage>;
/// Work that is done, and what is to be said of it.
type Done = (String, result::Result);

impl Worker {
    fn free(&self) -> u32 {
        let working = self.held.values().filter(|held| held.report.is_none()).count();
        u32::try_from(SLOTS.saturating_sub(working)).unwrap()
    }

    /// Opens a stream: resumes the session, lists everything held, repeats all results without an answer.
    async fn connect(&mut self, at: &Addresses) -> Option<(Sender, Streaming<NodeMessage>)> {
        let endpoint = Endpoint::from_shared(format!("http://{}", at.grpc)).unwrap();
        let channel = endpoint.connect_timeout(Duration::from_secs(5)).connect().await.ok()?;
        let contract = |name: &str| TaskContract { task_name: name.to_owned(), contract_version: "1.0.0".into() };
        let hello = RegisterRequest {
            worker_id: self.id.clone(),
            runtime: "rust".into(),
            contracts: workload::TASKS.map(contract).into(),
            tokens: self.held.keys().cloned().collect(),
            worker_session_id: self.session.clone(),
            ..RegisterRequest::default()
        };
        let (sender, messages) = mpsc::channel(256);
        let results: Vec<_> = self.held.values().filter_map(|held| held.report.clone()).collect();
        let first = WorkerMessage { hello: Some(hello), slots: self.free(), results, ..WorkerMessage::default() };
        sender.try_send(first).unwrap();
        let mut client = WorkerServiceClient::new(channel);
        let opened = timeout(PATIENCE, client.work(ReceiverStream::new(messages))).await.expect("a hello hangs");
        self.draining = false;
        match opened {
            Ok(stream) => {
                self.held.values_mut().for_each(|held| held.sent = held.report.is_some());
                Some((sender, stream.into_inner()))
            }
            Err(status) => {
                self.note(&status);
                None
            }
        }
    }

    /// A stream ends because its node does; anything else is worth a look.
    fn note(&mut self, status: &tonic::Status) {
        let code = status.metadata().get("orbit-error-code").and_then(|code| code.to_str().ok()).unwrap_or("none");
        self.shared.refused(&format!("stream {code}"));
        match (status.code(), code) {
            (_, "UNKNOWN_SESSION") => self.session = None,
            (Code::Internal | Code::InvalidArgument, code) if code != "none" => {
                self.shared.surprise(format!("{}: {status:?}", self.id));
            }
            _ => {}
        }
    }

    async fn serve(&mut self, sender: Sender, mut stream: Streaming<NodeMessage>, finished: &mut mpsc::Receiver<Done>) {
        let mut beat = interval(SIGN_OF_LIFE);
        loop {
            if self.draining && self.held.is_empty() {
                return;
            }
            let mut message = tokio::select! {
                heard = stream.message() => match heard {
                    Ok(Some(message)) => self.hear(message),
                    Ok(None) => return,
                    Err(status) => return self.note(&status),
                },
                done = finished.recv() => self.report(done.unwrap()),
                _ = beat.tick() => self.signs_of_life(),
            };
            if self.draining {
                message.slots = 0;
            }
            if message != WorkerMessage::default() && sender.send(message).await.is_err() {
                return;
            }
        }
    }

    fn hear(&mut self, message: NodeMessage) -> WorkerMessage {
        let mut answer = WorkerMessage::default();
        if let Some(welcome) = message.welcome {
            self.session = Some(welcome.worker_session_id);
        }
        if message.drain {
            self.shared.drained.fetch_add(1, Ordering::SeqCst);
            self.draining = true;
        }
        for task in message.tasks {
            answer.receipts.push(task.token.clone());
            self.begin(task);
        }
        for token in message.cancel {
            // What is reported is held until the answer comes.
            if self.held.get(&token).is_some_and(|held| held.report.is_none()) {
                self.held.remove(&token);
                answer.slots += 1;
            }
        }
        for ack in message.acks {
            let Some(held) = self.held.get_mut(&ack.token) else { continue };
            match ack.error_code.as_deref() {
                None => {
                    self.shared.ledger().answered(&ack.token, ack.accepted);
                    if ack.accepted {
                        self.shared.acknowledged();
                    } else {
                        self.shared.refused(&format!("result {}", ack.reason.unwrap_or_default()));
                    }
                    self.held.remove(&ack.token);
                }
                Some(code @ ("NO_LEADER" | "OVERLOADED" | "OUTCOME_UNKNOWN" | "STORAGE_ERROR")) => {
                    self.shared.refused(&format!("result {code}"));
                    held.sent = false;
                }
                Some(code) => self.shared.surprise(format!("the result of {} was refused with {code}", ack.token)),
            }
        }
        answer
    }

    fn begin(&mut self, task: Task) {
        let plan = workload::plan(&task.task_name, &task.idempotency_key, task.attempt);
        self.count += 1;
        let report = match plan.error {
            None => {
                let output = json!({"by": format!("{}-{}", self.id, self.count)}).to_string().into();
                let complete = CompleteRequest { token: task.token.clone(), output, ..CompleteRequest::default() };
                result::Result::Complete(complete)
            }
            Some((code, retryable)) => result::Result::Fail(FailRequest {
                token: task.token.clone(),
                error_code: code.into(),
                error_message: "as planned".into(),
                retryable: Some(retryable),
                ..FailRequest::default()
            }),
        };
        let received = Received {
            worker_id: self.id.clone(),
            unit: task.step_id,
            attempt: task.attempt.into(),
            idempotency_key: task.idempotency_key,
            input: serde_json::from_slice(&task.input).unwrap(),
            result: None,
            answered: None,
        };
        let token = task.token;
        if self.shared.ledger().tasks.insert(token.clone(), received).is_some() {
            return self.shared.surprise(format!("I26: the hand-over {token} came twice"));
        }
        self.held.insert(token.clone(), Held { report: None, heartbeats: plan.heartbeats, sent: false });
        let done = self.done.clone();
        tokio::spawn(async move {
            sleep(Duration::from_millis(plan.work_ms)).await;
            // The worker may have been stopped meanwhile.
            let _ = done.send((token, report)).await;
        });
    }

    /// The work is done: its report goes out with the slot that it frees.
    fn report(&mut self, (token, outcome): Done) -> WorkerMessage {
        // Not held any more: it was told to stop.
        let Some(held) = self.held.get_mut(&token) else { return WorkerMessage::default() };
        let report = Report { result: Some(outcome.clone()) };
        (held.report, held.sent) = (Some(report.clone()), true);
        if let Some(task) = self.shared.ledger().tasks.get_mut(&token) {
            task.result = Some(match outcome {
                result::Result::Complete(done) => Outcome::Success(serde_json::from_slice(&done.output).unwrap()),
                result::Result::Fail(failed) => Outcome::Failure(failed.error_code),
            });
        }
        WorkerMessage { slots: 1, results: vec![report], ..WorkerMessage::default() }
    }

    /// Everything that is held, progress of what is long, and results that were put off.
    fn signs_of_life(&mut self) -> WorkerMessage {
        let tokens = self.held.keys().cloned().collect();
        let long = self.held.iter().filter(|(_, held)| held.heartbeats && held.report.is_none());
        let sign = |(token, _): (&String, &Held)| TaskHeartbeatRequest {
            token: token.clone(),
            details: Some(json!({"at": self.count}).to_string().into()),
        };
        let task_heartbeats = long.map(sign).collect();
        let put_off = self.held.values_mut().filter(|held| held.report.is_some() && !held.sent);
        let results = put_off
            .filter_map(|held| {
                held.sent = true;
                held.report.clone()
            })
            .collect();
        WorkerMessage { results, heartbeat: Some(Tokens { tokens }), task_heartbeats, ..WorkerMessage::default() }
    }
}
