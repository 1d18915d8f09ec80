//! Every durable record, byte for byte. A released format never changes: what is red here breaks old data.

use bytes::Bytes;
use orbit_proto::store::{self, log_record, precondition, write};
use prost::Message;
use uuid::Uuid;

use crate::disk::KeyRange;
use crate::identity::{self, Identity};
use crate::log_store::key as log_key;
use crate::state_store::key::{self, Table};
use crate::types::{GroupId, NodeId};

const GROUP: GroupId = GroupId::new(0x0102).unwrap();

fn hex(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn log_id() -> store::LogId {
    store::LogId { term: 3, index: 300 }
}

fn membership() -> store::Membership {
    store::Membership {
        voters: vec![store::VoterSet { node_ids: vec![1, 2] }, store::VoterSet { node_ids: vec![2, 3] }],
        members: vec![store::Member { node_id: 1, address: "a:1".into() }],
    }
}

fn entry() -> store::Entry {
    let put = store::Put { key: Bytes::from_static(b"k"), value: Bytes::from_static(b"\x01v"), numbered: false };
    let range = store::KeyRange { from: Bytes::from_static(b"a"), to: Bytes::from_static(b"b") };
    let at = store::Position { run: 1, seq: 2 };
    let equals = store::RowEquals { key: Bytes::from_static(b"k"), value: Bytes::from_static(b"\x01w") };
    let check = |check| store::Precondition { check: Some(check) };
    let write = |op| store::Write { op: Some(op) };
    let part = store::Part {
        kind: 7,
        execution_id: Bytes::from_static(b"e"),
        run: 1,
        preconditions: vec![
            check(precondition::Check::Position(at)),
            check(precondition::Check::Absent(store::Blank {})),
            check(precondition::Check::RowEquals(equals)),
            check(precondition::Check::RowAbsent(Bytes::from_static(b"n"))),
        ],
        events: vec![Bytes::from_static(b"\x01e")],
        writes: vec![
            write(write::Op::Put(put)),
            write(write::Op::Delete(Bytes::from_static(b"d"))),
            write(write::Op::DeleteRange(range)),
        ],
    };
    store::Entry { format: 1, time_ms: 1_700_000_000_000, parts: vec![part] }
}

#[test]
fn keys_of_the_log() {
    assert_eq!(hex(log_key::mark(GROUP, log_key::Mark::Vote)), "01020001");
    assert_eq!(hex(log_key::mark(GROUP, log_key::Mark::Committed)), "01020002");
    assert_eq!(hex(log_key::mark(GROUP, log_key::Mark::Purged)), "01020003");
    assert_eq!(hex(log_key::entry(GROUP, 300)), "010201000000000000012c");
    let KeyRange { from, to } = log_key::all_entries(GROUP);
    assert_eq!((hex(from), hex(to)), ("010201".into(), "010202".into()));
}

#[test]
fn keys_of_the_state() {
    assert_eq!(key::slot_of(b"order-1"), 0x0876);
    assert_eq!(hex(key::full(GROUP, &key::position(b"ab"))), format!("0102010000{:04x}616200", key::slot_of(b"ab")));
    let event = format!("020000{:04x}616200{:08x}{:016x}", key::slot_of(b"ab"), 1, 300);
    assert_eq!(hex(key::event(b"ab", 1, 300)), event);
    assert_eq!(hex(key::ordered(Table::new(16).unwrap(), b"\xff")), "100000ff");
    assert_eq!(hex(key::applied(GROUP)), "01020000006170706c696564");
    assert_eq!(hex(key::installed(GROUP)), "0102000000696e7374616c6c6564");
    assert_eq!(hex(key::peer(258)), "ffff000000706565720000000000000102");
    assert_eq!(hex(key::identity()), "ffff0000006964656e74697479");
}

#[test]
fn marks_of_the_log() {
    let vote = store::Vote { term: 3, node_id: 2, committed: true };
    assert_eq!(hex(log_key::encode(&vote)), "01080310021801");
    assert_eq!(hex(log_key::encode(&log_id())), "01080310ac02");
}

#[test]
fn entries_of_the_log() {
    let record = |payload| store::LogRecord { term: 3, payload: Some(payload) };
    assert_eq!(hex(log_key::encode(&record(log_record::Payload::Blank(store::Blank {})))), "0108031200");
    let bytes = record(log_record::Payload::Entry(Bytes::from_static(b"\x08\x01")));
    assert_eq!(hex(log_key::encode(&bytes)), "0108031a020801");
    let members = record(log_record::Payload::Membership(membership()));
    assert_eq!(hex(log_key::encode(&members)), "01080322150a040a0201020a040a020203120708011203613a31");
}

#[test]
fn entries_of_parts() {
    let expected = concat!(
        "08011080d095ffbc311a41080712016518012206",
        "0a04080110022202120022091a070a016b1202017722032201",
        "6e2a02016532090a070a016b1202017632031201643208",
        "1a060a0161120162",
    );
    assert_eq!(hex(entry().encode_to_vec()), expected);
    assert_eq!(store::Entry::decode(entry().encode_to_vec().as_slice()).unwrap(), entry());
}

#[test]
fn rows_of_the_state() {
    let at = store::Position { run: 1, seq: 300 };
    assert_eq!(hex(log_key::encode(&at)), "01080110ac02");
    let applied = store::Applied {
        log_id: Some(log_id()),
        membership: Some(membership()),
        membership_log_id: Some(store::LogId { term: 1, index: 1 }),
        time_ms: 5,
    };
    let expected = "010a05080310ac0212150a040a0201020a040a020203120708011203613a311a04080110012005";
    assert_eq!(hex(log_key::encode(&applied)), expected);
}

#[test]
fn head_of_a_snapshot() {
    let header = store::SnapshotHeader {
        format: 1,
        group: 258,
        applied: Some(store::Applied { log_id: Some(log_id()), ..store::Applied::default() }),
        body_bytes: 1000,
        body_xxh3: Bytes::from_static(&[0xab; 16]),
        cluster: Bytes::from_static(&[0xcd; 16]),
    };
    let expected = format!("08011082021a070a05080310ac0220e8072a10{}3210{}", "ab".repeat(16), "cd".repeat(16));
    assert_eq!(hex(header.encode_to_vec()), expected);
}

#[test]
fn identity_file() {
    let identity = Identity { cluster: Uuid::from_u128(1), node: NodeId(2), incarnation: Uuid::from_u128(3) };
    let expected = concat!(
        "4f52424954494401",
        "00000026",
        "0a1000000000000000000000000000000001",
        "1002",
        "1a1000000000000000000000000000000003",
    );
    let file = hex(identity::file(&identity));
    assert_eq!(&file[..expected.len()], expected);
    assert_eq!(file.len(), expected.len() + 16);
}
