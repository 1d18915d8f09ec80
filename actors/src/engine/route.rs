//! The way of a request to the execution it is for, wherever its shard is led.
//!
//! A request goes to the leader as this node knows it. Whoever does not lead refuses, with nothing done, and the next
//! one that is said to lead is asked, until the time is over. A node that is asked never asks a third one: so no
//! request goes in circles. Where an answer is lost, what may be repeated is asked again; the outcome of the rest is
//! unknown.

use std::sync::Arc;

use orbit_proto::node::{answer, question};
use orbit_raft::Environment;
use tokio::time::Instant;
use workflow::command;

use super::{Engine, Running, Shard, workers};
use crate::api;
use crate::error::{Code, Error, Result};
use crate::execution::{Removal, Reply, What};
use crate::failure::{going_away, not_led, outcome_unknown, read_only};
use crate::remote::cluster::Unanswered;
use crate::remote::{Free, Request, Response, wire};
use crate::shard::ShardMsg;
use crate::shard::read_only::{Fate, fate};

/// What one try came to.
enum Tried {
    Answered(Result<Response>),
    /// Nothing was done; another may lead.
    NotLed,
    /// It was asked, and may have been done.
    Unknown,
}

impl<E: Environment> Engine<E> {
    /// Asks an execution something, wherever it lives.
    pub(super) async fn request(&self, running: &Running<E>, id: &str, request: Request) -> Result<Response> {
        let shard = running.shard(id);
        let until = Instant::now() + running.cluster.patience();
        loop {
            match self.try_once(running, &shard, id, &request).await {
                Tried::Answered(answer) => return answer,
                Tried::Unknown if !request.may_be_repeated() => return Err(outcome_unknown(id)),
                Tried::Unknown | Tried::NotLed => running.cluster.another_leader(&shard.context.group, until).await?,
            }
        }
    }

    async fn try_once(&self, running: &Running<E>, shard: &Arc<Shard<E>>, id: &str, request: &Request) -> Tried {
        let answer = if *shard.leads.borrow() {
            self.request_here(running, shard, id, request.clone()).await
        } else {
            let Some(leader) = running.cluster.leader(&shard.context.group) else { return Tried::NotLed };
            let question = question::What::Ask(wire::ask(id, request));
            let asked = match request.may_be_repeated() {
                true => running.cluster.ask_leader(&shard.context.group, leader, question).await,
                false => running.cluster.ask(leader, question).await,
            };
            match asked {
                Ok(answer::What::Ask(answer)) => wire::response_in(answer),
                Ok(_) | Err(Unanswered::Unknown) => return Tried::Unknown,
                Err(Unanswered::NotAsked) => return Tried::NotLed,
                Err(Unanswered::Fault(error)) => Err(error),
            }
        };
        match answer {
            Err(Error { code: Code::NoLeader, .. }) => Tried::NotLed,
            Err(Error { code: Code::OutcomeUnknown, .. }) => Tried::Unknown,
            answer => Tried::Answered(answer),
        }
    }

    /// Asks an execution of a shard that this node leads; `NO_LEADER` if it does not.
    ///
    /// What is answered without a commit is answered from memory, and whoever has been deposed without knowing it
    /// remembers too little: such an answer goes out only once it is sure that this node led after it was made.
    pub(super) async fn request_here(
        &self,
        running: &Running<E>,
        shard: &Shard<E>,
        id: &str,
        request: Request,
    ) -> Result<Response> {
        let tells_little = matches!(
            request,
            Request::TaskHeartbeat { .. } | Request::Cancel { .. } | Request::Pause | Request::Resume
        );
        let answer = self.decide_here(running, shard, id, request).await;
        if (tells_little || may_be_from_memory(&answer)) && shard.context.group.read_index().await.is_err() {
            return Err(not_led());
        }
        answer
    }

