//! Mocked workers: what they do with a hand-over is what the case says.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use super::file::{MockError, Outcome};
use super::live::{At, Cause, Offer};
use super::report::Difference;
use super::scalar::{Ms, OneOrMany};
use super::world::{Act, World};
use crate::command::{Complete, Expire, Expiry, Fail, OfferTaken, Token, Uncertain};
use crate::event::{TaskError, UncertainReason};
use crate::key::Key;
use crate::state::{Unit, Work};
use crate::value::{Payload, Value};

/// How long a mocked worker takes unless the case says otherwise, ms.
const AFTER: Ms = Ms(10);

/// What will happen to one hand-over.
#[derive(Debug)]
pub(super) struct Chosen {
    outcome: Outcome,
    output: Payload,
}

impl Chosen {
    pub(super) fn pickup_ms(&self) -> u64 {
        self.outcome.pickup.unwrap_or_default().0
    }

    /// Whether the worker answers at all.
    fn answers(&self) -> bool {
        let Outcome { never, silent, lost, after, .. } = &self.outcome;
        !(*never || *silent || lost.is_some() && after.is_none())
    }
}

/// The mocks of a case, and how often each was used.
#[derive(Debug)]
pub(super) struct Mocks<'c> {
    rules: &'c BTreeMap<String, OneOrMany<Outcome>>,
    calls: HashMap<String, u64>,
    used: HashMap<(String, usize), u64>,
    /// Calls that no outcome of their mock fits: the first by task, and how many.
    unmatched: BTreeMap<String, (u64, u64)>,
}

impl<'c> Mocks<'c> {
    pub(super) fn new(rules: &'c BTreeMap<String, OneOrMany<Outcome>>) -> Self {
        Self { rules, calls: HashMap::new(), used: HashMap::new(), unmatched: BTreeMap::new() }
    }

    /// The first outcome that fits; without one the task succeeds with `{}`.
    ///
    /// # Errors
    /// An expression of the case failed.
    pub(super) fn choose(&mut self, key: &Key, unit: &Unit) -> Result<Chosen, String> {
        let Some(Work::Task(queue)) = &unit.work else { return Err("no task".to_owned()) };
        let task = &queue.task;
        let calls = self.calls.entry(task.clone()).or_default();
        *calls += 1;
        let scope: BTreeMap<String, Value> = BTreeMap::from([
            ("input".to_owned(), unit.input.as_ref().map_or(Value::Null, Payload::value)),
            ("attempt".to_owned(), Value::from(unit.attempt)),
            ("unit".to_owned(), Value::from(&**key)),
            ("call".to_owned(), Value::from(*calls)),
        ]);
        let call = *calls;
        let rules = self.rules.get(task).map_or(&[][..], |rules| &rules.0);
        for (index, outcome) in rules.iter().enumerate() {
            if let Some(when) = &outcome.when
                && when.0.evaluate(&scope).map_err(|error| error.message)?.as_bool() != Some(true)
            {
                continue;
            }
            let used = self.used.entry((task.clone(), index)).or_default();
            if outcome.times.is_some_and(|times| *used >= times) {
                continue;
            }
            *used += 1;
            let output = match &outcome.output {
                Some(output) => Payload::from(output.0.evaluate(&scope).map_err(|error| error.message)?),
                None => nothing(),
            };
            return Ok(Chosen { outcome: outcome.clone(), output });
        }
        if !rules.is_empty() {
            self.unmatched.entry(task.clone()).or_insert((call, 0)).1 += 1;
        }
        Ok(Chosen { outcome: Outcome::default(), output: nothing() })
    }

    /// What a list of outcomes left open.
    pub(super) fn notes(&self) -> Vec<String> {
        let note = |(task, (first, count)): (&String, &(u64, u64))| {
            let more = match count - 1 {
                0 => String::new(),
                1 => ", so did another".to_owned(),
                more => format!(", so did {more} others"),
            };
            format!("call {first} of {task} matched no outcome of its mock and succeeded with {{}}{more}")
        };
        self.unmatched.iter().map(note).collect()
    }
}

/// `{}`
fn nothing() -> Payload {
    Payload::from(Value::map::<&str>([]))
}

