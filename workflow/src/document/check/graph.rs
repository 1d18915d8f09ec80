//! Who waits for whom, and the order of every block (L1): again and again the first step in document order whose
//! dependencies are placed.

use std::collections::BTreeSet;

use super::Report;
use super::uses::{Orders, Use, Uses};
use crate::document::marked::{Marked, join};
use crate::document::outline::{Home, Kind, Outline};

pub(in crate::document) struct Graph {
    /// For each step the steps of its block that it waits for.
    pub(in crate::document) depends_on: Vec<BTreeSet<usize>>,
    /// For each block its steps in order.
    pub(in crate::document) order: Vec<Vec<usize>>,
}

pub(super) fn check(outline: &Outline<'_>, uses: &Uses, report: &mut Report) -> Graph {
    let mut depends_on = vec![BTreeSet::new(); outline.steps.len()];
    for (index, found) in depends_on.iter_mut().enumerate() {
        for field in ["after", "depends_on"] {
            after(outline, index, field, found, report);
        }
    }
    for named in uses.list.iter().filter(|named| named.orders == Orders::Yes) {
        let Some((waiting, target)) = waits(outline, named) else { continue };
        if waiting == target {
            let id = outline.steps[target].id;
            report.fault(named.place, &named.path, format!("the step `{id}` refers to itself"));
        } else {
            depends_on[waiting].insert(target);
        }
    }
    for (index, step) in outline.steps.iter().enumerate() {
        for &target in &depends_on[index] {
            if outline.steps[target].kind == Some(Kind::ContinueAsNew) {
                let message = format!("nothing may depend on `{}`: it ends the run", outline.steps[target].id);
                report.fault(step.node.place, &step.path, message);
            }
        }
    }
    let order = outline.blocks.iter().map(|block| order(outline, &block.steps, &depends_on, report)).collect();
    Graph { depends_on, order }
}

fn after(outline: &Outline<'_>, index: usize, field: &str, found: &mut BTreeSet<usize>, report: &mut Report) {
    let step = &outline.steps[index];
    let path = join(&step.path, field);
    for (item, node) in step.node.get(field).map_or(&[][..], Marked::items).iter().enumerate() {
        let Some(id) = node.text() else { continue };
        let at = join(&path, item);
        match outline.by_id.get(id) {
            Some(&target) if target == index => {
                report.fault(node.place, at, format!("the step `{id}` waits for itself"));
            }
            Some(&target) if outline.steps[target].block == step.block => {
                found.insert(target);
            }
            Some(_) => {
                let message = format!("`{id}` is a step of another block; `{field}` names steps of the same block");
                report.fault(node.place, at, message);
            }
            None => {
                let siblings = outline.blocks[step.block].steps.iter().map(|&sibling| outline.steps[sibling].id);
                report.misnamed(node.place, &at, format!("unknown step `{id}`"), id, siblings);
            }
        }
    }
}

/// The two steps of one block between which naming makes an order: a block waits for what its inside names outside.
fn waits(outline: &Outline<'_>, named: &Use) -> Option<(usize, usize)> {
    let (mut block, mut by) = (named.block, named.by);
    while outline.steps[named.target].block != block {
        match outline.blocks[block].home {
            Home::Step(owner) => {
                by = Some(owner);
                block = outline.steps[owner].block;
            }
            // A handler names what is long over or goes its own way.
            Home::Root | Home::Handler | Home::EventHandler(_) => return None,
        }
    }
    Some((by?, named.target))
}

fn order(outline: &Outline<'_>, steps: &[usize], depends_on: &[BTreeSet<usize>], report: &mut Report) -> Vec<usize> {
    let mut left: Vec<usize> = steps.to_vec();
    let mut waiting: BTreeSet<usize> = steps.iter().copied().collect();
    let mut order = Vec::with_capacity(steps.len());
    while let Some(at) = left.iter().position(|&step| depends_on[step].is_disjoint(&waiting)) {
        let step = left.remove(at);
        waiting.remove(&step);
        order.push(step);
    }
    if !left.is_empty() {
        cycle(outline, &left, &waiting, depends_on, report);
        order.extend(left);
    }
    order
}

/// Follows dependencies from the first step that cannot be placed until one comes again.
fn cycle(
    outline: &Outline<'_>,
    left: &[usize],
    waiting: &BTreeSet<usize>,
    depends_on: &[BTreeSet<usize>],
    report: &mut Report,
) {
    let mut way: Vec<usize> = vec![left[0]];
    loop {
        let last = way[way.len() - 1];
        // Every step that is left waits for one that is left: else it would have been placed.
        let Some(&next) = depends_on[last].iter().find(|step| waiting.contains(step)) else { return };
        if let Some(start) = way.iter().position(|&step| step == next) {
            way.drain(..start);
            break;
        }
        way.push(next);
    }
    let first = (0..way.len()).min_by_key(|&at| way[at]).unwrap_or(0);
    way.rotate_left(first);
    let ids: Vec<&str> = way.iter().chain(way.first()).map(|&step| outline.steps[step].id).collect();
    let step = &outline.steps[way[0]];
    report.fault(step.node.place, &step.path, format!("these steps wait for each other: {}", ids.join(" → ")));
}
