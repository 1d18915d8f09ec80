//! What a worker holds: tasks from their arrival until their results have been answered.

use std::collections::BTreeMap;
use std::sync::Arc;

use orbit_cluster_tests::ledger::{Outcome, Received};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::{Job, Plan, Worker};
use crate::Notebook;

/// What is said of a task that is done.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Report {
    Success(Value),
    Failure { code: String, retryable: bool },
}

/// A task that is held.
#[derive(Debug)]
struct Held {
    report: Option<Report>,
    heartbeats: bool,
    /// The report is on its way.
    sent: bool,
}

/// What a node made of a report.
#[derive(Debug)]
pub(super) enum Answer {
    /// It decided: it counts, or does not and why.
    Decided { accepted: bool, reason: Option<String> },
    /// It did not decide, with this code.
    Refused(String),
}

/// Done work, as it comes from the tasks that do it.
pub(super) type Done = (String, Report);

/// What one worker holds.
pub(super) struct Hands {
    pub(super) worker: Worker,
    pub(super) notebook: Arc<Notebook>,
    /// The session, once there is one.
    pub(super) session: Option<String>,
    held: BTreeMap<String, Held>,
    done: mpsc::UnboundedSender<Done>,
    /// Work begun so far: each output names it.
    count: u64,
}

impl Hands {
    /// Empty ones, and where done work comes from. There is never more of it than slots.
    pub(super) fn new(worker: Worker, notebook: Arc<Notebook>) -> (Self, mpsc::UnboundedReceiver<Done>) {
        let (done, finished) = mpsc::unbounded_channel();
        (Self { worker, notebook, session: None, held: BTreeMap::new(), done, count: 0 }, finished)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// How many further tasks it can take.
    pub(super) fn free(&self) -> u32 {
        let working = self.held.values().filter(|held| held.report.is_none()).count();
        u32::try_from(self.worker.slots.saturating_sub(working)).unwrap_or(u32::MAX)
    }

    /// All tokens that it holds.
    pub(super) fn tokens(&self) -> Vec<String> {
        self.held.keys().cloned().collect()
    }

    /// Tokens whose work goes on and shows signs of life.
    pub(super) fn beating(&self) -> impl Iterator<Item = &String> {
        self.held.iter().filter(|(_, held)| held.heartbeats && held.report.is_none()).map(|(token, _)| token)
    }

    /// How far the work is, for a sign of life.
    pub(super) fn details(&self) -> Value {
        json!({"at": self.count})
    }

    /// A task has arrived: notes it and sets to work.
    pub(super) fn begin(&mut self, job: Job) {
        let Plan { work, until, failure, heartbeats } = (self.worker.plan)(&job);
        self.count += 1;
        let report = match failure {
            None => Report::Success(json!({"by": format!("{}-{}", self.worker.id(), self.count)})),
            Some((code, retryable)) => Report::Failure { code, retryable },
        };
        let received = Received {
            worker_id: self.worker.id().to_owned(),
            unit: job.step_id,
            attempt: job.attempt.into(),
            redelivery: job.redelivery,
            idempotency_key: job.idempotency_key,
            input: job.input,
            result: None,
            answered: None,
        };
        let token = job.token;
        if self.notebook.ledger().tasks.insert(token.clone(), received).is_some() {
            return self.notebook.surprise(format!("I26: the hand-over {token} came twice"));
        }
        self.held.insert(token.clone(), Held { report: None, heartbeats, sent: false });
        let done = self.done.clone();
        tokio::spawn(async move {
            sleep(work).await;
            if let Some(mut until) = until {
                // Whoever would say so is gone with the test.
                let _ = until.wait_for(|may| *may).await;
            }
            // The worker may have been stopped meanwhile.
            let _ = done.send((token, report));
        });
    }

    /// Work is done. `false`: it is not held any more, because the worker was told to stop.
    pub(super) fn finish(&mut self, token: &str, report: Report) -> bool {
        let Some(held) = self.held.get_mut(token) else { return false };
        if let Some(task) = self.notebook.ledger().tasks.get_mut(token) {
            task.result = Some(match &report {
                Report::Success(output) => Outcome::Success(output.clone()),
                Report::Failure { code, .. } => Outcome::Failure(code.clone()),
            });
        }
        held.report = Some(report);
        true
    }

    /// Takes all reports that are to be sent now: those that are not on their way.
    pub(super) fn outgoing(&mut self) -> Vec<Done> {
        let waiting = self.held.iter_mut().filter(|(_, held)| held.report.is_some() && !held.sent);
        let take = |(token, held): (&String, &mut Held)| {
            held.sent = true;
            held.report.clone().map(|report| (token.clone(), report))
        };
        waiting.filter_map(take).collect()
    }

    /// A task is no longer wanted. `true`: that frees a slot. One that is reported is held until the answer comes.
    pub(super) fn cancel(&mut self, token: &str) -> bool {
        let stops = self.held.get(token).is_some_and(|held| held.report.is_none());
        if stops {
            self.held.remove(token);
        }
        stops
    }

    /// A report was answered.
    pub(super) fn answered(&mut self, token: &str, answer: Answer) {
        let Some(held) = self.held.get_mut(token) else { return };
        match answer {
            Answer::Decided { accepted, reason } => {
                self.notebook.ledger().answered(token, accepted);
                if accepted {
                    self.notebook.accepted().push((Instant::now(), token.to_owned()));
                    self.notebook.acknowledged();
                } else {
                    self.notebook.refused(&format!("result {}", reason.unwrap_or_default()));
                }
                self.held.remove(token);
            }
            Answer::Refused(code) if passes(&code) => {
                self.notebook.refused(&format!("result {code}"));
                held.sent = false;
            }
            Answer::Refused(code) => self.notebook.surprise(format!("the result of {token} was refused with {code}")),
        }
    }

    /// The node is lost: what was on its way has to be sent again.
    pub(super) fn lost(&mut self) {
        let unanswered = self.held.values().filter(|held| held.sent).count();
        self.held.values_mut().for_each(|held| held.sent = false);
        self.notebook.unanswered.fetch_add(unanswered, std::sync::atomic::Ordering::SeqCst);
    }
}

/// Whether it is the state of a node that refuses, so that the same again may be taken, there or elsewhere.
pub(super) fn passes(code: &str) -> bool {
    ["NO_LEADER", "OVERLOADED", "OUTCOME_UNKNOWN", "STORAGE_ERROR"].contains(&code)
}
