//! The groups of one node over one log, one state and one link per peer.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use openraft::{AsyncRuntime, ConfigError};
use orbit_proto::peer::Hello;
use tokio::sync::watch;

use crate::clock::{Clock, GroupClock};
use crate::consensus::{Runtime, log_id_in};
use crate::disk::{Disk, FatalHook, StateDisk};
use crate::gate::{Gate, Gated};
use crate::group::{self, Group, Inner, Raft};
use crate::heartbeat;
use crate::identity::Identity;
use crate::log_store::{self, Inconsistent, Log, check};
use crate::network::{
    Acquaintance, Answers, Caller, Clients, PROTOCOL, PeerServer, Peers, Roster, StoredRoster, Transport,
};
use crate::peer_clocks::PeerClocks;
use crate::propose::Proposer;
use crate::read_index::Reads;
use crate::settings::Settings;
use crate::state_store::read::Reader;
use crate::state_store::{self, Marks, StateMachine};
use crate::types::GroupId;

/// How long closing the databases may take once the groups have stopped.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Everything a node stands on. In production that is tokio, RocksDB, gRPC and the system's clocks; a simulation
/// brings its own.
pub trait Environment: Sized + Send + Sync + 'static {
    /// Runs tasks.
    type Runtime: Runtime;
    /// Keeps the log.
    type LogDisk: Disk;
    /// Keeps the state.
    type StateDisk: StateDisk;
    /// Reaches the peers.
    type Transport: Transport;
    /// Tells the time.
    type Clock: Clock + Clone;

    /// Runs the writer of the log, best on a thread of its own: it blocks while it syncs.
    fn run_writer(writer: impl Future<Output = ()> + Send + 'static) -> std::io::Result<()>;
}

/// What a node is made of.
#[derive(Debug)]
pub struct Parts<E: Environment> {
    /// Who it is.
    pub identity: Identity,
    /// How it is tuned.
    pub settings: Settings,
    /// Its log.
    pub log: E::LogDisk,
    /// Its state.
    pub state: E::StateDisk,
    /// Its way to the peers.
    pub transport: E::Transport,
    /// Its clocks.
    pub clock: E::Clock,
    /// What to do when its storage fails.
    pub fatal: FatalHook,
}

