//! A node without data: it waits until it makes a cluster, because somebody says so, or finds one that it joins.
//!
//! ```text
//!   no data ──┬── init: no seed belongs to a cluster, none is about to make one ──▶ node 1 of a new cluster
//!             └── a seed belongs to a cluster ──▶ it gives this node a number ─────▶ learns, then votes
//! ```
//!
//! Meanwhile it says who it is, over HTTP that it waits, and nothing else.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use orbit_actors::engine::membership::{self, Invitation, Neighbour};
use orbit_actors::error::{Code, Error};
use orbit_actors::format;
use orbit_raft::network::{GrpcNewcomer, GrpcTransport};
use orbit_raft::{Identity, NodeId, PeerAddress};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{mpsc, oneshot, watch};
use tonic::service::Routes;
use uuid::Uuid;

use crate::config::Config;
use crate::gateway::http::refusal;

/// How often the seeds are asked.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// How long a seed may take to say who it is.
const ANSWER_WAIT: Duration = Duration::from_secs(2);
/// Written before a cluster is asked, so that a node that is killed meanwhile asks again as the same.
const FILE: &str = "joining.json";

/// What somebody wants of a newcomer.
enum Command {
    /// That it makes a cluster.
    Init(oneshot::Sender<Result<Identity, Error>>),
    /// That it asks these.
    Join(Vec<String>),
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// It makes a cluster.
    Founds(Identity),
    /// It was taken in.
    Joins(Identity),
}

/// A node without data.
pub(super) struct Newcomer {
    name: String,
    address: PeerAddress,
    seeds: Vec<String>,
    incarnation: Uuid,
    makes_a_cluster: Arc<AtomicBool>,
    sender: mpsc::Sender<Command>,
    commands: mpsc::Receiver<Command>,
    /// What was said of each seed, so that it is said once as long as it stays so.
    said: BTreeMap<String, String>,
    /// Who asked it to make a cluster, to be told once it stands.
    asked: Option<oneshot::Sender<Result<Identity, Error>>>,
}

impl Newcomer {
    pub(super) fn new(config: &Config, address: PeerAddress) -> Result<Self, std::io::Error> {
        let (sender, commands) = mpsc::channel(8);
        let seeds = config.seeds.iter().filter(|seed| **seed != address.0).cloned().collect();
        let incarnation = incarnation(&config.data_dir)?;
        let makes_a_cluster = Arc::default();
        let name = config.node_name.clone();
        Ok(Self {
            name,
            address,
            seeds,
            incarnation,
            makes_a_cluster,
            sender,
            commands,
            said: BTreeMap::new(),
            asked: None,
        })
    }

    /// What it answers other nodes.
    pub(super) fn peer_router(&self) -> Router {
        let (name, makes) = (self.name.clone(), Arc::clone(&self.makes_a_cluster));
        let answer = move |question| membership::answer_alone(question, &name, makes.load(Ordering::SeqCst));
        Routes::new(GrpcNewcomer::service(answer)).prepare().into_axum_router()
    }

    /// What it answers over HTTP.
    pub(super) fn http_router(&self) -> Router {
        Router::new()
            .route("/v1/cluster/init", post(init))
            .route("/v1/cluster/join", post(join))
            .fallback(|| async { refusal(&waits()) })
            .with_state(self.sender.clone())
    }

    /// Waits until it is settled; `stop` is looked at meanwhile.
    pub(super) async fn settle(&mut self, mut stop: watch::Receiver<bool>) -> Option<Settled> {
        tracing::info!(
            name = self.name, address = %self.address, seeds = ?self.seeds,
            "there is no data here: this node makes a cluster when `orbit init` says so, or joins that of a seed"
        );
        loop {
            if let Some(invitation) = self.ask_seeds().await {
                let Invitation { cluster, node } = invitation;
                tracing::info!(%cluster, %node, "this node is a new member of a cluster");
                return Some(Settled::Joins(Identity { cluster, node, incarnation: self.incarnation }));
            }
            let command = tokio::select! {
                command = self.commands.recv() => command?,
                () = tokio::time::sleep(ASK_EVERY) => continue,
                _ = stop.wait_for(|stop| *stop) => return None,
            };
            match command {
                Command::Join(seeds) => self.seeds = seeds,
                Command::Init(reply) => match self.may_init().await {
                    Ok(()) => {
                        let cluster = Uuid::now_v7();
                        tracing::info!(%cluster, "this node makes a cluster");
                        self.asked = Some(reply);
                        let identity = Identity { cluster, node: NodeId(1), incarnation: self.incarnation };
                        return Some(Settled::Founds(identity));
                    }
                    Err(error) => {
                        self.makes_a_cluster.store(false, Ordering::SeqCst);
                        // Who no longer waits does not need to know.
                        let _ = reply.send(Err(error));
                    }
                },
            }
        }
    }

