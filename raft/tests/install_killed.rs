//! A follower that is killed while it takes in a snapshot: it holds the old state or the new one, never a half, and
//! comes back as a whole.
//!
//! The follower is this test binary itself, started again with `ORBIT_CHILD` set; it kills itself at a named point.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use orbit_raft::clock::SystemClock;
use orbit_raft::disk::{
    Batch, Disk, Error, FatalHook, ImageWriter, KeyRange, RocksDisk, RocksFrozen, SstFile, SstWriter, StateDisk, View,
    Visit,
};
use orbit_raft::network::{GrpcPeerService, GrpcTransport};
use orbit_raft::state_store::StateHash;
use orbit_raft::{Environment, NodeId, Parts, Production, RaftNode, Settings, Storage};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use support::{GROUP, Served, get, leads, open_storage, parts, put, within};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio_stream::wrappers::TcpListenerStream;

/// The follower that is killed.
const KILLED: u64 = 3;
/// How many rows are written while it is away, and how long one is: more than one piece of a snapshot.
const ROWS: usize = 60;
const ROW_BYTES: usize = 64 << 10;

/// Where it is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Point {
    Never,
    /// Some pieces have come.
    Receiving,
    /// All have come and are on disk.
    Received,
    /// Before the rows are replaced.
    Installing,
    /// At some moment while they are, after so many microseconds.
    Amid(u64),
    /// They are replaced, and nobody knows yet.
    Installed,
}

const POINTS: [&str; 6] = ["receiving", "received", "installing", "amid 1000", "amid 6000", "installed"];

impl Point {
    fn named(name: &str) -> Point {
        match name.split_once(' ').map_or((name, 0), |(name, after)| (name, after.parse().unwrap())) {
            ("never", _) => Point::Never,
            ("receiving", _) => Point::Receiving,
            ("received", _) => Point::Received,
            ("installing", _) => Point::Installing,
            ("amid", after_us) => Point::Amid(after_us),
            ("installed", _) => Point::Installed,
            (other, _) => panic!("{other}"),
        }
    }

    /// The end of this process, if this is where it ends: nothing is closed, nothing is written out.
    fn reached(self, here: Point) {
        if self == here {
            println!("\nhit");
            std::process::abort();
        }
    }
}

/// The state of a follower that is killed.
#[derive(Debug, Clone)]
struct Fragile {
    rows: RocksDisk,
    dies: Point,
}

impl View for Fragile {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Error> {
        self.rows.get(key)
    }
    fn scan(&self, range: &KeyRange, visit: &mut Visit<'_>) -> Result<(), Error> {
        self.rows.scan(range, visit)
    }
}

impl Disk for Fragile {
    fn write(&self, batch: Batch) -> Result<(), Error> {
        self.rows.write(batch)
    }
    async fn sync(&self) -> Result<(), Error> {
        self.rows.sync().await
    }
    fn last(&self, range: &KeyRange) -> Result<Option<(Vec<u8>, Bytes)>, Error> {
        self.rows.last(range)
    }
    fn closed(&self) -> BoxFuture<'static, ()> {
        self.rows.closed()
    }
}

impl StateDisk for Fragile {
    type Held = <RocksDisk as StateDisk>::Held;
    type Frozen = RocksFrozen;
    type Body = SstFile;
    type Incoming = Pieces;

    const IMAGE_FORMAT: u32 = RocksDisk::IMAGE_FORMAT;

    fn read<R>(&self, reader: impl FnOnce(&dyn View) -> R) -> R {
        self.rows.read(reader)
    }
    async fn make_durable(&self) -> Result<(), Error> {
        self.rows.make_durable().await
    }
    async fn hold(&self) -> Result<Self::Held, Error> {
        self.rows.hold().await
    }
    async fn freeze(&self, range: KeyRange, head: Vec<u8>) -> Result<(Option<Bytes>, RocksFrozen), Error> {
        self.rows.freeze(range, head).await
    }
    fn receive(&self) -> Result<Pieces, Error> {
        Ok(Pieces { inner: self.rows.receive()?, dies: self.dies })
    }
    async fn install(&self, range: KeyRange, body: SstFile) -> Result<(), Error> {
        self.dies.reached(Point::Installing);
        if let Point::Amid(after_us) = self.dies {
            #[allow(clippy::disallowed_methods, reason = "a thread of its own, that ends the process at some moment")]
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_micros(after_us));
                Point::Amid(after_us).reached(Point::Amid(after_us));
            });
        }
        self.rows.install(range, body).await?;
        self.dies.reached(Point::Installed);
        Ok(())
    }
}

