//! A worker's stream: everything over one connection.
//!
//! ```text
//!   worker ──▶ slots ─ receipts ─ results ─ heartbeats ──▶ engine        in this order within a message
//!   worker ◀── tasks ─ cancels ─ acks ─ drain ◀──────────── engine        what is ready together goes together
//! ```
//!
//! Results and heartbeats are under way many at a time, [`UNDER_WAY_MAX`] at most; while as many are, no further
//! message is read, so a worker that sends faster than the cluster commits is slowed down and nothing piles up. A
//! worker that does not read for [`UNREAD_MAX`] is cut off.
//!
//! When the connection breaks, what the worker had not received goes back at once; results that had arrived are still
//! carried through, though nobody hears the answer: the worker repeats them elsewhere.

use std::collections::VecDeque;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use orbit_actors::api::{Delivery, Task};
use orbit_actors::engine::Connection;
use orbit_actors::error::{Code, Error};
use orbit_proto::worker::{
    Ack, NodeMessage, Result as WorkerResult, TaskHeartbeatRequest, WorkerMessage, result::Result as Outcome,
};
use orbit_raft::Environment;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::convert::{self, payload};
use super::error::{from_below, status};
use super::worker::CALLER;
use crate::gateway::Service;

/// How long a worker may take for its first message.
const HELLO_TIME_MAX: Duration = Duration::from_secs(10);
/// How long the worker may leave messages unread.
const UNREAD_MAX: Duration = Duration::from_secs(30);
/// How many results and heartbeats are under way.
const UNDER_WAY_MAX: usize = 1_024;
/// How many messages wait for the worker.
const MESSAGES_WAITING_MAX: usize = 4;
/// How many deliveries and answers go into one message.
const TOGETHER_MAX: usize = 256;
/// About how many bytes of tasks go into one message; clients refuse more than four MiB.
const MESSAGE_BYTES_MAX: usize = 3 << 20;
/// What a task takes beside its payloads.
const TASK_BYTES: usize = 1 << 10;

type Answers = mpsc::Sender<Result<NodeMessage, Status>>;

/// What a result or a heartbeat came to.
enum Answer {
    Ack(Ack),
    Cancel(Vec<String>),
    /// The session is over.
    Lost(Error),
}

/// Hears the hello and serves the stream from then on.
pub(super) async fn open<E: Environment>(
    service: Service<E>,
    mut incoming: Streaming<WorkerMessage>,
) -> Result<ReceiverStream<Result<NodeMessage, Status>>, Status> {
    let invalid = |message: &str| status(&Error::new(Code::InvalidRequest, message));
    let first = tokio::time::timeout(HELLO_TIME_MAX, incoming.message()).await;
    let first = first.map_err(|_| invalid("no hello arrived; it is the first message of a stream"))?;
    let mut first = first.map_err(|below| from_below(&below))?.unwrap_or_default();
    let Some(hello) = first.hello.take() else {
        return Err(invalid("the first message of a stream has a hello"));
    };
    let connection = service.connect(CALLER, convert::register(hello)).await.map_err(|error| status(&error))?;
    let (answers, waiting) = mpsc::channel(MESSAGES_WAITING_MAX);
    let welcome =
        NodeMessage { welcome: Some(convert::registered(connection.session.clone())), ..NodeMessage::default() };
    // There is room: it is the first.
    let _ = answers.try_send(Ok(welcome));
    let stream =
        WorkerStream { service, connection, answers, queued: VecDeque::new(), under_way: FuturesUnordered::new() };
    tokio::spawn(stream.serve(first, incoming));
    Ok(ReceiverStream::new(waiting))
}

/// Something of a message that takes time.
enum Work {
    Result(WorkerResult),
    Heartbeat(Vec<String>),
    TaskHeartbeat(TaskHeartbeatRequest),
}

struct WorkerStream<E: Environment> {
    service: Service<E>,
    connection: Connection,
    answers: Answers,
    /// What came with the last message and is not under way yet.
    queued: VecDeque<Work>,
    under_way: FuturesUnordered<BoxFuture<'static, Answer>>,
}

