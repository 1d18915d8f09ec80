//! Executions from their start to their end.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::connection::Connection;
use super::kernel::{Syncs, written_bytes};
use super::load::{Tally, call};
use super::node::Node;
use super::readiness::Receipts;
use super::report::{Counts, Report};
use super::worker::{Notes, work};
use super::{Error, Hands, Options, Shape, documents};

/// How long executions under way may take to end.
const LAST: Duration = Duration::from_secs(60);
/// How long the worker may take to become known.
const KNOWN: Duration = Duration::from_secs(30);

/// Counters of the node's side, from a beginning to an end.
pub(super) struct Span {
    began: Instant,
    applied: u64,
    written: Option<u64>,
    syncs: Syncs,
}

impl Span {
    pub(super) async fn begin(node: &Node) -> Result<Self, Error> {
        let syncs = Syncs::begin(node.pid, node.data().as_deref()).await;
        let (applied, _) = node.applied().await?;
        Ok(Self { began: Instant::now(), applied, written: node.pid.and_then(written_bytes), syncs })
    }

    pub(super) async fn end(self, node: &Node) -> Result<(Duration, Counts), Error> {
        let took = self.began.elapsed();
        let written = node.pid.and_then(written_bytes);
        let (applied, _) = node.applied().await?;
        let syncs = self.syncs.end().await;
        let written_bytes = written.zip(self.written).map(|(after, before)| after.saturating_sub(before));
        Ok((took, Counts { commits: applied.saturating_sub(self.applied), syncs, written_bytes }))
    }
}

pub(super) async fn measure(options: &Options, shape: Shape, node: &Node) -> Result<Report, Error> {
    let connection = Connection::open(node, options.callers).await?;
    let document = documents::of_tasks(shape);
    connection.caller(0).register(&document).await?;
    let tally = Arc::new(Tally::new());
    let receipts = Arc::new(Receipts::new(prefix()));
    let notes = Notes { tally: Arc::clone(&tally), receipts: Arc::clone(&receipts) };
    let (known, mut is_known) = watch::channel(false);
    let mut working = tokio::spawn(work(connection.clone(), options.hands, options.slots, notes, known));
    let ended = |ended: Result<Error, tokio::task::JoinError>| match ended {
        Ok(error) => error,
        Err(error) => Error::Worker(error.to_string()),
    };
    tokio::select! {
        known = timeout(KNOWN, is_known.wait_for(|known| *known)) => {
            if known.is_err() {
                return Err(Error::Worker("the node did not answer its hello".to_owned()));
            }
        }
        error = &mut working => return Err(ended(error)),
    }
    let mut callers = call(&connection, options.callers, &document.name, &tally, &receipts);
    let (took, counts) = tokio::select! {
        measured = window(options, node, &tally) => measured?,
        error = &mut working => return Err(ended(error)),
    };
    if timeout(LAST, async { while callers.join_next().await.is_some() {} }).await.is_err() {
        tally.failed(format!("executions were still running {} s after the last start", LAST.as_secs()));
    }
    working.abort();
    let mut report = Report::about(what(options, shape), node);
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
async fn window(options: &Options, node: &Node, tally: &Tally) -> Result<(Duration, Counts), Error> {
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

fn what(options: &Options, shape: Shape) -> String {
    let shape = match shape {
        Shape::Chain(tasks) => format!("chain of {tasks}"),
        Shape::FanOut(tasks) => format!("fan-out of {tasks}"),
    };
    let hands = match options.hands {
        Hands::Stream => "a stream",
        Hands::Poll => "polls",
    };
    format!("{shape}, {} callers, {} slots over {hands}", options.callers, options.slots)
}
