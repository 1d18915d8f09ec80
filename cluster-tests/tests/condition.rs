//! Clusters of processes whose disks fill up, and whose clocks are wrong.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use orbit_harness::{
    Addresses, Client, Config, Disk, Launch, Node, NodeOptions, Notebook, Outcome, Recorder, Request, Worker, World,
    binary,
};
use serde_json::{Value, json};
use tokio::time::{Instant, interval, timeout};

const PATIENCE: Duration = Duration::from_secs(90);
const SHARDS: usize = 6;
const DOCUMENTS: &str = r#"
name: work
version: 1.0.0
signals: {go: {type: object}}
tasks: {do.step: {version: 1.0.0}}
steps: [{id: one, task: do.step, input: {}}]
---
name: nap
version: 1.0.0
input: {type: object}
steps: [{id: rest, sleep: "${input.for}"}]
"#;

/// A cluster of three, and a client of it.
struct Cluster {
    nodes: Vec<Node>,
    http: reqwest::Client,
    client: Client,
}

impl Cluster {
    async fn start(world: &World, nodes: Vec<Node>, launches: [&Launch; 3]) -> Self {
        for (node, launch) in nodes.iter().zip(launches) {
            node.start(launch).unwrap();
        }
        let recorder = Recorder::create(&world.dir().join("operations.jsonl")).unwrap();
        let mut client = Client::new(&recorder).unwrap();
        let first = [nodes[0].addresses()];
        let init = Request::post("init", "", "/v1/cluster/init", json!({}));
        assert_eq!(client.settle(&first, &init, PATIENCE).await.unwrap().0, 200);
        for node in &nodes {
            node.ready().await.unwrap();
        }
        let http = reqwest::Client::builder().timeout(Duration::from_secs(5)).no_proxy().build().unwrap();
        let mut cluster = Self { nodes, http, client };
        cluster.led([2, 2, 2]).await;
        let deployed = cluster.client.settle(&first, &Request::deploy(DOCUMENTS), PATIENCE).await.unwrap();
        assert_eq!(deployed.0, 201, "{deployed:?}");
        cluster
    }

    fn at(&self, node: usize) -> Addresses {
        self.nodes[node].addresses()
    }

