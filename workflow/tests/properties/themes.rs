//! Cases that are aimed at one construct of the language each, so that none of them is left to chance: the document has
//! it for sure, and the orders that it lives by come often.

use serde_json::{Value as Json, json};
use workflow::event::RedriveAction;
use workflow::state::{RunStatus, Status};

use super::document::{self, compensate, frame};
use super::orders::error;
use super::tape::Tape;
use super::world::{Order, World, payload};

/// What a case is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    Signals,
    Children,
    Redrive,
    NextRun,
    Pause,
    Force,
    Repeat,
    Handlers,
    Retry,
    Suspended,
}

/// An order that a theme likes.
#[derive(Clone, Copy, Debug)]
enum Like {
    HandOver,
    Complete,
    FailForGood,
    FailForNow,
    Answer,
    Timer,
    Signal,
    Bell,
    Pause,
    Resume,
    Cancel,
    Force,
    Timeout,
    Redrive,
}

impl Theme {
    const ALL: [Self; 10] = [
        Self::Signals,
        Self::Children,
        Self::Redrive,
        Self::NextRun,
        Self::Pause,
        Self::Force,
        Self::Repeat,
        Self::Handlers,
        Self::Retry,
        Self::Suspended,
    ];

    /// By turns, so that each occurs as often.
    pub fn of(seed: u64) -> Self {
        Self::ALL[(seed % Self::ALL.len() as u64) as usize]
    }

    fn likes(self) -> &'static [Like] {
        use Like::{
            Answer, Bell, Cancel, Complete, FailForGood, FailForNow, Force, HandOver, Pause, Redrive, Resume, Signal,
            Timeout, Timer,
        };
        match self {
            Self::Signals => &[Signal, Signal, Signal, HandOver, Complete, Answer],
            Self::Children => &[HandOver, HandOver, Complete, FailForGood, Answer, Timer, Cancel],
            Self::Redrive => &[HandOver, HandOver, HandOver, Complete, Complete, FailForGood],
            Self::NextRun => &[Signal, Signal, Bell, HandOver, Complete],
            Self::Pause => &[Pause, Resume, Signal, HandOver, Complete, Timer, Answer, Cancel],
            Self::Force => &[HandOver, HandOver, Complete, FailForGood, Cancel, Answer, Force],
            Self::Repeat => &[HandOver, HandOver, Complete, Complete, Complete, FailForGood, Timer, Signal],
            Self::Handlers => &[Bell, HandOver, Complete, FailForGood, Timer, Cancel, Timeout],
            Self::Retry => &[HandOver, HandOver, FailForNow, FailForNow, Complete, Timer, Answer],
            Self::Suspended => &[HandOver, HandOver, FailForGood, FailForGood, Complete, Redrive, Redrive, Cancel],
        }
    }

    fn steps(self, tape: &mut Tape) -> Json {
        match self {
            Self::Signals => signals(tape),
            Self::Children => children(tape),
            Self::Redrive => redrive(tape),
            Self::NextRun => next_run(),
            Self::Pause => json!([
                {"id": "t1", "task": "work", "retry": {"max_attempts": 3, "initial_delay": "1s"}},
                {"id": "n1", "sleep": "3s"},
                {"id": "u1", "sleep_until": "${execution.started_at + 5000}"},
                {"id": "k1", "after": ["u1"], "compute": "6 * 7"},
                {"id": "t3", "when": "steps.k1.output == 7", "task": "work"},
                {"id": "x1", "when": "steps.n1.output != null", "fail": {"code": "SAID_SO"}},
                {"id": "x2", "after": ["t2"], "fail": {"code": "SAID_SO"}, "when": "!input.bad"},
                {"id": "w1", "await": {"signal": "go", "timeout": "15s"}, "on_failure": "continue"},
                {"id": "c1", "workflow": {"name": "small"}, "input": {}},
                {"id": "t2", "after": ["n1"], "task": "work", "compensate": {"task": "undo"}},
            ]),
            Self::Force => json!([
                {"id": "t1", "task": "work", "compensate": undo_of_any_kind(tape)},
                {"id": "t2", "task": "work", "compensate": undo_of_any_kind(tape)},
                {"id": "c1", "workflow": {"name": "small"}, "input": {}, "compensate": undo_of_any_kind(tape)},
                {"id": "t3", "after": ["t1"], "task": "work", "retry": {"max_attempts": 1}},
            ]),
            Self::Repeat => repeat(tape),
            Self::Handlers => json!([
                {"id": "t1", "task": "work", "compensate": undo_of_any_kind(tape)},
                {"id": "t2", "task": "work", "retry": {"max_attempts": 1}},
                {"id": "n1", "sleep": "60s"},
            ]),
            Self::Retry => retry(tape),
            Self::Suspended => suspended(tape),
        }
    }
}

