//! The test suite of the consensus library, on both disks.

use std::sync::Arc;

use openraft::testing::log::{StoreBuilder, Suite};
use openraft::{StorageError, TokioRuntime};
use tempfile::TempDir;

use crate::clock::{GroupClock, SystemClock};
use crate::consensus::Types;
use crate::disk::{FatalHook, MemoryDisk, RocksDisk, RocksRole, StateDisk};
use crate::log_store::{GroupLog, Log};
use crate::state_store::StateMachine;
use crate::types::GroupId;

type C = Types<TokioRuntime>;

const GROUP: GroupId = GroupId::new(7).unwrap();

fn stores<D: StateDisk>(log: D, state: D) -> (GroupLog<D>, StateMachine<D, SystemClock>) {
    let fatal = FatalHook::new(|reason| panic!("{reason}"));
    let (log, writer) = Log::open(log, fatal.clone());
    std::thread::spawn(move || futures::executor::block_on(writer));
    let clock = Arc::new(GroupClock::new(SystemClock, 0));
    (log.group(GROUP).unwrap(), StateMachine::load(GROUP, state, clock, fatal).unwrap())
}

struct Memory;

impl StoreBuilder<C, GroupLog<MemoryDisk>, StateMachine<MemoryDisk, SystemClock>> for Memory {
    async fn build(
        &self,
    ) -> Result<((), GroupLog<MemoryDisk>, StateMachine<MemoryDisk, SystemClock>), StorageError<C>> {
        let (log, state) = stores(MemoryDisk::default(), MemoryDisk::default());
        Ok(((), log, state))
    }
}

struct Rocks;

impl StoreBuilder<C, GroupLog<RocksDisk>, StateMachine<RocksDisk, SystemClock>, TempDir> for Rocks {
    async fn build(
        &self,
    ) -> Result<(TempDir, GroupLog<RocksDisk>, StateMachine<RocksDisk, SystemClock>), StorageError<C>> {
        let dir = tempfile::tempdir().unwrap();
        let log = RocksDisk::create(&dir.path().join("log"), RocksRole::Log).unwrap();
        let state = RocksDisk::create(&dir.path().join("state"), RocksRole::State).unwrap();
        let (log, state) = stores(log, state);
        Ok((dir, log, state))
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
