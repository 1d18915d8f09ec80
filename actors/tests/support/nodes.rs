//! Several nodes in this process, over gRPC on loopback, each on a disk of its own.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use orbit_actors::disk::{DiskProbe, DiskSpace};
use orbit_actors::engine::membership::{self, Invitation};
use orbit_actors::engine::{Engine, Settings};
use orbit_actors::error::Result;
use orbit_raft::disk::FatalHook;
use orbit_raft::network::{GrpcPeerService, GrpcTransport};
use orbit_raft::{Identity, NodeId, Parts, PeerAddress, RaftNode, Storage};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_stream::wrappers::TcpListenerStream;
use uuid::Uuid;

use super::{Node, World, WrongClock, eventually, within};

/// A cluster in this process.
pub struct Cluster {
    pub dir: TempDir,
    pub nodes: BTreeMap<u64, Member>,
    machines: BTreeMap<u64, Machine>,
    /// Of nodes that are started from now on.
    pub settings: Settings,
}

/// What a node finds on its machine; it stays when the node stops.
#[derive(Clone, Default)]
struct Machine {
    clock: WrongClock,
    /// How much of its disk is in use, in percent.
    disk_percent: Arc<AtomicU64>,
}

impl Machine {
    fn settings(&self, number: u64, settings: &Settings) -> Settings {
        let used = Arc::clone(&self.disk_percent);
        let probe = move || {
            let used_bytes = used.load(Ordering::Relaxed);
            Ok(DiskSpace { used_bytes, available_bytes: 100 - used_bytes })
        };
        Settings { node_name: format!("n{number}"), disk: DiskProbe(Arc::new(probe)), ..settings.clone() }
    }
}

/// One of its nodes.
pub struct Member {
    pub engine: Node,
    address: String,
    stop: oneshot::Sender<()>,
}

impl Member {
    async fn start(
        path: PathBuf,
        identity: Option<Identity>,
        listener: TcpListener,
        settings: Settings,
        (clock, create): (WrongClock, bool),
    ) -> Result<Self> {
        let address = listener.local_addr().unwrap().to_string();
        let storage = match identity {
            Some(identity) => Storage::create(&path, identity).unwrap(),
            None => Storage::open(&path, None).unwrap(),
        };
        let parts = Parts::<World> {
            identity: storage.identity,
            settings: orbit_raft::Settings { knows: settings.knows.clone(), ..Default::default() },
            log: storage.log,
            state: storage.state,
            transport: GrpcTransport,
            clock,
            fatal: FatalHook::exit(),
        };
        let node = RaftNode::start(parts).await.unwrap();
        let service = GrpcPeerService::service(node.peer_server());
        let (stop, stopped) = oneshot::channel::<()>();
        let server = tonic::transport::Server::builder().tcp_nodelay(true).add_service(service);
        let serve = server.serve_with_incoming(TcpListenerStream::new(listener));
        tokio::spawn(async move {
            // Dropping the server cuts its connections, as the end of a process would.
            tokio::select! { biased; _ = stopped => {} served = serve => served.unwrap() }
        });
        let create = create.then(|| PeerAddress(address.clone()));
        let engine = within(20, "the groups", Engine::open(node, settings, create)).await?;
        Ok(Self { engine, address, stop })
    }

    async fn stop(self) {
        let _ = self.stop.send(());
        self.engine.shutdown().await.unwrap();
    }
}

impl Cluster {
    /// A cluster of so many nodes, every group with all of them as voters, leaders where they belong.
    pub async fn start(count: u64, settings: Settings) -> Self {
        let filter = tracing_subscriber::EnvFilter::from_default_env();
        // Several tests of one process ask for it.
        let _ = tracing_subscriber::fmt().with_env_filter(filter).with_test_writer().try_init();
        let (dir, nodes) = (tempfile::tempdir().unwrap(), BTreeMap::new());
        let mut cluster = Self { dir, nodes, machines: BTreeMap::new(), settings };
        for number in 1..=count {
            cluster.add(number).await;
        }
        cluster.settled(count as usize).await;
        cluster
    }

