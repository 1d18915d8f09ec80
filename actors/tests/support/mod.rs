//! One node in this process, on a disk of its own.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use orbit_actors::api::{Complete, Register, Registered, StartExecution, Task, TaskVersion};
use orbit_actors::engine::{Engine, Settings};
use orbit_actors::error::{Code, Error};
use orbit_raft::clock::{Clock, Reading, SystemClock};
use orbit_raft::disk::{FatalHook, RocksDisk};
use orbit_raft::network::GrpcTransport;
use orbit_raft::{Environment, Identity, NodeId, Parts, PeerAddress, Production, RaftNode, Storage};
use uuid::Uuid;
use workflow::document::Format;
use workflow::value::Payload;

pub mod nodes;

pub type Node = Engine<World>;

/// What stands in production, with a wall clock that may be wrong.
#[derive(Debug)]
pub struct World;

impl Environment for World {
    type Runtime = <Production as Environment>::Runtime;
    type LogDisk = <Production as Environment>::LogDisk;
    type StateDisk = <Production as Environment>::StateDisk;
    type Transport = <Production as Environment>::Transport;
    type Clock = WrongClock;

    fn run_writer(writer: impl Future<Output = ()> + Send + 'static) -> std::io::Result<()> {
        Production::run_writer(writer)
    }
}

/// The clocks of this machine; the wall clock is ahead by so many milliseconds.
#[derive(Clone, Debug, Default)]
pub struct WrongClock(pub Arc<AtomicI64>);

impl Clock for WrongClock {
    fn read(&self) -> Reading {
        let now = SystemClock.read();
        let ahead_ms = self.0.load(Ordering::Relaxed);
        let by = Duration::from_millis(ahead_ms.unsigned_abs());
        Reading { wall: if ahead_ms < 0 { now.wall - by } else { now.wall + by }, ..now }
    }
}

/// Settings with short times, so that what must time out does so soon.
pub fn settings(shards: u16) -> Settings {
    Settings { shards, ..Settings::default() }
}

/// Opens a node and waits until it may decide.
pub async fn open(path: &Path, settings: Settings) -> Node {
    open_with_state(path, settings).await.0
}

/// … and a handle to its state, by which rows are changed that nobody may change. It must go before the node.
pub async fn open_with_state(path: &Path, settings: Settings) -> (Node, RocksDisk) {
    let identity = || Identity { cluster: Uuid::from_u128(1), node: NodeId(1), incarnation: Uuid::from_u128(2) };
    let storage = Storage::open_or_create(path, identity).unwrap();
    let state = storage.state.clone();
    let parts = Parts::<World> {
        identity: storage.identity,
        settings: orbit_raft::Settings {
            heartbeat: Duration::from_millis(20),
            election_min: Duration::from_millis(60),
            election_max: Duration::from_millis(100),
            ..orbit_raft::Settings::default()
        },
        log: storage.log,
        state: storage.state,
        transport: GrpcTransport,
        clock: WrongClock::default(),
        fatal: FatalHook::exit(),
    };
    let node = RaftNode::start(parts).await.unwrap();
    let engine = Engine::open(node, settings, Some(PeerAddress("127.0.0.1:1".to_owned()))).await.unwrap();
    within(20, "an election", engine.ready().wait_for(|ready| *ready)).await.unwrap();
    (engine, state)
}

/// On a machine that has other things to do everything takes longer, and a test is not about that.
const BUSY: u64 = 6;

/// Fails instead of hanging.
pub async fn within<T>(seconds: u64, what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(Duration::from_secs(BUSY * seconds), future).await {
        Ok(value) => value,
        Err(_) => panic!("{what} took more than {seconds} s"),
    }
}

/// Between two looks at what nobody is told of.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// What comes about at last, though nobody is told of it: what a leader does by itself, in quiet moments.
pub async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let looking = async {
        loop {
            if let Some(seen) = look().await {
                return seen;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    within(20, what, looking).await
}

pub async fn deploy(node: &Node, source: &str) {
    node.deploy(source, Format::Yaml).await.unwrap();
}

pub fn json(text: &str) -> Payload {
    Payload::parse(text).unwrap()
}

pub fn start(workflow: &str, id: &str, input: &str) -> StartExecution {
    StartExecution {
        workflow: workflow.to_owned(),
        execution_id: Some(id.to_owned()),
        input: json(input),
        ..StartExecution::default()
    }
}

/// Starts an execution as clients do who repeat what may have been done: under the same id it happens once. Whether it
/// was not there before.
pub async fn begin(node: &Node, request: StartExecution) -> bool {
    let started = async {
        let mut unknown = false;
        loop {
            match node.start(request.clone()).await {
                Ok(started) => return started.created || unknown,
                Err(Error { code: Code::OutcomeUnknown, .. }) => unknown = true,
                Err(error) => panic!("{error}"),
            }
        }
    };
    within(20, "a start", started).await
}

pub fn worker(id: &str, tasks: &[&str]) -> Register {
    let contract = |name: &&str| TaskVersion { task_name: (*name).to_owned(), contract_version: "1.0.0".to_owned() };
    Register {
        worker_id: id.to_owned(),
        runtime: "test".to_owned(),
        contracts: tasks.iter().map(contract).collect(),
        ..Register::default()
    }
}

pub async fn register(node: &Node, id: &str, tasks: &[&str]) -> Registered {
    node.register(worker(id, tasks)).await.unwrap()
}

/// The next task of a session. It asks again and again: an open poll is no sign of life, a new one is.
pub async fn poll(node: &Node, session: &Registered) -> Task {
    let next = async {
        loop {
            let tasks = node.poll(&session.worker_session_id, 1, Duration::from_millis(200)).await.unwrap();
            if let Some(task) = tasks.into_iter().next() {
                return task;
            }
        }
    };
    within(20, "a task", next).await
}

pub async fn complete(node: &Node, task: &Task, output: &str) {
    let complete = Complete { token: task.token.clone(), output: json(output), ..Complete::default() };
    let answer = within(10, "a result", node.complete(complete)).await.unwrap();
    assert!(answer.accepted, "{answer:?}");
}

/// All events of an execution, a line each.
pub async fn events(node: &Node, id: &str) -> Vec<String> {
    let (mut lines, mut from) = (Vec::new(), Some(1));
    while let Some(seq) = from {
        let page = node.history(id, None, seq, 10_000).await.unwrap();
        lines.extend(page.events.iter().map(|recorded| recorded.event.to_string()));
        from = page.next;
    }
    lines
}

/// Stops a node, after a look at whether its index tables say what its executions say.
pub async fn close(node: Node) {
    assert_eq!(node.check().unwrap(), Vec::<String>::new());
    node.shutdown().await.unwrap();
}