    /// The cluster stands: whoever asked for it hears that.
    pub(super) fn stands(self, identity: Identity) {
        if let Some(asked) = self.asked {
            let _ = asked.send(Ok(identity));
        }
    }

    async fn neighbour(&self, seed: &str) -> Result<Neighbour, Error> {
        let makes = self.makes_a_cluster.load(Ordering::SeqCst);
        let (transport, seed) = (GrpcTransport, PeerAddress(seed.to_owned()));
        let asked = membership::neighbour(&transport, &seed, makes);
        let late = |_| Error::new(Code::NoLeader, format!("{seed} does not answer: it takes too long"));
        tokio::time::timeout(ANSWER_WAIT, asked).await.map_err(late)?
    }

    async fn ask_seeds(&mut self) -> Option<Invitation> {
        for seed in self.seeds.clone() {
            match self.neighbour(&seed).await {
                Ok(Neighbour { cluster: Some(_), .. }) => {}
                Ok(_) => {
                    self.said.remove(&seed);
                    continue;
                }
                Err(error) => {
                    self.say(&seed, &error, "a seed is not reached; it is asked every second");
                    continue;
                }
            }
            let at = PeerAddress(seed.clone());
            let (transport, knows) = (GrpcTransport, format::knows());
            match membership::join(&transport, &at, &self.name, &self.address, self.incarnation, knows).await {
                Ok(invitation) => return Some(invitation),
                Err(error) => self.say(&seed, &error, "this node is not taken in; it asks every second"),
            }
        }
        None
    }

    fn say(&mut self, seed: &str, error: &Error, what: &str) {
        let text = error.to_string();
        if self.said.get(seed) != Some(&text) {
            tracing::warn!(seed, %error, "{what}");
            self.said.insert(seed.to_owned(), text);
        }
    }

    /// Whether no other cluster is there or about to be.
    async fn may_init(&self) -> Result<(), Error> {
        self.makes_a_cluster.store(true, Ordering::SeqCst);
        let asked = self.seeds.iter().map(|seed| async move { (seed, self.neighbour(seed).await) });
        for (seed, neighbour) in futures::future::join_all(asked).await {
            let refused = |what: String| Err(Error::new(Code::ClusterExists, what));
            match neighbour {
                Ok(Neighbour { cluster: Some(cluster), .. }) => {
                    return refused(format!("{seed} belongs to cluster {cluster}; this node joins it by itself"));
                }
                Ok(Neighbour { makes_a_cluster: true, .. }) => {
                    return refused(format!(
                        "{seed} is about to make a cluster, too; ask one of the two, and no other"
                    ));
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(seed, %error, "a seed does not answer; if it belongs to a cluster, this is another")
                }
            }
        }
        Ok(())
    }
}

fn waits() -> Error {
    let message = "this node belongs to no cluster yet; make one with `orbit init`, or name the nodes of one as seeds";
    Error::new(Code::NoLeader, message)
}

fn gone<T>(_: T) -> Response {
    refusal(&Error::new(Code::NoLeader, "this node is going away, or on its way into a cluster; repeat the call"))
}

async fn init(State(commands): State<mpsc::Sender<Command>>) -> Response {
    let (reply, answer) = oneshot::channel();
    if let Err(closed) = commands.send(Command::Init(reply)).await {
        return gone(closed);
    }
    match answer.await {
        Ok(Ok(identity)) => Json(founded(&identity)).into_response(),
        Ok(Err(error)) => refusal(&error),
        Err(closed) => gone(closed),
    }
}

/// What is said of a cluster that stands.
pub(crate) fn founded(identity: &Identity) -> serde_json::Value {
    json!({ "cluster": identity.cluster, "node_id": identity.node.0 })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JoinBody {
    seeds: Vec<String>,
}

async fn join(State(commands): State<mpsc::Sender<Command>>, body: axum::body::Bytes) -> Response {
    let Ok(JoinBody { seeds }) = serde_json::from_slice(&body) else {
        return refusal(&Error::new(Code::InvalidRequest, "seeds: a list of host:port is expected"));
    };
    match commands.send(Command::Join(seeds.clone())).await {
        Ok(()) => Json(json!({ "seeds": seeds })).into_response(),
        Err(closed) => gone(closed),
    }
}

/// Who this node is when it asks to join: the same until it has data of its own.
fn incarnation(data_dir: &Path) -> Result<Uuid, std::io::Error> {
    let file = data_dir.join(FILE);
    if let Ok(text) = std::fs::read(&file)
        && let Ok(known) = serde_json::from_slice(&text)
    {
        return Ok(known);
    }
    let incarnation = Uuid::now_v7();
    std::fs::create_dir_all(data_dir)?;
    let new = file.with_extension("json.new");
    std::fs::write(&new, json!(incarnation).to_string())?;
    std::fs::File::open(&new)?.sync_all()?;
    std::fs::rename(&new, &file)?;
    Ok(incarnation)
}
