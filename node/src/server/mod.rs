//! How a node starts, listens and stops.
//!
//! ```text
//!   data opened ─ old addresses.json gone ─ listening ─ addresses.json ─ health ─ peers ─ engine ─ HTTP, gRPC ─ ready
//!   draining ─ no new connections ─ connections end ─ engine ends ─ peers, health end ─ data closed
//! ```
//!
//! - [`addresses`]: where it listens, and the file that says so;
//! - `open` and `serve`: listeners and connections;
//! - `newcomer`: a node without data;
//! - `disk`: how full the disk is;
//! - `health`: the port for probes;
//! - [`log`]: the log.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use orbit_actors::engine::{self, Engine};
use orbit_actors::format;
use orbit_raft::clock::SystemClock;
use orbit_raft::disk::FatalHook;
use orbit_raft::network::{GrpcPeerService, GrpcTransport};
use orbit_raft::{Identity, NodeId, Parts, PeerAddress, Production, RaftNode, StillOpen, Storage};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::service::Routes;
use uuid::Uuid;

pub mod addresses;
mod disk;
mod health;
pub mod log;
mod newcomer;
mod open;
mod serve;

pub use addresses::Addresses;
use addresses::Listeners;
use newcomer::{Newcomer, Settled};
use open::Open;

pub(crate) use newcomer::founded;

use crate::builtin::{self, Worker};
use crate::config::Config;
use crate::gateway::counters::Counters;
use crate::gateway::guard::Names;
use crate::gateway::{self, Service, Standing, grpc, http, service};

/// How long the engine may take to finish what it has.
const FINISH_TIME_MAX: Duration = Duration::from_secs(20);
/// How long others may take to take leaderships over.
const GIVE_AWAY_TIME_MAX: Duration = Duration::from_secs(5);
/// The number of the node in a cluster that it makes itself.
const FIRST_NODE: NodeId = NodeId(1);

/// Who may reach a node that asks for no credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// This machine.
    Loopback,
    /// Whoever the network lets through: its owner said so.
    Anywhere,
}

