//! What a group asks of its peers.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use openraft::async_runtime::Instant;
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable};
use openraft::network::{RPCOption, RPCTypes, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendResult, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::{OptionalSend, Snapshot};
use orbit_proto::peer::{FrameKind, Hello, SnapshotChunk, SnapshotOpening, snapshot_reply};
use orbit_proto::store;
use tokio::sync::{mpsc, watch};

use super::link::{Acquaintance, Answer, PeerLink};
use super::{Error, Transport, wire};
use crate::consensus::{Committed, RaftEntry, RaftLogId, RaftVote, Runtime, Types, entry_bytes, vote_in, vote_out};
use crate::disk::{ImageBody, StateDisk};
use crate::state_store::SnapshotData;
use crate::types::{GroupId, NodeId, PeerAddress};

/// How many appends of a group may be under way to a peer.
const PIPELINE: usize = 32;
/// About how many bytes of entries one frame carries at most.
const FRAME_BYTES: usize = 4 << 20;
/// How long an append may take before its stream is given up. A dead connection is noticed sooner.
const APPEND_TIMEOUT: Duration = Duration::from_secs(5);
/// How large a piece of a snapshot is.
const CHUNK_BYTES: usize = 1 << 20;
/// How many pieces may be under way.
const CHUNKS_AHEAD: usize = 4;

/// The links of a node to its peers, shared by its groups.
pub(crate) struct Peers<T> {
    transport: Arc<T>,
    acquaintance: Acquaintance,
    links: Mutex<BTreeMap<NodeId, (watch::Sender<PeerAddress>, PeerLink)>>,
    /// Where the layers above say that peers are reached. It goes before what the groups remember.
    book: Mutex<BTreeMap<NodeId, PeerAddress>>,
}

impl<T: Transport> Peers<T> {
    pub(crate) fn new(transport: T, acquaintance: Acquaintance) -> Self {
        Peers { transport: Arc::new(transport), acquaintance, links: Mutex::default(), book: Mutex::default() }
    }

    pub(crate) fn transport(&self) -> &Arc<T> {
        &self.transport
    }

    fn hello_to(&self, target: NodeId) -> Hello {
        Hello { target_node_id: target.0, ..self.acquaintance.hello.clone() }
    }

    /// The link to a peer, which goes where the peer is reached now.
    pub(super) fn link<RT: Runtime>(&self, target: NodeId, address: &PeerAddress) -> PeerLink {
        let address = self.address(target).unwrap_or_else(|| address.clone());
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, link)) = links.get(&target) {
            turn(known, address);
            return link.clone();
        }
        let (known, address) = watch::channel(address);
        let acquaintance = Acquaintance { hello: self.hello_to(target), ..self.acquaintance.clone() };
        let link = PeerLink::start::<RT, T>(Arc::clone(&self.transport), address, acquaintance);
        links.insert(target, (known, link.clone()));
        link
    }

    /// Where a peer is reached, as the layers above say.
    pub(super) fn address(&self, of: NodeId) -> Option<PeerAddress> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner).get(&of).cloned()
    }

    /// The layers above say where peers are reached; links to those that have moved are made anew.
    pub(super) fn reached_at(&self, addresses: BTreeMap<NodeId, PeerAddress>) {
        let links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        for (node, (known, _)) in links.iter() {
            if let Some(address) = addresses.get(node) {
                turn(known, address.clone());
            }
        }
        drop(links);
        *self.book.lock().unwrap_or_else(PoisonError::into_inner) = addresses;
    }
}

fn turn(known: &watch::Sender<PeerAddress>, to: PeerAddress) {
    known.send_if_modified(|known| {
        *known != to && {
            *known = to;
            true
        }
    });
}

/// Makes the clients of one group.
pub(crate) struct Clients<T, D> {
    pub(crate) group: GroupId,
    pub(crate) peers: Arc<Peers<T>>,
    pub(crate) _disk: std::marker::PhantomData<fn() -> D>,
}

impl<RT: Runtime, T: Transport, D: StateDisk> RaftNetworkFactory<Types<RT>> for Clients<T, D> {
    type Network = Client<T, D>;

