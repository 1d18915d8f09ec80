//! What is no peer, and what must be refused.

use std::collections::BTreeSet;

use orbit_harness::{Client, Config, Outcome, Request};
use rand::rngs::SmallRng;
use rand::{RngCore, SeedableRng};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Duration, timeout};

use crate::scene::{Scene, launch, options, until, world};

/// Connections to each peer port that say something wrong, or nothing.
const STRANGERS: u64 = 60;

/// A stranger on a peer port. It is content with any answer and with none.
async fn stranger(peer: String, number: u64) {
    let mut dice = SmallRng::seed_from_u64(number);
    let mut garbage = vec![0; 1 << (number % 18)];
    dice.fill_bytes(&mut garbage);
    let said = match number % 5 {
        0 => garbage,
        1 => b"GET /v1/health HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n".to_vec(),
        2 => [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &garbage].concat(),
        3 => b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec(),
        _ => Vec::new(),
    };
    let Ok(mut stream) = TcpStream::connect(peer).await else { return };
    let mut heard = Vec::new();
    let talk = async {
        stream.write_all(&said).await?;
        stream.read_to_end(&mut heard).await
    };
    // One that says nothing keeps its connection for a while.
    let _ = timeout(Duration::from_secs(5), talk).await;
}

#[test]
fn strangers_on_the_peer_port_break_nothing() {
    let world = world("strangers");
    world.run(async |world| {
        let mut scene = Scene::busy(world, 9).await;
        scene.load.shared.progress(60).await;
        let mut strangers = JoinSet::new();
        for node in &scene.nodes {
            for number in 0..STRANGERS {
                strangers.spawn(stranger(node.addresses().peer, number));
            }
        }
        scene.load.shared.progress(150).await;
        strangers.join_all().await;
        scene.whole("strangers").await;
        scene.end().await;
    });
}

/// Refused for good, with a code.
async fn refused(scene: &Scene<'_>, at: usize, node_id: u64) -> String {
    let mut client = Client::new(&scene.load.shared.recorder).unwrap();
    let leave = Request::post("leave", "", "/v1/cluster/leave", json!({"node_id": node_id}));
    match client.call(&scene.nodes[at].addresses(), &leave).await {
        Outcome::Answered { status: 200..300, output } => panic!("node {node_id} may leave: {output}"),
        Outcome::Answered { status, output } => format!("{status} {output}"),
        Outcome::Refused(why) => why,
        Outcome::Unknown(why) => panic!("nobody knows whether node {node_id} leaves: {why}"),
    }
}

async fn number_of(scene: &Scene<'_>, at: usize, name: &str) -> u64 {
    let list = scene.ask(&scene.nodes[at], &Request::get("cluster", "", "/v1/cluster"), 200).await;
    let node = list["nodes"].as_array().into_iter().flatten().find(|node| node["name"] == name);
    node.and_then(|node| node["id"].as_u64()).unwrap_or_else(|| panic!("no {name} in {list}"))
}

#[test]
fn who_is_needed_may_not_leave() {
    let world = world("leave");
    world.run(async |world| {
        let mut scene = Scene::busy(world, 10).await;
        scene.load.shared.progress(60).await;
        let [one, two, three] =
            [number_of(&scene, 0, "n1").await, number_of(&scene, 0, "n2").await, number_of(&scene, 0, "n3").await];
        assert_eq!(scene.nodes[2].kill().await.unwrap().code(), None);
        scene.load.shared.progress(60).await;
        println!("with one of three down: {}", refused(&scene, 0, two).await);
        println!("with one of three down: {}", refused(&scene, 1, one).await);
        println!("no such node: {}", refused(&scene, 1, 99).await);
        scene.nodes[2].restart().await.unwrap_or_else(|error| panic!("{error}"));
        scene.ready().await;
        scene.whole("after-refusals").await;

        for (name, number) in [("n3", three), ("n2", two)] {
            let body = json!({"node_id": number});
            scene.ask(&scene.nodes[0], &Request::post("leave", name, "/v1/cluster/leave", body), 200).await;
            let node = world.node(name).unwrap();
            // It serves nobody any more, so those who go round the nodes need not come.
            node.kill().await.unwrap();
            let left = world.nodes().into_iter().filter(|left| left.name() < name);
            scene.load.shared.at.send_replace(left.map(|left| left.addresses()).collect());
            scene.load.shared.progress(60).await;
        }
        println!("the last one: {}", refused(&scene, 0, one).await);
        scene.load.shared.progress(60).await;
        scene.end().await;
    });
}

#[test]
fn of_two_clusters_made_at_once_at_most_one_stands() {
    let world = world("init-twice");
    world.run(async |world| {
        let nodes = world.add_cluster(&["n1", "n2", "n3"], &options()).unwrap();
        nodes.iter().for_each(|node| node.start(&launch()).unwrap());
        let recorder = orbit_harness::Recorder::create(&world.dir().join("operations.jsonl")).unwrap();
        let init = Request::post("init", "", "/v1/cluster/init", json!({}));
        let mut answered = Vec::new();
        let mut asked = JoinSet::new();
        for node in &nodes[..2] {
            let (at, init, recorder) = ([node.addresses()], init.clone(), std::sync::Arc::clone(&recorder));
            asked.spawn(async move {
                let mut client = Client::new(&recorder).unwrap();
                client.settle(&at, &init, crate::support::PATIENCE).await.unwrap_or_else(|error| panic!("{error}"))
            });
        }
        for (status, body) in asked.join_all().await {
            println!("init: {status} {body}");
            answered.extend((status == 200).then(|| body["cluster"].clone()));
        }
        let mut client = Client::new(&recorder).unwrap();
        if answered.is_empty() {
            let again = client.settle(&[nodes[0].addresses()], &init, crate::support::PATIENCE).await;
            let (status, body) = again.unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(status, 200, "{body}");
            answered.push(body["cluster"].clone());
        }
        for node in &nodes {
            node.ready().await.unwrap_or_else(|error| panic!("{error}"));
            let list = client
                .settle(&[node.addresses()], &Request::get("cluster", "", "/v1/cluster"), crate::support::PATIENCE)
                .await;
            let (status, list) = list.unwrap_or_else(|error| panic!("{error}"));
            assert_eq!((status, &list["cluster"]), (200, &answered[0]), "{list}");
        }
        let clusters: BTreeSet<_> = answered.iter().map(Value::to_string).collect();
        assert_eq!(clusters.len(), 1, "{clusters:?}");
    });
}

#[test]
fn a_second_node_of_a_name_is_not_taken_in() {
    let world = world("same-name");
    world.run(async |world| {
        let mut scene = Scene::busy(world, 11).await;
        let seeds: Vec<String> = scene.nodes.iter().map(|node| node.addresses().peer).collect();
        let config = Config::new().with("cluster.seeds", seeds).with("node.name", "n1");
        let second = world.add_node("n4", &options().config(config)).unwrap();
        second.start(&launch()).unwrap();
        until("the second n1 says that it is not taken in", async || second.log().contains("not taken in")).await;
        println!("{}", second.log().lines().find(|line| line.contains("not taken in")).unwrap());
        let list = scene.ask(&scene.nodes[1], &Request::get("cluster", "", "/v1/cluster"), 200).await;
        assert_eq!(list["nodes"].as_array().map(Vec::len), Some(3), "{list}");
        second.kill().await.unwrap();
        scene.load.shared.progress(60).await;
        scene.whole("same-name").await;
        scene.end().await;
    });
}
