//! How late timers fire: from when one is due to the time of its `TimerFired`, both by the history.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinSet;

use super::connection::{Caller, Connection};
use super::load::{Tally, start_all};
use super::readiness::wall_us;
use super::report::{Report, Spread, histogram};
use super::target::Target;
use super::throughput::{Span, prefix};
use super::{Error, Options, documents, number};

/// The first timer is due this long after the first start, and a millisecond more for each so many executions.
const LEAD: Duration = Duration::from_secs(3);
/// So many starts per millisecond are expected at least.
const STARTS_PER_MS: u32 = 1;

pub(super) async fn measure(options: &Options, count: u32, within: Duration, node: &Target) -> Result<Report, Error> {
    let connection = Connection::open(node, options.callers).await?;
    let (document, tally, prefix) = (documents::timer(), Arc::new(Tally::new()), prefix());
    connection.caller(0).register(&document).await?;
    let lead_ms = u64::try_from(LEAD.as_millis()).unwrap_or_default() + u64::from(count / STARTS_PER_MS);
    let first_ms = wall_us() / 1_000 + lead_ms;
    let within_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
    let ids: Vec<_> = (0..count)
        .map(|number| {
            let at_ms = first_ms + within_ms * u64::from(number) / u64::from(count.max(1));
            (format!("{prefix}-{number}"), format!("{{\"at\":{at_ms}}}"))
        })
        .collect();
    let names = ids.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>();
    let span = Span::begin(node).await?;
    start_all(&connection, options.callers, &document.name, ids, &tally).await;
    if wall_us() / 1_000 >= first_ms {
        return Err(Error::TooSlow(format!("timers were due before {count} executions were started; take fewer")));
    }
    let late = Arc::new(Late { names: Mutex::new(names.into_iter()), times: Mutex::new(histogram()) });
    let mut all = JoinSet::new();
    for number in 0..options.callers {
        let (caller, late, tally) = (connection.caller(number), Arc::clone(&late), Arc::clone(&tally));
        all.spawn(async move { late.listen(caller, &tally).await });
    }
    while all.join_next().await.is_some() {}
    let (took, counts) = span.end(node).await?;
    let what = format!("{count} timers within {} ms, {} callers", within_ms, options.callers);
    let mut report = Report::about(what, node);
    report.count(u64::from(count), took, counts);
    report.timer_late_ms = Some(Spread::of(&late.times.lock().unwrap_or_else(PoisonError::into_inner)));
    (report.busy, report.failures, report.failed) = (tally.busy(), tally.failures(), tally.told());
    Ok(report)
}

/// Executions whose timers are looked at, and how late these were, µs.
struct Late {
    names: Mutex<std::vec::IntoIter<String>>,
    times: Mutex<hdrhistogram::Histogram<u64>>,
}

impl Late {
    /// Waits for the end of one execution after the other and reads its history.
    async fn listen(&self, mut caller: Caller, tally: &Tally) {
        loop {
            let next = self.names.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(id) = next else { return };
            match caller.end(&id).await {
                Ok(status) if status == "COMPLETED" => {}
                Ok(status) => tally.failed(format!("an execution ended as {status}, for example {id}")),
                Err(status) => tally.failed(format!("the end of {id} was not heard: {status}")),
            }
            match caller.history(&id).await.map(|events| late_ms(&events)) {
                Ok(Some(ms)) => {
                    self.times.lock().unwrap_or_else(PoisonError::into_inner).saturating_record(ms * 1_000);
                }
                Ok(None) => tally.failed(format!("a timer did not fire, or fired too early: {id}")),
                Err(error) => tally.failed(error.to_string()),
            }
        }
    }
}

/// How late the timer was; none if it did not fire, or before its time.
fn late_ms(events: &[Value]) -> Option<u64> {
    let of = |name: &str| events.iter().find(|event| event.get("type").and_then(Value::as_str) == Some(name));
    let due_ms = number(of("TimerStarted")?, "fire_at_ms");
    number(of("TimerFired")?, "timestamp_ms").checked_sub(due_ms)
}

#[cfg(test)]
mod tests {
    use super::late_ms;

    #[test]
    fn a_timer_is_late_or_broken() {
        let history = |fired: u64| {
            let text = format!(
                r#"[{{"seq":1,"type":"TimerStarted","timestamp_ms":5,"fire_at_ms":100}},
                    {{"seq":2,"type":"TimerFired","timestamp_ms":{fired}}}]"#
            );
            serde_json::from_str::<Vec<serde_json::Value>>(&text).expect("events")
        };
        assert_eq!(late_ms(&history(107)), Some(7));
        assert_eq!(late_ms(&history(99)), None);
        assert_eq!(late_ms(&history(107)[..1]), None);
    }
}
