//! One shard: an actor that follows the leadership of its group and, while it leads, sends each ask to its execution.
//!
//! Executions are its children. It wakes them when something comes in, lets them sleep when nothing does, and drops
//! them all when it no longer leads. One that fails is stopped alone: the shard and the others go on.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use orbit_raft::{Environment, Leadership, Term};
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::task::JoinHandle;
use workflow::event::Queue;

mod alive;
mod broken;
mod context;
mod derive;
pub(crate) mod read_only;
mod silence;
mod sink;
mod timers;
mod waiters;

pub use context::Dice;
pub(crate) use context::{Context, ContextLimits};

use crate::desk::ShardId;
use crate::error::{Code, Error};
use crate::execution::{Ask, Birth, ExecutionActor, Msg, What};
use crate::failure::not_led;
use alive::Alive;

/// How often executions that rest are looked at.
const SWEEP: Duration = Duration::from_secs(1);
/// How long a new leader waits for definitions that it may lack.
const CURRENT_WAIT: Duration = Duration::from_millis(300);
/// How many asks may wait for one execution; beyond, what may be refused is.
const WAITING_MAX: u64 = 1_000;

/// What a shard is told.
#[derive(Debug)]
pub(crate) enum ShardMsg {
    /// Something for an execution.
    Ask { id: Arc<str>, ask: Ask },
    /// Whether this node leads.
    Leadership(Leadership),
    /// An execution has nothing to do.
    Rest { id: Arc<str>, handled: u64, bytes: usize, sleepy: bool },
    /// The desk has used up what it knows of a queue.
    Refill(Queue),
    /// Time to look at what rests.
    Sweep,
}

impl ShardMsg {
    pub(crate) fn ask(id: Arc<str>, what: What, permit: Option<OwnedSemaphorePermit>) -> Self {
        Self::Ask { id, ask: Ask { what, permit } }
    }
}

/// The actor.
#[derive(Debug)]
pub(crate) struct ShardActor<E>(PhantomData<fn() -> E>);

impl<E> Default for ShardActor<E> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

/// What it begins with.
#[derive(Debug)]
pub(crate) struct ShardBirth<E: Environment> {
    pub(crate) context: Arc<Context<E>>,
    /// Told when it has begun to lead, and when it no longer does.
    pub(crate) leads: watch::Sender<bool>,
    pub(crate) alive_max: usize,
    pub(crate) alive_bytes_max: usize,
}

/// What it knows.
#[derive(Debug)]
pub(crate) struct ShardState<E: Environment> {
    context: Arc<Context<E>>,
    leads: watch::Sender<bool>,
    leading: Option<Leading>,
    alive_max: usize,
    alive_bytes_max: usize,
    watcher: JoinHandle<()>,
}

/// What it knows while it leads.
#[derive(Debug)]
struct Leading {
    term: Term,
    alive: Alive,
    timers: JoinHandle<()>,
}

impl Drop for Leading {
    fn drop(&mut self) {
        self.timers.abort();
    }
}

impl<E: Environment> Drop for ShardState<E> {
    fn drop(&mut self) {
        self.watcher.abort();
    }
}

impl<E: Environment> Actor for ShardActor<E> {
    type Msg = ShardMsg;
    type State = ShardState<E>;
    type Arguments = ShardBirth<E>;

    async fn pre_start(
        &self,
        myself: ActorRef<ShardMsg>,
        birth: ShardBirth<E>,
    ) -> Result<ShardState<E>, ActorProcessingErr> {
        let ShardBirth { context, leads, alive_max, alive_bytes_max } = birth;
        let (mut leadership, prepared) = (context.group.leadership(), Arc::clone(&context));
        let shard = myself.clone();
        let watcher = tokio::spawn(async move {
            loop {
                let now = *leadership.borrow_and_update();
                if matches!(now, Leadership::Leader { .. }) {
                    prepare(&prepared).await;
                }
                if shard.cast(ShardMsg::Leadership(now)).is_err() || leadership.changed().await.is_err() {
                    return;
                }
            }
        });
        myself.send_interval(SWEEP, || ShardMsg::Sweep);
        Ok(ShardState { context, leads, leading: None, alive_max, alive_bytes_max, watcher })
    }

    async fn handle(
        &self,
        myself: ActorRef<ShardMsg>,
        msg: ShardMsg,
        state: &mut ShardState<E>,
    ) -> Result<(), ActorProcessingErr> {
        match msg {
            ShardMsg::Ask { id, ask } => state.ask(&myself, id, ask).await?,
            ShardMsg::Leadership(Leadership::Leader { term }) => state.lead(&myself, term),
            ShardMsg::Leadership(_) => state.resign(),
            ShardMsg::Rest { id, handled, bytes, sleepy } => state.rests(&id, handled, bytes, sleepy),
            ShardMsg::Refill(queue) => state.refill(&queue),
            ShardMsg::Sweep => state.sweep(),
        }
        state.context.set_awake(state.leading.as_ref().map_or(0, |leading| leading.alive.len()));
        Ok(())
    }

    async fn post_stop(&self, _: ActorRef<ShardMsg>, state: &mut ShardState<E>) -> Result<(), ActorProcessingErr> {
        state.resign();
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<ShardMsg>,
        event: SupervisionEvent,
        state: &mut ShardState<E>,
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(actor, error) = event {
            state.failed(&actor.get_id(), &error.to_string());
        }
        Ok(())
    }
}

