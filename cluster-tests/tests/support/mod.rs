//! One node process, those who give it work and those who do it, and what they remember of it.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

pub mod caller;
pub mod client;
pub mod load;
pub mod node;
pub mod workload;

use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use load::Load;
use node::Node;
use orbit_harness::{Addresses, Notebook, Recorder};
use tokio::sync::watch;
use tokio::time::timeout;

/// How long anything may take here that is no hang.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// What the participants share.
#[derive(Debug)]
pub struct Shared {
    /// Where the nodes are. One that is alone is here while it runs; those of a cluster stay.
    pub at: watch::Sender<Vec<Addresses>>,
    pub notebook: Arc<Notebook>,
    /// Every operation of every client.
    pub recorder: Arc<Recorder>,
    /// Nothing new is started any more.
    pub closing: AtomicBool,
}

impl Deref for Shared {
    type Target = Notebook;

    fn deref(&self) -> &Notebook {
        &self.notebook
    }
}

impl Shared {
    fn new(dir: &Path) -> Self {
        let recorder = Recorder::create(&dir.join("operations.jsonl")).unwrap();
        let at = watch::Sender::new(Vec::new());
        Self { at, notebook: Arc::default(), recorder, closing: AtomicBool::new(false) }
    }

    pub fn closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// Waits until so many more acknowledgements have come.
    pub async fn progress(&self, more: u64) {
        timeout(PATIENCE, self.notebook.progress(more)).await.expect("nothing is acknowledged any more");
    }
}

/// A node under load.
#[derive(Debug)]
pub struct World {
    load: Load,
    pub data: PathBuf,
}

impl Deref for World {
    type Target = Load;

    fn deref(&self) -> &Load {
        &self.load
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut Load {
        &mut self.load
    }
}

impl World {
    /// Makes place for a node on a real disk: in memory a sync takes no time.
    pub fn new(name: &str) -> Self {
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let (data, log) = (dir.join("data"), dir.join("log"));
        Self { load: Load::new(dir, vec![log]), data }
    }

    /// Starts the node and lets everybody know where it is.
    pub async fn start(&self) -> Node {
        let node = Node::start(&self.dir, &self.data).await.unwrap_or_else(|error| panic!("{error}"));
        self.shared.at.send_replace(vec![node.at.clone()]);
        node
    }

    /// The node is gone: nobody looks for it any more, and all streams are seen to be broken.
    pub async fn gone(&self) {
        self.shared.at.send_replace(Vec::new());
        let mut streams = self.shared.streams.subscribe();
        let closed = timeout(PATIENCE, streams.wait_for(|open| *open == 0)).await;
        closed.expect("a stream does not notice that its node is gone").unwrap();
    }

    /// Nothing failed, so nobody will look at it.
    pub fn clean_up(self) {
        std::fs::remove_dir_all(&self.load.dir).unwrap();
    }
}
