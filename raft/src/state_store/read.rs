//! Reading the applied state as of one moment.

use std::ops::ControlFlow;

use bytes::Bytes;
use orbit_proto::store;

use super::{Error, key};
use crate::disk::{KeyRange, View};
use crate::log_store::key::decode;
use crate::types::{GroupId, LogId};

/// The rows of one group as of one moment. All keys are row keys: they begin with the table.
pub struct Reader<'a> {
    group: GroupId,
    view: &'a dyn View,
}

impl std::fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("group", &self.group).finish_non_exhaustive()
    }
}

/// How far a group is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppliedState {
    /// The last applied entry.
    pub log_id: LogId,
    /// The time of the log there, in milliseconds since 1970.
    pub time_ms: u64,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(group: GroupId, view: &'a dyn View) -> Self {
        Reader { group, view }
    }

    /// The value of a row, with its format byte.
    pub fn get(&self, row_key: &[u8]) -> Result<Option<Bytes>, Error> {
        Ok(self.view.get(&key::full(self.group, row_key))?)
    }

    /// Visits the rows of a range in ascending order, until `visit` breaks.
    pub fn scan(&self, range: &KeyRange, mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>) -> Result<(), Error> {
        let full = KeyRange { from: key::full(self.group, &range.from), to: key::full(self.group, &range.to) };
        Ok(self.view.scan(&full, &mut |key, value| visit(&key[2..], value))?)
    }

    /// At most `limit` rows of a range, in ascending order.
    pub fn range(&self, range: &KeyRange, limit: usize) -> Result<Vec<(Bytes, Bytes)>, Error> {
        let mut rows = Vec::new();
        if limit > 0 {
            self.scan(range, |key, value| {
                rows.push((Bytes::copy_from_slice(key), Bytes::copy_from_slice(value)));
                if rows.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
        }
        Ok(rows)
    }

    /// How far the history of an execution goes; `None` if there is no such execution.
    pub fn position(&self, id: &[u8]) -> Result<Option<store::Position>, Error> {
        Ok(self.get(&key::position(id))?.map(|value| decode("position", value)).transpose()?)
    }

    /// At most `limit` events of a run from `seq` on, each with its number.
    pub fn events(&self, id: &[u8], run: u32, seq: u64, limit: usize) -> Result<Vec<(u64, Bytes)>, Error> {
        let range = KeyRange { from: key::event(id, run, seq), to: key::events(id, run).to };
        let rows = self.range(&range, limit)?;
        // The key of an event ends with its number, so the next one is simply one further.
        let number = |key: &Bytes| key.last_chunk::<8>().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        Ok(rows.into_iter().map(|(key, event)| (number(&key), event)).collect())
    }

    /// How far the group is applied at this moment; `None` before its first entry.
    pub fn applied(&self) -> Result<Option<AppliedState>, Error> {
        let applied = self.record()?;
        Ok(applied.log_id.map(|id| AppliedState { log_id: id.into(), time_ms: applied.time_ms }))
    }

    pub(crate) fn record(&self) -> Result<store::Applied, Error> {
        let value = self.view.get(&key::applied(self.group))?;
        Ok(value.map(|v| decode("applied", v)).transpose()?.unwrap_or_default())
    }

    pub(crate) fn installed(&self) -> Result<Option<store::LogId>, Error> {
        let value = self.view.get(&key::installed(self.group))?;
        Ok(value.map(|v| decode("log id", v)).transpose()?)
    }

    pub(crate) fn group(&self) -> GroupId {
        self.group
    }

    pub(crate) fn view(&self) -> &'a dyn View {
        self.view
    }
}
