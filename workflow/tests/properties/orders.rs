//! Which command comes next: by chance, or so that the run comes to its end.

use workflow::command::{Expiry, Token};
use workflow::event::{RedriveAction, TaskError, UncertainReason};
use workflow::key::{self, Key};
use workflow::state::{RunStatus, Status, Work};
use workflow::value::Payload;

use super::outline::Role;
use super::tape::Tape;
use super::world::{Order, World, payload};

/// Commands that a run may take to its end.
const TO_THE_END: usize = 1_000;

/// After so many of them somebody cancels it.
const PATIENCE: usize = 250;

/// A failure of a worker's own.
pub fn error(code: &str, retryable: bool) -> TaskError {
    TaskError { code: code.to_owned(), message: String::new(), retryable, details: None }
}

impl World {
    fn with_status(&self, status: Status) -> Vec<Key> {
        let state = self.run.state();
        let stand = state.units.iter().filter(|(_, unit)| unit.status == status);
        stand.map(|(key, _)| key.clone()).collect()
    }

    /// Tasks that a worker could take.
    pub fn ready(&self) -> Vec<Key> {
        let state = self.run.state();
        let mut ready = self.with_status(Status::Scheduled);
        ready.retain(|key| state.unit(key).is_some_and(|unit| unit.is_task()) && state.closing(key).is_none());
        ready
    }

    /// Children and signals in flight.
    fn deliveries(&self) -> Vec<(Key, u32)> {
        let state = self.run.state();
        let in_flight = state.units.iter().filter(|(_, unit)| {
            unit.status == Status::Scheduled && matches!(unit.work, Some(Work::Child(_) | Work::Signal(_)))
        });
        in_flight.map(|(key, unit)| (key.clone(), unit.attempt)).collect()
    }

    /// Hand-overs in flight.
    pub fn live(&self) -> Vec<(Key, Token)> {
        let state = self.run.state();
        let is_live = |(key, token): &&(Key, Token)| state.unit(key).is_some_and(|unit| unit.token == Some(token.seq));
        self.tokens.iter().filter(is_live).cloned().collect()
    }

    /// Running timers, the next one first.
    pub fn timers(&self) -> Vec<(u64, Key)> {
        let running = self.run.state().timers.iter();
        let mut timers: Vec<_> =
            running.filter_map(|(name, timer)| timer.fire_at_ms.map(|at| (at, name.clone()))).collect();
        timers.sort();
        timers
    }

    /// A command that may come now; time passes as it must.
    pub fn by_chance(&mut self, tape: &mut Tape) -> Order {
        self.now_ms += [0, 0, 10, 500, 2_000][tape.below(5)];
        let order = match tape.below(100) {
            0..26 => self.hand_over(tape),
            26..48 => self.complete(tape),
            48..60 => self.fail(tape),
            60..65 => self.uncertain(tape),
            65..70 => self.expire(tape),
            70..82 => self.timer(tape),
            82..88 => self.answer(tape),
            88..92 => Some(Order::Signal(tape.pick(&["go", "stop", "bell", "odd"]), self.signal_payload(tape))),
            92..95 => self.late(tape),
            95 => Some(Order::Cancel(tape.chance(15))),
            96 => Some(tape.pick(&[Order::Pause, Order::Resume])),
            97 => Some(self.redrive(tape)),
            98 => Some(Order::Timeout),
            _ => self.tokens.last().map(|(_, token)| Order::Heartbeat(token.clone())),
        };
        order.or_else(|| self.forward()).unwrap_or(Order::Resume)
    }

    pub(super) fn hand_over(&self, tape: &mut Tape) -> Option<Order> {
        let ready = self.ready();
        (!ready.is_empty()).then(|| Order::HandOver(tape.pick(&ready)))
    }

    pub(super) fn live_token(&self, tape: &mut Tape) -> Option<(Key, Token)> {
        let live = self.live();
        (!live.is_empty()).then(|| tape.pick(&live))
    }

    pub(super) fn complete(&self, tape: &mut Tape) -> Option<Order> {
        let (_, token) = self.live_token(tape)?;
        let output = ["{\"n\": 1}", "{\"n\": 3}", "{\"n\": 1}", "{}", "{\"n\": \"none\"}", "7"][tape.below(6)];
        Some(Order::Complete(token, payload(output)))
    }

    fn fail(&self, tape: &mut Tape) -> Option<Order> {
        let (_, token) = self.live_token(tape)?;
        let (code, retryable, unknown) =
            tape.pick(&[("E", false, false), ("E", true, false), ("OTHER", true, false), ("MAYBE", false, true)]);
        Some(Order::Fail(token, error(code, retryable), unknown))
    }

    fn uncertain(&self, tape: &mut Tape) -> Option<Order> {
        let (_, token) = self.live_token(tape)?;
        let reasons = [
            UncertainReason::WorkerLost,
            UncertainReason::NotReceived,
            UncertainReason::NodeLost,
            UncertainReason::Unregistered,
            UncertainReason::Stopped,
        ];
        Some(Order::Uncertain(token, tape.pick(&reasons)))
    }

    /// The shard gives this at or after the due time.
    fn expire(&mut self, tape: &mut Tape) -> Option<Order> {
        let state = self.run.state();
        let mut due = Vec::new();
        for (key, unit) in state.units.iter().filter(|(_, unit)| unit.is_task()) {
            let times = match unit.status {
                Status::Dispatched => {
                    vec![(unit.timeout_ms, Expiry::Timeout), (unit.heartbeat_timeout_ms, Expiry::Heartbeat)]
                }
                Status::Scheduled => vec![(unit.queue_timeout_ms, Expiry::Queue)],
                _ => continue,
            };
            let set = times.into_iter().filter_map(|(ms, expiry)| Some((unit.at_ms + ms?, key.clone(), expiry)));
            due.extend(set);
        }
        if due.is_empty() {
            return None;
        }
        let (at, unit, expiry) = tape.pick(&due);
        self.now_ms = self.now_ms.max(at);
        Some(Order::Expire(unit, expiry))
    }

