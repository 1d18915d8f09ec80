//! What a closing undoes: whatever does not belong to its good end (L6.3).

use std::collections::BTreeSet;

use super::{Facts, Role};
use crate::key::{self, Key, ROOT};
use crate::state::{Closing, Status, Unit};

impl Facts<'_> {
    /// Everything that the closing of `top` undoes, in order.
    pub(super) fn undo_list(&self, top: &str, closing: &Closing) -> Vec<Key> {
        let elsewhere = |key: &str| self.state.undos.get(key).is_some_and(|undo| &*undo.closing != top);
        let units = self.state.units.under(top).filter(|(key, unit)| {
            !elsewhere(key)
                && self.compensation(key).is_some()
                && unit.happened()
                && !self.is_covered(key, top)
                && self.belongs_to_undo(key, unit, top, closing)
        });
        let units: Vec<Key> = units.map(|(key, _)| key.clone()).collect();
        let blocks = self.own_blocks(top, closing).into_iter().filter(|key| !elsewhere(key)).collect();
        self.undo_order(units, blocks)
    }

    /// Inside a succeeded block or child with a compensation of its own: undone by that alone.
    fn is_covered(&self, key: &str, top: &str) -> bool {
        outwards(key::parent(key), top).any(|path| {
            let succeeded = self.unit(key::unit_of(path)).is_some_and(|unit| unit.status == Status::Succeeded);
            succeeded && self.compensation(path).is_some()
        })
    }

    /// Bad end: everything. Good end: what was still open, what lies in something cancelled, and `always`.
    fn belongs_to_undo(&self, key: &str, unit: &Unit, top: &str, closing: &Closing) -> bool {
        if closing.reason.is_bad() || unit.done.is_none_or(|done| done > closing.seq) {
            return true;
        }
        let parent = key::parent(key);
        let is_direct = top == parent || !parent.is_empty() && top == key::unit_of(parent);
        let always = self.compensation(key).is_some_and(|undo| undo.always);
        if always && is_direct && unit.status == Status::Succeeded {
            return true;
        }
        let below = |at: &&str| *at != top && key::is_under(at, top);
        key::chain(key)
            .take_while(below)
            .any(|at| self.unit(key::unit_of(at)).is_some_and(|unit| unit.status == Status::Cancelled))
    }

    /// Block instances with a compensation that end badly here after something inside without one happened: they count
    /// as unknown.
    fn own_blocks(&self, top: &str, closing: &Closing) -> BTreeSet<Key> {
        let mut blocks = BTreeSet::new();
        let bad = closing.reason.is_bad();
        let is_attempt = self.unit(top).is_none() && top != ROOT && !key::is_handler_path(top);
        if bad && is_attempt && self.block_at(top).is_some() && self.compensation(top).is_some() {
            blocks.insert(Key::from(top));
        }
        for (key, unit) in self.state.units.under(top) {
            let ends_badly = unit.status == Status::Cancelled || &**key == top && bad;
            if ends_badly && unit.attempt > 0 && self.role(key) == Role::Steps && self.compensation(key).is_some() {
                blocks.insert(self.instance(key));
            }
        }
        blocks.retain(|block| self.state.units.under(block).any(|(key, unit)| self.is_bare(key, unit, block)));
        blocks
    }

    /// Something that happened inside `block` and that nothing but the block's own compensation undoes.
    fn is_bare(&self, key: &str, unit: &Unit, block: &str) -> bool {
        key != block
            && self.role(key) == Role::Acts
            && self.compensation(key).is_none()
            && unit.happened()
            && !outwards(key::parent(key), block)
                .any(|path| self.block_at(path).is_some() && self.compensation(path).is_some())
    }
}

/// The paths of blocks from `path` outwards, strictly below `top`.
fn outwards<'k>(path: &'k str, top: &'k str) -> impl Iterator<Item = &'k str> {
    let below = move |path: &&str| !path.is_empty() && *path != top && key::is_under(path, top);
    std::iter::successors(Some(path), |path| Some(key::parent(path)).filter(|p| p.len() < path.len())).take_while(below)
}
