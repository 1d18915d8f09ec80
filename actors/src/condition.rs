//! How the nodes are: this one by what it measures, the others by what they told lately. Soft: nothing of it is stored,
//! and what is not told again is forgotten.
//!
//! What follows from it:
//!
//! ```text
//!   disk full, clock off   the node leads nothing, as long as another one that is well can
//!   disk full              the node begins no executions
//!   disk critical          a shard of whose voters a quorum is there takes deletions only
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use orbit_raft::NodeId;
use orbit_raft::clock::Ahead;
use tokio::time::Instant;

use crate::disk::{DiskLevel, DiskLimits, DiskSpace, Gauge};

/// What a node told counts for so long.
pub(crate) const COUNTS_FOR: Duration = Duration::from_secs(5);
/// So long after its disk became full a node hopes that another one leads instead.
const GIVE_AWAY_TIME: Duration = Duration::from_secs(3);

/// How a node is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Condition {
    /// How full its disk is.
    pub disk: DiskLevel,
    /// How much of its disk is in use, 0 to 1.
    pub disk_used_ratio: f64,
    /// Bytes that are left.
    pub disk_available_bytes: u64,
    /// By how much its wall clock is ahead of the median of all nodes, µs; unknown without others.
    pub clock_ahead_us: Option<i64>,
    /// Whether its clock is too far off to lead.
    pub clock_off: bool,
    /// It goes away.
    pub draining: bool,
}

impl Condition {
    /// Whether it should lead.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.disk < DiskLevel::Full && !self.clock_off && !self.draining
    }
}

#[derive(Debug)]
struct Own {
    now: Condition,
    gauge: Gauge,
    clock: Ahead,
    /// Since when the disk is full.
    full_since: Option<Instant>,
}

#[derive(Debug)]
struct State {
    own: Own,
    others: BTreeMap<NodeId, (Condition, Instant)>,
}

/// How the nodes are, as this one knows. A clone is another handle to the same.
#[derive(Clone, Debug)]
pub(crate) struct Conditions {
    me: NodeId,
    state: Arc<Mutex<State>>,
}

impl Conditions {
    pub(crate) fn new(me: NodeId, limits: DiskLimits) -> Self {
        let own =
            Own { now: Condition::default(), gauge: Gauge::new(limits), clock: Ahead::default(), full_since: None };
        Self { me, state: Arc::new(Mutex::new(State { own, others: BTreeMap::new() })) }
    }

