//! A history as callers see it.

use serde_json::Value;

/// All events of one run, in the order in which they were given.
#[derive(Debug, Clone, PartialEq)]
pub struct History {
    /// Whose.
    pub execution_id: String,
    /// Which run.
    pub run: u64,
    /// What happened.
    pub events: Vec<Event>,
}

/// One event as JSON: `seq`, `timestamp_ms`, `type` and the fields of its type, flat.
#[derive(Debug, Clone, PartialEq)]
pub struct Event(pub Value);

impl Event {
    /// A field that holds a number; 0 if it does not.
    #[must_use]
    pub fn number(&self, field: &str) -> u64 {
        self.0[field].as_u64().unwrap_or_default()
    }

    /// A field that holds a text; empty if it does not.
    #[must_use]
    pub fn text(&self, field: &str) -> &str {
        self.0[field].as_str().unwrap_or_default()
    }

    /// Its place in the run.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.number("seq")
    }

    /// When it happened.
    #[must_use]
    pub fn at_ms(&self) -> u64 {
        self.number("timestamp_ms")
    }

    /// Its type.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.text("type")
    }

    /// The unit it is about; empty for the workflow.
    #[must_use]
    pub fn step(&self) -> &str {
        self.text("step")
    }

    /// Which attempt of the unit.
    #[must_use]
    pub fn attempt(&self) -> u64 {
        self.number("attempt")
    }

    /// Whether a run ends with it.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        let ends = ["Completed", "Failed", "Cancelled", "TimedOut", "ContinuedAsNew"];
        self.kind().strip_prefix("Workflow").is_some_and(|end| ends.contains(&end))
    }

    /// Whether its unit is done with it: well, badly, or given up.
    #[must_use]
    pub fn resolves(&self) -> bool {
        ["StepSucceeded", "StepFailed", "StepCancelled", "StepSkipped"].contains(&self.kind())
    }
}

impl History {
    /// The events of a type.
    pub fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Event> {
        self.events.iter().filter(move |event| event.kind() == kind)
    }

    /// How it ended, if the last event says so.
    #[must_use]
    pub fn end(&self) -> Option<&Event> {
        self.events.last().filter(|event| event.is_terminal())
    }
}

/// What a token says of itself (`format 1 | run u32 | seq u64 | 8 random bytes | execution id`, base64url).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandOver {
    /// The execution.
    pub execution_id: String,
    /// Its run.
    pub run: u64,
    /// Place of the `StepDispatched`.
    pub seq: u64,
}

impl HandOver {
    /// Reads a token, with its random part or without. `None`: it is none.
    #[must_use]
    pub fn of(token: &str) -> Option<Self> {
        use base64::Engine;
        let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(token).ok()?;
        let (head, id) = bytes.split_at_checked(21)?;
        Some(Self {
            execution_id: String::from_utf8(id.to_vec()).ok()?,
            run: u32::from_be_bytes(head[1..5].try_into().ok()?).into(),
            seq: u64::from_be_bytes(head[5..13].try_into().ok()?),
        })
    }
}

/// Histories for the tests of the checkers.
#[cfg(test)]
pub(crate) mod written {
    use serde_json::json;

    use super::*;

    /// A history from `(type, step, further fields)`; `seq` counts up and a millisecond passes between two events.
    pub(crate) fn history(events: &[(&str, &str, Value)]) -> History {
        let event = |(index, (kind, step, more)): (usize, &(&str, &str, Value))| {
            let mut event = json!({"seq": index + 1, "timestamp_ms": 1_000 + index, "type": kind, "step": step});
            for (name, value) in more.as_object().into_iter().flatten() {
                event[name] = value.clone();
            }
            Event(event)
        };
        History { execution_id: "x".into(), run: 1, events: events.iter().enumerate().map(event).collect() }
    }

    /// A token of execution `x` as histories show it.
    pub(crate) fn token(seq: u64) -> String {
        use base64::Engine;
        let bytes = [&[1, 0, 0, 0, 1][..], &seq.to_be_bytes(), &[0; 8], b"x"].concat();
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The invariants that were broken.
    pub(crate) fn broken(faults: &[crate::Fault]) -> Vec<&'static str> {
        faults.iter().map(|fault| fault.invariant).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_says_which_hand_over_it_is() {
        let read = HandOver::of("AQAAAAEAAAAAAAAABQkJCQkJCQkJeA");
        assert_eq!(read, Some(HandOver { execution_id: "x".into(), run: 1, seq: 5 }));
        assert_eq!(HandOver::of("AQAA"), None);
        assert_eq!(HandOver::of(&written::token(7)).map(|hand_over| hand_over.seq), Some(7));
    }
}
