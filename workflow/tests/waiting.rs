//! Waits and signals cost in proportion to what changes, however many of them there are. Counted, not timed: nodes that
//! were visited, and how often a wait was asked about a signal.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use workflow::command::{Batch, Run, SendSignal, Start};
use workflow::decide::Work;
use workflow::document::{self, Format};
use workflow::event::{Event, Recorded};
use workflow::state::ReadRows;
use workflow::value::Payload;

mod shelf;
use shelf::Shelf;

struct Play {
    run: Run,
    events: Vec<Recorded>,
    shelf: Arc<Shelf>,
}

impl Play {
    fn start(body: &str) -> Self {
        let document = format!("name: w\nversion: 1.0.0\n{body}");
        let compiled =
            document::compile(&document, Format::Yaml).unwrap_or_else(|faults| panic!("{faults}\n{document}"));
        let mut run = Run::new(Arc::new(compiled.into_iter().next().unwrap().definition), "x");
        let (_, batch) = run.handle(0, Start::with_input(Payload::parse("{}").unwrap())).unwrap();
        let mut play = Self { run, events: Vec::new(), shelf: Arc::default() };
        play.take(batch);
        play
    }

    fn take(&mut self, mut batch: Batch) {
        loop {
            self.events.append(&mut batch.events);
            if !batch.unfinished {
                return;
            }
            batch = self.run.proceed(0);
        }
    }

    /// Sends a signal; what that has cost.
    fn send(&mut self, name: &str, payload: &str) -> Work {
        let before = self.run.work();
        let signal = SendSignal { name: name.into(), payload: Payload::parse(payload).unwrap(), dedup_id: None };
        let (_, batch) = self.run.handle(0, signal).unwrap();
        self.take(batch);
        let after = self.run.work();
        Work { visited: after.visited - before.visited, asked: after.asked - before.asked }
    }

    fn taken(&self) -> Vec<(String, u64)> {
        let taken = self.events.iter().filter_map(|recorded| match &recorded.event {
            Event::SignalConsumed(e) => Some((e.step.to_string(), e.signal_seq)),
            _ => None,
        });
        taken.collect()
    }

    /// The same run, asleep and awake again.
    fn woken(mut self) -> Self {
        self.shelf.store(self.run.take_changes());
        let rows: Arc<dyn ReadRows> = self.shelf.clone();
        let definition = Arc::clone(self.run.definition());
        let run = Run::asleep(definition, "x", &rows, false).unwrap().unwrap();
        Self { run, events: Vec::new(), shelf: self.shelf }
    }
}

fn many_waits(n: usize, more: &str) -> String {
    format!(
        "signals: {{s: {{}}, t: {{}}}}\nsteps:\n  - id: all\n    for: {{each: 'range({n})', concurrency: 10000}}\n    \
         await: {{signal: s{more}}}\n"
    )
}

#[test]
fn a_signal_costs_the_same_however_many_wait_for_it() {
    let cost = |n: usize| {
        let mut play = Play::start(&many_waits(n, ""));
        let costs: Vec<Work> = (0..5).map(|_| play.send("s", "{}")).collect();
        let taken: Vec<String> = play.taken().into_iter().map(|(wait, _)| wait).collect();
        assert_eq!(taken, ["all[0]", "all[1]", "all[2]", "all[3]", "all[4]"], "the one opened first");
        costs
    };
    let (few, many) = (cost(10), cost(1_000));
    assert_eq!(few, many);
    assert!(few.iter().all(|cost| cost.asked == 1 && cost.visited < 20), "{few:?}");
}

#[test]
fn a_signal_that_nobody_waits_for_costs_no_wait_anything() {
    let mut play = Play::start(&many_waits(1_000, ""));
    for _ in 0..50 {
        let cost = play.send("t", "{}");
        assert!(cost.asked == 0 && cost.visited < 5, "{cost:?}");
    }
}

