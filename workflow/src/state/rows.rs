//! A run as it is stored: one head and rows of a few kinds, each written only where it changed.
//!
//! ```text
//! value = format byte 1 │ bincode 1 of the row          key = bytes of the key; for hand-overs, results and
//!                                                             signals the place in the history, u64 big-endian
//! ```
//!
//! These are private records: whoever stores them puts the execution and its run before the key, and a release that
//! changes one writes another format byte and still reads the old one. Rows can always be made again from the history.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Execution, Head, Signal, Source, Table};
use crate::event::Seq;
use crate::key::Key;

/// The format that this release writes.
const FORMAT: u8 = 1;

/// The kinds of rows. The numbers are part of stored keys and are never used again for anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum RowKind {
    /// [`Head`]; its key is empty.
    Head = 1,
    /// A unit.
    Unit = 2,
    /// An item of a `for`.
    Item = 3,
    /// A timer.
    Timer = 4,
    /// A closing.
    Closing = 5,
    /// What a closing undoes.
    UndoList = 6,
    /// A unit that is undone.
    Undo = 7,
    /// A handler.
    Handler = 8,
    /// A hand-over.
    HandOver = 9,
    /// A signal.
    Signal = 10,
    /// The first result of a hand-over.
    FirstResult = 11,
    /// The last heartbeat details of a unit.
    Heartbeat = 12,
}

/// A row that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowChange {
    /// Its kind.
    pub kind: RowKind,
    /// Its key within the run.
    pub key: Vec<u8>,
    /// What it is now; `None`: it is gone.
    pub value: Option<Vec<u8>>,
}

/// A stored row is none that this release can read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    /// Written by a newer release.
    #[error("a row of format {0}; a newer release wrote it, and this one must not go on from it")]
    UnknownFormat(u8),
    /// Not what was written.
    #[error("a row is damaged: {0}")]
    Damaged(String),
    /// It could not be read at all.
    #[error("a row cannot be read: {0}")]
    Unreadable(String),
}

/// A stored row: its key within the run, and its value.
pub type StoredRow = (Vec<u8>, Vec<u8>);

/// Where the rows of one run are read from.
pub trait ReadRows: std::fmt::Debug + Send + Sync {
    /// The value of one row.
    ///
    /// # Errors
    /// [`RowError::Unreadable`].
    fn get(&self, kind: RowKind, key: &[u8]) -> Result<Option<Vec<u8>>, RowError>;

    /// All rows whose key begins with `prefix`: keys and values.
    ///
    /// # Errors
    /// [`RowError::Unreadable`].
    fn scan(&self, kind: RowKind, prefix: &[u8]) -> Result<Vec<StoredRow>, RowError>;

    /// A row could not be read while a rule asked for it. Remembered until [`failure`](Self::failure) is asked for.
    fn fail(&self, error: RowError);

    /// The first thing that went wrong, if anything did. Asked after each command: a decision that was made without a
    /// row that exists must be thrown away, and the run with it.
    fn failure(&self) -> Option<RowError>;
}

/// Keys as bytes.
pub trait RowKey: Sized {
    /// As it is stored.
    fn to_bytes(&self) -> Vec<u8>;

    /// Read back.
    fn from_bytes(bytes: &[u8]) -> Option<Self>;
}

impl RowKey for Key {
    fn to_bytes(&self) -> Vec<u8> {
        self.as_bytes().to_vec()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        std::str::from_utf8(bytes).ok().map(Key::from)
    }
}

impl RowKey for Seq {
    fn to_bytes(&self) -> Vec<u8> {
        self.to_be_bytes().to_vec()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Seq::from_be_bytes)
    }
}

/// A row as bytes.
fn encode<V: Serialize>(row: &V) -> Vec<u8> {
    let mut bytes = vec![FORMAT];
    // Rows hold nothing that cannot be written: no maps with odd keys, no failing implementations.
    let written = bincode::serialize_into(&mut bytes, row);
    debug_assert!(written.is_ok(), "a row that cannot be written: {written:?}");
    bytes
}

fn decode<V: DeserializeOwned>(bytes: &[u8]) -> Result<V, RowError> {
    match bytes.split_first() {
        Some((&FORMAT, row)) => bincode::deserialize(row).map_err(|error| RowError::Damaged(error.to_string())),
        Some((format, _)) => Err(RowError::UnknownFormat(*format)),
        None => Err(RowError::Damaged("it is empty".to_owned())),
    }
}

