//! Brings the members of each group to what the rows of the cluster say, and its leadership to where it belongs. Done
//! by whoever leads the group, a step at a time; what was begun and not finished is seen and goes on.
//!
//! ```text
//!   a node has a number ─▶ learns ─▶ has caught up ─▶ votes, if it should           one change at a time
//!   a node has left     ─▶ votes no more ─▶ is a member no more
//! ```
//!
//! A node that is not well ([`Condition`](crate::condition::Condition)) offers what it leads to voters that are, and
//! does not stand for election as long as one of them can.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use orbit_proto::node::{self, answer, question};
use orbit_raft::group::GroupStatus;
use orbit_raft::{Environment, Group, Leadership, MembershipError, NodeId, PeerAddress};
use tokio::time::Instant;

use super::{Engine, Inner, Running, lookout};
use crate::error::Result;
use crate::remote::members::{self, preferred};

/// How often a group is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// A member that lags by fewer entries has caught up.
const CAUGHT_UP: u64 = 100;
/// How long a node leads before it gives a leadership back to where it belongs.
const SETTLED: Duration = Duration::from_secs(3);
/// After an offer that was not taken up the next one waits.
const OFFER_AGAIN: Duration = Duration::from_secs(5);
/// … and after one of a node that is not well.
const OFFER_AWAY_AGAIN: Duration = Duration::from_secs(1);
/// After so long without a leader a node stands for election though it is not well: it may be the only one that can,
/// because the others lack entries that it has.
const MISSED_FOR: Duration = Duration::from_secs(3);
/// A change of the members is waited for so long.
const CHANGE_WAIT: Duration = Duration::from_secs(5);
/// A node that does not answer within this is not offered anything.
const ANSWER_WAIT: Duration = Duration::from_millis(500);

/// Looks after a group for ever; dropped with the node.
pub(super) async fn run<E: Environment>(engine: Weak<Inner<E>>, group: Group<E>) {
    let mut steward = Steward { group, leads_since: None, offer_at: Instant::now(), missed_since: None, offers: 0 };
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(engine) = engine.upgrade().map(Engine) else { return };
        let Ok(running) = engine.running() else { return };
        if let Err(error) = steward.look(&running).await {
            let group = steward.group.id();
            tracing::warn!(%group, %error, "the members of a group are not changed yet; trying again");
        }
    }
}

struct Steward<E: Environment> {
    group: Group<E>,
    leads_since: Option<Instant>,
    offer_at: Instant,
    /// Since when no leader is known that lives.
    missed_since: Option<Instant>,
    /// How often it was offered away.
    offers: usize,
}

impl<E: Environment> Steward<E> {
    async fn look(&mut self, running: &Arc<Running<E>>) -> Result<()> {
        let stands = self.stands_for_election(running);
        self.group.stand_for_election(stands);
        if !matches!(*self.group.leadership().borrow(), Leadership::Leader { .. }) {
            self.leads_since = None;
            return Ok(());
        }
        let since = *self.leads_since.get_or_insert_with(Instant::now);
        if !running.cluster.conditions.own().is_well() && Instant::now() >= self.offer_at {
            self.offer_away(running).await;
        }
        let nodes = members::nodes(running.definitions.meta())?;
        let present = members::present(&nodes);
        if present.is_empty() {
            return Ok(());
        }
        let (status, known) = (self.group.status(), self.group.members());
        for (node, record) in &present {
            if !known.contains_key(node) {
                tracing::info!(group = %self.group.id(), %node, name = record.name, "a node begins to learn a group");
                return self.done(self.group.add_learner(*node, PeerAddress(record.address.clone()))).await;
            }
        }
        let moved = present.iter().map(|(node, record)| (*node, PeerAddress(record.address.clone())));
        let moved: BTreeMap<_, _> = moved.filter(|(node, address)| known.get(node) != Some(address)).collect();
        if !moved.is_empty() {
            tracing::info!(group = %self.group.id(), ?moved, "nodes of a group are reached elsewhere");
            return self.done(self.group.set_addresses(moved)).await;
        }
        let wanted = members::voters(self.group.id().get(), &present);
        if let Some(next) = next_voters(&status, &wanted) {
            return self.change_voters(running, next).await;
        }
        let gone: BTreeSet<_> = status.learners.iter().filter(|node| !present.contains_key(node)).copied().collect();
        if !gone.is_empty() {
            return self.done(self.group.remove_learners(gone)).await;
        }
        if since.elapsed() >= SETTLED && Instant::now() >= self.offer_at {
            self.give_back(running, &status).await;
        }
        Ok(())
    }

    fn stands_for_election(&mut self, running: &Running<E>) -> bool {
        let (conditions, status, now) = (&running.cluster.conditions, self.group.status(), Instant::now());
        let lives = |leader| leader == running.cluster.me || conditions.of(leader, now).is_some();
        self.missed_since = match status.leader.is_some_and(lives) {
            true => None,
            false => Some(self.missed_since.unwrap_or(now)),
        };
        let missed = self.missed_since.is_some_and(|since| now.saturating_duration_since(since) >= MISSED_FOR);
        conditions.own().is_well() || missed || conditions.well_others(&status.voters, now).is_empty()
    }

    /// Offers the leadership to voters that are well, one after the other.
    async fn offer_away(&mut self, running: &Running<E>) {
        let status = self.group.status();
        let mut well = running.cluster.conditions.well_others(&status.voters, Instant::now());
        well.retain(|node| has_caught_up(&status, *node));
        let turn = usize::from(self.group.id().get()) + self.offers;
        let Some(to) = well.iter().nth(turn % well.len().max(1)).copied() else { return };
        self.offers = self.offers.wrapping_add(1);
        self.offer(to).await;
        self.offer_at = Instant::now() + OFFER_AWAY_AGAIN;
    }

