//! Rows by key: which of them changed, and where those lie that are not in memory.
//!
//! A new run has all its rows in memory. One that wakes up has none: a row is read from its [`Source`] when a rule asks
//! for it and stays until the run goes to sleep, so that a wake-up costs what it touches and not what the execution
//! has become. A rule holds plain references meanwhile; reading adds rows and moves none.

use std::borrow::Borrow;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::Hash;
use std::ops::Bound;
use std::sync::Arc;

use elsa::FrozenMap;

use crate::key::{self, Key};

/// Where rows of one kind are stored.
///
/// A source that cannot read answers as if there were nothing and remembers why; whoever gave the command asks it
/// afterwards and then throws run and decision away.
pub trait Source<V, K = Key>: Debug + Send + Sync {
    /// The row at `key`.
    fn load(&self, key: &K) -> Option<V>;

    /// Every row whose key begins with `prefix`; all of them for the empty one.
    fn load_all(&self, prefix: &str) -> Vec<(K, V)>;
}

/// What a key can be looked up by.
pub trait Lookup<K>: Hash + Ord {
    /// The key itself.
    fn to_key(&self) -> K;
}

impl Lookup<Key> for str {
    fn to_key(&self) -> Key {
        Key::from(self)
    }
}

impl Lookup<Key> for Key {
    fn to_key(&self) -> Key {
        self.clone()
    }
}

impl Lookup<u64> for u64 {
    fn to_key(&self) -> u64 {
        *self
    }
}

/// Rows of one kind. Remembers which were written since [`Table::take_changed`], so that only they are stored.
pub struct Table<V, K = Key> {
    /// What is known: rows, and keys at which there is none.
    rows: FrozenMap<K, Box<Row<V, K>>>,
    /// Keys of the rows that are known, in order.
    known: RefCell<BTreeSet<K>>,
    changed: BTreeSet<K>,
    source: Option<Arc<dyn Source<V, K>>>,
    /// Every stored row is known.
    whole: Cell<bool>,
    /// Every stored row whose key begins with one of these is known.
    read: RefCell<Vec<Box<str>>>,
}

#[derive(Clone)]
struct Row<V, K> {
    key: K,
    row: Option<V>,
}

impl<V, K: Hash + Eq> Default for Table<V, K> {
    fn default() -> Self {
        Self {
            rows: FrozenMap::new(),
            known: RefCell::default(),
            changed: BTreeSet::new(),
            source: None,
            whole: Cell::new(true),
            read: RefCell::default(),
        }
    }
}

impl<V: Clone, K: Ord + Clone> Clone for Table<V, K> {
    fn clone(&self) -> Self {
        Self {
            rows: self.rows.clone(),
            known: self.known.clone(),
            changed: self.changed.clone(),
            source: self.source.clone(),
            whole: self.whole.clone(),
            read: self.read.clone(),
        }
    }
}

/// Two tables are equal when their rows are, wherever they lie; what was written lately is no part of the state.
impl<V: PartialEq, K: Ord + Hash + Clone + Lookup<K>> PartialEq for Table<V, K> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<V: Debug, K: Ord + Hash + Clone + Debug> Debug for Table<V, K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let known: Vec<K> = self.known.borrow().iter().cloned().collect();
        f.debug_map().entries(self.rows_at(known)).finish()
    }
}

impl<V, K: Ord + Hash + Clone> Table<V, K> {
    /// Rows that lie in `source`.
    #[must_use]
    pub fn stored(source: Arc<dyn Source<V, K>>) -> Self {
        Self { source: Some(source), whole: Cell::new(false), ..Self::default() }
    }

