//! Nodes are cut off from each other, or stand still, under load. Clients reach all of them: what a node acknowledges
//! then is not lost, what it shows is current, and where a majority is things go on.

use std::time::Duration;

use orbit_harness::{Addresses, Cut, Node};
use tokio::task::JoinSet;

use crate::probe::{DOCUMENT, Probe, Reads};
use crate::scene::{SHARDS, Scene, world};

/// How long a cut lasts at least: several times what an election takes.
const CUT_TIME: Duration = Duration::from_secs(4);
const PAUSE: Duration = Duration::from_secs(3);
/// Writes that must be acknowledged elsewhere meanwhile, per shard that the node led.
const WRITES: u64 = 15;

/// Disturbs with `cut`, looks at what `old` says meanwhile of the shards that it led, heals with `heal`.
async fn disturb(scene: &Scene<'_>, name: &str, old: &Node, time: Duration, cut: impl FnOnce(), heal: impl FnOnce()) {
    scene.balanced().await;
    let name = format!("{name}-{}", old.name());
    let led = scene.led(old).await;
    let mut probes = Vec::new();
    for shard in &led {
        probes.push(Probe::on(&scene.load.shared, *shard, &name).await);
    }
    scene.load.shared.progress(60).await;
    cut();
    let at = old.addresses();
    let others = scene.nodes.iter().map(Node::addresses).filter(|other| other.http != at.http);
    let elsewhere: Vec<Addresses> = others.collect();
    let mut runs = JoinSet::new();
    for probe in probes {
        runs.spawn(probe.run(elsewhere.clone(), at.clone(), time, WRITES));
    }
    let ran = runs.join_all().await;
    scene.steps_on(&(0..SHARDS).collect(), scene.mark()).await;
    heal();
    let mut reads = Reads::default();
    for (probe, asked) in ran {
        reads = reads.and(asked.heard().await);
        probe.end().await;
    }
    println!("{name}: it led {led:?}, reads at it meanwhile: {reads:?}");
    assert!(reads.current + reads.refused > 0, "nobody read at {}", old.name());
    scene.whole(&name).await;
}

/// A scene for disturbances, and what is left of it.
fn under_load(name: &str, seed: u64, test: impl AsyncFnOnce(&Scene<'_>) + Send) {
    let world = world(name);
    world.run(async |world| {
        let mut scene = Scene::busy(world, seed).await;
        scene.load.deploy(DOCUMENT).await;
        test(&scene).await;
        scene.end().await;
    });
}

#[test]
fn a_node_alone_shows_and_takes_nothing() {
    under_load("alone", 4, async |scene| {
        let links = scene.world.links();
        for (node, how) in scene.nodes.iter().zip([Cut::Silent, Cut::Rejected, Cut::Silent]) {
            let cut = || links.isolate(node.name(), how).unwrap();
            disturb(scene, "alone", node, CUT_TIME, cut, || links.heal().unwrap()).await;
        }
    });
}

#[test]
fn a_node_that_is_not_heard_or_hears_nothing_is_replaced() {
    under_load("one-way", 5, async |scene| {
        let links = scene.world.links();
        for (node, mute) in scene.nodes.iter().zip([true, false, true]) {
            let others = scene.nodes.iter().map(Node::name).filter(|other| *other != node.name());
            let cut = || {
                for other in others {
                    let (from, to) = if mute { (node.name(), other) } else { (other, node.name()) };
                    links.cut_one_way(from, to, Cut::Silent).unwrap();
                }
            };
            let name = if mute { "mute" } else { "deaf" };
            disturb(scene, name, node, CUT_TIME, cut, || links.heal().unwrap()).await;
        }
    });
}

#[test]
fn two_nodes_that_see_only_the_third_go_on() {
    under_load("bridge", 6, async |scene| {
        let links = scene.world.links();
        for (place, node) in scene.nodes.iter().enumerate() {
            let [bridge, other] = [1, 2].map(|next| scene.nodes[(place + next) % 3].name());
            let cut = || links.partition(&[&[node.name(), bridge], &[bridge, other]], Cut::Silent).unwrap();
            disturb(scene, "bridge", node, CUT_TIME, cut, || links.heal().unwrap()).await;
        }
    });
}

#[test]
fn a_leader_that_stood_still_shows_nothing_old() {
    under_load("stopped", 7, async |scene| {
        for node in &scene.nodes {
            disturb(scene, "stopped", node, PAUSE, || node.stop().unwrap(), || node.go_on().unwrap()).await;
        }
    });
}
