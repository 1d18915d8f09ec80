//! A long history is decided again like a short one: each of its events is held against the rules.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use workflow::command::{Complete, OfferTaken, Run, Start};
use workflow::definition::Definition;
use workflow::document::{self, Format};
use workflow::event::{Event, Recorded};
use workflow::replay::{Error, Replayed, replay};
use workflow::value::Payload;

const ELEMENTS: usize = 3_000;

/// A fan-out of so many elements that not every event is decided by a walk over all of them.
fn history() -> (Arc<Definition>, Vec<Recorded>) {
    let document = format!(
        "name: many\nversion: 1.0.0\ntasks: {{m.do: {{version: 1.0.0}}}}\nsteps:\n\
         - {{id: all, for: {{each: 'range({ELEMENTS})', concurrency: 100}}, task: m.do}}\n\
         - {{id: after, after: [all], compute: 'size(steps.all.output)'}}\n"
    );
    let definition = Arc::new(document::compile(&document, Format::Yaml).unwrap().remove(0).definition);
    let mut run = Run::new(Arc::clone(&definition), "x");
    let mut history = run.handle(0, Start::with_input(Payload::parse("{}").unwrap())).unwrap().1.events;
    for element in 0..ELEMENTS {
        let unit = &format!("all[{element}]");
        let offer = OfferTaken { unit, worker_id: "w", worker_session: "s", nonce: [1; 8] };
        let (token, batch) = run.handle(1, offer).unwrap();
        history.extend(batch.events);
        history.extend(run.handle(2, Complete { token: &token, output: Payload::null() }).unwrap().1.events);
    }
    assert!(matches!(history.last().unwrap().event, Event::WorkflowCompleted(_)));
    (definition, history)
}

#[test]
fn a_long_history_is_decided_again_and_each_of_its_events_counts() {
    let (definition, history) = history();
    let events = history.len() as u64;
    // From outside come the first two, each hand-over and each result.
    let decided = events - 2 - 2 * ELEMENTS as u64;
    assert_eq!(replay(&definition, "x", &history), Ok(Replayed { events, decided }));

    let scheduled = |recorded: &Recorded| matches!(recorded.event, Event::StepScheduled(_));
    let places: Vec<usize> = (0..history.len()).filter(|place| scheduled(&history[*place])).collect();
    for place in places.into_iter().step_by(251) {
        let mut changed = history.clone();
        let Event::StepScheduled(event) = &mut changed[place].event else { unreachable!("it is one") };
        event.attempt = 2;
        let Err(Error::Difference(difference)) = replay(&definition, "x", &changed) else { panic!("event {place}") };
        assert_eq!(difference.seq, place as u64 + 1);
        assert_eq!(difference.expected, Some(history[place].event.clone()));
        let mut short = history.clone();
        short.truncate(place);
        let Err(Error::Difference(missing)) = replay(&definition, "x", &short) else { panic!("event {place}") };
        assert_eq!((missing.seq, missing.recorded), (place as u64 + 1, None));
    }
}
