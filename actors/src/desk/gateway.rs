//! What the gateway says for workers.

use tokio::time::Instant;
use workflow::command::Token;
use workflow::event::{Queue, UncertainReason};

use super::delivery::{poll_way, stream_way};
use super::request::{Valid, listed};
use super::{Connection, Desk, Poll};
use crate::api::{Alive, Delivery, Register, Registered, WorkerSummary};
use crate::error::{Code, Error, Result};

impl Desk {
    /// Makes a worker known, or resumes its session. It lists all that it holds: what else went to the session is
    /// taken back.
    pub(crate) fn register(
        &self,
        request: Register,
        now: Instant,
        new_session_id: impl FnOnce() -> String,
    ) -> Result<Registered> {
        let request = Valid::try_from(request)?;
        self.with(|state| {
            let (no, registered, _) = state.register(request, now, new_session_id)?;
            state.contact(no, now);
            Ok(registered)
        })
    }

    /// A sign of life, and perhaps all that the session holds. After a restart the tokens make a session known that
    /// rows name; before it polls it must register all the same.
    pub(crate) fn heartbeat(&self, session: &str, tokens: Option<&[String]>, now: Instant) -> Result<Alive> {
        let tokens = tokens.map(listed).transpose()?;
        self.with(|state| {
            state.is_of_workers(session)?;
            let alive = state.heartbeat(session, tokens, now)?;
            if let Some(no) = state.sessions.find(session) {
                state.contact(no, now);
            }
            Ok(alive)
        })
    }

    /// Anything else that was heard of a session.
    pub(crate) fn seen(&self, session: &str, now: Instant) {
        self.with(|state| state.seen(session, now));
    }

    /// A call about a task came from its worker: it has it, and it lives.
    pub(crate) fn heard_about(&self, token: &Token, now: Instant) {
        self.with(|state| {
            let Some(holder) = state.held.get(token).map(|hand_over| hand_over.holder) else { return };
            state.confirm(token);
            if let Some(name) = state.sessions.get(holder).map(|session| session.name.clone()) {
                state.seen(&name, now);
            }
        });
    }

    /// Ends a session; one that nobody knows is over as well.
    pub(crate) fn unregister(&self, session: &str) {
        self.with(|state| {
            if let Some(no) = state.sessions.find(session).filter(|_| state.is_of_workers(session).is_ok()) {
                state.end(no, UncertainReason::Unregistered);
            }
        });
    }

    /// Opens a poll for up to `max_tasks`. For a result with free slots: open it before the result is decided, so that
    /// the next task can ride on the same commit.
    pub(crate) fn open_poll(&self, session: &str, max_tasks: u32, now: Instant) -> Result<Poll> {
        let poll = self.open_poll_elsewhere(session, max_tasks, now)?;
        self.seen(session, now);
        Ok(poll)
    }

    /// The same for slots that are idle at another node.
    pub(crate) fn open_poll_elsewhere(&self, session: &str, max_tasks: u32, now: Instant) -> Result<Poll> {
        let wanted = usize::try_from(max_tasks).unwrap_or(usize::MAX);
        let (outlet, wake) = self.with(|state| {
            state.is_of_workers(session)?;
            let no = state.server(session, now)?;
            if state.draining {
                return Err(Error::new(Code::Overloaded, "this node is going away; ask another"));
            }
            let (way, wake) = poll_way();
            let outlet = state.open_outlet(no, way);
            let slots = state.slots_allowed(outlet, wanted);
            if slots == 0 && wanted > 0 {
                state.close_outlet(outlet);
                return Err(Error::new(Code::Overloaded, "this session has too many tasks or polls open"));
            }
            state.offer_slots(outlet, slots);
            Ok((outlet, wake))
        })?;
        Ok(Poll::new(self.clone(), outlet, wake))
    }

    /// Registers or resumes a session and binds a stream to it, in the place of one that it may have had.
    pub(crate) fn open_stream(
        &self,
        request: Register,
        now: Instant,
        new_session_id: impl FnOnce() -> String,
    ) -> Result<Connection> {
        self.stream(Valid::try_from(request)?, now, new_session_id)
    }

    /// The node itself as a worker: takes the tasks that are built in. Whatever its session held before and is not
    /// among `tokens` is taken back.
    pub(crate) fn open_built_in(&self, session: String, tokens: &[String], now: Instant) -> Result<Connection> {
        // The name is not made up: it is the node's, whichever process carries it.
        self.stream(Valid::built_in(session, tokens)?, now, String::new)
    }

    fn stream(&self, request: Valid, now: Instant, new_session_id: impl FnOnce() -> String) -> Result<Connection> {
        let (way, deliveries) = stream_way();
        let (outlet, registered) = self.with(|state| {
            let (no, registered, cancel) = state.register(request, now, new_session_id)?;
            state.contact(no, now);
            if let Some(before) = state.sessions.get(no).and_then(|session| session.stream) {
                state.close_outlet(before);
            }
            let id = state.open_outlet(no, way);
            if let Some(session) = state.sessions.get_mut(no) {
                session.stream = Some(id);
            }
            if let Some(outlet) = state.outlets.get(&id) {
                for token in cancel {
                    outlet.notice(Delivery::Cancel(token));
                }
                if state.draining {
                    outlet.notice(Delivery::Drain);
                }
            }
            Ok((id, registered))
        })?;
        Ok(Connection::new(self.clone(), outlet, registered, deliveries))
    }

    /// Does what is due; to be called again at the time that is answered.
    pub(crate) fn tick(&self, now: Instant) -> Instant {
        self.with(|state| state.tick(now))
    }

    /// All workers that are known, by id. `now_ms`: the same moment, ms since 1970.
    pub(crate) fn workers(&self, now: Instant, now_ms: u64) -> Vec<WorkerSummary> {
        self.lock().workers(now, now_ms)
    }

    /// How many sessions are known to live.
    pub(crate) fn sessions(&self) -> u64 {
        self.lock().sessions.all().filter(|session| session.is_heard() && !session.is_built_in()).count() as u64
    }

    /// The node goes away: streams are told, polls end, no slot is taken any more. What is held stays held.
    pub(crate) fn drain(&self) {
        self.with(super::state::State::drain);
    }

    /// Whether any session carries out this task.
    pub(crate) fn is_served(&self, task: &str, version: &str) -> bool {
        let queue = Queue { task: task.to_owned(), version: Some(version.to_owned()), language: None };
        let state = self.lock();
        state.lines.find(&queue).and_then(|id| state.lines.get(id)).is_some_and(|line| line.servers > 0)
    }
}
