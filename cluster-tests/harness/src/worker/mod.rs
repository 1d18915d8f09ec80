//! Workers that outlive the node that they talk to, and write down what they were handed and what they answered.
//!
//! A worker has a list of nodes. When it loses one, or is told that it goes away, it goes to the next and resumes the
//! *same* session there, lists every token that it holds, and repeats every result that has no answer
//! (`docs/workers.md`). What it does with a task is planned by the test, from the task alone, so that each hand-over
//! goes the same way.
//!
//! - `hands`: what a worker holds, the same however it talks;
//! - `stream`: over the gRPC stream;
//! - `poll`: over HTTP.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use orbit_proto::worker::Task;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::watch;

use crate::{Addresses, Notebook};

mod hands;
mod poll;
mod stream;

/// Before the next node is tried.
const PAUSE: Duration = Duration::from_millis(20);
/// How often a worker says all that it holds.
const SIGN_OF_LIFE: Duration = Duration::from_millis(200);
/// After how long without an answer to a sign of life a node counts as lost.
const SILENCE_MAX: Duration = Duration::from_secs(3);
/// How long a node may take to welcome a worker before that tries another.
const WELCOME_TIME_MAX: Duration = Duration::from_secs(10);

/// A task as a worker receives it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Job {
    /// Names the hand-over.
    pub token: String,
    /// The execution.
    pub execution_id: String,
    /// The unit.
    pub step_id: String,
    /// The task.
    pub task_name: String,
    /// What it gets.
    pub input: Value,
    /// The same for each hand-over of the unit.
    pub idempotency_key: String,
    /// From 1.
    pub attempt: u32,
    /// Whether this attempt may have been handed over before.
    #[serde(default)]
    pub redelivery: bool,
}

impl TryFrom<Task> for Job {
    type Error = serde_json::Error;

    fn try_from(task: Task) -> Result<Self, Self::Error> {
        Ok(Self {
            token: task.token,
            execution_id: task.execution_id,
            step_id: task.step_id,
            task_name: task.task_name,
            input: serde_json::from_slice(&task.input)?,
            idempotency_key: task.idempotency_key,
            attempt: task.attempt,
            redelivery: task.redelivery,
        })
    }
}

/// How a task goes.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// How long it takes.
    pub work: Duration,
    /// It also takes until this is true, if it is there.
    pub until: Option<watch::Receiver<bool>>,
    /// How it fails, if it does: the code, and whether another try may help.
    pub failure: Option<(String, bool)>,
    /// Whether there are signs of life meanwhile.
    pub heartbeats: bool,
}

/// A worker that is to be.
#[derive(Clone)]
pub struct Worker {
    id: String,
    tasks: Vec<(String, String)>,
    slots: usize,
    plan: Arc<dyn Fn(&Job) -> Plan + Send + Sync>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("id", &self.id).field("tasks", &self.tasks).finish_non_exhaustive()
    }
}

impl Worker {
    /// One for tasks of these names and versions, eight at a time, each done at once. The output of a success names the
    /// worker and counts up, so that no two are equal: `{"by": "worker-1-17"}`.
    #[must_use]
    pub fn new(id: &str, tasks: &[(&str, &str)]) -> Self {
        let tasks = tasks.iter().map(|(name, version)| ((*name).to_owned(), (*version).to_owned())).collect();
        Self { id: id.to_owned(), tasks, slots: 8, plan: Arc::new(|_| Plan::default()) }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// How many tasks at a time.
    #[must_use]
    pub fn slots(mut self, slots: usize) -> Self {
        self.slots = slots;
        self
    }

    /// How each task goes.
    #[must_use]
    pub fn plan(mut self, plan: impl Fn(&Job) -> Plan + Send + Sync + 'static) -> Self {
        self.plan = Arc::new(plan);
        self
    }

    /// Works over the gRPC stream, until it is dropped. `nodes` may change; without any it waits.
    pub async fn stream(self, notebook: Arc<Notebook>, nodes: watch::Receiver<Vec<Addresses>>) {
        stream::run(self, notebook, Nodes { all: nodes, next: 0 }).await;
    }

    /// Works by polling over HTTP, until it is dropped. `nodes` may change; without any it waits.
    pub async fn poll(self, notebook: Arc<Notebook>, nodes: watch::Receiver<Vec<Addresses>>) {
        poll::run(self, notebook, Nodes { all: nodes, next: 0 }).await;
    }
}

/// The nodes that a worker goes round.
#[derive(Debug)]
struct Nodes {
    all: watch::Receiver<Vec<Addresses>>,
    next: usize,
}

impl Nodes {
    /// The next node. `None`: there will never be one.
    async fn next(&mut self) -> Option<Addresses> {
        let all = self.all.wait_for(|all| !all.is_empty()).await.ok()?;
        let node = all.get(self.next % all.len()).cloned();
        self.next += 1;
        node
    }
}
