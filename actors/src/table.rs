//! The tables of a shard and their keys.
//!
//! ```text
//!   RUN_STATE  by id    run u32 │ kind u8 │ key       a row of a run, as `workflow` writes it
//!   RUN        by id    run u32                       RunRecord
//!   START      by id                                  StartRecord
//!   LIST       ordered  !created_at u64 │ id          ListRow: newest first
//!   READY      ordered  queue │ order │ unit          ReadyRow: the queues of tasks
//!   TIMER      ordered  due u64 │ kind u8 │ unit      what is due when
//!   HELD       by id    run u32 │ seq u64             HeldRow: hand-overs in flight
//!   UNFINISHED by id    run u32                       the last batch of this run was cut
//!   OUTBOX     ordered  slot u16 │ number             Message: what is not known to have arrived; numbered by the log
//!   INBOX      ordered  slot u16 │ shard u16          the number of the last message from there
//!   SIGNAL     by id    name 00 dedup_id              SignalRecord: signals that their senders named
//!   FACET      ordered  see `facet`                   by what executions are found
//!   EXPIRY     ordered  see `expiry`                  what is removed when
//!   BATCH      by id                                  BatchRecord: one action on many executions
//!
//!   queue = task 00 version 00 language 00            order = priority u8 │ turn u64 │ since u64 │ seq u64
//!   unit  = id 00 │ run u32 │ key
//! ```
//!
//! The group above the shards:
//!
//! ```text
//!   DEFINITION ordered  name 00 version               DefinitionRecord
//!   BY_HASH    ordered  hash                          DefinitionName
//!   CLUSTER    ordered  (nothing)                     ClusterRecord, see `format`
//! ```
//!
//! Names, versions and ids hold no zero byte.

mod meta;

use std::sync::Arc;

use bytes::Bytes;
use orbit_proto::store::{Put, write};
use orbit_raft::Write;
use orbit_raft::disk::KeyRange;
use orbit_raft::state_store::key::{Table, hashed, ordered, slot_of};
use prost::Message;
use workflow::event::Queue;
use workflow::key::Key;
use workflow::state::RowKind;

use crate::desk::{Order, ShardId, UnitRef};

pub(crate) use meta::{by_hash, cluster, definition, definition_parts, definitions, node, node_number, nodes};

/// A table of this layer.
pub(crate) const fn table(number: u8) -> Table {
    match Table::new(number) {
        Some(table) => table,
        None => panic!("the number is taken by the layer below"),
    }
}

const RUN_STATE: Table = table(3);
const RUN: Table = table(4);
const START: Table = table(5);
const LIST: Table = table(6);
const READY: Table = table(7);
const TIMER: Table = table(8);
const HELD: Table = table(9);
const UNFINISHED: Table = table(10);
const OUTBOX: Table = table(11);
const INBOX: Table = table(12);
const SIGNAL: Table = table(13);
pub(crate) const FACET: Table = table(14);
pub(crate) const EXPIRY: Table = table(15);
const BATCH: Table = table(16);

/// The format that this release writes in front of protobuf rows.
const FORMAT: u8 = 1;

/// A stored row is none that this release can read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a row of the {table} is damaged or was written by a newer release: {reason}")]
pub(crate) struct Unreadable {
    table: &'static str,
    reason: String,
}

/// A protobuf row with its format byte.
pub(crate) fn encode(row: &impl Message) -> Bytes {
    let mut bytes = Vec::with_capacity(1 + row.encoded_len());
    bytes.push(FORMAT);
    // Writing to a vector does not fail.
    let written = row.encode(&mut bytes);
    debug_assert!(written.is_ok());
    bytes.into()
}

/// Reads what [`encode`] wrote.
pub(crate) fn decode<M: Message + Default>(table: &'static str, value: &[u8]) -> Result<M, Unreadable> {
    match value.split_first() {
        Some((&FORMAT, row)) => M::decode(row).map_err(|error| Unreadable { table, reason: error.to_string() }),
        Some((format, _)) => Err(Unreadable { table, reason: format!("its format is {format}") }),
        None => Err(Unreadable { table, reason: "it is empty".to_owned() }),
    }
}

