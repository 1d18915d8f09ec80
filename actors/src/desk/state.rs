//! What lies behind the lock, and the rule that binds it: **no slot is idle while something that fits it waits.** Every
//! change that could break the rule ends in [`State::serve_line`] or [`State::serve_session`].

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use orbit_raft::NodeId;
use tokio::time::Instant;
use workflow::command::Token;
use workflow::event::{Queue, UncertainReason};

use super::elsewhere::Demands;
use super::hand_over::HandOver;
use super::line::{LineId, Lines};
use super::order::{Order, Place, Ready, ShardId};
use super::session::{Outlet, OutletId, SessionNo, Sessions};
use super::window::Window;
use super::{DeskSettings, Elsewhere, ShardSink};

/// After this long a window is read again if a hand-over from it came to nothing and nobody said what became of the
/// unit.
pub(super) const REREAD_AFTER: std::time::Duration = std::time::Duration::from_secs(1);

/// Names a reserved slot; not used again.
pub(super) type Ticket = u64;

#[derive(Debug)]
pub(super) struct State {
    pub(super) settings: DeskSettings,
    pub(super) shards: BTreeMap<ShardId, Lead>,
    pub(super) lines: Lines,
    pub(super) sessions: Sessions,
    pub(super) outlets: HashMap<OutletId, Outlet>,
    pub(super) reserved: HashMap<Ticket, Reserved>,
    pub(super) held: HashMap<Arc<Token>, HandOver>,
    pub(super) agenda: BTreeMap<DueKey, Due>,
    /// Windows that are to be read again.
    pub(super) doubted: HashSet<(ShardId, Queue)>,
    pub(super) draining: bool,
    /// The other nodes, if there may be some.
    pub(super) elsewhere: Option<Arc<dyn Elsewhere>>,
    /// What waits at them.
    pub(super) demands: Demands,
    /// They are about to ask what waits here.
    pub(super) demand_told: bool,
    /// What the shards are to be told, in order, once the lock is free.
    pub(super) outbox: VecDeque<Message>,
    /// Whether somebody is telling them.
    pub(super) telling: bool,
    /// Numbers outlets, tickets and the agenda.
    last: u64,
}

/// A shard that is led here.
#[derive(Debug)]
pub(super) struct Lead {
    pub(super) sink: Arc<dyn ShardSink>,
    /// It has said what is in flight: a token that is not known is dead from now on.
    pub(super) adopted: bool,
}

/// A slot that is kept for a hand-over until it is committed or given up.
#[derive(Debug)]
pub(super) struct Reserved {
    pub(super) outlet: OutletId,
    pub(super) session: SessionNo,
    /// The waiting unit that it is kept for; none if the unit had not begun to wait.
    pub(super) offered: Option<Offered>,
}

/// A unit in an offer.
#[derive(Debug)]
pub(super) struct Offered {
    pub(super) shard: ShardId,
    pub(super) queue: Queue,
    pub(super) place: Place,
    /// Tells this offer from another of the same unit.
    pub(super) number: u64,
}

/// When, and a number that makes it one of its kind.
pub(super) type DueKey = (Instant, u64);

#[derive(Debug)]
pub(super) enum Due {
    /// A session may have been silent for too long.
    Session(SessionNo),
    /// A hand-over was not confirmed.
    Token(Arc<Token>),
    /// Rows are to be read again.
    Reread(ShardId, Queue),
}

/// A slot as the shards will get it.
#[derive(Debug)]
pub(super) struct Grant {
    pub(super) ticket: Ticket,
    pub(super) worker_id: Arc<str>,
    pub(super) session: Arc<str>,
}

/// What a shard is told.
#[derive(Debug)]
pub(super) enum Message {
    Offer(Arc<dyn ShardSink>, Ready, Grant),
    TakeBack(Arc<dyn ShardSink>, Token, UncertainReason),
    Refill(Arc<dyn ShardSink>, Queue),
    /// Nothing: the sink goes. Not under the lock, because a slot may go with it.
    Farewell(Arc<dyn ShardSink>),
    Fetch(Arc<dyn Elsewhere>, NodeId, Arc<str>, Vec<Grant>),
    TakeBackElsewhere(Arc<dyn Elsewhere>, Token, UncertainReason),
    StopElsewhere(Arc<dyn Elsewhere>, NodeId, Arc<str>, Token),
    Demand(Arc<dyn Elsewhere>),
}

