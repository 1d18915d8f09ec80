//! A world: a network, nodes on it, clients beside them. All of it goes when it is dropped.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use crate::owner::Owner;
use crate::{Addresses, Error, Launch, Links, Namespace, Node, NodeOptions, Process, links, lock, network, sweep};

/// How long tasks of a test may take to end when its world does.
const END_TIME_MAX: Duration = Duration::from_secs(5);

/// A world. Its name, and that of its process, are those of its folder.
pub struct World {
    name: String,
    dir: PathBuf,
    clients: Arc<Namespace>,
    runtime: Option<Runtime>,
    nodes: Mutex<Vec<Node>>,
    /// Where all nodes listen, for those who go from one to the next.
    addresses: watch::Sender<Vec<Addresses>>,
    links: Links,
    failed: AtomicBool,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("dir", &self.dir).field("nodes", &self.nodes).finish_non_exhaustive()
    }
}

impl World {
    /// An empty one with its folder in `root`, which is made if need be: `env!("CARGO_TARGET_TMPDIR")` for a test. What
    /// others left there who were killed is removed before.
    ///
    /// # Errors
    ///
    /// Without the rights, or without one of the programs `ip`, `nft`, `setpriv`.
    pub fn new(root: impl AsRef<Path>, name: &str) -> Result<Self, Error> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        is_name(name)?;
        let root = root.as_ref();
        std::fs::create_dir_all(root).map_err(Error::file("making", root))?;
        let root = root.canonicalize().map_err(Error::file("finding", root))?;
        sweep::sweep(&root)?;
        let clients = Arc::new(network::bridge(links::CLIENTS)?);
        let dir = root.join(sweep::folder(Owner::current(), NUMBER.fetch_add(1, Ordering::Relaxed), name));
        std::fs::create_dir(&dir).map_err(Error::file("making", &dir))?;
        let mut world = Self {
            name: name.to_owned(),
            dir,
            clients,
            runtime: None,
            nodes: Mutex::default(),
            addresses: watch::Sender::new(Vec::new()),
            links: Links::default(),
            failed: AtomicBool::new(false),
        };
        world.links.add(links::CLIENTS, network::CLIENTS, Arc::clone(&world.clients))?;
        world.runtime = Some(runtime(&world.clients)?);
        Ok(world)
    }

    /// Runs a test at the clients' place, on several threads. Whatever it opens, or the tasks that it spawns, belongs
    /// to the network of this world, and reaches the nodes by their addresses.
    ///
    /// # Panics
    ///
    /// When the test does; then the folder is kept.
    pub fn run<T: Send>(&self, test: impl AsyncFnOnce(&Self) -> T + Send) -> T {
        let run = || {
            let Some(runtime) = &self.runtime else { unreachable!("only a world that is being dropped has none") };
            self.clients.enter().map(|()| runtime.block_on(test(self)))
        };
        let ended = std::thread::scope(|scope| {
            // A thread cannot be brought back to where it was without the right to that place, so it is a new one.
            let thread = std::thread::Builder::new().name(self.name.clone()).spawn_scoped(scope, run);
            thread.map(std::thread::ScopedJoinHandle::join)
        });
        let fault = match ended {
            Ok(Ok(Ok(result))) => return result,
            Ok(Ok(Err(error))) => Box::new(error.to_string()),
            Err(error) => Box::new(error.to_string()),
            Ok(Err(panic)) => {
                self.failed.store(true, Ordering::SeqCst);
                std::panic::resume_unwind(panic)
            }
        };
        self.failed.store(true, Ordering::SeqCst);
        std::panic::resume_unwind(fault)
    }

    /// Adds a node, which does not run yet.
    ///
    /// # Errors
    ///
    /// When the name is taken or is none, and those of the machine.
    pub fn add_node(&self, name: &str, options: &NodeOptions) -> Result<Node, Error> {
        is_name(name)?;
        let mut nodes = lock(&self.nodes);
        if name == links::CLIENTS || nodes.iter().any(|node| node.name() == name) {
            return Err(Error::name(name, "is already in this world"));
        }
        let number = u8::try_from(nodes.len() + 1).map_err(|_| Error::name(name, "is one node too many"))?;
        let place = network::attach(&self.clients, name, number)?;
        let node = Node::new(name, options, &self.dir, place.clone())?;
        self.links.add(name, place.1, place.0)?;
        nodes.push(node.clone());
        self.addresses.send_replace(nodes.iter().map(Node::addresses).collect());
        Ok(node)
    }

    /// Adds nodes that are to be one cluster: each has the peer addresses of all as its `cluster.seeds`. What lets them
    /// trust each other, and clients reach them, is for `options` to say.
    ///
    /// # Errors
    ///
    /// As for [`add_node`](Self::add_node).
    pub fn add_cluster(&self, names: &[&str], options: &NodeOptions) -> Result<Vec<Node>, Error> {
        let nodes = names.iter().map(|name| self.add_node(name, options)).collect::<Result<Vec<_>, _>>()?;
        let seeds: Vec<String> = nodes.iter().map(|node| node.addresses().peer).collect();
        for node in &nodes {
            node.configure(|config| config.set("cluster.seeds", seeds.clone()));
        }
        Ok(nodes)
    }

    /// Starts all nodes, and waits until all are ready: one alone may not become so, for want of the others.
    ///
    /// # Errors
    ///
    /// As for [`Node::start`] and [`Node::ready`].
    pub async fn start_all(&self, launch: &Launch) -> Result<(), Error> {
        let nodes = self.nodes();
        nodes.iter().try_for_each(|node| node.start(launch))?;
        for node in &nodes {
            node.ready().await?;
        }
        Ok(())
    }

    /// A node by its name.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn node(&self, name: &str) -> Result<Node, Error> {
        let nodes = lock(&self.nodes);
        let node = nodes.iter().find(|node| node.name() == name).cloned();
        node.ok_or_else(|| Error::name(name, "is not in this world"))
    }

    /// All nodes, in the order in which they came.
    #[must_use]
    pub fn nodes(&self) -> Vec<Node> {
        lock(&self.nodes).clone()
    }

    /// Where all nodes listen, whether they run or not: what a worker or a client of a cluster is given.
    #[must_use]
    pub fn addresses(&self) -> watch::Receiver<Vec<Addresses>> {
        self.addresses.subscribe()
    }

    /// Links between the nodes, and between them and the clients.
    #[must_use]
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// The clients' network.
    #[must_use]
    pub fn clients(&self) -> &Namespace {
        &self.clients
    }

    /// Its folder: one folder per node, logs of other programs.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Starts a program at the clients' place: a command of `orbit`, a worker in another language. What it says goes
    /// into `NAME.log` in the folder of the world. It is killed when what is returned is dropped.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub fn start_program(&self, name: &str, launch: &Launch) -> Result<Process, Error> {
        is_name(name)?;
        Process::spawn(&self.clients, launch, &self.dir.join(format!("{name}.log")), &self.dir)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for node in lock(&self.nodes).iter() {
            node.close();
        }
        if let Some(runtime) = self.runtime.take() {
            // On a thread of its own, because a runtime must not be waited for on one of another.
            let _ = std::thread::spawn(move || runtime.shutdown_timeout(END_TIME_MAX)).join();
        }
        let gone = if self.failed.load(Ordering::SeqCst) || std::thread::panicking() {
            sweep::keep(&self.dir, &self.name).map(|kept| report(&format!("the world is kept: {}", kept.display())))
        } else {
            sweep::remove(&self.dir)
        };
        if let Err(error) = gone {
            report(&format!("{error}; the next world tries again"));
        }
    }
}

#[allow(clippy::print_stdout, reason = "it is a test that prints, and the place to look at belongs to its output")]
fn report(what: &str) {
    println!("{what}");
}

/// A runtime all of whose threads are at the clients' place: those that it starts with and those that come later.
fn runtime(clients: &Arc<Namespace>) -> Result<Runtime, Error> {
    let place = Arc::clone(clients);
    let enter = move || {
        if let Err(error) = place.enter() {
            panic!("a thread outside of its world would reach other nodes than it means: {error}");
        }
    };
    let runtime = Builder::new_multi_thread().enable_all().worker_threads(4).on_thread_start(enter).build();
    runtime.map_err(Error::system("a runtime"))
}

/// Names are parts of file names and names of threads.
fn is_name(name: &str) -> Result<(), Error> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if (1..=32).contains(&name.len()) && name.chars().all(fits) {
        return Ok(());
    }
    Err(Error::name(name, "is no name here: small letters, digits and -, 1 to 32 of them"))
}
