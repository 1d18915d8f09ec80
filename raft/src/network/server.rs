//! What a node answers its peers.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{BoxStream, FuturesOrdered};
use futures::{FutureExt, StreamExt};
use openraft::{AsyncRuntime, Snapshot};
use orbit_proto::peer::{self, Frame, FrameBatch, FrameKind, Hello, SnapshotChunk, SnapshotReply, snapshot_reply};
use orbit_proto::store;
use prost::Message;
use tokio::sync::{Semaphore, mpsc, watch};

use super::told::Told;
use super::{Answers, Error, Incoming, PROTOCOL, Roster, wire, yield_once};
use crate::consensus::{vote_in, vote_out};
use crate::disk::{ImageBody, ImageWriter, StateDisk};
use crate::gate::Gated;
use crate::group::Raft;
use crate::node::Environment;
use crate::peer_clocks::PeerClocks;
use crate::state_store::{SnapshotData, machine_meta};
use crate::types::{GroupId, NodeId};

/// How many appends of one group may wait on one connection.
const INBOX: usize = 128;
/// How many appends of one group are handed to it before the first is answered.
const INBOX_UNDER_WAY: usize = 64;
/// How many answers may wait on one connection.
const REPLIES: usize = 1024;
/// How many votes and the like may be worked on at once per connection.
const TASKS: usize = 256;
/// How many calls may be worked on at once per connection. Some of them wait for long.
const CALLS: usize = 16_384;
/// How many answers share a message at most.
const BATCH_FRAMES: usize = 128;
/// How long a peer may take with its greeting.
const GREETING_TIMEOUT: Duration = Duration::from_secs(5);

/// Answers the peers of a node, for all its groups.
pub struct PeerServer<E: Environment> {
    hello: Hello,
    clocks: PeerClocks,
    gate: Gated,
    /// Which strangers were named in the log lately.
    told: Told,
    /// What connections reach through this. A server may outlive its node, held by connections that have not noticed
    /// yet, so the node takes it away when it stops.
    open: RwLock<Option<Open<E>>>,
    /// Ends all connections when it is dropped or set.
    closing: watch::Sender<bool>,
}

struct Open<E: Environment> {
    groups: BTreeMap<GroupId, Port<E>>,
    /// The layers above, once they answer.
    answers: Option<Arc<dyn Answers>>,
    state: E::StateDisk,
    roster: Arc<dyn Roster>,
}

impl<E: Environment> std::fmt::Debug for PeerServer<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PeerServer").field("hello", &self.hello).finish_non_exhaustive()
    }
}

/// The way to one group.
type Port<E> = Raft<E>;

fn refused(frame: &Frame, why: impl ToString) -> Frame {
    Frame { kind: FrameKind::Refused.into(), body: Bytes::from(why.to_string()), ..*frame }
}

fn replied(frame: &Frame, body: Bytes) -> Frame {
    Frame { kind: FrameKind::Reply.into(), body, ..*frame }
}

impl<E: Environment> PeerServer<E> {
    pub(crate) fn new(
        hello: Hello,
        state: E::StateDisk,
        roster: Arc<dyn Roster>,
        gate: Gated,
        clocks: PeerClocks,
    ) -> Self {
        let open = RwLock::new(Some(Open { groups: BTreeMap::new(), answers: None, state, roster }));
        PeerServer { hello, clocks, gate, told: Told::default(), open, closing: watch::Sender::new(false) }
    }

    pub(crate) fn add(&self, group: GroupId, port: Port<E>) {
        if let Some(open) = self.open.write().unwrap_or_else(PoisonError::into_inner).as_mut() {
            open.groups.insert(group, port);
        }
    }

    /// From now on the layers above answer.
    pub(crate) fn answer_with(&self, answers: Arc<dyn Answers>) {
        if let Some(open) = self.open.write().unwrap_or_else(PoisonError::into_inner).as_mut() {
            open.answers = Some(answers);
        }
    }

    fn answers(&self) -> Result<Arc<dyn Answers>, Error> {
        let early = || Error::Refused("this node is starting".into());
        self.with_open(|open| open.answers.clone().ok_or_else(early))
    }

    /// Answers a node that has not greeted.
    pub(crate) async fn introduce(&self, question: Bytes) -> Result<Bytes, Error> {
        Ok(self.answers()?.introduce(question).await)
    }

