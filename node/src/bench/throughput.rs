//! Executions from their start to their end.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep, timeout};

use super::connection::Connection;
use super::kernel::Syncs;
use super::load::{Tally, call};
use super::readiness::Receipts;
use super::report::{Counts, Report};
use super::target::Target;
use super::worker::{Notes, Worker, work};
use super::{Error, Hands, Options, Shape, documents};

/// How long executions under way may take to end.
const LAST: Duration = Duration::from_secs(60);
/// How long the worker may take to become known.
const KNOWN: Duration = Duration::from_secs(30);

/// Counters of the nodes' side, from a beginning to an end.
pub(super) struct Span {
    began: Instant,
    applied: u64,
    written: Option<u64>,
    cpu: Option<Duration>,
    syncs: Syncs,
}

impl Span {
    pub(super) async fn begin(node: &Target) -> Result<Self, Error> {
        let syncs = Syncs::begin(&node.pids, node.data().as_deref()).await;
        let applied = node.applied().await?;
        let (written, cpu) = (node.written_bytes(), node.cpu_time());
        Ok(Self { began: Instant::now(), applied, written, cpu, syncs })
    }

    pub(super) async fn end(self, node: &Target) -> Result<(Duration, Counts), Error> {
        let took = self.began.elapsed();
        let (written, cpu) = (node.written_bytes(), node.cpu_time());
        let applied = node.applied().await?;
        let syncs = self.syncs.end().await;
        let written_bytes = written.zip(self.written).map(|(after, before)| after.saturating_sub(before));
        let cpu_time = cpu.zip(self.cpu).map(|(after, before)| after.saturating_sub(before));
        Ok((took, Counts { commits: applied.saturating_sub(self.applied), syncs, written_bytes, cpu_time }))
    }
}

pub(super) async fn measure(options: &Options, shape: Shape, node: &Target) -> Result<Report, Error> {
    let connection = Connection::open(node, options.callers).await?;
    let document = documents::of_tasks(shape);
    connection.caller(0).register(&document).await?;
    let tally = Arc::new(Tally::new());
    let receipts = Arc::new(Receipts::new(prefix()));
    let notes = Notes { tally: Arc::clone(&tally), receipts: Arc::clone(&receipts) };
    let nodes = node.grpc.len();
    let (known, mut are_known) = watch::channel(0);
    let mut working = JoinSet::new();
    for at in 0..nodes {
        let slots = options.slots.div_ceil(u32::try_from(nodes).unwrap_or(1));
        let (connection, notes, known) = (connection.clone(), notes.clone(), known.clone());
        working.spawn(work(Worker { connection, at, slots, notes, known }, options.hands));
    }
    let ended = |ended: Option<Result<Error, JoinError>>| match ended {
        Some(Ok(error)) => error,
        Some(Err(error)) => Error::Worker(error.to_string()),
        None => Error::Worker("there is none".to_owned()),
    };
    tokio::select! {
        known = timeout(KNOWN, are_known.wait_for(|known| *known == nodes)) => {
            if known.is_err() {
                return Err(Error::Worker("a node did not answer its hello".to_owned()));
            }
        }
        error = working.join_next() => return Err(ended(error)),
    }
    let mut callers = call(&connection, options.callers, &document.name, &tally, &receipts);
    let (took, counts) = tokio::select! {
        measured = window(options, node, &tally) => measured?,
        error = working.join_next() => return Err(ended(error)),
    };
    if timeout(LAST, async { while callers.join_next().await.is_some() {} }).await.is_err() {
        tally.failed(format!("executions were still running {} s after the last start", LAST.as_secs()));
    }
    working.abort_all();
    let mut report = Report::about(what(options, shape, nodes), node);
    report.count(tally.executions(), took, counts);
    #[allow(clippy::cast_precision_loss)] // a figure for people
    let tasks_per_s = tally.tasks() as f64 / took.as_secs_f64();
    report.tasks_per_s = Some(tasks_per_s);
    report.execution_ms = Some(tally.times());
    report.ready_to_worker_ms = Some(receipts.compare(&mut connection.caller(0)).await?);
    (report.busy, report.failures, report.failed) = (tally.busy(), tally.failures(), tally.told());
    Ok(report)
}

/// Warms up, measures, and tells the callers to come to an end.
async fn window(options: &Options, node: &Target, tally: &Tally) -> Result<(Duration, Counts), Error> {
    sleep(options.warm_up).await;
    let span = Span::begin(node).await?;
    tally.begin();
    sleep(options.time).await;
    tally.end();
    span.end(node).await
}

/// Ids of this run begin with it.
pub(super) fn prefix() -> String {
    format!("bench-{}", uuid::Uuid::now_v7().simple())
}

fn what(options: &Options, shape: Shape, nodes: usize) -> String {
    let shape = match shape {
        Shape::Chain(tasks) => format!("chain of {tasks}"),
        Shape::FanOut(tasks) => format!("fan-out of {tasks}"),
    };
    let hands = match options.hands {
        Hands::Stream => "a stream",
        Hands::Poll => "polls",
    };
    let of = if nodes == 1 { String::new() } else { format!("{nodes} nodes, ") };
    format!("{of}{shape}, {} callers, {} slots over {hands}", options.callers, options.slots)
}