impl State {
    pub(super) fn new(settings: DeskSettings) -> Self {
        Self {
            settings,
            shards: BTreeMap::new(),
            lines: Lines::default(),
            sessions: Sessions::default(),
            outlets: HashMap::new(),
            reserved: HashMap::new(),
            held: HashMap::new(),
            agenda: BTreeMap::new(),
            doubted: HashSet::new(),
            draining: false,
            elsewhere: None,
            demands: Demands::default(),
            demand_told: false,
            outbox: VecDeque::new(),
            telling: false,
            last: 0,
        }
    }

    pub(super) fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub(super) fn plan(&mut self, at: Instant, due: Due) -> DueKey {
        let key = (at, self.number());
        self.agenda.insert(key, due);
        key
    }

    // ---- what waits

    /// Changes one window and asks for rows if it ran empty.
    pub(super) fn window<R>(
        &mut self,
        line: LineId,
        shard: ShardId,
        change: impl FnOnce(&mut Window) -> R,
    ) -> Option<R> {
        let lead = self.shards.get(&shard)?;
        let queue = self.lines.queue(line)?.clone();
        let mut ask = false;
        let result = self.lines.get_mut(line)?.window(shard, |window| {
            let result = change(window);
            ask = window.ask();
            result
        });
        if ask {
            self.outbox.push_back(Message::Refill(lead.sink.clone(), queue));
        }
        Some(result)
    }

    /// Changes the window of a queue, if there is a line for it.
    pub(super) fn window_of<R>(
        &mut self,
        queue: &Queue,
        shard: ShardId,
        change: impl FnOnce(&mut Window) -> R,
    ) -> Option<R> {
        let line = self.lines.find(queue)?;
        let result = self.window(line, shard, change);
        self.serve_line(line);
        self.lines.tidy(line);
        result
    }

    pub(super) fn resign(&mut self, shard: ShardId) {
        let Some(lead) = self.shards.remove(&shard) else { return };
        self.outbox.push_back(Message::Farewell(lead.sink));
        for line in self.lines.ids() {
            if let Some(line) = self.lines.get_mut(line) {
                line.close(shard);
            }
            // Rows of that shard may have held others back.
            self.serve_line(line);
            self.lines.tidy(line);
        }
        for reserved in self.reserved.values_mut() {
            if matches!(&reserved.offered, Some(offered) if offered.shard == shard) {
                reserved.offered = None;
            }
        }
        self.forget_hand_overs_of(shard);
    }

    // ---- slots meet what waits

    /// Hands out the heads of a line while there are slots.
    pub(super) fn serve_line(&mut self, line: LineId) {
        while self.lines.get(line).is_some_and(|line| line.head().is_some()) {
            let Some(session) = self.idle_server(line) else { return self.note_demand() };
            self.offer(line, session);
        }
    }

    /// Fills the idle slots of a session, oldest first over all its queues.
    pub(super) fn serve_session(&mut self, no: SessionNo) {
        while let Some(session) = self.sessions.get(no).filter(|session| session.idle > 0) {
            let heads = session.lines.iter().filter_map(|id| Some((self.lines.get(*id)?.head()?.0, *id)));
            let head = heads.min().map(|(place, line)| (place.order, line));
            if let Some((node, queue)) = self.oldest_elsewhere(no, head.map(|(order, _)| order)) {
                self.serve_one_elsewhere(no, node, &queue);
                continue;
            }
            let Some((_, line)) = head else { return };
            self.offer(line, no);
        }
    }

    fn offer(&mut self, line: LineId, session: SessionNo) {
        let head = self.lines.get(line).and_then(|line| line.head()).map(|(_, shard)| shard);
        let Some(shard) = head else { return };
        let number = self.number();
        let Some(Some((place, attempt))) = self.window(line, shard, |window| window.pop(number)) else { return };
        let (Some(lead), Some(queue)) = (self.shards.get(&shard), self.lines.queue(line)) else { return };
        let (sink, queue) = (lead.sink.clone(), queue.clone());
        let offered = Some(Offered { shard, queue: queue.clone(), place: place.clone(), number });
        if let Some(line) = self.lines.get_mut(line) {
            line.served(session);
        }
        if let Some(grant) = self.reserve(session, offered) {
            let ready = Ready { queue, order: place.order, unit: place.unit, attempt };
            self.outbox.push_back(Message::Offer(sink, ready, grant));
        }
    }

