//! What releases have left, `compat/<version>`: this version opens each store, finds in it what was there, and brings
//! to an end what was under way.
//!
//! ```text
//! compat/<version>/commit            what made it
//!                  descriptor.binpb  the .proto files (held against today's in orbit-proto)
//!                  histories/        <execution>.<run>.jsonl, beside the documents (decided again in orbit-workflow)
//!                  states/           what `show` said of executions that were over
//!                  store/            the data directory of a node that was stopped
//! ```
//!
//! `scripts/compat` makes the directory of the version in Cargo.toml, once, when it is released. What is there is never
//! changed.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod stories;
#[path = "../support/mod.rs"]
mod support;

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use orbit_actors::engine::membership;
use orbit_actors::error::Code;
use orbit_actors::format::knows;
use orbit_node::server::{Exposure, Server};
use orbit_raft::disk::{KeyRange, View};
use orbit_raft::network::GrpcTransport;
use orbit_raft::{PeerAddress, Storage};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use stories::{OVER, Worker, ends, get, order, play, post, signal, start};
use support::{Ask, Node, PATIENCE, config};
use tempfile::TempDir;
use uuid::Uuid;

/// Sessions are lost soon, so that what a worker held is free soon.
const SETTINGS: [(&str, &str); 4] = [
    ("cluster.shards", "4"),
    ("limits.heartbeat_interval_ms", "500"),
    ("limits.session_timeout_ms", "2000"),
    // What a release left is to be found for years.
    ("retention", "36500d"),
];
/// How long until everything that is to end has ended; some wait for half a minute.
const UNTIL_ALL_END: Duration = Duration::from_secs(120);

fn compat() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../compat")
}

async fn open(dir: TempDir) -> Node {
    let server = Server::start_alone(&config(&dir, &SETTINGS), Exposure::Loopback).await.unwrap();
    tokio::time::timeout(PATIENCE, server.ready()).await.expect("each shard gets a leader");
    Node { server, dir }
}

/// A history with the bytes as they are.
async fn history(node: &Node, id: &str, run: u64) -> Vec<String> {
    #[derive(serde::Deserialize)]
    struct Page {
        events: Vec<Box<RawValue>>,
        next: Option<u64>,
    }
    let (mut lines, mut from) = (Vec::new(), Some(1));
    while let Some(next) = from {
        let answer = node.ask(Ask::new("GET", &format!("/v1/executions/{id}/history?run={run}&from={next}"))).await;
        let page: Page = serde_json::from_slice(&answer.body).unwrap();
        lines.extend(page.events.iter().map(|event| event.get().to_owned()));
        from = page.next;
    }
    lines
}