    pub(super) fn timer(&mut self, tape: &mut Tape) -> Option<Order> {
        let timers = self.timers();
        let (at, name) = timers.get(if tape.chance(30) { tape.below(timers.len()) } else { 0 })?.clone();
        if !tape.chance(25) {
            self.now_ms = self.now_ms.max(at);
        }
        Some(Order::Timer(name))
    }

    pub(super) fn answer(&self, tape: &mut Tape) -> Option<Order> {
        let deliveries = self.deliveries();
        if deliveries.is_empty() {
            return None;
        }
        let (unit, attempt) = tape.pick(&deliveries);
        let result = tape.pick(&[Ok(payload("{\"n\": 5}")), Ok(Payload::null()), Err(error("CHILD_CANCELLED", false))]);
        Some(Order::Answer(unit, attempt + u32::from(tape.chance(10)), result))
    }

    fn signal_payload(&self, tape: &mut Tape) -> Payload {
        payload(["{\"n\": 1}", "{\"n\": 2}", "{\"n\": \"x\"}", "null"][tape.below(4)])
    }

    /// A result again, or for any token ever given.
    fn late(&self, tape: &mut Tape) -> Option<Order> {
        if tape.chance(50) && !self.results.is_empty() {
            return Some(tape.pick(&self.results));
        }
        if self.tokens.is_empty() {
            return None;
        }
        let (_, token) = tape.pick(&self.tokens);
        Some(match tape.below(3) {
            0 => Order::Complete(token, payload("{\"n\": 9}")),
            1 => Order::Fail(token, error("E", tape.chance(50)), tape.chance(30)),
            _ => Order::Complete(Token { nonce: [8; 8], ..token }, payload("{}")),
        })
    }

    pub(super) fn redrive(&self, tape: &mut Tape) -> Order {
        let action = tape.pick(&[RedriveAction::Retry, RedriveAction::Resolve, RedriveAction::Fail]);
        let suspended = self.with_status(Status::Suspended);
        let steps = (!suspended.is_empty() && tape.chance(60)).then(|| vec![tape.pick(&suspended)]);
        let output = (action == RedriveAction::Resolve).then(|| payload("{\"n\": 9}"));
        Order::Redrive(steps, action, output)
    }

    /// The command that brings the run on, without chance.
    pub(super) fn forward(&mut self) -> Option<Order> {
        if self.run.state().head.paused {
            return Some(Order::Resume);
        }
        if let Some((_, token)) = self.live().first() {
            return Some(Order::Complete(token.clone(), payload("{\"n\": 1}")));
        }
        if let Some(unit) = self.ready().first() {
            return Some(Order::HandOver(unit.clone()));
        }
        if let Some((unit, attempt)) = self.deliveries().first() {
            return Some(Order::Answer(unit.clone(), *attempt, Ok(payload("{\"n\": 5}"))));
        }
        if let Some((at, name)) = self.timers().first() {
            self.now_ms = self.now_ms.max(*at);
            return Some(Order::Timer(name.clone()));
        }
        let suspended = self.with_status(Status::Suspended);
        (!suspended.is_empty()).then_some(Order::Redrive(Some(suspended), RedriveAction::Fail, None))
    }

    /// Brings the run to its end; it must have one.
    pub fn finish(&mut self, tape: &mut Tape) -> Result<(), String> {
        for turn in 0..TO_THE_END {
            if self.run.state().is_over() {
                return self.over(tape);
            }
            let waits = self.waits();
            // A closing root takes no signals (L7): only force ends an end handler that waits for one.
            let stuck = turn > PATIENCE && !waits.is_empty() && waits.iter().all(|key| Self::is_in_end_handler(key));
            let order = match self.forward() {
                _ if turn == PATIENCE => Order::Cancel(false),
                Some(order) => order,
                None if stuck => Order::Cancel(true),
                None if !waits.is_empty() && turn < PATIENCE / 2 => Order::Signal("go", payload("{\"n\": 2}")),
                None => Order::Cancel(false),
            };
            self.perform(tape, &order)?;
        }
        Err(format!("it does not end\n{}", self.tail()))
    }

    /// Waits that are open.
    fn waits(&self) -> Vec<Key> {
        let mut open = self.with_status(Status::Open);
        open.retain(|key| self.watch.outline.role(key) == Role::Wait && !key::is_undo(key));
        open
    }

    fn is_in_end_handler(key: &str) -> bool {
        key::is_handler(key) && !key.starts_with("on:event:")
    }

    /// What comes after the end changes nothing.
    fn over(&mut self, tape: &mut Tape) -> Result<(), String> {
        let events = self.history.len();
        let mut late = vec![Order::Cancel(false), Order::Pause, Order::Timeout, Order::Signal("stop", Payload::null())];
        late.extend(self.tokens.last().map(|(_, token)| Order::Complete(token.clone(), payload("{\"n\": 4}"))));
        late.extend(self.results.last().cloned());
        for order in late {
            let reply = self.perform(tape, &order)?;
            let cancelled = self.run.state().head.status == RunStatus::Cancelled;
            if matches!(order, Order::Cancel(_)) && reply.is_some() != cancelled {
                return Err(format!("a cancel after the end: {reply:?}\n{}", self.tail()));
            }
        }
        if self.history.len() != events {
            return Err(format!("something follows the end\n{}", self.tail()));
        }
        Ok(())
    }

    /// The unit's last segment's step id.
    pub fn id_of(key: &str) -> &str {
        key::last_segment(key).id
    }
}