/// Sets a row.
pub(crate) fn put(key: Vec<u8>, value: impl Into<Bytes>) -> Write {
    Write { op: Some(write::Op::Put(Put { key: key.into(), value: value.into(), numbered: false })) }
}

/// The slot of an execution.
pub(crate) fn slot(id: &str) -> u16 {
    slot_of(id.as_bytes())
}

/// A message of the outbox: its number comes from the log.
pub(crate) fn post(to: &str, value: Bytes) -> Write {
    let key = ordered(OUTBOX, &slot_of(to.as_bytes()).to_be_bytes());
    Write { op: Some(write::Op::Put(Put { key: key.into(), value, numbered: true })) }
}

/// Messages for the executions of a slot, in order.
pub(crate) fn outbox_of(slot: u16) -> KeyRange {
    KeyRange::prefix(&ordered(OUTBOX, &slot.to_be_bytes()))
}

/// All messages.
pub(crate) fn outbox() -> KeyRange {
    KeyRange::prefix(&ordered(OUTBOX, &[]))
}

/// Slot and number of a message.
pub(crate) fn outbox_parts(key: &[u8]) -> Option<(u16, Number)> {
    let rest = key.get(ordered(OUTBOX, &[]).len()..)?;
    let (slot, number) = rest.split_first_chunk::<2>()?;
    Some((u16::from_be_bytes(*slot), number.try_into().ok()?))
}

/// The last message that came from a shard for the executions of a slot.
pub(crate) fn inbox(to: &str, from: ShardId) -> Vec<u8> {
    ordered(INBOX, &[slot_of(to.as_bytes()).to_be_bytes(), from.to_be_bytes()].concat())
}

/// The last messages that came, of all shards for all slots.
pub(crate) fn all_inbox() -> KeyRange {
    KeyRange::prefix(&ordered(INBOX, &[]))
}

/// Slot and sender of a key of [`inbox`].
pub(crate) fn inbox_parts(key: &[u8]) -> Option<(u16, ShardId)> {
    let (slot, from) = key.get(ordered(INBOX, &[]).len()..)?.split_first_chunk::<2>()?;
    Some((u16::from_be_bytes(*slot), u16::from_be_bytes(from.try_into().ok()?)))
}

/// Where a message lies in the log of the shard that it comes from: the later, the greater.
pub(crate) type Number = [u8; 12];

/// Removes a row.
pub(crate) fn delete(key: Vec<u8>) -> Write {
    Write { op: Some(write::Op::Delete(key.into())) }
}

/// The rows of one kind of a run.
pub(crate) fn run_state(id: &str, run: u32, kind: RowKind, key: &[u8]) -> Vec<u8> {
    let mut rest = run.to_be_bytes().to_vec();
    rest.push(kind as u8);
    rest.extend(key);
    hashed(RUN_STATE, id.as_bytes(), &rest)
}

/// How long a key of [`run_state`] is before the row's own key.
pub(crate) fn run_state_prefix_len(id: &str) -> usize {
    hashed(RUN_STATE, id.as_bytes(), &[]).len() + 5
}

/// What a run was created with.
pub(crate) fn run(id: &str, run: u32) -> Vec<u8> {
    hashed(RUN, id.as_bytes(), &run.to_be_bytes())
}

/// All runs of an execution.
pub(crate) fn runs(id: &str) -> KeyRange {
    KeyRange::prefix(&hashed(RUN, id.as_bytes(), &[]))
}

/// The run that a key of [`run`] names.
pub(crate) fn run_of(key: &[u8]) -> Option<u32> {
    key.last_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes))
}

/// What an execution was first started with.
pub(crate) fn start(id: &str) -> Vec<u8> {
    hashed(START, id.as_bytes(), &[])
}