/// A node or a group does not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The settings do not fit each other.
    #[error("the settings do not fit each other: {0}")]
    Settings(#[from] ConfigError),
    /// The disk does not work.
    #[error(transparent)]
    Disk(#[from] crate::disk::Error),
    /// The log cannot be used.
    #[error(transparent)]
    Log(#[from] log_store::Error),
    /// The state cannot be used.
    #[error(transparent)]
    State(#[from] state_store::Error),
    /// Something that was promised is gone.
    #[error(transparent)]
    Inconsistent(#[from] Inconsistent),
    /// The writer of the log does not start.
    #[error("the writer of the log does not start: {0}")]
    Writer(std::io::Error),
    /// The group is open already.
    #[error("group {0} is open already")]
    AlreadyOpen(GroupId),
    /// The group does not start.
    #[error("group {group} does not start: {reason}")]
    Group {
        /// The group.
        group: GroupId,
        /// Why.
        reason: String,
    },
}

/// A node has stopped, and its databases are not closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the node has stopped, but something still holds its databases open")]
pub struct StillOpen;

/// A node: its groups share one log writer and one link per peer.
pub struct RaftNode<E: Environment> {
    identity: Identity,
    settings: Settings,
    log: Log<E::LogDisk>,
    state: E::StateDisk,
    peers: Arc<Peers<E::Transport>>,
    server: Arc<PeerServer<E>>,
    clocks: PeerClocks,
    gate: Gated,
    fatal: FatalHook,
    groups: Arc<Mutex<BTreeMap<GroupId, Group<E>>>>,
    writer_ended: watch::Receiver<()>,
}

impl<E: Environment> fmt::Debug for RaftNode<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RaftNode").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl<E: Environment> RaftNode<E> {
    /// Starts a node without groups.
    pub async fn start(parts: Parts<E>) -> Result<Self, Error> {
        let Parts { identity, settings, log, state, transport, clock, fatal } = parts;
        settings.consensus()?;
        // What was applied and not synced before the last end counts as a snapshot from now on, so it must be durable.
        state.make_durable().await?;
        let (log, writer) = Log::open(log, fatal.clone());
        let (ended, writer_ended) = watch::channel(());
        let run = async move {
            writer.await;
            drop(ended);
        };
        E::run_writer(run).map_err(Error::Writer)?;
        let hello = Hello {
            protocol: PROTOCOL,
            cluster: identity.cluster.as_bytes().to_vec().into(),
            node_id: identity.node.0,
            incarnation: identity.incarnation.as_bytes().to_vec().into(),
            target_node_id: 0,
            format: settings.knows.format,
            rules: settings.knows.rules.clone(),
            version: settings.knows.version.clone(),
        };
        let (clocks, gate) = (PeerClocks::new(clock), Gated::default());
        let roster: Arc<dyn Roster> = Arc::new(StoredRoster::load(state.clone())?);
        let acquaintance = Acquaintance {
            hello: hello.clone(),
            roster: Arc::downgrade(&roster),
            gate: gate.clone(),
            clocks: clocks.clone(),
        };
        let peers = Arc::new(Peers::new(transport, acquaintance));
        // The server lets go of the roster, and of the state with it, when the node stops.
        let server = Arc::new(PeerServer::new(hello, state.clone(), roster, gate.clone(), clocks.clone()));
        let groups = Arc::default();
        drop(E::Runtime::spawn(heartbeat::beat::<E>(Arc::downgrade(&groups), settings.heartbeat)));
        Ok(RaftNode { identity, settings, log, state, peers, server, clocks, gate, fatal, groups, writer_ended })
    }

    /// Who this node is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Answers the peers of this node; to be put behind a listener.
    pub fn peer_server(&self) -> Arc<PeerServer<E>> {
        Arc::clone(&self.server)
    }

    /// From now on the layers above answer what other nodes call.
    pub fn answer_with(&self, answers: Arc<dyn Answers>) {
        self.server.answer_with(answers);
    }

    /// From now on this says what may be written, and whom this node speaks with. To be set once, before the groups
    /// are opened.
    pub fn guard_with(&self, gate: Arc<dyn Gate>) {
        self.gate.set(gate);
    }

    /// Reads the state of a group as it lies on disk, also before the group is opened: nothing is sent or written.
    pub fn read<R>(&self, group: GroupId, reader: impl FnOnce(&Reader<'_>) -> R) -> R {
        self.state.read(|view| reader(&Reader::new(group, view)))
    }

    /// The way to the other nodes.
    pub fn caller(&self) -> Caller<E> {
        Caller { peers: Arc::downgrade(&self.peers), groups: Arc::downgrade(&self.groups) }
    }

    /// What the clocks of the peers say, as measured on the links to them.
    pub fn peer_clocks(&self) -> PeerClocks {
        self.clocks.clone()
    }

    /// Opens a group. It takes part at once; a new one waits for its first members.
    pub async fn open_group(&self, id: GroupId) -> Result<Group<E>, Error> {
        if self.group(id).is_some() {
            return Err(Error::AlreadyOpen(id));
        }
        let log = self.log.group(id)?;
        let (record, installed) = self.state.read(|view| {
            let reader = Reader::new(id, view);
            Ok::<_, state_store::Error>((reader.record()?, reader.installed()?))
        })?;
        check(id, &log, record.log_id.map(log_id_in), installed.map(log_id_in))?;
        let clock = Arc::new(GroupClock::new(self.clocks.clone(), record.time_ms));
        let machine = StateMachine::load(id, self.state.clone(), Arc::clone(&clock), self.fatal.clone())?;
        let marks = machine.marks();
        let clients = Clients { group: id, peers: Arc::clone(&self.peers), _disk: PhantomData };
        let config = Arc::new(self.settings.consensus()?);
        let raft = Raft::<E>::new(self.identity.node, config, clients, log, machine).await;
        let raft = raft.map_err(|e| Error::Group { group: id, reason: e.to_string() })?;
        self.server.add(id, raft.clone());
        let group = self.handle(id, raft, clock, marks);
        self.groups.lock().unwrap_or_else(PoisonError::into_inner).insert(id, group.clone());
        Ok(group)
    }

    fn handle(&self, id: GroupId, raft: Raft<E>, clock: Arc<GroupClock>, marks: Arc<Marks<E::StateDisk>>) -> Group<E> {
        let leadership = group::watch_leadership::<E>(&raft);
        let proposer = Proposer {
            raft: raft.clone(),
            clock: Arc::clone(&clock),
            leadership: leadership.clone(),
            settings: self.settings.clone(),
            group: id,
            gate: self.gate.clone(),
        };
        Group::new(Inner {
            id,
            state: self.state.clone(),
            marks,
            clock,
            proposals: proposer.start(),
            reads: Reads::start(raft.clone()),
            leadership,
            deadline: self.settings.deadline,
            transfer_time: self.settings.election_max,
            raft,
        })
    }

    /// A group that is open.
    pub fn group(&self, id: GroupId) -> Option<Group<E>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    /// Stops all groups and returns once the log is written and both databases are closed. Members stay members.
    ///
    /// Whoever holds a [`Group`] or a disk of this node keeps the databases open, so they must be gone before. After
    /// [`StillOpen`] something is left behind: end the process by [`end_process`](crate::disk::end_process), because
    /// an ordinary exit may then turn into an abort.
    pub async fn shutdown(self) -> Result<(), StillOpen> {
        self.server.close();
        let groups = std::mem::take(&mut *self.groups.lock().unwrap_or_else(PoisonError::into_inner));
        for group in groups.values() {
            group.stop().await;
        }
        drop(groups);
        let (log_closed, state_closed) = (self.log.closed(), self.state.closed());
        let mut writer_ended = self.writer_ended.clone();
        drop(self);
        let closed = async {
            // Fails once the writer is gone, which is what is waited for.
            let _ = writer_ended.changed().await;
            log_closed.await;
            state_closed.await;
        };
        E::Runtime::timeout(CLOSE_TIMEOUT, closed).await.map_err(|_| StillOpen)
    }
}
