//! Workers: sessions, tasks, results.

use std::time::Duration;

use orbit_raft::Environment;
use tokio::time::Instant;
use uuid::Uuid;
use workflow::command::{self, Token};
use workflow::event::TaskError;
use workflow::value::Payload;

use super::{Connection, Engine, Running, valid_id};
use crate::api::{Alive, Complete, Fail, Register, Registered, ResultAnswer, Task, TaskAlive, WorkerSummary};
use crate::desk::Poll;
use crate::error::{Code, Error, Result};
use crate::execution::What;
use crate::warnings;

impl<E: Environment> Engine<E> {
    /// Makes a worker known, or resumes its session.
    ///
    /// # Errors
    /// `INVALID_REQUEST`, `RESERVED_TASK`.
    pub async fn register(&self, request: Register) -> Result<Registered> {
        let running = self.running()?;
        let contracts = request.contracts.clone();
        let mut registered = running.desk.register(request, Instant::now(), || self.new_id(&running))?;
        registered.warnings.extend(warnings::unused_contracts(&contracts, &running.definitions)?);
        Ok(registered)
    }

    /// A sign of life, optionally with all that the worker holds.
    ///
    /// # Errors
    /// `UNKNOWN_SESSION`.
    pub async fn heartbeat(&self, session: &str, tokens: Option<&[String]>) -> Result<Alive> {
        self.running()?.desk.heartbeat(session, tokens, Instant::now())
    }

    /// Waits for tasks. If the future is dropped, what was about to be handed over is taken back.
    ///
    /// # Errors
    /// `UNKNOWN_SESSION`.
    pub async fn poll(&self, session: &str, max_tasks: u32, wait: Duration) -> Result<Vec<Task>> {
        let now = Instant::now();
        let mut poll = self.running()?.desk.open_poll(session, max_tasks, now)?;
        Ok(poll.next(now + wait).await)
    }

    /// A success.
    ///
    /// # Errors
    /// `INVALID_REQUEST` for a token that is none; one that is not known is an answer.
    pub async fn complete(&self, request: Complete) -> Result<ResultAnswer> {
        let running = self.running()?;
        let Complete { token, output, worker_session_id, free_slots } = request;
        let mut poll = open_poll(&running, worker_session_id.as_deref(), free_slots)?;
        let answer = match parse(&token)? {
            Some(token) => {
                running.desk.heard_about(&token, Instant::now());
                let id = token.execution_id.clone();
                self.ask(&running, &id, |reply| What::Complete { token, output, reply }).await?
            }
            None => unknown_token(),
        };
        Ok(with_tasks(answer, poll.as_mut()).await)
    }

    /// A failure.
    ///
    /// # Errors
    /// `INVALID_REQUEST` for a token that is none, or a code that only Orbit gives.
    pub async fn fail(&self, request: Fail) -> Result<ResultAnswer> {
        let running = self.running()?;
        let mut poll = open_poll(&running, request.worker_session_id.as_deref(), request.free_slots)?;
        let unknown = request.unknown;
        let error = TaskError {
            code: request.error_code,
            message: request.error_message,
            retryable: request.retryable,
            details: request.details,
        };
        if workflow::event::is_own_code(&error.code) {
            let message = format!("{} is one of Orbit's own codes; use one of your own", error.code);
            return Err(Error::new(Code::InvalidRequest, message));
        }
        let answer = self.failed(&running, &request.token, error, unknown).await?;
        Ok(with_tasks(answer, poll.as_mut()).await)
    }

    async fn failed(
        &self,
        running: &Running<E>,
        token: &str,
        error: TaskError,
        unknown: bool,
    ) -> Result<command::ResultAnswer> {
        let Some(token) = parse(token)? else { return Ok(unknown_token()) };
        running.desk.heard_about(&token, Instant::now());
        let id = token.execution_id.clone();
        self.ask(running, &id, |reply| What::Fail { token, error, unknown, reply }).await
    }

