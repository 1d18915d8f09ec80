//! Where a node stands in the walk.

use crate::definition::Definition;
use crate::key::{self, Key};

/// Something that the walk passes and that may have an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    /// The root block, before its steps.
    Root,
    /// A step, or an element of a `for`; iterations and block instances belong to it.
    Unit(Key),
    /// A running event handler, before its steps.
    EventHandler(Key),
    /// The end of the run and its handlers.
    End,
}

/// The place of a node: comparing places is comparing moments of one walk. Per segment of the key: position in its
/// block, element + 1, iteration, attempt; so what is around comes before what is inside.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(Vec<u64>);

/// Event handlers come after everything in the root.
const EVENT_HANDLERS: u64 = u64::MAX - 1;

/// The end comes last.
const END: u64 = u64::MAX;

impl Node {
    /// The node that speaks for `key`: unit, block instance, iteration, closing or timer's owner.
    pub(crate) fn of(key: &str) -> Self {
        if key.is_empty() {
            return Self::Root;
        }
        if key::is_handler_path(key) {
            let is_event = key.starts_with("on:event:");
            return if is_event { Self::EventHandler(Key::from(key)) } else { Self::End };
        }
        Self::Unit(Key::from(key::element_of(key)))
    }

    /// Its place; `None` when the definition has no such step.
    pub(crate) fn place(&self, definition: &Definition) -> Option<Place> {
        Some(Place(match self {
            Self::Root => Vec::new(),
            Self::End => vec![END],
            Self::EventHandler(handler) => vec![EVENT_HANDLERS, signal_seq(handler)],
            Self::Unit(unit) => unit_place(unit, definition)?,
        }))
    }
}

fn unit_place(unit: &str, definition: &Definition) -> Option<Vec<u64>> {
    let mut place = Vec::with_capacity(16);
    for text in key::segments(unit) {
        if key::is_handler(text) {
            if text.starts_with("on:event:") {
                place.extend([EVENT_HANDLERS, signal_seq(text)]);
            } else {
                place.push(END);
            }
            continue;
        }
        let segment = key::Segment::parse(text);
        let step = definition.step_named(segment.id)?;
        let element = segment.element.map_or(0, |element| u64::from(element) + 1);
        let iteration = u64::from(segment.iteration.unwrap_or(0));
        place.extend([u64::from(step.position), element, iteration, u64::from(segment.attempt.unwrap_or(0))]);
    }
    Some(place)
}

/// Event handlers run in the order of their signals.
fn signal_seq(handler: &str) -> u64 {
    handler.rsplit_once('@').and_then(|(_, seq)| seq.parse().ok()).unwrap_or(0)
}
