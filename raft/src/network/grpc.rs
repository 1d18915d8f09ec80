//! gRPC between nodes.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt, TryStreamExt};
use orbit_proto::peer::peer_service_client::PeerServiceClient;
use orbit_proto::peer::peer_service_server::{PeerService, PeerServiceServer};
use orbit_proto::peer::{FrameBatch, Introduction, SnapshotChunk, SnapshotReply};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status, Streaming};

use super::{Error, MESSAGE_BYTES_MAX, PIPE_MESSAGES, PeerServer, Pipe, Transport};
use crate::node::Environment;
use crate::types::PeerAddress;

/// How much may be under way on a stream before the receiver has taken it, in bytes.
const WINDOW: u32 = 8 << 20;

/// Connects over gRPC without encryption.
#[derive(Debug, Clone, Copy, Default)]
pub struct GrpcTransport;

impl GrpcTransport {
    async fn client(&self, address: &PeerAddress) -> Result<PeerServiceClient<Channel>, Error> {
        let unreachable =
            |e: &dyn std::fmt::Display| Error::Unreachable { address: address.clone(), reason: e.to_string() };
        let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(|e| unreachable(&e))?;
        let endpoint = endpoint
            .connect_timeout(Duration::from_secs(1))
            .tcp_nodelay(true)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(2 * WINDOW)
            .http2_keep_alive_interval(Duration::from_secs(2))
            .keep_alive_timeout(Duration::from_secs(2));
        let channel = endpoint.connect().await.map_err(|e| unreachable(&e))?;
        Ok(PeerServiceClient::new(channel)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX))
    }
}

fn status(status: &Status) -> Error {
    Error::Protocol(status.to_string())
}

impl Transport for GrpcTransport {
    async fn connect(&self, address: &PeerAddress) -> Result<Pipe, Error> {
        let mut client = self.client(address).await?;
        let (outgoing, frames) = mpsc::channel(PIPE_MESSAGES);
        let response = client.exchange(ReceiverStream::new(frames)).await.map_err(|e| status(&e))?;
        let incoming = response.into_inner().map_err(|e| status(&e)).boxed();
        Ok(Pipe { outgoing, incoming })
    }

    async fn send_snapshot(
        &self,
        address: &PeerAddress,
        chunks: mpsc::Receiver<SnapshotChunk>,
    ) -> Result<SnapshotReply, Error> {
        let mut client = self.client(address).await?;
        Ok(client.snapshot(ReceiverStream::new(chunks)).await.map_err(|e| status(&e))?.into_inner())
    }

    async fn introduce(&self, address: &PeerAddress, question: Bytes) -> Result<Bytes, Error> {
        let mut client = self.client(address).await?;
        let answer = client.introduce(Introduction { body: question }).await.map_err(|e| status(&e))?;
        Ok(answer.into_inner().body)
    }
}

/// Serves the peers of a node over gRPC.
pub struct GrpcPeerService<E: Environment>(Arc<PeerServer<E>>);

impl<E: Environment> std::fmt::Debug for GrpcPeerService<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("GrpcPeerService").field(&self.0).finish()
    }
}

impl<E: Environment> GrpcPeerService<E> {
    /// The service, to be added to a server. Give the server a stream window of some MiB.
    pub fn service(server: Arc<PeerServer<E>>) -> PeerServiceServer<Self> {
        PeerServiceServer::new(GrpcPeerService(server))
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX)
    }
}

type Outgoing = Pin<Box<dyn Stream<Item = Result<FrameBatch, Status>> + Send>>;

#[tonic::async_trait]
impl<E: Environment> PeerService for GrpcPeerService<E> {
    type ExchangeStream = Outgoing;

    async fn exchange(&self, request: Request<Streaming<FrameBatch>>) -> Result<Response<Outgoing>, Status> {
        let (outgoing, frames) = mpsc::channel(PIPE_MESSAGES);
        let incoming = request.into_inner().map_err(|e| status(&e)).boxed();
        let serve = Arc::clone(&self.0).exchange(incoming, outgoing);
        drop(<E::Runtime as openraft::AsyncRuntime>::spawn(serve));
        Ok(Response::new(ReceiverStream::new(frames).map(Ok).boxed()))
    }

    async fn snapshot(&self, request: Request<Streaming<SnapshotChunk>>) -> Result<Response<SnapshotReply>, Status> {
        let chunks = request.into_inner().map_err(|e| status(&e)).boxed();
        Ok(Response::new(self.0.snapshot(chunks).await))
    }

    async fn introduce(&self, request: Request<Introduction>) -> Result<Response<Introduction>, Status> {
        let answer = self.0.introduce(request.into_inner().body).await;
        let body = answer.map_err(|error| Status::failed_precondition(error.to_string()))?;
        Ok(Response::new(Introduction { body }))
    }
}

/// Answers for a node that belongs to no cluster yet: nothing but introductions.
pub struct GrpcNewcomer(Arc<dyn Fn(Bytes) -> Bytes + Send + Sync>);

impl std::fmt::Debug for GrpcNewcomer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("GrpcNewcomer")
    }
}

impl GrpcNewcomer {
    /// The service, to be added to a server.
    pub fn service(answer: impl Fn(Bytes) -> Bytes + Send + Sync + 'static) -> PeerServiceServer<Self> {
        PeerServiceServer::new(GrpcNewcomer(Arc::new(answer)))
    }
}

fn no_cluster() -> Status {
    Status::unavailable("this node belongs to no cluster yet")
}

#[tonic::async_trait]
impl PeerService for GrpcNewcomer {
    type ExchangeStream = Outgoing;

    async fn exchange(&self, _: Request<Streaming<FrameBatch>>) -> Result<Response<Outgoing>, Status> {
        Err(no_cluster())
    }

    async fn snapshot(&self, _: Request<Streaming<SnapshotChunk>>) -> Result<Response<SnapshotReply>, Status> {
        Err(no_cluster())
    }

    async fn introduce(&self, request: Request<Introduction>) -> Result<Response<Introduction>, Status> {
        Ok(Response::new(Introduction { body: self.0(request.into_inner().body) }))
    }
}