    fn with<R>(&self, use_it: impl FnOnce(&mut State) -> R) -> R {
        use_it(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// This node.
    pub(crate) fn me(&self) -> NodeId {
        self.me
    }

    /// How this node is.
    pub(crate) fn own(&self) -> Condition {
        self.with(|state| state.own.now)
    }

    /// How another node is, if it told lately.
    pub(crate) fn of(&self, node: NodeId, now: Instant) -> Option<Condition> {
        self.with(|state| state.of(node, self.me, now))
    }

    /// The disk of this node was measured. Returns the levels before and now.
    pub(crate) fn disk(&self, space: DiskSpace, now: Instant) -> (DiskLevel, DiskLevel) {
        self.with(|State { own, .. }| {
            let before = own.now.disk;
            let level = own.gauge.measured(space);
            (own.now.disk, own.now.disk_used_ratio) = (level, space.used_ratio());
            own.now.disk_available_bytes = space.available_bytes;
            own.full_since = (level >= DiskLevel::Full).then(|| own.full_since.unwrap_or(now));
            (before, level)
        })
    }

    /// The clock of this node was compared with those of the others. Returns whether it was off before, and is now.
    pub(crate) fn clock(&self, ahead_us: Option<i64>) -> (bool, bool) {
        self.with(|State { own, .. }| {
            let before = own.clock.is_off();
            own.clock.measured(ahead_us);
            (own.now.clock_ahead_us, own.now.clock_off) = (own.clock.us(), own.clock.is_off());
            (before, own.clock.is_off())
        })
    }

    /// This node goes away.
    pub(crate) fn drain(&self) {
        self.with(|state| state.own.now.draining = true);
    }

    /// Another node told how it is. Those that are not heard any more are forgotten.
    pub(crate) fn heard(&self, node: NodeId, condition: Condition, now: Instant) {
        self.with(|state| {
            state.others.retain(|_, (_, at)| now.saturating_duration_since(*at) <= COUNTS_FOR);
            state.others.insert(node, (condition, now));
        });
    }

    /// Those of a group that should not lead it. Of whom nothing is known nothing bad is said.
    pub(crate) fn unwell(&self, voters: &BTreeSet<NodeId>, now: Instant) -> BTreeSet<NodeId> {
        self.filter(voters, now, |condition| condition.is_some_and(|condition| !condition.is_well()))
    }

    /// Those of a group, other than this node, that live and may lead it.
    pub(crate) fn well_others(&self, voters: &BTreeSet<NodeId>, now: Instant) -> BTreeSet<NodeId> {
        let mut well = self.filter(voters, now, |condition| condition.is_some_and(|condition| condition.is_well()));
        well.remove(&self.me);
        well
    }

    /// Whether a group takes deletions only: the disks of a quorum of its voters are critical.
    pub(crate) fn is_read_only(&self, voters: &BTreeSet<NodeId>, now: Instant) -> bool {
        let critical = |condition: Option<Condition>| condition.is_some_and(|one| one.disk == DiskLevel::Critical);
        !voters.is_empty() && self.filter(voters, now, critical).len() > voters.len() / 2
    }

    /// Whether an execution may begin here. Who votes is asked only where it matters.
    pub(crate) fn beginning(&self, voters: impl FnOnce() -> BTreeSet<NodeId>, now: Instant) -> Beginning {
        let Some(since) = self.with(|state| state.own.full_since) else { return Beginning::Here };
        let moves = now.saturating_duration_since(since) < GIVE_AWAY_TIME;
        if moves && !self.well_others(&voters(), now).is_empty() { Beginning::Elsewhere } else { Beginning::Nowhere }
    }

    fn filter(
        &self,
        voters: &BTreeSet<NodeId>,
        now: Instant,
        wanted: impl Fn(Option<Condition>) -> bool,
    ) -> BTreeSet<NodeId> {
        self.with(|state| voters.iter().filter(|node| wanted(state.of(**node, self.me, now))).copied().collect())
    }
}

impl State {
    fn of(&self, node: NodeId, me: NodeId, now: Instant) -> Option<Condition> {
        if node == me {
            return Some(self.own.now);
        }
        let (condition, at) = self.others.get(&node)?;
        (now.saturating_duration_since(*at) <= COUNTS_FOR).then_some(*condition)
    }
}

/// Where an execution may begin that is asked for here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// Here.
    Here,
    /// Another node is about to lead instead.
    Elsewhere,
    /// The disk is full, and nobody takes over.
    Nowhere,
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: Condition = Condition {
        disk: DiskLevel::Full,
        disk_used_ratio: 0.91,
        disk_available_bytes: 9,
        clock_ahead_us: None,
        clock_off: false,
        draining: false,
    };
    const CRITICAL: Condition = Condition { disk: DiskLevel::Critical, ..FULL };
    const WELL: Condition = Condition { disk: DiskLevel::Warning, ..FULL };

    fn percent(used_bytes: u64) -> DiskSpace {
        DiskSpace { used_bytes, available_bytes: 100 - used_bytes }
    }

    fn set(nodes: &[u64]) -> BTreeSet<NodeId> {
        nodes.iter().copied().map(NodeId).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_shard_is_read_only_while_a_quorum_of_its_voters_is_over_the_limit() {
        let conditions = Conditions::new(NodeId(1), DiskLimits::default());
        let (voters, now) = (set(&[1, 2, 3]), Instant::now());
        let read_only = || conditions.is_read_only(&voters, now);
        conditions.disk(percent(96), now);
        assert!(!read_only(), "one of three");
        conditions.heard(NodeId(4), CRITICAL, now);
        assert!(!read_only(), "the other one is no voter");
        conditions.heard(NodeId(2), FULL, now);
        assert!(!read_only(), "full is not critical");
        conditions.heard(NodeId(2), CRITICAL, now);
        assert!(read_only());
        assert!(conditions.is_read_only(&set(&[1]), now), "alone it is the quorum");
        assert!(!conditions.is_read_only(&set(&[1, 3]), now), "of two both are");
        assert!(!conditions.is_read_only(&set(&[]), now));
        assert!(!conditions.is_read_only(&voters, now + COUNTS_FOR + Duration::from_millis(1)), "not heard any more");
        conditions.disk(percent(91), now);
        assert!(!read_only());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_is_not_well_does_not_lead_and_whoever_is_silent_is_not_offered_to() {
        let conditions = Conditions::new(NodeId(1), DiskLimits::default());
        let (voters, now) = (set(&[1, 2, 3]), Instant::now());
        assert_eq!((conditions.unwell(&voters, now), conditions.well_others(&voters, now)), (set(&[]), set(&[])));
        conditions.heard(NodeId(2), WELL, now);
        conditions.heard(NodeId(3), Condition { clock_off: true, ..WELL }, now);
        assert_eq!((conditions.unwell(&voters, now), conditions.well_others(&voters, now)), (set(&[3]), set(&[2])));
        conditions.heard(NodeId(2), Condition { draining: true, ..WELL }, now);
        assert_eq!((conditions.unwell(&voters, now), conditions.well_others(&voters, now)), (set(&[2, 3]), set(&[])));
        assert_eq!(conditions.clock(Some(-700_000)), (false, true));
        assert_eq!(conditions.unwell(&voters, now), voters);
        assert_eq!(conditions.clock(Some(450_000)), (true, true));
        assert_eq!(conditions.clock(Some(100)), (true, false));
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_node_hopes_for_another_leader_and_then_says_that_there_is_none() {
        let conditions = Conditions::new(NodeId(1), DiskLimits::default());
        let (voters, now) = (set(&[1, 2, 3]), Instant::now());
        let later = now + GIVE_AWAY_TIME;
        conditions.heard(NodeId(2), WELL, now);
        assert_eq!(conditions.beginning(|| voters.clone(), now), Beginning::Here);
        assert_eq!(conditions.disk(percent(91), now), (DiskLevel::Ok, DiskLevel::Full));
        assert_eq!(conditions.beginning(|| voters.clone(), now), Beginning::Elsewhere);
        assert_eq!(conditions.beginning(|| set(&[1]), now), Beginning::Nowhere, "there is nobody else");
        conditions.disk(percent(92), later);
        assert_eq!(conditions.beginning(|| voters.clone(), later), Beginning::Nowhere, "nobody has taken over");
        conditions.disk(percent(50), later);
        assert_eq!(conditions.beginning(|| voters.clone(), later), Beginning::Here);
    }
}