    async fn new_client(&mut self, target: NodeId, node: &PeerAddress) -> Client<T, D> {
        Client {
            group: self.group,
            me: NodeId(self.peers.acquaintance.hello.node_id),
            target,
            address: node.clone(),
            link: self.peers.link::<RT>(target, node),
            peers: Arc::clone(&self.peers),
            _disk: std::marker::PhantomData,
        }
    }
}

/// What one group asks of one peer.
pub(crate) struct Client<T, D> {
    group: GroupId,
    me: NodeId,
    target: NodeId,
    address: PeerAddress,
    link: PeerLink,
    peers: Arc<Peers<T>>,
    _disk: std::marker::PhantomData<fn() -> D>,
}

fn rpc_error<RT: Runtime>(error: &Error) -> RPCError<Types<RT>> {
    match error {
        Error::Unreachable { .. } | Error::Refused(_) => RPCError::Unreachable(Unreachable::new(error)),
        Error::Interrupted | Error::Protocol(_) => RPCError::Network(NetworkError::new(error)),
    }
}

impl<T: Transport, D: StateDisk> Client<T, D> {
    fn timeout<RT: Runtime>(&self, action: RPCTypes, timeout: Duration) -> Timeout<Types<RT>> {
        Timeout { action, id: self.me, target: self.target, timeout }
    }

    async fn ask<RT: Runtime>(
        &self,
        kind: FrameKind,
        action: RPCTypes,
        body: Bytes,
        option: &RPCOption,
    ) -> Result<Bytes, RPCError<Types<RT>>> {
        let asked = async {
            let answer = self.link.ask(self.group, kind, body).await?;
            answer.await.unwrap_or(Err(Error::Interrupted))
        };
        match RT::timeout(option.soft_ttl(), asked).await {
            Ok(answer) => answer.map_err(|e| rpc_error(&e)),
            Err(_) => Err(RPCError::Timeout(self.timeout(action, option.soft_ttl()))),
        }
    }

    /// Sends an append, in several frames if it is large, and returns what awaits the answers.
    async fn start_append<RT: Runtime>(&self, request: AppendEntriesRequest<Types<RT>>) -> Result<Appending, Error> {
        let AppendEntriesRequest { vote, mut prev_log_id, entries, leader_commit } = request;
        let first_prev = prev_log_id;
        let mut answers = VecDeque::new();
        let mut rest = entries.as_slice();
        loop {
            let (now, later) = rest.split_at(fitting(rest));
            let last = now.last().map(|e| e.log_id).or(prev_log_id);
            let body = wire::append_out(&vote, prev_log_id, now, leader_commit);
            answers.push_back((last, self.link.ask(self.group, FrameKind::Append, body).await?));
            (prev_log_id, rest) = (last, later);
            if rest.is_empty() {
                return Ok(Appending { prev: first_prev, answers });
            }
        }
    }
}

/// How many entries fit into one frame: at least one, if there is one.
fn fitting(entries: &[RaftEntry]) -> usize {
    let mut size_bytes = 0;
    let fit = entries.iter().take_while(|entry| {
        let fits = size_bytes < FRAME_BYTES;
        size_bytes += entry_bytes(entry);
        fits
    });
    fit.count()
}

/// An append under way.
struct Appending {
    prev: Option<RaftLogId>,
    answers: VecDeque<(Option<RaftLogId>, Answer)>,
}

impl Appending {
    /// The outcome of the whole: that of the first frame that did not go through, or of the last one. May be dropped
    /// and called again.
    async fn outcome<RT: Runtime>(&mut self) -> Result<StreamAppendResult<Types<RT>>, Error> {
        while let Some((last, answer)) = self.answers.front_mut() {
            let last = *last;
            let body = answer.await.unwrap_or(Err(Error::Interrupted))?;
            let reply = wire::append_reply_in::<RT>(body, last)?;
            self.answers.pop_front();
            if !reply.is_success() || self.answers.is_empty() {
                // A conflict names the entry before the first one, and there is none to conflict at the beginning.
                if reply.is_conflict() && self.prev.is_none() {
                    return Err(Error::Protocol("a conflict before the first entry".into()));
                }
                return Ok(reply.into_stream_result(self.prev, last));
            }
        }
        Err(Error::Interrupted)
    }
}