    /// The sum of a metric over its labels; `None` if the node does not answer or does not have it.
    async fn metric(&self, node: usize, name: &str) -> Option<f64> {
        let url = format!("http://{}/metrics", self.at(node).health);
        let text = self.http.get(url).send().await.ok()?.text().await.ok()?;
        let own = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{']));
        let values: Vec<f64> =
            text.lines().filter(own).map(|l| l.rsplit(' ').next().unwrap().parse().unwrap()).collect();
        (!values.is_empty()).then(|| values.iter().sum())
    }

    /// Waits until a metric is as wanted.
    async fn until(&self, node: usize, name: &str, wanted: impl Fn(f64) -> bool) {
        let mut last = None;
        let reached = async {
            let mut ask = interval(Duration::from_millis(100));
            loop {
                ask.tick().await;
                last = self.metric(node, name).await;
                if last.is_some_and(&wanted) {
                    return;
                }
            }
        };
        let reached = timeout(PATIENCE, reached).await;
        assert!(reached.is_ok(), "{name} of node {} stays at {last:?}", node + 1);
    }

    /// Waits until the nodes lead so many shards; of a negative number it does not matter.
    async fn led(&self, wanted: [i32; 3]) {
        for (node, wanted) in wanted.into_iter().enumerate().filter(|(_, wanted)| *wanted >= 0) {
            self.until(node, "orbit_shard_leader", |led| led == f64::from(wanted)).await;
        }
    }

    async fn call(&mut self, node: usize, request: &Request) -> Outcome {
        let at = self.at(node);
        self.client.call(&at, request).await
    }

    /// Starts an execution at a node, by a call that is not refused: repeated only if nobody knows what became of it,
    /// as clients do.
    async fn begin(&mut self, node: usize, workflow: &str, id: &str, input: &Value) {
        let mut outcome = self.call(node, &Request::start(workflow, id, input)).await;
        while let Outcome::Unknown(_) = outcome {
            outcome = self.call(node, &Request::start(workflow, id, input)).await;
        }
        assert!(matches!(&outcome, Outcome::Answered { status: 200 | 201, .. }), "{id} at {}: {outcome:?}", node + 1);
    }

    async fn ends(&mut self, node: usize, id: &str) {
        let (at, wait) = ([self.at(node)], Request::wait(id, Duration::from_secs(10)));
        let until = Instant::now() + PATIENCE;
        loop {
            let (_, state) = self.client.settle(&at, &wait, PATIENCE).await.unwrap();
            if state["status"] != "RUNNING" {
                return assert_eq!(state["status"], "COMPLETED", "{state}");
            }
            assert!(Instant::now() < until, "{id} does not end: {state}");
        }
    }

    /// Deletes what began first, at every node.
    async fn delete_first(&self) {
        for number in 0..SHARDS {
            let url = format!("http://{}/v1/executions/first-{number}", self.at(number % 3).http);
            assert_eq!(self.http.delete(&url).send().await.unwrap().status(), 204);
            assert_eq!(self.http.get(&url).send().await.unwrap().status(), 404);
        }
    }

    /// Sleeps of two seconds, at each of these nodes: none ends early, all end.
    async fn naps(&mut self, name: &str, nodes: &[usize]) {
        for number in 0..SHARDS {
            let (begun, id) = (Instant::now(), format!("{name}-{number}"));
            let node = nodes[number % nodes.len()];
            self.begin(node, "nap", &id, &json!({"for": "2s"})).await;
            self.ends(node, &id).await;
            assert!(begun.elapsed() >= Duration::from_millis(1_900), "{id} slept for {:?}", begun.elapsed());
        }
    }
}

fn says(node: &Node, what: &str) {
    assert!(node.log().contains(what), "its log does not say {what:?}");
}

fn is_disk(outcome: &Outcome) {
    assert_eq!(*outcome, Outcome::Refused("OVERLOADED".to_owned()));
}

fn fill(node: &Node, percent: u64) {
    node.disk(|disk| disk.fill_to(percent)).unwrap();
}

#[test]
fn disks_fill_up_and_are_freed_and_nothing_is_lost() {
    let world = World::new(env!("CARGO_TARGET_TMPDIR"), "disk-levels").unwrap();
    let config = Config::new().with("cluster.shards", SHARDS as i64);
    let options = NodeOptions::new().disk(Disk::Tmpfs { mib: 512 }).config(config);
    let nodes = world.add_cluster(&["n1", "n2", "n3"], &options).unwrap();
    world.run(async |world| {
        let launch = Launch::server(binary().unwrap()).arg("--insecure-listen");
        let mut cluster = Cluster::start(world, nodes.clone(), [&launch; 3]).await;
        for number in 0..SHARDS {
            cluster.begin(number % 3, "work", &format!("first-{number}"), &json!({})).await;
        }

        println!("one is full: it leads nothing, and takes part in all the same");
        fill(&nodes[0], 92);
        for number in 0..50 {
            cluster.begin(number % 3, "work", &format!("second-{number}"), &json!({})).await;
        }
        cluster.led([0, -1, -1]).await;
        says(&nodes[0], "the disk is full: this node begins no executions");
        let shown = cluster.call(2, &Request::get("cluster", "", "/v1/cluster")).await;
        let Outcome::Answered { output, .. } = shown else { panic!("{shown:?}") };
        assert_eq!(output["nodes"][0]["condition"]["disk"], "full", "{output}");

        println!("all are full: nothing begins, all else goes on");
        nodes[1..].iter().for_each(|node| fill(node, 92));
        for node in 0..3 {
            cluster.until(node, "orbit_disk_level", |level| level == 2.0).await;
        }
        // A moment later nobody hopes any more that others lead.
        tokio::time::sleep(Duration::from_secs(3)).await;
        for node in 0..3 {
            is_disk(&cluster.call(node, &Request::start("work", "refused", &json!({}))).await);
        }
        let notebook = Arc::new(Notebook::default());
        let worker = Worker::new("w", &[("do.step", "1.0.0")]).slots(4);
        let working = tokio::spawn(worker.poll(Arc::clone(&notebook), world.addresses()));
        for number in 0..SHARDS {
            cluster.ends(number % 3, &format!("first-{number}")).await;
        }
        working.abort();

        println!("two are nearly used up: deletions only");
        nodes[..2].iter().for_each(|node| fill(node, 97));
        for node in 0..3 {
            cluster.until(node, "orbit_shard_read_only", |shards| shards == SHARDS as f64).await;
        }
        let signal = Request::post("signal", "", "/v1/executions/second-1/signals/go", json!({}));
        is_disk(&cluster.call(2, &signal).await);
        cluster.delete_first().await;

        println!("there is room again");
        nodes.iter().for_each(|node| fill(node, 10));
        for (number, node) in nodes.iter().enumerate() {
            cluster.until(number, "orbit_shard_read_only", |shards| shards == 0.0).await;
            says(node, "the shard takes writes again");
        }
        let worker = Worker::new("w2", &[("do.step", "1.0.0")]).slots(8);
        tokio::spawn(worker.poll(Arc::clone(&notebook), world.addresses()));
        cluster.led([2, 2, 2]).await;
        cluster.begin(0, "work", "last", &json!({})).await;
        for id in (0..50).map(|number| format!("second-{number}")).chain(["last".to_owned()]) {
            cluster.ends(1, &id).await;
            let history =
                cluster.client.history(&[cluster.nodes[2].addresses()], &id, PATIENCE).await.unwrap().unwrap();
            assert_eq!(orbit_cluster_tests::all(&history, &[]), []);
        }
        assert_eq!(notebook.surprises(), [""; 0]);
    });
}

/// Makes the library through which a node sees a wrong wall clock.
fn library(dir: &Path) -> PathBuf {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/wrong_clock.c");
    let made = dir.join("wrong_clock.so");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let built = Command::new(compiler).args(["-O1", "-shared", "-fPIC", "-o"]).arg(&made).arg(source).status();
    assert!(built.unwrap().success(), "{source} is not compiled");
    made
}

#[test]
fn a_wrong_clock_fires_nothing_early_and_holds_nothing_up() {
    let world = World::new(env!("CARGO_TARGET_TMPDIR"), "clocks").unwrap();
    let options = NodeOptions::new().config(Config::new().with("cluster.shards", SHARDS as i64));
    let nodes = world.add_cluster(&["n1", "n2", "n3"], &options).unwrap();
    let files = [0, 1, 2].map(|node| world.dir().join(format!("clock-{node}")));
    let set = |node: usize, ahead_s: i64| {
        let file = File::options().create(true).truncate(false).write(true).open(&files[node]).unwrap();
        file.write_all_at(&(ahead_s * 1_000_000_000).to_ne_bytes(), 0).unwrap();
    };
    (0..3).for_each(|node| set(node, 0));
    let library = library(world.dir());
    let launches = files.each_ref().map(|file| {
        let launch = Launch::server(binary().unwrap()).arg("--insecure-listen");
        launch.env("LD_PRELOAD", &library).env("ORBIT_TEST_CLOCK", file)
    });
    world.run(async |world| {
        let mut cluster = Cluster::start(world, nodes.clone(), launches.each_ref()).await;
        for node in 0..3 {
            cluster.until(node, "orbit_clock_ahead_seconds", |ahead| ahead.abs() < 0.1).await;
        }

        println!("one jumps ahead by an hour");
        set(1, 3_600);
        cluster.led([3, 0, 3]).await;
        cluster.until(1, "orbit_clock_off", |off| off == 1.0).await;
        cluster.until(1, "orbit_clock_ahead_seconds", |ahead| (ahead - 3_600.0).abs() < 1.0).await;
        says(&nodes[1], "the clock of this node is off");
        cluster.naps("ahead", &[0, 1, 2]).await;

        println!("all start anew, one of them an hour ahead");
        for node in &nodes {
            node.kill().await.unwrap();
        }
        for (node, launch) in nodes.iter().zip(&launches) {
            node.start(launch).unwrap();
        }
        for node in &nodes {
            node.ready().await.unwrap();
        }
        cluster.naps("anew", &[0, 1, 2]).await;
        cluster.led([3, 0, 3]).await;

        println!("it is right again, and another one is an hour behind when a node is lost");
        set(1, 0);
        cluster.led([2, 2, 2]).await;
        set(2, -3_600);
        cluster.led([3, 3, 0]).await;
        nodes[0].kill().await.unwrap();
        cluster.led([-1, SHARDS as i32, 0]).await;
        cluster.naps("behind", &[1, 2]).await;
        nodes[0].restart().await.unwrap();
        set(2, 0);
        cluster.led([2, 2, 2]).await;
        cluster.naps("right", &[0, 1, 2]).await;
        for node in 0..3 {
            assert_eq!(cluster.metric(node, "orbit_clock_off").await, Some(0.0));
        }
    });
}
