//! What a node stands on in production.

use std::future::Future;
use std::thread;

use openraft::TokioRuntime;

use crate::clock::SystemClock;
use crate::disk::RocksDisk;
use crate::network::GrpcTransport;
use crate::node::Environment;

/// Tokio, RocksDB, gRPC and the clocks of the system.
#[derive(Debug, Clone, Copy)]
pub struct Production;

impl Environment for Production {
    type Runtime = TokioRuntime;
    type LogDisk = RocksDisk;
    type StateDisk = RocksDisk;
    type Transport = GrpcTransport;
    type Clock = SystemClock;

    fn run_writer(writer: impl Future<Output = ()> + Send + 'static) -> std::io::Result<()> {
        let run = || futures::executor::block_on(writer);
        thread::Builder::new().name("orbit-log".into()).spawn(run).map(drop)
    }
}