#[test]
fn each_wait_is_asked_once_about_each_signal() {
    let mut play = Play::start(&many_waits(40, ", where: 'payload.n == index'"));
    for _ in 0..30 {
        assert_eq!(play.send("s", r#"{"n": -1}"#).asked, 40, "all of them refuse it, and are not asked again");
    }
    let cost = play.send("s", r#"{"n": 7}"#);
    assert_eq!(cost.asked, 8, "up to the one that wants it");
    assert_eq!(play.taken(), [("all[7]".to_owned(), play.run.state().head.seq - 2)]);
    assert_eq!(play.send("s", r#"{"n": 39}"#).asked, 39, "the others, one less");
}

#[test]
fn a_wait_that_opens_is_asked_about_what_nobody_took() {
    let body = "signals: {s: {}, go: {}}\nsteps:\n  - {id: go, await: {signal: go}}\n  \
                - {id: all, after: [go], for: {each: 'range(20)', concurrency: 1}, await: {signal: s}}\n";
    let mut play = Play::start(body);
    for _ in 0..500 {
        play.send("s", "{}");
    }
    let cost = play.send("go", "{}");
    assert_eq!(play.taken().len(), 21);
    assert!(cost.asked <= 45, "each of the twenty takes the first that is left: {cost:?}");
}

#[test]
fn a_list_of_signals_is_not_walked_for_each_of_them() {
    let names: Vec<String> = (0..60).map(|n| format!("s{n}")).collect();
    let declared: Vec<String> = names.iter().map(|name| format!("{name}: {{}}")).collect();
    let body = format!(
        "signals: {{{}}}\nsteps:\n  - {{id: w, await: {{signal: [{}], until: 'count == 300'}}}}\n",
        declared.join(", "),
        names.join(", ")
    );
    let mut play = Play::start(&body);
    for n in 0..300 {
        let cost = play.send(&format!("s{}", n % 60), "{}");
        assert!(cost.asked <= 2 && cost.visited < 15, "{cost:?}");
    }
    assert!(play.run.state().is_over());
}

#[test]
fn event_handlers_find_their_signal_at_once() {
    let body = "signals: {s: {}, t: {}}\nhandlers: {event: {t: [{id: h, sleep: 1h}]}}\nsteps: [{id: w, sleep: 1h}]\n";
    let mut play = Play::start(body);
    for _ in 0..200 {
        play.send("s", "{}");
        let cost = play.send("t", "{}");
        assert!(cost.visited < 20, "{cost:?}");
    }
    assert_eq!(play.run.state().head.handlers_running, 200);
}

#[test]
fn what_an_older_wait_wants_is_not_for_a_younger_one_also_after_a_sleep() {
    let body = "
signals: {s: {}, go: {}}
steps:
  - {id: late, after: [go], await: {signal: [s], until: 'count == 2'}}
  - {id: go, await: {signal: go}}
  - {id: early, await: {signal: s, where: 'payload.n > 1'}}
";
    let mut play = Play::start(body);
    play.send("s", r#"{"n": 1}"#);
    let mut play = play.woken();
    play.send("go", "{}");
    assert_eq!(play.taken().last().unwrap().0, "late", "what the older one refused");
    let mut play = play.woken();
    play.send("s", r#"{"n": 2}"#);
    assert_eq!(play.taken()[0].0, "early", "it is older, though it stands behind");
    play.send("s", r#"{"n": 3}"#);
    assert_eq!(play.taken()[1].0, "late");
    assert!(play.run.state().is_over());
}

/// A block that watches a step beside it, in each of `n` elements, and as many that watch nothing.
#[test]
fn what_watches_a_step_is_looked_at_when_that_step_changes() {
    let cost = |n: usize| {
        let waits = "  - {id: a, await: {signal: s}}\n  - {id: b, await: {signal: t}}\n";
        let each = format!("  - id: all\n    for: {{each: 'range({n})', concurrency: 10000}}\n");
        let block = "    done_when: \"steps.a.status == 'succeeded'\"\n    steps: [{id: w, sleep: 1h}]\n";
        let body = format!("signals: {{s: {{}}, t: {{}}}}\nsteps:\n{waits}{each}{block}");
        let mut play = Play::start(&body);
        let (other, watched) = (play.send("t", "{}").visited, play.send("s", "{}").visited);
        assert_eq!(play.run.state().unit("all").unwrap().status, workflow::state::Status::Succeeded);
        (other, watched)
    };
    let (few, many) = (cost(10), cost(300));
    assert_eq!(few.0, many.0, "nobody watches b");
    assert!(many.1 > 300, "everybody watches a: {many:?}");
}

#[test]
fn only_what_counts_events_is_looked_at_after_each() {
    let watcher = "  - {id: box, done_when: 'execution.history_events > 3000', steps: [{id: w, sleep: 1h}]}\n";
    let each = "  - id: all\n    for: {each: 'range(1000)', concurrency: 10000}\n";
    let block = "    steps: [{id: v, await: {signal: t, until: 'false'}}]\n";
    let body = format!("signals: {{t: {{}}}}\nsteps:\n{watcher}{each}{block}");
    let mut play = Play::start(&body);
    let cost = play.send("t", "{}");
    assert!(cost.visited < 30, "{cost:?}");
    while !play.events.iter().any(|recorded| recorded.event.to_string().starts_with("StepClosing box done")) {
        assert!(play.run.state().head.seq < 3_010, "it is looked at");
        play.send("t", "{}");
    }
}