    /// Answers nothing any more and lets go of everything.
    pub(crate) fn close(&self) {
        *self.open.write().unwrap_or_else(PoisonError::into_inner) = None;
        self.closing.send_replace(true);
    }

    fn with_open<R>(&self, use_it: impl FnOnce(&Open<E>) -> Result<R, Error>) -> Result<R, Error> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        use_it(open.as_ref().ok_or_else(|| Error::Refused("this node is stopping".into()))?)
    }

    fn port(&self, group: u32) -> Result<(GroupId, Port<E>), Error> {
        let id = u16::try_from(group).ok().and_then(GroupId::new);
        let id = id.ok_or_else(|| Error::Protocol(format!("{group} is no group")))?;
        self.with_open(|open| match open.groups.get(&id) {
            Some(port) => Ok((id, port.clone())),
            None => Err(Error::Refused(format!("group {id} is not here"))),
        })
    }

    /// Whether a peer is one of ours and means us.
    fn admit(&self, theirs: &Hello) -> Result<(), Error> {
        let reason = if theirs.protocol != PROTOCOL {
            format!("it speaks version {} of the protocol, this node {PROTOCOL}", theirs.protocol)
        } else if theirs.cluster != self.hello.cluster {
            "this node belongs to another cluster".to_owned()
        } else if theirs.target_node_id != self.hello.node_id {
            format!("this is node {}, not {}", self.hello.node_id, theirs.target_node_id)
        } else if let Some(reason) = self.gate.refuses_peer(theirs) {
            reason
        } else {
            return self.with_open(|open| open.roster.admit(theirs));
        };
        Err(Error::Refused(reason))
    }

    /// Names a stranger in the log, who may come again as often as it likes.
    fn say(&self, error: &Error) {
        if self.told.is_news(&error.to_string(), self.clocks.read().monotonic) {
            tracing::warn!(%error, "a connection from another node is refused; said once a minute at most");
        }
    }

    /// Serves one connection until it ends.
    pub async fn exchange(self: Arc<Self>, mut incoming: Incoming, outgoing: mpsc::Sender<FrameBatch>) {
        let (replies, waiting) = mpsc::channel(REPLIES);
        drop(E::Runtime::spawn(send_replies(waiting, outgoing)));
        let greeting = E::Runtime::timeout(GREETING_TIMEOUT, incoming.next()).await;
        let Ok(Some(Ok(greeting))) = greeting else { return };
        let mut frames = greeting.frames.into_iter();
        let Some(hello) = frames.next() else { return };
        let admitted = match hello.kind() {
            FrameKind::Hello => wire::read(hello.body.clone()).and_then(|theirs| self.admit(&theirs)),
            other => Err(Error::Protocol(format!("{} instead of a greeting", other.as_str_name()))),
        };
        let peer = wire::read::<Hello>(hello.body.clone()).map_or(NodeId(0), |theirs| NodeId(theirs.node_id));
        if let Err(error) = admitted {
            self.say(&error);
            let _ = replies.send(refused(&hello, error)).await;
            return;
        }
        let mine = Frame { body: self.hello.encode_to_vec().into(), ..hello };
        if replies.send(mine).await.is_err() {
            return;
        }
        let mut session = Session {
            server: self,
            peer,
            inboxes: BTreeMap::new(),
            tasks: Arc::new(Semaphore::new(TASKS)),
            calls: Arc::new(Semaphore::new(CALLS)),
            replies,
        };
        for frame in frames {
            session.take(frame).await;
        }
        let mut closing = session.server.closing.subscribe();
        loop {
            let message = tokio::select! {
                biased;
                _ = closing.wait_for(|closing| *closing) => return,
                message = incoming.next() => message,
            };
            let Some(Ok(message)) = message else { return };
            for frame in message.frames {
                session.take(frame).await;
            }
        }
    }

    /// Takes in a snapshot and installs it.
    pub async fn snapshot(&self, mut chunks: BoxStream<'static, Result<SnapshotChunk, Error>>) -> SnapshotReply {
        let outcome = match self.take_snapshot(&mut chunks).await {
            Ok(vote) => snapshot_reply::Outcome::Vote(vote),
            Err(error) => {
                tracing::warn!(%error, "a snapshot is not installed");
                snapshot_reply::Outcome::Refused(error.to_string())
            }
        };
        SnapshotReply { outcome: Some(outcome) }
    }

    async fn take_snapshot(
        &self,
        chunks: &mut BoxStream<'static, Result<SnapshotChunk, Error>>,
    ) -> Result<store::Vote, Error> {
        let missing = || Error::Protocol("a snapshot begins with its header".into());
        let first = chunks.next().await.ok_or_else(missing)??;
        let opening = first.opening.ok_or_else(missing)?;
        self.admit(&opening.hello.ok_or_else(missing)?)?;
        let header = opening.header.ok_or_else(missing)?;
        let vote = vote_in(opening.vote.ok_or_else(missing)?);
        let (_, port) = self.port(header.group)?;
        if header.format != E::StateDisk::IMAGE_FORMAT || header.cluster != self.hello.cluster {
            return Err(Error::Refused(format!("this node does not take snapshots of format {}", header.format)));
        }
        tracing::info!(group = header.group, bytes = header.body_bytes, "a snapshot begins to arrive");
        let refused = |e: &dyn std::fmt::Display| Error::Refused(e.to_string());
        let mut image = self.with_open(|open| open.state.receive().map_err(|e| refused(&e)))?;
        let mut left = header.body_bytes;
        let mut data = first.data;
        loop {
            left = left.checked_sub(data.len() as u64).ok_or_else(|| Error::Protocol("too much of it".into()))?;
            image.append(&data).map_err(|e| refused(&e))?;
            match chunks.next().await {
                Some(chunk) => data = chunk?.data,
                None => break,
            }
        }
        let body = image.finish().map_err(|e| refused(&e))?;
        if left != 0 || body.xxh3().to_be_bytes() != *header.body_xxh3 {
            return Err(Error::Refused("the snapshot did not arrive as it was sent".into()));
        }
        let applied = header.applied.ok_or_else(missing)?;
        let meta = machine_meta(&applied).map_err(|e| refused(&e))?;
        let snapshot = Snapshot { meta, snapshot: SnapshotData::received(applied, body) };
        let response = port.install_full_snapshot(vote, snapshot).await.map_err(|e| refused(&e))?;
        tracing::info!(group = header.group, bytes = header.body_bytes, "a snapshot is installed");
        Ok(vote_out(&response.vote))
    }
}

