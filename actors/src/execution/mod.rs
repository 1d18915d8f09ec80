//! One execution: an actor that takes asks in order, decides, and commits what was decided.
//!
//! ```text
//!   asks ──▶ waiting ──▶ a turn: decide, one after the other ──▶ one proposal ──▶ applied: answers, then effects
//!                ▲                                                    │
//!                └────────── gathers while the commit is under way ◀──┘
//! ```
//!
//! It decides only from applied state: while a commit is under way nothing is decided. What a commit that fails had
//! decided is thrown away with the state that it led to.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use orbit_raft::{Applied, Environment, Part, ProposeError, Term};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use workflow::command::Cancel;
use workflow::state::RunStatus;

use crate::error::{Code, Error};
use crate::shard::{Context, ShardMsg};

pub(crate) mod ask;
mod close;
mod decide;
mod effects;
mod load;
pub(crate) mod loaded;
mod message;
pub(crate) mod remove;
mod signal;
mod start;
mod turn;

pub(crate) use ask::{Ask, Removal, Reply, What};
use loaded::Loaded;
use turn::Turn;

/// Details of a heartbeat are written with the next commit, at the latest after this.
const FLUSH: Duration = Duration::from_secs(5);
/// After so many commits in a row before which no ask could be taken, asks are turned away.
const WITHOUT_A_PAUSE_MAX: u32 = 200;
/// After a commit that failed, what only the node itself asks is asked again after this.
const AGAIN: Duration = Duration::from_secs(1);

/// What an execution is told.
#[derive(Debug)]
pub(crate) enum Msg {
    /// By somebody else.
    Ask(Ask),
    /// By its own commit.
    Committed(Result<Applied, ProposeError>),
    /// Details of heartbeats have waited long enough.
    Flush,
}

/// The actor.
#[derive(Debug)]
pub(crate) struct ExecutionActor<E>(PhantomData<fn() -> E>);

impl<E> Default for ExecutionActor<E> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

/// What it begins with.
#[derive(Debug)]
pub(crate) struct Birth<E: Environment> {
    pub(crate) context: Arc<Context<E>>,
    pub(crate) shard: ActorRef<ShardMsg>,
    pub(crate) term: Term,
    pub(crate) id: Arc<str>,
}

/// What it knows.
#[derive(Debug)]
pub(crate) struct Life<E: Environment> {
    pub(super) context: Arc<Context<E>>,
    pub(super) shard: ActorRef<ShardMsg>,
    pub(super) term: Term,
    pub(super) id: Arc<str>,
    pub(super) loaded: Option<Loaded>,
    waiting: VecDeque<Ask>,
    under_way: Option<Turn>,
    /// What the execution was first started with, once it was looked at.
    pub(super) started: Option<orbit_proto::engine::StartRecord>,
    /// Asks done since birth.
    handled: u64,
    /// Commits in a row before which no ask could be taken.
    without_a_pause: u32,
    /// Details of heartbeats wait to be written.
    flush: Flush,
    /// It waits until the shard takes writes.
    held_back: bool,
}

/// Whether details of heartbeats wait to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flush {
    No,
    Armed,
    Due,
}

impl<E: Environment> Actor for ExecutionActor<E> {
    type Msg = Msg;
    type State = Life<E>;
    type Arguments = Birth<E>;

    async fn pre_start(&self, _: ActorRef<Msg>, birth: Birth<E>) -> Result<Life<E>, ActorProcessingErr> {
        let Birth { context, shard, term, id } = birth;
        Ok(Life {
            context,
            shard,
            term,
            id,
            loaded: None,
            waiting: VecDeque::new(),
            under_way: None,
            started: None,
            handled: 0,
            without_a_pause: 0,
            flush: Flush::No,
            held_back: false,
        })
    }

    async fn handle(&self, myself: ActorRef<Msg>, msg: Msg, life: &mut Life<E>) -> Result<(), ActorProcessingErr> {
        match msg {
            Msg::Ask(ask) => life.waiting.push_back(ask),
            Msg::Committed(outcome) => life.committed(outcome),
            Msg::Flush if life.context.is_read_only() => drop(myself.send_after(FLUSH, || Msg::Flush)),
            Msg::Flush => life.flush = Flush::Due,
        }
        life.go_on(&myself);
        Ok(())
    }
}

impl<E: Environment> Life<E> {
    /// Takes turns until a commit is under way or nothing waits.
    fn go_on(&mut self, myself: &ActorRef<Msg>) {
        while self.under_way.is_none() {
            if self.is_held_back() {
                return;
            }
            let mut turn = Turn { flush: self.flush == Flush::Due, ..Turn::default() };
            if !self.gather(&mut turn) {
                return self.rest(myself);
            }
            if turn.flush {
                self.flush = Flush::No;
            }
            match self.close(&mut turn) {
                Ok(()) if turn.parts.is_empty() => self.finish(turn, None),
                Ok(()) => {
                    let parts = std::mem::take(&mut turn.parts);
                    self.propose(myself, parts);
                    self.under_way = Some(turn);
                }
                Err(error) => self.throw_away(turn, &error),
            }
        }
    }

    /// A batch that was cut does not go on while the shard is read-only, and nothing comes before its rest. The shard
    /// lets it go on afterwards.
    fn is_held_back(&mut self) -> bool {
        let was = self.held_back;
        self.held_back = self.loaded.as_ref().is_some_and(|loaded| loaded.unfinished) && self.context.is_read_only();
        if self.held_back && !was {
            self.ask_again(vec![What::Proceed]);
        }
        self.held_back
    }

