//! The rows of one run, read from the applied state of its shard.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use orbit_raft::disk::KeyRange;
use orbit_raft::state_store::read::Reader;
use orbit_raft::{Environment, Group};
use workflow::state::{ReadRows, RowError, RowKind, StoredRow};

use crate::table;

/// The first failure of a reader of rows.
#[derive(Debug, Default)]
struct Failure(Mutex<Option<RowError>>);

impl Clone for Failure {
    fn clone(&self) -> Self {
        Self(Mutex::new(self.get()))
    }
}

impl Failure {
    fn set(&self, error: RowError) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    fn get(&self) -> Option<RowError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The rows of a run as they are applied whenever one is asked for.
pub(crate) struct RunRows<E: Environment> {
    group: Group<E>,
    id: Arc<str>,
    run: u32,
    failure: Failure,
}

impl<E: Environment> RunRows<E> {
    /// To be shared by all tables of the run.
    pub(crate) fn shared(group: Group<E>, id: Arc<str>, run: u32) -> Arc<dyn ReadRows> {
        Arc::new(Self { group, id, run, failure: Failure::default() })
    }
}

impl<E: Environment> fmt::Debug for RunRows<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunRows").field("id", &self.id).field("run", &self.run).finish_non_exhaustive()
    }
}

fn unreadable(error: impl fmt::Display) -> RowError {
    RowError::Unreadable(error.to_string())
}

impl<E: Environment> ReadRows for RunRows<E> {
    fn get(&self, kind: RowKind, key: &[u8]) -> Result<Option<Vec<u8>>, RowError> {
        let key = table::run_state(&self.id, self.run, kind, key);
        let row = self.group.read(|reader| reader.get(&key)).map_err(unreadable)?;
        Ok(row.map(|row| row.to_vec()))
    }

    fn scan(&self, kind: RowKind, prefix: &[u8]) -> Result<Vec<StoredRow>, RowError> {
        let range = KeyRange::prefix(&table::run_state(&self.id, self.run, kind, prefix));
        let skip = table::run_state_prefix_len(&self.id);
        let rows = self.group.read(|reader| reader.range(&range, usize::MAX)).map_err(unreadable)?;
        Ok(rows.into_iter().map(|(key, value)| (key[skip..].to_vec(), value.to_vec())).collect())
    }

    fn fail(&self, error: RowError) {
        self.failure.set(error);
    }

    fn failure(&self) -> Option<RowError> {
        self.failure.get()
    }
}

/// Some rows of a run as of one moment, for display.
#[derive(Clone, Debug, Default)]
pub(crate) struct SomeRows {
    rows: BTreeMap<(RowKind, Vec<u8>), Vec<u8>>,
    failure: Failure,
}

impl SomeRows {
    /// Takes one row along.
    pub(crate) fn take_one(
        &mut self,
        reader: &Reader<'_>,
        id: &str,
        run: u32,
        kind: RowKind,
        key: &[u8],
    ) -> Result<(), orbit_raft::state_store::Error> {
        if let Some(value) = reader.get(&table::run_state(id, run, kind, key))? {
            self.rows.insert((kind, key.to_vec()), value.to_vec());
        }
        Ok(())
    }

    /// Takes rows of a kind along whose keys begin with `prefix` and come after `after`, until there are `limit` or
    /// they have `bytes_max` bytes. Returns whether there are more.
    #[allow(clippy::too_many_arguments)] // what, from where, how many
    pub(crate) fn take_many(
        &mut self,
        reader: &Reader<'_>,
        id: &str,
        run: u32,
        kind: RowKind,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
        bytes_max: usize,
    ) -> Result<bool, orbit_raft::state_store::Error> {
        let mut range = KeyRange::prefix(&table::run_state(id, run, kind, prefix));
        if let Some(after) = after {
            let mut from = table::run_state(id, run, kind, after);
            from.push(0);
            range.from = from.max(range.from);
        }
        if range.from >= range.to {
            return Ok(false);
        }
        let skip = table::run_state_prefix_len(id);
        let (mut taken, mut bytes, mut more) = (0, 0, false);
        reader.scan(&range, |key, value| {
            if taken >= limit || bytes >= bytes_max {
                more = true;
                return ControlFlow::Break(());
            }
            taken += 1;
            bytes += value.len();
            self.rows.insert((kind, key[skip..].to_vec()), value.to_vec());
            ControlFlow::Continue(())
        })?;
        Ok(more)
    }
}

impl ReadRows for SomeRows {
    fn get(&self, kind: RowKind, key: &[u8]) -> Result<Option<Vec<u8>>, RowError> {
        Ok(self.rows.get(&(kind, key.to_vec())).cloned())
    }

    fn scan(&self, kind: RowKind, prefix: &[u8]) -> Result<Vec<StoredRow>, RowError> {
        let from = (kind, prefix.to_vec());
        let rows = self.rows.range(from..).take_while(|((k, key), _)| *k == kind && key.starts_with(prefix));
        Ok(rows.map(|((_, key), value)| (key.clone(), value.clone())).collect())
    }

    fn fail(&self, error: RowError) {
        self.failure.set(error);
    }

    fn failure(&self) -> Option<RowError> {
        self.failure.get()
    }
}
