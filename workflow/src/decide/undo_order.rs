//! The order of an undo: unknown ones first, the one first scheduled last, then reverse order of success; a block's
//! own after its inside's (L6.3).

use std::cmp::Reverse;

use super::Facts;
use crate::event::Seq;
use crate::key::{self, Key};
use crate::plant::{Plant, planted};
use crate::state::Status;

impl Facts<'_> {
    pub(super) fn undo_order(&self, units: Vec<Key>, blocks: Vec<Key>) -> Vec<Key> {
        let mut order: Vec<(Key, bool)> = units.into_iter().map(|key| (key, false)).collect();
        order.extend(blocks.iter().map(|key| (key.clone(), true)));
        order.sort_by_key(|(key, is_block)| {
            let unit = self.unit(key).or_else(|| self.unit(key::unit_of(key)));
            match unit {
                Some(unit) if !is_block && unit.status == Status::Succeeded => {
                    let done = unit.done.unwrap_or(0);
                    (1, Reverse(if planted(Plant::CompensationOrder) { Seq::MAX - done } else { done }))
                }
                Some(unit) => (0, Reverse(unit.since)),
                None => (0, Reverse(0)),
            }
        });
        let mut order: Vec<Key> = order.into_iter().map(|(key, _)| key).collect();
        let mut inner_first = blocks;
        inner_first.sort_by_key(|key| Reverse(key::segments(key).count()));
        for block in inner_first {
            move_behind_its_inside(&mut order, &block);
        }
        order
    }
}

fn move_behind_its_inside(order: &mut Vec<Key>, block: &Key) {
    let Some(at) = order.iter().position(|key| key == block) else { return };
    let inside = |key: &Key| key != block && key::is_under(key, block);
    if let Some(last) = order.iter().rposition(inside).filter(|last| *last > at) {
        let block = order.remove(at);
        order.insert(last, block);
    }
}
