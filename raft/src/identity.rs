//! Whose data a directory holds.
//!
//! ```text
//!   <data>/IDENTITY    "ORBITID" │ format u8 = 1 │ length u32 │ protobuf │ XXH3-64 of all before, u64    big-endian
//!   <data>/log/        RocksDB, with the same record in a row of its own
//!   <data>/state/      RocksDB, with the same record in a row of its own
//! ```
//!
//! A node *is* its disk: what it has promised — votes, entries — is there. So its identity lies beside the data and in
//! both databases, and a directory in which these do not agree is not opened. Nothing is ever deleted or made anew to
//! repair it: a missing file is damage.
//!
//! Creating writes the file `CREATING` first, then the databases, then `IDENTITY`, then removes `CREATING`. Whoever
//! finds `CREATING` without `IDENTITY` may create again: before that nothing was promised.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use orbit_proto::store;
use prost::Message;
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_64;

use crate::disk::{Batch, Disk, RocksDisk, RocksRole, View};
use crate::log_store::key::{decode, encode};
use crate::state_store::key;
use crate::types::NodeId;

const MAGIC: &[u8; 8] = b"ORBITID\x01";

/// Who a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The cluster.
    pub cluster: Uuid,
    /// The number of the node in it.
    pub node: NodeId,
    /// This life of the node. One that lost its disk is another node, whatever its name.
    pub incarnation: Uuid,
}

/// A directory is not opened. Nothing in it was changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no data.
    #[error("{path} holds no data of Orbit; create it first, or check the path")]
    Missing {
        /// The directory.
        path: PathBuf,
    },
    /// There is data, but not (only) that of Orbit.
    #[error(
        "{path} is not empty and has no readable IDENTITY; if it is the data of a node, restore that file from a \
             copy or replace the node; otherwise choose an empty directory"
    )]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// The identity cannot be read.
    #[error("{path} is damaged ({reason}); restore it from a copy, or replace this node")]
    Damaged {
        /// The file or database.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The data belongs to another cluster.
    #[error("{path} belongs to cluster {found}, not to {expected}; check the path, or the cluster to join")]
    OtherCluster {
        /// The directory.
        path: PathBuf,
        /// Whose it is.
        found: Uuid,
        /// Whose it should be.
        expected: Uuid,
    },
    /// Log and state are not of one node.
    #[error("{path} belongs to node {found:?}, the directory it is in to {expected:?}; put back what belongs together")]
    Mixed {
        /// The database.
        path: PathBuf,
        /// Whose it is.
        found: Identity,
        /// Whose it should be.
        expected: Identity,
    },
    /// There is data already.
    #[error("{path} holds the data of node {} already; open it instead", .found.node)]
    Exists {
        /// The directory.
        path: PathBuf,
        /// Whose it is.
        found: Identity,
    },
    /// A database does not open.
    #[error("{path} does not open: {source}")]
    Disk {
        /// The database.
        path: PathBuf,
        /// Why.
        source: crate::disk::Error,
    },
    /// A file cannot be read or written.
    #[error("{path} cannot be read or written: {source}; check the disk, its free space and the rights")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The databases of a node, opened and found to belong together.
#[derive(Debug)]
pub struct Storage {
    /// Who the node is.
    pub identity: Identity,
    /// Its log.
    pub log: RocksDisk,
    /// Its state.
    pub state: RocksDisk,
}

impl Storage {
    /// Creates the data of a new node in a directory that is empty or not there.
    pub fn create(path: &Path, identity: Identity) -> Result<Self, Error> {
        if let Some(found) = read_identity(path)? {
            return Err(Error::Exists { path: path.to_owned(), found });
        }
        let creating = path.join("CREATING");
        if !is_empty(path)? && !creating.exists() {
            return Err(Error::NotEmpty { path: path.to_owned() });
        }
        let failed = |source| Error::Io { path: path.to_owned(), source };
        fs::create_dir_all(path).map_err(failed)?;
        write_synced(&creating, b"")?;
        let open = |name: &str, role| {
            let path = path.join(name);
            let open = || {
                let disk = RocksDisk::create(&path, role)?;
                let mut batch = Batch::default();
                batch.put(key::identity(), encode(&record(&identity)));
                disk.write(batch)?;
                futures::executor::block_on(disk.sync())?;
                Ok(disk)
            };
            open().map_err(|source| Error::Disk { path: path.clone(), source })
        };
        let (log, state) = (open("log", RocksRole::Log)?, open("state", RocksRole::State)?);
        write_synced(&path.join("IDENTITY"), &file(&identity))?;
        fs::remove_file(&creating).map_err(failed)?;
        Ok(Storage { identity, log, state })
    }

    /// Opens the data of a node. With `cluster` it must belong to that one.
    pub fn open(path: &Path, cluster: Option<Uuid>) -> Result<Self, Error> {
        let Some(identity) = read_identity(path)? else {
            let path = path.to_owned();
            let nothing = is_empty(&path)? || path.join("CREATING").exists();
            return Err(if nothing { Error::Missing { path } } else { Error::NotEmpty { path } });
        };
        if let Some(expected) = cluster.filter(|expected| *expected != identity.cluster) {
            return Err(Error::OtherCluster { path: path.to_owned(), found: identity.cluster, expected });
        }
        let open = |name: &str, role| {
            let path = path.join(name);
            let failed = |source| Error::Disk { path: path.clone(), source };
            let disk = RocksDisk::open(&path, role).map_err(failed)?;
            let row = disk.get(&key::identity()).map_err(failed)?;
            let damaged = |reason: String| Error::Damaged { path: path.clone(), reason };
            let row = row.ok_or_else(|| damaged("it does not say whose it is".into()))?;
            let found = decode("identity", row).map_err(|e| damaged(e.to_string()))?;
            let found = identity_of(&found).ok_or_else(|| damaged("its identity is not complete".into()))?;
            if found == identity {
                Ok(disk)
            } else {
                Err(Error::Mixed { path: path.clone(), found, expected: identity })
            }
        };
        Ok(Storage { identity, log: open("log", RocksRole::Log)?, state: open("state", RocksRole::State)? })
    }

    /// Opens the data if there is some, and creates it with `identity` if the directory is empty or not there.
    pub fn open_or_create(path: &Path, identity: impl FnOnce() -> Identity) -> Result<Self, Error> {
        match Self::open(path, None) {
            Err(Error::Missing { .. }) => Self::create(path, identity()),
            other => other,
        }
    }
}

fn record(identity: &Identity) -> store::Identity {
    store::Identity {
        cluster: identity.cluster.as_bytes().to_vec().into(),
        node_id: identity.node.0,
        incarnation: identity.incarnation.as_bytes().to_vec().into(),
    }
}

fn identity_of(record: &store::Identity) -> Option<Identity> {
    Some(Identity {
        cluster: Uuid::from_slice(&record.cluster).ok()?,
        node: NodeId(record.node_id),
        incarnation: Uuid::from_slice(&record.incarnation).ok()?,
    })
}

/// The file that says whose a directory is.
pub(crate) fn file(identity: &Identity) -> Vec<u8> {
    let body = record(identity).encode_to_vec();
    let mut bytes = MAGIC.to_vec();
    bytes.extend((body.len() as u32).to_be_bytes());
    bytes.extend(body);
    bytes.extend(xxh3_64(&bytes).to_be_bytes());
    bytes
}

fn read_identity(path: &Path) -> Result<Option<Identity>, Error> {
    let path = path.join("IDENTITY");
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::Io { path, source }),
    };
    parse(&bytes).map(Some).map_err(|reason| Error::Damaged { path, reason: reason.to_owned() })
}

