//! Checking the cluster while it works: each shard as of one entry of its log.
//!
//! ```text
//!   marks of the receivers ─▶ all replicas watch ─▶ a mark is proposed ─▶ own replica: walk ─▶ what only later
//!                                                                         all replicas: hash    looks can say
//! ```
//!
//! This node reads its own replica, which is as good as the leader's: the moment is behind an entry that was proposed
//! after the check began. Whether the replicas are alike, their hashes say. Nothing is read under a lock or on a thread
//! of the runtime, and there is a pause after each piece.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use orbit_proto::engine::NodeRecord;
use orbit_proto::node::{HashReplica, ReplicaAnswer, WatchReplica, answer, question};
use orbit_raft::state_store::{Mark, Moment};
use orbit_raft::{Environment, Group, NodeId};
use tokio::time::Instant;
use uuid::Uuid;

use super::replica::{self, MARK_WAIT, PAUSE};
use super::{Engine, Running, Shard, odd};
use crate::api::{CheckReport, ReplicaCheck, ShardCheck};
use crate::check::awaited::Awaited;
use crate::check::{At, Findings, Rule, Walk, post};
use crate::error::{Code, Error, Result};
use crate::failure::of_storage;
use crate::remote::cluster::Unanswered;
use crate::remote::members;
use crate::shard::shard_of;
use crate::table::Number;

/// How long another node may take to say that it watches.
const WATCH_WAIT: Duration = Duration::from_secs(2);
/// How long a replica that does not come nearer to the entry is waited for.
const BEHIND_WAIT: Duration = Duration::from_secs(5);
/// Between two looks at what comes about at last.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How long a message that has arrived may still lie in the outbox: the receiver has answered, and the sender has to
/// commit that it goes.
const LINGER_WAIT: Duration = Duration::from_secs(10);
/// Units that wait for other executions which are followed at a time.
const FOLLOWED: usize = 256;

/// Another node, and why its replica is not compared, if that is known.
struct Other {
    node: NodeId,
    name: String,
    not_compared: Option<String>,
}

/// A replica as far as it is known.
struct Seen {
    node: NodeId,
    name: String,
    hash: std::result::Result<u128, String>,
}

impl<E: Environment> Engine<E> {
    /// Checks all shards or one while the cluster works. One check at a time on a node.
    ///
    /// # Errors
    /// `NOT_FOUND` for a shard that there is not, `OVERLOADED` while another check runs, `NO_LEADER`, `STORAGE_ERROR`.
    pub async fn check_cluster(&self, shard: Option<u16>) -> Result<CheckReport> {
        let running = self.running()?;
        let busy = |_| Error::new(Code::Overloaded, "this node checks already; wait for it, or ask another one");
        let _alone = Arc::clone(&running.checking).try_lock_owned().map_err(busy)?;
        // At most as many shards as a u16 holds.
        let count = running.shards.len() as u16;
        if let Some(shard) = shard.filter(|shard| *shard >= count) {
            let message = format!("there is no shard {shard}; the shards are 0 to {}", count - 1);
            return Err(Error::new(Code::NotFound, message));
        }
        let meta = running.definitions.meta().clone();
        running.cluster.read_index(&meta, None).await?;
        let nodes = members::present(&members::nodes(&meta)?);
        // What is going away must not wait for this.
        drop((running, meta));
        let mut report = CheckReport::default();
        for number in shard.map_or(0..count, |shard| shard..shard + 1) {
            let checked = self.check_shard((number, count), &nodes).await?;
            report.findings_total += checked.findings_total;
            report.shards.push(checked);
        }
        Ok(report)
    }

    async fn check_shard(&self, shard: (u16, u16), nodes: &BTreeMap<NodeId, NodeRecord>) -> Result<ShardCheck> {
        let (number, _) = shard;
        let marks = self.marks_of(number).await?;
        let mark = Mark::new(Uuid::from_bytes((self.0.settings.dice.0)()));
        let (moment, others) = self.moment(number, &mark, nodes).await?;
        let mut walk = Walk::new(shard).with_marks(marks);
        while self.piece(&moment, &mut walk).await? {
            tokio::time::sleep(PAUSE).await;
        }
        let index = moment.at().index;
        let (rows, hash) = replica::hash(&moment).await?;
        drop(moment);
        self.look_at_post(number, &mut walk).await?;
        let me = self.identity().node;
        let name = nodes.get(&me).map_or_else(String::new, |record| record.name.clone());
        let mut seen = vec![Seen { node: me, name, hash: Ok(hash) }];
        for other in others {
            let group = self.shard_at(number)?.context.group.id().get();
            seen.push(self.seen(other, (group, &mark), index).await?);
        }
        seen.sort_by_key(|one| one.node);
        compare(&seen, &mut walk.findings);
        let replica = |one: Seen| ReplicaCheck {
            node: one.node.0,
            name: one.name,
            hash: one.hash.as_ref().ok().map(|hash| format!("{hash:032x}")),
            not_compared: one.hash.err(),
        };
        let Walk { findings, executions, runs, events, .. } = walk;
        Ok(ShardCheck {
            shard: number,
            node: me.0,
            index,
            executions,
            runs,
            events,
            rows,
            findings: findings.listed,
            findings_total: findings.total,
            replicas: seen.into_iter().map(replica).collect(),
        })
    }

