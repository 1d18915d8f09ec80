//! The root of a node's actors: it starts the shards, and starts one again that failed.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::Arc;

use orbit_raft::Environment;
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::watch;

use crate::desk::ShardId;
use crate::shard::{Context, ShardActor, ShardBirth, ShardMsg};

/// The actor.
#[derive(Debug)]
pub(crate) struct Supervisor<E>(PhantomData<fn() -> E>);

impl<E> Default for Supervisor<E> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

/// A shard as the node sees it.
#[derive(Debug)]
pub(crate) struct Shard<E: Environment> {
    pub(crate) context: Arc<Context<E>>,
    /// Where its asks go; another one after it failed and was started again.
    pub(crate) actor: watch::Sender<Option<ActorRef<ShardMsg>>>,
    /// Whether this node leads it.
    pub(crate) leads: watch::Sender<bool>,
    pub(crate) alive_max: usize,
    pub(crate) alive_bytes_max: usize,
}

/// What the supervisor knows.
#[derive(Debug)]
pub(crate) struct Supervised<E: Environment> {
    shards: Vec<Arc<Shard<E>>>,
    by_actor: HashMap<ActorId, ShardId>,
}

impl<E: Environment> Actor for Supervisor<E> {
    type Msg = ();
    type State = Supervised<E>;
    type Arguments = Vec<Arc<Shard<E>>>;

    async fn pre_start(
        &self,
        myself: ActorRef<()>,
        shards: Vec<Arc<Shard<E>>>,
    ) -> Result<Supervised<E>, ActorProcessingErr> {
        let mut supervised = Supervised { shards: shards.clone(), by_actor: HashMap::new() };
        for shard in &shards {
            supervised.start(&myself, shard).await?;
        }
        Ok(supervised)
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<()>,
        event: SupervisionEvent,
        state: &mut Supervised<E>,
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(actor, error) = event
            && let Some(shard) = state.by_actor.remove(&actor.get_id())
        {
            tracing::error!(shard, %error, "INTERNAL: a shard failed inside and is started again");
            let shard = Arc::clone(&state.shards[usize::from(shard)]);
            shard.context.desk.resign(shard.context.shard);
            state.start(&myself, &shard).await?;
        }
        Ok(())
    }
}

impl<E: Environment> Supervised<E> {
    async fn start(&mut self, myself: &ActorRef<()>, shard: &Arc<Shard<E>>) -> Result<(), ActorProcessingErr> {
        let birth = ShardBirth {
            context: Arc::clone(&shard.context),
            leads: shard.leads.clone(),
            alive_max: shard.alive_max,
            alive_bytes_max: shard.alive_bytes_max,
        };
        let (actor, _) = Actor::spawn_linked(None, ShardActor::<E>::default(), birth, myself.get_cell()).await?;
        self.by_actor.insert(actor.get_id(), shard.context.shard);
        shard.actor.send_replace(Some(actor));
        Ok(())
    }
}
