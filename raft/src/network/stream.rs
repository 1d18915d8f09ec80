//! The peer protocol over plain byte streams, for simulations that bring their own network.
//!
//! ```text
//!   opening   0x01 for frames │ 0x02 for a snapshot │ 0x03 for an introduction
//!   message   length u32, big-endian │ protobuf            an empty message ends a snapshot
//! ```

use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use futures::stream::BoxStream;
use orbit_proto::peer::{FrameBatch, Introduction, SnapshotChunk, SnapshotReply};
use prost::Message;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use super::{Error, MESSAGE_BYTES_MAX, PIPE_MESSAGES, PeerServer, Pipe, Transport};
use crate::consensus::Runtime;
use crate::node::Environment;
use crate::types::PeerAddress;

const FRAMES: u8 = 1;
const SNAPSHOT: u8 = 2;
const INTRODUCTION: u8 = 3;

/// Carries the protocol over the streams that `connect` makes.
pub struct StreamTransport<RT, F> {
    connect: F,
    _runtime: PhantomData<fn() -> RT>,
}

impl<RT, F> std::fmt::Debug for StreamTransport<RT, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StreamTransport")
    }
}

impl<RT, F> StreamTransport<RT, F> {
    /// `connect` opens a stream to an address.
    pub fn new(connect: F) -> Self {
        StreamTransport { connect, _runtime: PhantomData }
    }
}

impl<RT, F, S, Fut> StreamTransport<RT, F>
where
    F: Fn(PeerAddress) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = io::Result<S>> + Send,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    async fn open(&self, address: &PeerAddress, kind: u8) -> Result<S, Error> {
        let unreachable = |e: io::Error| Error::Unreachable { address: address.clone(), reason: e.to_string() };
        let mut stream = (self.connect)(address.clone()).await.map_err(unreachable)?;
        stream.write_u8(kind).await.map_err(unreachable)?;
        Ok(stream)
    }
}

impl<RT, F, S, Fut> Transport for StreamTransport<RT, F>
where
    RT: Runtime,
    F: Fn(PeerAddress) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = io::Result<S>> + Send,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    async fn connect(&self, address: &PeerAddress) -> Result<Pipe, Error> {
        let stream = self.open(address, FRAMES).await?;
        let (reader, writer) = tokio::io::split(stream);
        let (outgoing, messages) = mpsc::channel(PIPE_MESSAGES);
        drop(RT::spawn(write_all(messages, writer)));
        Ok(Pipe { outgoing, incoming: read_all(reader) })
    }

    async fn send_snapshot(
        &self,
        address: &PeerAddress,
        mut chunks: mpsc::Receiver<SnapshotChunk>,
    ) -> Result<SnapshotReply, Error> {
        let mut stream = self.open(address, SNAPSHOT).await?;
        while let Some(chunk) = chunks.recv().await {
            write_one(&mut stream, &chunk).await?;
        }
        stream.write_u32(0).await.map_err(|_| Error::Interrupted)?;
        read_one(&mut stream).await?.ok_or(Error::Interrupted)
    }

    async fn introduce(&self, address: &PeerAddress, question: Bytes) -> Result<Bytes, Error> {
        let mut stream = self.open(address, INTRODUCTION).await?;
        write_one(&mut stream, &Introduction { body: question }).await?;
        let answer: Introduction = read_one(&mut stream).await?.ok_or(Error::Interrupted)?;
        Ok(answer.body)
    }
}

/// Serves one stream that a peer has opened.
pub async fn serve_stream<E: Environment>(
    server: Arc<PeerServer<E>>,
    mut stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) {
    match stream.read_u8().await {
        Ok(FRAMES) => {
            let (reader, writer) = tokio::io::split(stream);
            let (outgoing, messages) = mpsc::channel(PIPE_MESSAGES);
            drop(<E::Runtime as openraft::AsyncRuntime>::spawn(write_all(messages, writer)));
            server.exchange(read_all(reader), outgoing).await;
        }
        Ok(SNAPSHOT) => {
            let (reader, mut writer) = tokio::io::split(stream);
            let reply = server.snapshot(read_all(reader)).await;
            // A peer that is gone asks again.
            let _ = write_one(&mut writer, &reply).await;
        }
        Ok(INTRODUCTION) => {
            if let Ok(Some(question)) = read_one::<Introduction>(&mut stream).await
                && let Ok(body) = server.introduce(question.body).await
            {
                let _ = write_one(&mut stream, &Introduction { body }).await;
            }
        }
        _ => {}
    }
}

async fn write_one(stream: &mut (impl AsyncWrite + Unpin), message: &impl Message) -> Result<(), Error> {
    let mut bytes = Vec::with_capacity(4 + message.encoded_len());
    bytes.extend((message.encoded_len() as u32).to_be_bytes());
    bytes.extend(message.encode_to_vec());
    stream.write_all(&bytes).await.map_err(|_| Error::Interrupted)
}

async fn read_one<M: Message + Default>(stream: &mut (impl AsyncRead + Unpin)) -> Result<Option<M>, Error> {
    let Ok(length) = stream.read_u32().await else { return Ok(None) };
    let length = length as usize;
    if length == 0 {
        return Ok(None);
    }
    if length > MESSAGE_BYTES_MAX {
        return Err(Error::Protocol(format!("a message of {length} bytes")));
    }
    let mut bytes = BytesMut::zeroed(length);
    stream.read_exact(&mut bytes).await.map_err(|_| Error::Interrupted)?;
    M::decode(bytes.freeze()).map(Some).map_err(|e| Error::Protocol(e.to_string()))
}

async fn write_all(mut messages: mpsc::Receiver<FrameBatch>, mut writer: impl AsyncWrite + Unpin) {
    while let Some(message) = messages.recv().await {
        if write_one(&mut writer, &message).await.is_err() {
            return;
        }
    }
}

fn read_all<M: Message + Default + 'static>(
    reader: impl AsyncRead + Unpin + Send + 'static,
) -> BoxStream<'static, Result<M, Error>> {
    let messages = futures::stream::unfold(Some(reader), |reader| async move {
        let mut reader = reader?;
        match read_one(&mut reader).await {
            Ok(Some(message)) => Some((Ok(message), Some(reader))),
            Ok(None) => None,
            Err(error) => Some((Err(error), None)),
        }
    });
    messages.boxed()
}
