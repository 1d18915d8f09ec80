//! A worker's session, and the slots it offers.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use orbit_raft::NodeId;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use workflow::command::Token;

use super::line::LineId;
use super::request::BUILT_IN_WORKER;
use crate::api::{Delivery, Task, TaskVersion};

/// Names a session on this node; not used again.
pub(super) type SessionNo = u64;

/// Names an outlet; not used again.
pub(super) type OutletId = u64;

/// How well a session is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Rows name it, nothing was heard of it here.
    Expected,
    /// It named itself with what it holds; what it can do is not known.
    Resumed,
    /// Everything is known.
    Registered,
}

#[derive(Debug)]
pub(super) struct Session {
    /// Its public id.
    pub(super) name: Arc<str>,
    pub(super) worker_id: Arc<str>,
    pub(super) runtime: String,
    pub(super) sdk: Option<String>,
    pub(super) contracts: Vec<TaskVersion>,
    pub(super) standing: Standing,
    /// When something was last heard of it.
    pub(super) seen: Instant,
    /// … here itself, and not by another node.
    pub(super) contacted: Option<Instant>,
    /// The other node that it is connected to, as far as is known.
    pub(super) home: Option<NodeId>,
    /// That node does not answer: what the session holds is not known.
    pub(super) doubtful: bool,
    /// The lines it serves.
    pub(super) lines: Vec<LineId>,
    /// Those of them that found it busy.
    pub(super) left: Vec<LineId>,
    /// Its polls and its stream.
    pub(super) outlets: BTreeSet<OutletId>,
    /// Those of them with idle slots.
    pub(super) open: BTreeSet<OutletId>,
    pub(super) stream: Option<OutletId>,
    /// Idle slots, all in all.
    pub(super) idle: usize,
    /// Reserved slots, all in all.
    pub(super) reserved: usize,
    /// Whether its silence is on the agenda.
    pub(super) watched: bool,
    /// What it holds, or is about to.
    pub(super) held: HashSet<Arc<Token>>,
}

impl Session {
    pub(super) fn new(name: Arc<str>, worker_id: Arc<str>, standing: Standing, seen: Instant) -> Self {
        Self {
            name,
            worker_id,
            runtime: String::new(),
            sdk: None,
            contracts: Vec::new(),
            standing,
            seen,
            contacted: None,
            home: None,
            doubtful: false,
            lines: Vec::new(),
            left: Vec::new(),
            outlets: BTreeSet::new(),
            open: BTreeSet::new(),
            stream: None,
            idle: 0,
            reserved: 0,
            watched: false,
            held: HashSet::new(),
        }
    }

    pub(super) fn is_heard(&self) -> bool {
        self.standing != Standing::Expected
    }

    /// Whether nobody has said what it holds.
    pub(super) fn is_unsure(&self) -> bool {
        !self.is_heard() || self.doubtful
    }

    /// Whether it is the node's own, of this process or of one before.
    pub(super) fn is_built_in(&self) -> bool {
        *self.worker_id == *BUILT_IN_WORKER
    }
}

/// Sessions by number and by name.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    by_no: HashMap<SessionNo, Session>,
    by_name: HashMap<Arc<str>, SessionNo>,
    last: SessionNo,
}

impl Sessions {
    pub(super) fn add(&mut self, session: Session) -> SessionNo {
        self.last += 1;
        self.by_name.insert(session.name.clone(), self.last);
        self.by_no.insert(self.last, session);
        self.last
    }

    pub(super) fn remove(&mut self, no: SessionNo) -> Option<Session> {
        let session = self.by_no.remove(&no)?;
        self.by_name.remove(&session.name);
        Some(session)
    }

    pub(super) fn find(&self, name: &str) -> Option<SessionNo> {
        self.by_name.get(name).copied()
    }

    pub(super) fn get(&self, no: SessionNo) -> Option<&Session> {
        self.by_no.get(&no)
    }

    pub(super) fn get_mut(&mut self, no: SessionNo) -> Option<&mut Session> {
        self.by_no.get_mut(&no)
    }

    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut Session> {
        self.by_no.values_mut()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Session> {
        self.by_no.values()
    }

    pub(super) fn len(&self) -> usize {
        self.by_no.len()
    }
}

/// Where slots come from and tasks go: a poll or a stream.
#[derive(Debug)]
pub(super) struct Outlet {
    pub(super) session: SessionNo,
    pub(super) idle: usize,
    pub(super) reserved: usize,
    /// Takes no further slots: settles what is reserved and ends.
    pub(super) closing: bool,
    pub(super) way: Way,
}

/// How tasks go out.
#[derive(Debug)]
pub(super) enum Way {
    /// With the answer to a poll.
    Poll { arrived: Vec<Task>, wake: Arc<Notify> },
    /// At once.
    Stream(mpsc::Sender<Delivery>),
}

impl Outlet {
    /// Wakes whoever waits at it, to look again.
    pub(super) fn wake(&self) {
        if let Way::Poll { wake, .. } = &self.way {
            wake.notify_one();
        }
    }

    /// A notice on a stream. It never takes the room of a task; where there is none it is left out, because
    /// heartbeats are answered with the same.
    pub(super) fn notice(&self, notice: Delivery) {
        if let Way::Stream(out) = &self.way
            && out.capacity() > self.idle + self.reserved
        {
            // A stream that ended hears nothing; it is closed by its owner.
            let _ = out.try_send(notice);
        }
    }
}