    /// Decides on what waits; `false` if nothing does.
    fn gather(&mut self, turn: &mut Turn) -> bool {
        if self.loaded.as_ref().is_some_and(|loaded| loaded.unfinished) {
            let cancel = self.take_cancel_between_runs(turn);
            self.turn_others_away();
            self.proceed(turn, cancel);
            return true;
        }
        self.without_a_pause = 0;
        while !turn.is_full() {
            let Some(ask) = self.waiting.pop_front() else { break };
            let alone = ask.what.is_alone();
            if alone && (turn.asks > 0 || turn.flush) {
                self.waiting.push_front(ask);
                break;
            }
            turn.asks += 1;
            turn.permits.extend(ask.permit);
            self.take(ask.what, turn);
            if alone {
                break;
            }
            // The rest of a batch comes before anything else.
            if self.loaded.as_ref().is_some_and(|loaded| loaded.unfinished) {
                break;
            }
        }
        turn.asks > 0 || turn.flush
    }

    /// … and what else waits for it is told so, instead of being kept until nobody remembers why it was asked.
    fn turn_others_away(&mut self) {
        self.without_a_pause += 1;
        if self.without_a_pause < WITHOUT_A_PAUSE_MAX {
            return;
        }
        let (kept, away): (VecDeque<_>, _) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|ask| matches!(ask.what, What::Cancel { .. }) || ask.what.asked_by_the_node().is_some());
        self.waiting = kept;
        for ask in away {
            let deletes = matches!(ask.what, What::Remove(..));
            self.handled += 1;
            ask.what.refuse(match deletes {
                true => Error::new(Code::ExecutionRunning, "the execution is not over; cancel it first"),
                false => {
                    let message = "the execution begins run after run without a pause; repeat the call, or cancel it";
                    Error::new(Code::Overloaded, message)
                }
            });
        }
    }

    /// A document that goes on and on without ever waiting never takes an ask; a cancel joins its next run.
    fn take_cancel_between_runs(&mut self, turn: &mut Turn) -> Option<Cancel> {
        let between = |loaded: &Loaded| loaded.run.state().head.status == RunStatus::Continued;
        if !self.loaded.as_ref().is_some_and(between) {
            return None;
        }
        let at = self.waiting.iter().position(|ask| matches!(ask.what, What::Cancel { .. }))?;
        let ask = self.waiting.remove(at)?;
        turn.asks += 1;
        turn.permits.extend(ask.permit);
        let What::Cancel { reason, force, reply } = ask.what else { return None };
        turn.answer(reply, Ok(()));
        Some(Cancel { reason, force })
    }

    fn propose(&self, myself: &ActorRef<Msg>, parts: Vec<Part>) {
        let (context, term, myself) = (Arc::clone(&self.context), self.term, myself.clone());
        tokio::spawn(async move {
            let outcome = context.group.propose_in(term, parts).await;
            // An execution that is gone has nothing to tell any more.
            let _ = myself.cast(Msg::Committed(outcome));
        });
    }

    fn committed(&mut self, outcome: Result<Applied, ProposeError>) {
        let Some(turn) = self.under_way.take() else { return };
        match crate::failure::of_commit(&self.id, outcome) {
            None => self.finish(turn, None),
            Some(error) => self.throw_away(turn, &error),
        }
    }

    /// Forgets what was decided and not committed, and everything that it led to.
    fn throw_away(&mut self, turn: Turn, error: &Error) {
        self.started = None;
        self.loaded = None;
        self.finish(turn, Some(error));
    }

    fn finish(&mut self, turn: Turn, failed: Option<&Error>) {
        let Turn { answers, effects, again, asks, permits, .. } = turn;
        match failed {
            None => self.do_effects(effects),
            Some(_) => self.ask_again(again),
        }
        answers.into_iter().for_each(|answer| answer(failed));
        self.handled += asks as u64;
        drop(permits);
    }

    /// What nobody else would ask again: time that is up, hand-overs that are lost.
    fn ask_again(&self, again: Vec<What>) {
        if again.is_empty() {
            return;
        }
        let (shard, id) = (self.shard.clone(), Arc::clone(&self.id));
        tokio::spawn(async move {
            tokio::time::sleep(AGAIN).await;
            for what in again {
                // A shard that no longer leads leaves it to the next leader, who finds it in what is stored.
                let _ = shard.cast(ShardMsg::ask(Arc::clone(&id), what, None));
            }
        });
    }

    /// Nothing waits: tells the shard, which may let it sleep.
    fn rest(&mut self, myself: &ActorRef<Msg>) {
        if self.has_unwritten_details() && self.flush == Flush::No {
            self.flush = Flush::Armed;
            myself.send_after(FLUSH, || Msg::Flush);
        }
        let (bytes, sleepy) = self.loaded.as_ref().map_or((0, true), |loaded| (loaded.bytes, loaded.may_sleep()));
        let sleepy = sleepy && self.flush == Flush::No;
        let rest = ShardMsg::Rest { id: Arc::clone(&self.id), handled: self.handled, bytes, sleepy };
        // A shard that is gone takes its executions with it.
        let _ = self.shard.cast(rest);
    }
}
