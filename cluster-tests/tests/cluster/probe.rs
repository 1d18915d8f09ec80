//! Writes that are acknowledged at some nodes, and then asked for at another: it shows them, or does not answer.
//!
//! A read that shows less than was acknowledged before it was sent is the answer of a leader that is none (I20).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use orbit_cluster_tests::ledger::Start;
use orbit_harness::{Addresses, Client, Outcome, Request};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::scene::id_on;
use crate::support::{PATIENCE, Shared, caller, client};

/// An execution that takes signals until it is cancelled.
pub const DOCUMENT: &str = r#"
name: tally
version: 1.0.0
signals: {add: {type: object}}
steps:
  - {id: all, await: {signal: add, until: "count == 1000000"}}
"#;
/// Reads whose answers are not there yet, per shard.
const READS_MAX: usize = 64;
/// Between two writes.
const PAUSE: Duration = Duration::from_millis(50);

/// What became of the reads at the node in question.
#[derive(Debug, Default, Clone, Copy)]
pub struct Reads {
    pub current: usize,
    pub refused: usize,
    /// The longest that anybody waited for an answer.
    pub longest: Duration,
}

impl Reads {
    pub fn and(self, other: Self) -> Self {
        Self {
            current: self.current + other.current,
            refused: self.refused + other.refused,
            longest: self.longest.max(other.longest),
        }
    }
}

/// Somebody who writes to one execution and reads what was written elsewhere.
pub struct Probe {
    shared: Arc<Shared>,
    id: String,
    shard: u64,
    writer: client::Client,
    count: u64,
    /// Which node is asked first.
    next: usize,
    /// Executions beside the one that is written to.
    started: Vec<String>,
}

impl Probe {
    /// One on a shard.
    pub async fn on(shared: &Arc<Shared>, shard: u64, name: &str) -> Self {
        let id = id_on(shard, &format!("tally-{name}-{shard}"));
        let mut writer = client::Client::of(shared, 0);
        caller::start(shared, &mut writer, &id, "tally", &json!({})).await;
        shared.ledger().signals.insert(id.clone(), (BTreeSet::new(), Vec::new()));
        Self { shared: Arc::clone(shared), id, shard, writer, count: 0, next: 0, started: Vec::new() }
    }

    /// Writes elsewhere, and reads at `old` what was acknowledged, until so much time has passed and so many writes
    /// were acknowledged. The answers are for [`Asked::heard`]: a node that stands still gives them later.
    pub async fn run(
        mut self,
        elsewhere: Vec<Addresses>,
        old: Addresses,
        time: Duration,
        writes: u64,
    ) -> (Self, Asked) {
        let (began, first) = (Instant::now(), self.count);
        let mut reads = JoinSet::new();
        while began.elapsed() < time || self.count - first < writes {
            let seq = self.write(&elsewhere).await;
            if reads.len() < READS_MAX {
                let path = format!("/v1/executions/{}", self.id);
                let read = Request::get("read", &self.id, &path);
                reads.spawn(ask(Arc::clone(&self.shared), old.clone(), read, seq));
            }
            // A new execution, too, of which the old leader may never have heard.
            if self.count % 5 == 1 && reads.len() < READS_MAX {
                let id = id_on(self.shard, &format!("{}-{}", self.id, self.count));
                let first = self.next % elsewhere.len();
                start(&self.shared, &[&elsewhere[first..], &elsewhere[..first]].concat(), &id).await;
                self.started.push(id.clone());
                let read = Request::get("read", &id, &format!("/v1/executions/{id}"));
                reads.spawn(ask(Arc::clone(&self.shared), old.clone(), read, 1));
            }
            sleep(PAUSE).await;
        }
        (self, Asked(reads))
    }

    /// An acknowledged signal; its place in the history.
    async fn write(&mut self, nodes: &[Addresses]) -> u64 {
        let name = format!("{}-{}", self.id, self.count);
        self.count += 1;
        let sent = |shared: &Shared| shared.ledger().signals.entry(self.id.clone()).or_default().0.insert(name.clone());
        sent(&self.shared);
        let path = format!("/v1/executions/{}/signals/add?dedup_id={name}", self.id);
        let signal = Request::post("signal", &self.id, &path, json!({"n": self.count}));
        let (status, body) = self.settle(nodes, &signal).await;
        let seq = body["seq"].as_u64().filter(|_| status == 200);
        let seq = seq.unwrap_or_else(|| panic!("{signal:?}: {status} {body}"));
        self.shared.ledger().signals.entry(self.id.clone()).or_default().1.push(name);
        self.shared.acknowledged();
        seq
    }

    /// Asks first who answered the last time: one that is cut off from the leader takes seconds to say so.
    async fn settle(&mut self, nodes: &[Addresses], request: &Request) -> (u16, Value) {
        let mut client = Client::new(&self.shared.recorder).unwrap();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let node = &nodes[self.next % nodes.len()];
            if let Outcome::Answered { status, output } = client.call(node, request).await {
                return (status, output);
            }
            assert!(Instant::now() < deadline, "nobody answers {request:?}");
            self.next += 1;
            sleep(PAUSE).await;
        }
    }

    /// Lets all executions end.
    pub async fn end(mut self) {
        for id in &self.started {
            caller::follow(&self.shared, &mut self.writer, id).await;
        }
        caller::cancel(&self.shared, &mut self.writer, &self.id).await;
        caller::follow(&self.shared, &mut self.writer, &self.id).await;
    }
}

/// Starts a short execution at one of these nodes.
pub async fn start(shared: &Arc<Shared>, nodes: &[Addresses], id: &str) {
    let input = json!({"ms": 1});
    let mut client = Client::new(&shared.recorder).unwrap();
    let start = client.settle(nodes, &Request::start("nap", id, &input), PATIENCE).await;
    let (status, body) = start.unwrap_or_else(|error| panic!("{error}"));
    assert!(status < 300, "{id}: {status} {body}");
    let created = u32::from(body["created"] == true);
    shared.ledger().starts.insert(id.to_owned(), Start { workflow: "nap".into(), input, created });
}

/// Reads whose answers may still be to come.
pub struct Asked(JoinSet<Reads>);

impl Asked {
    pub async fn heard(self) -> Reads {
        self.0.join_all().await.into_iter().fold(Reads::default(), Reads::and)
    }
}

/// One read at one node of what has been acknowledged up to `seq`.
async fn ask(shared: Arc<Shared>, node: Addresses, read: Request, seq: u64) -> Reads {
    let asked = Instant::now();
    let mut client = Client::patient(&shared.recorder, Duration::from_secs(30)).unwrap();
    let outcome = client.call(&node, &read).await;
    let longest = asked.elapsed();
    match outcome {
        Outcome::Answered { status: 200, output } if output["last_seq"].as_u64() >= Some(seq) => {
            Reads { current: 1, refused: 0, longest }
        }
        Outcome::Answered { status, output } => {
            let what = format!("I20: {} answered {read:?} with {status} {output}, acknowledged was {seq}", node.http);
            shared.surprise(what);
            Reads::default()
        }
        Outcome::Refused(_) | Outcome::Unknown(_) => Reads { current: 0, refused: 1, longest },
    }
}
