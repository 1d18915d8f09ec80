//! A node's engine: every operation, whichever surface it came through.
//!
//! - `announce`, [`raise`], [`membership`], `steward`: the nodes of the cluster, and what they know
//! - `definitions`, `executions`, `commands`, `batches`, `workers`: the operations
//! - `shipper`, `keeper`, `batch`: what a leader does for its shard by itself
//! - `inspect`, `replica`: checking the cluster while it works
//! - `lookout`: how this node is and the others are
//! - here: how it begins and ends, and the way of an ask to its execution

mod announce;
mod answer;
mod batch;
mod batches;
mod commands;
mod crew;
mod definitions;
mod executions;
mod inspect;
mod keeper;
mod lookout;
pub mod membership;
pub mod raise;
mod replica;
mod route;
mod settings;
mod shipper;
mod steward;
mod wait;
mod workers;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use orbit_raft::node::StillOpen;
use orbit_raft::{Environment, Identity, Leadership, NodeId, PeerAddress, RaftNode};
use ractor::{Actor, ActorRef};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use answer::Answering;
pub(crate) use crew::Crew;
pub use settings::Settings;
pub(crate) use shipper::MESSAGES_MAX as PARCEL_MESSAGES_MAX;

use crate::api::ShardHealth;
use crate::check;
use crate::condition::{Condition, Conditions};
use crate::definitions::Definitions;
pub use crate::desk::Connection;
use crate::desk::Desk;
use crate::error::{Code, Error, Result};
use crate::failure::{going_away, of_storage};
use crate::format::Formats;
use crate::found;
use crate::remote::Cluster;
use crate::remote::cluster::Seen;
use crate::shard::{Context, shard_of};
use crate::supervisor::{Shard, Supervisor};

/// How often the desk looks at its time-outs at least.
const TICK: Duration = Duration::from_millis(200);
/// The longest id of an execution.
const ID_MAX: usize = 200;
/// Most characters of an id that is made from a parent's (L8).
const DERIVED_ID_MAX: usize = 1_000;

/// A clone is another handle to the same engine.
pub struct Engine<E: Environment>(Arc<Inner<E>>);

struct Inner<E: Environment> {
    node: Mutex<Option<RaftNode<E>>>,
    /// Gone once the engine is shut down.
    running: RwLock<Option<Arc<Running<E>>>>,
    settings: Settings,
    identity: Identity,
    ready: watch::Sender<bool>,
    /// Why this version can be no part of the cluster any more.
    outgrown: watch::Sender<Option<Error>>,
}

/// Everything that ends with the engine.
struct Running<E: Environment> {
    cluster: Cluster<E>,
    formats: Formats,
    crew: Arc<Crew<E>>,
    desk: Desk,
    definitions: Definitions<E>,
    shards: Vec<Arc<Shard<E>>>,
    /// Held by the check that runs, if one does.
    checking: Arc<Mutex<()>>,
    /// Replicas that other nodes compare with theirs.
    replicas: replica::Replicas,
    supervisor: ActorRef<()>,
    ticker: JoinHandle<()>,
    /// Holds the groups until each shard has had a leader, which may never be.
    readying: JoinHandle<()>,
    /// Shippers of messages, keepers of what is kept, those who carry out batches.
    helpers: Vec<JoinHandle<()>>,
}

impl<E: Environment> Drop for Running<E> {
    fn drop(&mut self) {
        self.ticker.abort();
        self.readying.abort();
        self.helpers.iter().for_each(JoinHandle::abort);
    }
}

impl<E: Environment> Clone for Engine<E> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<E: Environment> fmt::Debug for Engine<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Engine")
    }
}