/// A signal that its sender named.
pub(crate) fn signal(id: &str, name: &str, dedup_id: &str) -> Vec<u8> {
    hashed(SIGNAL, id.as_bytes(), &[name.as_bytes(), &[0], dedup_id.as_bytes()].concat())
}

/// All signals that their senders named.
pub(crate) fn signals(id: &str) -> KeyRange {
    KeyRange::prefix(&hashed(SIGNAL, id.as_bytes(), &[]))
}

/// One action on many executions.
pub(crate) fn batch(id: &str) -> Vec<u8> {
    hashed(BATCH, id.as_bytes(), &[])
}

/// The batch of a key of [`batch`].
pub(crate) fn batch_id(key: &[u8]) -> Option<&str> {
    Some(text(key.get(5..)?)?.0)
}

/// All batches.
pub(crate) fn batches() -> KeyRange {
    KeyRange::prefix(&ordered(BATCH, &[]))
}

/// All rows of all runs of an execution, as `workflow` writes them.
pub(crate) fn run_states(id: &str) -> KeyRange {
    KeyRange::prefix(&hashed(RUN_STATE, id.as_bytes(), &[]))
}

/// … of one run.
pub(crate) fn run_states_of(id: &str, run: u32) -> KeyRange {
    KeyRange::prefix(&hashed(RUN_STATE, id.as_bytes(), &run.to_be_bytes()))
}

/// An execution in the list.
pub(crate) fn list(created_at_ms: u64, id: &str) -> Vec<u8> {
    ordered(LIST, &[(!created_at_ms).to_be_bytes().as_slice(), id.as_bytes()].concat())
}

/// How all keys of the list begin.
pub(crate) fn list_prefix() -> Vec<u8> {
    ordered(LIST, &[])
}

/// The whole list.
pub(crate) fn whole_list() -> KeyRange {
    KeyRange::prefix(&list_prefix())
}

/// When the execution of a list key was created, and its id.
pub(crate) fn list_parts(key: &[u8]) -> Option<(u64, &str)> {
    let (created, id) = key.get(3..)?.split_first_chunk::<8>()?;
    Some((!u64::from_be_bytes(*created), std::str::from_utf8(id).ok()?))
}

fn queue_bytes(queue: &Queue) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in [Some(&queue.task), queue.version.as_ref(), queue.language.as_ref()] {
        bytes.extend(part.map_or("", String::as_str).as_bytes());
        bytes.push(0);
    }
    bytes
}

fn unit_bytes(unit: &UnitRef) -> Vec<u8> {
    let mut bytes = unit.execution_id.as_bytes().to_vec();
    bytes.push(0);
    bytes.extend(unit.run.to_be_bytes());
    bytes.extend(unit.unit.as_bytes());
    bytes
}

/// A task that waits.
pub(crate) fn ready(queue: &Queue, order: &Order, unit: &UnitRef) -> Vec<u8> {
    let mut rest = queue_bytes(queue);
    rest.push(order.priority);
    rest.extend(order.turn.to_be_bytes());
    rest.extend(order.ready_at_ms.to_be_bytes());
    rest.extend(order.seq.to_be_bytes());
    rest.extend(unit_bytes(unit));
    ordered(READY, &rest)
}

/// All tasks that wait.
pub(crate) fn all_ready() -> KeyRange {
    KeyRange::prefix(&ordered(READY, &[]))
}

/// All tasks that wait in one queue.
pub(crate) fn ready_in(queue: &Queue) -> KeyRange {
    KeyRange::prefix(&ordered(READY, &queue_bytes(queue)))
}