impl World<'_> {
    /// A worker takes an offer, if it is still open.
    pub(super) fn hand_over(&mut self, at: At, offer: &Offer) {
        let live = &mut self.lives[at.0];
        if live.is_paused() {
            live.armed.remove(&Cause::Offer(offer.clone()));
            return;
        }
        let open = live.is_open(offer);
        let Some(chosen) = live.chosen.remove(offer).filter(|_| open) else { return };
        // The same for every hand-over: nothing here is secret.
        let taken = OfferTaken { unit: &offer.key, worker_id: "worker", worker_session: "session", nonce: [0; 8] };
        let Ok(token) = self.give(at, taken) else { return };
        let key = &offer.key;
        if let Some(unit) = self.lives[at.0].unit(key).cloned() {
            if let Some(Work::Task(queue)) = &unit.work {
                let input = unit.input.as_ref().map_or(Value::Null, Payload::value);
                self.calls.entry(queue.task.clone()).or_default().push(input);
            }
            self.foresee(at, key, &unit, &token, &chosen);
        }
        self.effects(at);
    }

    /// Puts all that the worker will do into the queue.
    fn foresee(&mut self, at: At, key: &Key, unit: &Unit, token: &Token, chosen: &Rc<Chosen>) {
        let (outcome, now_ms) = (&chosen.outcome, self.now_ms);
        if let (true, Some(ms)) = (outcome.silent, unit.heartbeat_timeout_ms) {
            self.arm(at, Cause::Heartbeat(key.clone(), token.seq), now_ms.saturating_add(ms));
        }
        if let Some(Ms(ms)) = outcome.lost {
            let reason = outcome.reason.unwrap_or(UncertainReason::WorkerLost);
            self.at(now_ms.saturating_add(ms), Act::Lose { at, token: token.clone(), reason });
        }
        if !chosen.answers() {
            return;
        }
        let first_ms = now_ms.saturating_add(outcome.after.unwrap_or(AFTER).0);
        let again_ms = outcome.again.unwrap_or(AFTER).0;
        for index in 0..outcome.sent.map_or(1, |times| u64::from(times.0)) {
            let at_ms = first_ms.saturating_add(index.saturating_mul(again_ms));
            let (key, token, chosen) = (key.clone(), token.clone(), Rc::clone(chosen));
            self.at(at_ms, Act::Report { at, key, token, chosen });
        }
    }

    /// A hand-over is given up; what was lost during a pause is noticed on resume (L10).
    pub(super) fn lose(&mut self, at: At, token: Token, reason: UncertainReason) {
        let live = &mut self.lives[at.0];
        if live.is_paused() {
            live.deferred.push(Act::Lose { at, token, reason });
            return;
        }
        // Refused when it is not in flight any more: then there is nothing to give up.
        let _ = self.give(at, Uncertain { token: &token, reason });
        self.effects(at);
    }

    /// The worker's result. Whether it still counts is the engine's business.
    pub(super) fn report(&mut self, at: At, key: Key, token: Token, chosen: Rc<Chosen>) {
        match &chosen.outcome.error {
            None => drop(self.give(at, Complete { token: &token, output: chosen.output.clone() })),
            Some(error) => match own_clock(&error.code) {
                Some(expiry) => {
                    let live = &mut self.lives[at.0];
                    if !live.is_in_flight(&key, token.seq) {
                        return;
                    }
                    if live.is_paused() {
                        live.deferred.push(Act::Report { at, key, token, chosen });
                        return;
                    }
                    drop(self.give(at, Expire { unit: &key, expiry }));
                }
                None => self.report_failure(at, &key, &token, error),
            },
        }
        self.effects(at);
    }

    fn report_failure(&mut self, at: At, key: &Key, token: &Token, error: &MockError) {
        let fail = Fail {
            token,
            error: TaskError {
                code: error.code.clone(),
                message: error.message.clone(),
                retryable: error.retryable,
                details: error.details.as_ref().map(Payload::from),
            },
            unknown: error.unknown,
        };
        if let Err(refusal) = self.give(at, fail) {
            self.stop(Difference::new(format!("the mock of {key}"), "an outcome", refusal.to_string()));
        }
    }
}

/// A mock may stand for the engine's own clock.
fn own_clock(code: &str) -> Option<Expiry> {
    match code {
        "TIMEOUT" => Some(Expiry::Timeout),
        "HEARTBEAT_TIMEOUT" => Some(Expiry::Heartbeat),
        _ => None,
    }
}
