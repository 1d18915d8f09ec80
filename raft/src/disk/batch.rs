//! Changes that happen together.

use bytes::Bytes;

/// Rows with `from <= key < to`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// The first key in it.
    pub from: Vec<u8>,
    /// The first key behind it.
    pub to: Vec<u8>,
}

impl KeyRange {
    /// All keys that begin with `prefix`, which must not consist of 0xFF bytes alone.
    pub fn prefix(prefix: &[u8]) -> KeyRange {
        let mut to = prefix.to_vec();
        while let Some(last) = to.pop() {
            if last < u8::MAX {
                to.push(last + 1);
                break;
            }
        }
        debug_assert!(!to.is_empty(), "a prefix of 0xFF bytes has no end");
        KeyRange { from: prefix.to_vec(), to }
    }

    /// Whether a key lies in it.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.from.as_slice() <= key && key < self.to.as_slice()
    }
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Sets a row.
    Put {
        /// Its key.
        key: Vec<u8>,
        /// Its value.
        value: Bytes,
    },
    /// Removes a row, if it is there.
    Delete {
        /// Its key.
        key: Vec<u8>,
    },
    /// Removes all rows of a range.
    DeleteRange(KeyRange),
}

/// Changes that happen together, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    ops: Vec<Op>,
    size_bytes: usize,
}

impl Batch {
    /// Sets a row.
    pub fn put(&mut self, key: Vec<u8>, value: impl Into<Bytes>) {
        let value = value.into();
        self.size_bytes += key.len() + value.len();
        self.ops.push(Op::Put { key, value });
    }

    /// Removes a row.
    pub fn delete(&mut self, key: Vec<u8>) {
        self.size_bytes += key.len();
        self.ops.push(Op::Delete { key });
    }

    /// Removes the rows of a range; nothing if the range is empty.
    pub fn delete_range(&mut self, range: KeyRange) {
        if range.from < range.to {
            self.size_bytes += range.from.len() + range.to.len();
            self.ops.push(Op::DeleteRange(range));
        }
    }

    /// Adds the changes of another batch behind these.
    pub fn append(&mut self, other: Batch) {
        self.size_bytes += other.size_bytes;
        self.ops.extend(other.ops);
    }

    /// The changes.
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// How many bytes of keys and values it holds.
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }
}
