//! Measures a node from outside, as its clients and workers see it.
//!
//! - [`target`]: the node that is measured, or the cluster
//! - [`own`]: nodes that are started for it, each a process of its own
//! - [`kernel`]: what the kernel counts about these processes
//! - [`documents`]: the workflows that are run
//! - [`connection`]: the way to the node
//! - [`worker`]: the worker, which does nothing but answer
//! - [`load`]: callers, who start executions and wait for their end
//! - [`readiness`]: how long a task that could be done waited for a worker
//! - [`throughput`], [`sleepers`], [`timers`]: what is measured
//! - [`report`]: the figures
//!
//! The load is closed: each caller starts the next execution when the one before is over. It runs in one process and on
//! one thread, so that it takes as little as possible from the node beside it.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::client;

mod connection;
mod documents;
mod kernel;
mod load;
mod own;
mod readiness;
mod report;
mod sleepers;
mod target;
mod throughput;
mod timers;
mod worker;

pub(crate) use report::{Report, Spread};

/// How executions look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// This many tasks, one after the other.
    Chain(u32),
    /// This many tasks at a time.
    FanOut(u32),
}

/// How tasks come to the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hands {
    /// Over one gRPC stream.
    Stream,
    /// Each slot asks by itself, and takes the next task with the answer to a result.
    Poll,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Executions from their start to their end.
    Throughput(Shape),
    /// Memory of this many executions that sleep.
    Sleepers(u32),
    /// How late this many timers fire that are due within a while.
    Timers { count: u32, within: Duration },
}

/// A node that runs already.
#[derive(Clone, Debug)]
pub(crate) struct Foreign {
    pub(crate) address: String,
    pub(crate) grpc_address: String,
    pub(crate) token: Option<String>,
    /// Its process, if it runs on this machine.
    pub(crate) pid: Option<u32>,
}

/// What is done, and with what.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) what: What,
    pub(crate) callers: u32,
    pub(crate) slots: u32,
    pub(crate) hands: Hands,
    pub(crate) time: Duration,
    pub(crate) warm_up: Duration,
    /// None: one is started.
    pub(crate) node: Option<Foreign>,
    /// How many shards nodes that are started have, if not the usual number.
    pub(crate) shards: Option<u16>,
    /// Where the data of nodes that are started lies; it is removed afterwards.
    pub(crate) data_dir: Option<PathBuf>,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Client(#[from] client::Error),
    #[error("NODE_FAILED: the node that was to be measured did not start: {0}")]
    Node(String),
    #[error("CALL_FAILED: {what}: {status}; see the node's log")]
    Call { what: &'static str, status: Box<tonic::Status> },
    #[error("CONNECTION_FAILED: the gRPC side of the node was not reached: {0}; check --grpc-address")]
    Connection(#[from] tonic::transport::Error),
    #[error("WORKER_LOST: the bench's own worker ended before the measurement did: {0}")]
    Worker(String),
    #[error("TOO_SLOW: {0}")]
    TooSlow(String),
    #[error("SYSTEM_ERROR: {0}")]
    System(#[from] std::io::Error),
}

impl Error {
    fn call(what: &'static str) -> impl FnOnce(tonic::Status) -> Self {
        move |status| Self::Call { what, status: Box::new(status) }
    }
}

/// Measures a node, or a cluster of so many.
pub(crate) async fn run(options: &Options, nodes: u16) -> Result<Report, Error> {
    let node = target::Target::get(options, nodes).await?;
    let measured = match options.what {
        What::Throughput(shape) => throughput::measure(options, shape, &node).await,
        What::Sleepers(count) => sleepers::measure(options, count, &node).await,
        What::Timers { count, within } => timers::measure(options, count, within, &node).await,
    };
    let version = node.version().await;
    node.stop().await;
    let mut report = measured?;
    report.server_version = version;
    Ok(report)
}

/// A member of a JSON object that is a number.
fn number(object: &Value, name: &str) -> u64 {
    object.get(name).and_then(Value::as_u64).unwrap_or_default()
}
