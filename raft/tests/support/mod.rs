//! What the tests of whole nodes share.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::future::Future;
use std::marker::PhantomData;
use std::path::Path;
use std::time::Duration;

use orbit_proto::store::{self, precondition::Check, write};
use orbit_raft::clock::SystemClock;
use orbit_raft::disk::{Disk, FatalHook, RocksDisk};
use orbit_raft::network::{GrpcPeerService, GrpcTransport};
use orbit_raft::state_store::key::{self, Table};
use orbit_raft::{
    Environment, Group, GroupId, Identity, Leadership, NodeId, Part, Parts, PeerAddress, Production, RaftNode,
    Settings, Storage, Term,
};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_stream::wrappers::TcpListenerStream;
use uuid::Uuid;

pub const GROUP: GroupId = GroupId::new(0).unwrap();
pub const CLUSTER: Uuid = Uuid::from_u128(0xC1);
pub const ROWS: Table = Table::new(16).unwrap();

/// Production, but for the disk of the log.
#[derive(Debug)]
pub struct WithLog<L>(PhantomData<L>);

impl<L: Disk> Environment for WithLog<L> {
    type Runtime = <Production as Environment>::Runtime;
    type LogDisk = L;
    type StateDisk = RocksDisk;
    type Transport = GrpcTransport;
    type Clock = SystemClock;

    fn run_writer(writer: impl Future<Output = ()> + Send + 'static) -> std::io::Result<()> {
        Production::run_writer(writer)
    }
}

pub fn identity(node: u64) -> Identity {
    Identity { cluster: CLUSTER, node: NodeId(node), incarnation: Uuid::from_u128(u128::from(node)) }
}

/// Opens the data of a node, or creates it.
pub fn open_storage(path: &Path, node: u64) -> Storage {
    Storage::open_or_create(path, || identity(node)).unwrap_or_else(|error| panic!("{error}"))
}

pub fn parts<L: Disk>(storage: Storage, settings: Settings, wrap: impl FnOnce(RocksDisk) -> L) -> Parts<WithLog<L>> {
    Parts {
        identity: storage.identity,
        settings,
        log: wrap(storage.log),
        state: storage.state,
        transport: GrpcTransport,
        clock: SystemClock,
        fatal: FatalHook::exit(),
    }
}

/// One node with one group, served on a port of its own.
pub struct Served {
    pub node: RaftNode<WithLog<RocksDisk>>,
    pub group: Group<WithLog<RocksDisk>>,
    stop: oneshot::Sender<()>,
}

impl Served {
    pub async fn start(path: &Path, node: u64, listener: TcpListener, settings: Settings) -> Served {
        let storage = open_storage(path, node);
        let node = RaftNode::start(parts(storage, settings, |log| log)).await.unwrap();
        let group = node.open_group(GROUP).await.unwrap();
        let (stop, stopped) = oneshot::channel();
        let service = GrpcPeerService::service(node.peer_server());
        let incoming = TcpListenerStream::new(listener);
        let serve = tonic::transport::Server::builder()
            .tcp_nodelay(true)
            .initial_stream_window_size(8 << 20)
            .add_service(service)
            .serve_with_incoming(incoming);
        tokio::spawn(async move {
            // Dropping the server cuts its connections, as the end of a process would.
            tokio::select! { biased; _ = stopped => {} served = serve => served.unwrap() }
        });
        Served { node, group, stop }
    }

    /// Stops the node and waits until its files are closed.
    pub async fn stop(self) {
        let Served { node, group, stop } = self;
        let _ = stop.send(());
        drop(group);
        node.shutdown().await.unwrap();
    }
}

pub fn members(addresses: &BTreeMap<u64, String>) -> BTreeMap<NodeId, PeerAddress> {
    addresses.iter().map(|(id, address)| (NodeId(*id), PeerAddress(address.clone()))).collect()
}

/// A row key of the tests.
pub fn row(id: &str) -> Vec<u8> {
    key::hashed(ROWS, id.as_bytes(), b"")
}

pub fn put_write(id: &str, value: &str) -> store::Write {
    let value = [b"\x01", value.as_bytes()].concat();
    store::Write { op: Some(write::Op::Put(store::Put { key: row(id).into(), value: value.into(), numbered: false })) }
}

/// A part that sets one row.
pub fn put(id: &str, value: &str) -> Part {
    Part { kind: 1, writes: vec![put_write(id, value)], ..Part::default() }
}

pub fn check(check: Check) -> store::Precondition {
    store::Precondition { check: Some(check) }
}

/// The value of a row without its format byte.
pub fn get<E: Environment>(group: &Group<E>, id: &str) -> Option<String> {
    let value = group.read(|reader| reader.get(&row(id)).unwrap());
    value.map(|v| String::from_utf8(v[1..].to_vec()).unwrap())
}

/// Waits until this node may decide.
pub async fn leads<E: Environment>(group: &Group<E>) -> Term {
    let mut leadership = group.leadership();
    let now = *leadership.wait_for(|l| matches!(l, Leadership::Leader { .. })).await.unwrap();
    match now {
        Leadership::Leader { term } => term,
        other => panic!("{other:?}"),
    }
}

/// Fails instead of hanging.
pub async fn within<T>(seconds: u64, what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(Duration::from_secs(seconds), future).await {
        Ok(value) => value,
        Err(_) => panic!("{what} took more than {seconds} s"),
    }
}
