//! Takes tasks, runs them, reports what came of them.
//!
//! A free slot is always in a poll: a poll asks for as many tasks as there are slots free, and the slots it got nothing
//! for go into the next one.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::process::{Outcome, Process};
use super::session::Session;
use super::{Exec, Held, Say};
use crate::client::answers::{ResultAnswer, Task, TaskAlive, Tasks};
use crate::client::{Call, Client, Harm, Patience};

/// How long a poll waits for a task.
const POLL: Duration = Duration::from_secs(20);

/// The working part of a worker; a clone is another handle.
#[derive(Clone)]
pub(super) struct Work(Arc<Inner>);

struct Inner {
    client: Client,
    session: Arc<Session>,
    held: Arc<Held>,
    say: Say,
    slots: u32,
    free: Arc<Semaphore>,
    command: Vec<OsString>,
    fatal: Vec<i32>,
    grace: Duration,
}

#[derive(Serialize)]
struct Poll {
    worker_session_id: String,
    wait_ms: u64,
    max_tasks: usize,
}

#[derive(Serialize)]
struct Complete<'a> {
    token: &'a str,
    output: &'a RawValue,
}

#[derive(Serialize)]
struct Fail<'a> {
    token: &'a str,
    error_code: &'a str,
    error_message: &'a str,
    retryable: bool,
    unknown: bool,
}

/// What is stopped may wait for its worker to say so before it undoes what may have happened (language L6); where
/// nobody waits any more, the answer says that it does not count.
fn stopped(token: &str) -> Call {
    let (error_code, error_message) = ("STOPPED", "the command was stopped because the node asked for it");
    let request = Fail { token, error_code, error_message, retryable: false, unknown: true };
    Call::post(["v1", "tasks", "fail"], Harm::None).json(&request)
}

impl Work {
    pub(super) fn new(exec: &Exec, client: Client, session: Arc<Session>, held: Arc<Held>, say: Say) -> Self {
        Self(Arc::new(Inner {
            client,
            session,
            held,
            say,
            slots: exec.slots,
            free: Arc::new(Semaphore::new(exec.slots as usize)),
            command: exec.command.clone(),
            fatal: exec.fatal.clone(),
            grace: exec.grace,
        }))
    }

    /// Takes tasks until told to stop.
    pub(super) async fn take(self, stop: CancellationToken) {
        loop {
            let slots = tokio::select! {
                slots = self.free_slots() => slots,
                () = stop.cancelled() => return,
            };
            let (work, stop) = (self.clone(), stop.clone());
            // Polls run beside each other: slots that become free while one waits go into another.
            tokio::spawn(async move {
                tokio::select! {
                    () = work.poll(slots) => {}
                    // The answer that is not waited for is taken back by the node.
                    () = stop.cancelled() => {}
                }
            });
        }
    }

    /// Every slot that is free now, at least one.
    async fn free_slots(&self) -> Vec<OwnedSemaphorePermit> {
        let mut slots = Vec::new();
        slots.extend(Arc::clone(&self.0.free).acquire_owned().await.ok());
        while let Ok(slot) = Arc::clone(&self.0.free).try_acquire_owned() {
            slots.push(slot);
        }
        slots
    }

    /// Asks for work once. Slots without a task become free again at the end.
    async fn poll(&self, mut slots: Vec<OwnedSemaphorePermit>) {
        let worker_session_id = self.0.session.id();
        let wait_ms = u64::try_from(POLL.as_millis()).unwrap_or(u64::MAX);
        let request = Poll { worker_session_id: worker_session_id.clone(), wait_ms, max_tasks: slots.len() };
        let call = Call::post(["v1", "workers", "poll"], Harm::Possible).json(&request);
        let answered = self.0.client.once(&call.within(POLL + Duration::from_secs(15))).await;
        let tasks = match answered {
            Ok(answer) if answer.status == 204 => return,
            Ok(answer) => answer.read::<Tasks>(),
            Err(error) if error.code() == Some("UNKNOWN_SESSION") => {
                let _ = self.0.session.renew(&worker_session_id).await;
                // A node that knows no session is not to be asked in a tight loop.
                return sleep(Duration::from_millis(200)).await;
            }
            Err(error) => Err(error),
        };
        match tasks {
            Ok(Tasks { tasks }) => {
                for task in tasks {
                    let Some(stop) = self.0.held.add(&task.token) else { continue };
                    tokio::spawn(self.clone().carry_out(task, stop, slots.pop()));
                }
            }
            Err(error) => {
                // That no node answers is said once, where signs of life are sent.
                if !error.may_pass() {
                    self.0.say.line(format_args!("no tasks: {error}"));
                }
                sleep(Duration::from_secs(1)).await;
            }
        }
    }