/// One kind of rows in a store.
#[derive(Debug)]
struct Stored {
    kind: RowKind,
    rows: Arc<dyn ReadRows>,
}

impl<V: DeserializeOwned, K: RowKey> Source<V, K> for Stored {
    fn load(&self, key: &K) -> Option<V> {
        let row = self.rows.get(self.kind, &key.to_bytes()).and_then(|row| row.map(|row| decode(&row)).transpose());
        row.unwrap_or_else(|error| {
            self.rows.fail(error);
            None
        })
    }

    fn load_all(&self, prefix: &str) -> Vec<(K, V)> {
        let read = |(key, row): StoredRow| {
            let key = K::from_bytes(&key).ok_or_else(|| RowError::Damaged("no key of its kind".to_owned()))?;
            Ok((key, decode(&row)?))
        };
        let rows = self.rows.scan(self.kind, prefix.as_bytes());
        rows.and_then(|rows| rows.into_iter().map(read).collect()).unwrap_or_else(|error| {
            self.rows.fail(error);
            Vec::new()
        })
    }
}

/// The signals that nobody took: 0.1 left those there that were taken, and marked them.
#[derive(Debug)]
struct Untaken(Stored);

impl Source<Signal, Seq> for Untaken {
    fn load(&self, key: &Seq) -> Option<Signal> {
        self.0.load(key).filter(|signal: &Signal| signal.taken_by.is_none())
    }

    fn load_all(&self, prefix: &str) -> Vec<(Seq, Signal)> {
        let mut signals: Vec<(Seq, Signal)> = self.0.load_all(prefix);
        signals.retain(|(_, signal)| signal.taken_by.is_none());
        signals
    }
}

/// A table whose rows lie in `rows`.
pub(crate) fn table<V, K>(kind: RowKind, rows: &Arc<dyn ReadRows>) -> Table<V, K>
where
    V: DeserializeOwned,
    K: RowKey + Ord + std::hash::Hash + Clone,
{
    Table::stored(Arc::new(Stored { kind, rows: Arc::clone(rows) }))
}

/// The changed rows of one table.
pub(crate) fn changes<V, K>(kind: RowKind, table: &mut Table<V, K>, changes: &mut Vec<RowChange>)
where
    V: Serialize,
    K: RowKey + Ord + std::hash::Hash + Clone + super::Lookup<K>,
{
    for key in table.take_changed() {
        changes.push(RowChange { kind, key: key.to_bytes(), value: table.get(&key).map(encode) });
    }
}

impl Execution {
    /// A run that sleeps in `rows`: only its head is read now.
    ///
    /// # Errors
    /// [`RowError`] when the head cannot be read; `None` when there is none.
    pub fn asleep(rows: &Arc<dyn ReadRows>) -> Result<Option<Self>, RowError> {
        let Some(head) = rows.get(RowKind::Head, &[])? else { return Ok(None) };
        let head: Head = decode(&head)?;
        Ok(Some(Self {
            head,
            units: table(RowKind::Unit, rows),
            items: table(RowKind::Item, rows),
            timers: table(RowKind::Timer, rows),
            closings: table(RowKind::Closing, rows),
            undo_lists: table(RowKind::UndoList, rows),
            undos: table(RowKind::Undo, rows),
            handlers: table(RowKind::Handler, rows),
            hand_overs: table(RowKind::HandOver, rows),
            signals: Table::stored(Arc::new(Untaken(Stored { kind: RowKind::Signal, rows: Arc::clone(rows) }))),
        }))
    }

    /// What changed since the last call: the head, and the rows of every kind.
    pub fn take_changes(&mut self) -> Vec<RowChange> {
        let mut all = vec![RowChange { kind: RowKind::Head, key: Vec::new(), value: Some(encode(&self.head)) }];
        changes(RowKind::Unit, &mut self.units, &mut all);
        changes(RowKind::Item, &mut self.items, &mut all);
        changes(RowKind::Timer, &mut self.timers, &mut all);
        changes(RowKind::Closing, &mut self.closings, &mut all);
        changes(RowKind::UndoList, &mut self.undo_lists, &mut all);
        changes(RowKind::Undo, &mut self.undos, &mut all);
        changes(RowKind::Handler, &mut self.handlers, &mut all);
        changes(RowKind::HandOver, &mut self.hand_overs, &mut all);
        changes(RowKind::Signal, &mut self.signals, &mut all);
        all
    }
}
