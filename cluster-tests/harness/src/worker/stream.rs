//! A worker on the gRPC stream.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use orbit_proto::worker::worker_service_client::WorkerServiceClient;
use orbit_proto::worker::{
    CompleteRequest, FailRequest, NodeMessage, RegisterRequest, Result as WireReport, TaskContract,
    TaskHeartbeatRequest, Tokens, WorkerMessage, result,
};
use tokio::sync::mpsc;
use tokio::time::{interval, sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;
use tonic::{Code, Status, Streaming};

use super::hands::{Answer, Done, Hands, Report};
use super::{Job, Nodes, PAUSE, SIGN_OF_LIFE, SILENCE_MAX, WELCOME_TIME_MAX, Worker};
use crate::{Addresses, Notebook};

type Sender = mpsc::Sender<WorkerMessage>;

struct Stream {
    hands: Hands,
    /// The node goes away: nothing new is taken from it, and the stream ends with what is held.
    draining: bool,
}

pub(super) async fn run(worker: Worker, notebook: Arc<Notebook>, mut nodes: Nodes) {
    let (hands, mut finished) = Hands::new(worker, notebook);
    let mut stream = Stream { hands, draining: false };
    while let Some(node) = nodes.next().await {
        if let Some((sender, messages)) = stream.connect(&node).await {
            let _open = Open::new(&stream.hands.notebook);
            stream.serve(sender, messages, &mut finished).await;
            stream.hands.lost();
        }
        sleep(PAUSE).await;
    }
}

/// Counts an open stream, also when the worker is stopped in the middle.
struct Open(Arc<Notebook>);

impl Open {
    fn new(notebook: &Arc<Notebook>) -> Self {
        notebook.streams.send_modify(|open| *open += 1);
        Self(Arc::clone(notebook))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.streams.send_modify(|open| *open -= 1);
    }
}

impl Stream {
    /// Opens a stream: resumes the session, lists everything held, repeats all results without an answer.
    async fn connect(&mut self, node: &Addresses) -> Option<(Sender, Streaming<NodeMessage>)> {
        let endpoint = Endpoint::from_shared(format!("http://{}", node.grpc)).ok()?.connect_timeout(SILENCE_MAX);
        // A node that is stopped, or behind a link that is cut, says nothing by itself.
        let endpoint = endpoint.http2_keep_alive_interval(SILENCE_MAX / 3).keep_alive_timeout(SILENCE_MAX);
        let channel = endpoint.keep_alive_while_idle(true).connect().await.ok()?;
        let hands = &mut self.hands;
        let contract = |(name, version): &(String, String)| TaskContract {
            task_name: name.clone(),
            contract_version: version.clone(),
        };
        let hello = RegisterRequest {
            worker_id: hands.worker.id().to_owned(),
            runtime: "rust".into(),
            contracts: hands.worker.tasks.iter().map(contract).collect(),
            tokens: hands.tokens(),
            worker_session_id: hands.session.clone(),
            ..RegisterRequest::default()
        };
        let (sender, messages) = mpsc::channel(256);
        let (slots, results) = (hands.free(), hands.outgoing().into_iter().map(wire).collect());
        let first = WorkerMessage { hello: Some(hello), slots, results, ..WorkerMessage::default() };
        // A new channel has room.
        let _ = sender.try_send(first);
        self.draining = false;
        let mut client = WorkerServiceClient::new(channel);
        match timeout(WELCOME_TIME_MAX, client.work(ReceiverStream::new(messages))).await {
            Ok(Ok(stream)) => return Some((sender, stream.into_inner())),
            Ok(Err(status)) => self.note(&status),
            Err(_) => self.hands.notebook.refused("stream without a welcome"),
        }
        self.hands.lost();
        None
    }

    /// A stream ends because its node does; anything else is worth a look.
    fn note(&mut self, status: &Status) {
        let code = status.metadata().get("orbit-error-code").and_then(|code| code.to_str().ok()).unwrap_or("none");
        self.hands.notebook.refused(&format!("stream {code}"));
        match (status.code(), code) {
            (_, "UNKNOWN_SESSION") => self.hands.session = None,
            (Code::Internal | Code::InvalidArgument, code) if code != "none" => {
                self.hands.notebook.surprise(format!("{}: {status:?}", self.hands.worker.id()));
            }
            _ => {}
        }
    }

    async fn serve(
        &mut self,
        sender: Sender,
        mut stream: Streaming<NodeMessage>,
        finished: &mut mpsc::UnboundedReceiver<Done>,
    ) {
        let mut beat = interval(SIGN_OF_LIFE);
        loop {
            if self.draining && self.hands.is_empty() {
                return;
            }
            let mut message = tokio::select! {
                heard = stream.message() => match heard {
                    Ok(Some(message)) => self.hear(message),
                    Ok(None) => return,
                    Err(status) => return self.note(&status),
                },
                Some((token, report)) = finished.recv() => self.report(&token, report),
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
            self.hands.session = Some(welcome.worker_session_id);
        }
        if message.drain {
            self.hands.notebook.drained.fetch_add(1, Ordering::SeqCst);
            self.draining = true;
        }
        for task in message.tasks {
            answer.receipts.push(task.token.clone());
            match Job::try_from(task) {
                Ok(job) => self.hands.begin(job),
                Err(error) => self.hands.notebook.surprise(format!("the input of a task is no JSON: {error}")),
            }
        }
        answer.slots = message.cancel.iter().map(|token| u32::from(self.hands.cancel(token))).sum();
        for ack in message.acks {
            let decided = Answer::Decided { accepted: ack.accepted, reason: ack.reason };
            self.hands.answered(&ack.token, ack.error_code.map_or(decided, Answer::Refused));
        }
        answer
    }

    /// The work is done: its report goes out with the slot that it frees.
    fn report(&mut self, token: &str, report: Report) -> WorkerMessage {
        if !self.hands.finish(token, report) {
            return WorkerMessage::default();
        }
        let results = self.hands.outgoing().into_iter().map(wire).collect();
        WorkerMessage { slots: 1, results, ..WorkerMessage::default() }
    }

    /// Everything that is held, progress of what is long, and results that were put off.
    fn signs_of_life(&mut self) -> WorkerMessage {
        let details = self.hands.details().to_string();
        let sign =
            |token: &String| TaskHeartbeatRequest { token: token.clone(), details: Some(details.clone().into()) };
        let task_heartbeats = self.hands.beating().map(sign).collect();
        let heartbeat = Some(Tokens { tokens: self.hands.tokens() });
        let results = self.hands.outgoing().into_iter().map(wire).collect();
        WorkerMessage { results, heartbeat, task_heartbeats, ..WorkerMessage::default() }
    }
}

fn wire((token, report): Done) -> WireReport {
    let result = match report {
        Report::Success(output) => {
            result::Result::Complete(CompleteRequest { token, output: output.to_string().into(), ..Default::default() })
        }
        Report::Failure { code, retryable } => result::Result::Fail(FailRequest {
            token,
            error_code: code,
            error_message: "as planned".into(),
            retryable: Some(retryable),
            ..FailRequest::default()
        }),
    };
    WireReport { result: Some(result) }
}
