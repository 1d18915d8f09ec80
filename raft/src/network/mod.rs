//! How the nodes reach each other.
//!
//! ```text
//!   group 1 ─┐                                                        ┌─ group 1
//!   group 2 ─┤ PeerLink: one per peer ══ frames {group, seq, …} ══▶ PeerServer ─┤ group 2
//!   group 3 ─┘        ◀═══════════════════ answers ═════════════════  └─ group 3
//!
//!   snapshot ──────────────── a stream of its own ────────────────▶ installed as a whole
//! ```
//!
//! Each node dials each peer once and sends its questions of all groups over that one stream; the answers come back on
//! it. Frames that are ready together travel as one message, which is how heartbeats of many groups share their cost.
//! Appends of a group are pipelined and taken in order. Nothing is accepted before both sides have said which cluster
//! and which node they are. The layers above ask each other over the same stream, by [`Caller`] and [`Answers`].
//!
//! [`Transport`] is the way the bytes take: [`GrpcTransport`] in production, [`StreamTransport`] over whatever stream a
//! simulation offers.

mod call;
mod client;
mod grpc;
mod link;
mod roster;
mod server;
mod stream;
mod told;
mod wire;

use std::future::Future;
use std::task::Poll;

use futures::stream::BoxStream;
use orbit_proto::peer;
use tokio::sync::mpsc;

pub use call::{Answers, CallError, Caller};
pub(crate) use client::{Clients, Peers};
pub use grpc::{GrpcNewcomer, GrpcPeerService, GrpcTransport};
pub(crate) use link::Acquaintance;
pub(crate) use roster::{Roster, StoredRoster};
pub use server::PeerServer;
pub use stream::{StreamTransport, serve_stream};

use crate::types::PeerAddress;

/// The version of the protocol between nodes.
pub const PROTOCOL: u32 = 1;
/// The greatest message between nodes, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// How many messages may wait on a connection.
pub(crate) const PIPE_MESSAGES: usize = 64;

/// Lets the tasks that are ready run first, so that what they send can travel in the same message.
async fn yield_once() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// A peer was not reached, or said no.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// There is no connection.
    #[error("{address} is not reached: {reason}")]
    Unreachable {
        /// The address.
        address: PeerAddress,
        /// Why.
        reason: String,
    },
    /// The connection ended while an answer was awaited.
    #[error("the connection ended before the answer")]
    Interrupted,
    /// The peer understood and did nothing.
    #[error("the peer refused: {0}")]
    Refused(String),
    /// The peer sent something that is not of the protocol.
    #[error("the peer sent what is not of the protocol: {0}")]
    Protocol(String),
}

/// The messages that come in on a connection.
pub type Incoming = BoxStream<'static, Result<peer::FrameBatch, Error>>;

/// A connection to a peer. It ends when either end is dropped.
pub struct Pipe {
    /// Where messages go out.
    pub outgoing: mpsc::Sender<peer::FrameBatch>,
    /// Where they come in.
    pub incoming: Incoming,
}

impl std::fmt::Debug for Pipe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pipe").finish_non_exhaustive()
    }
}

/// The way the bytes take.
pub trait Transport: Send + Sync + 'static {
    /// Connects to a peer.
    fn connect(&self, address: &PeerAddress) -> impl Future<Output = Result<Pipe, Error>> + Send;

    /// Sends a snapshot piece by piece and returns what the peer says after it took all of them.
    fn send_snapshot(
        &self,
        address: &PeerAddress,
        chunks: mpsc::Receiver<peer::SnapshotChunk>,
    ) -> impl Future<Output = Result<peer::SnapshotReply, Error>> + Send;

    /// Asks a node without a greeting, on a connection of its own.
    fn introduce(
        &self,
        address: &PeerAddress,
        question: bytes::Bytes,
    ) -> impl Future<Output = Result<bytes::Bytes, Error>> + Send;
}
