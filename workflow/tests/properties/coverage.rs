//! What the cases have been through: each reason of a closing × what was open below it × where that stood, by depth.
//!
//! Depth counts the blocks from what closes down to what is open: 1 is directly inside.

use std::collections::BTreeMap;
use std::fmt;

use workflow::event::CloseReason;
use workflow::key;
use workflow::state::{Execution, Status};

use super::constructs::Constructs;
use super::outline::{Outline, Role};

/// How often each cell must have occurred.
pub const ENOUGH: u64 = 50;

/// Deepest that is told apart.
const DEEPEST: usize = 4;

const REASONS: [CloseReason; 6] = [
    CloseReason::Done,
    CloseReason::Deadline,
    CloseReason::Failed,
    CloseReason::DeadlineFailed,
    CloseReason::Cancelled,
    CloseReason::Timeout,
];

/// What is open below a closing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Open {
    Scheduled,
    DispatchedWithout,
    DispatchedWith,
    RetryWait,
    Sleep,
    Block,
    For,
    Suspended,
    Undo,
}

const OPEN: [Open; 9] = [
    Open::Scheduled,
    Open::DispatchedWithout,
    Open::DispatchedWith,
    Open::RetryWait,
    Open::Sleep,
    Open::Block,
    Open::For,
    Open::Suspended,
    Open::Undo,
];

/// Where it stands, or what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// It is an element of a `for`, or lies in one.
    InFor,
    /// It lies in a block that has `retry`.
    InRetriedBlock,
    HasCompensate,
    HasAlways,
}

const PLACES: [Place; 4] = [Place::InFor, Place::InRetriedBlock, Place::HasCompensate, Place::HasAlways];

type Cell = (CloseReason, Open, Place, usize);

/// How often each cell occurred.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    cells: BTreeMap<Cell, u64>,
    pub counts: BTreeMap<&'static str, u64>,
    pub constructs: Constructs,
}

impl Coverage {
    pub fn count(&mut self, what: &'static str, number: u64) {
        *self.counts.entry(what).or_default() += number;
    }

    pub fn add(&mut self, other: &Self) {
        for (cell, count) in &other.cells {
            *self.cells.entry(*cell).or_default() += count;
        }
        for (what, count) in &other.counts {
            *self.counts.entry(what).or_default() += count;
        }
        self.constructs.add(&other.constructs);
    }

    /// `top` closes while the run stands at `state`.
    pub fn closing(&mut self, outline: &Outline, state: &Execution, top: &str, reason: CloseReason) {
        for (key, unit) in state.units.iter().filter(|(_, unit)| !unit.is_resolved()) {
            if let Some(undone) = key.strip_prefix(key::COMPENSATE) {
                let closing = state.undos.get(undone).map(|undo| &*undo.closing);
                if let Some(closing) = closing.filter(|closing| *closing != top && key::is_under(closing, top)) {
                    self.cell(outline, reason, Open::Undo, undone, depth(closing, top));
                }
                continue;
            }
            if &**key == top || !key::is_under(key, top) {
                continue;
            }
            let open = match (outline.role(key), unit.status) {
                (Role::For, Status::Open) => Open::For,
                (Role::Block, Status::Open) => Open::Block,
                (_, Status::Waiting) => Open::Sleep,
                (_, Status::Suspended) => Open::Suspended,
                (_, Status::RetryWait) => Open::RetryWait,
                (Role::Task, Status::Scheduled) => Open::Scheduled,
                (Role::Task, Status::Dispatched) if outline.compensate(key).is_some() => Open::DispatchedWith,
                (Role::Task, Status::Dispatched) => Open::DispatchedWithout,
                _ => continue,
            };
            self.cell(outline, reason, open, key, depth(key, top));
        }
    }

    fn cell(&mut self, outline: &Outline, reason: CloseReason, open: Open, key: &str, depth: usize) {
        if depth > DEEPEST {
            return;
        }
        let compensate = outline.step(key).and_then(|step| step.get("compensate"));
        let mut note = |place| *self.cells.entry((reason, open, place, depth)).or_default() += 1;
        if key.contains('[') {
            note(Place::InFor);
        }
        if key.contains('~') {
            note(Place::InRetriedBlock);
        }
        if compensate.is_some() {
            note(Place::HasCompensate);
        }
        if compensate.is_some_and(|undo| undo["always"] == true) {
            note(Place::HasAlways);
        }
    }

    /// Possible cells that occurred too rarely.
    pub fn missing(&self) -> Vec<String> {
        let rare = |(cell, count): (Cell, u64)| {
            let (reason, open, place, depth) = cell;
            (count < ENOUGH).then(|| format!("{} {open:?} {place:?} depth {depth}: {count}", reason.as_str()))
        };
        self.possible().filter_map(rare).collect()
    }

    fn possible(&self) -> impl Iterator<Item = (Cell, u64)> + '_ {
        let all = REASONS.into_iter().flat_map(|reason| {
            OPEN.into_iter().flat_map(move |open| {
                let by_depth = move |place| (1..=DEEPEST).map(move |depth| (reason, open, place, depth));
                PLACES.into_iter().flat_map(by_depth)
            })
        });
        let possible = all.filter(|(reason, open, place, depth)| is_possible(*reason, *open, *place, *depth));
        possible.map(|cell| (cell, self.cells.get(&cell).copied().unwrap_or(0)))
    }
}

/// The blocks from `top` down to `key`; elements and attempts of `top` itself are directly inside.
fn depth(key: &str, top: &str) -> usize {
    (key::segments(key).count() - key::segments(top).count()).max(1)
}

fn is_possible(reason: CloseReason, open: Open, place: Place, depth: usize) -> bool {
    let is_root = matches!(reason, CloseReason::Cancelled | CloseReason::Timeout);
    match (open, place) {
        // A sleep has no compensation: the language has no place for one.
        (Open::Sleep, Place::HasCompensate | Place::HasAlways) => false,
        // By its name: what is dispatched without a compensation has none, and no `always` either.
        (Open::DispatchedWithout, Place::HasCompensate | Place::HasAlways) => false,
        // Only the root is cancelled or times out: it is no attempt of a block, and no element of a `for`. Directly
        // inside it a sleep or a `for` is no element either: a sleep takes no `for`, and a `for` is around elements.
        (_, Place::InRetriedBlock) if is_root => depth > 1,
        (Open::Sleep | Open::For, Place::InFor) if is_root => depth > 1,
        _ => true,
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, count) in &self.counts {
            writeln!(f, "{count:>9} {what}")?;
        }
        writeln!(
            f,
            "closing × open below: in a for | in a block with retry | has compensate | has always, depth 1 to 4"
        )?;
        for reason in REASONS {
            for open in OPEN {
                write!(f, "{:>15} {:<18}", reason.as_str(), format!("{open:?}"))?;
                for place in PLACES {
                    for depth in 1..=DEEPEST {
                        match self.cells.get(&(reason, open, place, depth)) {
                            _ if !is_possible(reason, open, place, depth) => write!(f, "{:>7}", "-")?,
                            count => write!(f, "{:>7}", count.copied().unwrap_or(0))?,
                        }
                    }
                    write!(f, " |")?;
                }
                writeln!(f)?;
            }
        }
        let possible: Vec<_> = self.possible().collect();
        let least = possible.iter().map(|(_, count)| *count).min().unwrap_or(0);
        writeln!(f, "{} cells, the rarest {least} times", possible.len())
    }
}