/// What a new leader hears of other nodes before it decides: definitions that were registered there, and what the
/// sessions that are connected there hold. A node that does not answer holds nobody up.
async fn prepare<E: Environment>(context: &Context<E>) {
    let current = tokio::time::timeout(CURRENT_WAIT, context.definitions.be_current());
    let (current, ()) = tokio::join!(current, context.crew.gather());
    if !matches!(current, Ok(Ok(()))) {
        tracing::debug!(shard = context.shard, "this node may not know all definitions yet");
    }
}

impl<E: Environment> ShardState<E> {
    async fn ask(&mut self, myself: &ActorRef<ShardMsg>, id: Arc<str>, ask: Ask) -> Result<(), ActorProcessingErr> {
        let Some(leading) = self.leading.as_mut() else {
            ask.what.refuse(not_led());
            return Ok(());
        };
        let (id, ask) = match self.context.is_read_only() {
            true => match read_only::deal(&self.context, myself, id, ask) {
                Some(taken) => taken,
                None => return Ok(()),
            },
            false => (id, ask),
        };
        if let Some(message) = self.context.broken.message(&id) {
            if let What::Offer(ready, _) = &ask.what {
                // Others get the slot; this task is not offered again while it waits in memory.
                self.context.desk.withdraw(self.context.shard, &ready.queue, &ready.order, &ready.unit);
            }
            ask.what.refuse(Error::new(Code::Internal, message));
            return Ok(());
        }
        if ask.what.may_be_refused() && leading.alive.waiting(&id) >= WAITING_MAX {
            ask.what.refuse(Error::new(Code::Overloaded, "too much waits for this execution; repeat the call later"));
            return Ok(());
        }
        if !leading.alive.contains(&id) {
            let birth = Birth {
                context: Arc::clone(&self.context),
                shard: myself.clone(),
                term: leading.term,
                id: Arc::clone(&id),
            };
            let (actor, _) =
                Actor::spawn_linked(None, ExecutionActor::<E>::default(), birth, myself.get_cell()).await?;
            leading.alive.insert(Arc::clone(&id), actor);
        }
        leading.alive.send(&id, Msg::Ask(ask));
        Ok(())
    }

    fn lead(&mut self, myself: &ActorRef<ShardMsg>, term: Term) {
        if self.leading.as_ref().is_some_and(|leading| leading.term == term) {
            return;
        }
        self.resign();
        let timers = tokio::spawn(timers::run(Arc::clone(&self.context), myself.clone()));
        self.leading = Some(Leading { term, alive: Alive::default(), timers });
        tracing::info!(shard = self.context.shard, %term, "this node leads the shard");
        self.derive(myself);
        self.leads.send_replace(true);
    }

    /// Everything that a leader before would have done.
    fn derive(&self, myself: &ActorRef<ShardMsg>) {
        if let Err(error) = derive::derive(&self.context, myself) {
            tracing::error!(shard = self.context.shard, %error, "what a leader owes cannot be read");
        }
    }

    fn resign(&mut self) {
        self.leads.send_replace(false);
        let Some(mut leading) = self.leading.take() else { return };
        leading.alive.stop_all();
        self.context.desk.resign(self.context.shard);
        self.context.silence.clear();
        self.context.broken.clear();
        // They are the next leader's: who adds up what the nodes say counts none twice.
        self.context.recount(0);
        self.context.waiters.wake_all();
        self.context.changes.wake_all();
        tracing::info!(shard = self.context.shard, "this node no longer leads the shard");
    }

    fn refill(&self, queue: &Queue) {
        if self.leading.is_none() {
            return;
        }
        if let Err(error) = derive::refill(&self.context, queue) {
            tracing::error!(shard = self.context.shard, %error, "a queue cannot be read");
        }
    }

    fn rests(&mut self, id: &Arc<str>, handled: u64, bytes: usize, sleepy: bool) {
        if let Some(leading) = self.leading.as_mut() {
            leading.alive.rests(id, handled, bytes, sleepy);
            leading.alive.shrink(self.alive_max, self.alive_bytes_max);
        }
    }

    fn sweep(&mut self) {
        if let Some(leading) = self.leading.as_mut() {
            leading.alive.sweep();
        }
    }

    fn failed(&mut self, actor: &ractor::ActorId, error: &str) {
        let Some(leading) = self.leading.as_mut() else { return };
        let Some(id) = leading.alive.remove_failed(actor) else { return };
        tracing::error!(execution = %id, error, "INTERNAL: an execution failed inside and is stopped");
        self.context.broken.insert(id, error.to_owned());
    }
}

/// The shard of an id among so many.
pub(crate) fn shard_of(id: &str, shards: u16) -> ShardId {
    let slot = u32::from(orbit_raft::state_store::key::slot_of(id.as_bytes()));
    let slots = u32::from(orbit_raft::state_store::key::SLOTS);
    // Below the number of shards, so it fits.
    (slot * u32::from(shards) / slots) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shard_gets_its_part() {
        for shards in [1_u16, 4, 16, 64] {
            let mut counts = vec![0_u32; usize::from(shards)];
            for n in 0..20_000 {
                counts[usize::from(shard_of(&format!("order-{n}"), shards))] += 1;
            }
            let even = 20_000 / u32::from(shards);
            assert!(counts.iter().all(|count| *count > even / 2 && *count < even * 2), "{counts:?}");
        }
    }
}
