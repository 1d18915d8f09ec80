//! Who holds which hand-over.
//!
//! Two sides speak about a hand-over: the shard whose rows say that it is in flight, and the session that holds it.
//! Either may come first after a restart or a leader change. `shard` is set once the shard has spoken; until then the
//! session's word is only kept.
//!
//! ```text
//!   Expected ──────────────┐ listed                    Arrived ─ answer goes out ─▶ Answered ─┐ listed
//!     (session not heard)  ├──▶ Received                 (poll)                               ├──▶ Received
//!   Sent (stream) ─────────┘ receipt or listed                                                ┘
//! ```

use std::collections::HashSet;
use std::sync::Arc;

use tokio::time::Instant;
use workflow::command::Token;
use workflow::event::UncertainReason;

use super::order::ShardId;
use super::session::{OutletId, Session, SessionNo, Standing, Way};
use super::state::{Due, DueKey, Message, State};
use super::{Held, Listed};
use crate::api::Delivery;

#[derive(Debug)]
pub(super) struct HandOver {
    /// The shard that says it is in flight.
    pub(super) shard: Option<ShardId>,
    pub(super) holder: SessionNo,
    pub(super) phase: Phase,
    /// When it went out; for one that went out before this node knew, when it came to know.
    pub(super) written: Instant,
    /// The worker should stop.
    pub(super) stop: bool,
    /// When it is taken back if nothing is heard.
    pub(super) due: Option<DueKey>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing was heard of its session yet.
    Expected,
    /// In the answer to a poll that has not gone out.
    Arrived(OutletId),
    /// On a stream, without a receipt.
    Sent(OutletId),
    /// Went out with the answer to a poll.
    Answered,
    /// The worker has said that it is there.
    Received,
}

/// What a list of tokens says about those that are not in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unlisted {
    /// Not held: the worker begins.
    Lost,
    /// Perhaps on the way, if it was written a moment ago.
    Underway,
}

impl State {
    /// Enters a hand-over. `wait`: how long it may stay unconfirmed.
    pub(super) fn hold(&mut self, token: Arc<Token>, mut hand_over: HandOver, wait: Option<std::time::Duration>) {
        let Some(session) = self.sessions.get_mut(hand_over.holder) else { return };
        session.held.insert(token.clone());
        hand_over.due = wait.map(|wait| self.plan(hand_over.written + wait, Due::Token(token.clone())));
        self.held.insert(token, hand_over);
    }

    /// Forgets a hand-over, wherever it is.
    pub(super) fn forget(&mut self, token: &Token) -> Option<HandOver> {
        let hand_over = self.held.remove(token)?;
        if let Some(due) = hand_over.due {
            self.agenda.remove(&due);
        }
        if let Some(session) = self.sessions.get_mut(hand_over.holder) {
            session.held.remove(token);
        }
        self.dismiss(hand_over.holder);
        if let Phase::Arrived(id) = hand_over.phase
            && let Some(outlet) = self.outlets.get_mut(&id)
        {
            if let Way::Poll { arrived, .. } = &mut outlet.way {
                let text = token.to_string();
                arrived.retain(|task| task.token != text);
            }
            self.offer_slots(id, 1);
        }
        Some(hand_over)
    }

    /// A session that only rows knew is gone with the last of them.
    fn dismiss(&mut self, no: SessionNo) {
        if self.sessions.get(no).is_some_and(|session| !session.is_heard() && session.held.is_empty()) {
            self.sessions.remove(no);
        }
    }

    /// The worker does not have it, or is gone.
    pub(super) fn take_back(&mut self, token: &Token, reason: UncertainReason) {
        let shard = self.forget(token).and_then(|hand_over| hand_over.shard);
        self.tell_lost(shard, token.clone(), reason);
    }

    pub(super) fn tell_lost(&mut self, shard: Option<ShardId>, token: Token, reason: UncertainReason) {
        match shard.and_then(|shard| self.shards.get(&shard)) {
            Some(lead) => self.outbox.push_back(Message::TakeBack(lead.sink.clone(), token, reason)),
            None => self.tell_elsewhere(token, reason),
        }
    }

    pub(super) fn confirm(&mut self, token: &Token) {
        let Some(hand_over) = self.held.get_mut(token) else { return };
        // What has not gone out cannot have come.
        if !matches!(hand_over.phase, Phase::Arrived(_)) {
            hand_over.phase = Phase::Received;
            if let Some(due) = hand_over.due.take() {
                self.agenda.remove(&due);
            }
        }
    }

    /// A receipt came over a stream: for what went out over it.
    pub(super) fn received(&mut self, outlet: OutletId, token: &Token) {
        if self.held.get(token).is_some_and(|hand_over| hand_over.phase == Phase::Sent(outlet)) {
            self.confirm(token);
        }
    }

    /// Tells the worker to stop.
    pub(super) fn stop(&mut self, token: &Token) {
        let Some(hand_over) = self.held.get_mut(token) else { return };
        hand_over.stop = true;
        let holder = hand_over.holder;
        self.notice_stop(holder, token);
        self.stop_elsewhere(holder, token);
    }

    pub(super) fn notice_stop(&self, holder: SessionNo, token: &Token) {
        let stream = self.sessions.get(holder).and_then(|session| session.stream);
        if let Some(outlet) = stream.and_then(|id| self.outlets.get(&id)) {
            outlet.notice(Delivery::Cancel(token.to_string()));
        }
    }