    /// Runs the command for a task and reports what came of it.
    async fn carry_out(self, task: Task, stop: CancellationToken, slot: Option<OwnedSemaphorePermit>) {
        let process =
            Process { command: &self.0.command, fatal: &self.0.fatal, grace: self.0.grace, task: &task, stop: &stop };
        let outcome = tokio::select! {
            outcome = process.run() => outcome,
            never = self.tell_alive(&task, &stop) => match never {},
        };
        let (what, answered) = match &outcome {
            Outcome::Done(output) => {
                let request = Complete { token: &task.token, output };
                let call = Call::post(["v1", "tasks", "complete"], Harm::None).json(&request);
                ("succeeded".to_owned(), self.report(&call).await)
            }
            Outcome::Failed { code, message, retryable, unknown } => {
                let (retryable, unknown) = (*retryable, *unknown);
                let request = Fail { token: &task.token, error_code: code, error_message: message, retryable, unknown };
                let call = Call::post(["v1", "tasks", "fail"], Harm::None).json(&request);
                (format!("failed with {code}"), self.report(&call).await)
            }
            // Another hand-over follows: this one is not reported.
            Outcome::Stopped if self.0.held.is_ending() => ("was stopped".to_owned(), None),
            Outcome::Stopped => {
                self.report(&stopped(&task.token)).await;
                ("was stopped".to_owned(), None)
            }
        };
        self.0.held.remove(&task.token);
        drop(slot);
        let Task { execution_id, step_id, task_name, attempt, .. } = &task;
        let but = answered.map(|why| format!(", but that does not count: {why}")).unwrap_or_default();
        self.0.say.line(format_args!("{execution_id} {step_id} ({task_name}, attempt {attempt}) {what}{but}"));
    }

    /// Says a result until somebody has taken or refused it; why it does not count, if it does not.
    async fn report(&self, call: &Call) -> Option<String> {
        let mut patience = Patience::endless();
        loop {
            match self.0.client.once(call).await {
                Ok(answer) => match answer.read() {
                    Ok(ResultAnswer { accepted: true, .. }) => return None,
                    Ok(ResultAnswer { reason, .. }) => return Some(reason.unwrap_or_default()),
                    Err(error) => return Some(error.to_string()),
                },
                // A token of this worker may be exchanged under way.
                Err(error) if error.may_pass() || error.code() == Some("UNAUTHENTICATED") => {}
                Err(error) if matches!(error.code(), Some("INTERNAL" | "STORAGE_ERROR")) => {}
                Err(error) => return Some(error.to_string()),
            }
            patience.wait(None).await;
        }
    }

    /// For a task that must not be silent for long: a running command is a sign of life.
    async fn tell_alive(&self, task: &Task, stop: &CancellationToken) -> std::convert::Infallible {
        #[derive(Serialize)]
        struct Beat<'a> {
            token: &'a str,
        }
        let Some(silence_ms) = task.heartbeat_timeout_ms else { return std::future::pending().await };
        let pause = Duration::from_millis((silence_ms / 3).max(10));
        let call = Call::post(["v1", "tasks", "heartbeat"], Harm::None).json(&Beat { token: &task.token });
        let call = call.within(pause.max(Duration::from_secs(1)));
        loop {
            sleep(pause).await;
            if let Ok(answer) = self.0.client.once(&call).await
                && let Ok(TaskAlive { cancel: true }) = answer.read::<TaskAlive>()
            {
                stop.cancel();
            }
        }
    }

    /// Waits until nothing runs.
    pub(super) async fn idle(&self) {
        let _ = self.0.free.acquire_many(self.0.slots).await;
    }
}