/// Why a stream ends.
enum End {
    /// The worker has said everything: answers still go out.
    Finished,
    /// Nobody listens any more.
    Gone,
    /// The worker hears why.
    Refused(Status),
}

impl<E: Environment> WorkerStream<E> {
    async fn serve(mut self, first: WorkerMessage, mut incoming: Streaming<WorkerMessage>) {
        let end = match self.take(first) {
            Err(end) => end,
            Ok(()) => self.until_the_end(&mut incoming).await,
        };
        let Self { connection, answers, mut queued, mut under_way, service } = self;
        // Only now goes back what was not received: results of the last message may name it.
        drop(connection);
        drop(incoming);
        if let End::Refused(status) = end {
            let _ = tokio::time::timeout(UNREAD_MAX, answers.send(Err(status))).await;
        }
        // Results that have arrived count, whether or not anybody hears it.
        loop {
            while under_way.len() < UNDER_WAY_MAX
                && let Some(work) = queued.pop_front()
            {
                if matches!(work, Work::Result(_)) {
                    under_way.push(carry_out(service.clone(), String::new(), work));
                }
            }
            let Some(answer) = under_way.next().await else { return };
            let message = collect(&mut under_way, answer, NodeMessage::default());
            if let Ok(message) = message {
                let _ = tokio::time::timeout(UNREAD_MAX, answers.send(Ok(message))).await;
            }
        }
    }

    async fn until_the_end(&mut self, incoming: &mut Streaming<WorkerMessage>) -> End {
        let mut deliveries = Vec::new();
        loop {
            self.begin();
            let reads = self.queued.is_empty() && self.under_way.len() < UNDER_WAY_MAX;
            tokio::select! {
                () = self.answers.closed() => return End::Gone,
                Some(answer) = self.under_way.next() => {
                    let message = match collect(&mut self.under_way, answer, NodeMessage::default()) {
                        Ok(message) => message,
                        Err(error) => return End::Refused(status(&error)),
                    };
                    if let Err(end) = self.send(message).await { return end }
                }
                count = self.connection.deliveries.recv_many(&mut deliveries, TOGETHER_MAX) => {
                    if count == 0 {
                        let message = "the session is over on this node; connect again";
                        return End::Refused(status(&Error::new(Code::UnknownSession, message)));
                    }
                    for message in bundle(deliveries.drain(..)) {
                        if let Err(end) = self.send(message).await { return end }
                    }
                }
                message = incoming.message(), if reads => match message {
                    Ok(Some(message)) => if let Err(end) = self.take(message) { return end },
                    Ok(None) => return End::Finished,
                    Err(below) => return End::Refused(from_below(&below)),
                }
            }
        }
    }

    /// Takes a message: slots and receipts at once, the rest is queued in its order.
    fn take(&mut self, message: WorkerMessage) -> Result<(), End> {
        if message.hello.is_some() {
            let error = Error::new(Code::InvalidRequest, "only the first message of a stream has a hello");
            return Err(End::Refused(status(&error)));
        }
        if message.slots > 0 {
            self.connection.offer_slots(message.slots);
        }
        if !message.receipts.is_empty() {
            self.connection.received(&message.receipts);
        }
        self.queued.extend(message.results.into_iter().map(Work::Result));
        self.queued.extend(message.heartbeat.map(|heartbeat| Work::Heartbeat(heartbeat.tokens)));
        self.queued.extend(message.task_heartbeats.into_iter().map(Work::TaskHeartbeat));
        Ok(())
    }

    /// Sets under way what fits.
    fn begin(&mut self) {
        while self.under_way.len() < UNDER_WAY_MAX
            && let Some(work) = self.queued.pop_front()
        {
            let session = self.connection.session.worker_session_id.clone();
            self.under_way.push(carry_out(self.service.clone(), session, work));
        }
    }