    /// A session says what it holds. Answers what of that it should stop.
    pub(super) fn list(&mut self, no: SessionNo, tokens: Vec<Listed>, rest: Unlisted, now: Instant) -> Vec<String> {
        let mut listed: HashSet<Arc<Token>> = HashSet::with_capacity(tokens.len());
        let mut cancel = Vec::new();
        for Listed { text, token } in tokens {
            let Some(token) = token.map(Arc::new) else {
                cancel.push(text);
                continue;
            };
            if self.claim(no, &token, now) {
                cancel.push(text);
            }
            listed.insert(token);
        }
        let Some(session) = self.sessions.get(no) else { return cancel };
        let unlisted: Vec<_> = session.held.iter().filter(|token| !listed.contains(*token)).cloned().collect();
        for token in unlisted {
            self.not_listed(&token, rest, now);
        }
        cancel
    }

    /// A session says that it holds this. Whether it should stop.
    pub(super) fn claim(&mut self, no: SessionNo, token: &Arc<Token>, now: Instant) -> bool {
        let Some(hand_over) = self.held.get(token) else {
            if self.is_dead(token) {
                return true;
            }
            let phase = Phase::Received;
            let claim = HandOver { shard: None, holder: no, phase, written: now, stop: false, due: None };
            self.hold(token.clone(), claim, None);
            return false;
        };
        let (holder, stop) = (hand_over.holder, hand_over.stop);
        if holder != no {
            let worker = |no| self.sessions.get(no).map(|session| session.worker_id.clone());
            if worker(holder) != worker(no) {
                return true;
            }
            self.pass_on(token, no);
        }
        self.confirm(token);
        stop
    }

    fn pass_on(&mut self, token: &Arc<Token>, to: SessionNo) {
        let Some(hand_over) = self.held.get_mut(token) else { return };
        let from = std::mem::replace(&mut hand_over.holder, to);
        if let Some(session) = self.sessions.get_mut(from) {
            session.held.remove(token);
        }
        if let Some(session) = self.sessions.get_mut(to) {
            session.held.insert(token.clone());
        }
        self.dismiss(from);
    }

    /// Whether the shard of a token has said what is in flight, and this is not.
    fn is_dead(&self, token: &Token) -> bool {
        self.shards.values().any(|lead| lead.adopted && lead.sink.owns(&token.execution_id))
    }

    fn not_listed(&mut self, token: &Token, rest: Unlisted, now: Instant) {
        let Some(hand_over) = self.held.get_mut(token) else { return };
        let age = now.saturating_duration_since(hand_over.written);
        match hand_over.phase {
            // The list cannot know of it.
            Phase::Arrived(_) => {}
            // It was the session's word alone.
            Phase::Received if hand_over.shard.is_none() => drop(self.forget(token)),
            // It had it and was told to stop, so it has stopped: nobody need wait for longer.
            Phase::Received if hand_over.stop => self.take_back(token, UncertainReason::Stopped),
            _ if rest == Unlisted::Lost || age > self.settings.receipt_timeout => {
                self.take_back(token, UncertainReason::NotReceived);
            }
            // Its session is heard now: the next list tells.
            Phase::Expected => {
                hand_over.phase = Phase::Answered;
                if let Some(due) = hand_over.due.take() {
                    self.agenda.remove(&due);
                }
            }
            _ => {}
        }
    }

    // ---- leaders come and go

    /// What is in flight by the rows of a shard, all of it.
    pub(super) fn adopt(&mut self, shard: ShardId, rows: Vec<Held>, now: Instant) {
        let Some(lead) = self.shards.get_mut(&shard) else { return };
        lead.adopted = true;
        let sink = lead.sink.clone();
        for row in rows {
            self.adopt_one(shard, row, now);
        }
        // What sessions hold beyond that is dead.
        let claims =
            self.held.iter().filter(|(token, hand_over)| hand_over.shard.is_none() && sink.owns(&token.execution_id));
        let dead: Vec<_> = claims.map(|(token, hand_over)| (token.clone(), hand_over.holder)).collect();
        for (token, holder) in dead {
            self.forget(&token);
            self.notice_stop(holder, &token);
        }
    }

    fn adopt_one(&mut self, shard: ShardId, row: Held, now: Instant) {
        let token = Arc::new(row.token);
        if let Some(hand_over) = self.held.get_mut(&token) {
            let holder = self.sessions.get(hand_over.holder);
            if holder.is_some_and(|holder| *holder.worker_id == *row.worker_id) {
                hand_over.shard = Some(shard);
                if row.stop {
                    self.stop(&token);
                }
                return;
            }
            // Somebody else's.
            let wrong = hand_over.holder;
            self.forget(&token);
            self.notice_stop(wrong, &token);
        }
        let holder = match self.sessions.find(&row.session) {
            None => {
                let (name, worker_id) = (Arc::from(row.session), Arc::from(row.worker_id));
                self.sessions.add(Session::new(name, worker_id, Standing::Expected, now))
            }
            Some(no)
                if self
                    .sessions
                    .get(no)
                    .is_some_and(|known| known.is_unsure() && *known.worker_id == *row.worker_id) =>
            {
                no
            }
            // It has said what it holds, and this was not among it.
            Some(_) => return self.tell_lost(Some(shard), (*token).clone(), UncertainReason::NotReceived),
        };
        let shard = Some(shard);
        let expected = HandOver { shard, holder, phase: Phase::Expected, written: now, stop: row.stop, due: None };
        self.hold(token, expected, Some(self.settings.session_timeout));
    }

    /// The shard is led elsewhere. What sessions hold stays their word; what nobody was heard about is forgotten.
    pub(super) fn forget_hand_overs_of(&mut self, shard: ShardId) {
        let mut expected = Vec::new();
        for (token, hand_over) in &mut self.held {
            if hand_over.shard == Some(shard) {
                hand_over.shard = None;
                if hand_over.phase == Phase::Expected {
                    expected.push(token.clone());
                }
            }
        }
        for token in expected {
            self.forget(&token);
        }
    }
}
