//! The beginning of one shard's queue, as much of it as is kept in memory.
//!
//! ```text
//!   kept here                         │ only in the shard's rows
//!   a ≤ b ≤ c ≤ …                     │ ≥ rest
//! ```
//!
//! Without `rest` everything that waits is kept here. What is enqueued beyond `rest` is not kept: it is read with the
//! others when the window has run empty. Between asking for rows and getting them the world goes on, so the window
//! notes what was not kept meanwhile (`missed`) and what went away (`gone`).

use std::collections::{BTreeMap, BTreeSet};

use super::order::{Place, Ready};

/// What stands at the front.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Front {
    /// A unit that can be handed over.
    Unit,
    /// Rows that must be read first.
    Rest,
}

#[derive(Debug, Default)]
pub(super) struct Window {
    /// With their attempts.
    ready: BTreeMap<Place, u32>,
    /// Nothing that lies in rows alone comes before this.
    rest: Option<Place>,
    /// The shard was asked for rows and has not answered.
    asked: bool,
    /// The rows that came are all on their way to workers: asking again before one of them settles tells nothing new.
    stalled: bool,
    /// The oldest that was not kept since the shard was last asked.
    missed: Option<Place>,
    /// What went away since the shard was asked; rows read before that do not bring it back.
    gone: BTreeSet<Place>,
    /// Popped, not yet settled: still among the rows, but no longer waiting. With the number of the offer, because the
    /// same one may be enqueued and popped again before whoever got it first has given back the slot.
    offered: BTreeMap<Place, u64>,
}

impl Window {
    pub(super) fn front(&self) -> Option<(Place, Front)> {
        let unit = self.ready.first_key_value().map(|(place, _)| (place.clone(), Front::Unit));
        unit.or_else(|| self.rest.clone().map(|place| (place, Front::Rest)))
    }

    /// How many of those kept here wait.
    pub(super) fn waiting(&self) -> usize {
        self.ready.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.rest.is_none() && self.offered.is_empty()
    }

    #[cfg(test)]
    pub(super) fn is_stalled(&self) -> bool {
        self.stalled
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.ready.len()
    }

    /// One more waits.
    pub(super) fn enqueue(&mut self, place: Place, attempt: u32, window_max: usize) {
        self.gone.remove(&place);
        self.offered.remove(&place);
        self.stalled = false;
        if self.rest.as_ref().is_some_and(|rest| place > *rest) {
            self.miss(place);
            return;
        }
        self.ready.insert(place, attempt);
        self.cut(window_max);
    }

    /// It waits no more, wherever it was.
    pub(super) fn withdraw(&mut self, place: &Place, window_max: usize) {
        self.ready.remove(place);
        self.offered.remove(place);
        self.note_gone(place, window_max);
    }

    /// The oldest goes to a worker, in the offer of this number.
    pub(super) fn pop(&mut self, offer: u64) -> Option<(Place, u32)> {
        let (place, attempt) = self.ready.pop_first()?;
        self.offered.insert(place.clone(), offer);
        Some((place, attempt))
    }

    /// The hand-over of a popped one is committed, and with it its row is gone.
    pub(super) fn committed(&mut self, place: &Place, window_max: usize) {
        if self.offered.remove(place).is_some() {
            self.note_gone(place, window_max);
        }
    }

    /// An offer came to nothing. Whether nobody has said what became of the unit: then only the rows can tell.
    pub(super) fn given_up(&mut self, place: &Place, offer: u64) -> bool {
        self.stalled = false;
        let silent = self.offered.get(place) == Some(&offer);
        if silent {
            self.offered.remove(place);
        }
        silent
    }

    /// Believes nothing that is kept here: the rows are read again.
    pub(super) fn distrust(&mut self) {
        self.ready.clear();
        self.rest = Some(Place::first());
        self.miss(Place::first());
        self.stalled = false;
    }

    /// Whether the shard has to be asked for rows now; it counts as asked from then on.
    pub(super) fn ask(&mut self) -> bool {
        let wanted = self.ready.is_empty() && self.rest.is_some() && !self.asked && !self.stalled;
        if wanted {
            self.asked = true;
            self.missed = None;
            self.gone.clear();
        }
        wanted
    }

    /// The oldest rows; `more`: there are others behind them.
    pub(super) fn refilled(&mut self, rows: Vec<Ready>, more: bool, window_max: usize) {
        let behind = more.then(|| {
            let last = rows.iter().map(Ready::place).max();
            last.or_else(|| self.rest.clone()).unwrap_or_else(Place::first)
        });
        for row in rows {
            let place = row.place();
            if !self.gone.contains(&place) && !self.offered.contains_key(&place) {
                self.ready.insert(place, row.attempt);
            }
        }
        self.asked = false;
        self.gone.clear();
        self.rest = [behind, self.missed.take()].into_iter().flatten().min();
        if let Some(rest) = &self.rest {
            self.ready.retain(|place, _| place <= rest);
        }
        self.cut(window_max);
        self.stalled = self.ready.is_empty() && !self.offered.is_empty();
    }

    fn cut(&mut self, window_max: usize) {
        while self.ready.len() > window_max {
            if let Some((last, _)) = self.ready.pop_last() {
                self.rest = Some(last.clone());
                self.miss(last);
            }
        }
    }

    fn miss(&mut self, place: Place) {
        let oldest = self.missed.take().map_or_else(|| place.clone(), |missed| missed.min(place.clone()));
        self.missed = Some(oldest);
    }

    fn note_gone(&mut self, place: &Place, window_max: usize) {
        self.stalled = false;
        // A row too many only costs an offer that the shard refuses.
        if self.asked && self.gone.len() < window_max {
            self.gone.insert(place.clone());
        }
    }
}