/// What a key of [`ready`] says.
pub(crate) fn ready_parts(key: &[u8]) -> Option<(Queue, Order, UnitRef)> {
    let (task, rest) = text(key.get(3..)?)?;
    let (version, rest) = text(rest)?;
    let (language, rest) = text(rest)?;
    let optional = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let queue = Queue { task: task.to_owned(), version: optional(version), language: optional(language) };
    let (&[priority], rest) = rest.split_first_chunk::<1>()?;
    let (turn, rest) = rest.split_first_chunk::<8>()?;
    let (ready_at_ms, rest) = rest.split_first_chunk::<8>()?;
    let (seq, rest) = rest.split_first_chunk::<8>()?;
    let order = Order {
        priority,
        turn: u64::from_be_bytes(*turn),
        ready_at_ms: u64::from_be_bytes(*ready_at_ms),
        seq: u64::from_be_bytes(*seq),
    };
    Some((queue, order, unit_ref(rest)?))
}

/// A text that ends with a zero byte, and what is behind it.
pub(crate) fn text(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let end = bytes.iter().position(|byte| *byte == 0)?;
    Some((std::str::from_utf8(&bytes[..end]).ok()?, &bytes[end + 1..]))
}

fn unit_ref(bytes: &[u8]) -> Option<UnitRef> {
    let (id, rest) = text(bytes)?;
    let (run, key) = rest.split_first_chunk::<4>()?;
    let unit = Key::from(std::str::from_utf8(key).ok()?);
    Some(UnitRef { execution_id: Arc::from(id), run: u32::from_be_bytes(*run), unit })
}

/// What will be due.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Timer {
    /// When, ms.
    pub(crate) due_ms: u64,
    /// For what.
    pub(crate) kind: TimerKind,
    /// Of which unit; for a time-out of the run its key is empty.
    pub(crate) unit: UnitRef,
}

/// For what time is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub(crate) enum TimerKind {
    /// A timer of the history.
    Timer = 1,
    /// The time-out of the run.
    Run = 2,
    /// The time-out of a hand-over.
    Attempt = 3,
    /// The time-out in the queue.
    Queue = 4,
}

impl Timer {
    /// Its key.
    pub(crate) fn key(&self) -> Vec<u8> {
        let mut rest = self.due_ms.to_be_bytes().to_vec();
        rest.push(self.kind as u8);
        rest.extend(unit_bytes(&self.unit));
        ordered(TIMER, &rest)
    }

    /// Reads a key.
    pub(crate) fn from_key(key: &[u8]) -> Option<Self> {
        let (due, rest) = key.get(3..)?.split_first_chunk::<8>()?;
        let (&[kind], rest) = rest.split_first_chunk::<1>()?;
        let kind = match kind {
            1 => TimerKind::Timer,
            2 => TimerKind::Run,
            3 => TimerKind::Attempt,
            4 => TimerKind::Queue,
            _ => return None,
        };
        Some(Self { due_ms: u64::from_be_bytes(*due), kind, unit: unit_ref(rest)? })
    }
}

/// Everything that is due from a key on, up to and with a moment.
pub(crate) fn due(from: Option<Vec<u8>>, upto_ms: u64) -> KeyRange {
    let from = from.unwrap_or_else(|| ordered(TIMER, &[]));
    KeyRange { from, to: ordered(TIMER, &upto_ms.saturating_add(1).to_be_bytes()) }
}

/// All timers.
pub(crate) fn all_timers() -> KeyRange {
    KeyRange::prefix(&ordered(TIMER, &[]))
}

/// A hand-over in flight.
pub(crate) fn held(id: &str, run: u32, seq: u64) -> Vec<u8> {
    let mut rest = run.to_be_bytes().to_vec();
    rest.extend(seq.to_be_bytes());
    hashed(HELD, id.as_bytes(), &rest)
}

/// The execution of a key of [`held`].
pub(crate) fn held_id(key: &[u8]) -> Option<&str> {
    Some(text(key.get(5..)?)?.0)
}

/// All hand-overs in flight.
pub(crate) fn all_held() -> KeyRange {
    KeyRange::prefix(&ordered(HELD, &[]))
}

