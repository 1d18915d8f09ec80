//! What is said to an execution that is there, and what it is asked: signals, queries, pause, redrive.

use std::sync::Arc;
use std::time::Duration;

use orbit_raft::Environment;
use tokio::time::Instant;
use workflow::command::declared;
use workflow::decide::BlockScope;
use workflow::event::RedriveAction;
use workflow::key::Key;
use workflow::value::Value;

use super::wait::{Position, Wanted};
use super::{Engine, Shard, odd, valid_id, valid_new_id};
use crate::api::{ExecutionState, QueryAnswer, Redrive, SIGNAL_NAME_BYTES_MAX, SendSignal, Signalled};
use crate::error::{Code, Error, Result};
use crate::execution::ask::{Signal, Start};
use crate::failure::of_storage;
use crate::read;
use crate::remote::{Request, Response};

impl<E: Environment> Engine<E> {
    /// Gives an execution a signal, which starts it first if that is wanted and it is not there: both in one commit.
    ///
    /// # Errors
    /// `NOT_FOUND`, `UNKNOWN_SIGNAL`, `INVALID_SIGNAL`, `EXECUTION_FINISHED`, `DEDUP_CONFLICT`, `OVERLOADED` when too
    /// many wait to be taken; with a start also its errors, and `EXECUTION_EXISTS` when another workflow runs there.
    pub async fn signal(&self, request: SendSignal) -> Result<Signalled> {
        let running = self.running()?;
        let id = match request.start.is_some() {
            true => valid_new_id(request.execution_id)?,
            false => valid_id(request.execution_id)?,
        };
        valid_name("the name of a signal", &request.signal)?;
        if let Some(dedup_id) = &request.dedup_id {
            valid_name("dedup_id", dedup_id)?;
        }
        let start = match request.start {
            None => None,
            Some(start) => {
                let definition = running.definitions.resolve(&start.workflow, start.version.as_deref()).await?;
                Some(Start { request: start, definition })
            }
        };
        let signal = Signal { name: request.signal, payload: request.payload, dedup_id: request.dedup_id, start };
        match self.request(&running, &id, Request::Signal(Box::new(signal))).await? {
            Response::Signalled(signalled) => Ok(signalled),
            _ => Err(odd()),
        }
    }

    /// Nothing is decided or handed over until it is resumed; results and signals are taken. Again: the same.
    ///
    /// # Errors
    /// `NOT_FOUND`, `EXECUTION_FINISHED`.
    pub async fn pause(&self, id: &str) -> Result<ExecutionState> {
        self.request(&*self.running()?, &valid_id(id.to_owned())?, Request::Pause).await?;
        self.show(id, None).await
    }

    /// Deciding goes on. Of what is not paused nothing changes.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub async fn resume(&self, id: &str) -> Result<ExecutionState> {
        self.request(&*self.running()?, &valid_id(id.to_owned())?, Request::Resume).await?;
        self.show(id, None).await
    }

    /// Lets a failed or timed-out execution go on from what failed, or moves suspended units of one that runs.
    ///
    /// # Errors
    /// `NOT_FOUND`, `NOT_REDRIVABLE`, `INVALID_REQUEST`.
    pub async fn redrive(&self, request: Redrive) -> Result<ExecutionState> {
        let id = self.asked_to_redrive(request).await?;
        self.show(&id, None).await
    }

    pub(super) async fn asked_to_redrive(&self, request: Redrive) -> Result<String> {
        let action = redrive_action(&request)?;
        let id = valid_id(request.execution_id)?;
        let steps = request.steps.map(|steps| steps.iter().map(|step| Key::from(step.as_str())).collect());
        let output = request.output;
        self.request(&*self.running()?, &id, Request::Redrive { steps, action, output }).await?;
        Ok(id)
    }

    /// What a query of the document gives on the newest committed state, also after the end. With a time-out it waits
    /// until that is not null, and answers null when it never was.
    ///
    /// # Errors
    /// `NOT_FOUND`, `UNKNOWN_QUERY`, `EXPRESSION_ERROR`.
    pub async fn query(&self, id: &str, query: &str, timeout: Duration) -> Result<QueryAnswer> {
        let until = Instant::now() + timeout;
        let key: Arc<str> = Arc::from(id);
        loop {
            let (shard, _) = self.read(id).await?;
            let (value, seen) = evaluated(&shard, &key, query).await?;
            if value != Value::Null || Instant::now() >= until {
                return Ok(answer(id, query, value));
            }
            // At the time-out it is evaluated once more.
            self.happened(&shard, &key, Wanted::Change(seen), until).await?;
        }
    }
}

