//! A node is asked to stop under load: it says so to its workers, ends well and in time, and nothing is lost.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod support;

use std::sync::atomic::Ordering;
use std::time::Duration;

use support::World;

const STOP_TIME_MAX: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_under_load_loses_nothing() {
    let mut world = World::new("term");
    let mut node = world.start().await;
    world.load(2).await;
    for _ in 0..3 {
        world.shared.progress(150).await;
        let open = *world.shared.streams.borrow();
        let drained = world.shared.drained.swap(0, Ordering::SeqCst);
        assert_eq!(drained, 0, "nobody had asked for a stop");
        let (ended, took) = node.terminate().await;
        println!("{open} streams open, {ended} after {took:?}");
        assert!(ended.code() == Some(0) && took < STOP_TIME_MAX, "{ended} after {took:?}, see {}", world.dir.display());
        world.gone().await;
        let drained = world.shared.drained.swap(0, Ordering::SeqCst);
        assert!(drained >= open, "{drained} of {open} streams heard that the node goes away");
        node = world.start().await;
    }
    world.finish().await;
    let histories = world.histories().await;
    world.judge(&histories);
    assert!(node.terminate().await.0.success());
    world.clean_up();
}
