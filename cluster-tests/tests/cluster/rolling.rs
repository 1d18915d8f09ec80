//! Nodes are stopped and started one after the other under load. No call fails that is repeated as documented, and no
//! task comes twice without a word.

use orbit_harness::Request;
use serde_json::json;

use crate::scene::{Scene, world};

#[test]
fn a_rolling_restart_fails_no_call() {
    let world = world("rolling");
    world.run(async |world| {
        let mut scene = Scene::busy(world, 2).await;
        for node in &scene.nodes {
            scene.load.shared.progress(150).await;
            assert_eq!(node.terminate().await.unwrap().code(), Some(0), "{} does not end well", node.name());
            scene.load.shared.progress(50).await;
            node.restart().await.unwrap_or_else(|error| panic!("{error}"));
            scene.ready().await;
        }
        scene.end().await;
    });
}

#[test]
fn a_drained_node_ends_by_itself() {
    let world = world("drain");
    world.run(async |world| {
        let mut scene = Scene::busy(world, 3).await;
        for node in &scene.nodes {
            scene.load.shared.progress(150).await;
            scene.ask(node, &Request::post("drain", node.name(), "/v1/cluster/drain", json!({})), 202).await;
            assert_eq!(node.ended().await.unwrap().code(), Some(0), "{} does not end well", node.name());
            scene.load.shared.progress(50).await;
            node.restart().await.unwrap_or_else(|error| panic!("{error}"));
            scene.ready().await;
        }
        scene.balanced().await;
        scene.end().await;
    });
}
