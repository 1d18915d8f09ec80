//! What is done to a node is done to it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::ErrorKind;
use std::time::Duration;

use orbit_harness::{Addresses, Config, Disk, Error, Launch, MountedDisk, Node, NodeOptions, World, binary};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(60);

fn world(name: &str, options: &NodeOptions) -> (World, Node) {
    let world = World::new(env!("CARGO_TARGET_TMPDIR"), name).unwrap();
    let node = world.add_node("n1", options).unwrap();
    (world, node)
}

fn small() -> NodeOptions {
    NodeOptions::new().config(Config::new().with("cluster.shards", 1))
}

/// Third field of `/proc/PID/stat`.
fn state(node: &Node) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", node.process().unwrap().id())).unwrap();
    stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
}

#[test]
fn a_stopped_node_answers_when_it_goes_on() {
    let (world, node) = world("stop", &small());
    world.run(async |_| {
        node.start(&Launch::dev(binary().unwrap())).unwrap();
        node.ready().await.unwrap();
        node.stop().unwrap();
        assert_eq!(state(&node), 'T');
        let asked = tokio::spawn(reqwest::get(format!("http://{}/livez", node.addresses().health)));
        // Whether it is asked early or late in this time: a stopped process does not answer.
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(!asked.is_finished(), "a stopped process answered");
        node.go_on().unwrap();
        assert_eq!(timeout(PATIENCE, asked).await.unwrap().unwrap().unwrap().status(), 200);
        // Stopping a second time waits for the second stop.
        node.stop().unwrap();
        assert_eq!(state(&node), 'T');
        assert_eq!(node.kill().await.unwrap().code(), None);
    });
}

#[test]
fn a_node_is_killed_terminated_restarted_and_wiped() {
    let (world, node) = world("lives", &small());
    world.run(async |_| {
        assert!(matches!(node.restart().await, Err(Error::State { .. })), "it was never started");
        let launch = Launch::dev(binary().unwrap());
        node.start(&launch).unwrap();
        node.ready().await.unwrap();
        let listens = Addresses::read(&node.dir().join("disk/data")).unwrap();
        assert_eq!(listens, Addresses { peer: "127.0.0.1:7402".into(), ..node.addresses() });
        assert!(matches!(node.start(&launch), Err(Error::State { .. })), "it runs");
        assert!(matches!(node.wipe(), Err(Error::State { .. })), "it runs");

        assert_eq!(node.kill().await.unwrap().code(), None);
        node.restart().await.unwrap();
        assert_eq!(node.terminate().await.unwrap().code(), Some(0));
        assert!(node.log().contains("n1"), "{}", node.log());
        let data = node.dir().join("disk/data");
        assert!(data.is_dir());
        node.wipe().unwrap();
        assert!(!data.exists());
        node.restart().await.unwrap();
        assert!(data.is_dir());
    });
}

#[test]
fn a_node_that_does_not_start_says_why() {
    let (world, node) = world("refused", &small().config(Config::new().with("no.such.key", 1)));
    world.run(async |_| {
        node.start(&Launch::dev(binary().unwrap())).unwrap();
        let error = node.ready().await.unwrap_err();
        assert!(matches!(&error, Error::NotReady { log, .. } if log.contains("there is no key `no`")), "{error}");
        node.configure(|config| *config = config.clone().without("no"));
        node.restart().await.unwrap();
    });
}

#[test]
fn a_program_says_how_it_ends_and_gets_no_foreign_environment() {
    let (world, node) = world("programs", &NodeOptions::new());
    world.run(async |world| {
        let script = "echo \"$GIVEN-$CARGO_MANIFEST_DIR\"; exit 7";
        let program = Launch::program("/bin/sh").arg("-c").arg(script).env("GIVEN", "given");
        node.start(&program).unwrap();
        assert_eq!(node.ended().await.unwrap().code(), Some(7));
        assert_eq!(node.log(), "given-\n");
        let beside = world.start_program("beside", &program).unwrap();
        assert_eq!(beside.ended().await.unwrap().code(), Some(7));
        assert_eq!(std::fs::read_to_string(world.dir().join("beside.log")).unwrap(), "given-\n");
    });
}

#[test]
fn a_small_disk_runs_full_and_is_freed() {
    let (world, node) = world("full", &NodeOptions::new().disk(Disk::Tmpfs { mib: 64 }));
    let data = node.dir().join("disk/data");
    std::fs::create_dir(&data).unwrap();
    let write = || std::fs::write(data.join("file"), [1; 1 << 16]);
    write().unwrap();
    node.disk(MountedDisk::fill).unwrap();
    let ballast = std::fs::metadata(node.dir().join("disk/ballast")).unwrap().len();
    assert!((63 << 20..=64 << 20).contains(&ballast), "{ballast} bytes filled 64 MiB");
    let more = std::fs::write(data.join("more"), [1; 1 << 16]);
    assert_eq!(more.unwrap_err().kind(), ErrorKind::StorageFull);
    node.disk(MountedDisk::free).unwrap();
    std::fs::write(data.join("more"), [1; 1 << 16]).unwrap();

    let plain = world.add_node("n2", &NodeOptions::new()).unwrap();
    assert!(matches!(plain.disk(MountedDisk::fill), Err(Error::File { .. })), "the machine's disk");
    drop(world);
    assert!(!std::fs::read_to_string("/proc/self/mountinfo").unwrap().contains(&*node.dir().to_string_lossy()));
    assert!(matches!(node.start(&Launch::program("/bin/true")), Err(Error::State { .. })), "its world is gone");
}

#[test]
fn nodes_of_a_cluster_are_told_of_each_other() {
    let world = World::new(env!("CARGO_TARGET_TMPDIR"), "seeds").unwrap();
    let options = NodeOptions::new().config(Config::new().with("cluster.name", "tried"));
    let nodes = world.add_cluster(&["n1", "n2", "n3"], &options).unwrap();
    for node in &nodes {
        node.start(&Launch::program("/bin/true")).unwrap();
        let file: toml::Table = std::fs::read_to_string(node.dir().join("orbit.toml")).unwrap().parse().unwrap();
        let seeds: Vec<_> = nodes.iter().map(|node| toml::Value::from(node.addresses().peer)).collect();
        assert_eq!(file["cluster"]["seeds"].as_array(), Some(&seeds));
        assert_eq!(file["cluster"]["name"].as_str(), Some("tried"));
        assert_eq!(file["peer"]["listen"].as_str(), Some(format!("{}:7402", node.address()).as_str()));
    }
}
