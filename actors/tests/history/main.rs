//! The durable form of histories: what was written is read for ever, and whatever is read does not panic.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod any;
mod golden;

use bytes::Bytes;
use orbit_actors::history::{Fault, HistoryError, decode, encode};
use orbit_proto::history;
use proptest::prelude::*;
use prost::Message;
use workflow::event::*;
use workflow::key::Key;
use workflow::value::Payload;

#[test]
fn events_of_every_type_are_made_up() {
    assert_eq!(any::types(), Event::TYPES.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn every_event_comes_back(recorded in any::event()) {
        let bytes = encode(&recorded);
        let read = decode(recorded.seq, &bytes).unwrap();
        prop_assert_eq!(&read, &recorded);
        prop_assert_eq!(read.to_json(), recorded.to_json(), "payloads come back byte for byte");
    }

    /// The generated code finds the same fields, among them the optional ones that are there with nothing in them.
    #[test]
    fn the_bytes_are_those_of_the_proto_file(recorded in any::event()) {
        let bytes = encode(&recorded);
        let theirs = history::Event::decode(&bytes[1..]).unwrap();
        prop_assert_eq!(theirs.timestamp_ms, recorded.timestamp_ms);
        prop_assert_eq!(Bytes::from(theirs.encode_to_vec()), bytes.slice(1..));
    }

    #[test]
    fn cut_bytes_are_noticed(recorded in any::event(), at in any::<prop::sample::Index>()) {
        let bytes = encode(&recorded);
        let cut = &bytes[..at.index(bytes.len())];
        let is_noticed = matches!(decode(recorded.seq, cut), Err(HistoryError::Damaged { .. }));
        prop_assert!(is_noticed);
    }

    #[test]
    fn changed_bytes_do_not_panic(
        recorded in any::event(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = encode(&recorded).to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(read) = decode(1, &bytes) {
            prop_assert!(decode(1, &encode(&read)).is_ok());
        }
    }

    #[test]
    fn random_bytes_do_not_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 2_u8..40) {
        let _ = decode(1, &bytes);
        // The same as the fields of an event, so that they are looked into.
        bytes.truncate(100);
        let head = [1, (kind << 3) | 2, bytes.len() as u8];
        let head = if kind < 16 { head.to_vec() } else { vec![1, (kind << 3) | 0x82, kind >> 4, bytes.len() as u8] };
        let bytes = [head, bytes].concat();
        if let Ok(read) = decode(1, &bytes) {
            prop_assert!(decode(1, &encode(&read)).is_ok());
        }
    }
}

/// An event in the generated form, as bytes with the format byte.
fn bytes_of(kind: history::event::Kind) -> Vec<u8> {
    let event = history::Event { timestamp_ms: 5, kind: Some(kind) };
    [vec![1], event.encode_to_vec()].concat()
}

fn fault_of(kind: history::event::Kind) -> String {
    decode(1, &bytes_of(kind)).unwrap_err().to_string()
}

#[test]
fn what_a_newer_version_wrote_is_named() {
    assert_eq!(decode(1, &[2, 0]), Err(HistoryError::UnknownFormat(2)));
    // Field 99, a message.
    assert_eq!(decode(1, &[1, 0x08, 5, 0x9a, 0x06, 0]), Err(HistoryError::UnknownType(99)));
    let skipped = history::StepSkipped { step: "a".into(), reason: 77 };
    let unknown = decode(1, &bytes_of(history::event::Kind::StepSkipped(skipped)));
    assert_eq!(unknown, Err(HistoryError::UnknownWord { place: "StepSkipped.reason", word: 77 }));
}

#[test]
fn fields_of_a_newer_version_are_overlooked() {
    let opened = StepOpened { step: Key::from("a"), attempt: 2 };
    // The event's fields, then 99 in it; behind it 98 beside it, a number.
    let bytes = [1, 0x08, 5, 0x22, 8, 0x0a, 1, b'a', 0x10, 2, 0x9a, 0x06, 0, 0x90, 0x06, 1];
    let expected = Recorded { seq: 3, timestamp_ms: 5, event: opened.into() };
    assert_eq!(decode(3, &bytes), Ok(expected));
}

#[test]
fn damage_is_named_with_its_place() {
    use history::event::Kind;
    let cut = |place| HistoryError::Damaged { place, fault: Fault::Cut };
    assert_eq!(decode(1, &[]), Err(cut("Event")));
    assert_eq!(decode(1, &[1, 0x22, 1, 0x0a]), Err(cut("StepOpened")));
    let missing = HistoryError::Damaged { place: "Event", fault: Fault::Missing };
    assert_eq!(decode(1, &[1, 0x08, 5]), Err(missing), "no kind at all");

    let nothing = fault_of(Kind::WorkflowCompleted(history::WorkflowCompleted::default()));
    assert_eq!(nothing, "damaged event: WorkflowCompleted.output: it is missing", "no payload is empty");
    let no_error = fault_of(Kind::StepFailed(history::StepFailed::default()));
    assert_eq!(no_error, "damaged event: StepFailed.error: it is missing");
    let no_word = fault_of(Kind::StepSkipped(history::StepSkipped::default()));
    assert_eq!(no_word, "damaged event: StepSkipped.reason: it is missing");
    let error = history::TaskError { details: Some(Bytes::from_static(b"\xff")), ..Default::default() };
    let text = fault_of(Kind::StepFailed(history::StepFailed { error: Some(error), ..Default::default() }));
    assert_eq!(text, "damaged event: TaskError.details: a text that is no UTF-8");
    let input = Bytes::from_static(b"{}");
    let created = history::WorkflowCreated { input, priority: Some(256), ..Default::default() };
    let range = fault_of(Kind::WorkflowCreated(created.clone()));
    assert_eq!(range, "damaged event: WorkflowCreated.priority: a number out of range");
    let attributes = [("a".to_owned(), Bytes::from_static(b"{"))].into();
    let json = fault_of(Kind::WorkflowCreated(history::WorkflowCreated { attributes, priority: None, ..created }));
    assert!(json.starts_with("damaged event: WorkflowCreated.attributes: not a JSON value"), "{json}");
}

#[test]
fn nothing_and_null_differ() {
    let succeeded = |output| {
        let event = StepSucceeded { step: Key::from("a"), attempt: 1, output }.into();
        encode(&Recorded { seq: 1, timestamp_ms: 5, event })
    };
    let output = |bytes: &[u8]| match decode(1, bytes).unwrap().event {
        Event::StepSucceeded(event) => event.output,
        event => panic!("{event:?}"),
    };
    // As drawn in docs/formats.md.
    let drawn = b"\x01\x08\x05\x4a\x0b\x0a\x01a\x10\x01\x1a\x04null";
    assert_eq!(&succeeded(Some(Payload::null()))[..], drawn);
    assert_eq!(output(&succeeded(None)), None);
    assert_eq!(output(&succeeded(Some(Payload::null()))), Some(Payload::null()));
}