impl<E: Environment> Engine<E> {
    /// Opens the groups of a node: the one above the shards, and the shards. With `create` a cluster of this one node,
    /// which its peers would reach there, is made first if there is none.
    ///
    /// # Errors
    /// The groups do not open, or there is no cluster.
    pub async fn open(node: RaftNode<E>, settings: Settings, create: Option<PeerAddress>) -> Result<Self> {
        let identity = *node.identity();
        let conditions = Conditions::new(identity.node, settings.disk_limits);
        // Before anything is taken or led.
        lookout::measure(&settings.disk, &conditions).await;
        let cluster = Cluster::new(node.caller(), settings.leader_timeout, conditions);
        let clocks = node.peer_clocks();
        let formats = Formats::new();
        let founded = found::open(&node, &settings, &formats, create).await?;
        let desk = Desk::new(settings.of_desk());
        let crew = Crew::new(cluster.clone(), desk.clone(), founded.meta.clone());
        let definitions = Definitions::new(founded.meta, cluster.clone());
        // The number of shards is a u16.
        let count = founded.shards.len() as u16;
        let shard = |(number, group): (usize, orbit_raft::Group<E>)| {
            let (number, desk, definitions) = ((number as u16, count), desk.clone(), definitions.clone());
            let (crew, limits) = (Arc::clone(&crew), settings.of_context());
            let context = Context::new(number, group, desk, definitions, crew, settings.dice, limits);
            Arc::new(Shard {
                context: Arc::new(context),
                actor: watch::Sender::new(None),
                leads: watch::Sender::new(false),
                alive_max: settings.alive_max,
                alive_bytes_max: settings.alive_bytes_max,
            })
        };
        let shards: Vec<_> = founded.shards.into_iter().enumerate().map(shard).collect();
        let spawned = Actor::spawn(None, Supervisor::<E>::default(), shards.clone()).await;
        let (supervisor, _) = spawned.map_err(|error| Error::new(Code::Internal, error.to_string()))?;
        let ticker = tokio::spawn(tick(desk.clone()));
        let ready = watch::Sender::new(false);
        let readying = tokio::spawn(become_ready(shards.clone(), cluster.me, ready.clone()));
        let keeper = |shard: &Arc<Shard<E>>| tokio::spawn(keeper::run(Arc::clone(shard)));
        let mut helpers: Vec<_> = shards.iter().map(keeper).collect();
        Ok(Self(Arc::new_cyclic(|engine| {
            node.answer_with(Arc::new(Answering(engine.clone())));
            crew.begin(engine.clone());
            helpers.push(tokio::spawn(Arc::clone(&crew).tell()));
            helpers.push(tokio::spawn(Arc::clone(&crew).tell_demand()));
            helpers.push(tokio::spawn(announce::run(engine.clone(), definitions.meta().clone())));
            let groups = shards.iter().map(|shard| shard.context.group.clone());
            for group in groups.chain(std::iter::once(definitions.meta().clone())) {
                helpers.push(tokio::spawn(steward::run(engine.clone(), group)));
            }
            helpers.push(tokio::spawn(lookout::run(engine.clone(), settings.disk.clone(), clocks)));
            for shard in &shards {
                helpers.push(tokio::spawn(shipper::run(engine.clone(), Arc::clone(shard))));
                helpers.push(tokio::spawn(batch::run(engine.clone(), Arc::clone(shard))));
            }
            let (checking, replicas) = (Arc::default(), replica::Replicas::default());
            let running = Running {
                cluster,
                formats,
                crew,
                desk,
                definitions,
                shards,
                checking,
                replicas,
                supervisor,
                ticker,
                readying,
                helpers,
            };
            let (node, running) = (Mutex::new(Some(node)), RwLock::new(Some(Arc::new(running))));
            let outgrown = watch::Sender::new(None);
            Inner { node, running, settings, identity, ready, outgrown }
        })))
    }

    /// Becomes true once every shard may decide; reads and writes before wait for it.
    pub fn ready(&self) -> watch::Receiver<bool> {
        self.0.ready.subscribe()
    }

    /// Returns once this version can be no part of the cluster any more, because its format was raised beyond what it
    /// knows: the node is to be stopped, and to be started with a newer one.
    pub async fn outgrown(&self) -> Error {
        let mut outgrown = self.0.outgrown.subscribe();
        // Its sender lives as long as the engine.
        match outgrown.wait_for(Option::is_some).await.ok().and_then(|error| error.clone()) {
            Some(error) => error,
            None => going_away(),
        }
    }

    /// Takes no new polls and tells streams to go elsewhere; what is under way goes on.
    pub fn drain(&self) {
        if let Ok(running) = self.running() {
            running.desk.drain();
        }
    }