/// An answer as large as one may be; a value that does not fit is named instead.
fn answer(id: &str, query: &str, value: Value) -> QueryAnswer {
    let fits = value.to_json().len() <= read::ANSWER_BYTES_MAX;
    QueryAnswer {
        execution_id: id.to_owned(),
        query: query.to_owned(),
        value: fits.then_some(value),
        omitted: if fits { Vec::new() } else { vec!["value"] },
    }
}

/// How often a query is evaluated again because a commit came in between.
const EVALUATED_MAX: usize = 100;

/// What a query gives as of one commit. Rows are read as the expression asks for them, so what was seen counts only if
/// the history stands afterwards where it stood before.
async fn evaluated<E: Environment>(shard: &Shard<E>, id: &Arc<str>, query: &str) -> Result<(Value, Position)> {
    let group = &shard.context.group;
    let position = || group.read(|reader| reader.position(id.as_bytes())).map_err(of_storage);
    for _ in 0..EVALUATED_MAX {
        let before = position()?;
        let value = evaluated_once(shard, id, query);
        if position()? == before {
            return value.map(|value| (value, before));
        }
        tokio::task::yield_now().await;
    }
    Err(Error::new(Code::Overloaded, "the execution changes faster than it can be looked at; repeat the call"))
}

fn evaluated_once<E: Environment>(shard: &Shard<E>, id: &Arc<str>, query: &str) -> Result<Value> {
    let (run, rows) = read::run(&shard.context.group, &shard.context.definitions, id)?;
    let definition = run.definition();
    let Some(expression) = definition.queries.get(query) else {
        let declared = declared(definition.queries.keys());
        let message = format!("the workflow declares no query {query:?}; it has: {declared}");
        return Err(Error::new(Code::UnknownQuery, message));
    };
    let value = expression.evaluate(&BlockScope::root(run.facts(shard.context.group.now_ms())));
    // A row that cannot be read looks like one that is not there.
    if let Some(failure) = rows.failure() {
        return Err(of_storage(failure));
    }
    value.map_err(|error| Error::new(Code::ExpressionError, error.message))
}

pub(super) fn redrive_action(request: &Redrive) -> Result<RedriveAction> {
    let action = match &request.action {
        None => RedriveAction::Retry,
        Some(word) => {
            let known = RedriveAction::ALL.iter().find(|action| action.as_str() == word).copied();
            let message = || format!("action is retry, resolve or fail, not {word:?}");
            known.ok_or_else(|| Error::new(Code::InvalidRequest, message()))?
        }
    };
    if request.output.is_some() && action != RedriveAction::Resolve {
        let message = "output is what a resolved unit yields; it needs action resolve";
        return Err(Error::new(Code::InvalidRequest, message));
    }
    Ok(action)
}

pub(super) fn valid_name(what: &str, name: &str) -> Result<()> {
    if name.is_empty() || name.len() > SIGNAL_NAME_BYTES_MAX || name.contains('\0') {
        let message = format!("{what} has 1 to {SIGNAL_NAME_BYTES_MAX} bytes and no NUL");
        return Err(Error::new(Code::InvalidRequest, message));
    }
    Ok(())
}