async fn ids(node: &Node) -> Vec<String> {
    let list = get(node, "/v1/executions?limit=1000").await;
    let ids = list["executions"].as_array().unwrap().iter();
    ids.map(|summary| summary["execution_id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_store_that_a_release_left_is_opened_and_goes_on() {
    let mut versions: Vec<_> = fs::read_dir(compat()).unwrap().map(|entry| entry.unwrap().path()).collect();
    versions.sort();
    for version in versions {
        let dir = tempfile::tempdir().unwrap();
        copy(&version.join("store"), &dir.path().join("data"));
        let node = open(dir).await;
        finds_what_was_there(&node, &version).await;
        let is_since_0_2 = version.file_name().unwrap() != "0.1.0";
        if is_since_0_2 {
            goes_on_since_0_2(&node).await;
        }
        goes_on(&node, is_since_0_2).await;
        assert_eq!(node.server.index_faults().unwrap(), Vec::<String>::new(), "{}", version.display());
        node.server.stop().await.unwrap();
    }
}

/// The record of the cluster as it lies in the data, and whether any node has a row. Tables 34 and 35 of group 0.
fn record_and_nodes(dir: &TempDir) -> (Bytes, usize) {
    let state = Storage::open(&dir.path().join("data"), None).unwrap().state;
    let row = |table: u8| vec![0, 0, table, 0, 0];
    let mut nodes = 0;
    let rows = KeyRange { from: row(35), to: row(36) };
    state
        .scan(&rows, &mut |_, _| {
            nodes += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
    (state.get(&row(34)).unwrap().expect("the record of the cluster"), nodes)
}

/// 0.2.0 refuses a record that begins with another byte than 01, and knows no rows of nodes.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_0_2_0_stays_one_until_its_format_is_raised() {
    let dir = tempfile::tempdir().unwrap();
    copy(&compat().join("0.2.0/store"), &dir.path().join("data"));
    let (before, _) = record_and_nodes(&dir);
    assert_eq!(before[0], 1);

    let node = open(dir).await;
    assert_eq!(get(&node, "/v1/cluster").await["format"], 1);
    let nodes = get(&node, "/v1/cluster").await["nodes"].clone();
    assert_eq!((nodes[0]["id"].clone(), nodes.as_array().unwrap().len()), (json!(1), 1));
    let (seed, me) = (PeerAddress(node.server.addresses.peer.to_string()), PeerAddress("127.0.0.1:1".to_owned()));
    let joined = membership::join(&GrpcTransport, &seed, "second", &me, Uuid::from_u128(2), knows()).await;
    let refused = joined.unwrap_err();
    assert_eq!(refused.code, Code::ClusterFormat);
    assert!(refused.message.contains("orbit cluster raise"), "{refused}");
    let raise = "/v1/cluster/raise";
    let would = post(&node, raise, &json!({"dry_run": true})).await;
    assert_eq!(would, json!({"from": 1, "to": 2, "raised": false}));
    let Node { server, dir } = node;
    server.stop().await.unwrap();
    assert_eq!(record_and_nodes(&dir), (before, 0), "0.2.0 can open it again");

    let node = open(dir).await;
    assert_eq!(post(&node, raise, &json!({})).await, json!({"from": 1, "to": 2, "raised": true}));
    assert_eq!(post(&node, raise, &json!({})).await, json!({"from": 2, "to": 2, "raised": false}));
    let said = async { while get(&node, "/v1/cluster").await["nodes"][0]["joined_at_ms"] == 0 {} };
    tokio::time::timeout(PATIENCE, said).await.expect("the node writes down who it is");
    let Node { server, dir } = node;
    server.stop().await.unwrap();
    let (after, nodes) = record_and_nodes(&dir);
    assert_eq!((after[0], nodes), (2, 1));
    let node = open(dir).await;
    assert_eq!(get(&node, "/v1/cluster").await["format"], 2);
    node.server.stop().await.unwrap();
}

async fn finds_what_was_there(node: &Node, version: &Path) {
    let mut found = 0;
    for file in fs::read_dir(version.join("histories")).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let Some((id, run)) = name.strip_suffix(".jsonl").and_then(|name| name.rsplit_once('.')) else { continue };
        let now = history(node, id, run.parse().unwrap()).await;
        let then = fs::read_to_string(&path).unwrap();
        for (n, line) in then.lines().enumerate() {
            assert_eq!(now.get(n).map(String::as_str), Some(line), "{}", path.display());
        }
        found += 1;
    }
    assert!(found >= 13, "{} holds {found} histories", version.display());
    for id in OVER {
        let path = version.join("states").join(format!("{id}.json"));
        let then: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let now = get(node, &format!("/v1/executions/{id}")).await;
        for (field, value) in then.as_object().unwrap() {
            assert_eq!(&now[field], value, "{field} in {}", path.display());
        }
    }
}

/// Names of signals are known, executions are found by their attributes, what an operator left is taken up.
async fn goes_on_since_0_2(node: &Node) {
    let again = signal(node, "box-b", 2).await;
    let history = get(node, "/v1/executions/box-b/history").await;
    let of_name = |event: &&Value| event["type"] == "SignalReceived" && event["dedup_id"] == "n2";
    let received: Vec<_> = history["events"].as_array().unwrap().iter().filter(of_name).collect();
    assert_eq!((received.len(), &again["seq"]), (1, &received[0]["seq"]), "{again}");
    let found = get(node, "/v1/executions?attr.customer=b").await;
    assert_eq!(found["executions"][0]["execution_id"], "family-midway", "{found}");
    assert_eq!(get(node, "/v1/executions/box-paused").await["status"], "PAUSED");
    post(node, "/v1/executions/box-paused/resume", &json!({})).await;
    let parked = get(node, "/v1/executions?attention=true").await;
    assert_eq!(parked["executions"][0]["execution_id"], "box-parked", "{parked}");
    post(node, "/v1/executions/box-parked/redrive", &json!({"action": "resolve", "output": 1})).await;
    // `family-midway` adds the third.
    assert_eq!(get(node, "/v1/executions/box-b/queries/sum").await["value"], 0);
}

async fn goes_on(node: &Node, is_since_0_2: bool) {
    let worker = Worker::register(node).await;
    // The same start again: it is there already. Its definition is there for new ones too.
    let again = start(node, "order", "order-done", order("done")).await;
    assert_eq!(again["created"], false, "{again}");
    start(node, "order", "order-new", order("new")).await;
    tokio::time::timeout(UNTIL_ALL_END, all_end(node, &worker, is_since_0_2)).await.expect("all that is to end ends");
    let long = get(node, "/v1/executions/nap-long").await;
    assert_eq!((&long["status"], &long["waiting_for"][0]), (&"RUNNING".into(), &"nap WAITING".into()));
}

async fn all_end(node: &Node, worker: &Worker, is_since_0_2: bool) {
    let mut waited_for: Vec<_> = ends().into_iter().chain([("order-new", "COMPLETED")]).collect();
    if is_since_0_2 {
        waited_for.extend(stories::ends_since_0_2());
    }
    while !waited_for.is_empty() {
        worker.finish(node).await;
        let mut left = Vec::new();
        for (id, end) in waited_for {
            match get(node, &format!("/v1/executions/{id}")).await["status"].as_str().unwrap() {
                "RUNNING" => left.push((id, end)),
                status => assert_eq!(status, end, "{id}"),
            }
        }
        waited_for = left;
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        let is_of_the_process = |name: &str| name == "LOCK" || name.starts_with("LOG");
        match path.is_dir() {
            true => copy(&path, &target),
            false if is_of_the_process(path.file_name().unwrap().to_str().unwrap()) => {}
            false => drop(fs::copy(&path, &target).unwrap()),
        }
    }
}

/// The stories end as told in a node of today as well, and leave what a release leaves; `ORBIT_COMPAT` is where to.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_leaves_what_it_made() {
    let kept = tempfile::tempdir().unwrap();
    let target = std::env::var_os("ORBIT_COMPAT").map_or_else(|| kept.path().to_owned(), PathBuf::from);
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir).await;
    play(&node).await;
    for part in ["histories", "states"] {
        fs::create_dir_all(target.join(part)).unwrap();
    }
    for (name, document) in stories::DOCUMENTS {
        fs::write(target.join("histories").join(format!("{name}.yaml")), document).unwrap();
    }
    for id in ids(&node).await {
        let runs = get(&node, &format!("/v1/executions/{id}/runs")).await;
        for run in runs["runs"].as_array().unwrap() {
            let run = run["run"].as_u64().unwrap();
            let lines: String = history(&node, &id, run).await.iter().map(|line| format!("{line}\n")).collect();
            fs::write(target.join("histories").join(format!("{id}.{run}.jsonl")), lines).unwrap();
        }
        let state = node.ask(Ask::new("GET", &format!("/v1/executions/{id}"))).await;
        if OVER.contains(&id.as_str()) {
            assert_ne!(state.json()["status"], "RUNNING", "{id}");
            fs::write(target.join("states").join(format!("{id}.json")), &state.body).unwrap();
        }
    }
    fs::write(target.join("descriptor.binpb"), orbit_proto::DESCRIPTORS).unwrap();
    let Node { server, dir } = node;
    server.stop().await.unwrap();
    // Opened again, the stores turn their logs into tables: a later version must read both.
    let Node { server, dir } = open(dir).await;
    server.stop().await.unwrap();
    copy(&dir.path().join("data"), &target.join("store"));
    // What was left is what a later version finds.
    let node = open(dir).await;
    goes_on_since_0_2(&node).await;
    goes_on(&node, true).await;
    node.server.stop().await.unwrap();
}