fn parse(bytes: &[u8]) -> Result<Identity, &'static str> {
    let (content, hash) = bytes.split_last_chunk::<8>().ok_or("it is too short")?;
    if xxh3_64(content).to_be_bytes() != *hash {
        return Err("its checksum is wrong");
    }
    let body = content.strip_prefix(MAGIC).ok_or("it is of an unknown format")?;
    let (length, body) = body.split_first_chunk::<4>().ok_or("it is too short")?;
    if u32::from_be_bytes(*length) as usize != body.len() {
        return Err("its length is wrong");
    }
    let record = store::Identity::decode(Bytes::copy_from_slice(body)).map_err(|_| "it cannot be decoded")?;
    identity_of(&record).ok_or("it is not complete")
}

/// What may lie in a directory without data: mounted file systems bring the first along, and a node that waits to join
/// a cluster writes the others.
const BESIDE: [&str; 5] = ["lost+found", "addresses.json", "addresses.json.new", "joining.json", "joining.json.new"];

fn is_empty(path: &Path) -> Result<bool, Error> {
    match fs::read_dir(path) {
        Ok(entries) => Ok(entries.flatten().all(|entry| BESIDE.iter().any(|name| entry.file_name() == *name))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(source) => Err(Error::Io { path: path.to_owned(), source }),
    }
}

/// Writes a file so that it is there as a whole or not at all, also after a power cut.
fn write_synced(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let write = || {
        let new = path.with_extension("new");
        let mut file = File::create(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        match path.parent() {
            Some(parent) => File::open(parent)?.sync_all(),
            None => Ok(()),
        }
    };
    write().map_err(|source| Error::Io { path: path.to_owned(), source })
}