    fn shard_at(&self, number: u16) -> Result<Arc<Shard<E>>> {
        Ok(Arc::clone(&self.running()?.shards[usize::from(number)]))
    }

    /// A shard whose replica here has all that was acknowledged before.
    async fn current(&self, number: u16) -> Result<Group<E>> {
        let (cluster, group) = {
            let running = self.running()?;
            (running.cluster.clone(), running.shards[usize::from(number)].context.group.clone())
        };
        cluster.read_index(&group, None).await?;
        Ok(group)
    }

    /// What the slots of all shards have received from one.
    async fn marks_of(&self, source: u16) -> Result<BTreeMap<u16, Number>> {
        let (count, mut marks) = (self.running()?.shards.len() as u16, BTreeMap::new());
        for number in 0..count {
            let group = self.current(number).await?;
            group.read(|reader| post::marks_of(reader, source, &mut marks))?;
        }
        Ok(marks)
    }

    /// Has the replicas watch for a mark and proposes it; the own replica behind it.
    async fn moment(
        &self,
        number: u16,
        mark: &Mark,
        nodes: &BTreeMap<NodeId, NodeRecord>,
    ) -> Result<(Moment<E::StateDisk>, Vec<Other>)> {
        let running = self.running()?;
        let group = &running.shards[usize::from(number)].context.group;
        let watched = group.watch(mark).map_err(|error| Error::new(Code::Overloaded, error.to_string()))?;
        let others = nodes.iter().filter(|(node, _)| **node != running.cluster.me);
        let others = join_all(others.map(|(node, record)| watch(&running, *node, record, group, mark))).await;
        match running.cluster.propose(group, "", vec![mark.part()]).await {
            // It may come all the same, and then it is as good.
            Err(error) if error.code != Code::OutcomeUnknown => return Err(error),
            _ => {}
        }
        drop(running);
        let moment = tokio::time::timeout(MARK_WAIT, watched.taken()).await;
        let behind = |_| Error::new(Code::NoLeader, "this node does not come to the entry to check; ask another one");
        Ok((moment.map_err(behind)?.ok_or_else(|| of_storage("the replica cannot be held"))?, others))
    }

    /// A piece of the walk, and what it led to at other shards. Returns whether there is more.
    async fn piece(&self, moment: &Moment<E::StateDisk>, walk: &mut Walk) -> Result<bool> {
        let definitions = self.running()?.definitions.clone();
        let mut so_far = std::mem::replace(walk, Walk::new((0, 1)));
        let (so_far, more) = moment
            .read(move |reader| {
                let more = so_far.piece(reader, &definitions);
                (so_far, more)
            })
            .await
            .map_err(of_storage)?;
        *walk = so_far;
        let more = more?;
        let awaited = std::mem::take(&mut walk.awaited);
        for some in awaited.chunks(FOLLOWED) {
            self.follow(some, &mut walk.findings).await?;
        }
        Ok(more)
    }

    /// Follows units that wait to those that they wait for: see [`crate::check::awaited`].
    async fn follow(&self, awaited: &[Awaited], findings: &mut Findings) -> Result<()> {
        let count = self.running()?.shards.len() as u16;
        let mut by_shard: BTreeMap<u16, Vec<&Awaited>> = BTreeMap::new();
        for one in awaited {
            by_shard.entry(shard_of(&one.other, count)).or_default().push(one);
        }
        for (number, mut suspects) in by_shard {
            let group = self.current(number).await?;
            group.read(|reader| retain(&mut suspects, |one| Ok(!one.is_known_there(reader)?)))?;
            for one in suspects {
                let group = self.current(shard_of(&one.id, count)).await?;
                if group.read(|reader| one.still_waits(reader))? {
                    let found = format!("attempt {} waits for {}, which knows nothing of it", one.attempt, one.other);
                    let expected = "a child that runs, or an answer on its way";
                    findings.add(Rule::Awaited, At::run(&one.id, one.run), &one.unit, found, expected);
                }
            }
        }
        Ok(())
    }

