//! The checkers are no decoration: a good history, spoilt in every way that they are there for, is reported each time.

use serde_json::{Value as Json, json};
use workflow::event::{
    CancelRequested, Compensation, Event, Recorded, ResultKind, StaleResultIgnored, StepOpened, StepScheduled,
};
use workflow::key::Key;

use super::orders::error;
use super::tape::Tape;
use super::watch::Watch;
use super::world::{ID, Order, World, payload};

/// Three things that succeed in turn, one that is never begun, one that fails.
pub fn document() -> Json {
    let undo = json!({"task": "undo"});
    json!({
        "name": "tamper", "version": "1.0.0",
        "tasks": {"work": {"version": "1.0.0"}, "undo": {"version": "1.0.0"}},
        "steps": [
            {"id": "a", "task": "work", "compensate": undo},
            {"id": "b", "task": "work", "after": ["a"], "compensate": undo},
            {"id": "nap", "sleep": "10s", "after": ["b"]},
            {"id": "block", "after": ["nap"], "steps": [{"id": "c", "task": "work", "compensate": undo}]},
            {"id": "idle", "task": "work", "compensate": undo},
            {"id": "fails", "task": "work", "after": ["block"]},
        ],
    })
}

fn good_history() -> Vec<Recorded> {
    let mut world = World::new(&document());
    let mut give = |order: &dyn Fn(&World) -> Order| {
        let order = order(&world);
        world.perform(&mut Tape::new(Vec::new()), &order).expect("a good history").expect("an accepted command");
        world.now_ms += 1_000;
        world.history.clone()
    };
    let last = |world: &World| world.tokens.last().expect("a hand-over").1.clone();
    let complete = move |world: &World| Order::Complete(last(world), payload("{}"));
    give(&|_| Order::Start(payload("{}")));
    give(&|_| Order::HandOver(Key::from("a")));
    give(&|world| Order::Uncertain(last(world), workflow::event::UncertainReason::WorkerLost));
    give(&|_| Order::HandOver(Key::from("a")));
    give(&complete);
    give(&|_| Order::HandOver(Key::from("b")));
    give(&|world| Order::Fail(last(world), error("E", true), false));
    give(&|_| Order::Heartbeat(last_token()));
    give(&|_| Order::Timer(Key::from("b")));
    give(&|_| Order::HandOver(Key::from("b")));
    give(&complete);
    for _ in 0..10 {
        give(&|_| Order::Heartbeat(last_token()));
    }
    give(&|_| Order::Timer(Key::from("nap")));
    give(&|_| Order::HandOver(Key::from("block.c")));
    give(&complete);
    give(&|_| Order::HandOver(Key::from("fails")));
    give(&|world| Order::Fail(last(world), error("E", false), false));
    let mut history = Vec::new();
    for unit in ["block.c", "b", "a"] {
        give(&|_| Order::HandOver(Key::from(format!("compensate:{unit}"))));
        history = give(&complete);
    }
    history
}

/// A token of nobody: a heartbeat with it only lets time pass.
fn last_token() -> workflow::command::Token {
    workflow::command::Token { execution_id: ID.to_owned(), run: 1, seq: 1, nonce: [0; 8] }
}

/// Everything that the checkers say of a history.
fn faults(history: &[Recorded]) -> Vec<String> {
    let mut watch = Watch::new(&document(), ID);
    history.iter().for_each(|recorded| watch.note(recorded));
    watch.end();
    watch.take_faults()
}

type Spoil = fn(&mut Vec<Recorded>);

const WAYS: &[(&str, Spoil, &str)] = &[
    ("a gap", |h| drop(h.remove(5)), "a gap"),
    ("a second end", |h| insert(h, usize::MAX, last(h)), "after WorkflowFailed"),
    ("an event after the end", |h| insert(h, usize::MAX, stale()), "after WorkflowFailed"),
    ("undo in another order", |h| undo_list(h, |steps| steps.swap(0, 2)), "reverse order of success"),
    ("undo before its turn", early_undo, "is undone before"),
    ("an undo missing", without_undo, "never undone"),
    (
        "undo of what never happened",
        |h| undo_list(h, |steps| steps.insert(0, Key::from("idle"))),
        "not to have happened",
    ),
    ("undone twice", |h| undo_list(h, |steps| steps.push(Key::from("a"))), "undone twice"),
    ("two live tokens", two_tokens, "two live tokens"),
    ("a timer too early", early_timer, "fires at"),
    ("a timer fires twice", timer_twice, "does not run"),
    ("a cancelled timer fires", |h| insert(h, usize::MAX - 1, fired("nap")), "does not run"),
    ("another key", |h| scheduled(h, "b", 2, |e| e.idempotency_key.replace_range(0..1, "z")), "idempotency key"),
    ("a shared key", |h| shared_key(h), "shares its idempotency key"),
    ("an attempt number falls", |h| scheduled(h, "b", 2, |e| e.attempt = 1), "attempt 1 after 1"),
    ("no redelivery", |h| scheduled(h, "a", 2, |e| e.redelivery = false), "attempt 1 after 1"),
    ("a start after an unhandled failure", start_late, "after an unhandled failure"),
    ("a start below a closing", start_below, "though (workflow) is closing"),
    ("handed over after its success", hand_over_late, "though it is resolved"),
    ("resolved twice", resolved_twice, "resolved twice"),
    ("a cancel without effect", |h| insert(h, 10, cancel()), "though a cancel was accepted"),
    ("another sum of the undo", |h| failed_end(h, Compensation::Failed), "the undo went"),
    ("time goes back", |h| h[8].timestamp_ms = 0, "time goes back"),
];