    /// One more node; the first one makes the cluster.
    pub async fn add(&mut self, number: u64) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = PeerAddress(listener.local_addr().unwrap().to_string());
        let incarnation = Uuid::new_v4();
        let name = format!("n{number}");
        let invitation = match self.nodes.values().next() {
            None => Invitation { cluster: Uuid::new_v4(), node: NodeId(1) },
            Some(other) => {
                let seed = PeerAddress(other.address.clone());
                let joined =
                    membership::join(&GrpcTransport, &seed, &name, &address, incarnation, self.settings.knows.clone());
                within(20, "joining", joined).await.unwrap()
            }
        };
        assert_eq!(invitation.node, NodeId(number));
        let identity = Identity { cluster: invitation.cluster, node: invitation.node, incarnation };
        let machine = self.machines.entry(number).or_default().clone();
        let settings = machine.settings(number, &self.settings);
        let parts = (machine.clock, number == 1);
        let member = Member::start(self.path(number), Some(identity), listener, settings, parts).await.unwrap();
        self.nodes.insert(number, member);
    }

    /// From now on so much of the disk of a node is in use.
    pub fn disk(&self, number: u64, percent: u64) {
        self.machines[&number].disk_percent.store(percent, Ordering::Relaxed);
    }

    /// From now on the wall clock of a node is so far ahead.
    pub fn clock(&self, number: u64, ahead_ms: i64) {
        self.machines[&number].clock.0.store(ahead_ms, Ordering::Relaxed);
    }

    pub fn path(&self, number: u64) -> PathBuf {
        self.dir.path().join(number.to_string())
    }

    /// Waits until every node sees every shard led, and the leaders are spread.
    pub async fn settled(&self, count: usize) {
        for member in self.nodes.values() {
            within(20, "all shards led", member.engine.ready().wait_for(|ready| *ready)).await.unwrap();
        }
        let spread = async || {
            let led = self.nodes.values().map(|member| leads(&member.engine)).collect::<Vec<_>>();
            let (least, most) = (led.iter().min()?, led.iter().max()?);
            (led.len() == count && led.iter().sum::<usize>() == usize::from(self.settings.shards) && most - least <= 1)
                .then_some(())
        };
        eventually("leaders that are spread", spread).await;
    }

    pub fn node(&self, number: u64) -> &Node {
        &self.nodes[&number].engine
    }

    /// Stops a node; its disk stays.
    pub async fn stop(&mut self, number: u64) {
        self.nodes.remove(&number).unwrap().stop().await;
    }

    pub async fn restart(&mut self, number: u64, address: &str) {
        self.try_restart(number, address).await.unwrap();
    }

    pub async fn try_restart(&mut self, number: u64, address: &str) -> Result<()> {
        let listener = TcpListener::bind(address).await.unwrap();
        let machine = self.machines.entry(number).or_default().clone();
        let settings = machine.settings(number, &self.settings);
        let settings = Settings { address: Some(PeerAddress(listener.local_addr().unwrap().to_string())), ..settings };
        let member = Member::start(self.path(number), None, listener, settings, (machine.clock, false)).await?;
        self.nodes.insert(number, member);
        Ok(())
    }

    pub fn address(&self, number: u64) -> String {
        self.nodes[&number].address.clone()
    }

    /// Compares what all nodes hold, waiting until all have applied the same.
    pub async fn assert_equal(&self) {
        let equal = async || {
            let hashes: Vec<_> = self.nodes.values().map(|member| member.engine.state_hashes().unwrap()).collect();
            hashes.windows(2).all(|pair| pair[0] == pair[1]).then_some(())
        };
        eventually("replicas that are equal", equal).await;
    }

    pub async fn end(mut self) {
        let numbers: Vec<_> = self.nodes.keys().copied().collect();
        for member in self.nodes.values() {
            assert_eq!(member.engine.check().unwrap(), Vec::<String>::new());
        }
        for number in numbers {
            self.stop(number).await;
        }
    }
}

/// How many shards a node leads.
pub fn leads(node: &Node) -> usize {
    node.shards().iter().filter(|shard| shard.role == "leader").count()
}