    /// Stops everything and closes the data. What is under way ends with an unknown outcome.
    ///
    /// # Errors
    /// Something still holds the data open: end the process by [`orbit_raft::disk::end_process`].
    pub async fn shutdown(&self) -> Result<(), StillOpen> {
        self.drain();
        let running = self.0.running.write().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(running) = running {
            self.0.ready.send_replace(false);
            running.helpers.iter().for_each(JoinHandle::abort);
            running.replicas.forget();
            for shard in &running.shards {
                let actor = shard.actor.borrow().clone();
                if let Some(actor) = actor {
                    // One that has stopped already is as good.
                    let _ = actor.stop_and_wait(None, Some(Duration::from_secs(5))).await;
                }
            }
            let _ = running.supervisor.stop_and_wait(None, Some(Duration::from_secs(5))).await;
        }
        match self.0.node.lock().await.take() {
            Some(node) => node.shutdown().await,
            None => Ok(()),
        }
    }

    fn running(&self) -> Result<Arc<Running<E>>> {
        let running = self.0.running.read().unwrap_or_else(PoisonError::into_inner).clone();
        running.ok_or_else(going_away)
    }

    // ---- the node

    /// Which node this is, of which cluster.
    pub fn identity(&self) -> Identity {
        self.0.identity
    }

    /// How this node is: its disk, its clock.
    pub fn condition(&self) -> Condition {
        self.running().map_or_else(|_| Condition::default(), |running| running.cluster.conditions.own())
    }

    /// Where the shards stand.
    pub fn shards(&self) -> Vec<ShardHealth> {
        let Ok(running) = self.running() else { return Vec::new() };
        let health = |shard: &Arc<Shard<E>>| {
            let (status, leadership) = (shard.context.group.status(), *shard.context.group.leadership().borrow());
            let applied = status.applied.map_or(0, |id| id.index);
            ShardHealth {
                id: shard.context.shard,
                role: match leadership {
                    Leadership::Leader { .. } => "leader",
                    Leadership::Follower { .. } => "follower",
                    Leadership::Stopped => "stopped",
                },
                leader: status.leader.map(|node| node.0),
                applied,
                read_only: shard.context.is_read_only(),
                lag: status.committed.map_or(0, |id| id.index).saturating_sub(applied),
            }
        };
        running.shards.iter().map(health).collect()
    }

    /// Executions that are not over, on the shards led here.
    pub fn active_executions(&self) -> u64 {
        self.running().map_or(0, |running| running.shards.iter().map(|shard| shard.context.alive()).sum())
    }

    /// Executions that are in memory: something happens to them, or has lately. The others are rows on disk.
    pub fn awake_executions(&self) -> u64 {
        self.running().map_or(0, |running| running.shards.iter().map(|shard| shard.context.awake()).sum())
    }

    /// Executions on the shards led here that met an internal error and are not decided any more.
    pub fn broken_executions(&self) -> usize {
        self.running().map_or(0, |running| running.shards.iter().map(|shard| shard.context.broken.len()).sum())
    }

    /// Runs that were removed because their retention had passed, since the node began.
    pub fn removed_runs(&self) -> u64 {
        self.running().map_or(0, |running| running.shards.iter().map(|shard| shard.context.removed()).sum())
    }

    /// Histories that came to a fifth of their limit since the node began.
    pub fn long_histories(&self) -> u64 {
        self.running().map_or(0, |running| running.shards.iter().map(|shard| shard.context.long()).sum())
    }

    /// Worker sessions.
    pub fn worker_sessions(&self) -> u64 {
        self.running().map_or(0, |running| running.desk.sessions())
    }

    /// A hash over the applied state of every group, for tests that compare: it says whether anything was written.
    ///
    /// # Errors
    /// `STORAGE_ERROR`.
    pub fn state_hashes(&self) -> Result<BTreeMap<u16, String>> {
        let running = self.running()?;
        let hash = |shard: &Arc<Shard<E>>| {
            let hash = shard.context.group.state_hash().map_err(of_storage)?;
            Ok((shard.context.shard, format!("{hash:?}")))
        };
        running.shards.iter().map(hash).collect()
    }

