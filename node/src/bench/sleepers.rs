//! Memory of executions that sleep: what the node's process holds in RAM, less what it held when it was empty.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::connection::Connection;
use super::load::{Tally, start_all};
use super::report::Report;
use super::target::Target;
use super::throughput::{Span, prefix};
use super::{Error, Options, documents};

/// Executions before the node counts as warm and empty.
const WARM_UP: u32 = 100;
/// How often memory is looked at while it settles.
const LOOK: Duration = Duration::from_secs(1);
/// It has settled when it has not become less so many times.
const STEADY: u32 = 5;
/// It is looked at so often at most.
const LOOKS_MAX: u32 = 60;

pub(super) async fn measure(options: &Options, count: u32, node: &Target) -> Result<Report, Error> {
    let connection = Connection::open(node, options.callers).await?;
    let (document, tally, prefix) = (documents::sleeper(), Arc::new(Tally::new()), prefix());
    connection.caller(0).register(&document).await?;
    let ids = |kind: &str, count: u32| {
        (0..count).map(|number| (format!("{prefix}-{kind}-{number}"), "{}".to_owned())).collect::<Vec<_>>()
    };
    // Connections, caches and buffers belong to the empty node.
    start_all(&connection, options.callers, &document.name, ids("warm", WARM_UP), &tally).await;
    let empty = settled(node).await;
    let span = Span::begin(node).await?;
    start_all(&connection, options.callers, &document.name, ids("nap", count), &tally).await;
    let (took, counts) = span.end(node).await?;
    let full = settled(node).await;
    let wanted = u64::from(count) + u64::from(WARM_UP);
    if let Some(active) = node.active().await?.filter(|active| *active < wanted) {
        tally.failed(format!("{wanted} executions should sleep, the node speaks of {active}"));
    }
    let mut report = Report::about(format!("{count} sleepers, {} callers", options.callers), node);
    report.count(u64::from(count), took, counts);
    (report.rss_empty_bytes, report.rss_bytes) = (empty, full);
    #[allow(clippy::cast_precision_loss)] // a figure for people
    let each = |full: u64, empty: u64| full.saturating_sub(empty) as f64 / f64::from(count.max(1));
    report.rss_bytes_per_execution = full.zip(empty).map(|(full, empty)| each(full, empty));
    (report.busy, report.failures, report.failed) = (tally.busy(), tally.failures(), tally.told());
    Ok(report)
}

/// Memory once it becomes no less: what is idle is put aside after a while.
async fn settled(node: &Target) -> Option<u64> {
    let (mut least, mut steady) = (node.rss_bytes()?, 0);
    for _ in 0..LOOKS_MAX {
        sleep(LOOK).await;
        let now = node.rss_bytes()?;
        // Less than a hundredth is noise.
        steady = if now + now / 100 < least { 0 } else { steady + 1 };
        least = least.min(now);
        if steady == STEADY {
            break;
        }
    }
    node.rss_bytes()
}
