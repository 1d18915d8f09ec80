//! What may have something to say, in the order of the walk.

use std::collections::{BTreeMap, HashMap};

use super::close::Settling;
use super::place::{Node, Place};
use super::undo::Undoing;
use super::waiting::Waiting;
use super::watching::Watching;
use super::{Facts, Next, Role, Walk, Walked};
use crate::event::{Event, Recorded};
use crate::key::{self, COMPENSATE, DEADLINE, GRACE, Key};
use crate::state::{Execution, Status};

/// Nodes to be visited. Volatile: dropped with the actor, and empty at every fixpoint.
#[derive(Debug, Default)]
pub struct Agenda {
    nodes: BTreeMap<Place, Node>,
    memo: Memo,
    visited: u64,
}

/// What deciding has cost so far, in steps that do not depend on the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Nodes that were visited.
    pub visited: u64,
    /// How often a wait was asked about a signal.
    pub asked: u64,
}

/// What closings and waits have worked out so far, so that each of their events costs little. Volatile as well: built
/// again from the state when it is missing.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    pub settling: HashMap<Key, Settling>,
    pub undoing: HashMap<Key, Undoing>,
    pub waiting: Waiting,
    pub watching: Watching,
}

impl Agenda {
    /// The next event, or none at the fixpoint. The caller appends it to the state and [notes](Self::note) it.
    pub fn next(&mut self, facts: Facts<'_>) -> Option<Event> {
        let head = &facts.state.head;
        if head.paused && !head.force || facts.state.is_over() {
            self.nodes.clear();
            return None;
        }
        while let Some((place, node)) = self.nodes.first_key_value() {
            let (place, node) = (place.clone(), node.clone());
            self.visited += 1;
            let mut walk = Walk { facts, memo: &mut self.memo };
            match walk.visit(&node) {
                Err(Next(event)) => return Some(*event),
                Ok(follow_up) => {
                    self.nodes.remove(&place);
                    if let Some(node) = follow_up {
                        self.add(&facts, node);
                    }
                }
            }
        }
        None
    }

    /// Whether there is nothing left to visit.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// What it has cost so far.
    #[must_use]
    pub fn work(&self) -> Work {
        Work { visited: self.visited, asked: self.memo.waiting.asked() }
    }

    /// Puts everything on the agenda that `recorded` can reach; `facts` already contains it.
    pub fn note(&mut self, facts: &Facts<'_>, recorded: &Recorded) {
        self.memo.note(facts.state, &recorded.event);
        for wait in self.memo.waiting.note(facts, recorded) {
            self.add(facts, Node::of(&wait));
        }
        match &recorded.event {
            Event::WorkflowStarted(_) | Event::WorkflowResumed(_) | Event::WorkflowRedriven(_) => {
                self.memo.settling.clear();
                self.memo.undoing.clear();
                self.add_everything(facts);
            }
            Event::SignalReceived(_) | Event::CancelRequested(_) | Event::WorkflowTimeoutReached(_) => {
                self.add(facts, Node::Root);
            }
            Event::CompensationFailed(e) => self.add_undo(facts, &e.step),
            Event::HandlerStarted(e) => self.add_block(facts, &e.step),
            Event::HandlerFinished(_) => {
                self.add(facts, Node::Root);
                self.add(facts, Node::End);
            }
            event => self.note_step(facts, event),
        }
        if facts.definition.watches_elsewhere {
            self.add(facts, Node::Root);
            for watcher in self.memo.watching.note(facts, &recorded.event) {
                self.add(facts, Node::of(&watcher));
            }
        }
    }

    fn note_step(&mut self, facts: &Facts<'_>, event: &Event) {
        let Some(name) = event.step() else { return };
        let key = name.strip_prefix(DEADLINE).or_else(|| name.strip_prefix(GRACE)).unwrap_or(name);
        if let Some(undone) = key.strip_prefix(COMPENSATE) {
            return self.add_undo(facts, undone);
        }
        self.add_around(facts, key);
        match event {
            Event::StepClosing(_) if key.is_empty() => self.add_event_handlers(facts),
            Event::StepOpened(_) => {
                let path = facts.instance(key);
                self.add_block(facts, &path);
            }
            Event::StepSucceeded(_) | Event::StepSkipped(_) | Event::StepFailed(_) => self.add_dependents(facts, key),
            _ => {}
        }
    }

