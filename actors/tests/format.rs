//! Versions that know different formats in one cluster: who may be in it, when it is raised, how one goes back.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use orbit_actors::engine::membership;
use orbit_actors::engine::raise::{Intent, Raised};
use orbit_actors::error::Code;
use orbit_actors::format::{NEWEST, knows};
use orbit_raft::network::GrpcTransport;
use orbit_raft::{Knows, PeerAddress};
use support::nodes::Cluster;
use support::{begin, deploy, eventually, settings, start, within};
use uuid::Uuid;

const DOCUMENT: &str = r#"
name: waits
version: 1.0.0
steps: [{id: nap, sleep: "1h"}]
"#;

/// The version after this one.
fn next() -> Knows {
    Knows { version: "9.1.0".to_owned(), format: NEWEST + 1, ..knows() }
}

async fn refused(cluster: &Cluster, at: u64) -> String {
    let error = cluster.node(at).raise(Intent::Do).await.unwrap_err();
    assert_eq!(error.code, Code::ClusterFormat);
    error.message
}

/// Waits until the rows say that each node knows so much.
async fn all_know(cluster: &Cluster, formats: [u32; 3]) {
    eventually("what the nodes say of themselves", async || {
        let nodes = cluster.node(1).nodes().await.ok()?;
        (nodes.iter().map(|node| node.format).collect::<Vec<_>>() == formats).then_some(())
    })
    .await;
}

async fn restart(cluster: &mut Cluster, number: u64, knows: Knows) {
    let address = cluster.address(number);
    cluster.stop(number).await;
    cluster.settings.knows = knows;
    cluster.restart(number, &address).await;
    cluster.settled(3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_format_is_raised_once_every_node_knows_it_and_until_then_one_goes_back() {
    let mut cluster = Cluster::start(3, settings(3)).await;
    deploy(cluster.node(1), DOCUMENT).await;
    let same = Raised { from: NEWEST, to: NEWEST, raised: false };
    assert_eq!(cluster.node(2).raise(Intent::Do).await.unwrap(), same, "a new cluster begins with the newest");

    // One node after the other gets the next version; it tells so, and writes nothing of its own yet.
    restart(&mut cluster, 1, next()).await;
    all_know(&cluster, [NEWEST + 1, NEWEST, NEWEST]).await;
    assert!(begin(cluster.node(1), start("waits", "mixed", "{}")).await);
    let why = refused(&cluster, 1).await;
    assert!(why.contains("node 2 \"n2\"") && why.contains("version 9.1.0"), "{why}");
    restart(&mut cluster, 1, knows()).await;
    all_know(&cluster, [NEWEST; 3]).await;
    for number in 1..=3 {
        restart(&mut cluster, number, next()).await;
    }
    all_know(&cluster, [NEWEST + 1; 3]).await;

    // One that does not answer may have gone back.
    let address = cluster.address(3);
    cluster.stop(3).await;
    let why = refused(&cluster, 1).await;
    assert!(why.contains("node 3 \"n3\" does not answer"), "{why}");
    cluster.restart(3, &address).await;
    cluster.settled(3).await;
    let raised = Raised { from: NEWEST, to: NEWEST + 1, raised: false };
    assert_eq!(cluster.node(3).raise(Intent::Try).await.unwrap(), raised);
    assert_eq!(cluster.node(2).format().unwrap(), NEWEST);
    assert_eq!(cluster.node(3).raise(Intent::Do).await.unwrap(), Raised { raised: true, ..raised });
    let again = Raised { from: NEWEST + 1, to: NEWEST + 1, raised: false };
    assert_eq!(cluster.node(1).raise(Intent::Do).await.unwrap(), again);

    the_version_before_is_refused(&mut cluster).await;
    cluster.settings.knows = next();
    cluster.restart(3, &address).await;
    cluster.settled(3).await;
    assert_eq!(cluster.node(3).show("mixed", None).await.unwrap().summary.status, "RUNNING");
    cluster.end().await;
}

/// It does not open its data, and does not join with none.
async fn the_version_before_is_refused(cluster: &mut Cluster) {
    let address = cluster.address(3);
    eventually("the raise at node 3", async || (cluster.node(3).format().ok()? == NEWEST + 1).then_some(())).await;
    cluster.stop(3).await;
    cluster.settings.knows = knows();
    let error = cluster.try_restart(3, &address).await.unwrap_err();
    assert_eq!(error.code, Code::ClusterFormat);
    assert!(error.message.contains("start this node with version 9.1.0"), "{error}");
    let (seed, nowhere) = (PeerAddress(cluster.address(1)), PeerAddress("127.0.0.1:1".to_owned()));
    let joined = membership::join(&GrpcTransport, &seed, "n4", &nowhere, Uuid::new_v4(), knows());
    let error = within(20, "a refusal", joined).await.unwrap_err();
    assert_eq!(error.code, Code::ClusterFormat, "{error}");
    assert!(error.message.contains("\"n4\"") && error.message.contains("version 9.1.0"), "{error}");
    assert_eq!(cluster.node(1).nodes().await.unwrap().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_has_moved_is_found_again() {
    let mut cluster = Cluster::start(3, settings(3)).await;
    deploy(cluster.node(1), DOCUMENT).await;
    for number in [3, 1] {
        let before = cluster.address(number);
        cluster.stop(number).await;
        // The address before stays taken, by nobody that speaks.
        let _taken = tokio::net::TcpListener::bind(&before).await.unwrap();
        cluster.restart(number, "127.0.0.1:0").await;
        let now = cluster.address(number);
        assert_ne!(now, before);
        cluster.settled(3).await;
        let id = format!("after-{number}");
        assert!(begin(cluster.node(number), start("waits", &id, "{}")).await);
        eventually("the new address, known to all", async || {
            for at in 1..=3 {
                let nodes = cluster.node(at).nodes().await.ok()?;
                nodes.iter().find(|node| node.id == number && node.address == now)?;
            }
            Some(())
        })
        .await;
    }
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_data_of_another_node_is_not_opened() {
    let mut cluster = Cluster::start(1, settings(1)).await;
    let address = cluster.address(1);
    cluster.stop(1).await;
    std::fs::rename(cluster.dir.path().join("1"), cluster.dir.path().join("2")).unwrap();
    let error = cluster.try_restart(2, &address).await.unwrap_err();
    assert_eq!(error.code, Code::InvalidRequest);
    assert!(error.message.contains("node.name to \"n1\""), "{error}");
}
