//! A node is killed under load, and what it led goes on elsewhere; then it comes back, and the next one is killed.
//!
//! `FAILOVER_ROUNDS` (5) kills with dice from `FAILOVER_SEED` (1), while `FAILOVER_OPEN` (200) executions sleep over
//! them all, and `FAILOVER_CROWD` (0) more, too many to look at each, which `orbit bench` starts. Each cycle of three
//! kills hits each node, in a new order. From a kill to the first step of each shard that the node led is measured by
//! the times in the histories: all come from one machine. They are printed and kept; nothing is asserted about them,
//! for the machine has other work.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};

use orbit_cluster_tests::History;
use orbit_harness::{Request, binary};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::{Duration, sleep};

use crate::number;
use crate::scene::{Scene, launch, shard_of, world};

/// Callers of `orbit bench` that start the crowd.
const CROWD_CALLERS: &str = "64";

/// Those that it starts to begin with.
const BENCH_WARM_UP: u64 = 100;

/// A kill: whom, what it led, between which times.
struct Kill {
    node: String,
    led: BTreeSet<u64>,
    sent_ms: u64,
    dead_ms: u64,
}

#[allow(clippy::disallowed_methods, reason = "compared with the times in histories, which are those of the wall")]
fn now_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

#[test]
fn what_a_killed_node_led_goes_on_elsewhere() {
    let (rounds, seed) = (number("FAILOVER_ROUNDS", 5), number("FAILOVER_SEED", 1));
    let (open, crowd) = (number("FAILOVER_OPEN", 200), number("FAILOVER_CROWD", 0));
    println!("FAILOVER_SEED={seed} FAILOVER_ROUNDS={rounds} FAILOVER_OPEN={open} FAILOVER_CROWD={crowd}");
    let world = world("failover");
    world.run(async |world| {
        let mut dice = SmallRng::seed_from_u64(seed);
        let mut scene = Scene::busy(world, seed).await;
        if crowd > 0 {
            started_by_bench(&scene, crowd).await;
        }
        // Some sleep over every kill, and their timers fire all the same.
        scene.load.crowd(usize::try_from(open).unwrap(), 10_000 * rounds);
        let mut kills = Vec::new();
        let mut order = Vec::new();
        for _ in 0..rounds {
            if order.is_empty() {
                order = vec![0, 1, 2];
                order.shuffle(&mut dice);
            }
            kills.push(round(&scene, order.pop().unwrap(), &mut dice).await);
        }
        scene.whole("killed").await;
        let histories = scene.end().await;
        scene.balanced().await;
        assert_eq!(active(&scene).await, if crowd > 0 { crowd + BENCH_WARM_UP } else { 0 }, "still sleep");
        figures(seed, open + crowd, &kills, &histories);

        // What is at rest stays as it is, whoever leads it.
        for node in &scene.nodes {
            assert_eq!(node.terminate().await.unwrap().code(), Some(0), "{} does not end well", node.name());
        }
        world.start_all(&launch()).await.unwrap_or_else(|error| panic!("{error}"));
        assert!(scene.load.histories().await == histories, "a stop of all nodes changed a history");
    });
}

/// Executions that sleep for an hour, started by `orbit bench`, which starts some more beforehand.
async fn started_by_bench(scene: &Scene<'_>, count: u64) {
    let at = scene.nodes[0].addresses();
    let (count, http) = (count.to_string(), format!("http://{}", at.http));
    let arguments = ["bench", "--sleepers", &count, "--callers", CROWD_CALLERS, "--output", "json", "--address", &http];
    let mut bench = Command::new(binary().unwrap_or_else(|error| panic!("{error}")));
    let out = bench.args(arguments).args(["--grpc-address", &at.grpc]).kill_on_drop(true).output().await.unwrap();
    let report: Value = serde_json::from_slice(&out.stdout).unwrap_or_else(|_| panic!("{out:?}"));
    println!("{report:#}");
    assert_eq!(report["failures"], 0);
}

/// Executions that are not over: each node counts those of the shards that it leads.
async fn active(scene: &Scene<'_>) -> u64 {
    let mut active = 0;
    for node in &scene.nodes {
        let health = scene.ask(node, &Request::get("health", node.name(), "/v1/health"), 200).await;
        active += health["active_executions"].as_u64().unwrap();
    }
    active
}

async fn round(scene: &Scene<'_>, which: usize, dice: &mut SmallRng) -> Kill {
    scene.balanced().await;
    scene.load.shared.progress(dice.random_range(1..=60)).await;
    sleep(Duration::from_millis(dice.random_range(0..100))).await;
    let node = &scene.nodes[which];
    let led = scene.led(node).await;
    let sent_ms = now_ms();
    assert_eq!(node.kill().await.unwrap().code(), None, "{} had ended before", node.name());
    let (dead_ms, mark) = (now_ms(), scene.mark());
    scene.steps_on(&led, mark).await;
    // All others go on as well.
    scene.steps_on(&(0..crate::scene::SHARDS).collect(), mark).await;
    node.restart().await.unwrap_or_else(|error| panic!("{error}"));
    scene.ready().await;
    Kill { node: node.name().to_owned(), led, sent_ms, dead_ms }
}

/// From each kill to the first success on each shard that the node led. A result that the node had proposed bears a
/// time before its death, so what comes later was decided by the next leader.
fn figures(seed: u64, open: u64, kills: &[Kill], histories: &BTreeMap<String, History>) {
    let mut table = Vec::new();
    let mut longest_ms = 0;
    for (number, kill) in (1..).zip(kills) {
        let first_ms = |shard: &u64| {
            let on_shard = histories.values().filter(|history| shard_of(&history.execution_id) == *shard);
            let successes = on_shard.flat_map(|history| history.of_kind("StepSucceeded"));
            successes.map(orbit_cluster_tests::Event::at_ms).filter(|at_ms| *at_ms > kill.dead_ms).min()
        };
        let steps: BTreeMap<_, _> = kill
            .led
            .iter()
            .filter_map(|shard| first_ms(shard).map(|at_ms| (shard.to_string(), at_ms - kill.sent_ms)))
            .collect();
        longest_ms = longest_ms.max(steps.values().max().copied().unwrap_or(0));
        let first = steps.values().min().copied();
        println!("kill {number} of {}: first steps by shard after ms {steps:?}", kill.node);
        table.push(json!({"kill": number, "node": kill.node, "led": kill.led, "first_step_after_ms": first,
            "by_shard_ms": steps}));
    }
    println!("longest: {longest_ms} ms");
    write(seed, &json!({"kills": table, "longest_ms": longest_ms, "open": open, "executions": histories.len()}));
}

fn write(seed: u64, figures: &Value) {
    if let Ok(path) = std::env::var("ORBIT_FIGURES") {
        std::fs::write(path, json!({"seeds": seed, "figures": figures}).to_string()).unwrap();
    }
}
