//! The format of the cluster: what its nodes write, all of them can read.
//!
//! ```text
//!   format  since   what it adds
//!   1       0.2.0   a node by itself: tables 1 to 16, 32 to 34
//!   2       0.3.0   clusters: table 35, the nodes, and with it every message between nodes
//! ```
//!
//! The number is in the record of the cluster, in the group above the shards. A new cluster begins with the newest; it
//! is raised by an operator ([`Engine::raise`](crate::engine::Engine::raise)) once every node knows it. Until then the
//! nodes may be stopped and started with the version before. A node that does not know the format of its data ends, and
//! the others do not speak with it.
//!
//! What is new is entered in [`TABLES`] with the format that brings it; [`Formats`] stands at the one door that all
//! writes go through and asks there. Whoever has something new to write or say looks with [`Formats::allows`] before,
//! and goes without it where it is not allowed yet.

use std::sync::Arc;

use bytes::Bytes;
use orbit_proto::engine::ClusterRecord;
use orbit_proto::store::write::Op;
use orbit_raft::{Gate, GroupId, Knows, Part};
use prost::Message;
use tokio::sync::watch;
use workflow::decide::RULES;

use crate::error::{Code, Error, Result};
use crate::failure::of_storage;

/// The newest format that this version knows, and the one that it gives a new cluster.
pub const NEWEST: u32 = 2;
/// The format of clusters that say nothing of it.
const FIRST: u32 = 1;
/// The first version that knows each format, from the first one on.
const SINCE: [&str; NEWEST as usize] = ["0.2.0", "0.3.0"];
/// From this format on a cluster has more than one node.
pub(crate) const CLUSTERS: u32 = 2;
/// The versions of the rules by which this version decides runs. The rules that runs of a cluster may have been created
/// with are part of its format: whoever knows the format knows them.
const RULES_KNOWN: [u32; 1] = [RULES];

/// The tables and the format that brings each.
const TABLES: [(u8, u32); 20] = [
    (1, 1),
    (2, 1),
    (3, 1),
    (4, 1),
    (5, 1),
    (6, 1),
    (7, 1),
    (8, 1),
    (9, 1),
    (10, 1),
    (11, 1),
    (12, 1),
    (13, 1),
    (14, 1),
    (15, 1),
    (16, 1),
    (32, 1),
    (33, 1),
    (34, 1),
    (35, CLUSTERS),
];

/// The format byte of a record of format 1. Others have [`FENCED`], which versions refuse that know no formats.
const PLAIN: u8 = 1;
/// The format byte of the record of a cluster whose format is 2 or above. It stays, so that every later version can at
/// least read the number and say what to do.
const FENCED: u8 = 2;

/// What this binary knows, as it tells its peers and keeps in the rows of the cluster.
#[must_use]
pub fn knows() -> Knows {
    Knows { version: env!("CARGO_PKG_VERSION").to_owned(), format: NEWEST, rules: RULES_KNOWN.to_vec() }
}

/// Whether runs that began under these rules can be decided here.
///
/// # Errors
/// `CLUSTER_FORMAT`.
pub(crate) fn may_decide(rules: u32) -> Result<()> {
    if RULES_KNOWN.contains(&rules) {
        return Ok(());
    }
    let message = format!(
        "this execution is decided by rules {rules}, and this version ({}) knows {RULES_KNOWN:?}: start this node with \
         the version that began it, or a newer one",
        env!("CARGO_PKG_VERSION")
    );
    Err(Error::new(Code::ClusterFormat, message))
}