pub fn every_fault_is_reported(decided: impl Fn(&[Recorded]) -> bool) {
    let good = good_history();
    assert_eq!(faults(&good), Vec::<String>::new(), "a good history");
    assert!(decided(&good), "a good history is what the rules decide");
    for (way, spoil, expected) in WAYS {
        let mut history = good.clone();
        spoil(&mut history);
        let found = faults(&history);
        assert!(found.iter().any(|fault| fault.contains(expected)), "{way}: expected {expected:?} in {found:#?}");
    }
    // What the rules decide cannot be left out either: each of their events is missed.
    for name in ["StepScheduled", "RetryScheduled", "TimerStarted", "StepClosing", "StepCancelled", "StepFailed"] {
        let mut history = good.clone();
        let at = position(&history, |event| event.name() == name);
        history.remove(at);
        renumber(&mut history);
        assert!(!decided(&history), "a missing {name} is not missed");
    }
}

fn renumber(history: &mut [Recorded]) {
    for (index, recorded) in history.iter_mut().enumerate() {
        recorded.seq = index as u64 + 1;
    }
}

fn position(history: &[Recorded], is: impl Fn(&Event) -> bool) -> usize {
    history.iter().position(|recorded| is(&recorded.event)).expect("the history has such an event")
}

fn last(history: &[Recorded]) -> Event {
    history.last().expect("a history").event.clone()
}

/// `usize::MAX` is the end, one less is before the terminal event.
fn insert(history: &mut Vec<Recorded>, at: usize, event: Event) {
    let at = at.min(history.len() - usize::from(at == usize::MAX - 1));
    let timestamp_ms = history[at.max(1) - 1].timestamp_ms;
    history.insert(at, Recorded { seq: 0, timestamp_ms, event });
    renumber(history);
}

fn stale() -> Event {
    StaleResultIgnored { step: Key::from("a"), token: "AQ".into(), outcome: ResultKind::Success }.into()
}

fn cancel() -> Event {
    CancelRequested { reason: "test".into(), force: false }.into()
}

fn fired(timer: &str) -> Event {
    workflow::event::TimerFired { step: Key::from(timer) }.into()
}

fn undo_list(history: &mut [Recorded], change: fn(&mut Vec<Key>)) {
    for recorded in history {
        if let Event::CompensationStarted(e) = &mut recorded.event {
            change(&mut e.steps);
        }
    }
}

fn failed_end(history: &mut [Recorded], compensation: Compensation) {
    for recorded in history {
        if let Event::WorkflowFailed(e) = &mut recorded.event {
            e.compensation = compensation;
        }
    }
}

/// Changes the `nth` StepScheduled of `unit`.
fn scheduled(history: &mut [Recorded], unit: &str, nth: usize, change: fn(&mut StepScheduled)) {
    let of_unit = history.iter_mut().filter_map(|recorded| match &mut recorded.event {
        Event::StepScheduled(e) if &*e.step == unit => Some(e),
        _ => None,
    });
    change(of_unit.into_iter().nth(nth - 1).expect("scheduled so often"));
}

fn is_scheduled(event: &Event, unit: &str) -> bool {
    matches!(event, Event::StepScheduled(e) if &*e.step == unit)
}

fn early_undo(history: &mut Vec<Recorded>) {
    let late = position(history, |event| is_scheduled(event, "compensate:a"));
    let event = history.remove(late).event;
    let first = position(history, |event| is_scheduled(event, "compensate:block.c"));
    insert(history, first, event);
}

fn without_undo(history: &mut Vec<Recorded>) {
    undo_list(history, |steps| steps.retain(|step| &**step != "a"));
    history.retain(|recorded| recorded.event.step().is_none_or(|step| &**step != "compensate:a"));
    renumber(history);
}

fn two_tokens(history: &mut Vec<Recorded>) {
    let at = position(history, |event| matches!(event, Event::StepDispatched(_)));
    let Event::StepDispatched(mut again) = history[at].event.clone() else { return };
    again.token = "another".into();
    insert(history, at + 1, again.into());
}

fn early_timer(history: &mut Vec<Recorded>) {
    for recorded in history {
        if let Event::TimerStarted(e) = &mut recorded.event {
            e.fire_at_ms += 60_000;
        }
    }
}

fn timer_twice(history: &mut Vec<Recorded>) {
    let at = position(history, |event| matches!(event, Event::TimerFired(_)));
    insert(history, at + 1, history[at].event.clone());
}

fn shared_key(history: &mut [Recorded]) {
    let at = position(history, |event| is_scheduled(event, "a"));
    let Event::StepScheduled(of_a) = history[at].event.clone() else { return };
    for recorded in history.iter_mut() {
        if let Event::StepScheduled(e) = &mut recorded.event
            && &*e.step == "block.c"
        {
            e.idempotency_key.clone_from(&of_a.idempotency_key);
        }
    }
}

fn start_late(history: &mut Vec<Recorded>) {
    let at = position(history, |event| matches!(event, Event::StepFailed(_)));
    insert(history, at + 1, StepOpened { step: Key::from("late"), attempt: 1 }.into());
}

fn start_below(history: &mut Vec<Recorded>) {
    let at = position(history, |event| matches!(event, Event::StepClosing(_)));
    insert(history, at + 1, StepOpened { step: Key::from("late"), attempt: 1 }.into());
}

fn hand_over_late(history: &mut Vec<Recorded>) {
    let at = position(history, |event| matches!(event, Event::StepSucceeded(_)));
    let first = position(history, |event| matches!(event, Event::StepDispatched(_)));
    let Event::StepDispatched(mut again) = history[first].event.clone() else { return };
    again.token = "another".into();
    insert(history, at + 1, again.into());
}

fn resolved_twice(history: &mut Vec<Recorded>) {
    let at = position(history, |event| matches!(event, Event::StepSucceeded(_)));
    insert(history, at + 1, history[at].event.clone());
}