    /// Makes a change. A node that does not answer holds nobody up: whoever leads by then looks again.
    async fn done(&self, change: impl Future<Output = Result<(), MembershipError>>) -> Result<()> {
        match tokio::time::timeout(CHANGE_WAIT, change).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::info!(group = %self.group.id(), %error, "the members of a group are not changed yet");
            }
            Err(_) => tracing::info!(group = %self.group.id(), "a change of the members of a group takes long"),
        }
        Ok(())
    }

    async fn change_voters(&mut self, running: &Running<E>, next: BTreeSet<NodeId>) -> Result<()> {
        if !next.contains(&running.cluster.me) {
            // First somebody leads who stays.
            if let Some(other) = next.iter().next() {
                self.offer(*other).await;
            }
            return Ok(());
        }
        tracing::info!(group = %self.group.id(), voters = ?next, "the voters of a group change");
        self.done(self.group.change_voters(next)).await
    }

    /// Gives the leadership to whom it belongs, if that node is well.
    async fn give_back(&mut self, running: &Running<E>, status: &GroupStatus) {
        let unwell = running.cluster.conditions.unwell(&status.voters, Instant::now());
        let Some(to) = belongs_to(self.group.id().get(), &status.voters, &unwell) else { return };
        if to == running.cluster.me || !has_caught_up(status, to) {
            return;
        }
        let question = question::What::Standing(node::Standing::default());
        let answer = tokio::time::timeout(ANSWER_WAIT, running.cluster.ask(to, question)).await;
        if let Ok(Ok(answer::What::Standing(standing))) = answer
            && lookout::told(&standing).is_well()
        {
            self.offer(to).await;
        } else {
            self.offer_at = Instant::now() + OFFER_AGAIN;
        }
    }

    async fn offer(&mut self, to: NodeId) {
        self.offer_at = Instant::now() + OFFER_AGAIN;
        tracing::info!(group = %self.group.id(), %to, "the leadership of a group is offered");
        // Whether it is taken up shows in the leadership.
        let _ = self.group.transfer_leadership(to).await;
    }
}

fn has_caught_up(status: &GroupStatus, node: NodeId) -> bool {
    let last = status.last_index.unwrap_or(0);
    status.matched.get(&node).is_some_and(|matched| last.saturating_sub(*matched) <= CAUGHT_UP)
}

/// To whom a leadership belongs: whoever should lead, and while that node is not well one of those that are. The
/// others keep what they lead.
fn belongs_to(group: u16, voters: &BTreeSet<NodeId>, unwell: &BTreeSet<NodeId>) -> Option<NodeId> {
    let first = preferred(group, voters).filter(|node| !unwell.contains(node));
    first.or_else(|| preferred(group, &voters.difference(unwell).copied().collect()))
}

/// The next set of voters on the way to the wanted one: one more, or one fewer, at a time.
fn next_voters(status: &GroupStatus, wanted: &BTreeSet<NodeId>) -> Option<BTreeSet<NodeId>> {
    let mut next = status.voters.clone();
    // First more, so that a change never leaves fewer who hold everything.
    if let Some(more) = wanted.difference(&status.voters).find(|node| has_caught_up(status, **node)) {
        next.insert(*more);
        return Some(next);
    }
    let missing = wanted.difference(&status.voters).next().is_some();
    let fewer = status.voters.difference(wanted).next().filter(|_| !missing || status.voters.len() > wanted.len())?;
    next.remove(fewer);
    Some(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use orbit_raft::Term;

    fn status(voters: &[u64], matched: &[(u64, u64)]) -> GroupStatus {
        GroupStatus {
            term: Term(1),
            leader: None,
            last_index: Some(1_000),
            committed: None,
            applied: None,
            snapshot: None,
            purged: None,
            voters: set(voters),
            learners: BTreeSet::new(),
            matched: matched.iter().map(|(node, index)| (NodeId(*node), *index)).collect(),
        }
    }

    fn set(nodes: &[u64]) -> BTreeSet<NodeId> {
        nodes.iter().copied().map(NodeId).collect()
    }

    #[test]
    fn leaderships_of_a_node_that_is_not_well_are_shared_by_the_others() {
        let (voters, mut led) = (set(&[1, 2, 3]), [0; 4]);
        for group in 1..=12 {
            let usual = belongs_to(group, &voters, &set(&[])).unwrap();
            let now = belongs_to(group, &voters, &set(&[2])).unwrap();
            assert!(now == usual || usual == NodeId(2), "what the others lead stays");
            led[now.0 as usize] += 1;
        }
        assert_eq!(led[2], 0);
        assert_eq!(led[1] + led[3], 12);
        assert!(led[1] > 4 && led[3] > 4, "{led:?}");
        assert_eq!(belongs_to(1, &voters, &voters), None);
    }

    #[test]
    fn voters_change_one_at_a_time_and_first_grow() {
        let matched = [(1, 1_000), (2, 950), (3, 10), (4, 990)];
        let next = |voters: &[u64], wanted: &[u64]| next_voters(&status(voters, &matched), &set(wanted));
        assert_eq!(next(&[1], &[1, 2, 3]), Some(set(&[1, 2])));
        assert_eq!(next(&[1, 2], &[1, 2, 3]), None, "3 has not caught up");
        assert_eq!(next(&[1, 2, 3], &[1, 2, 4]), Some(set(&[1, 2, 3, 4])));
        assert_eq!(next(&[1, 2, 3, 4], &[1, 2, 4]), Some(set(&[1, 2, 4])));
        assert_eq!(next(&[1, 2, 4], &[1, 2, 4]), None);
        assert_eq!(next(&[1, 2, 4], &[1, 2]), Some(set(&[1, 2])));
    }
}
