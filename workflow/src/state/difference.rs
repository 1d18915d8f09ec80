//! Where two states of one run differ, row by row: for whoever holds stored rows against the fold of the history.

use std::collections::BTreeMap;
use std::fmt::{Debug, Display};
use std::hash::Hash;

use super::{Execution, Lookup, RowKind, Table};

/// One row that is not the same in both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What kind of row it is.
    pub kind: RowKind,
    /// Its key, as people read it; empty for the head.
    pub key: String,
    /// What of it is only in the first: a line per field; `None`: the first has no such row.
    pub first: Option<String>,
    /// … only in the second.
    pub second: Option<String>,
}

/// Lines that are told of one row; the rest is counted.
const LINES_MAX: usize = 8;

impl Execution {
    /// The rows that differ, at most `limit` of them. Reads all rows of both.
    #[must_use]
    pub fn differences(&self, other: &Self, limit: usize) -> Vec<Difference> {
        let mut found = Vec::new();
        if self.head != other.head {
            found.push(difference(RowKind::Head, String::new(), Some(&self.head), Some(&other.head)));
        }
        rows(RowKind::Unit, &self.units, &other.units, limit, &mut found);
        rows(RowKind::Item, &self.items, &other.items, limit, &mut found);
        rows(RowKind::Timer, &self.timers, &other.timers, limit, &mut found);
        rows(RowKind::Closing, &self.closings, &other.closings, limit, &mut found);
        rows(RowKind::UndoList, &self.undo_lists, &other.undo_lists, limit, &mut found);
        rows(RowKind::Undo, &self.undos, &other.undos, limit, &mut found);
        rows(RowKind::Handler, &self.handlers, &other.handlers, limit, &mut found);
        rows(RowKind::HandOver, &self.hand_overs, &other.hand_overs, limit, &mut found);
        rows(RowKind::Signal, &self.signals, &other.signals, limit, &mut found);
        found
    }
}

fn rows<V, K>(kind: RowKind, first: &Table<V, K>, second: &Table<V, K>, limit: usize, found: &mut Vec<Difference>)
where
    V: PartialEq + Debug,
    K: Ord + Hash + Clone + Display + Lookup<K>,
{
    let mut both: BTreeMap<&K, (Option<&V>, Option<&V>)> = BTreeMap::new();
    for (key, row) in first.iter() {
        both.entry(key).or_default().0 = Some(row);
    }
    for (key, row) in second.iter() {
        both.entry(key).or_default().1 = Some(row);
    }
    let differ = both.into_iter().filter(|(_, (first, second))| first != second);
    let room = limit.saturating_sub(found.len());
    found.extend(differ.take(room).map(|(key, (first, second))| difference(kind, key.to_string(), first, second)));
}

fn difference<V: Debug>(kind: RowKind, key: String, first: Option<&V>, second: Option<&V>) -> Difference {
    let text = |row: Option<&V>| row.map(|row| format!("{row:#?}"));
    let (first, second) = (text(first), text(second));
    Difference { kind, key, first: only_in(&first, &second), second: only_in(&second, &first) }
}

/// The lines of a text that the other has not.
fn only_in(text: &Option<String>, other: &Option<String>) -> Option<String> {
    let text = text.as_ref()?;
    let other: Vec<&str> = other.as_deref().map(|other| other.lines().collect()).unwrap_or_default();
    let mut lines: Vec<&str> = text.lines().filter(|line| !other.contains(line)).map(str::trim).collect();
    let more = lines.len().saturating_sub(LINES_MAX);
    lines.truncate(LINES_MAX);
    let more = if more > 0 { format!(" and {more} more lines") } else { String::new() };
    Some(format!("{}{more}", lines.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Key;
    use crate::state::{Status, Timer, Unit};

    #[test]
    fn equal_states_do_not_differ_and_others_say_where() {
        let mut first = Execution::default();
        first.units.insert(Key::from("a"), Unit::new(1, 5));
        let mut second = first.clone();
        assert_eq!(first.differences(&second, 10), []);
        second.head.attention = 7;
        second.units.insert(Key::from("a"), Unit { status: Status::Failed, ..Unit::new(1, 5) });
        second.timers.insert(Key::from("b"), Timer::default());
        let found = first.differences(&second, 10);
        let told: Vec<_> = found.iter().map(|one| (one.kind, &*one.key, one.first.as_deref())).collect();
        assert_eq!(
            told,
            [
                (RowKind::Head, "", Some("attention: 0,")),
                (RowKind::Unit, "a", Some("status: Pending,")),
                (RowKind::Timer, "b", None),
            ]
        );
        assert_eq!(found[1].second.as_deref(), Some("status: Failed,"));
        assert_eq!(first.differences(&second, 1).len(), 1);
    }
}