fn undo_of_any_kind(tape: &mut Tape) -> Json {
    let mut undo = tape.pick(&[
        json!({"task": "undo", "retry": {"max_attempts": 2, "initial_delay": "1s"}}),
        json!({"workflow": {"name": "small"}, "input": {}}),
        json!({"signal": {"execution": "peer", "name": "stop"}}),
    ]);
    if tape.chance(30) {
        undo["on_failure"] = json!("suspend");
    }
    undo
}

fn signals(tape: &mut Tape) -> Json {
    let mut wait = |after: &[&str], id: &str| {
        let signal = tape.pick(&[json!("go"), json!("stop"), json!(["go", "stop"])]);
        let mut wait = json!({"signal": signal});
        if tape.chance(25) {
            wait["where"] = json!("payload.n > 1");
        }
        if tape.chance(40) {
            wait["until"] = json!(tape.pick(&["count == 2", "count == 3", "last.payload.n > 1"]));
        }
        if tape.chance(30) {
            wait["timeout"] = json!("15s");
            wait["on_timeout"] = json!(tape.pick(&["fail", "continue"]));
        }
        json!({"id": id, "after": after, "await": wait, "on_failure": "continue"})
    };
    let (later, last) = (wait(&["t1"], "w2"), wait(&["t1", "t2"], "w3"));
    let mut each = wait(&["t1"], "w4");
    each["for"] = json!({"each": "[1, 2]"});
    // What comes while nobody waits is kept for these.
    let now = if tape.chance(50) { json!({"id": "w1", "sleep": "1s"}) } else { wait_now(tape) };
    json!([
        {"id": "t1", "task": "work", "on_failure": "continue"}, {"id": "t2", "task": "work", "on_failure": "continue"},
        now, later, last, each,
        {"id": "g1", "on_failure": "continue", "signal": {"execution": "peer", "name": "go"},
            "retry": {"max_attempts": 2, "initial_delay": "1s"},
            "compensate": {"signal": {"execution": "peer", "name": "stop"}}},
    ])
}

fn wait_now(tape: &mut Tape) -> Json {
    let signal = tape.pick(&[json!("go"), json!("stop"), json!(["go", "stop"])]);
    json!({"id": "w1", "await": {"signal": signal, "until": "count == 2"}})
}

fn children(tape: &mut Tape) -> Json {
    let mut child = json!({"id": "c1", "workflow": {"name": "small"}, "input": {"bad": false}});
    if tape.chance(40) {
        child["for"] = json!({"each": "[1, 2, 3]"});
    }
    if tape.chance(40) {
        child["retry"] = json!({"max_attempts": 2, "initial_delay": "1s"});
    }
    if tape.chance(50) {
        child["compensate"] = compensate(tape, "c1");
    }
    json!([
        child,
        {"id": "bl1", "done_when": "steps.t2.status == 'succeeded'", "steps": [
            {"id": "c2", "workflow": {"name": "small"}, "input": {}},
            {"id": "t2", "task": "work", "retry": {"max_attempts": 1}},
        ]},
        {"id": "t1", "after": ["bl1"], "task": "work", "compensate": {"workflow": {"name": "small"}, "input": {}}},
    ])
}

/// Nothing here has a compensation: what has been undone is not redriven.
fn redrive(tape: &mut Tape) -> Json {
    let mut block = json!({"id": "bl1", "after": ["t1"], "steps": [
        {"id": "t2", "task": "work"},
        {"id": "t3", "after": ["t2"], "task": "work", "retry": {"max_attempts": 1}},
    ]});
    if tape.chance(30) {
        block["retry"] = json!({"max_attempts": 2});
    }
    if tape.chance(30) {
        block["deadline"] = json!("60s");
    }
    json!([
        {"id": "t1", "task": "work"}, block,
        {"id": "f1", "task": "work", "for": {"each": "[1, 2, 3]", "concurrency": 2, "max_failures": tape.below(2)}},
        {"id": "r1", "task": "work", "repeat": {"until": "iteration >= 2", "max": 3}},
        {"id": "n1", "sleep": "5s"},
    ])
}