/// The last batch of a run was cut.
pub(crate) fn unfinished(id: &str, run: u32) -> Vec<u8> {
    hashed(UNFINISHED, id.as_bytes(), &run.to_be_bytes())
}

/// All runs whose last batch was cut.
pub(crate) fn all_unfinished() -> KeyRange {
    KeyRange::prefix(&ordered(UNFINISHED, &[]))
}

/// The execution of a key of [`unfinished`].
pub(crate) fn unfinished_id(key: &[u8]) -> Option<&str> {
    Some(text(key.get(5..)?)?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit() -> UnitRef {
        UnitRef { execution_id: Arc::from("order:7"), run: 2, unit: Key::from("ship[3]") }
    }

    #[test]
    fn a_ready_key_says_what_it_was_made_of() {
        let order = Order { priority: 3, turn: 0, ready_at_ms: 1_700_000_000_000, seq: 9 };
        for version in [None, Some("1.0.0".to_owned())] {
            for language in [None, Some("python".to_owned())] {
                let queue = Queue { task: "pay".to_owned(), version: version.clone(), language };
                let key = ready(&queue, &order, &unit());
                assert!(ready_in(&queue).contains(&key) && all_ready().contains(&key));
                assert_eq!(ready_parts(&key), Some((queue, order, unit())));
            }
        }
    }

    #[test]
    fn queues_that_begin_alike_are_not_mixed() {
        let queue = |task: &str| Queue { task: task.to_owned(), version: None, language: None };
        let order = Order { priority: 1, turn: 0, ready_at_ms: 1, seq: 1 };
        assert!(!ready_in(&queue("pay")).contains(&ready(&queue("pay.more"), &order, &unit())));
    }

    #[test]
    fn timers_are_ordered_by_time() {
        let at = |due_ms, kind| Timer { due_ms, kind, unit: unit() };
        let (early, late) = (at(5, TimerKind::Queue), at(256, TimerKind::Timer));
        assert!(early.key() < late.key());
        assert_eq!(Timer::from_key(&late.key()), Some(late.clone()));
        assert!(due(None, 256).contains(&late.key()) && !due(None, 255).contains(&late.key()));
        assert!(all_timers().contains(&late.key()));
    }

    #[test]
    fn the_list_is_newest_first() {
        assert!(list(2, "a") < list(1, "a"));
        assert_eq!(list_parts(&list(7, "x:y")), Some((7, "x:y")));
        assert!(whole_list().contains(&list(0, "z")));
    }

    #[test]
    fn other_keys_say_what_they_were_made_of() {
        assert_eq!(run_of(&run("a", 7)), Some(7));
        assert!(runs("a").contains(&run("a", 7)) && !runs("a").contains(&run("ab", 7)));
        assert_eq!(unfinished_id(&unfinished("order:7", 1)), Some("order:7"));
        assert_eq!(definition_parts(&definition("pay", "1.0.0")), Some(("pay", "1.0.0")));
        assert!(definitions(Some("pay")).contains(&definition("pay", "1.0.0")));
        assert!(!definitions(Some("pay")).contains(&definition("pay.x", "1.0.0")));
        assert_eq!(run_state("a", 1, RowKind::Unit, b"k").len(), run_state_prefix_len("a") + 1);
        assert!(all_held().contains(&held("a", 1, 2)) && all_unfinished().contains(&unfinished("a", 1)));
    }

    #[test]
    fn rows_of_another_format_are_refused() {
        let row = encode(&orbit_proto::engine::ClusterRecord { shards: 16, ..Default::default() });
        let read: orbit_proto::engine::ClusterRecord = decode("cluster", &row).unwrap();
        assert_eq!(read.shards, 16);
        for bad in [&b""[..], &b"\x02\x08\x10"[..], &b"\x01\x08"[..]] {
            assert!(decode::<orbit_proto::engine::ClusterRecord>("cluster", bad).is_err());
        }
    }
}