    async fn decide_here(
        &self,
        running: &Running<E>,
        shard: &Shard<E>,
        id: &str,
        request: Request,
    ) -> Result<Response> {
        match request {
            Request::Start(start) => {
                let started = ask_here(shard, id, |reply| What::Start(start, reply)).await;
                started.map(Response::Started)
            }
            Request::Complete { token, output, free } => {
                let ask = ask_here(shard, id, |reply| What::Complete { token, output, reply });
                result_here(running, free, ask).await
            }
            Request::Fail { token, error, unknown, free } => {
                let ask = ask_here(shard, id, |reply| What::Fail { token, error, unknown, reply });
                result_here(running, free, ask).await
            }
            Request::TaskHeartbeat { token, details } => {
                let alive = ask_here(shard, id, |reply| What::TaskHeartbeat { token, details, reply }).await;
                alive.map(Response::Alive)
            }
            Request::Cancel { reason, force } => {
                done(ask_here(shard, id, |reply| What::Cancel { reason, force, reply }).await)
            }
            Request::Signal(signal) => {
                let signalled = ask_here(shard, id, |reply| What::Signal(signal, reply)).await;
                signalled.map(Response::Signalled)
            }
            Request::Pause => done(ask_here(shard, id, What::Pause).await),
            Request::Resume => done(ask_here(shard, id, What::Resume).await),
            Request::Redrive { steps, action, output } => {
                done(ask_here(shard, id, |reply| What::Redrive { steps, action, output, reply }).await)
            }
            Request::Remove => {
                let removed = ask_here(shard, id, |reply| What::Remove(Removal::Execution, reply)).await;
                removed.map(Response::Removed)
            }
            Request::Messages(batch) => done(ask_here(shard, id, |reply| What::Messages(batch, reply)).await),
            Request::TakeBack { token, reason } => {
                let what = What::TakeBack { token, reason };
                let sent = shard.actor.borrow().clone();
                let sent = sent.is_some_and(|actor| actor.cast(ShardMsg::ask(Arc::from(id), what, None)).is_ok());
                if sent { Ok(Response::Done) } else { Err(going_away()) }
            }
        }
    }
}

/// Whether an answer may have been given without a commit.
fn may_be_from_memory(answer: &Result<Response>) -> bool {
    match answer {
        // Of these nobody says that they are the truth of the moment.
        Err(Error { code: Code::NoLeader | Code::OutcomeUnknown | Code::Overloaded | Code::Internal, .. }) => false,
        Err(_) => true,
        Ok(Response::Started(started)) => !started.created,
        Ok(Response::Result(answer)) => !answer.accepted,
        Ok(Response::Removed(removed)) => !removed,
        // What is known by its name is in the history of every leader to come.
        Ok(Response::Signalled(_) | Response::Alive(_) | Response::Done) => false,
    }
}

fn done(answer: Result<()>) -> Result<Response> {
    answer.map(|()| Response::Done)
}

/// A result, with slots for what follows from it.
async fn result_here<E: Environment>(
    running: &Running<E>,
    free: Option<Free>,
    ask: impl Future<Output = Result<command::ResultAnswer>>,
) -> Result<Response> {
    let mut poll = match free {
        // A session that is not known here gets nothing along; the result counts all the same.
        Some(Free { session, slots }) => running.desk.open_poll_elsewhere(&session, slots, Instant::now()).ok(),
        None => None,
    };
    let answer = ask.await?;
    let answer = workers::with_tasks(answer, poll.as_mut()).await;
    Ok(Response::Result(api::ResultAnswer { tasks: answer.tasks.or(Some(Vec::new())), ..answer }))
}

/// Waits until a shard takes writes, as long as it is led here.
async fn writable_here<E: Environment>(shard: &Shard<E>) -> Result<()> {
    let mut leads = shard.leads.subscribe();
    tokio::select! {
        () = shard.context.until_writable() => Ok(()),
        _ = leads.wait_for(|leads| !leads) => Err(not_led()),
    }
}

/// Gives an ask to the actor of a shard that is led here.
async fn ask_here<E: Environment, T>(shard: &Shard<E>, id: &str, make: impl FnOnce(Reply<T>) -> What) -> Result<T> {
    if !*shard.leads.borrow() {
        return Err(not_led());
    }
    let (reply, answer) = tokio::sync::oneshot::channel();
    let what = make(reply);
    if shard.context.is_read_only() {
        match fate(&what) {
            Fate::Refused => return Err(read_only()),
            // Before it takes a place, of which deletions need one.
            Fate::Waits => writable_here(shard).await?,
            Fate::Taken | Fate::Dropped => {}
        }
    }
    let places = Arc::clone(&shard.context.places);
    let permit = if what.may_be_refused() {
        let full = |_| Error::new(Code::Overloaded, "too much waits on this shard; repeat the call later");
        places.try_acquire_owned().map_err(full)?
    } else {
        places.acquire_owned().await.map_err(|_| outcome_unknown(id))?
    };
    let actor = shard.actor.borrow().clone();
    let sent = actor.is_some_and(|actor| actor.cast(ShardMsg::ask(Arc::from(id), what, Some(permit))).is_ok());
    match sent {
        true => answer.await.unwrap_or_else(|_| Err(outcome_unknown(id))),
        false => Err(going_away()),
    }
}
