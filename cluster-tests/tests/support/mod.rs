//! One node process, those who give it work and those who do it, and what they remember of it.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

pub mod caller;
pub mod client;
pub mod node;
pub mod workload;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use client::Client;
use node::Node;
use orbit_cluster_tests::{Fault, History, all, family};
use orbit_harness::{Addresses, Notebook, Worker};
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
    /// Where the node is, while it runs: one, or none.
    pub at: watch::Sender<Vec<Addresses>>,
    notebook: Arc<Notebook>,
    /// Nothing new is started any more.
    pub closing: AtomicBool,
}

impl Deref for Shared {
    type Target = Notebook;

    fn deref(&self) -> &Notebook {
        &self.notebook
    }
}

impl Shared {
    pub fn closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// Waits until so many more acknowledgements have come.
    pub async fn progress(&self, more: u64) {
        timeout(PATIENCE, self.notebook.progress(more)).await.expect("nothing is acknowledged any more");
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
            at: watch::Sender::new(Vec::new()),
            notebook: Arc::default(),
            closing: AtomicBool::new(false),
        });
        let data = dir.join("data");
        Self { shared, dir, data, workers: JoinSet::new(), callers: JoinSet::new() }
    }

    /// Starts the node and lets everybody know where it is.
    pub async fn start(&self) -> Node {
        let node = Node::start(&self.dir, &self.data).await.unwrap_or_else(|error| panic!("{error}"));
        self.shared.at.send_replace(vec![node.at.clone()]);
        node
    }

    /// The node is gone: nobody looks for it any more, and all streams are seen to be broken.
    pub async fn gone(&self) {
        self.shared.at.send_replace(Vec::new());
        let mut streams = self.shared.streams.subscribe();
        let closed = timeout(PATIENCE, streams.wait_for(|open| *open == 0)).await;
        closed.expect("a stream does not notice that its node is gone").unwrap();
    }

    /// Registers the workflows and sets callers and workers to work.
    pub async fn load(&mut self, seed: u64) {
        let client = Client::of(&self.shared);
        client.deploy(workload::DOCUMENTS).await;
        for number in 0..WORKERS {
            let worker = Worker::new(&format!("worker-{number}"), &workload::TASKS).plan(workload::plan);
            self.workers.spawn(worker.stream(Arc::clone(&self.shared.notebook), self.shared.at.subscribe()));
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
        let mut wrong = self.shared.surprises();
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
