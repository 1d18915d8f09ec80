//! Three nodes that are one cluster, with callers and workers at each.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use orbit_cluster_tests::history::HandOver;
use orbit_harness::{Client, Config, Launch, Node, NodeOptions, Outcome, Request, World, binary};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, timeout};
use xxhash_rust::xxh3::xxh3_64;

use crate::probe;
use crate::support::load::Load;
use crate::support::{PATIENCE, caller, client, workload};

pub const SHARDS: u64 = 4;
/// Slots of the ids; each shard owns as many.
const SLOTS: u64 = 4096;
const WORKERS: usize = 4;
/// Between two questions about a state that nothing announces.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// The shard that an execution lives on.
pub fn shard_of(execution_id: &str) -> u64 {
    xxh3_64(execution_id.as_bytes()) % SLOTS * SHARDS / SLOTS
}

/// An id on a shard that begins like this.
pub fn id_on(shard: u64, prefix: &str) -> String {
    let mut ids = (0..).map(|number: u64| format!("{prefix}-{number}"));
    ids.find(|id| shard_of(id) == shard).expect("there is no last number")
}

pub fn world(name: &str) -> World {
    World::new(env!("CARGO_TARGET_TMPDIR"), name).unwrap_or_else(|error| panic!("{error}"))
}

pub fn launch() -> Launch {
    Launch::server(binary().unwrap_or_else(|error| panic!("{error}"))).arg("--insecure-listen")
}

pub fn options() -> NodeOptions {
    NodeOptions::new().config(Config::new().with("cluster.shards", i64::try_from(SHARDS).unwrap()))
}

/// Waits for a state that nothing announces.
pub async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let asked = async {
        let mut ask = interval(ASK_EVERY);
        loop {
            ask.tick().await;
            if holds().await {
                return;
            }
        }
    };
    timeout(PATIENCE, asked).await.unwrap_or_else(|_| panic!("not in {PATIENCE:?}: {what}"));
}

/// The cluster, and who is at it.
pub struct Scene<'a> {
    pub world: &'a World,
    pub nodes: Vec<Node>,
    pub load: Load,
}

impl<'a> Scene<'a> {
    /// Three nodes, one cluster, no load.
    pub async fn quiet(world: &'a World) -> Self {
        let nodes = world.add_cluster(&["n1", "n2", "n3"], &options()).unwrap();
        nodes.iter().for_each(|node| node.start(&launch()).unwrap());
        let logs = nodes.iter().map(|node| node.dir().join("log")).collect();
        let load = Load::new(world.dir().to_owned(), logs);
        load.shared.at.send_replace(nodes.iter().map(Node::addresses).collect());
        let scene = Self { world, nodes, load };
        scene.ask(&scene.nodes[0], &Request::post("init", "", "/v1/cluster/init", json!({})), 200).await;
        scene.ready().await;
        scene.balanced().await;
        scene
    }

    /// Three nodes under load.
    pub async fn busy(world: &'a World, seed: u64) -> Self {
        let mut scene = Self::quiet(world).await;
        scene.load.deploy(workload::DOCUMENTS).await;
        scene.load.spread(WORKERS);
        scene.load.call(seed);
        scene
    }

    pub async fn ready(&self) {
        for node in &self.nodes {
            node.ready().await.unwrap_or_else(|error| panic!("{error}"));
        }
    }

    /// Asks one node until it answers.
    pub async fn ask(&self, node: &Node, request: &Request, expected: u16) -> Value {
        let mut client = Client::new(&self.load.shared.recorder).unwrap();
        let settled = client.settle(&[node.addresses()], request, PATIENCE).await;
        let (status, body) = settled.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(status, expected, "{request:?} at {}: {body}", node.name());
        body
    }

    /// What a node says of itself, if it says anything at once.
    async fn health(&self, node: &Node) -> Value {
        let mut client = Client::patient(&self.load.shared.recorder, Duration::from_secs(5)).unwrap();
        match client.call(&node.addresses(), &Request::get("health", node.name(), "/v1/health")).await {
            Outcome::Answered { status: 200, output } => output,
            _ => Value::Null,
        }
    }

    /// The shards that a node leads, as it says.
    pub async fn led(&self, node: &Node) -> BTreeSet<u64> {
        let health = self.health(node).await;
        let shards = health["shards"].as_array().into_iter().flatten();
        shards.filter(|shard| shard["role"] == "leader").filter_map(|shard| shard["id"].as_u64()).collect()
    }

    /// Waits until each shard has one leader, and no node leads two more than another.
    pub async fn balanced(&self) {
        until("the leaders are spread evenly", async || {
            let mut all = Vec::new();
            for node in &self.nodes {
                all.push(self.led(node).await);
            }
            let shards: BTreeSet<_> = all.iter().flatten().collect();
            let counts: Vec<_> = all.iter().map(BTreeSet::len).collect();
            let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            counts.iter().sum::<usize>() == shards.len() && shards.len() as u64 == SHARDS && most - least <= 1
        })
        .await;
    }

    /// How many results have been accepted so far.
    pub fn mark(&self) -> usize {
        self.load.shared.accepted().len()
    }

    /// When a result of each shard was accepted since then, for the first time, as workers heard.
    fn steps_since(&self, mark: usize) -> BTreeMap<u64, Instant> {
        let mut first = BTreeMap::new();
        for (at, token) in &self.load.shared.accepted()[mark..] {
            if let Some(named) = HandOver::of(token) {
                first.entry(shard_of(&named.execution_id)).or_insert(*at);
            }
        }
        first
    }

    /// Waits until steps complete on all these shards.
    pub async fn steps_on(&self, shards: &BTreeSet<u64>, mark: usize) {
        let mut acks = self.load.shared.acks.subscribe();
        let all = async {
            loop {
                acks.borrow_and_update();
                let steps = self.steps_since(mark);
                if shards.iter().all(|shard| steps.contains_key(shard)) {
                    return;
                }
                acks.changed().await.unwrap();
            }
        };
        let done = timeout(PATIENCE, all).await;
        assert!(done.is_ok(), "of {shards:?}, steps complete only on {:?}", self.steps_since(mark).keys());
    }

    /// Waits until each node takes a write for each shard.
    pub async fn whole(&self, name: &str) {
        let asked = Instant::now();
        let mut writes = JoinSet::new();
        for node in &self.nodes {
            for shard in 0..SHARDS {
                let id = id_on(shard, &format!("{name}-{}", node.name()));
                let (shared, at) = (Arc::clone(&self.load.shared), [node.addresses()]);
                writes.spawn(async move {
                    probe::start(&shared, &at, &id).await;
                    id
                });
            }
        }
        let started = writes.join_all().await;
        println!("{name}: every node takes writes for every shard after {:?}", asked.elapsed());
        let mut client = client::Client::of(&self.load.shared, 0);
        for id in started {
            caller::follow(&self.load.shared, &mut client, &id).await;
        }
    }

    /// Lets everything end and judges it.
    pub async fn end(&mut self) -> BTreeMap<String, orbit_cluster_tests::History> {
        self.load.finish().await;
        let histories = self.load.histories().await;
        self.load.judge(&histories);
        println!("refused: {:?}", self.load.shared.refusals());
        histories
    }
}
