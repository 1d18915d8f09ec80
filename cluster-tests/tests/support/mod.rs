//! One node process, those who give it work and those who do it, and what they remember of it.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

pub mod caller;
pub mod client;
pub mod node;
pub mod worker;
pub mod workload;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use client::Client;
use node::{Addresses, Node};
use orbit_cluster_tests::ledger::Ledger;
use orbit_cluster_tests::{Fault, History, all, family};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How long anything may take here that is no hang.
pub const PATIENCE: Duration = Duration::from_secs(120);
const WORKERS: usize = 3;
const CALLERS: usize = 16;

/// What the participants share.
#[derive(Debug)]
pub struct Shared {
    /// Where the node is, while it runs.
    pub at: watch::Sender<Option<Addresses>>,
    ledger: Mutex<Ledger>,
    /// What nobody should ever be told; the run fails for it.
    surprises: Mutex<Vec<String>>,
    /// Open streams of workers.
    pub streams: watch::Sender<usize>,
    /// Results that were on a stream without an answer when it broke.
    pub unanswered: AtomicUsize,
    /// Acknowledgements of any kind.
    pub acks: watch::Sender<u64>,
    /// Drain notices heard.
    pub drained: AtomicUsize,
    /// Refusals by code.
    pub refused: Mutex<BTreeMap<String, u64>>,
    /// Nothing new is started any more.
    pub closing: AtomicBool,
}

impl Shared {
    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap()
    }

    pub fn surprise(&self, what: impl Into<String>) {
        self.surprises.lock().unwrap().push(what.into());
    }

    pub fn acknowledged(&self) {
        self.acks.send_modify(|acks| *acks += 1);
    }

    pub fn refused(&self, code: &str) {
        *self.refused.lock().unwrap().entry(code.to_owned()).or_default() += 1;
    }

    pub fn closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// Waits until so many more acknowledgements have come.
    pub async fn progress(&self, more: u64) {
        let mut acks = self.acks.subscribe();
        let goal = *acks.borrow() + more;
        let came = timeout(PATIENCE, acks.wait_for(|acks| *acks >= goal)).await;
        came.expect("nothing is acknowledged any more").unwrap();
    }
}

/// A node under load.
#[derive(Debug)]
pub struct World {
    pub shared: Arc<Shared>,
    /// Where its data, log and phase file are; kept when the test fails.
    pub dir: PathBuf,
    pub data: PathBuf,
    workers: JoinSet<()>,
    callers: JoinSet<()>,
}

impl World {
    /// Makes place for a node on a real disk: in memory a sync takes no time.
    pub fn new(name: &str) -> Self {
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let shared = Arc::new(Shared {
            at: watch::Sender::new(None),
            ledger: Mutex::default(),
            surprises: Mutex::default(),
            streams: watch::Sender::new(0),
            unanswered: AtomicUsize::new(0),
            acks: watch::Sender::new(0),
            drained: AtomicUsize::new(0),
            refused: Mutex::default(),
            closing: AtomicBool::new(false),
        });
        let data = dir.join("data");
        Self { shared, dir, data, workers: JoinSet::new(), callers: JoinSet::new() }
    }

    /// Starts the node and lets everybody know where it is.
    pub async fn start(&self) -> Node {
        let node = Node::start(&self.dir, &self.data).await.unwrap_or_else(|error| panic!("{error}"));
        self.shared.at.send_replace(Some(node.at.clone()));
        node
    }

    /// The node is gone: nobody looks for it any more, and all streams are seen to be broken.
    pub async fn gone(&self) {
        self.shared.at.send_replace(None);
        let mut streams = self.shared.streams.subscribe();
        let closed = timeout(PATIENCE, streams.wait_for(|open| *open == 0)).await;
        closed.expect("a stream does not notice that its node is gone").unwrap();
    }

    /// Registers the workflows and sets callers and workers to work.
    pub async fn load(&mut self, seed: u64) {
        let client = Client::of(&self.shared);
        client.deploy(workload::DOCUMENTS).await;
        for number in 0..WORKERS {
            self.workers.spawn(worker::run(Arc::clone(&self.shared), format!("worker-{number}")));
        }
        for number in 0..CALLERS {
            let dice = SmallRng::seed_from_u64(seed ^ ((number as u64 + 1) << 32));
            self.callers.spawn(caller::run(Arc::clone(&self.shared), number, dice));
        }
    }

    /// Lets everything that was started come to its end, then takes the workers away.
    pub async fn finish(&mut self) {
        self.shared.closing.store(true, Ordering::SeqCst);
        let all = async {
            while let Some(ended) = self.callers.join_next().await {
                ended.unwrap();
            }
        };
        if timeout(PATIENCE, all).await.is_err() {
            let ledger = self.shared.ledger();
            let open: Vec<_> = ledger.starts.keys().filter(|id| !ledger.ends.contains_key(*id)).collect();
            panic!("these do not end: {open:?}; see {}", self.dir.display());
        }
        self.workers.shutdown().await;
    }

    /// All histories of all that was acknowledged, and of their children.
    pub async fn histories(&self) -> BTreeMap<String, History> {
        let client = Client::of(&self.shared);
        let mut ids: Vec<String> = self.shared.ledger().starts.keys().cloned().collect();
        let mut histories = BTreeMap::new();
        while let Some(id) = ids.pop() {
            if let Some(history) = client.history(&id).await {
                ids.extend(family::children(&history).map(ToOwned::to_owned));
                histories.insert(id, history);
            }
        }
        histories
    }

    /// Fails with everything that must not be, and says where to look.
    pub fn judge(&self, histories: &BTreeMap<String, History>) {
        let ledger = self.shared.ledger();
        let mut faults: Vec<Fault> = ledger.check(histories);
        let mut wrong = self.shared.surprises.lock().unwrap().clone();
        for (id, history) in histories {
            let workflow = history.events.first().map_or("", |first| first.text("workflow"));
            faults.extend(all(history, workload::compensated(workflow)));
            let end = history.end().map_or("", |end| end.kind());
            let top = history.events.first().and_then(|first| first.0["parent"]["execution_id"].as_str());
            if !workload::may_end(workflow, end, ledger.cancels.get(top.unwrap_or(id)) == Some(&true)) {
                wrong.push(format!("{id} ({workflow}) ended {end:?}"));
            }
        }
        wrong.extend(faults.iter().map(ToString::to_string));
        let log = std::fs::read_to_string(self.dir.join("log")).unwrap();
        wrong.extend(log.lines().filter(|line| line.contains("panicked")).map(ToOwned::to_owned));
        assert!(ledger.starts.len() > CALLERS, "too little was done: {} starts", ledger.starts.len());
        if !wrong.is_empty() {
            for (id, history) in histories {
                if wrong.iter().any(|what| what.contains(id)) {
                    let lines: Vec<String> = history.events.iter().map(|event| event.0.to_string()).collect();
                    std::fs::write(self.dir.join(format!("{id}.jsonl")), lines.join("\n")).unwrap();
                }
            }
            let shown: Vec<_> = wrong.iter().take(30).collect();
            panic!("{} faults, see {}:\n{shown:#?}", wrong.len(), self.dir.display());
        }
        let tasks = ledger.tasks.len();
        let answered = ledger.tasks.values().filter(|task| task.answered == Some(true)).count();
        println!("{} executions, {tasks} hand-overs, {answered} accepted results", histories.len());
    }

    /// Nothing failed, so nobody will look at it.
    pub fn clean_up(self) {
        std::fs::remove_dir_all(&self.dir).unwrap();
    }
}
