//! The tail against a model: a plain list of entries, of which a part is on disk.

use std::collections::BTreeMap;

use bytes::Bytes;
use openraft::EntryPayload;
use orbit_proto::store;
use proptest::prelude::*;

use super::tail::Tail;
use crate::consensus::{Proposal, RaftEntry, RaftLogId, log_id_in};

fn id(term: u64, index: u64) -> RaftLogId {
    log_id_in(store::LogId { term, index })
}

fn entry(term: u64, index: u64) -> RaftEntry {
    let bytes = Bytes::from(vec![0; 1000]);
    RaftEntry { log_id: id(term, index), payload: EntryPayload::Normal(Proposal(bytes)) }
}

#[derive(Debug, Clone)]
enum Step {
    Append(u8),
    Save,
    Truncate(u8),
    Purge(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1..200_u8).prop_map(Step::Append),
        3 => Just(Step::Save),
        1 => (0..50_u8).prop_map(Step::Truncate),
        1 => (0..100_u8).prop_map(Step::Purge),
    ];
    proptest::collection::vec(step, 1..120)
}

proptest! {
    #[test]
    fn what_memory_lacks_is_on_disk(steps in steps()) {
        let mut tail = Tail::new(None, None);
        // The whole log, and of each write what a disk would have once it is saved.
        let (mut log, mut disk) = (BTreeMap::new(), BTreeMap::new());
        let mut pending: Vec<(u64, Vec<RaftLogId>)> = Vec::new();
        let (mut next, mut purged) = (0_u64, None);
        for (term, step) in (1..).zip(steps) {
            match step {
                Step::Append(count) => {
                    let write = tail.begin_write();
                    let ids: Vec<_> = (next..next + u64::from(count)).map(|index| id(term, index)).collect();
                    for id in &ids {
                        tail.push(entry(term, id.index), write);
                        log.insert(id.index, *id);
                    }
                    next += u64::from(count);
                    pending.push((write, ids));
                }
                Step::Save if !pending.is_empty() => {
                    let (write, ids) = pending.remove(0);
                    disk.extend(ids.iter().map(|id| (id.index, *id)));
                    tail.saved(write);
                }
                Step::Truncate(count) => {
                    // A truncation waits for its own sync, so all writes before it are saved by then.
                    next = next.saturating_sub(u64::from(count)).max(purged.map_or(0, |id: RaftLogId| id.index + 1));
                    tail.truncate_after(log.get(&next.wrapping_sub(1)).copied().or(purged));
                    log.split_off(&next);
                    for (_, ids) in pending.drain(..) {
                        disk.extend(ids.iter().map(|id| (id.index, *id)));
                    }
                    disk.split_off(&next);
                }
                Step::Purge(count) => {
                    let Some((_, upto)) = log.iter().nth(usize::from(count)).map(|(i, id)| (*i, *id)) else { continue };
                    tail.purge(upto);
                    purged = Some(upto);
                    log = log.split_off(&(upto.index + 1));
                }
                Step::Save => {}
            }
            let (disk_end, here) = tail.read(0, u64::MAX);
            let first = purged.map_or(0, |id| id.index + 1);
            let mut read: Vec<_> = disk.range(first..disk_end.max(first)).map(|(_, id)| *id).collect();
            read.extend(here.iter().map(|entry| entry.log_id));
            prop_assert_eq!(read, log.values().copied().collect::<Vec<_>>());
            prop_assert_eq!(tail.last(), log.values().next_back().copied().or(purged));
        }
    }
}

#[test]
fn a_late_word_about_entries_that_were_cut_off_does_not_count_for_others() {
    let mut tail = Tail::new(None, None);
    let old = tail.begin_write();
    tail.push(entry(1, 0), old);
    tail.truncate_after(None);
    let new = tail.begin_write();
    tail.push(entry(2, 0), new);
    tail.saved(old);
    assert_eq!(tail.unsaved_write(0), Some(new));
    tail.saved(new);
    assert_eq!(tail.unsaved_write(0), None);
}
