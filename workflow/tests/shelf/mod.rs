//! Rows of one run in memory, as a store would keep them.

use std::collections::BTreeMap;
use std::sync::Mutex;

use workflow::state::{ReadRows, RowChange, RowError, RowKind, StoredRow};

/// Rows by kind and key.
type Rows = BTreeMap<(RowKind, Vec<u8>), Vec<u8>>;

/// What was stored, how often it was read, and the first thing that went wrong.
#[derive(Debug, Default)]
pub struct Shelf {
    rows: Mutex<Rows>,
    reads: Mutex<u64>,
    failure: Mutex<Option<RowError>>,
}

impl Shelf {
    /// Stores what changed.
    pub fn store(&self, changes: Vec<RowChange>) {
        let mut rows = self.rows.lock().unwrap();
        for RowChange { kind, key, value } in changes {
            match value {
                Some(value) => rows.insert((kind, key), value),
                None => rows.remove(&(kind, key)),
            };
        }
    }

    /// Rows read since the last call, those of a scan included.
    #[allow(dead_code)] // not every test counts
    pub fn take_reads(&self) -> u64 {
        std::mem::take(&mut self.reads.lock().unwrap())
    }

    /// Every row.
    #[allow(dead_code)]
    pub fn rows(&self) -> Rows {
        self.rows.lock().unwrap().clone()
    }
}

impl ReadRows for Shelf {
    fn get(&self, kind: RowKind, key: &[u8]) -> Result<Option<Vec<u8>>, RowError> {
        *self.reads.lock().unwrap() += 1;
        Ok(self.rows.lock().unwrap().get(&(kind, key.to_vec())).cloned())
    }

    fn scan(&self, kind: RowKind, prefix: &[u8]) -> Result<Vec<StoredRow>, RowError> {
        let rows = self.rows.lock().unwrap();
        let found = rows.iter().filter(|((of, key), _)| *of == kind && key.starts_with(prefix));
        let found: Vec<_> = found.map(|((_, key), value)| (key.clone(), value.clone())).collect();
        *self.reads.lock().unwrap() += found.len() as u64;
        Ok(found)
    }

    fn fail(&self, error: RowError) {
        self.failure.lock().unwrap().get_or_insert(error);
    }

    fn failure(&self) -> Option<RowError> {
        self.failure.lock().unwrap().clone()
    }
}
