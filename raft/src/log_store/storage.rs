//! The log as the consensus library asks for it.

use std::fmt::Debug;
use std::io;
use std::ops::RangeBounds;

use futures::{Stream, stream};
use openraft::storage::{IOFlushed, LogState, RaftLogStorage};
use openraft::{OptionalSend, RaftLogReader};

use super::GroupLog;
use crate::consensus::{RaftEntry, RaftLogId, RaftVote, Runtime, Types, entry_bytes};
use crate::disk::Disk;

/// About how many bytes one read for replication returns at most.
const READ_BYTES: usize = 8 << 20;

impl<RT: Runtime, D: Disk> RaftLogReader<Types<RT>> for GroupLog<D> {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<RaftEntry>, io::Error> {
        Ok(self.read(range)?)
    }

    async fn read_vote(&mut self) -> Result<Option<RaftVote>, io::Error> {
        Ok(self.vote())
    }

    /// The entries to apply. A quorum of others may have them before this node: they wait here until they are saved,
    /// so that the state never knows of an entry that the log can still lose. That makes a log that was cut short
    /// plain to see: it ends before what is applied.
    async fn entries_stream<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> impl Stream<Item = Result<RaftEntry, io::Error>> + OptionalSend {
        let entries = match self.read(range) {
            Ok(entries) => entries,
            Err(error) => return stream::iter(vec![Err(error.into())]),
        };
        if let Some(last) = entries.last() {
            self.wait_saved(last.log_id.index).await;
        }
        stream::iter(entries.into_iter().map(Ok).collect::<Vec<_>>())
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<RaftEntry>, io::Error> {
        let mut entries = self.read(start..end)?;
        let mut size_bytes = 0;
        let fit = entries.iter().take_while(|entry| {
            let fits = size_bytes < READ_BYTES;
            size_bytes += entry_bytes(entry);
            fits
        });
        let fit = fit.count();
        entries.truncate(fit);
        Ok(entries)
    }
}

impl<RT: Runtime, D: Disk> RaftLogStorage<Types<RT>> for GroupLog<D> {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<Types<RT>>, io::Error> {
        Ok(LogState { last_purged_log_id: self.purged(), last_log_id: self.last() })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &RaftVote) -> Result<(), io::Error> {
        Ok(GroupLog::save_vote(self, *vote).await?)
    }

    async fn save_committed(&mut self, committed: Option<RaftLogId>) -> Result<(), io::Error> {
        Ok(GroupLog::save_committed(self, committed).await?)
    }

    async fn read_committed(&mut self) -> Result<Option<RaftLogId>, io::Error> {
        Ok(self.committed())
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Types<RT>>) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = RaftEntry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries = entries.into_iter().collect();
        Ok(GroupLog::append(self, entries, Box::new(|| callback.io_completed(Ok(())))).await?)
    }

    async fn truncate_after(&mut self, last_log_id: Option<RaftLogId>) -> Result<(), io::Error> {
        Ok(GroupLog::truncate_after(self, last_log_id).await?)
    }

    async fn purge(&mut self, log_id: RaftLogId) -> Result<(), io::Error> {
        Ok(GroupLog::purge(self, log_id).await?)
    }
}