/// Frames that were answered together go out together.
async fn send_replies(mut waiting: mpsc::Receiver<Frame>, outgoing: mpsc::Sender<FrameBatch>) {
    let mut frames = Vec::with_capacity(1);
    while waiting.recv_many(&mut frames, 1).await > 0 {
        yield_once().await;
        while frames.len() < BATCH_FRAMES
            && let Ok(frame) = waiting.try_recv()
        {
            frames.push(frame);
        }
        if outgoing.send(FrameBatch { frames: std::mem::take(&mut frames) }).await.is_err() {
            return;
        }
    }
}

/// One connection after its greeting.
struct Session<E: Environment> {
    server: Arc<PeerServer<E>>,
    peer: NodeId,
    inboxes: BTreeMap<GroupId, mpsc::Sender<Frame>>,
    tasks: Arc<Semaphore>,
    calls: Arc<Semaphore>,
    replies: mpsc::Sender<Frame>,
}

impl<E: Environment> Session<E> {
    async fn take(&mut self, frame: Frame) {
        let question = Frame { body: Bytes::new(), ..frame };
        let taken = match frame.kind() {
            FrameKind::Append => self.append(frame),
            FrameKind::Clock => {
                let body = wire::clock_out(self.server.clocks.read());
                let _ = self.replies.send(replied(&question, body)).await;
                return;
            }
            FrameKind::Vote | FrameKind::PreVote | FrameKind::Transfer => self.spawn(frame),
            FrameKind::Call => self.call(frame),
            other => Err(Error::Protocol(format!("{} is no question", other.as_str_name()))),
        };
        if let Err(error) = taken {
            let _ = self.replies.send(refused(&question, error)).await;
        }
    }

    /// Appends of a group go through one inbox, which keeps their order.
    fn append(&mut self, frame: Frame) -> Result<(), Error> {
        let (group, port) = self.server.port(frame.group)?;
        let replies = &self.replies;
        let inbox = self.inboxes.entry(group).or_insert_with(|| {
            let (inbox, frames) = mpsc::channel(INBOX);
            drop(E::Runtime::spawn(answer_appends::<E>(port, frames, replies.clone())));
            inbox
        });
        inbox.try_send(frame).map_err(|e| match e {
            mpsc::error::TrySendError::Full(_) => Error::Refused(format!("group {group} has too much to append")),
            mpsc::error::TrySendError::Closed(_) => Error::Refused(format!("group {group} has stopped")),
        })
    }

