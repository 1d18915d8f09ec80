//! The state as the consensus library asks for it.

use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use openraft::storage::{EntryResponder, RaftStateMachine, Snapshot};
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder};
use orbit_proto::store;

use super::mark::Marks;
use super::part::Round;
use super::read::Reader;
use super::{Error, key};
use crate::clock::GroupClock;
use crate::consensus::{
    Committed, RaftEntry, RaftLogId, RaftStoredMembership, Reply, Runtime, SnapshotMeta, Types, log_id_in, log_id_out,
    membership_in, membership_out,
};
use crate::disk::{FatalHook, FrozenRows, StateDisk};
use crate::log_store::key::{decode, encode};
use crate::phase::{self, Phase};
use crate::types::{GroupId, LogId, NodeId, PeerAddress};

/// About how many bytes of entries one batch holds at most.
const BATCH_BYTES: usize = 4 << 20;
/// How many entries one batch holds at most.
const BATCH_ENTRIES: usize = 1024;

/// The state of one group.
pub(crate) struct StateMachine<D: StateDisk> {
    group: GroupId,
    disk: D,
    clock: Arc<GroupClock>,
    fatal: FatalHook,
    marks: Arc<Marks<D>>,
    applied: store::Applied,
}

impl<D: StateDisk> fmt::Debug for StateMachine<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateMachine").field("group", &self.group).field("applied", &self.applied).finish()
    }
}

/// What a snapshot consists of besides its description.
pub(crate) struct SnapshotData<D: StateDisk> {
    applied: Box<store::Applied>,
    rows: SnapshotRows<D>,
}

enum SnapshotRows<D: StateDisk> {
    /// Rows held as they were; they become an image when a follower needs it.
    Frozen(D::Frozen),
    /// An image that came in, complete and verified.
    Received(D::Body),
}

impl<D: StateDisk> fmt::Debug for SnapshotData<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotData").field("applied", &self.applied).finish_non_exhaustive()
    }
}

impl<D: StateDisk> SnapshotData<D> {
    /// An image that came in, complete and verified, with what its header said of it.
    pub(crate) fn received(applied: store::Applied, body: D::Body) -> Self {
        SnapshotData { applied: Box::new(applied), rows: SnapshotRows::Received(body) }
    }

    /// The image, made now if it is not there yet, and how far it goes.
    pub(crate) async fn into_body(self, group: GroupId) -> Result<(store::Applied, D::Body), Error> {
        let body = match self.rows {
            SnapshotRows::Frozen(rows) => {
                let from = encode(&self.applied.log_id.unwrap_or_default());
                rows.build((key::installed(group), from)).await?
            }
            SnapshotRows::Received(body) => body,
        };
        Ok((*self.applied, body))
    }
}

/// The description of a snapshot that goes this far.
pub(crate) fn machine_meta(applied: &store::Applied) -> Result<SnapshotMeta, Error> {
    Ok(SnapshotMeta { last_log_id: applied.log_id.map(log_id_in), last_membership: stored_membership(applied)? })
}

async fn freeze<D: StateDisk>(group: GroupId, disk: &D) -> Result<RaftSnapshot<D>, Error> {
    let (head, rows) = disk.freeze(key::group(group), key::applied(group)).await?;
    let applied: store::Applied = head.map(|row| decode("applied", row)).transpose()?.unwrap_or_default();
    let meta = machine_meta(&applied)?;
    let rows = SnapshotRows::Frozen(rows);
    Ok(Snapshot { meta, snapshot: SnapshotData { applied: Box::new(applied), rows } })
}

type RaftSnapshot<D> = Snapshot<Committed, NodeId, PeerAddress, SnapshotData<D>>;

impl<D: StateDisk> StateMachine<D> {
    pub(crate) fn load(group: GroupId, disk: D, clock: Arc<GroupClock>, fatal: FatalHook) -> Result<Self, Error> {
        let applied = disk.read(|view| Reader::new(group, view).record())?;
        note_members(&clock, &applied);
        Ok(StateMachine { group, disk, clock, fatal, marks: Arc::default(), applied })
    }

    /// The marks that are watched for.
    pub(crate) fn marks(&self) -> Arc<Marks<D>> {
        Arc::clone(&self.marks)
    }

    /// Writes entries as one batch, or as several where somebody wants the state behind one of them.
    async fn write_rounds(&mut self, mut entries: Vec<RaftEntry>) -> Result<Vec<Reply>, Error> {
        let mut replies = Vec::with_capacity(entries.len());
        while let Some((place, mark)) = self.first_mark(&entries) {
            let rest = entries.split_off(place + 1);
            replies.extend(self.write_round(std::mem::replace(&mut entries, rest))?);
            self.marks.hold(&mark, &self.disk, self.group, self.applied.log_id.map(LogId::from)).await;
        }
        if !entries.is_empty() {
            replies.extend(self.write_round(entries)?);
        }
        Ok(replies)
    }

    fn first_mark(&self, entries: &[RaftEntry]) -> Option<(usize, Bytes)> {
        let mark = |entry: &RaftEntry| match &entry.payload {
            EntryPayload::Normal(proposal) => self.marks.in_entry(&proposal.0),
            EntryPayload::Blank | EntryPayload::Membership(_) => None,
        };
        entries.iter().enumerate().find_map(|(place, entry)| Some((place, mark(entry)?)))
    }

