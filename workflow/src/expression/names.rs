//! The names of an expression while it is parsed: which are free, which are loop variables, what they refer to.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::node::Node;
use super::references::References;

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
        } else if let Some(step) = self.step(&of) {
            match &*name {
                "output" => {
                    let step = step.to_owned();
                    note(&mut self.references.step_outputs, &step, offset);
                }
                "status" | "error" => {
                    let step = step.to_owned();
                    self.references.guarded_steps.insert(step);
                }
                _ => {}
            }
        }
        Node::Member(Box::new(of), name)
    }

    /// Whether the output of a step, if this is one, is looked at by something that can cope with null.
    pub(super) fn guard(&mut self, node: &Node) {
        let Node::Member(of, name) = node else { return };
        if &**name == "output"
            && let Some(step) = self.step(of)
        {
            let step = step.to_owned();
            self.references.guarded_steps.insert(step);
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

    fn is_free(&self, node: &Node, name: &str) -> bool {
        matches!(node, Node::Variable(place) if self.free.get(*place).is_some_and(|free| &**free == name))
    }
}

fn note(names: &mut BTreeMap<String, usize>, name: &str, offset: usize) {
    if !names.contains_key(name) {
        names.insert(name.to_owned(), offset);
    }
}