    /// The row at `key`.
    pub fn get<Q: Lookup<K> + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        if let Some(row) = self.rows.get(key) {
            return row.row.as_ref();
        }
        if self.whole.get() {
            return None;
        }
        let key = key.to_key();
        let row = self.source.as_ref().and_then(|source| source.load(&key));
        self.learn(key, row)
    }

    fn learn(&self, key: K, row: Option<V>) -> Option<&V> {
        if row.is_some() {
            self.known.borrow_mut().insert(key.clone());
        }
        self.rows.insert(key.clone(), Box::new(Row { key, row })).row.as_ref()
    }

    /// The row at `key`, to be changed.
    pub fn get_mut<Q: Lookup<K> + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.get(key)?;
        self.changed.insert(key.to_key());
        self.rows.as_mut().get_mut(key).and_then(|known| known.row.as_mut())
    }

    /// Whether there is a row at `key`.
    pub fn contains<Q: Lookup<K> + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get(key).is_some()
    }

    /// Writes the row at `key`.
    pub fn insert(&mut self, key: K, row: V) {
        self.changed.insert(key.clone());
        self.known.get_mut().insert(key.clone());
        self.rows.as_mut().insert(key.clone(), Box::new(Row { key, row: Some(row) }));
    }

    /// The row at `key`, made when it is missing, to be changed.
    pub fn entry(&mut self, key: &K, make: impl FnOnce() -> V) -> &mut V
    where
        K: Lookup<K>,
    {
        self.get(key);
        self.changed.insert(key.clone());
        self.known.get_mut().insert(key.clone());
        let known = self.rows.as_mut().entry(key.clone());
        known.or_insert_with(|| Box::new(Row { key: key.clone(), row: None })).row.get_or_insert_with(make)
    }

    /// Removes the row at `key`.
    pub fn remove<Q: Lookup<K> + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.get(key)?;
        self.changed.insert(key.to_key());
        self.known.get_mut().remove(key);
        self.rows.as_mut().get_mut(key).and_then(|known| known.row.take())
    }

    /// All rows, by key. Reads all that are stored.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)>
    where
        K: Lookup<K>,
    {
        self.know_all("");
        let keys: Vec<K> = self.known.borrow().iter().cloned().collect();
        self.rows_at(keys)
    }

    fn rows_at(&self, keys: Vec<K>) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        keys.into_iter().filter_map(|key| {
            let known = self.rows.get(&key)?;
            Some((&known.key, known.row.as_ref()?))
        })
    }

    /// Whether there is none, as far as can be said without reading.
    pub fn is_surely_empty(&self) -> bool {
        self.whole.get() && self.known.borrow().is_empty()
    }

    /// How many there are. Reads all that are stored.
    pub fn len(&self) -> usize {
        self.know_all("");
        self.known.borrow().len()
    }

    /// Whether there is none. Reads all that are stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether rows were written or removed since the last [`take_changed`](Self::take_changed).
    pub fn is_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// The keys written or removed since the last call, in order.
    pub fn take_changed(&mut self) -> BTreeSet<K> {
        std::mem::take(&mut self.changed)
    }

    fn know_all(&self, prefix: &str) {
        let Some(source) = self.source.as_ref().filter(|_| !self.whole.get()) else { return };
        if self.read.borrow().iter().any(|read| prefix.starts_with(&**read)) {
            return;
        }
        for (key, row) in source.load_all(prefix) {
            // What is known already may have been changed since it was stored.
            if self.rows.get(&key).is_none() {
                self.learn(key, Some(row));
            }
        }
        self.whole.set(prefix.is_empty());
        self.read.borrow_mut().push(Box::from(prefix));
    }
}

impl<V> Table<V> {
    /// Rows at or below `top`, by key; undo units lie below nothing, handlers not below the root.
    pub fn under(&self, top: &str) -> impl Iterator<Item = (&Key, &V)> {
        self.know_all(top);
        let known = self.known.borrow();
        let below = known.range::<str, _>((Bound::Included(top), Bound::Unbounded));
        let keys: Vec<Key> =
            below.take_while(|key| key.starts_with(top)).filter(|key| key::is_under(key, top)).cloned().collect();
        drop(known);
        self.rows_at(keys)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    use super::*;

    #[derive(Debug)]
    struct Stored {
        rows: BTreeMap<Key, u32>,
        read: Mutex<Vec<String>>,
    }

    impl Source<u32> for Stored {
        fn load(&self, key: &Key) -> Option<u32> {
            self.read.lock().expect("no panic while held").push(key.to_string());
            self.rows.get(key).copied()
        }

        fn load_all(&self, prefix: &str) -> Vec<(Key, u32)> {
            self.read.lock().expect("no panic while held").push(format!("{prefix}*"));
            self.rows.iter().filter(|(key, _)| key.starts_with(prefix)).map(|(key, row)| (key.clone(), *row)).collect()
        }
    }

    fn stored() -> (Arc<Stored>, Table<u32>) {
        let rows = [("a", 1), ("b", 2), ("b[0]", 3), ("bc", 4)].map(|(key, row)| (Key::from(key), row));
        let source = Arc::new(Stored { rows: BTreeMap::from(rows), read: Mutex::default() });
        (Arc::clone(&source), Table::stored(source))
    }

    fn read(source: &Stored) -> Vec<String> {
        std::mem::take(&mut source.read.lock().expect("no panic while held"))
    }

    #[test]
    fn a_row_is_read_once_also_when_there_is_none() {
        let (source, table) = stored();
        assert_eq!((table.get("a"), table.get("a"), table.get("x"), table.get("x")), (Some(&1), Some(&1), None, None));
        assert_eq!(read(&source), ["a", "x"]);
    }

    #[test]
    fn what_was_changed_or_removed_is_not_read_over() {
        let (source, mut table) = stored();
        *table.get_mut("b").expect("it is stored") = 20;
        table.remove("b[0]");
        table.insert(Key::from("b[1]"), 5);
        let below: Vec<_> = table.under("b").map(|(key, row)| (key.to_string(), *row)).collect();
        assert_eq!(below, [("b".to_owned(), 20), ("b[1]".to_owned(), 5)]);
        assert_eq!(table.len(), 4, "a, b, b[1], bc");
        assert_eq!(table.take_changed().len(), 3);
        assert_eq!(read(&source), ["b", "b[0]", "b*", "*"]);
    }

    #[test]
    fn a_table_in_memory_equals_the_same_table_in_a_source() {
        let (source, table) = stored();
        let mut whole = Table::default();
        for (key, row) in &source.rows {
            whole.insert(key.clone(), *row);
        }
        assert_eq!(table, whole);
    }
}
