//! Waiting until something happens to an execution. Only the leader of its shard knows at once, so it is asked to
//! answer when it does; what it is, whoever waits reads from the own replica.

use std::sync::Arc;
use std::time::Duration;

use orbit_proto::node::{self, question};
use orbit_proto::store;
use orbit_raft::{Environment, Group};
use tokio::time::Instant;
use workflow::state::RunStatus;

use super::{Engine, Shard};
use crate::error::{Code, Result};
use crate::failure::{not_led, of_storage};
use crate::read;
use crate::remote::cluster::Unanswered;

/// Where the histories of an execution stand.
pub(super) type Position = Option<store::Position>;

/// Longest that one question waits at another node.
const AT_ANOTHER_MAX: Duration = Duration::from_secs(30);

/// What is waited for.
#[derive(Clone, Debug)]
pub(super) enum Wanted {
    /// The execution is over.
    End,
    /// Its histories stand elsewhere.
    Change(Position),
}

impl<E: Environment> Engine<E> {
    /// Waits until it has happened, or the time is over, or the shard is led by another node. Whoever waits looks
    /// again.
    pub(super) async fn happened(
        &self,
        shard: &Arc<Shard<E>>,
        id: &Arc<str>,
        wanted: Wanted,
        until: Instant,
    ) -> Result<()> {
        if *shard.leads.borrow() {
            return happened_here(shard, id, &wanted, until).await;
        }
        let running = self.running()?;
        let group = &shard.context.group;
        let Some(leader) = running.cluster.leader(group) else {
            return running.cluster.another_leader(group, until).await;
        };
        let until = until.min(Instant::now() + AT_ANOTHER_MAX);
        let left = until.saturating_duration_since(Instant::now());
        let question = node::Await {
            execution_id: id.to_string(),
            seen: match wanted {
                Wanted::End => None,
                Wanted::Change(position) => Some(position.map_or_else(node::Position::default, |position| {
                    node::Position { run: position.run, seq: position.seq }
                })),
            },
            timeout_ms: super::millis(left),
        };
        let asked = running.cluster.ask_leader(group, leader, question::What::Await(question));
        match tokio::time::timeout_at(until, asked).await {
            Ok(Ok(_)) | Err(_) => Ok(()),
            Ok(Err(Unanswered::Fault(error))) if error.code != Code::NoLeader => Err(error),
            // Another may lead by now.
            Ok(Err(_)) => running.cluster.another_leader(group, until).await,
        }
    }
}

/// On the node that leads.
pub(super) async fn happened_here<E: Environment>(
    shard: &Shard<E>,
    id: &Arc<str>,
    wanted: &Wanted,
    until: Instant,
) -> Result<()> {
    let context = &shard.context;
    let waiters = if matches!(wanted, Wanted::End) { &context.waiters } else { &context.changes };
    let mut waiter = waiters.wait(id);
    // What happens from here on wakes; what has happened before is seen now.
    let has_happened = match wanted {
        Wanted::End => is_over(&context.group, id)?,
        Wanted::Change(seen) => position(&context.group, id)? != *seen,
    };
    if !has_happened && *shard.leads.borrow() {
        let _ = tokio::time::timeout_at(until, waiter.woken()).await;
    }
    Ok(())
}

/// Where its histories stand here.
pub(super) fn position<E: Environment>(group: &Group<E>, id: &str) -> Result<Position> {
    group.read(|reader| reader.position(id.as_bytes())).map_err(of_storage)
}

/// Whether an execution is over, as far as this node's replica knows. Only the head is read.
///
/// # Errors
/// `NOT_FOUND`.
pub(super) fn is_over<E: Environment>(group: &Group<E>, id: &str) -> Result<bool> {
    let status = read::load(group, id, None, None)?.state.head.status;
    Ok(!matches!(status, RunStatus::Running | RunStatus::Continued))
}

/// The question of another node.
pub(super) async fn answer_when<E: Environment>(shard: &Shard<E>, question: node::Await) -> Result<()> {
    if !*shard.leads.borrow() {
        return Err(not_led());
    }
    let wanted = match question.seen {
        None => Wanted::End,
        Some(node::Position { run: 0, .. }) => Wanted::Change(None),
        Some(node::Position { run, seq }) => Wanted::Change(Some(store::Position { run, seq })),
    };
    let wait = Duration::from_millis(question.timeout_ms).min(AT_ANOTHER_MAX);
    happened_here(shard, &Arc::from(question.execution_id), &wanted, Instant::now() + wait).await
}
