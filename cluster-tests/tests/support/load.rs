//! Those who give work to a node or a cluster and those who do it, and the verdict over what they were told.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use orbit_cluster_tests::{Fault, History, all, family};
use orbit_harness::Worker;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::client::Client;
use super::{PATIENCE, Shared, caller, workload};

const WORKERS: usize = 3;
const CALLERS: usize = 16;
/// Tasks that start the sleepers of a crowd.
const CROWD_CALLERS: usize = 4;

/// Callers and workers.
#[derive(Debug)]
pub struct Load {
    pub shared: Arc<Shared>,
    /// Where what they leave is kept when the test fails.
    pub dir: PathBuf,
    /// What the nodes said.
    pub logs: Vec<PathBuf>,
    workers: JoinSet<()>,
    callers: JoinSet<()>,
}

impl Load {
    pub fn new(dir: PathBuf, logs: Vec<PathBuf>) -> Self {
        let shared = Arc::new(Shared::new(&dir));
        Self { shared, dir, logs, workers: JoinSet::new(), callers: JoinSet::new() }
    }

    /// Registers workflows.
    pub async fn deploy(&self, documents: &str) {
        Client::of(&self.shared, 0).deploy(documents).await;
    }

    /// Registers the workflows and sets callers and workers to work.
    pub async fn load(&mut self, seed: u64) {
        self.deploy(workload::DOCUMENTS).await;
        for number in 0..WORKERS {
            let worker = Worker::new(&format!("worker-{number}"), &workload::TASKS).plan(workload::plan);
            self.workers.spawn(worker.stream(Arc::clone(&self.shared.notebook), self.shared.at.subscribe()));
        }
        self.call(seed);
    }

    /// Sets workers to work who begin each at another node: all but the first on the stream, the first polls.
    pub fn spread(&mut self, workers: usize) {
        for number in 0..workers {
            let worker = Worker::new(&format!("worker-{number}"), &workload::TASKS).plan(workload::plan);
            let mut nodes = self.shared.at.borrow().clone();
            let first = number % nodes.len();
            nodes.rotate_left(first);
            // They stay where they are, so nobody needs the sender.
            let (_, nodes) = watch::channel(nodes);
            let notebook = Arc::clone(&self.shared.notebook);
            if number == 0 {
                self.workers.spawn(worker.poll(notebook, nodes));
            } else {
                self.workers.spawn(worker.stream(notebook, nodes));
            }
        }
    }

    /// Sets callers to work.
    pub fn call(&mut self, seed: u64) {
        for number in 0..CALLERS {
            let dice = SmallRng::seed_from_u64(seed ^ ((number as u64 + 1) << 32));
            self.callers.spawn(caller::run(Arc::clone(&self.shared), number, dice));
        }
    }

    /// Starts this many executions that sleep for up to so long, and follows all to their ends.
    pub fn crowd(&mut self, sleepers: usize, sleep_ms_max: u64) {
        for number in 0..CROWD_CALLERS {
            let ids = (number..sleepers).step_by(CROWD_CALLERS).map(|number| format!("s{number}")).collect();
            self.callers.spawn(caller::crowd(Arc::clone(&self.shared), number, ids, sleep_ms_max));
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
            let surprises = self.shared.surprises();
            panic!("these do not end: {open:?}; surprises: {surprises:#?}; see {}", self.dir.display());
        }
        self.workers.shutdown().await;
    }

    /// All histories of all that was acknowledged, and of their children.
    pub async fn histories(&self) -> BTreeMap<String, History> {
        let mut client = Client::of(&self.shared, 0);
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
        for log in &self.logs {
            let log = std::fs::read_to_string(log).unwrap();
            wrong.extend(log.lines().filter(|line| line.contains("panicked")).map(ToOwned::to_owned));
        }
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
}