    fn call(&self, frame: Frame) -> Result<(), Error> {
        let answers = self.server.answers()?;
        let permit = Arc::clone(&self.calls).try_acquire_owned();
        let permit = permit.map_err(|_| Error::Refused("this node has too much to answer".into()))?;
        let (peer, replies) = (self.peer, self.replies.clone());
        drop(E::Runtime::spawn(async move {
            let question = Frame { body: Bytes::new(), ..frame };
            // Whoever no longer waits is not asked: what was begun is finished.
            let body = answers.call(peer, frame.body).await;
            let _ = replies.send(replied(&question, body)).await;
            drop(permit);
        }));
        Ok(())
    }

    fn spawn(&self, frame: Frame) -> Result<(), Error> {
        let (_, port) = self.server.port(frame.group)?;
        let permit = Arc::clone(&self.tasks).try_acquire_owned();
        let permit = permit.map_err(|_| Error::Refused("this node has too much to answer".into()))?;
        let (me, replies) = (NodeId(self.server.hello.node_id), self.replies.clone());
        drop(E::Runtime::spawn(async move {
            let question = Frame { body: Bytes::new(), ..frame };
            let answer = match answer::<E>(me, &port, frame).await {
                Ok(body) => replied(&question, body),
                Err(error) => refused(&question, error),
            };
            let _ = replies.send(answer).await;
            drop(permit);
        }));
        Ok(())
    }
}

async fn answer<E: Environment>(me: NodeId, port: &Port<E>, frame: Frame) -> Result<Bytes, Error> {
    let stopped = |e: &dyn std::fmt::Display| Error::Refused(e.to_string());
    match frame.kind() {
        FrameKind::Vote => {
            let request = wire::vote_request_in::<E::Runtime>(frame.body)?;
            Ok(wire::vote_reply_out(&port.vote(request).await.map_err(|e| stopped(&e))?))
        }
        FrameKind::PreVote => {
            let request = wire::vote_request_in::<E::Runtime>(frame.body)?;
            Ok(wire::vote_reply_out(&port.pre_vote(request).await.map_err(|e| stopped(&e))?))
        }
        FrameKind::Transfer => {
            let request = wire::transfer_in::<E::Runtime>(frame.body)?;
            tracing::debug!(node = %me, "leadership offered");
            Ok(wire::transfer_reply_out(&port.handle_transfer_leader(request).await.map_err(|e| stopped(&e))?))
        }
        other => Err(Error::Protocol(format!("{} is no question", other.as_str_name()))),
    }
}

/// Hands the appends of one group to it in order, many before the first is answered.
async fn answer_appends<E: Environment>(
    port: Port<E>,
    mut frames: mpsc::Receiver<Frame>,
    replies: mpsc::Sender<Frame>,
) {
    let mut under_way = FuturesOrdered::new();
    loop {
        let reply = tokio::select! {
            biased;
            Some(reply) = under_way.next(), if !under_way.is_empty() => reply,
            frame = frames.recv(), if under_way.len() < INBOX_UNDER_WAY => match frame {
                Some(frame) => {
                    // The first poll puts it into the queue of the group, and polls come in the order of pushes.
                    under_way.push_back(append::<E>(port.clone(), frame).boxed());
                    continue;
                }
                None => return,
            },
        };
        if replies.send(reply).await.is_err() {
            return;
        }
    }
}

async fn append<E: Environment>(port: Port<E>, frame: Frame) -> Frame {
    let question = Frame { body: Bytes::new(), ..frame };
    let request = wire::read::<peer::AppendRequest>(frame.body).and_then(wire::append_in::<E::Runtime>);
    let request = match request {
        Ok(request) => request,
        Err(error) => return refused(&question, error),
    };
    let prev = request.prev_log_id;
    let last = request.entries.last().map(|e| e.log_id).or(prev);
    match port.append_entries(request).await {
        Ok(reply) => replied(&question, wire::append_reply_out(reply, prev, last)),
        Err(error) => refused(&question, error),
    }
}
