//! One queue over all shards of the node, and the sessions that serve it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;

use workflow::event::Queue;

use super::order::{Order, Place, ShardId};
use super::session::SessionNo;
use super::window::{Front, Window};

/// Names a line while it exists.
pub(super) type LineId = usize;

#[derive(Debug, Default)]
pub(super) struct Line {
    windows: BTreeMap<ShardId, Window>,
    /// The front of each window. Rows that must be read first hold back whatever is younger, in any shard.
    fronts: BTreeSet<(Place, Front, ShardId)>,
    /// Sessions that may have an idle slot. One found without leaves, and comes back with its next idle slot: so a
    /// session with many queues does not touch them all for each task.
    maybe_idle: BTreeSet<SessionNo>,
    /// The session that was served last: the next one is next.
    served: SessionNo,
    /// How many sessions serve it.
    pub(super) servers: usize,
}

impl Line {
    /// Looks at or changes the window of a shard; an empty one is forgotten.
    pub(super) fn window<R>(&mut self, shard: ShardId, change: impl FnOnce(&mut Window) -> R) -> R {
        let window = self.windows.entry(shard).or_default();
        if let Some((place, front)) = window.front() {
            self.fronts.remove(&(place, front, shard));
        }
        let result = change(window);
        if let Some((place, front)) = window.front() {
            self.fronts.insert((place, front, shard));
        }
        if window.is_empty() {
            self.windows.remove(&shard);
        }
        result
    }

    /// Forgets a shard.
    pub(super) fn close(&mut self, shard: ShardId) {
        if let Some((place, front)) = self.windows.remove(&shard).and_then(|window| window.front()) {
            self.fronts.remove(&(place, front, shard));
        }
    }

    /// The oldest, if it may be handed over now.
    pub(super) fn head(&self) -> Option<(&Place, ShardId)> {
        let (place, front, shard) = self.fronts.first()?;
        (*front == Front::Unit).then_some((place, *shard))
    }

    /// How many are known to wait.
    pub(super) fn waiting(&self) -> usize {
        self.windows.values().map(Window::waiting).sum()
    }

    /// Whether anything waits that is not younger.
    pub(super) fn has_older(&self, order: &Order) -> bool {
        self.fronts.first().is_some_and(|(place, ..)| place.order <= *order)
    }

    pub(super) fn is_unused(&self) -> bool {
        self.servers == 0 && self.windows.is_empty()
    }

    /// The next session in turn that may have an idle slot.
    pub(super) fn next_server(&self) -> Option<SessionNo> {
        let after = self.maybe_idle.range((Bound::Excluded(self.served), Bound::Unbounded)).next();
        after.or_else(|| self.maybe_idle.first()).copied()
    }

    pub(super) fn served(&mut self, session: SessionNo) {
        self.served = session;
    }

    pub(super) fn may_be_idle(&mut self, session: SessionNo) {
        self.maybe_idle.insert(session);
    }

    pub(super) fn is_busy(&mut self, session: SessionNo) {
        self.maybe_idle.remove(&session);
    }
}

/// All lines of a node.
#[derive(Debug, Default)]
pub(super) struct Lines {
    by_queue: HashMap<Queue, LineId>,
    lines: Vec<Option<(Queue, Line)>>,
    free: Vec<LineId>,
}

impl Lines {
    pub(super) fn find(&self, queue: &Queue) -> Option<LineId> {
        self.by_queue.get(queue).copied()
    }

    /// The line of a queue, made if there is none.
    pub(super) fn open(&mut self, queue: &Queue) -> LineId {
        if let Some(id) = self.find(queue) {
            return id;
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.lines.push(None);
            self.lines.len() - 1
        });
        self.lines[id] = Some((queue.clone(), Line::default()));
        self.by_queue.insert(queue.clone(), id);
        id
    }

    pub(super) fn get(&self, id: LineId) -> Option<&Line> {
        self.lines.get(id)?.as_ref().map(|(_, line)| line)
    }

    pub(super) fn get_mut(&mut self, id: LineId) -> Option<&mut Line> {
        self.lines.get_mut(id)?.as_mut().map(|(_, line)| line)
    }

    pub(super) fn queue(&self, id: LineId) -> Option<&Queue> {
        self.lines.get(id)?.as_ref().map(|(queue, _)| queue)
    }

    /// Every line's id.
    pub(super) fn ids(&self) -> Vec<LineId> {
        self.by_queue.values().copied().collect()
    }

    /// Forgets a line that nobody needs.
    pub(super) fn tidy(&mut self, id: LineId) {
        if self.get(id).is_some_and(Line::is_unused)
            && let Some((queue, _)) = self.lines[id].take()
        {
            self.by_queue.remove(&queue);
            self.free.push(id);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_queue.len()
    }
}