/// A node does not start. One sentence that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The data cannot be used.
    #[error("DATA_NOT_OPENED: {0}")]
    Data(#[from] orbit_raft::identity::Error),
    /// The replication does not start.
    #[error("NODE_NOT_STARTED: {0}")]
    Node(#[from] orbit_raft::node::Error),
    /// The engine does not start.
    #[error("NODE_NOT_STARTED: {0}")]
    Engine(#[from] orbit_actors::error::Error),
    /// Something that is built in is wrong.
    #[error("INTERNAL: {0}")]
    Descriptors(#[from] grpc::DescriptorError),
    /// An address is one that others reach.
    #[error(
        "NOT_LOOPBACK: {key}.listen is {address}, which others reach, and there is nothing they would have to show; \
         listen on 127.0.0.1, or {}",
        if *.key == "peer" { "run `orbit server --insecure-listen` if a cluster is meant" } else {
            "say --insecure-listen if that is meant"
        }
    )]
    NotLoopback {
        /// The first part of the key.
        key: &'static str,
        /// The address.
        address: SocketAddr,
    },
    /// An address cannot be listened on.
    #[error(
        "CANNOT_LISTEN: {key}.listen {address}: {source}; stop what listens there, or choose another address \
         (port 0: a free one)"
    )]
    Listen {
        /// The first part of the key.
        key: &'static str,
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// A file in the data directory cannot be written.
    #[error("CANNOT_WRITE: {path}: {source}; check the disk, its free space and the rights")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// A node that runs.
pub struct Server {
    /// Where it listens.
    pub addresses: Addresses,
    service: Service<Production>,
    engine: Engine<Production>,
    built_in: Worker,
    standing: watch::Sender<Standing>,
    /// Somebody has told the node to go away.
    drain: watch::Sender<bool>,
    serving: grpc::Serving,
    telling: JoinHandle<()>,
    open: Open,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

impl Server {
    /// Starts a node that is a cluster by itself, made first if there is none.
    ///
    /// # Errors
    /// It does not start; nothing of what was there has been changed.
    pub async fn start_alone(config: &Config, exposure: Exposure) -> Result<Self, Error> {
        // A node that is alone has no others.
        addresses::check(config, exposure, Exposure::Loopback)?;
        let new = || Identity { cluster: Uuid::now_v7(), node: FIRST_NODE, incarnation: Uuid::now_v7() };
        // A node that cannot listen leaves no new data behind. Where there is some, another node may run on it: its
        // file of addresses stays until the data is ours.
        let early = if config.data_dir.exists() { None } else { Some(Listeners::bind(config).await?) };
        let storage = Storage::open_or_create(&config.data_dir, new)?;
        let listeners = match early {
            Some(listeners) => listeners,
            None => Listeners::bind(config).await?,
        };
        listeners.announce(config)?;
        let open = Open::of(listeners, config);
        Self::start_on(config, storage, open, true).await
    }

    /// Starts a node of a cluster. One without data waits until it makes a cluster or finds one to join; none if it is
    /// told to stop meanwhile.
    ///
    /// # Errors
    /// It does not start; nothing of what was there has been changed.
    pub async fn start_member(
        config: &Config,
        exposure: Exposure,
        stop: watch::Receiver<bool>,
    ) -> Result<Option<Self>, Error> {
        addresses::check(config, exposure, exposure)?;
        match Storage::open(&config.data_dir, None) {
            Ok(storage) => {
                let listeners = Listeners::bind(config).await?;
                listeners.announce(config)?;
                let open = Open::of(listeners, config);
                return Self::start_on(config, storage, open, false).await.map(Some);
            }
            Err(orbit_raft::identity::Error::Missing { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let listeners = Listeners::bind(config).await?;
        let address = PeerAddress(advertised(config, &listeners.addresses));
        let file = |source| Error::File { path: config.data_dir.clone(), source };
        let mut newcomer = Newcomer::new(config, address).map_err(file)?;
        listeners.announce(config)?;
        let open = Open::of(listeners, config);
        open.peer_switch.set(newcomer.peer_router());
        open.http_switch.set(newcomer.http_router());
        let Some(settled) = newcomer.settle(stop).await else {
            open.stop().await;
            return Ok(None);
        };
        let (identity, founds) = match settled {
            Settled::Founds(identity) => (identity, true),
            Settled::Joins(identity) => (identity, false),
        };
        let storage = Storage::create(&config.data_dir, identity)?;
        let server = Self::start_on(config, storage, open, founds).await?;
        newcomer.stands(identity);
        Ok(Some(server))
    }

    async fn start_on(config: &Config, storage: Storage, open: Open, founds: bool) -> Result<Self, Error> {
        let identity = storage.identity;
        let node = RaftNode::<Production>::start(Parts {
            identity,
            settings: orbit_raft::phase::tuned(orbit_raft::Settings { knows: format::knows(), ..Default::default() }),
            log: storage.log,
            state: storage.state,
            transport: GrpcTransport,
            clock: SystemClock,
            fatal: FatalHook::exit(),
        })
        .await?;
        let peer_service = GrpcPeerService::service(node.peer_server());
        open.peer_switch.set(Routes::new(peer_service).prepare().into_axum_router());
        let address = PeerAddress(advertised(config, &open.addresses));
        let create = founds.then(|| address.clone());
        let engine = Engine::open(node, settings(config, address), create).await?;
        let built_in = Worker::start(engine.clone(), identity.incarnation, http_task(config))?;
        let (standing, heard) = watch::channel(Standing::Started);
        let limits = service::Limits {
            payload_bytes_max: config.payload_bytes_max,
            request_bytes_max: config.request_bytes_max,
        };
        let drain = watch::Sender::new(false);
        let service = Service::new(service::Parts {
            engine: engine.clone(),
            limits,
            node: config.node_name.clone(),
            standing: heard,
            drain: drain.clone(),
            counters: Arc::new(Counters::default()),
        });
        let names = names(config);
        let (grpc_router, serving) = grpc::router(service.clone(), names.clone())?;
        open.http_switch.set(http::router(service.clone(), names));
        open.grpc_switch.set(grpc_router);
        let telling = tokio::spawn(tell(engine.ready(), serving.clone()));
        // Set once: this is the only place.
        let _ = open.later.set(service.clone());
        let addresses = open.addresses;
        Ok(Self { addresses, service, engine, built_in, standing, drain, serving, telling, open })
    }

    /// Returns once somebody has told the node to drain: it is to be stopped then.
    pub async fn told_to_drain(&self) {
        // Its sender lives as long as the server.
        let _ = self.drain.subscribe().wait_for(|drain| *drain).await;
    }

    /// Returns once this version can be no part of the cluster any more; the node is to be stopped then.
    pub async fn outgrown(&self) -> Error {
        Error::Engine(self.engine.outgrown().await)
    }

    /// Returns once every shard may decide. Requests before wait for it.
    pub async fn ready(&self) {
        // Fails when the engine is gone, and then nobody is left to wait for it.
        let _ = self.engine.ready().wait_for(|ready| *ready).await;
    }

    /// The operations of this node, without a surface between.
    #[must_use]
    pub fn service(&self) -> &Service<Production> {
        &self.service
    }

    /// A hash of all that each shard holds here, to see whether anything has changed.
    ///
    /// # Errors
    /// The data cannot be read.
    pub fn state_hashes(&self) -> orbit_actors::error::Result<BTreeMap<u16, String>> {
        self.engine.state_hashes()
    }

    /// Rows of the index tables that are missing or too many: none, at any moment. Reads everything.
    ///
    /// # Errors
    /// The data cannot be read.
    pub fn index_faults(&self) -> orbit_actors::error::Result<Vec<String>> {
        self.engine.check()
    }

    /// Takes no new work, finishes what is under way and closes the data.
    ///
    /// # Errors
    /// The data was not closed in time; what was acknowledged is on disk all the same. End the process by
    /// [`orbit_raft::disk::end_process`].
    pub async fn stop(self) -> Result<(), StillOpen> {
        let Self { service, engine, built_in, standing, serving, telling, open, .. } = self;
        standing.send_replace(Standing::Draining);
        telling.abort();
        serving.set(false).await;
        // Others lead before anything is cut off here; alone there is nobody to take over.
        engine.give_leaderships_away(GIVE_AWAY_TIME_MAX).await;
        engine.drain();
        let Open { http, grpc, peer, health, .. } = open;
        tokio::join!(http.stop(), grpc.stop(), built_in.stop());
        let ended = tokio::time::timeout(FINISH_TIME_MAX, engine.shutdown()).await;
        tokio::join!(peer.stop(), health.stop());
        drop((service, engine));
        match ended {
            Ok(closed) => closed,
            Err(_) => Err(StillOpen),
        }
    }
}

/// Where other nodes reach this one.
fn advertised(config: &Config, addresses: &Addresses) -> String {
    config.peer_advertise.clone().unwrap_or_else(|| addresses.peer.to_string())
}

fn settings(config: &Config, address: PeerAddress) -> engine::Settings {
    engine::Settings {
        shards: config.shards,
        shards_are_asked_for: config.shards_set,
        address: Some(address),
        heartbeat_interval: config.heartbeat_interval,
        session_timeout: config.session_timeout,
        alive_max: config.alive_max,
        in_flight_max: config.in_flight_max,
        output_bytes_max: config.payload_bytes_max,
        retention: config.retention,
        batch_rate: config.batch_rate,
        disk: disk::probe(&config.data_dir),
        disk_limits: config.disk_limits,
        node_name: config.node_name.clone(),
        ..engine::Settings::default()
    }
}

fn http_task(config: &Config) -> builtin::Settings {
    builtin::Settings {
        enabled: config.http_task_enabled.unwrap_or(false),
        allow: config.http_task_allow.clone(),
        secrets_dir: config.http_task_secrets_dir.clone(),
        payload_bytes_max: config.payload_bytes_max,
    }
}

/// The configured names, and the addresses listened on where they are certain ones.
fn names(config: &Config) -> gateway::guard::Names {
    let certain = [config.http_listen, config.grpc_listen].into_iter().map(|address| address.ip());
    let certain = certain.filter(|address| !address.is_unspecified()).map(|address| address.to_string());
    Names::new(config.http_names.iter().cloned().chain(certain).collect())
}

/// Tells over gRPC when the node takes requests.
async fn tell(mut ready: watch::Receiver<bool>, serving: grpc::Serving) {
    loop {
        let now = *ready.borrow_and_update();
        serving.set(now).await;
        if ready.changed().await.is_err() {
            return;
        }
    }
}
