//! One connection to a peer for all groups.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use orbit_proto::peer::{ClockReply, Frame, FrameBatch, FrameKind, Hello};
use prost::Message;
use tokio::sync::{mpsc, oneshot, watch};

use super::{Error, Incoming, Pipe, Roster, Transport, yield_once};
use crate::clock::Reading;
use crate::consensus::Runtime;
use crate::gate::Gated;
use crate::peer_clocks::{ASK_EVERY, PeerClocks};
use crate::types::{GroupId, NodeId, PeerAddress};

/// How many questions may wait to be sent.
const QUEUE: usize = 1024;
/// How many frames share a message at most.
const BATCH_FRAMES: usize = 128;
/// About how many bytes share a message at most.
const BATCH_BYTES: usize = 1 << 20;
/// How long connecting and the greeting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long to wait before connecting again.
const RECONNECT_AFTER: Duration = Duration::from_millis(50);
/// A connection on which answers are due and nothing comes for two of these is given up.
const SILENCE: Duration = Duration::from_secs(1);

/// The answer to a question, once it comes.
pub(super) type Answer = oneshot::Receiver<Result<Bytes, Error>>;

#[derive(Debug)]
struct Question {
    group: GroupId,
    kind: FrameKind,
    body: Bytes,
    reply: oneshot::Sender<Result<Bytes, Error>>,
}

/// The way to a peer. The connection is made when it is first needed, again after it broke, and goes with the last
/// clone.
#[derive(Debug, Clone)]
pub(super) struct PeerLink {
    questions: mpsc::Sender<Question>,
}

impl PeerLink {
    pub(super) fn start<RT: Runtime, T: Transport>(
        transport: Arc<T>,
        address: watch::Receiver<PeerAddress>,
        acquaintance: Acquaintance,
    ) -> Self {
        let (questions, waiting) = mpsc::channel(QUEUE);
        let link = Link { transport, address, acquaintance, refused: None };
        drop(RT::spawn(link.run::<RT>(waiting)));
        PeerLink { questions }
    }

    /// Sends a question. Questions of a group are sent in the order of these calls.
    pub(super) async fn ask(&self, group: GroupId, kind: FrameKind, body: Bytes) -> Result<Answer, Error> {
        let (reply, answer) = oneshot::channel();
        let question = Question { group, kind, body, reply };
        self.questions.send(question).await.map_err(|_| Error::Interrupted)?;
        Ok(answer)
    }
}

/// What it takes to get to know a peer.
#[derive(Clone)]
pub(crate) struct Acquaintance {
    /// What is said to it.
    pub(crate) hello: Hello,
    /// Who it was before. Gone once the node stops.
    pub(crate) roster: Weak<dyn Roster>,
    /// Whether it knows enough.
    pub(crate) gate: Gated,
    pub(crate) clocks: PeerClocks,
}

struct Link<T> {
    transport: Arc<T>,
    /// Where the peer is reached; it may move.
    address: watch::Receiver<PeerAddress>,
    acquaintance: Acquaintance,
    /// Why it was not spoken with the last time.
    refused: Option<String>,
}

impl<T: Transport> Link<T> {
    async fn run<RT: Runtime>(mut self, mut waiting: mpsc::Receiver<Question>) {
        while let Some(first) = waiting.recv().await {
            match self.connect::<RT>().await {
                Ok(pipe) => {
                    self.refused = None;
                    let connection = Connection::new(pipe, self.peer_clock());
                    connection.carry::<RT>(first, &mut waiting, &mut self.address).await;
                }
                Err(error) => {
                    self.note(&error);
                    let mut next = Some(first);
                    while let Some(question) = next {
                        // Who no longer waits does not need to know.
                        let _ = question.reply.send(Err(error.clone()));
                        next = waiting.try_recv().ok();
                    }
                    RT::sleep(RECONNECT_AFTER).await;
                }
            }
        }
    }