    /// What of outbox and inbox only later looks can say: see [`crate::check::post`].
    async fn look_at_post(&self, number: u16, walk: &mut Walk) -> Result<()> {
        for (source, (mark, slot)) in std::mem::take(&mut walk.post.received) {
            let group = self.current(source).await?;
            let applied = group.read(|reader| reader.applied()).map_err(of_storage)?;
            let applied = applied.map_or(0, |applied| applied.log_id.index);
            let received = post::index_of(&mark);
            if received > applied {
                let found = format!("a message that entry {received} of shard {source} numbered has come");
                let expected = format!("at most entry {applied}, the last one there");
                walk.findings.add(Rule::Inbox, At::SHARD, format!("mark of slot {slot}"), found, expected);
            }
        }
        let mut lingering = std::mem::take(&mut walk.post.lingering);
        let until = Instant::now() + LINGER_WAIT;
        loop {
            let group = self.current(number).await?;
            group.read(|reader| retain(&mut lingering, |key| Ok(reader.get(key).map_err(of_storage)?.is_some())))?;
            if lingering.is_empty() || Instant::now() >= until {
                break;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        for key in lingering {
            let place = format!("outbox {}", key.escape_ascii());
            let expected = "no row: its receiver has noted this message, or a later one, as received";
            walk.findings.add(Rule::Outbox, At::SHARD, place, "a message that does not go", expected);
        }
        Ok(())
    }

    /// Asks another node for the hash of its replica until it has it, or does not come to it.
    async fn seen(&self, other: Other, (group, mark): (u16, &Mark), index: u64) -> Result<Seen> {
        let Other { node, name, not_compared } = other;
        if let Some(why) = not_compared {
            return Ok(Seen { node, name, hash: Err(why) });
        }
        let (mut last, mut patience) = (0, Instant::now() + BEHIND_WAIT);
        let hash = loop {
            let cluster = self.running()?.cluster.clone();
            let question = HashReplica { group: u32::from(group), mark: mark.to_bytes() };
            let ask = cluster.ask(node, question::What::HashReplica(question));
            let answered = match tokio::time::timeout(WATCH_WAIT, ask).await {
                Ok(answered) => answered.map_err(|error| why(&error)).and_then(replica),
                Err(_) => Err("it does not answer".to_owned()),
            };
            match answered {
                Ok(ReplicaAnswer { hash: Some(hash), index: Some(at), .. }) if at == index => {
                    break hash.as_ref().try_into().map(u128::from_be_bytes).map_err(|_| "it gave no hash".to_owned());
                }
                Ok(ReplicaAnswer { hash: Some(_), index, .. }) => {
                    break Err(format!("it was held at index {}", index.unwrap_or_default()));
                }
                // It is hashed, and comes to its end.
                Ok(ReplicaAnswer { index: Some(_), .. }) => patience = Instant::now() + BEHIND_WAIT,
                Ok(ReplicaAnswer { applied, .. }) if applied > last => {
                    (last, patience) = (applied, Instant::now() + BEHIND_WAIT);
                }
                Ok(_) if Instant::now() >= patience => break Err(format!("it is at index {last}")),
                Err(why) if Instant::now() >= patience => break Err(why),
                _ => {}
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        };
        Ok(Seen { node, name, hash })
    }
}

/// Asks another node to watch for a mark.
async fn watch<E: Environment>(
    running: &Running<E>,
    node: NodeId,
    record: &NodeRecord,
    group: &Group<E>,
    mark: &Mark,
) -> Other {
    let question = WatchReplica { group: u32::from(group.id().get()), mark: mark.to_bytes() };
    let ask = running.cluster.ask(node, question::What::WatchReplica(question));
    let not_compared = match tokio::time::timeout(WATCH_WAIT, ask).await {
        Ok(Ok(_)) => None,
        Ok(Err(error)) => Some(why(&error)),
        Err(_) => Some("it does not answer".to_owned()),
    };
    Other { node, name: record.name.clone(), not_compared }
}

fn why(error: &Unanswered) -> String {
    match error {
        Unanswered::Fault(error) if error.code == Code::InvalidRequest => "it is of an older release".to_owned(),
        Unanswered::Fault(error) => error.message.clone(),
        Unanswered::NotAsked | Unanswered::Unknown => "it does not answer".to_owned(),
    }
}

fn replica(answer: answer::What) -> std::result::Result<ReplicaAnswer, String> {
    match answer {
        answer::What::Replica(replica) => Ok(replica),
        _ => Err(odd().message),
    }
}

/// Whoever has another hash than most is told; where as many have each, all of them are.
fn compare(seen: &[Seen], findings: &mut Findings) {
    let mut holders: BTreeMap<u128, usize> = BTreeMap::new();
    for hash in seen.iter().filter_map(|one| one.hash.as_ref().ok()) {
        *holders.entry(*hash).or_default() += 1;
    }
    let most = holders.values().copied().max().unwrap_or_default();
    let mut common = holders.iter().filter(|(_, count)| **count == most);
    let right = common.next().map(|(hash, _)| *hash).filter(|_| common.next().is_none());
    for one in seen {
        let Ok(hash) = one.hash else { continue };
        if holders.len() > 1 && right != Some(hash) {
            let place = format!("node {} ({})", one.node, one.name);
            let expected = right.map(|hash| format!("hash {hash:032x}, as most replicas have at this entry"));
            let expected = expected.unwrap_or_else(|| "the same hash on all replicas at this entry".to_owned());
            findings.add(Rule::Replicas, At::SHARD, place, format!("hash {hash:032x}"), expected);
        }
    }
}

fn retain<T>(all: &mut Vec<T>, mut keep: impl FnMut(&T) -> Result<bool>) -> Result<()> {
    let mut kept = Vec::with_capacity(all.len());
    for one in all.drain(..) {
        if keep(&one)? {
            kept.push(one);
        }
    }
    *all = kept;
    Ok(())
}
