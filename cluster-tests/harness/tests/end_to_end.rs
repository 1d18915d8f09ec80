//! One node in a namespace, workers of both kinds, a kill in the middle: all that was acknowledged is there.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use orbit_cluster_tests::History;
use orbit_cluster_tests::ledger::Start;
use orbit_harness::{
    Addresses, CLIENTS, Client, Config, Cut, Job, Launch, NodeOptions, Notebook, Outcome, Plan, Recorder, Request,
};
use orbit_harness::{Worker, World, binary};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{interval, timeout};

const PATIENCE: Duration = Duration::from_secs(60);
const EXECUTIONS: usize = 6;
const DOCUMENT: &str = r#"
name: chain
version: 1.0.0
tasks: {do.streamed: {version: 1.0.0}, do.polled: {version: 1.0.0}}
steps:
  - {id: a, task: do.streamed, input: {n: "${input.n}"}}
  - {id: b, task: do.polled, input: {from: "${steps.a.output.by}"}, retry: {max_attempts: 5, initial_delay: 50ms}}
  - {id: c, task: do.streamed, input: {from: "${steps.b.output.by}"}, heartbeat_timeout: 5s}
result: {by: "${steps.c.output.by}"}
"#;

fn plan(job: &Job) -> Plan {
    let failure = (job.task_name == "do.polled" && job.attempt == 1).then(|| ("BUSY".to_owned(), true));
    Plan { work: Duration::from_millis(30), failure, heartbeats: job.step_id == "c", until: None }
}

/// Lines of the record, each as it must be.
fn recorded(text: &str) -> Vec<Value> {
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut last: BTreeMap<u64, (u64, bool)> = BTreeMap::new();
    for line in &lines {
        let (process, call_ns) = (line["process"].as_u64().unwrap(), line["call_ns"].as_u64().unwrap());
        let returned = line["return_ns"].as_u64();
        assert_eq!(returned.is_none(), line["outcome"] == "unknown", "{line}");
        let before = last.insert(process, (returned.unwrap_or(u64::MAX), returned.is_none()));
        assert!(before.is_none_or(|(ended_ns, open)| !open && ended_ns <= call_ns), "two at a time: {line}");
    }
    lines
}

/// Starts all executions at once, each by a client of its own.
async fn start_all(recorder: &Arc<Recorder>, notebook: &Arc<Notebook>, nodes: &[Addresses; 1]) {
    let mut starts = JoinSet::new();
    for number in 0..EXECUTIONS {
        let mut client = Client::new(recorder).unwrap();
        let (nodes, notebook) = (nodes.clone(), Arc::clone(notebook));
        starts.spawn(async move {
            let (id, input) = (format!("x{number}"), json!({"n": number}));
            let started = client.settle(&nodes, &Request::start("chain", &id, &input), PATIENCE).await.unwrap();
            assert_eq!(started.1["created"], true, "{started:?}");
            notebook.ledger().starts.insert(id, Start { workflow: "chain".into(), input, created: 1 });
        });
    }
    starts.join_all().await;
}

/// Waits for all executions to end well, and reads what happened.
async fn histories(client: &mut Client, nodes: &[Addresses]) -> BTreeMap<String, History> {
    let mut histories = BTreeMap::new();
    for id in (0..EXECUTIONS).map(|number| format!("x{number}")) {
        let wait = Request::wait(&id, Duration::from_secs(10));
        let ended = async {
            loop {
                let (_, state) = client.settle(nodes, &wait, PATIENCE).await.unwrap();
                if state["status"] != "RUNNING" {
                    return state;
                }
            }
        };
        let state = timeout(PATIENCE, ended).await.unwrap_or_else(|_| panic!("{id} does not end"));
        assert_eq!(state["status"], "COMPLETED", "{state}");
        let history = client.history(nodes, &id, PATIENCE).await.unwrap().unwrap();
        assert_eq!(orbit_cluster_tests::all(&history, &[]), []);
        histories.insert(id, history);
    }
    histories
}