    /// Makes this node the worker of the tasks that are built in (L12): worker `orbit`, its session `incarnation`. What
    /// that session held before, in another process, and is not among `tokens` is handed over again at once.
    ///
    /// # Errors
    /// `NO_LEADER` when this node goes away.
    pub fn connect_built_in(&self, incarnation: Uuid, tokens: &[String]) -> Result<Connection> {
        self.running()?.desk.open_built_in(incarnation.to_string(), tokens, Instant::now())
    }

    /// A failure of a built-in task: with a code of Orbit's own, which the engine takes for such a task alone.
    ///
    /// # Errors
    /// As of [`fail`](Self::fail).
    pub async fn fail_built_in(&self, token: &str, error: TaskError, unknown: bool) -> Result<ResultAnswer> {
        let running = self.running()?;
        let answer = self.failed(&running, token, error, unknown).await?;
        Ok(with_tasks(answer, None).await)
    }

    /// A sign of life about one task.
    ///
    /// # Errors
    /// `INVALID_REQUEST` for a token that is none.
    pub async fn task_heartbeat(&self, token: &str, details: Option<Payload>) -> Result<TaskAlive> {
        let running = self.running()?;
        let Some(token) = parse(token)? else { return Ok(TaskAlive { accepted: false, cancel: true }) };
        running.desk.heard_about(&token, Instant::now());
        let id = token.execution_id.clone();
        let alive = self.ask(&running, &id, |reply| What::TaskHeartbeat { token, details, reply }).await?;
        Ok(TaskAlive { accepted: alive.accepted, cancel: alive.cancel })
    }

    /// Ends a session; its tasks are handed to others at once.
    ///
    /// # Errors
    /// `NO_LEADER` when this node goes away.
    pub async fn unregister(&self, session: &str) -> Result<()> {
        self.running()?.desk.unregister(session);
        Ok(())
    }

    /// Registers or resumes a session and binds a stream to it.
    ///
    /// # Errors
    /// As of [`register`](Self::register).
    pub async fn connect(&self, request: Register) -> Result<Connection> {
        let running = self.running()?;
        let contracts = request.contracts.clone();
        let mut connection = running.desk.open_stream(request, Instant::now(), || self.new_id(&running))?;
        connection.session.warnings.extend(warnings::unused_contracts(&contracts, &running.definitions)?);
        Ok(connection)
    }

    /// All workers that were seen lately.
    ///
    /// # Errors
    /// `NO_LEADER` when this node goes away.
    pub async fn workers(&self) -> Result<Vec<WorkerSummary>> {
        let running = self.running()?;
        let now_ms = running.shards.first().map_or(0, |shard| shard.context.group.now_ms());
        Ok(running.desk.workers(Instant::now(), now_ms))
    }
}

/// The hand-over that a token names; `None` if it is none of Orbit's.
fn parse(token: &str) -> Result<Option<Token>> {
    if token.is_empty() {
        return Err(Error::new(Code::InvalidRequest, "`token` is empty; give the token of the task"));
    }
    let token = token.parse::<Token>().ok();
    Ok(token.filter(|token| valid_id(token.execution_id.clone()).is_ok()))
}

fn unknown_token() -> command::ResultAnswer {
    command::ResultAnswer { accepted: false, reason: Some("unknown token".to_owned()) }
}

/// The free slots that a result offers are known before the result is decided on, so that the next task rides on the
/// same commit.
fn open_poll<E: Environment>(running: &Running<E>, session: Option<&str>, slots: u32) -> Result<Option<Poll>> {
    let Some(session) = session else { return Ok(None) };
    let now = Instant::now();
    running.desk.seen(session, now);
    match slots {
        0 => Ok(None),
        slots => running.desk.open_poll(session, slots, now).map(Some),
    }
}

async fn with_tasks(answer: command::ResultAnswer, poll: Option<&mut Poll>) -> ResultAnswer {
    let tasks = match poll {
        Some(poll) => Some(poll.next(Instant::now()).await),
        None => None,
    };
    ResultAnswer { accepted: answer.accepted, reason: answer.reason, tasks }
}