/// A snapshot on its way in.
#[derive(Debug)]
struct Pieces {
    inner: SstWriter,
    dies: Point,
}

impl ImageWriter for Pieces {
    type Body = SstFile;

    fn append(&mut self, piece: &[u8]) -> Result<(), Error> {
        self.inner.append(piece)?;
        // The opening brings none.
        if !piece.is_empty() {
            self.dies.reached(Point::Receiving);
        }
        Ok(())
    }

    fn finish(self) -> Result<SstFile, Error> {
        let body = self.inner.finish()?;
        self.dies.reached(Point::Received);
        Ok(body)
    }
}

/// Production, but for the disk of the state.
#[derive(Debug)]
struct ToBeKilled;

impl Environment for ToBeKilled {
    type Runtime = <Production as Environment>::Runtime;
    type LogDisk = RocksDisk;
    type StateDisk = Fragile;
    type Transport = GrpcTransport;
    type Clock = SystemClock;

    fn run_writer(writer: impl Future<Output = ()> + Send + 'static) -> std::io::Result<()> {
        Production::run_writer(writer)
    }
}

fn settings() -> Settings {
    Settings { snapshot_every: 40, log_kept: 0, purge_batch: 1, ..Settings::default() }
}

/// The life of the follower; does nothing when this is not one.
#[tokio::test(flavor = "multi_thread")]
async fn child() {
    let Ok(order) = std::env::var("ORBIT_CHILD") else { return };
    let [path, address, point] = order.split('|').collect::<Vec<_>>().try_into().unwrap();
    let Storage { identity, log, state } = open_storage(Path::new(path), KILLED);
    let node = RaftNode::<ToBeKilled>::start(Parts {
        identity,
        settings: settings(),
        log,
        state: Fragile { rows: state, dies: Point::named(point) },
        transport: GrpcTransport,
        clock: SystemClock,
        fatal: FatalHook::exit(),
    });
    let node = node.await.unwrap();
    let _group = node.open_group(GROUP).await.unwrap();
    let incoming = TcpListenerStream::new(TcpListener::bind(address).await.unwrap());
    let service = GrpcPeerService::service(node.peer_server());
    tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming).await.unwrap();
}

struct Cluster {
    dir: TempDir,
    address: String,
    others: Vec<Served>,
    dice: SmallRng,
}

impl Cluster {
    async fn start() -> Cluster {
        let (dir, mut addresses, mut listeners) = (tempfile::tempdir().unwrap(), BTreeMap::new(), Vec::new());
        for id in 1..=3 {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            addresses.insert(id, listener.local_addr().unwrap().to_string());
            listeners.push(listener);
        }
        // The port of the third is for its process.
        drop(listeners.pop());
        let mut others = Vec::new();
        for (id, listener) in (1..).zip(listeners) {
            others.push(Served::start(&dir.path().join(id.to_string()), id, listener, settings()).await);
        }
        others[0].group.initialize(support::members(&addresses)).await.unwrap();
        Cluster { dir, address: addresses[&KILLED].clone(), others, dice: SmallRng::seed_from_u64(3) }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join(KILLED.to_string())
    }

    async fn leader(&self) -> &Served {
        let waits = self.others.iter().map(|served| Box::pin(async move { (leads(&served.group).await, served).1 }));
        within(20, "an election", futures::future::select_all(waits)).await.0
    }

