//! The test suite of the consensus library, on both disks.

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use futures::FutureExt;
use futures::future::{BoxFuture, join};
use openraft::testing::log::{StoreBuilder, Suite};
use openraft::{StorageError, TokioRuntime};
use tempfile::TempDir;

use crate::clock::{GroupClock, SystemClock};
use crate::consensus::Types;
use crate::disk::{FatalHook, MemoryDisk, RocksDisk, RocksRole, StateDisk};
use crate::log_store::{GroupLog, Log};
use crate::peer_clocks::PeerClocks;
use crate::state_store::StateMachine;
use crate::types::GroupId;

type C = Types<TokioRuntime>;

const GROUP: GroupId = GroupId::new(7).unwrap();

/// What outlives a store. Its end waits until the store is closed: a process that ends while a database is being
/// closed runs into locks that are destroyed already, and aborts.
struct Guard {
    writer: Option<JoinHandle<()>>,
    closed: Mutex<BoxFuture<'static, ()>>,
    _dir: Option<TempDir>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let ended = self.writer.take().map(JoinHandle::join);
        futures::executor::block_on(self.closed.get_mut().unwrap());
        // A failing test says why already.
        assert!(matches!(ended, Some(Ok(()))) || std::thread::panicking(), "the writer of the log failed");
    }
}

type Store<D> = (Guard, GroupLog<D>, StateMachine<D>);

fn store<D: StateDisk>(log: D, state: D, dir: Option<TempDir>) -> Store<D> {
    let fatal = FatalHook::new(|reason| panic!("{reason}"));
    let closed = join(log.closed(), state.closed()).map(drop).boxed();
    let closed = Mutex::new(closed);
    let (log, writer) = Log::open(log, fatal.clone());
    let writer = Some(std::thread::spawn(move || futures::executor::block_on(writer)));
    let clock = Arc::new(GroupClock::new(PeerClocks::new(SystemClock), 0));
    let machine = StateMachine::load(GROUP, state, clock, fatal).unwrap();
    (Guard { writer, closed, _dir: dir }, log.group(GROUP).unwrap(), machine)
}

struct Memory;

impl StoreBuilder<C, GroupLog<MemoryDisk>, StateMachine<MemoryDisk>, Guard> for Memory {
    async fn build(&self) -> Result<Store<MemoryDisk>, StorageError<C>> {
        Ok(store(MemoryDisk::default(), MemoryDisk::default(), None))
    }
}

struct Rocks;

impl StoreBuilder<C, GroupLog<RocksDisk>, StateMachine<RocksDisk>, Guard> for Rocks {
    async fn build(&self) -> Result<Store<RocksDisk>, StorageError<C>> {
        let dir = tempfile::tempdir().unwrap();
        let log = RocksDisk::create(&dir.path().join("log"), RocksRole::Log).unwrap();
        let state = RocksDisk::create(&dir.path().join("state"), RocksRole::State).unwrap();
        Ok(store(log, state, Some(dir)))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_library_accepts_the_memory_store() {
    Suite::test_all(Memory).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_library_accepts_the_rocksdb_store() {
    Suite::test_all(Rocks).await.unwrap();
}