fn next_run() -> Json {
    json!([
        {"id": "t1", "task": "work", "compensate": {"task": "undo", "always": true}},
        {"id": "w1", "await": {"signal": "go"}},
        {"id": "again", "after": ["w1"], "continue_as_new": {"input": {"n": "${input.n + 1}"}}},
    ])
}

fn repeat(tape: &mut Tape) -> Json {
    let mut again = json!({
        "id": "r1", "task": "work", "input": {"v": "${previous}"}, "on_failure": "continue",
        "repeat": {"until": tape.pick(&["iteration >= 3", "output.n > 2", "iteration >= 5"]), "max": 6},
    });
    if tape.chance(50) {
        again["repeat"]["delay"] = json!("2s");
        again["repeat"]["multiplier"] = json!(2);
    }
    if tape.chance(50) {
        again["compensate"] = compensate(tape, "r1");
    }
    if tape.chance(40) {
        again["for"] = json!({"each": "[1, 2]", "max_failures": "all"});
    }
    json!([
        again,
        {"id": "r2", "repeat": {"until": "iteration >= 2"}, "steps": [
            {"id": "t1", "task": "work", "compensate": {"task": "undo", "always": true}},
        ]},
        {"id": "r3", "repeat": {"until": "iteration >= 2"}, "await": {"signal": "go"}},
    ])
}

fn retry(tape: &mut Tape) -> Json {
    json!([
        {"id": "t1", "task": "work", "retry": {"max_attempts": 4, "initial_delay": "1s"}, "timeout": "5s"},
        {"id": "bl1", "retry": {"max_attempts": 3, "initial_delay": "1s"}, "on_failure": "continue", "steps": [
            {"id": "t2", "task": "work", "compensate": {"task": "undo", "always": tape.chance(60)}},
            {"id": "t3", "after": ["t2"], "task": "work", "retry": {"max_attempts": 1}},
        ]},
        {"id": "f1", "task": "work", "retry": {"max_attempts": 2, "initial_delay": "1s"},
            "for": {"each": "range(4)", "concurrency": 2, "max_failures": "50%", "done_when": "succeeded >= 3"},
            "on_failure": "continue"},
        {"id": "c1", "workflow": {"name": "small"}, "input": {}, "retry": {"max_attempts": 2, "initial_delay": "1s"},
            "on_failure": "continue"},
        {"id": "t4", "task": "work", "retry": {"max_attempts": 1}, "after": ["t1"],
            "compensate": {"task": "undo", "retry": {"max_attempts": 3, "initial_delay": "1s"}}},
        {"id": "t5", "task": "work", "retry": {"max_attempts": 1}, "after": ["t4"]},
    ])
}

fn suspended(tape: &mut Tape) -> Json {
    json!([
        {"id": "t1", "task": "work", "retry": {"max_attempts": 1}, "on_failure": "suspend",
            "compensate": {"task": "undo", "on_failure": "suspend", "retry": {"max_attempts": 1}}},
        {"id": "f1", "task": "work", "retry": {"max_attempts": 1}, "on_failure": "suspend",
            "for": {"each": "[1, 2]", "max_failures": tape.below(2)}},
        {"id": "r1", "task": "work", "retry": {"max_attempts": 1}, "on_failure": "suspend",
            "repeat": {"until": "iteration >= 2"}},
        {"id": "bl1", "on_failure": "suspend", "after": ["t1"], "steps": [
            {"id": "t2", "task": "work", "retry": {"max_attempts": 1}},
        ]},
    ])
}

/// A document for `theme`; every third one stands beside a random one, except where that would spoil it.
pub fn document(tape: &mut Tape, theme: Theme) -> Json {
    let own = theme.steps(tape);
    let own = own.as_array().expect("steps are a list").clone();
    let alone = matches!(theme, Theme::Redrive | Theme::NextRun | Theme::Signals) || !tape.chance(33);
    let mut document = if alone { frame(tape, Vec::new()) } else { document::random(tape) };
    document["steps"].as_array_mut().expect("steps are a list").splice(0..0, own);
    if matches!(theme, Theme::Handlers | Theme::NextRun | Theme::Force) {
        let end = |id: &str| {
            json!([
                {"id": id, "task": "work", "retry": {"max_attempts": 1}},
                {"id": format!("{id}2"), "task": "work"},
                {"id": format!("{id}3"), "after": [id], "task": "work"},
            ])
        };
        document["handlers"] = json!({
            "failure": end("hf"), "cancel": end("hc"), "timeout": end("ht"), "exit": end("hx"),
            "event": {"bell": [
                {"id": "hb", "task": "work", "compensate": {"task": "undo"}},
                {"id": "hn", "after": ["hb"], "sleep": "1s"},
            ]},
        });
    }
    if theme == Theme::Handlers {
        document["timeout"] = json!("20s");
    }
    if theme == Theme::Force {
        document["cancel_grace"] = json!("3s");
    }
    document
}

