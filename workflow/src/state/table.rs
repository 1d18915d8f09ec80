//! Rows by key, and which of them changed.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};

use crate::key::{self, Key};

/// Rows of one kind, in key order. Remembers which rows were written since [`Table::take_changed`], so that only they
/// are stored.
#[derive(Clone, Debug)]
pub struct Table<V, K = Key> {
    rows: BTreeMap<K, V>,
    changed: BTreeSet<K>,
}

impl<V, K> Default for Table<V, K> {
    fn default() -> Self {
        Self { rows: BTreeMap::new(), changed: BTreeSet::new() }
    }
}

/// Two tables are equal when their rows are; what was written lately is no part of the state.
impl<V: PartialEq, K: PartialEq> PartialEq for Table<V, K> {
    fn eq(&self, other: &Self) -> bool {
        self.rows == other.rows
    }
}

impl<V, K: Ord + Clone> Table<V, K> {
    /// The row at `key`.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.rows.get(key)
    }

    /// The row at `key`, to be changed.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let known = self.rows.get_key_value(key)?.0.clone();
        self.changed.insert(known);
        self.rows.get_mut(key)
    }

    /// Whether there is a row at `key`.
    pub fn contains<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.rows.contains_key(key)
    }

    /// Writes the row at `key`.
    pub fn insert(&mut self, key: K, row: V) {
        self.changed.insert(key.clone());
        self.rows.insert(key, row);
    }

    /// The row at `key`, made when it is missing, to be changed.
    pub fn entry(&mut self, key: &K, make: impl FnOnce() -> V) -> &mut V {
        self.changed.insert(key.clone());
        self.rows.entry(key.clone()).or_insert_with(make)
    }

    /// Removes the row at `key`.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let (key, row) = self.rows.remove_entry(key)?;
        self.changed.insert(key);
        Some(row)
    }

    /// All rows, by key.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.rows.iter()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// The keys written or removed since the last call, in order.
    pub fn take_changed(&mut self) -> BTreeSet<K> {
        std::mem::take(&mut self.changed)
    }
}

impl<V> Table<V> {
    /// Rows at or below `top`, by key; undo units lie below nothing, handlers not below the root.
    pub fn under<'a>(&'a self, top: &'a str) -> impl Iterator<Item = (&'a Key, &'a V)> {
        self.rows
            .range::<str, _>((std::ops::Bound::Included(top), std::ops::Bound::Unbounded))
            .take_while(move |(key, _)| key.starts_with(top))
            .filter(move |(key, _)| key::is_under(key, top))
    }
}
