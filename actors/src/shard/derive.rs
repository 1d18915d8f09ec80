//! What a new leader reads from the tables of its shard: whatever must happen stands there.

use std::ops::ControlFlow;
use std::sync::Arc;

use orbit_proto::engine::{HeldRow, ListRow, ReadyRow, Status};
use orbit_raft::Environment;
use orbit_raft::disk::KeyRange;
use orbit_raft::state_store::read::Reader;
use ractor::ActorRef;
use tokio::time::Instant;
use workflow::command::Token;
use workflow::event::Queue;
use workflow::state::Execution;

use super::sink::Sink;
use super::{Context, ShardMsg};
use crate::desk::{Held, Ready};
use crate::error::Result;
use crate::execution::What;
use crate::facet;
use crate::failure::of_storage;
use crate::rows::RunRows;
use crate::table;

/// How many tasks of one queue are read at a time.
const WINDOW: usize = 1_000;

/// Hands everything to whoever does it: hand-overs in flight and queues to the desk, time to the timers, batches that
/// were cut to their executions. Once per term.
pub(crate) fn derive<E: Environment>(context: &Arc<Context<E>>, shard: &ActorRef<ShardMsg>) -> Result<()> {
    let sink = Sink { shard: shard.clone(), context: Arc::clone(context), shards: context.shards };
    context.desk.lead(context.shard, Arc::new(sink));
    adopt(context)?;
    for queue in queues(context)? {
        refill(context, &queue)?;
    }
    context.timers.restart();
    proceed(context, shard)?;
    count(context)
}

fn adopt<E: Environment>(context: &Context<E>) -> Result<()> {
    let rows = context.group.read(|reader| reader.range(&table::all_held(), usize::MAX)).map_err(of_storage)?;
    let now_ms = context.group.now_ms();
    let mut held = Vec::with_capacity(rows.len());
    for (_, value) in rows {
        let row: HeldRow = table::decode("hand-overs", &value).map_err(of_storage)?;
        let token: Token = row.token.parse().map_err(of_storage)?;
        if let Some(limit_ms) = row.heartbeat_timeout_ms {
            context.silence.watch(&token, limit_ms, now_ms);
        }
        let stop = should_stop(context, &token, &row.unit).unwrap_or_else(|error| {
            // One that cannot be read must not keep the shard from the others.
            tracing::error!(execution = token.execution_id, %error, "an execution cannot be read");
            false
        });
        held.push(Held { token, worker_id: row.worker_id, session: row.worker_session, stop });
    }
    context.desk.adopt(context.shard, held, Instant::now());
    Ok(())
}

/// Whether something around the unit closes.
fn should_stop<E: Environment>(context: &Context<E>, token: &Token, unit: &str) -> Result<bool> {
    let rows = RunRows::shared(context.group.clone(), Arc::from(&*token.execution_id), token.run);
    let state = Execution::asleep(&rows).map_err(of_storage)?;
    let stop = state.is_some_and(|state| state.outermost_closing(unit).is_some());
    rows.failure().map_or(Ok(stop), |error| Err(of_storage(error)))
}

/// The queues in which something waits, found by leaping from one to the next.
fn queues<E: Environment>(context: &Context<E>) -> Result<Vec<Queue>> {
    let mut queues = Vec::new();
    let mut range = table::all_ready();
    loop {
        let first = context.group.read(|reader| reader.range(&range, 1)).map_err(of_storage)?;
        let Some((key, _)) = first.first() else { return Ok(queues) };
        let (queue, ..) = table::ready_parts(key).ok_or_else(|| of_storage("a key of the queues is damaged"))?;
        range.from = table::ready_in(&queue).to;
        queues.push(queue);
        if range.from >= range.to {
            return Ok(queues);
        }
    }
}

/// Reads the oldest tasks of a queue for the desk.
pub(crate) fn refill<E: Environment>(context: &Context<E>, queue: &Queue) -> Result<()> {
    let range = table::ready_in(queue);
    let rows = context.group.read(|reader| reader.range(&range, WINDOW + 1)).map_err(of_storage)?;
    let more = rows.len() > WINDOW;
    let mut window = Vec::with_capacity(rows.len());
    for (key, value) in rows.into_iter().take(WINDOW) {
        let row: ReadyRow = table::decode("queues", &value).map_err(of_storage)?;
        let parts = table::ready_parts(&key);
        let (queue, order, unit) = parts.ok_or_else(|| of_storage("a key of the queues is damaged"))?;
        window.push(Ready { queue, order, unit, attempt: row.attempt });
    }
    context.desk.refilled(context.shard, queue, window, more);
    Ok(())
}

fn proceed<E: Environment>(context: &Context<E>, shard: &ActorRef<ShardMsg>) -> Result<()> {
    let range: KeyRange = table::all_unfinished();
    let rows = context.group.read(|reader| reader.range(&range, usize::MAX)).map_err(of_storage)?;
    for id in rows.iter().filter_map(|(key, _)| table::unfinished_id(key)) {
        // A shard that is gone is told nothing.
        let _ = shard.cast(ShardMsg::ask(Arc::from(id), What::Proceed, None));
    }
    Ok(())
}

/// Executions that are not over. Those of an older release whose rows are still being made are counted from the list.
fn count<E: Environment>(context: &Context<E>) -> Result<()> {
    let alive = context.group.read(|reader| {
        if reader.get(&facet::complete()).map_err(of_storage)?.is_none() {
            return count_listed(reader);
        }
        let mut alive = 0;
        for status in [Status::Running, Status::Paused] {
            let scanned = reader.scan(&KeyRange::prefix(&facet::standings_of(status, None)), |_, _| {
                alive += 1;
                ControlFlow::Continue(())
            });
            scanned.map_err(of_storage)?;
        }
        Ok(alive)
    })?;
    context.recount(alive);
    Ok(())
}

fn count_listed(reader: &Reader<'_>) -> Result<u64> {
    let (mut alive, mut failed) = (0, None);
    let scanned = reader.scan(&table::whole_list(), |_, value| match table::decode::<ListRow>("list", value) {
        Ok(row) => {
            alive += u64::from(matches!(row.status(), Status::Running | Status::Paused));
            ControlFlow::Continue(())
        }
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    });
    scanned.map_err(of_storage)?;
    failed.map_or(Ok(alive), |error| Err(of_storage(error)))
}