    /// Says why a peer is not spoken with: once, as long as it stays the same reason.
    fn note(&mut self, error: &Error) {
        let (node, address) = (self.acquaintance.hello.target_node_id, self.address.borrow().clone());
        match error {
            Error::Refused(_) | Error::Protocol(_) if self.refused.as_deref() != Some(&*error.to_string()) => {
                tracing::warn!(node, %address, %error, "a peer is not spoken with");
                self.refused = Some(error.to_string());
            }
            _ => tracing::debug!(node, %address, %error, "peer not reached"),
        }
    }

    async fn connect<RT: Runtime>(&mut self) -> Result<Pipe, Error> {
        let address = self.address.borrow_and_update().clone();
        let unreachable = |reason: &str| Error::Unreachable { address: address.clone(), reason: reason.to_owned() };
        let greeted = async {
            let mut pipe = self.transport.connect(&address).await?;
            let body = self.acquaintance.hello.encode_to_vec().into();
            let frame = Frame { group: 0, seq: 0, kind: FrameKind::Hello.into(), body };
            let greeting = FrameBatch { frames: vec![frame] };
            pipe.outgoing.send(greeting).await.map_err(|_| unreachable("it hung up"))?;
            let answer = pipe.incoming.next().await.ok_or_else(|| unreachable("it hung up"))??;
            let answer = answer.frames.into_iter().next().ok_or_else(|| Error::Protocol("an empty greeting".into()))?;
            match answer.kind() {
                FrameKind::Hello => self.accept(answer.body).map(|()| pipe),
                FrameKind::Refused => Err(Error::Refused(String::from_utf8_lossy(&answer.body).into_owned())),
                other => Err(Error::Protocol(format!("{} instead of a greeting", other.as_str_name()))),
            }
        };
        RT::timeout(CONNECT_TIMEOUT, greeted).await.unwrap_or_else(|_| Err(unreachable("no answer")))
    }

    fn peer_clock(&self) -> PeerClock {
        let Acquaintance { hello, clocks, .. } = &self.acquaintance;
        PeerClock { clocks: clocks.clone(), peer: NodeId(hello.target_node_id), asked: None }
    }

    fn accept(&self, answer: Bytes) -> Result<(), Error> {
        let theirs = Hello::decode(answer).map_err(|e| Error::Protocol(e.to_string()))?;
        let Acquaintance { hello, roster, gate, .. } = &self.acquaintance;
        if theirs.cluster != hello.cluster {
            return Err(Error::Refused("it belongs to another cluster".into()));
        }
        if theirs.node_id != hello.target_node_id {
            return Err(Error::Refused(format!("it is node {}", theirs.node_id)));
        }
        if let Some(reason) = gate.refuses_peer(&theirs) {
            return Err(Error::Refused(reason));
        }
        roster.upgrade().ok_or(Error::Interrupted)?.admit(&theirs)
    }
}

/// The question after the clock of the peer.
struct PeerClock {
    clocks: PeerClocks,
    peer: NodeId,
    /// The question under way, and when it was put.
    asked: Option<(u64, Reading)>,
}

/// A connection in use.
struct Connection {
    clock: PeerClock,
    outgoing: mpsc::Sender<FrameBatch>,
    incoming: Incoming,
    unanswered: BTreeMap<u64, oneshot::Sender<Result<Bytes, Error>>>,
    ready: Vec<Frame>,
    next_seq: u64,
    heard: bool,
}

impl Connection {
    fn new(pipe: Pipe, clock: PeerClock) -> Self {
        let Pipe { outgoing, incoming } = pipe;
        let unanswered = BTreeMap::new();
        Connection { clock, outgoing, incoming, unanswered, ready: Vec::new(), next_seq: 1, heard: true }
    }

