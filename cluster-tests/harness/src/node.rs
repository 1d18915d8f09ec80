//! A node: its process, its disk, its configuration, its place on the network.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::{interval, timeout};

use crate::{Addresses, Config, Disk, Error, Launch, MountedDisk, Namespace, Process, lock};

/// How long a start may take before it counts as failed.
const START_TIME_MAX: Duration = Duration::from_secs(60);
/// Between two questions whether it is ready: nothing tells it by itself.
const ASK_EVERY: Duration = Duration::from_millis(20);
/// How much of a log an error shows.
const LOG_SHOWN_BYTES: usize = 3_000;

/// What a node is made of.
#[derive(Debug, Clone, Default)]
pub struct NodeOptions {
    disk: Disk,
    config: Config,
}

impl NodeOptions {
    /// A node with a folder for a disk, and nothing configured but who and where it is.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Its disk.
    #[must_use]
    pub fn disk(mut self, disk: Disk) -> Self {
        self.disk = disk;
        self
    }

    /// What its configuration says beside `node.name`, `data_dir` and where it listens: 7400 to 7403 on its address.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }
}

/// A node of a world. A clone is the same node.
#[derive(Debug, Clone)]
pub struct Node(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: String,
    address: Ipv4Addr,
    namespace: Arc<Namespace>,
    dir: PathBuf,
    /// The folder of the world.
    world: PathBuf,
    /// `None`: the world is gone.
    disk: Mutex<Option<MountedDisk>>,
    config: Mutex<Config>,
    running: Mutex<Running>,
}

#[derive(Debug, Default)]
struct Running {
    process: Option<Arc<Process>>,
    /// How it was started the last time.
    launch: Option<Launch>,
}

impl Node {
    pub(crate) fn new(
        name: &str,
        options: &NodeOptions,
        world: &Path,
        (namespace, address): (Arc<Namespace>, Ipv4Addr),
    ) -> Result<Self, Error> {
        let dir = world.join(name);
        let disk = MountedDisk::new(dir.join("disk"), options.disk)?;
        let mut own = Config::new().with("node.name", name);
        own.set("data_dir", disk.data().to_string_lossy().into_owned());
        for (surface, port) in [("http", 7400), ("grpc", 7401), ("peer", 7402), ("health", 7403)] {
            own.set(&format!("{surface}.listen"), format!("{address}:{port}"));
        }
        Ok(Self(Arc::new(Inner {
            name: name.to_owned(),
            address,
            namespace,
            dir,
            world: world.to_owned(),
            disk: Mutex::new(Some(disk)),
            config: Mutex::new(own.and(&options.config)),
            running: Mutex::default(),
        })))
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Its address on the network of the world.
    #[must_use]
    pub fn address(&self) -> Ipv4Addr {
        self.0.address
    }

    /// Where it listens, by its configuration.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        let config = lock(&self.0.config);
        let at = |surface: &str| config.text(&format!("{surface}.listen")).unwrap_or_default().to_owned();
        Addresses { http: at("http"), grpc: at("grpc"), peer: at("peer"), health: at("health") }
    }