#[test]
fn a_workflow_outlives_its_node_and_the_books_agree() {
    let world = World::new(env!("CARGO_TARGET_TMPDIR"), "end-to-end").unwrap();
    let config = Config::new().with("cluster.shards", 1);
    let node = world.add_node("n1", &NodeOptions::new().config(config)).unwrap();
    world.run(async |world| {
        node.start(&Launch::dev(binary().unwrap())).unwrap();
        node.ready().await.unwrap();
        let nodes = [node.addresses()];
        let record = world.dir().join("operations.jsonl");
        let recorder = Recorder::create(&record).unwrap();
        let mut client = Client::new(&recorder).unwrap();
        assert_eq!(client.settle(&nodes, &Request::deploy(DOCUMENT), PATIENCE).await.unwrap().0, 201);

        let notebook = Arc::new(Notebook::default());
        let streamed = Worker::new("streamer", &[("do.streamed", "1.0.0")]).slots(2).plan(plan);
        tokio::spawn(streamed.stream(Arc::clone(&notebook), world.addresses()));
        let polled = Worker::new("poller", &[("do.polled", "1.0.0")]).slots(2).plan(plan);
        tokio::spawn(polled.poll(Arc::clone(&notebook), world.addresses()));

        start_all(&recorder, &notebook, &nodes).await;
        timeout(PATIENCE, notebook.progress(5)).await.expect("nothing is acknowledged");
        assert_eq!(node.kill().await.unwrap().code(), None);
        // A client with a connection might have sent it before it sees that this is broken.
        let read =
            Client::new(&recorder).unwrap().call(&nodes[0], &Request::get("read", "x0", "/v1/executions/x0")).await;
        assert!(matches!(read, Outcome::Refused(_)), "{read:?}");
        node.restart().await.unwrap();

        let histories = histories(&mut client, &nodes).await;
        let ledger = notebook.ledger().clone();
        assert_eq!(ledger.check(&histories), []);
        assert_eq!(notebook.surprises(), [""; 0]);
        // Three steps each, and a failure; the kill may have added some.
        assert!(ledger.tasks.len() >= 4 * EXECUTIONS, "{} hand-overs", ledger.tasks.len());

        // A call that is answered by silence is of unknown outcome.
        world.links().cut(CLIENTS, "n1", Cut::Silent).unwrap();
        let mut hasty = Client::patient(&recorder, Duration::from_millis(200)).unwrap();
        let silent = hasty.call(&nodes[0], &Request::start("chain", "y", &json!({"n": 0}))).await;
        assert!(matches!(silent, Outcome::Unknown(_)), "{silent:?}");
        let lines = recorded(&std::fs::read_to_string(&record).unwrap());
        assert!(lines.iter().any(|line| line["name"] == "read" && line["outcome"] == "refused"));
        assert!(lines.len() > 3 * EXECUTIONS, "{} operations", lines.len());
    });
}

/// Waits until both workers are known to a node.
async fn at_work(client: &mut Client, node: &Addresses) {
    let both = async {
        let mut ask = interval(Duration::from_millis(50));
        loop {
            ask.tick().await;
            let answer = client.call(node, &Request::get("workers", "", "/v1/workers")).await;
            let Outcome::Answered { output, .. } = answer else { continue };
            let online = output["workers"].as_array().into_iter().flatten().filter(|worker| worker["online"] == true);
            let names: Vec<_> = online.filter_map(|worker| worker["worker_id"].as_str()).collect();
            if ["poller", "streamer"].iter().all(|name| names.contains(name)) {
                return;
            }
        }
    };
    timeout(PATIENCE, both).await.expect("the workers do not come");
}

/// Two nodes that know nothing of each other are enough to see where the workers go.
#[test]
fn workers_leave_a_node_that_is_silent_or_stands_still() {
    let world = World::new(env!("CARGO_TARGET_TMPDIR"), "silence").unwrap();
    let options = NodeOptions::new().config(Config::new().with("cluster.shards", 1));
    let nodes = ["n1", "n2"].map(|name| world.add_node(name, &options).unwrap());
    world.run(async |world| {
        world.start_all(&Launch::dev(binary().unwrap())).await.unwrap();
        let recorder = Recorder::create(&world.dir().join("operations.jsonl")).unwrap();
        let mut client = Client::new(&recorder).unwrap();
        let notebook = Arc::new(Notebook::default());
        let tasks = [("do.streamed", "1.0.0")];
        tokio::spawn(Worker::new("streamer", &tasks).stream(Arc::clone(&notebook), world.addresses()));
        tokio::spawn(Worker::new("poller", &tasks).poll(Arc::clone(&notebook), world.addresses()));
        at_work(&mut client, &nodes[0].addresses()).await;

        world.links().cut(CLIENTS, "n1", Cut::Silent).unwrap();
        at_work(&mut client, &nodes[1].addresses()).await;
        nodes[0].kill().await.unwrap();
        nodes[0].wipe().unwrap();
        world.links().heal().unwrap();
        nodes[0].restart().await.unwrap();
        nodes[1].stop().unwrap();
        at_work(&mut client, &nodes[0].addresses()).await;
        assert_eq!(notebook.surprises(), [""; 0]);
    });
}