/// Why a node cannot be part of a cluster of this format; nothing if it can. `who`: how it is named.
pub(crate) fn lacks(who: &str, knows: &Knows, cluster: &ClusterRecord) -> Option<Error> {
    let (format, theirs) = (format_of(cluster), knows.format.max(FIRST));
    let version = if knows.version.is_empty() { "unknown" } else { &knows.version };
    if theirs < format {
        let message = format!(
            "{who} (version {version}) knows formats up to {theirs}, the cluster has format {format}: start it with \
             version {} or a newer one",
            since(cluster)
        );
        return Some(Error::new(Code::ClusterFormat, message));
    }
    let unknown = RULES_KNOWN.iter().find(|rules| !knows.rules.contains(rules))?;
    let message = format!(
        "{who} (version {version}) does not know rules {unknown}, by which executions of this cluster may be decided: \
         start it with version {} or a newer one",
        since(cluster)
    );
    Some(Error::new(Code::ClusterFormat, message))
}

/// The record of a new cluster, or of one that is raised, by a node that knows so much.
pub(crate) fn newest(shards: u32, knows: &Knows) -> ClusterRecord {
    let since = SINCE.get(knows.format as usize - 1).copied().unwrap_or(&knows.version);
    ClusterRecord { shards, format: knows.format, format_since: since.to_owned() }
}

/// The format in the record of a cluster.
pub(crate) fn format_of(record: &ClusterRecord) -> u32 {
    record.format.max(FIRST)
}

fn since(record: &ClusterRecord) -> &str {
    match SINCE.get(format_of(record) as usize - 1) {
        Some(since) => since,
        None => &record.format_since,
    }
}

/// The record of a cluster as a row.
pub(crate) fn encode(record: &ClusterRecord) -> Bytes {
    let mut bytes = vec![if format_of(record) == FIRST { PLAIN } else { FENCED }];
    bytes.extend(record.encode_to_vec());
    bytes.into()
}

/// Reads what [`encode`] wrote, of this version or another; with a format that is known.
///
/// # Errors
/// `CLUSTER_FORMAT` for one that it does not know, `STORAGE_ERROR` for anything else.
fn decode(row: &[u8], knows: &Knows) -> Result<ClusterRecord> {
    let record = match row.split_first() {
        Some((&(PLAIN | FENCED), record)) => ClusterRecord::decode(record).map_err(of_storage)?,
        _ => return Err(of_storage("the record of the cluster is damaged, or was written by a much newer version")),
    };
    let (format, since) = (format_of(&record), &record.format_since);
    if format <= knows.format {
        return Ok(record);
    }
    let message = format!(
        "the data is of format {format}, which versions from {since} on know; this is {} and knows formats up to {}: \
         start this node with version {since} or a newer one; nothing in its data is changed",
        knows.version, knows.format
    );
    Err(Error::new(Code::ClusterFormat, message))
}

/// The format of the cluster as this node knows it, asked before anything is written. A clone is another handle.
#[derive(Clone, Debug)]
pub(crate) struct Formats(Arc<watch::Sender<u32>>);

impl Formats {
    /// Before the record of the cluster was read nothing new is written.
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(FIRST)))
    }

    /// The record was read.
    pub(crate) fn learn(&self, record: &ClusterRecord) {
        self.0.send_if_modified(|known| {
            let format = format_of(record);
            std::mem::replace(known, format) != format
        });
    }

    /// The format as this node knows it.
    pub(crate) fn now(&self) -> u32 {
        *self.0.borrow()
    }

    /// Whether what a format brought may be written and said.
    ///
    /// # Errors
    /// `CLUSTER_FORMAT`, with what to do.
    pub(crate) fn allows(&self, format: u32) -> Result<()> {
        if self.now() >= format {
            return Ok(());
        }
        let message = format!(
            "the cluster has format {}, and this needs {format}; once every node runs a version that knows it, raise \
             it: orbit cluster raise",
            self.now()
        );
        Err(Error::new(Code::ClusterFormat, message))
    }

    fn of_table(&self, number: u8) -> Option<String> {
        match TABLES.iter().find(|(table, _)| *table == number) {
            Some((_, format)) => self.allows(*format).err().map(|error| error.message),
            None => Some(format!("table {number} belongs to no format of a cluster")),
        }
    }
}