    /// A slot for a unit that is about to become ready; none if anything waits that is not younger.
    pub(super) fn try_take(&mut self, queue: &Queue, order: &Order) -> Option<Grant> {
        let line = self.lines.find(queue)?;
        if self.lines.get(line)?.has_older(order) {
            return None;
        }
        let session = self.idle_server(line)?;
        self.lines.get_mut(line)?.served(session);
        self.reserve(session, None)
    }

    /// The session in turn that has an idle slot for this line.
    pub(super) fn idle_server(&mut self, id: LineId) -> Option<SessionNo> {
        loop {
            let line = self.lines.get_mut(id)?;
            let no = line.next_server()?;
            match self.sessions.get_mut(no) {
                Some(session) if session.idle > 0 => return Some(no),
                Some(session) => session.left.push(id),
                None => {}
            }
            line.is_busy(no);
        }
    }

    pub(super) fn reserve(&mut self, no: SessionNo, offered: Option<Offered>) -> Option<Grant> {
        let ticket = self.number();
        let session = self.sessions.get_mut(no)?;
        let id = *session.open.first()?;
        let outlet = self.outlets.get_mut(&id)?;
        outlet.idle -= 1;
        outlet.reserved += 1;
        session.idle -= 1;
        session.reserved += 1;
        if outlet.idle == 0 {
            session.open.remove(&id);
        }
        let grant = Grant { ticket, worker_id: session.worker_id.clone(), session: session.name.clone() };
        self.reserved.insert(ticket, Reserved { outlet: id, session: no, offered });
        Some(grant)
    }

    /// Takes a reservation off the books. The slot itself is used up unless [`State::offer_slots`] gives it back.
    pub(super) fn unreserve(&mut self, ticket: Ticket) -> Option<Reserved> {
        let reserved = self.reserved.remove(&ticket)?;
        if let Some(session) = self.sessions.get_mut(reserved.session) {
            session.reserved -= 1;
        }
        if let Some(outlet) = self.outlets.get_mut(&reserved.outlet) {
            outlet.reserved -= 1;
            outlet.wake();
        }
        Some(reserved)
    }

    /// A reserved slot that came to nothing is idle again.
    pub(super) fn give_up(&mut self, ticket: Ticket, now: Instant) {
        let Some(Reserved { outlet, offered, .. }) = self.unreserve(ticket) else { return };
        if let Some(Offered { shard, queue, place, number }) = offered
            && self.window_of(&queue, shard, |window| window.given_up(&place, number)) == Some(true)
            && self.doubted.insert((shard, queue.clone()))
        {
            self.plan(now + REREAD_AFTER, Due::Reread(shard, queue));
        }
        self.offer_slots(outlet, 1);
    }

    /// That many more slots at an outlet, unless it is closing.
    pub(super) fn offer_slots(&mut self, id: OutletId, slots: usize) {
        let Some(outlet) = self.outlets.get_mut(&id).filter(|outlet| !outlet.closing && slots > 0) else { return };
        let no = outlet.session;
        let Some(session) = self.sessions.get_mut(no) else { return };
        outlet.idle += slots;
        session.idle += slots;
        session.open.insert(id);
        for line in session.left.drain(..) {
            if let Some(line) = self.lines.get_mut(line) {
                line.may_be_idle(no);
            }
        }
        self.serve_session(no);
    }

    /// Withdraws the idle slots of an outlet; none come again.
    pub(super) fn close_slots(&mut self, id: OutletId) {
        let Some(outlet) = self.outlets.get_mut(&id) else { return };
        outlet.closing = true;
        let idle = std::mem::take(&mut outlet.idle);
        if let Some(session) = self.sessions.get_mut(outlet.session) {
            session.idle -= idle;
            session.open.remove(&id);
        }
    }
}
