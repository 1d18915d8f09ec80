//! Sessions come, show signs of life, and go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use workflow::command::Token;
use workflow::event::{Queue, UncertainReason};

use super::hand_over::{Phase, Unlisted};
use super::line::LineId;
use super::request::Valid;
use super::session::{Session, SessionNo, Standing};
use super::state::{Due, State};
use super::window::Window;
use super::{Listed, SESSIONS_MAX};
use crate::api::{Alive, Registered, TaskVersion, WorkerSummary};
use crate::error::{Code, Error, Result};

/// A missed receipt or a silence is noticed at most this late after a tick that knew nothing of it.
const TICK_MAX: Duration = Duration::from_secs(1);

fn unknown_session() -> Error {
    Error::new(Code::UnknownSession, "this session is not known here; register again, naming the tokens held")
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl State {
    /// Makes a session known, or resumes it. Answers the tokens of the list that it should stop, too.
    pub(super) fn register(
        &mut self,
        request: Valid,
        now: Instant,
        new_session_id: impl FnOnce() -> String,
    ) -> Result<(SessionNo, Registered, Vec<String>)> {
        self.register_with(request, Unlisted::Lost, now, new_session_id)
    }

    /// … and what becomes of what it does not list.
    pub(super) fn register_with(
        &mut self,
        request: Valid,
        unlisted: Unlisted,
        now: Instant,
        new_session_id: impl FnOnce() -> String,
    ) -> Result<(SessionNo, Registered, Vec<String>)> {
        let Valid { worker_id, runtime, sdk, contracts, tokens, session } = request;
        // A session that belongs to another worker is not touched.
        let earlier = session.as_deref().and_then(|name| self.sessions.find(name));
        let own = |no: &SessionNo| self.sessions.get(*no).is_some_and(|session| *session.worker_id == *worker_id);
        let no = match earlier.filter(own) {
            Some(no) => no,
            None if self.sessions.len() >= SESSIONS_MAX => {
                return Err(Error::new(Code::Overloaded, "too many worker sessions at this node; ask another"));
            }
            None => {
                let name = session.filter(|_| earlier.is_none()).unwrap_or_else(new_session_id);
                let session = Session::new(Arc::from(name), Arc::from(worker_id), Standing::Registered, now);
                self.sessions.add(session)
            }
        };
        self.hear(no, Standing::Registered, now);
        if let Some(session) = self.sessions.get_mut(no) {
            session.runtime = runtime;
            session.sdk = sdk;
        }
        self.serve_contracts(no, contracts);
        let cancel = self.list(no, tokens, unlisted, now);
        let name = self.sessions.get(no).map(|session| session.name.to_string()).unwrap_or_default();
        let registered = Registered {
            accepted: true,
            worker_session_id: name,
            heartbeat_interval_ms: millis(self.settings.heartbeat_interval),
            session_timeout_ms: millis(self.settings.session_timeout),
            warnings: Vec::new(),
        };
        Ok((no, registered, cancel))
    }

    /// Something was heard of a session.
    fn hear(&mut self, no: SessionNo, standing: Standing, now: Instant) {
        let Some(session) = self.sessions.get_mut(no) else { return };
        session.standing = standing;
        session.doubtful = false;
        session.seen = session.seen.max(now);
        if !std::mem::replace(&mut session.watched, true) {
            self.plan(now + self.settings.session_timeout, Due::Session(no));
        }
    }

    fn serve_contracts(&mut self, no: SessionNo, contracts: Vec<TaskVersion>) {
        let Some(session) = self.sessions.get_mut(no) else { return };
        let runtime = session.runtime.clone();
        let before = std::mem::take(&mut session.lines);
        session.left.clear();
        // A worker takes what is meant for any language and what is meant for its own.
        let queues: BTreeSet<Queue> = contracts
            .iter()
            .flat_map(|contract| {
                [None, Some(runtime.clone())].map(|language| Queue {
                    task: contract.task_name.clone(),
                    version: Some(contract.contract_version.clone()).filter(|version| !version.is_empty()),
                    language,
                })
            })
            .collect();
        session.contracts = contracts;
        let mut lines = Vec::with_capacity(queues.len());
        for queue in &queues {
            let id = self.lines.open(queue);
            if let Some(line) = self.lines.get_mut(id) {
                line.servers += 1;
                line.may_be_idle(no);
            }
            lines.push(id);
        }
        if let Some(session) = self.sessions.get_mut(no) {
            session.lines = lines.clone();
        }
        self.stop_serving(no, &before, &lines);
        self.serve_session(no);
    }

    fn stop_serving(&mut self, no: SessionNo, lines: &[LineId], kept: &[LineId]) {
        let kept: BTreeSet<_> = kept.iter().collect();
        for id in lines {
            if let Some(line) = self.lines.get_mut(*id) {
                line.servers -= 1;
                if !kept.contains(id) {
                    line.is_busy(no);
                }
            }
            self.lines.tidy(*id);
        }
    }

    /// A sign of life. Tokens: all that the session holds.
    pub(super) fn heartbeat(&mut self, name: &str, tokens: Option<Vec<Listed>>, now: Instant) -> Result<Alive> {
        let no = self.sessions.find(name).ok_or_else(unknown_session)?;
        let standing = self.sessions.get(no).map_or(Standing::Expected, |session| session.standing);
        let standing = match (standing, &tokens) {
            (Standing::Expected, None) => return Err(unknown_session()),
            (Standing::Expected, Some(_)) => Standing::Resumed,
            (known, _) => known,
        };
        self.hear(no, standing, now);
        let cancel = tokens.map_or_else(Vec::new, |tokens| self.list(no, tokens, Unlisted::Underway, now));
        Ok(Alive { accepted: true, cancel })
    }

    /// Nobody but the node speaks for its own session, whose name stands in histories.
    pub(super) fn is_of_workers(&self, name: &str) -> Result<()> {
        let session = self.sessions.find(name).and_then(|no| self.sessions.get(no));
        if session.is_some_and(Session::is_built_in) { Err(unknown_session()) } else { Ok(()) }
    }

    /// Any call of a session that is known: a sign of life.
    pub(super) fn seen(&mut self, name: &str, now: Instant) {
        let no = self.sessions.find(name);
        if let Some(session) = no.and_then(|no| self.sessions.get_mut(no)).filter(|session| session.is_heard()) {
            session.seen = session.seen.max(now);
            session.contacted = Some(now);
        }
    }

    /// Its worker has spoken to this node itself.
    pub(super) fn contact(&mut self, no: SessionNo, now: Instant) {
        if let Some(session) = self.sessions.get_mut(no) {
            session.contacted = Some(now);
        }
    }

    /// A session that may take tasks.
    pub(super) fn server(&mut self, name: &str, now: Instant) -> Result<SessionNo> {
        let no = self.sessions.find(name).ok_or_else(unknown_session)?;
        let session = self.sessions.get_mut(no).filter(|session| session.standing == Standing::Registered);
        let session = session.ok_or_else(unknown_session)?;
        session.seen = session.seen.max(now);
        Ok(no)
    }

    /// A session is over, and with it all that it holds.
    pub(super) fn end(&mut self, no: SessionNo, reason: UncertainReason) {
        let Some(session) = self.sessions.get_mut(no) else { return };
        let outlets: Vec<_> = std::mem::take(&mut session.outlets).into_iter().collect();
        let held: Vec<_> = session.held.iter().cloned().collect();
        // First the slots: nothing that is freed on the way may come back to it.
        for id in &outlets {
            self.close_slots(*id);
        }
        for token in held {
            self.take_back(&token, reason);
        }
        for id in outlets {
            if let Some(outlet) = self.outlets.remove(&id) {
                outlet.wake();
            }
        }
        if let Some(session) = self.sessions.remove(no) {
            self.stop_serving(no, &session.lines, &[]);
        }
    }

    /// Does what is due, and says when to come again.
    pub(super) fn tick(&mut self, now: Instant) -> Instant {
        while let Some(entry) = self.agenda.first_entry().filter(|entry| entry.key().0 <= now) {
            match entry.remove() {
                Due::Session(no) => self.session_due(no, now),
                Due::Token(token) => self.token_due(&token),
                Due::Reread(shard, queue) => {
                    self.lines.open(&queue);
                    self.window_of(&queue, shard, Window::distrust);
                    self.doubted.remove(&(shard, queue));
                }
            }
        }
        let next = self.agenda.first_key_value().map(|((at, _), _)| *at);
        // What is not planned yet is due no sooner than this.
        let soonest = self.settings.receipt_timeout.min(self.settings.session_timeout).min(TICK_MAX);
        next.map_or(now + soonest, |next| next.min(now + soonest))
    }

    fn session_due(&mut self, no: SessionNo, now: Instant) {
        let Some(session) = self.sessions.get(no) else { return };
        let due = session.seen + self.settings.session_timeout;
        if due <= now {
            self.end(no, UncertainReason::WorkerLost);
        } else {
            self.plan(due, Due::Session(no));
        }
    }

    fn token_due(&mut self, token: &Token) {
        let Some(hand_over) = self.held.get(token) else { return };
        let reason = match hand_over.phase {
            Phase::Expected => UncertainReason::WorkerLost,
            _ => UncertainReason::NotReceived,
        };
        self.take_back(token, reason);
    }

    pub(super) fn workers(&self, now: Instant, now_ms: u64) -> Vec<WorkerSummary> {
        let mut all: BTreeMap<&str, WorkerSummary> = BTreeMap::new();
        for session in self.sessions.all().filter(|session| !session.is_built_in()) {
            let seen_ms = now_ms.saturating_sub(millis(now.saturating_duration_since(session.seen)));
            let worker = all.entry(&session.worker_id).or_insert_with(|| WorkerSummary {
                worker_id: session.worker_id.to_string(),
                runtime: String::new(),
                sdk: None,
                contracts: Vec::new(),
                online: false,
                sessions: 0,
                in_flight: 0,
                last_seen_ms: 0,
            });
            worker.in_flight += session.held.len() as u64;
            if !session.is_heard() {
                continue;
            }
            worker.online = true;
            worker.sessions += 1;
            if seen_ms >= worker.last_seen_ms && session.standing == Standing::Registered {
                worker.runtime.clone_from(&session.runtime);
                worker.sdk.clone_from(&session.sdk);
            }
            worker.last_seen_ms = worker.last_seen_ms.max(seen_ms);
            worker.contracts.extend(session.contracts.iter().cloned());
        }
        let mut all: Vec<_> = all.into_values().collect();
        for worker in &mut all {
            worker.contracts.sort();
            worker.contracts.dedup();
        }
        all
    }
}
