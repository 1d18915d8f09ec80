//! What simulated nodes stand on: a network, clocks and disks that a seed repeats exactly.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use openraft_rt::deterministic_rng::DeterministicRng;
use orbit_raft::clock::{Clock, Reading};
use orbit_raft::disk::{Batch, Disk, Error, FatalHook, KeyRange, MemoryDisk, View, Visit};
use orbit_raft::network::{StreamTransport, serve_stream};
use orbit_raft::{Environment, Group, Parts, PeerAddress, RaftNode, Settings};
use turmoil::net::{TcpListener, TcpStream};

use crate::support::{self, GROUP, identity};

pub type Runtime = DeterministicRng<<orbit_raft::Production as Environment>::Runtime>;
type Connect = fn(PeerAddress) -> BoxFuture<'static, io::Result<TcpStream>>;

pub const NODES: [&str; 3] = ["n1", "n2", "n3"];
const PORT: u16 = 7000;

/// What a simulated node stands on.
#[derive(Debug)]
pub struct Simulated;

impl Environment for Simulated {
    type Runtime = Runtime;
    type LogDisk = SimDisk;
    type StateDisk = MemoryDisk;
    type Transport = StreamTransport<Runtime, Connect>;
    type Clock = SimClock;

    fn run_writer(writer: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
        drop(<Runtime as openraft_rt::AsyncRuntime>::spawn(writer));
        Ok(())
    }
}

/// A disk whose syncs take time and may fail.
#[derive(Debug, Clone, Default)]
pub struct SimDisk {
    pub rows: MemoryDisk,
    pub fails: Arc<AtomicBool>,
}

impl View for SimDisk {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Error> {
        self.rows.get(key)
    }
    fn scan(&self, range: &KeyRange, visit: &mut Visit<'_>) -> Result<(), Error> {
        self.rows.scan(range, visit)
    }
}

impl Disk for SimDisk {
    fn write(&self, batch: Batch) -> Result<(), Error> {
        self.rows.write(batch)
    }
    async fn sync(&self) -> Result<(), Error> {
        tokio::time::sleep(Duration::from_millis(2)).await;
        if self.fails.swap(false, Ordering::Relaxed) {
            return Err(Error::failed("syncing the store", "injected"));
        }
        self.rows.sync().await
    }
    fn last(&self, range: &KeyRange) -> Result<Option<(Vec<u8>, Bytes)>, Error> {
        self.rows.last(range)
    }
    fn closed(&self) -> BoxFuture<'static, ()> {
        self.rows.closed()
    }
}

/// Simulated time, with a wall clock that is ahead of it and may be set.
#[derive(Debug, Clone, Default)]
pub struct SimClock {
    ahead_ms: Arc<AtomicU64>,
}

impl SimClock {
    pub fn ahead(ms: u64) -> SimClock {
        SimClock { ahead_ms: Arc::new(ms.into()) }
    }

    pub fn jump(&self, ms: u64) {
        self.ahead_ms.fetch_add(ms, Ordering::Relaxed);
    }
}

impl Clock for SimClock {
    fn read(&self) -> Reading {
        let monotonic = turmoil::sim_elapsed().unwrap_or_default();
        let ahead = Duration::from_millis(self.ahead_ms.load(Ordering::Relaxed));
        Reading { monotonic, wall: Duration::from_secs(1_700_000_000) + ahead + monotonic }
    }
}

#[derive(Clone, Default)]
pub struct Disks {
    pub log: SimDisk,
    pub state: MemoryDisk,
}

fn connect(address: PeerAddress) -> BoxFuture<'static, io::Result<TcpStream>> {
    Box::pin(async move { TcpStream::connect((address.0.as_str(), PORT)).await })
}

/// The network of one run.
pub fn network(seed: u64) -> turmoil::Sim<'static> {
    turmoil::Builder::new()
        .rng_seed(seed)
        .simulation_duration(Duration::from_secs(3600))
        .tick_duration(Duration::from_millis(1))
        .min_message_latency(Duration::from_millis(1))
        .max_message_latency(Duration::from_millis(8))
        .tcp_capacity(65_536)
        .build()
}

/// Starts a node with its group; the first one makes all three members.
pub async fn start(
    index: usize,
    disks: Disks,
    clock: SimClock,
    settings: Settings,
    fatal: FatalHook,
) -> Result<(RaftNode<Simulated>, Group<Simulated>), Box<dyn std::error::Error>> {
    let parts = Parts::<Simulated> {
        identity: identity(index as u64 + 1),
        settings,
        log: disks.log,
        state: disks.state,
        transport: StreamTransport::new(connect as Connect),
        clock,
        fatal,
    };
    let node = RaftNode::start(parts).await?;
    let group = node.open_group(GROUP).await?;
    if index == 0 && !group.is_initialized().await? {
        let addresses = (1..).zip(NODES.map(str::to_owned)).collect();
        group.initialize(support::members(&addresses)).await?;
    }
    Ok((node, group))
}

/// Answers the peers of a node until it is crashed.
pub async fn serve(node: &RaftNode<Simulated>) -> turmoil::Result {
    let listener = TcpListener::bind(("0.0.0.0", PORT)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        drop(<Runtime as openraft_rt::AsyncRuntime>::spawn(serve_stream(node.peer_server(), stream)));
    }
}
