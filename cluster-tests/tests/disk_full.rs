//! The disk is full under load, then freed. The node ends by its own rule rather than acknowledge what is lost; it does
//! not start on a full disk without a clear word; once there is room again everything is there and goes on.
//!
//! It needs the right to mount a small file system; ci/parts/kill leaves it out, and says so, where there is none.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod support;

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use support::node::Node;
use support::{PATIENCE, World};
use tokio::time::timeout;

/// What a node ends with when its storage fails.
const EXIT_STORAGE: i32 = 74;

/// A small file system in memory, gone with its owner.
struct Small(PathBuf);

impl Small {
    fn mount(at: PathBuf) -> Self {
        std::fs::create_dir_all(&at).unwrap();
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=160m", "tmpfs"]).arg(&at).status();
        assert!(mount.unwrap().success(), "no right to mount");
        Self(at)
    }

    fn ballast(&self) -> PathBuf {
        self.0.join("ballast")
    }

    /// Takes all the room that is left.
    fn fill(&self) {
        let mut ballast = File::create(self.ballast()).unwrap();
        for size in [1 << 20, 1 << 12, 1] {
            while ballast.write_all(&vec![0; size]).is_ok() {}
        }
    }

    fn free(&self) {
        std::fs::remove_file(self.ballast()).unwrap();
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

fn log(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("log")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_ends_the_node_and_nothing_else() {
    let mut world = World::new("disk-full");
    let small = Small::mount(world.dir.join("small"));
    world.data = small.0.join("data");
    let mut node = world.start().await;
    world.load(3).await;
    for _ in 0..2 {
        world.shared.progress(150).await;
        small.fill();
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
                world.shared.at.send_replace(Some(again.at.clone()));
                let ended = timeout(PATIENCE, again.child.wait()).await.expect("it neither writes nor ends").unwrap();
                assert_eq!(ended.code(), Some(EXIT_STORAGE), "{ended}, see {}", world.dir.display());
                world.gone().await;
            }
        }
        small.free();
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