    fn start_follower(&self, point: &str) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["child", "--exact", "--nocapture"])
            .env("ORBIT_CHILD", format!("{}|{}|{point}", self.path().display(), self.address))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap()
    }

    /// Writes until the log does not reach back to what the follower has.
    async fn write_past(&mut self, had: StateHash) -> StateHash {
        let group = self.leader().await.group.clone();
        for n in 0..ROWS {
            // Nothing that is compressed much.
            let value: String = (0..ROW_BYTES / 16).map(|_| format!("{:016x}", self.dice.random::<u64>())).collect();
            within(20, "a proposal", group.propose(vec![put(&format!("k{n}"), &value)])).await.unwrap();
        }
        // It may have some entries that it has not applied.
        let behind = index(had) + ROWS as u64 / 6;
        let purged = group.wait_for(|status| status.purged.is_some_and(|purged| purged.index > behind));
        within(20, "purging", purged).await.unwrap();
        self.leader_holds().await
    }

    async fn leader_holds(&self) -> StateHash {
        let group = &self.leader().await.group;
        within(20, "a read", group.read_index()).await.unwrap();
        group.state_hash().unwrap()
    }

    /// What lies on the disk of the follower, which answers nobody.
    async fn follower_holds(&self) -> StateHash {
        let storage = Storage::open(&self.path(), Some(support::CLUSTER)).unwrap();
        let scratch = std::fs::read_dir(self.path().join("state/scratch")).unwrap().count();
        assert_eq!(scratch, 0, "what came half is removed");
        let node = RaftNode::start(parts(storage, settings(), |log| log)).await.unwrap();
        let group = node.open_group(GROUP).await.unwrap();
        let held = group.state_hash().unwrap();
        drop(group);
        node.shutdown().await.unwrap();
        held
    }

    /// Runs the follower until it has all that the leader has.
    async fn catch_up(&self) {
        let mut child = self.start_follower("never");
        let group = &self.leader().await.group;
        let last = group.status().last_index;
        let whole = group.wait_for(|status| status.matched.get(&NodeId(KILLED)).copied() >= last);
        within(30, "catching up", whole).await.unwrap();
        child.kill().await.unwrap();
    }
}

/// How far a replica has applied the log.
fn index(held: StateHash) -> u64 {
    held.applied.map_or(0, |applied| applied.log_id.index)
}

/// Waits for its end; whether it came where it was to come.
async fn hit(mut child: Child) -> bool {
    let (mut lines, mut hit) = (BufReader::new(child.stdout.take().unwrap()).lines(), false);
    while let Some(line) = lines.next_line().await.unwrap() {
        hit |= line == "hit";
    }
    child.wait().await.unwrap();
    hit
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_killed_while_it_installs_a_snapshot_holds_the_old_state_or_the_new_one() {
    let mut cluster = Cluster::start().await;
    within(20, "a proposal", cluster.leader().await.group.propose(vec![put("first", "1")])).await.unwrap();
    cluster.catch_up().await;
    let mut installed = 0;
    for point in POINTS {
        let had = cluster.follower_holds().await;
        let new = cluster.write_past(had).await;
        let child = cluster.start_follower(point);
        assert!(within(30, point, hit(child)).await, "{point}");
        let now = cluster.follower_holds().await;
        assert!(now == had || now == new, "{point}: it had {had:?}, the leader has {new:?}, now it has {now:?}");
        if ["receiving", "received", "installing"].contains(&point) {
            assert_eq!(now, had, "{point}");
        }
        installed += usize::from(now == new);
    }
    assert!(installed > 0, "the last kill comes after the rows are replaced");

    // What came to an end in the middle of it goes on: the snapshot, or the log behind it.
    let had = cluster.follower_holds().await;
    assert!(index(had) < index(cluster.write_past(had).await));
    cluster.catch_up().await;
    assert_eq!(cluster.follower_holds().await, cluster.leader_holds().await);
    assert_eq!(get(&cluster.leader().await.group, "first").as_deref(), Some("1"));
    for served in cluster.others {
        served.stop().await;
    }
}