    /// Everything that is open: for the start, after a pause, and when nothing is known.
    pub fn add_everything(&mut self, facts: &Facts<'_>) {
        self.memo.waiting.forget();
        self.memo.watching.forget();
        self.add_block(facts, "");
        self.add(facts, Node::End);
        for (handler, _) in facts.state.handlers.iter().filter(|(_, handler)| !handler.done) {
            self.add_block(facts, handler);
        }
        for (key, unit) in facts.state.units.iter().filter(|(_, unit)| !unit.is_resolved()) {
            match key.strip_prefix(COMPENSATE) {
                Some(undone) => self.add_undo(facts, undone),
                None if unit.status == Status::Open => self.add_block(facts, &facts.instance(key)),
                None => self.add(facts, Node::of(key)),
            }
        }
    }

    fn add(&mut self, facts: &Facts<'_>, node: Node) {
        if let Some(place) = node.place(facts.definition) {
            self.nodes.insert(place, node);
        }
    }

    /// The node of `key` and of everything around it.
    fn add_around(&mut self, facts: &Facts<'_>, key: &str) {
        for at in key::chain(key) {
            self.add(facts, Node::of(at));
        }
    }

    /// A block that has opened, and its steps.
    fn add_block(&mut self, facts: &Facts<'_>, path: &str) {
        self.add(facts, Node::of(path));
        let is_instance = path.is_empty() || key::is_handler_path(path) || facts.role(path) == Role::Steps;
        let Some(block) = facts.block_at(path).filter(|_| is_instance) else { return };
        for step in &block.steps {
            self.add(facts, Node::Unit(key::join(path, &facts.definition.step(*step).id)));
        }
    }

    /// Those that wait for the step at `key`.
    fn add_dependents(&mut self, facts: &Facts<'_>, key: &str) {
        let Some(step) = facts.step(key) else { return };
        if key::step_of(key).len() == key.len() {
            for dependent in &step.dependents {
                self.add(facts, Node::Unit(key::join(key::parent(key), &facts.definition.step(*dependent).id)));
            }
        }
    }

    /// The closing that undoes `undone`, and everything around it.
    fn add_undo(&mut self, facts: &Facts<'_>, undone: &str) {
        if let Some(undo) = facts.state.undos.get(undone) {
            self.add_around(facts, &undo.closing);
        }
    }

    fn add_event_handlers(&mut self, facts: &Facts<'_>) {
        for (handler, _) in facts.state.handlers.iter().filter(|(_, handler)| !handler.done) {
            self.add(facts, Node::of(handler));
        }
    }
}

impl Memo {
    fn note(&mut self, state: &Execution, event: &Event) {
        if self.settling.is_empty() && self.undoing.is_empty() {
            return;
        }
        if let Event::TimerFired(e) = event
            && e.step.starts_with(GRACE)
        {
            self.settling.values_mut().for_each(Settling::touch_all);
        }
        let Some(step) = event.step() else { return };
        let undone = match event {
            Event::CompensationFailed(e) => Some(&*e.step),
            _ => step.strip_prefix(COMPENSATE),
        };
        if let Some(undone) = undone {
            let Some(closing) = state.undos.get(undone).map(|undo| undo.closing.clone()) else { return };
            if let Some(undoing) = self.undoing.get_mut(&closing) {
                undoing.touch(undone);
            }
            for at in key::chain(&closing) {
                if let Some(settling) = self.settling.get_mut(at) {
                    settling.touch_undo(&closing);
                }
            }
            return;
        }
        if let Event::CompensationStarted(e) = event {
            self.undoing.remove(&*e.step);
        }
        for at in key::chain(step) {
            if let Some(settling) = self.settling.get_mut(at) {
                settling.touch(step);
            }
        }
    }
}

impl Walk<'_> {
    /// What `node` has to say; perhaps which node to look at next.
    fn visit(&mut self, node: &Node) -> Walked<Option<Node>> {
        match node {
            Node::Root => self.visit_root(),
            Node::Unit(key) => self.visit_unit(key),
            Node::EventHandler(handler) => self.visit_event_handler(handler).map(|()| None),
            Node::End => self.visit_end().map(|()| None),
        }
    }
}