impl World {
    /// Lives through a case of `theme` up to its end, and through what a redrive makes of it.
    pub fn live_through(&mut self, tape: &mut Tape, theme: Theme) -> Result<(), String> {
        self.restless = true;
        self.perform(tape, &Order::Start(payload("{}")))?;
        self.live_on(tape, theme)?;
        let rounds = if theme == Theme::Redrive { 3 } else { 1 };
        for _ in 0..rounds {
            let Some(order) = self.taken_up(tape) else { break };
            if self.perform(tape, &order)?.is_some() {
                self.coverage.count("ends taken back", 1);
                self.live_on(tape, theme)?;
            }
        }
        Ok(())
    }

    fn live_on(&mut self, tape: &mut Tape, theme: Theme) -> Result<(), String> {
        for _ in 0..tape.within(8, 50) {
            if self.run.state().is_over() {
                break;
            }
            let liked = tape.chance(75).then(|| tape.pick(theme.likes()));
            let order = liked.and_then(|like| self.liked(tape, like));
            let order = match order {
                Some(order) => order,
                // Who dies is not redriven, so that theme leaves no room for a cancel.
                None if theme == Theme::Redrive => self.forward().unwrap_or(Order::Resume),
                None => self.by_chance(tape),
            };
            self.perform(tape, &order)?;
        }
        self.finish(tape)
    }

    fn liked(&mut self, tape: &mut Tape, like: Like) -> Option<Order> {
        match like {
            Like::HandOver => self.hand_over(tape),
            Like::Complete => self.complete(tape),
            Like::FailForGood => self.live_token(tape).map(|(_, token)| Order::Fail(token, error("E", false), false)),
            Like::FailForNow => self.live_token(tape).map(|(_, token)| Order::Fail(token, error("E", true), false)),
            Like::Answer => self.answer(tape),
            Like::Timer => self.timer(tape),
            Like::Signal => {
                Some(Order::Signal(tape.pick(&["go", "stop"]), payload(tape.pick(&["{\"n\": 1}", "{\"n\": 2}"]))))
            }
            Like::Bell => Some(Order::Signal("bell", payload("null"))),
            Like::Pause => tape.chance(50).then_some(Order::Pause),
            Like::Resume => Some(Order::Resume),
            Like::Cancel => tape.chance(20).then_some(Order::Cancel(false)),
            Like::Force => tape.chance(30).then_some(Order::Cancel(true)),
            Like::Timeout => {
                let at = self.run.state().head.timeout_at_ms?;
                self.now_ms = self.now_ms.max(if tape.chance(40) { at } else { 0 });
                Some(Order::Timeout)
            }
            Like::Redrive => Some(self.redrive(tape)),
        }
    }

    /// A redrive of an end that can be taken back: of all, or of one unit that failed or was cancelled.
    fn taken_up(&self, tape: &mut Tape) -> Option<Order> {
        let state = self.run.state();
        if !matches!(state.head.status, RunStatus::Failed | RunStatus::TimedOut) {
            return None;
        }
        let failed = state
            .units
            .iter()
            .filter(|(_, unit)| unit.work.is_some() && matches!(unit.status, Status::Failed | Status::Cancelled));
        let failed: Vec<_> = failed.map(|(key, _)| key.clone()).collect();
        let action = tape.pick(&[RedriveAction::Retry, RedriveAction::Resolve, RedriveAction::Fail]);
        let named = !failed.is_empty() && (action != RedriveAction::Retry || tape.chance(50));
        let steps = named.then(|| vec![tape.pick(&failed)]);
        let output = (action == RedriveAction::Resolve).then(|| payload("{\"n\": 9}"));
        Some(Order::Redrive(steps, action, output))
    }
}
