//! The names of an expression while it is parsed: which are free, which are loop variables, what they refer to.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::node::Node;
use super::references::References;
use crate::value::Value;

/// Words that can be no variable in CEL.
const RESERVED: [&str; 21] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "var",
    "void",
    "while",
];

/// Whether a word is reserved by CEL and can be no variable, hence no loop variable.
pub fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word)
}

#[derive(Default)]
pub(super) struct Names<'t> {
    /// Loop variables, innermost last.
    locals: Vec<&'t str>,
    /// Free names in the order of their first mention: their places in the program.
    free: Vec<Arc<str>>,
    places: BTreeMap<&'t str, usize>,
    references: References,
}

impl<'t> Names<'t> {
    pub(super) fn finish(self) -> (Vec<Arc<str>>, References) {
        (self.free, self.references)
    }

    /// How many loops are open.
    pub(super) fn loops(&self) -> usize {
        self.locals.len()
    }

    pub(super) fn bind(&mut self, variable: &'t str) {
        self.locals.push(variable);
    }

    pub(super) fn unbind(&mut self) {
        self.locals.pop();
    }

    /// A name stands where a value is expected.
    pub(super) fn read(&mut self, name: &'t str, offset: usize) -> Node {
        if let Some(slot) = self.locals.iter().rposition(|local| *local == name) {
            return Node::Local(slot);
        }
        note(&mut self.references.variables, name, offset);
        let next = self.free.len();
        let place = *self.places.entry(name).or_insert(next);
        if place == next {
            self.free.push(Arc::from(name));
        }
        Node::Variable(place)
    }

    /// A function, method or macro is called.
    pub(super) fn function(&mut self, name: &str, offset: usize) {
        note(&mut self.references.functions, name, offset);
    }

    /// A member is read of `of`, which begins at `offset`.
    pub(super) fn member(&mut self, of: Node, name: Arc<str>, offset: usize) -> Node {
        if self.is_steps(&of) {
            note(&mut self.references.steps, &name, offset);
        } else if self.is_free(&of, "execution") {
            self.references.execution_fields.insert(name.to_string());
        } else if self.is_free(&of, "input") {
            note(&mut self.references.input_members, &name, offset);
        } else if self.is_unit(&of) {
            note(&mut self.references.unit_members, &name, offset);
        } else if let Some(step) = self.step(&of).map(str::to_owned) {
            self.step_member(step, &name, offset);
        } else if let Some(step) = self.output_of(&of).map(str::to_owned) {
            note(&mut self.references.output_members, &step, offset);
        }
        Node::Member(Box::new(of), name)
    }

    fn step_member(&mut self, step: String, name: &str, offset: usize) {
        self.references.step_members.entry((step.clone(), name.to_owned())).or_insert(offset);
        match name {
            "output" => note(&mut self.references.step_outputs, &step, offset),
            "status" | "error" => {
                self.references.guarded_steps.insert(step);
            }
            _ => {}
        }
    }

    /// Whatever this reads of the output of a step, if it does, is looked at by something that can cope with null.
    pub(super) fn guard(&mut self, node: &Node) {
        let mut node = node;
        loop {
            if let Some(step) = self.output_of(node).map(str::to_owned) {
                self.references.guarded_steps.insert(step);
                return;
            }
            node = match node {
                Node::Member(of, _) => of,
                Node::Index(sides) => &sides[0],
                _ => return,
            };
        }
    }

    /// Two values are compared, or one is looked for among others: notes which texts a status is held against.
    pub(super) fn compared(&mut self, one: &Node, other: &Node, offset: usize) {
        let Node::Member(of, name) = one else { return };
        if &**name != "status" || !(self.step(of).is_some() || self.is_unit(of)) {
            return;
        }
        let texts = if let Node::List(items) = other { items.as_slice() } else { std::slice::from_ref(other) };
        for text in texts {
            if let Node::Literal(Value::String(text)) = text {
                note(&mut self.references.statuses, text, offset);
            }
        }
    }

    /// Whether this is the variable `steps` itself.
    pub(super) fn is_steps(&self, node: &Node) -> bool {
        self.is_free(node, "steps")
    }

    /// The id of the step that this is.
    fn step<'n>(&self, node: &'n Node) -> Option<&'n str> {
        match node {
            Node::Member(of, name) if self.is_steps(of) => Some(name),
            _ => None,
        }
    }

    /// The id of the step whose output this is.
    fn output_of<'n>(&self, node: &'n Node) -> Option<&'n str> {
        match node {
            Node::Member(of, name) if &**name == "output" => self.step(of),
            _ => None,
        }
    }

    /// Whether this is an element of some step's `units`.
    fn is_unit(&self, node: &Node) -> bool {
        let Node::Index(sides) = node else { return false };
        matches!(&sides[0], Node::Member(of, name) if &**name == "units" && self.step(of).is_some())
    }

    fn is_free(&self, node: &Node, name: &str) -> bool {
        matches!(node, Node::Variable(place) if self.free.get(*place).is_some_and(|free| &**free == name))
    }
}

fn note(names: &mut BTreeMap<String, usize>, name: &str, offset: usize) {
    if !names.contains_key(name) {
        names.insert(name.to_owned(), offset);
    }
}