/// Appends of one group on their way to one peer, in order.
struct Pipeline<'a, RT: Runtime, T, D, S> {
    client: &'a Client<T, D>,
    input: Option<S>,
    under_way: VecDeque<(Appending, RT::Instant)>,
}

type AppendItem<RT> = Result<StreamAppendResult<Types<RT>>, RPCError<Types<RT>>>;

impl<RT, T, D, S> Pipeline<'_, RT, T, D, S>
where
    RT: Runtime,
    T: Transport,
    D: StateDisk,
    S: Stream<Item = AppendEntriesRequest<Types<RT>>> + Unpin + Send,
{
    /// The next outcome, in the order of the requests; after one that is not a success there are no more.
    async fn next(&mut self) -> Option<AppendItem<RT>> {
        loop {
            let room = self.under_way.len() < PIPELINE;
            let Self { client, input, under_way } = self;
            tokio::select! {
                biased;
                outcome = front::<RT>(under_way), if !under_way.is_empty() => {
                    under_way.pop_front();
                    let outcome = outcome.unwrap_or_else(|timeout| {
                        Err(RPCError::Timeout(client.timeout(RPCTypes::AppendEntries, timeout)))
                    });
                    if !matches!(outcome, Ok(Ok(_))) {
                        *input = None;
                        under_way.clear();
                    }
                    return Some(outcome);
                }
                request = next_of(input), if room && input.is_some() => match request {
                    Some(request) => match client.start_append::<RT>(request).await {
                        Ok(appending) => under_way.push_back((appending, RT::Instant::now() + APPEND_TIMEOUT)),
                        Err(error) => {
                            *input = None;
                            under_way.clear();
                            return Some(Err(rpc_error(&error)));
                        }
                    },
                    None => *input = None,
                },
                else => return None,
            }
        }
    }
}

async fn next_of<S: Stream + Unpin>(input: &mut Option<S>) -> Option<S::Item> {
    match input {
        Some(input) => input.next().await,
        None => None,
    }
}

async fn front<RT: Runtime>(under_way: &mut VecDeque<(Appending, RT::Instant)>) -> Result<AppendItem<RT>, Duration> {
    let Some((appending, deadline)) = under_way.front_mut() else { return std::future::pending().await };
    match RT::timeout_at(*deadline, appending.outcome::<RT>()).await {
        Ok(outcome) => Ok(outcome.map_err(|e| rpc_error(&e))),
        Err(_) => Err(APPEND_TIMEOUT),
    }
}

