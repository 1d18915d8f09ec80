//! Callers: each starts an execution, waits for its end, and starts the next.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::connection::{Caller, Connection, NotStarted};
use super::readiness::Receipts;
use super::report::{Spread, histogram, micros};

/// How long a caller waits when the node is busy.
const BUSY: Duration = Duration::from_millis(10);
/// Failures that are told in words.
const TOLD_MAX: usize = 5;

/// What is counted. Times and counts are those of what ended while measuring; failures are all that there were.
pub(super) struct Tally {
    measuring: AtomicBool,
    stopped: AtomicBool,
    next: AtomicU64,
    executions: AtomicU64,
    tasks: AtomicU64,
    busy: AtomicU64,
    failures: AtomicU64,
    told: Mutex<Vec<String>>,
    times: Mutex<Histogram<u64>>,
}

impl Tally {
    pub(super) fn new() -> Self {
        Self {
            measuring: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            next: AtomicU64::new(0),
            executions: AtomicU64::new(0),
            tasks: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            told: Mutex::default(),
            times: Mutex::new(histogram()),
        }
    }

    /// From now on it counts.
    pub(super) fn begin(&self) {
        self.measuring.store(true, Ordering::Relaxed);
    }

    /// It counts no longer, and callers start nothing more.
    pub(super) fn end(&self) {
        self.measuring.store(false, Ordering::Relaxed);
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Something went wrong.
    pub(super) fn failed(&self, why: String) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() < TOLD_MAX && !told.contains(&why) {
            told.push(why);
        }
    }

    /// The worker got a task.
    pub(super) fn took_task(&self) {
        if self.measuring.load(Ordering::Relaxed) {
            self.tasks.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The node was busy.
    pub(super) fn was_busy(&self) {
        self.busy.fetch_add(1, Ordering::Relaxed);
    }

    fn completed(&self, took: Duration) {
        if self.measuring.load(Ordering::Relaxed) {
            self.executions.fetch_add(1, Ordering::Relaxed);
            let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
            times.saturating_record(micros(took));
        }
    }

    pub(super) fn executions(&self) -> u64 {
        self.executions.load(Ordering::Relaxed)
    }

    pub(super) fn tasks(&self) -> u64 {
        self.tasks.load(Ordering::Relaxed)
    }

    pub(super) fn busy(&self) -> u64 {
        self.busy.load(Ordering::Relaxed)
    }

    pub(super) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    pub(super) fn told(&self) -> Vec<String> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn times(&self) -> Spread {
        Spread::of(&self.times.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The callers, at work until the tally ends.
pub(super) fn call(
    connection: &Connection,
    callers: u32,
    workflow: &str,
    tally: &Arc<Tally>,
    receipts: &Arc<Receipts>,
) -> JoinSet<()> {
    let mut all = JoinSet::new();
    for number in 0..callers {
        let (caller, workflow) = (connection.caller(number), workflow.to_owned());
        let (tally, receipts) = (Arc::clone(tally), Arc::clone(receipts));
        all.spawn(async move { one(caller, &workflow, &tally, &receipts).await });
    }
    all
}

async fn one(mut caller: Caller, workflow: &str, tally: &Tally, receipts: &Receipts) {
    while !tally.stopped.load(Ordering::Relaxed) {
        let number = tally.next.fetch_add(1, Ordering::Relaxed);
        let id = receipts.id(number, tally.measuring.load(Ordering::Relaxed));
        let began = Instant::now();
        match start(&mut caller, workflow, &id, "{}", tally).await {
            Ok(()) => {}
            Err(status) => {
                tally.failed(format!("{id} was not started: {status}"));
                sleep(BUSY).await;
                continue;
            }
        }
        match caller.end(&id).await {
            Ok(status) if status == "COMPLETED" => tally.completed(began.elapsed()),
            Ok(status) => tally.failed(format!("an execution ended as {status}, for example {id}")),
            Err(status) => tally.failed(format!("the end of {id} was not heard: {status}")),
        }
    }
}

/// Starts an execution as soon as the node has room for it.
pub(super) async fn start(
    caller: &mut Caller,
    workflow: &str,
    id: &str,
    input: &str,
    tally: &Tally,
) -> Result<(), Box<tonic::Status>> {
    loop {
        match caller.start(workflow, id, input.to_owned()).await {
            Ok(()) => return Ok(()),
            Err(NotStarted::Busy) => tally.was_busy(),
            Err(NotStarted::Refused(status)) => return Err(status),
        }
        sleep(BUSY).await;
    }
}

/// Starts so many executions, each with an input of its own, with so many callers at a time.
pub(super) async fn start_all(
    connection: &Connection,
    callers: u32,
    workflow: &str,
    ids: Vec<(String, String)>,
    tally: &Arc<Tally>,
) {
    let left = Arc::new(Mutex::new(ids.into_iter()));
    let mut all = JoinSet::new();
    for number in 0..callers {
        let (mut caller, workflow) = (connection.caller(number), workflow.to_owned());
        let (tally, left) = (Arc::clone(tally), Arc::clone(&left));
        all.spawn(async move {
            loop {
                let next = left.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((id, input)) = next else { return };
                if let Err(status) = start(&mut caller, &workflow, &id, &input, &tally).await {
                    tally.failed(format!("{id} was not started: {status}"));
                }
            }
        });
    }
    while all.join_next().await.is_some() {}
}
