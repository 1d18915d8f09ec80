//! A node loses its disk. Started again under its name it is a new member; the old number is given up, and the cluster
//! is whole again.

use std::collections::BTreeSet;

use orbit_harness::Request;
use serde_json::{Value, json};

use crate::scene::{Scene, until, world};

/// The members by number, with their names.
async fn members(scene: &Scene<'_>, at: usize) -> Vec<(u64, String)> {
    let list = scene.ask(&scene.nodes[at], &Request::get("cluster", "", "/v1/cluster"), 200).await;
    let member = |node: &Value| Some((node["id"].as_u64()?, node["name"].as_str()?.to_owned()));
    list["nodes"].as_array().into_iter().flatten().filter_map(member).collect()
}

#[test]
fn a_node_without_its_disk_is_replaced_by_a_new_one() {
    let world = world("replace");
    world.run(async |world| {
        let mut scene = Scene::busy(world, 8).await;
        for (place, node) in scene.nodes.iter().enumerate().rev() {
            let at = (place + 1) % 3;
            let before = members(&scene, at).await;
            let (old, _) = before.iter().find(|(_, name)| name == node.name()).expect("it is a member").clone();
            scene.load.shared.progress(150).await;
            assert_eq!(node.kill().await.unwrap().code(), None);
            node.wipe().unwrap();
            scene.load.shared.progress(50).await;
            node.restart().await.unwrap_or_else(|error| panic!("{error}"));

            let both = members(&scene, at).await;
            let named: BTreeSet<_> = both.iter().filter(|(_, name)| name == node.name()).map(|(id, _)| *id).collect();
            println!("{}: {before:?}, then {both:?}", node.name());
            assert!(named.iter().any(|id| before.iter().all(|(known, _)| known != id)), "no new number: {both:?}");
            if named.contains(&old) {
                let body = json!({"node_id": old, "lost": true});
                scene.ask(&scene.nodes[at], &Request::post("leave", node.name(), "/v1/cluster/leave", body), 200).await;
            }
            until("three members are left", async || {
                let now = members(&scene, at).await;
                now.len() == 3 && now.iter().all(|(id, _)| *id != old)
            })
            .await;
            scene.ready().await;
            scene.balanced().await;
            scene.whole(&format!("replaced-{}", node.name())).await;
        }
        scene.end().await;
    });
}