impl<RT: Runtime, T: Transport, D: StateDisk> RaftNetworkV2<Types<RT>> for Client<T, D> {
    type SnapshotData = SnapshotData<D>;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Types<RT>>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types<RT>>, RPCError<Types<RT>>> {
        let last = rpc.entries.last().map(|e| e.log_id).or(rpc.prev_log_id);
        let body = wire::append_out(&rpc.vote, rpc.prev_log_id, &rpc.entries, rpc.leader_commit);
        let body = self.ask::<RT>(FrameKind::Append, RPCTypes::AppendEntries, body, &option).await?;
        wire::append_reply_in(body, last).map_err(|e| rpc_error(&e))
    }

    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        _option: RPCOption,
    ) -> BoxFuture<'s, Result<BoxStream<'s, AppendItem<RT>>, RPCError<Types<RT>>>>
    where
        S: Stream<Item = AppendEntriesRequest<Types<RT>>> + OptionalSend + Unpin + 'static,
    {
        let pipeline = Pipeline::<RT, T, D, S> { client: self, input: Some(input), under_way: VecDeque::new() };
        let outcomes = futures::stream::unfold(pipeline, |mut pipeline| async move {
            pipeline.next().await.map(|outcome| (outcome, pipeline))
        });
        Box::pin(async move { Ok(outcomes.boxed()) })
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<Types<RT>>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types<RT>>, RPCError<Types<RT>>> {
        let body = wire::vote_request_out(&rpc);
        let body = self.ask::<RT>(FrameKind::Vote, RPCTypes::Vote, body, &option).await?;
        wire::vote_reply_in::<RT>(body).map_err(|e| rpc_error(&e))
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<Types<RT>>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types<RT>>, RPCError<Types<RT>>> {
        let body = wire::vote_request_out(&rpc);
        let body = self.ask::<RT>(FrameKind::PreVote, RPCTypes::Vote, body, &option).await?;
        wire::vote_reply_in::<RT>(body).map_err(|e| rpc_error(&e))
    }

    async fn transfer_leader(
        &mut self,
        req: TransferLeaderRequest<Types<RT>>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<Types<RT>>, RPCError<Types<RT>>> {
        let body = wire::transfer_out(&req);
        let body = self.ask::<RT>(FrameKind::Transfer, RPCTypes::TransferLeader, body, &option).await?;
        wire::transfer_reply_in::<RT>(body, &req).map_err(|e| rpc_error(&e))
    }

    async fn full_snapshot(
        &mut self,
        vote: RaftVote,
        snapshot: Snapshot<Committed, NodeId, PeerAddress, SnapshotData<D>>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<Types<RT>>, StreamingError<Types<RT>>> {
        let (group, target) = (self.group, self.target);
        let unreachable = |error: &dyn std::error::Error| {
            tracing::warn!(%group, %target, %error, "a snapshot is not sent; it is tried again");
            StreamingError::Unreachable(Unreachable::from_string(error))
        };
        let (applied, body) = snapshot.snapshot.into_body(self.group).await.map_err(|e| unreachable(&e))?;
        // A second for every MiB, on top of what installing may take.
        let timeout = option.soft_ttl() + Duration::from_secs(body.len_bytes() >> 20);
        let sent = self.send_snapshot(&vote, applied, body);
        tokio::select! {
            biased;
            closed = cancel => Err(StreamingError::Closed(closed)),
            sent = RT::timeout(timeout, sent) => match sent {
                Ok(Ok(vote)) => Ok(SnapshotResponse::new(vote)),
                Ok(Err(error)) => Err(unreachable(&error)),
                Err(_) => Err(StreamingError::Timeout(self.timeout(RPCTypes::InstallSnapshot, timeout))),
            },
        }
    }
}

impl<T: Transport, D: StateDisk> Client<T, D> {
    /// Sends an image and returns the vote of the peer once it is installed there.
    async fn send_snapshot(&self, vote: &RaftVote, applied: store::Applied, body: D::Body) -> Result<RaftVote, Error> {
        let hello = self.peers.hello_to(self.target);
        let header = store::SnapshotHeader {
            format: D::IMAGE_FORMAT,
            group: u32::from(self.group.get()),
            applied: Some(applied),
            body_bytes: body.len_bytes(),
            body_xxh3: body.xxh3().to_be_bytes().to_vec().into(),
            cluster: hello.cluster.clone(),
        };
        let opening = SnapshotOpening { hello: Some(hello), vote: Some(vote_out(vote)), header: Some(header) };
        let (chunks, outgoing) = mpsc::channel(CHUNKS_AHEAD);
        let produce = async {
            let opening = SnapshotChunk { opening: Some(opening), data: Bytes::new() };
            // A receiver that is gone has its reasons, and the answer tells them.
            let mut taken = chunks.send(opening).await.is_ok();
            let mut offset = 0;
            while taken && offset < body.len_bytes() {
                let data = body.read_at(offset, CHUNK_BYTES).map_err(|e| Error::Refused(e.to_string()))?;
                offset += data.len() as u64;
                taken = chunks.send(SnapshotChunk { opening: None, data }).await.is_ok();
            }
            drop(chunks);
            Ok(())
        };
        let address = self.peers.address(self.target).unwrap_or_else(|| self.address.clone());
        let (reply, produced) = futures::join!(self.peers.transport.send_snapshot(&address, outgoing), produce);
        produced?;
        match reply?.outcome {
            Some(snapshot_reply::Outcome::Vote(vote)) => Ok(vote_in(vote)),
            Some(snapshot_reply::Outcome::Refused(reason)) => Err(Error::Refused(reason)),
            None => Err(Error::Protocol("an empty answer to a snapshot".into())),
        }
    }
}