    fn write_round(&mut self, entries: Vec<RaftEntry>) -> Result<Vec<Reply>, Error> {
        let disk = self.disk.clone();
        let mut round = Round::new(self.group, &disk);
        let mut applied = self.applied.clone();
        let mut replies = Vec::with_capacity(entries.len());
        for entry in entries {
            let log_id = log_id_out(&entry.log_id);
            applied.log_id = Some(log_id);
            let mut reply = Reply::default();
            match entry.payload {
                EntryPayload::Blank => {}
                EntryPayload::Normal(proposal) => reply = round.apply(log_id.index, proposal.0)?,
                EntryPayload::Membership(membership) => {
                    applied.membership = Some(membership_out(&membership));
                    applied.membership_log_id = Some(log_id);
                }
            }
            applied.time_ms = applied.time_ms.max(reply.time_ms);
            replies.push(reply);
        }
        let mut batch = round.into_batch();
        batch.put(key::applied(self.group), encode(&applied));
        self.disk.write(batch)?;
        self.clock.observe(applied.time_ms);
        note_members(&self.clock, &applied);
        self.applied = applied;
        Ok(replies)
    }

    async fn install(&mut self, meta: &SnapshotMeta, data: SnapshotData<D>) -> Result<(), Error> {
        let (_, body) = data.into_body(self.group).await?;
        self.disk.install(key::group(self.group), body).await?;
        let applied = self.disk.read(|view| Reader::new(self.group, view).record())?;
        if machine_meta(&applied)? != *meta {
            return Err(Error::WrongSnapshot(format!("it is {applied:?}, announced was {meta}")));
        }
        self.clock.observe(applied.time_ms);
        note_members(&self.clock, &applied);
        self.applied = applied;
        Ok(())
    }

    /// A state that could not be written must not be read on: the node ends.
    fn fail(&self, error: Error) -> io::Error {
        self.fatal.raise(format_args!("the state of group {} could not be written: {error}", self.group));
        error.into()
    }
}

/// The clock asks those who are members.
fn note_members(clock: &GroupClock, applied: &store::Applied) {
    clock.set_members(applied.membership.as_ref().map_or(0, |membership| membership.members.len()));
}

fn stored_membership(applied: &store::Applied) -> Result<RaftStoredMembership, Error> {
    let membership = applied.membership.clone().map(membership_in).transpose()?.unwrap_or_default();
    Ok(RaftStoredMembership::new(applied.membership_log_id.map(log_id_in), membership))
}

impl<RT: Runtime, D: StateDisk> RaftStateMachine<Types<RT>> for StateMachine<D> {
    type SnapshotData = SnapshotData<D>;
    type SnapshotBuilder = Builder<D>;

    async fn applied_state(&mut self) -> Result<(Option<RaftLogId>, RaftStoredMembership), io::Error> {
        Ok((self.applied.log_id.map(log_id_in), stored_membership(&self.applied)?))
    }

    async fn apply<S>(&mut self, mut entries: S) -> Result<(), io::Error>
    where
        S: Stream<Item = Result<EntryResponder<Types<RT>>, io::Error>> + Unpin + OptionalSend,
    {
        loop {
            let (mut round, mut responders, mut size_bytes) = (Vec::new(), Vec::new(), 0);
            while round.len() < BATCH_ENTRIES && size_bytes < BATCH_BYTES {
                let Some(next) = entries.next().await else { break };
                let (entry, responder) = next?;
                size_bytes += crate::consensus::entry_bytes(&entry);
                round.push(entry);
                responders.push(responder);
            }
            if round.is_empty() {
                return Ok(());
            }
            let replies = self.write_rounds(round).await.map_err(|error| self.fail(error))?;
            for (responder, reply) in responders.into_iter().zip(replies) {
                if let Some(responder) = responder {
                    responder.send(reply);
                }
            }
        }
    }

    async fn get_snapshot_builder(&mut self) -> Builder<D> {
        Builder { group: self.group, disk: self.disk.clone(), fatal: self.fatal.clone() }
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, data: SnapshotData<D>) -> Result<(), io::Error> {
        self.install(meta, data).await.map_err(|error| self.fail(error))
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<RaftSnapshot<D>>, io::Error> {
        // The state is its own snapshot: what a follower gets is the state of this moment, held while writers go on.
        let snapshot = freeze(self.group, &self.disk).await?;
        Ok(Some(snapshot).filter(|snapshot| snapshot.meta != SnapshotMeta::default()))
    }
}

/// Builds a snapshot: makes the state durable and notes how far it goes. The image is made when a follower needs it.
pub(crate) struct Builder<D> {
    group: GroupId,
    disk: D,
    fatal: FatalHook,
}

impl<RT: Runtime, D: StateDisk> RaftSnapshotBuilder<Types<RT>> for Builder<D> {
    type SnapshotData = SnapshotData<D>;

    async fn build_snapshot(&mut self) -> Result<RaftSnapshot<D>, io::Error> {
        let _during = phase::enter(Phase::Snapshot(self.group));
        let frozen = freeze(self.group, &self.disk).await?;
        // First durable, then reported: the log is purged on the strength of the report.
        if let Err(error) = self.disk.make_durable().await {
            self.fatal.raise(format_args!("the state could not be synced: {error}"));
            return Err(error.into());
        }
        Ok(frozen)
    }
}
