//! The disk is full under load, then freed. The node ends by its own rule rather than acknowledge what is lost; it does
//! not start on a full disk without a clear word; once there is room again everything is there and goes on.
//!
//! It needs the right to mount a small file system; ci/parts/kill leaves it out, and says so, where there is none.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod support;

use std::path::Path;
use std::time::Duration;

use orbit_harness::{Disk, MountedDisk};
use support::node::Node;
use support::{PATIENCE, World};
use tokio::time::timeout;

/// What a node ends with when its storage fails.
const EXIT_STORAGE: i32 = 74;

fn log(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("log")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_ends_the_node_and_nothing_else() {
    let mut world = World::new("disk-full");
    let small = MountedDisk::new(world.dir.join("small"), Disk::Tmpfs { mib: 160 }).unwrap();
    world.data = small.data();
    let mut node = world.start().await;
    world.load(3).await;
    for _ in 0..2 {
        world.shared.progress(150).await;
        small.fill().unwrap();
        let ended = timeout(PATIENCE, node.child.wait()).await.expect("it neither writes nor ends").unwrap();
        assert_eq!(ended.code(), Some(EXIT_STORAGE), "{ended}, see {}", world.dir.display());
        world.gone().await;
        let said = log(&world.dir);
        let last = said.lines().rfind(|line| line.contains("storage failed, ending the process"));
        let last = last.unwrap_or_else(|| panic!("it does not say why it ends, see {}", world.dir.display()));
        assert!(last.to_lowercase().contains("no space left"), "{last}");

        // Full as it is, it either starts and ends by the same rule, or does not start and says why.
        match Node::start(&world.dir, &world.data).await {
            Err(why) => assert!(why.to_lowercase().contains("no space left"), "{why}"),
            Ok(mut again) => {
                world.shared.at.send_replace(vec![again.at.clone()]);
                let ended = timeout(PATIENCE, again.child.wait()).await.expect("it neither writes nor ends").unwrap();
                assert_eq!(ended.code(), Some(EXIT_STORAGE), "{ended}, see {}", world.dir.display());
                world.gone().await;
            }
        }
        small.free().unwrap();
        node = timeout(Duration::from_secs(60), world.start()).await.expect("it starts once there is room");
    }
    world.shared.progress(150).await;
    world.finish().await;
    let histories = world.histories().await;
    world.judge(&histories);
    assert!(node.terminate().await.0.success());
    drop(small);
    world.clean_up();
}