    /// Messages between executions that are not known to have arrived, on the shards that are here.
    ///
    /// # Errors
    /// `STORAGE_ERROR`.
    pub fn messages_under_way(&self) -> Result<u64> {
        let mut count = 0;
        for shard in &self.running()?.shards {
            let scanned = shard.context.group.read(|reader| {
                reader.scan(&crate::table::outbox(), |_, _| {
                    count += 1;
                    std::ops::ControlFlow::Continue(())
                })
            });
            scanned.map_err(crate::failure::of_storage)?;
        }
        Ok(count)
    }

    /// Checks all that each shard here can say by itself, at once, and lists what is not as it must be: nothing, at any
    /// moment. For tests; [`Engine::check_cluster`] checks more, and lets others go first.
    ///
    /// # Errors
    /// `STORAGE_ERROR`.
    pub fn check(&self) -> Result<Vec<String>> {
        let running = self.running()?;
        let count = running.shards.len() as u16;
        let faults = running
            .shards
            .iter()
            .map(|shard| check::check(&shard.context.group, (shard.context.shard, count), &running.definitions));
        Ok(faults.collect::<Result<Vec<_>>>()?.concat())
    }

    // ---- the way to an execution

    /// The shard of an execution, whose replica here has all that was acknowledged before; and what its leader says of
    /// the execution.
    async fn read(&self, id: &str) -> Result<(Arc<Shard<E>>, Seen)> {
        let running = self.running()?;
        let shard = running.shard(&valid_id(id.to_owned())?);
        let seen = running.cluster.read_index(&shard.context.group, Some(id)).await?;
        Ok((shard, seen))
    }
}

impl<E: Environment> Running<E> {
    fn shard(&self, id: &str) -> Arc<Shard<E>> {
        // At most as many shards as a u16 holds.
        let number = shard_of(id, self.shards.len() as u16);
        Arc::clone(&self.shards[usize::from(number)])
    }
}

/// Another node answered what was not asked.
fn odd() -> Error {
    Error::new(Code::Internal, "another node gave an answer that does not belong to the question")
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

async fn tick(desk: Desk) {
    loop {
        let next = desk.tick(Instant::now());
        tokio::time::sleep_until(next.min(Instant::now() + TICK)).await;
    }
}

/// Ready: each shard is led, here or elsewhere.
async fn become_ready<E: Environment>(shards: Vec<Arc<Shard<E>>>, me: NodeId, ready: watch::Sender<bool>) {
    for shard in shards {
        let (mut leads, mut leadership) = (shard.leads.subscribe(), shard.context.group.leadership());
        let elsewhere = |now: &Leadership| matches!(now, Leadership::Follower { leader: Some(node) } if *node != me);
        tokio::select! {
            led = leads.wait_for(|leads| *leads) => if led.is_err() { return },
            led = leadership.wait_for(elsewhere) => if led.is_err() { return },
        }
    }
    ready.send_replace(true);
}

/// Ids of children are made from their parents' and may be longer than those that somebody chooses.
fn valid_id(id: String) -> Result<String> {
    of_length(id, DERIVED_ID_MAX)
}

fn valid_new_id(id: String) -> Result<String> {
    of_length(id, ID_MAX)
}

/// Whether an execution can have this id.
pub(crate) fn is_id(id: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    (1..=DERIVED_ID_MAX).contains(&id.len()) && id.bytes().all(fits) && id.bytes().any(|byte| byte != b'.')
}

fn of_length(id: String, max: usize) -> Result<String> {
    if id.len() <= max && is_id(&id) {
        return Ok(id);
    }
    let message = format!("an execution id has 1 to {max} of A-Z a-z 0-9 - _ . : and not only dots");
    Err(Error::new(Code::InvalidExecutionId, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_what_the_api_says() {
        for good in ["a", "order:7", "A-Z_0.9", "...a", &"x".repeat(200)] {
            assert!(valid_new_id(good.to_owned()).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "a b", "ä", "a\0b", &"x".repeat(201)] {
            assert_eq!(valid_new_id(bad.to_owned()).unwrap_err().code, Code::InvalidExecutionId, "{bad}");
        }
    }
}
