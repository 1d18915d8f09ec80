//! A transport that counts what the nodes ask each other.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

use std::future::Future;

use orbit_proto::peer::{SnapshotChunk, SnapshotReply};
use orbit_raft::clock::SystemClock;
use orbit_raft::disk::{FatalHook, RocksDisk};
use orbit_raft::network::{Error, GrpcPeerService, GrpcTransport, Pipe, Transport};
use orbit_raft::{Environment, Group, GroupId, Parts, PeerAddress, Production, RaftNode, Settings};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::TcpListenerStream;

use crate::support::{self, open_storage};

/// How many messages went out, and how many frames in them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    pub messages: u64,
    pub frames: u64,
}

/// gRPC, counted.
#[derive(Debug, Clone)]
pub struct CountedTransport(watch::Sender<Counts>);

impl Transport for CountedTransport {
    async fn connect(&self, address: &PeerAddress) -> Result<Pipe, Error> {
        let Pipe { outgoing: sink, incoming } = GrpcTransport.connect(address).await?;
        let (outgoing, mut messages) = mpsc::channel(1);
        let counts = self.0.clone();
        tokio::spawn(async move {
            while let Some(message) = messages.recv().await {
                let message: orbit_proto::peer::FrameBatch = message;
                counts.send_modify(|counts| {
                    counts.messages += 1;
                    counts.frames += message.frames.len() as u64;
                });
                if sink.send(message).await.is_err() {
                    return;
                }
            }
        });
        Ok(Pipe { outgoing, incoming })
    }

    async fn send_snapshot(
        &self,
        address: &PeerAddress,
        chunks: mpsc::Receiver<SnapshotChunk>,
    ) -> Result<SnapshotReply, Error> {
        GrpcTransport.send_snapshot(address, chunks).await
    }

    async fn introduce(&self, address: &PeerAddress, question: bytes::Bytes) -> Result<bytes::Bytes, Error> {
        GrpcTransport.introduce(address, question).await
    }
}

/// Production with a counted transport.
#[derive(Debug)]
pub struct Counted;

impl Environment for Counted {
    type Runtime = <Production as Environment>::Runtime;
    type LogDisk = RocksDisk;
    type StateDisk = RocksDisk;
    type Transport = CountedTransport;
    type Clock = SystemClock;

    fn run_writer(writer: impl Future<Output = ()> + Send + 'static) -> std::io::Result<()> {
        Production::run_writer(writer)
    }
}

/// Three nodes that hold the same groups.
pub struct Three {
    pub nodes: Vec<RaftNode<Counted>>,
    pub groups: Vec<Vec<Group<Counted>>>,
    pub counts: watch::Receiver<Counts>,
    servers: Vec<tokio::task::JoinHandle<()>>,
}

impl Three {
    /// Starts them, and waits until each group has a leader.
    pub async fn start(dir: &std::path::Path, groups: u16) -> Three {
        let sender = watch::Sender::new(Counts::default());
        let mut three = Three { nodes: vec![], groups: vec![], counts: sender.subscribe(), servers: vec![] };
        let mut addresses = std::collections::BTreeMap::new();
        for id in 1..=3_u64 {
            let storage = open_storage(&dir.join(id.to_string()), id);
            let node = RaftNode::start(Parts::<Counted> {
                identity: storage.identity,
                settings: Settings::default(),
                log: storage.log,
                state: storage.state,
                transport: CountedTransport(sender.clone()),
                clock: SystemClock,
                fatal: FatalHook::exit(),
            });
            let node = node.await.unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            addresses.insert(id, listener.local_addr().unwrap().to_string());
            let service = GrpcPeerService::service(node.peer_server());
            let server = tonic::transport::Server::builder().tcp_nodelay(true).add_service(service);
            let serve = server.serve_with_incoming(TcpListenerStream::new(listener));
            three.servers.push(tokio::spawn(async move { serve.await.unwrap() }));
            let mut open = Vec::new();
            for id in 0..groups {
                open.push(node.open_group(GroupId::new(id).unwrap()).await.unwrap());
            }
            three.nodes.push(node);
            three.groups.push(open);
        }
        for index in 0..usize::from(groups) {
            // Spread over the nodes: who initializes a group campaigns first.
            three.groups[index % 3][index].initialize(support::members(&addresses)).await.unwrap();
        }
        for index in 0..usize::from(groups) {
            let leads = three.groups.iter().map(|node| Box::pin(support::leads(&node[index])));
            support::within(30, "an election", futures::future::select_all(leads)).await;
        }
        three
    }

    /// Stops them and waits until their files are closed.
    pub async fn stop(self) {
        for server in self.servers {
            server.abort();
        }
        drop(self.groups);
        for node in self.nodes {
            node.shutdown().await.unwrap();
        }
    }
}