impl Gate for Formats {
    fn format(&self) -> u32 {
        self.now()
    }

    fn refusal(&self, _: GroupId, parts: &[Part]) -> Option<String> {
        let set = parts.iter().flat_map(|part| &part.writes).filter_map(|write| match &write.op {
            Some(Op::Put(put)) => put.key.first(),
            // What is not there yet may be removed.
            _ => None,
        });
        set.copied().find_map(|table| self.of_table(table))
    }
}

/// The record of the cluster in this replica.
pub(crate) fn stored(row: Option<Bytes>, knows: &Knows) -> Result<Option<ClusterRecord>> {
    row.map(|row| decode(&row, knows)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table;

    fn of_format(format: u32) -> ClusterRecord {
        ClusterRecord { shards: 4, format, format_since: "9.1.0".to_owned() }
    }

    #[test]
    fn the_records_of_every_format_are_these_bytes() {
        let first = ClusterRecord { shards: 16, ..ClusterRecord::default() };
        // As 0.1.0 and 0.2.0 wrote it.
        assert_eq!(*encode(&first), [0x01, 0x08, 0x10]);
        assert_eq!(decode(&[0x01, 0x08, 0x10], &knows()).unwrap(), first);
        assert_eq!(*encode(&newest(16, &knows())), *b"\x02\x08\x10\x10\x02\x1a\x050.3.0");
        assert_eq!(decode(b"\x02\x08\x10\x10\x02\x1a\x050.3.0", &knows()).unwrap(), newest(16, &knows()));
    }

    #[test]
    fn a_format_that_is_not_known_is_refused_with_the_version_that_knows_it() {
        let error = decode(&encode(&of_format(NEWEST + 1)), &knows()).unwrap_err();
        assert_eq!(error.code, Code::ClusterFormat);
        assert!(error.message.contains("start this node with version 9.1.0"), "{error}");
        assert_eq!(decode(b"\x03\x08\x10", &knows()).unwrap_err().code, Code::StorageError);
        assert_eq!(decode(b"", &knows()).unwrap_err().code, Code::StorageError);
    }

    #[test]
    fn nothing_is_written_that_the_format_does_not_bring() {
        let formats = Formats::new();
        let sets = |table: u8| {
            let writes = vec![table::put(vec![table, 0, 0], Bytes::from_static(b"\x01"))];
            [Part { writes, ..Part::default() }]
        };
        let group = GroupId::new(0).unwrap();
        for (table, format) in TABLES {
            assert_eq!(formats.refusal(group, &sets(table)).is_some(), format > FIRST, "table {table}");
        }
        assert!(formats.refusal(group, &sets(35)).unwrap().contains("orbit cluster raise"));
        formats.learn(&newest(4, &knows()));
        assert!(TABLES.iter().all(|(table, _)| formats.refusal(group, &sets(*table)).is_none()));
        assert!(formats.refusal(group, &sets(99)).unwrap().contains("no format"));
    }

    #[test]
    fn a_node_is_taken_only_if_it_knows_format_and_rules() {
        let old = Knows { version: "0.2.0".to_owned(), format: 1, rules: RULES_KNOWN.to_vec() };
        let message = lacks("node 3", &old, &newest(4, &knows())).unwrap().message;
        assert!(message.contains("node 3 (version 0.2.0)") && message.contains("version 0.3.0"), "{message}");
        assert_eq!(lacks("node 3", &knows(), &newest(4, &knows())), None);
        assert_eq!(lacks("node 3", &old, &of_format(0)), None);
        let other = Knows { rules: vec![7], ..knows() };
        assert!(lacks("node 3", &other, &newest(4, &knows())).unwrap().message.contains("rules 1"));
        assert_eq!(may_decide(RULES), Ok(()));
        assert_eq!(may_decide(RULES + 1).unwrap_err().code, Code::ClusterFormat);
    }
}
