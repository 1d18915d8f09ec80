//! Workers: sessions, tasks, results.

use std::time::Duration;

use orbit_raft::{Environment, NodeId};
use tokio::time::Instant;
use uuid::Uuid;
use workflow::command::{self, Token};
use workflow::event::TaskError;
use workflow::value::Payload;

use super::{Connection, Engine, Running, odd, valid_id};
use crate::api::{Alive, Complete, Fail, Register, Registered, ResultAnswer, Task, TaskAlive, WorkerSummary};
use crate::desk::Poll;
use crate::error::{Code, Error, Result};
use crate::remote::{Free, Request, Response};
use crate::warnings;

impl<E: Environment> Engine<E> {
    /// Makes a worker known, or resumes its session.
    ///
    /// # Errors
    /// `INVALID_REQUEST`, `RESERVED_TASK`.
    pub async fn register(&self, request: Register) -> Result<Registered> {
        let running = self.running()?;
        let contracts = request.contracts.clone();
        let mut registered = running.desk.register(request.clone(), Instant::now(), || self.new_id(&running))?;
        running.crew.registered(in_session(request, &registered)).await;
        registered.warnings.extend(warnings::unused_contracts(&contracts, &running.definitions)?);
        Ok(registered)
    }

    /// A sign of life, optionally with all that the worker holds.
    ///
    /// # Errors
    /// `UNKNOWN_SESSION`.
    pub async fn heartbeat(&self, session: &str, tokens: Option<&[String]>) -> Result<Alive> {
        let running = self.running()?;
        let mut alive = running.desk.heartbeat(session, tokens, Instant::now())?;
        if let Some(tokens) = tokens {
            // What each node says of its own shards.
            alive.cancel = self.as_leader(&running, alive.cancel).await;
            alive.cancel.extend(running.crew.heartbeat(session, tokens).await);
            alive.cancel.sort();
            alive.cancel.dedup();
        }
        Ok(alive)
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
        let request = |token, free| Request::Complete { token, output, free };
        self.result(&running, &token, worker_session_id, free_slots, request).await
    }

    /// A failure.
    ///
    /// # Errors
    /// `INVALID_REQUEST` for a token that is none, or a code that only Orbit gives.
    pub async fn fail(&self, request: Fail) -> Result<ResultAnswer> {
        let running = self.running()?;
        let Fail { token, worker_session_id, free_slots, unknown, .. } = request;
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
        let request = |token, free| Request::Fail { token, error, unknown, free };
        self.result(&running, &token, worker_session_id, free_slots, request).await
    }

    /// Carries a result to the leader of its shard, with slots for what follows from it.
    async fn result(
        &self,
        running: &Running<E>,
        token: &str,
        session: Option<String>,
        slots: u32,
        request: impl FnOnce(Token, Option<Free>) -> Request,
    ) -> Result<ResultAnswer> {
        let Some(token) = parse(token)? else {
            let mut poll = open_poll(running, session.as_deref(), slots)?;
            return Ok(with_tasks(unknown_token(), poll.as_mut()).await);
        };
        running.desk.heard_about(&token, Instant::now());
        let shard = running.shard(&token.execution_id);
        let id = token.execution_id.clone();
        match running.cluster.leader(&shard.context.group) {
            Some(node) if !*shard.leads.borrow() => {
                self.result_elsewhere(running, node, token, (session, slots), request).await
            }
            _ => {
                // The free slots are known before the result is decided on, so that the next task rides on the commit.
                let mut poll = open_poll(running, session.as_deref(), slots)?;
                let answer = of_result(self.request(running, &id, request(token, None)).await?)?;
                let answer = command::ResultAnswer { accepted: answer.accepted, reason: answer.reason };
                Ok(with_tasks(answer, poll.as_mut()).await)
            }
        }
    }

    async fn result_elsewhere(
        &self,
        running: &Running<E>,
        node: NodeId,
        token: Token,
        (session, slots): (Option<String>, u32),
        request: impl FnOnce(Token, Option<Free>) -> Request,
    ) -> Result<ResultAnswer> {
        let id = token.execution_id.clone();
        if let Some(session) = &session {
            running.desk.seen(session, Instant::now());
        }
        let wanted = session.filter(|_| slots > 0);
        // A stream has its slots here: one of them goes along.
        let lent = if wanted.is_none() { running.desk.borrow(&token, node) } else { None };
        let free = match (&wanted, &lent) {
            (Some(session), _) => Some(Free { session: session.clone(), slots }),
            (None, Some((session, _))) => Some(Free { session: session.to_string(), slots: 1 }),
            (None, None) => None,
        };
        let answer = of_result(self.request(running, &id, request(token.clone(), free)).await?)?;
        running.desk.settled_elsewhere(&token);
        if let Some((_, slot)) = lent {
            let tasks = answer.tasks.unwrap_or_default();
            running.crew.hand_out(tasks, vec![slot]);
            return Ok(ResultAnswer { tasks: None, ..answer });
        }
        let Some(session) = wanted else { return Ok(ResultAnswer { tasks: None, ..answer }) };
        let mut tasks = answer.tasks.unwrap_or_default();
        let rest = slots.saturating_sub(u32::try_from(tasks.len()).unwrap_or(u32::MAX));
        if let Some(mut poll) = open_poll(running, Some(&session), rest)? {
            tasks.extend(poll.next(Instant::now()).await);
        }
        Ok(ResultAnswer { tasks: Some(tasks), ..answer })
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
        let request = |token, free| Request::Fail { token, error, unknown, free };
        self.result(&running, token, None, 0, request).await
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
        match self.request(&running, &id, Request::TaskHeartbeat { token, details }).await? {
            Response::Alive(alive) => Ok(TaskAlive { accepted: alive.accepted, cancel: alive.cancel }),
            _ => Err(odd()),
        }
    }

    /// Ends a session; its tasks are handed to others at once.
    ///
    /// # Errors
    /// `NO_LEADER` when this node goes away.
    pub async fn unregister(&self, session: &str) -> Result<()> {
        let running = self.running()?;
        running.desk.unregister(session);
        running.crew.unregistered(session).await;
        Ok(())
    }

    /// Registers or resumes a session and binds a stream to it.
    ///
    /// # Errors
    /// As of [`register`](Self::register).
    pub async fn connect(&self, request: Register) -> Result<Connection> {
        let running = self.running()?;
        let contracts = request.contracts.clone();
        let mut connection = running.desk.open_stream(request.clone(), Instant::now(), || self.new_id(&running))?;
        for token in running.crew.registered(in_session(request, &connection.session)).await {
            connection.stop(&token);
        }
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

/// A registration with the session that came of it.
fn in_session(request: Register, registered: &Registered) -> Register {
    Register { worker_session_id: Some(registered.worker_session_id.clone()), ..request }
}

fn of_result(response: Response) -> Result<ResultAnswer> {
    match response {
        Response::Result(answer) => Ok(answer),
        _ => Err(odd()),
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

pub(super) async fn with_tasks(answer: command::ResultAnswer, poll: Option<&mut Poll>) -> ResultAnswer {
    let tasks = match poll {
        Some(poll) => Some(poll.next(Instant::now()).await),
        None => None,
    };
    ResultAnswer { accepted: answer.accepted, reason: answer.reason, tasks }
}
