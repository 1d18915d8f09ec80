//! Looks at the disk and the clock of this node, tells the others, hears how they are, and says what changed.

use std::sync::Weak;
use std::time::Duration;

use futures::future::join_all;
use orbit_proto::node::{self, StandingAnswer, answer, question};
use orbit_raft::clock::JUMP_MAX;
use orbit_raft::{Environment, NodeId, PeerClocks};
use tokio::time::Instant;

use super::{Engine, Inner, Running};
use crate::condition::{Condition, Conditions};
use crate::disk::{DiskLevel, DiskProbe};

/// How often all of it is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// A node that does not answer within this is asked again at the next look.
const ANSWER_WAIT: Duration = Duration::from_millis(500);

/// Looks for ever; dropped with the node.
pub(super) async fn run<E: Environment>(engine: Weak<Inner<E>>, disk: DiskProbe, clocks: PeerClocks) {
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(engine) = engine.upgrade().map(Engine) else { return };
        let Ok(running) = engine.running() else { return };
        drop(engine);
        let conditions = &running.cluster.conditions;
        tokio::join!(measure(&disk, conditions), hear(&running));
        compare(&clocks, &running);
        judge(&running);
    }
}

/// Looks at the own disk.
pub(super) async fn measure(disk: &DiskProbe, conditions: &Conditions) {
    let probe = disk.0.clone();
    // A file system that hangs must not hold up a thread that others need.
    let space = match tokio::task::spawn_blocking(move || probe()).await {
        Ok(Ok(space)) => space,
        Ok(Err(error)) => return tracing::warn!(%error, "how full the disk is cannot be found out"),
        Err(_) => return,
    };
    let (before, now) = conditions.disk(space, Instant::now());
    let used_percent = (space.used_ratio() * 1000.0).round() / 10.0;
    let available_mib = space.available_bytes >> 20;
    match now {
        _ if now == before => {}
        DiskLevel::Ok => tracing::info!(used_percent, available_mib, "the disk has room again"),
        DiskLevel::Warning if before > now => {
            tracing::info!(used_percent, available_mib, "the disk has room again for starts and leaderships");
        }
        DiskLevel::Warning => tracing::warn!(used_percent, available_mib, "the disk fills up; make room"),
        DiskLevel::Full if before > now => {
            tracing::warn!(used_percent, available_mib, "the disk has some room again, and none for starts");
        }
        DiskLevel::Full => tracing::warn!(
            used_percent,
            available_mib,
            "the disk is full: this node begins no executions and gives its leaderships away; make room"
        ),
        DiskLevel::Critical => tracing::error!(
            used_percent,
            available_mib,
            "the disk is nearly used up: shards are read-only once a quorum of their nodes is like this; make room"
        ),
    }
}

/// Hears how the others are.
async fn hear<E: Environment>(running: &Running<E>) {
    let me = running.cluster.me;
    let others = running.definitions.meta().members().into_keys().filter(|node| *node != me);
    let asked = others.map(|node| async move {
        let asked = running.cluster.ask(node, question::What::Standing(node::Standing::default()));
        if let Ok(Ok(answer::What::Standing(standing))) = tokio::time::timeout(ANSWER_WAIT, asked).await {
            running.cluster.conditions.heard(node, told(&standing), Instant::now());
        }
    });
    join_all(asked).await;
}

/// Compares the own clock with those of the others.
fn compare<E: Environment>(clocks: &PeerClocks, running: &Running<E>) {
    let peers = running.definitions.meta().members().len().saturating_sub(1);
    let ahead_us = clocks.judge(peers).ahead_us();
    let (before, now) = running.cluster.conditions.clock(ahead_us);
    let (ahead_ms, limit_ms) = (ahead_us.unwrap_or(0) / 1000, JUMP_MAX.as_millis() as u64);
    match (before, now) {
        (false, true) => tracing::warn!(
            ahead_ms,
            limit_ms,
            "the clock of this node is off the median of the nodes: it gives its leaderships away; set the clock"
        ),
        (true, false) => tracing::info!(ahead_ms, "the clock of this node agrees with those of the others again"),
        _ => {}
    }
}

/// What follows for the shards.
fn judge<E: Environment>(running: &Running<E>) {
    for shard in &running.shards {
        let voters = shard.context.group.status().voters;
        let read_only = running.cluster.conditions.is_read_only(&voters, Instant::now());
        let shard = &shard.context;
        if shard.set_read_only(read_only) {
            match read_only {
                true => tracing::error!(
                    shard = shard.shard,
                    "the shard is read-only: the disks of a quorum of its nodes are nearly used up; make room there"
                ),
                false => tracing::info!(shard = shard.shard, "the shard takes writes again"),
            }
        }
    }
}

/// How this node is, as others hear it.
pub(super) fn tell(own: &Condition, standing: StandingAnswer) -> StandingAnswer {
    StandingAnswer {
        draining: own.draining,
        disk_level: own.disk as u32,
        disk_used_ratio: own.disk_used_ratio,
        disk_available_bytes: own.disk_available_bytes,
        clock_ahead_us: own.clock_ahead_us,
        clock_off: own.clock_off,
        ..standing
    }
}

/// How another node is, as it tells.
pub(super) fn told(standing: &StandingAnswer) -> Condition {
    Condition {
        disk: DiskLevel::of_number(standing.disk_level),
        disk_used_ratio: standing.disk_used_ratio,
        disk_available_bytes: standing.disk_available_bytes,
        clock_ahead_us: standing.clock_ahead_us,
        clock_off: standing.clock_off,
        draining: standing.draining,
    }
}

impl<E: Environment> Running<E> {
    /// How a node is, as far as this one knows.
    pub(super) fn condition(&self, node: NodeId) -> Option<Condition> {
        self.cluster.conditions.of(node, Instant::now())
    }
}