    async fn send(&mut self, message: NodeMessage) -> Result<(), End> {
        if message == NodeMessage::default() {
            return Ok(());
        }
        match tokio::time::timeout(UNREAD_MAX, self.answers.send(Ok(message))).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(End::Gone),
        }
    }
}

/// Puts what else is ready into one message with an answer.
fn collect(
    under_way: &mut FuturesUnordered<BoxFuture<'static, Answer>>,
    first: Answer,
    mut message: NodeMessage,
) -> Result<NodeMessage, Error> {
    let mut next = Some(first);
    while let Some(answer) = next {
        match answer {
            Answer::Ack(ack) => message.acks.push(ack),
            Answer::Cancel(tokens) => message.cancel.extend(tokens),
            Answer::Lost(error) => return Err(error),
        }
        let full = message.acks.len() + message.cancel.len() >= TOGETHER_MAX;
        next = if full { None } else { under_way.next().now_or_never().flatten() };
    }
    Ok(message)
}

fn carry_out<E: Environment>(service: Service<E>, session: String, work: Work) -> BoxFuture<'static, Answer> {
    match work {
        Work::Result(result) => async move { Answer::Ack(result_of(&service, result).await) }.boxed(),
        Work::Heartbeat(tokens) => async move {
            match service.heartbeat(CALLER, &session, Some(&tokens)).await {
                Ok(alive) => Answer::Cancel(alive.cancel),
                Err(error) if error.code == Code::UnknownSession => Answer::Lost(error),
                // The next one comes soon.
                Err(_) => Answer::Cancel(Vec::new()),
            }
        }
        .boxed(),
        Work::TaskHeartbeat(TaskHeartbeatRequest { token, details }) => async move {
            // What is no JSON is left out; that the worker lives counts all the same.
            let details = details.and_then(|details| payload("details", &details, "null").ok());
            match service.task_heartbeat(CALLER, &token, details).await {
                Ok(alive) if alive.cancel || !alive.accepted => Answer::Cancel(vec![token]),
                _ => Answer::Cancel(Vec::new()),
            }
        }
        .boxed(),
    }
}

async fn result_of<E: Environment>(service: &Service<E>, result: WorkerResult) -> Ack {
    let (token, answer) = match result.result {
        Some(Outcome::Complete(complete)) => {
            let token = complete.token.clone();
            let answer = match convert::complete(complete) {
                Ok(request) => service.complete(CALLER, request).await,
                Err(error) => Err(error),
            };
            (token, answer)
        }
        Some(Outcome::Fail(fail)) => {
            let token = fail.token.clone();
            let answer = match convert::fail(fail) {
                Ok(request) => service.fail(CALLER, request).await,
                Err(error) => Err(error),
            };
            (token, answer)
        }
        None => (String::new(), Err(Error::new(Code::InvalidRequest, "a result neither completes nor fails"))),
    };
    match answer {
        Ok(answer) => Ack { token, accepted: answer.accepted, reason: answer.reason, error_code: None },
        Err(error) => {
            let code = error.code.as_str().to_owned();
            Ack { token, accepted: false, reason: Some(error.message), error_code: Some(code) }
        }
    }
}

/// Deliveries as messages, each small enough for any client.
fn bundle(deliveries: impl Iterator<Item = Delivery>) -> Vec<NodeMessage> {
    let (mut messages, mut message, mut bytes) = (Vec::new(), NodeMessage::default(), 0);
    for delivery in deliveries {
        match delivery {
            Delivery::Task(task) => {
                let size = size_of_task(&task);
                if bytes > 0 && bytes + size > MESSAGE_BYTES_MAX {
                    messages.push(std::mem::take(&mut message));
                    bytes = 0;
                }
                bytes += size;
                message.tasks.push(convert::task(*task));
            }
            Delivery::Cancel(token) => message.cancel.push(token),
            Delivery::Drain => message.drain = true,
        }
    }
    messages.push(message);
    messages
}

fn size_of_task(task: &Task) -> usize {
    TASK_BYTES + task.input.len() + task.last_heartbeat_details.as_ref().map_or(0, workflow::value::Payload::len)
}
