//! Being known to the nodes, and staying so.
//!
//! Register and heartbeats carry all tokens that are held, so that any node, also one that has just started, knows what
//! this worker holds. Whoever hears that the session is unknown registers again; all who hear it at the same time do
//! so once.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use super::super::Error;
use super::tasks::{Contract, Wanted};
use super::{Held, Say};
use crate::client::answers::{Alive, Registered};
use crate::client::{self, Call, Client, Harm, Patience};

/// How often new workflows are looked for.
const REFRESH: Duration = Duration::from_secs(5);
/// How long the last call may take.
const CLOSE: Duration = Duration::from_secs(3);

/// Who the worker is.
pub(super) struct Identity {
    pub(super) worker_id: String,
    pub(super) runtime: String,
    pub(super) slots: u32,
}

/// A worker's session.
pub(super) struct Session {
    client: Client,
    identity: Identity,
    held: Arc<Held>,
    say: Say,
    /// Held while registering.
    wanted: Mutex<Known>,
    id: StdMutex<String>,
    interval: StdMutex<Duration>,
}

/// What is wanted, and what the nodes have been told of it.
struct Known {
    wanted: Wanted,
    told: BTreeSet<Contract>,
}

#[derive(Serialize)]
struct Register<'a> {
    worker_id: &'a str,
    runtime: &'a str,
    sdk: &'a str,
    contracts: &'a BTreeSet<Contract>,
    slots: u32,
    tokens: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    worker_session_id: Option<String>,
}

#[derive(Serialize)]
struct Heartbeat {
    worker_session_id: String,
    tokens: Vec<String>,
}

impl Session {
    /// Registers; waits for nodes and for workflows that use the tasks as long as it takes.
    pub(super) async fn open(
        client: Client,
        identity: Identity,
        wanted: Wanted,
        held: Arc<Held>,
        say: Say,
    ) -> Result<Self, Error> {
        let (id, interval) = (StdMutex::default(), StdMutex::default());
        let known = Mutex::new(Known { wanted, told: BTreeSet::new() });
        let session = Self { client, identity, held, say, wanted: known, id, interval };
        session.first().await?;
        Ok(session)
    }

    async fn first(&self) -> Result<(), Error> {
        let mut known = self.wanted.lock().await;
        let (mut patience, mut told) = (Patience::endless(), String::new());
        loop {
            let opened = match known.wanted.refresh(&self.client).await {
                Ok(()) if known.wanted.contracts().is_empty() => {
                    let unused = known.wanted.said_of_unused().unwrap_or_default();
                    self.say_once(&format!("{unused}; waiting for one that does"), &mut told);
                    sleep(REFRESH).await;
                    continue;
                }
                Ok(()) => self.register(&mut known).await,
                Err(error) => Err(error),
            };
            match opened {
                Ok(()) => {
                    let Identity { worker_id, slots, .. } = &self.identity;
                    self.say.line(format_args!("{worker_id} waits for tasks, {slots} at a time"));
                    if let Some(unused) = known.wanted.said_of_unused() {
                        self.say.line(format_args!("warning: {unused}"));
                    }
                    return Ok(());
                }
                Err(error) if error.may_pass() => self.say_once(&error.to_string(), &mut told),
                Err(error) => return Err(error.into()),
            }
            patience.wait(None).await;
        }
    }

    fn say_once(&self, text: &str, told: &mut String) {
        if told != text {
            self.say.line(text);
            text.clone_into(told);
        }
    }

    /// The session to be named in calls.
    pub(super) fn id(&self) -> String {
        self.id.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn register(&self, known: &mut Known) -> Result<(), client::Error> {
        let contracts = known.wanted.contracts();
        let earlier = self.id();
        let request = Register {
            worker_id: &self.identity.worker_id,
            runtime: &self.identity.runtime,
            sdk: concat!("orbit-worker-exec/", env!("CARGO_PKG_VERSION")),
            contracts: &contracts,
            slots: self.identity.slots,
            tokens: self.held.list(),
            worker_session_id: Some(earlier).filter(|id| !id.is_empty()),
        };
        let call = Call::post(["v1", "workers", "register"], Harm::None).json(&request);
        let registered: Registered = self.client.once(&call).await?.read()?;
        for warning in &registered.warnings {
            self.say.line(format_args!("warning: {warning}"));
        }
        *self.id.lock().unwrap_or_else(PoisonError::into_inner) = registered.worker_session_id;
        let interval = Duration::from_millis(registered.heartbeat_interval_ms.max(100));
        *self.interval.lock().unwrap_or_else(PoisonError::into_inner) = interval;
        known.told = contracts;
        Ok(())
    }

    /// The nodes do not know the session `unknown`: registers again, unless somebody else did.
    pub(super) async fn renew(&self, unknown: &str) -> Result<(), client::Error> {
        let mut known = self.wanted.lock().await;
        if self.id() != unknown {
            return Ok(());
        }
        let renewed = self.register(&mut known).await;
        if renewed.is_ok() {
            self.say.line("registered again");
        }
        renewed
    }

    /// Sends signs of life and looks for new workflows, for ever.
    pub(super) async fn stay_alive(self: Arc<Self>) {
        let (mut told, mut refreshed) = (String::new(), Instant::now());
        loop {
            let interval = *self.interval.lock().unwrap_or_else(PoisonError::into_inner);
            sleep(interval).await;
            let mut done = self.heartbeat(interval).await;
            if done.is_ok() && refreshed.elapsed() >= REFRESH {
                done = self.refresh().await;
                refreshed = Instant::now();
            }
            match done {
                Ok(()) => told.clear(),
                Err(error) => self.say_once(&error.to_string(), &mut told),
            }
        }
    }

    async fn heartbeat(&self, interval: Duration) -> Result<(), client::Error> {
        let id = self.id();
        let request = Heartbeat { worker_session_id: id.clone(), tokens: self.held.list() };
        // Late is as good as never: the next one says the same.
        let call = Call::post(["v1", "workers", "heartbeat"], Harm::None).json(&request).within(interval);
        match self.client.once(&call).await {
            Ok(answer) => match answer.read()? {
                Alive { accepted: true, cancel } => {
                    self.held.cancel(&cancel);
                    Ok(())
                }
                Alive { accepted: false, .. } => self.renew(&id).await,
            },
            Err(error) if error.code() == Some("UNKNOWN_SESSION") => self.renew(&id).await,
            Err(error) => Err(error),
        }
    }

    async fn refresh(&self) -> Result<(), client::Error> {
        let mut known = self.wanted.lock().await;
        if !known.wanted.may_grow() {
            return Ok(());
        }
        known.wanted.refresh(&self.client).await?;
        // Versions that nobody uses any more do no harm; a session needs at least one.
        if known.wanted.contracts().is_subset(&known.told) {
            return Ok(());
        }
        self.register(&mut known).await
    }

    /// Ends the session; if that cannot be said, the nodes notice by themselves.
    pub(super) async fn close(&self) {
        #[derive(Serialize)]
        struct Unregister {
            worker_session_id: String,
        }
        let request = Unregister { worker_session_id: self.id() };
        let call = Call::post(["v1", "workers", "unregister"], Harm::None).json(&request).within(CLOSE);
        match self.client.once(&call).await {
            Ok(_) => self.say.line("unregistered"),
            Err(error) => self.say.line(format_args!("not unregistered: {error}")),
        }
    }
}