    /// Carries questions and answers until the connection ends. Whoever still waits then, learns that.
    async fn carry<RT: Runtime>(
        mut self,
        first: Question,
        waiting: &mut mpsc::Receiver<Question>,
        address: &mut watch::Receiver<PeerAddress>,
    ) {
        self.ask_clock();
        self.take(first, waiting);
        let outgoing = self.outgoing.clone();
        let mut ask_clock = Box::pin(RT::sleep(ASK_EVERY));
        let mut silence = Box::pin(RT::sleep(SILENCE));
        loop {
            // Never wait for room to send without listening: the peer may be waiting for us to take its answers.
            tokio::select! {
                biased;
                message = self.incoming.next() => match message {
                    Some(Ok(message)) => self.answer(message),
                    Some(Err(error)) => return self.end(&error),
                    None => return self.end(&Error::Interrupted),
                },
                permit = outgoing.reserve(), if !self.ready.is_empty() => match permit {
                    Ok(permit) => permit.send(FrameBatch { frames: std::mem::take(&mut self.ready) }),
                    Err(_) => return self.end(&Error::Interrupted),
                },
                question = waiting.recv(), if self.ready.is_empty() => match question {
                    Some(question) => {
                        yield_once().await;
                        self.take(question, waiting);
                    }
                    None => return,
                },
                // The peer has moved. Fails once the node is gone, and then the questions end.
                Ok(()) = address.changed() => return self.end(&Error::Interrupted),
                () = &mut ask_clock => {
                    self.ask_clock();
                    ask_clock = Box::pin(RT::sleep(ASK_EVERY));
                }
                () = &mut silence => {
                    self.unanswered.retain(|_, reply| !reply.is_closed() || !self.heard);
                    if !self.heard && !self.unanswered.is_empty() {
                        return self.end(&Error::Interrupted);
                    }
                    self.heard = self.unanswered.is_empty();
                    if !self.heard {
                        // Some answers take long; that of a clock does not.
                        self.ask_clock();
                    }
                    silence = Box::pin(RT::sleep(SILENCE));
                },
            }
        }
    }

    /// Asks for the clock of the peer. An answer that is missing is missed by nobody.
    fn ask_clock(&mut self) {
        let seq = self.next_seq;
        self.next_seq += 1;
        self.clock.asked = Some((seq, self.clock.clocks.read()));
        self.ready.push(Frame { group: 0, seq, kind: FrameKind::Clock.into(), body: Bytes::new() });
    }

    /// Takes a question and those that wait behind it into the next message.
    fn take(&mut self, first: Question, waiting: &mut mpsc::Receiver<Question>) {
        let (mut next, mut size_bytes) = (Some(first), 0);
        while let Some(question) = next {
            size_bytes += question.body.len();
            let (group, seq) = (u32::from(question.group.get()), self.next_seq);
            self.next_seq += 1;
            self.unanswered.insert(seq, question.reply);
            self.ready.push(Frame { group, seq, kind: question.kind.into(), body: question.body });
            let full = self.ready.len() >= BATCH_FRAMES || size_bytes >= BATCH_BYTES;
            next = if full { None } else { waiting.try_recv().ok() };
        }
    }

    fn answer(&mut self, message: FrameBatch) {
        self.heard = true;
        for frame in message.frames {
            if let Some((_, sent)) = self.clock.asked.take_if(|(seq, _)| *seq == frame.seq) {
                // A peer that does not know the question refuses it.
                if let (FrameKind::Reply, Ok(reply)) = (frame.kind(), ClockReply::decode(frame.body)) {
                    self.clock.clocks.heard(self.clock.peer, sent, reply.wall_us);
                }
                continue;
            }
            let Some(reply) = self.unanswered.remove(&frame.seq) else { continue };
            let answer = match frame.kind() {
                FrameKind::Reply => Ok(frame.body),
                FrameKind::Refused => Err(Error::Refused(String::from_utf8_lossy(&frame.body).into_owned())),
                other => Err(Error::Protocol(format!("{} as an answer", other.as_str_name()))),
            };
            let _ = reply.send(answer);
        }
    }

    fn end(self, error: &Error) {
        for (_, reply) in self.unanswered {
            let _ = reply.send(Err(error.clone()));
        }
    }
}