    /// Its folder: `log`, `orbit.toml`, `disk/data`.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.0.dir
    }

    /// Its network, for `nsenter` and for sockets that a test opens in its place.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.0.namespace
    }

    /// Changes its configuration, from the next start on.
    pub fn configure(&self, change: impl FnOnce(&mut Config)) {
        change(&mut lock(&self.0.config));
    }

    /// Does something with its disk: fill, free, wipe (see [`wipe`](Self::wipe)).
    ///
    /// # Errors
    ///
    /// What `work` gives; and when the world is gone.
    pub fn disk<T>(&self, work: impl FnOnce(&MountedDisk) -> Result<T, Error>) -> Result<T, Error> {
        work(lock(&self.0.disk).as_ref().ok_or_else(|| self.state("is of a world that is gone"))?)
    }

    /// Starts its process and does not wait for anything.
    ///
    /// # Errors
    ///
    /// When it runs already, or cannot be started.
    pub fn start(&self, launch: &Launch) -> Result<(), Error> {
        let mut running = lock(&self.0.running);
        if running.process.as_ref().is_some_and(|process| process.status().is_none()) {
            return Err(self.state("runs already"));
        }
        self.disk(|_| Ok(()))?;
        let config = self.0.dir.join("orbit.toml");
        let text = lock(&self.0.config).to_string();
        std::fs::write(&config, text).map_err(Error::file("writing", &config))?;
        let mut whole = launch.clone();
        if launch.takes_config {
            whole = whole.arg("--config").arg(&config);
        }
        let log = self.0.dir.join("log");
        let process = Process::spawn(&self.0.namespace, &whole, &log, &self.0.world)?;
        *running = Running { process: Some(Arc::new(process)), launch: Some(launch.clone()) };
        Ok(())
    }

    /// Waits until `/readyz` answers 200. Only within [`World::run`](crate::World::run): it asks from the clients'
    /// place.
    ///
    /// # Errors
    ///
    /// When the process ends, or takes longer than a minute.
    pub async fn ready(&self) -> Result<(), Error> {
        let process = self.process()?;
        let url = format!("http://{}/readyz", self.addresses().health);
        let http = reqwest::Client::builder().timeout(Duration::from_secs(2)).no_proxy().build();
        let http = http.map_err(|error| self.not_ready(error.to_string()))?;
        let answers = async {
            let mut ask = interval(ASK_EVERY);
            loop {
                ask.tick().await;
                let answer = http.get(&url).send().await;
                if answer.is_ok_and(|answer| answer.status() == 200) {
                    return;
                }
            }
        };
        tokio::select! {
            answered = timeout(START_TIME_MAX, answers) => {
                answered.map_err(|_| self.not_ready(format!("{url} does not answer 200 within {START_TIME_MAX:?}")))
            }
            ended = process.ended() => Err(self.not_ready(format!("it ended, {}", ended?))),
        }
    }

    /// Starts it as the last time and waits until it is ready.
    ///
    /// # Errors
    ///
    /// When it runs, was never started, or does not become ready.
    pub async fn restart(&self) -> Result<(), Error> {
        let launch = lock(&self.0.running).launch.clone();
        self.start(&launch.ok_or_else(|| self.state("was never started"))?)?;
        self.ready().await
    }

    /// Kills it with signal 9. The status tells whether that is what ended it.
    ///
    /// # Errors
    ///
    /// When it was never started.
    pub async fn kill(&self) -> Result<ExitStatus, Error> {
        let process = self.process()?;
        process.signal(Signal::KILL)?;
        process.ended().await
    }

    /// Stops it (SIGSTOP) and returns when it stands still: it keeps its connections and answers nothing.
    ///
    /// # Errors
    ///
    /// When it was never started.
    pub fn stop(&self) -> Result<(), Error> {
        self.process()?.stop()
    }

    /// Lets it go on (SIGCONT).
    ///
    /// # Errors
    ///
    /// When it was never started.
    pub fn go_on(&self) -> Result<(), Error> {
        self.process()?.signal(Signal::CONT)
    }

    /// Asks it to end (SIGTERM) and waits, without a limit, until it has.
    ///
    /// # Errors
    ///
    /// When it was never started.
    pub async fn terminate(&self) -> Result<ExitStatus, Error> {
        let process = self.process()?;
        process.signal(Signal::TERM)?;
        process.ended().await
    }

    /// Waits until it ends by itself.
    ///
    /// # Errors
    ///
    /// When it was never started.
    pub async fn ended(&self) -> Result<ExitStatus, Error> {
        self.process()?.ended().await
    }

    /// The process that was started last.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn process(&self) -> Result<Arc<Process>, Error> {
        lock(&self.0.running).process.clone().ok_or_else(|| self.state("was never started"))
    }

    /// Loses all its data.
    ///
    /// # Errors
    ///
    /// When it runs.
    pub fn wipe(&self) -> Result<(), Error> {
        let running = lock(&self.0.running);
        if running.process.as_ref().is_some_and(|process| process.status().is_none()) {
            return Err(self.state("runs, and would write on; kill it first"));
        }
        self.disk(MountedDisk::wipe)
    }

    /// Everything that it has said, over all its starts; empty before the first.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read(self.0.dir.join("log")).map_or_else(|_| String::new(), |log| String::from_utf8_lossy(&log).into())
    }

    /// Ends its process and gives its disk back; nothing can be done with it any more.
    pub(crate) fn close(&self) {
        let process = lock(&self.0.running).process.take();
        if let Some(process) = &process {
            // One that cannot be killed is left to the next world.
            let _ = process.signal(Signal::KILL);
        }
        drop(process);
        drop(lock(&self.0.disk).take());
    }

    fn state(&self, why: &'static str) -> Error {
        Error::State { node: self.0.name.clone(), why }
    }

    fn not_ready(&self, why: String) -> Error {
        let log = self.log();
        let start = log.ceil_char_boundary(log.len().saturating_sub(LOG_SHOWN_BYTES));
        Error::NotReady { node: self.0.name.clone(), why, log: log[start..].to_owned() }
    }
}
