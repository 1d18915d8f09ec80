//! A compiled expression: a tree in which every name and function is resolved.

use std::sync::Arc;

use regex::Regex;

use super::function::Function;
use crate::value::Value;

/// The tree, and the free names that it reads by their place in `variables`.
#[derive(Debug)]
pub(super) struct Program {
    pub root: Node,
    pub variables: Vec<Arc<str>>,
}

/// One step of an evaluation each.
#[derive(Debug)]
pub(super) enum Node {
    Literal(Value),
    /// A free name: its place in [`Program::variables`].
    Variable(usize),
    /// A loop variable: how many loops stand around the one that binds it.
    Local(usize),
    Member(Box<Node>, Arc<str>),
    Has(Box<Node>, Arc<str>),
    Index(Box<[Node; 2]>),
    Not(Box<Node>),
    Negate(Box<Node>),
    /// `&&` and `||`: the side that equals `decides` wins, also over an error on the other side.
    Logic {
        decides: bool,
        sides: Vec<Node>,
    },
    Conditional(Box<[Node; 3]>),
    Binary(Operator, Box<[Node; 2]>),
    List(Vec<Node>),
    Map(Vec<[Node; 2]>),
    /// A function; of a method the receiver is the first argument.
    Call(&'static Function, Vec<Node>),
    /// `matches`, its pattern compiled already where it is a literal.
    Matches {
        text: Box<Node>,
        pattern: Pattern,
    },
    Loop(Box<Loop>),
}

#[derive(Debug)]
pub(super) enum Pattern {
    Fixed(Regex),
    Computed(Box<Node>),
}

/// A macro over the elements of a list or the keys of a map.
#[derive(Debug)]
pub(super) struct Loop {
    pub kind: LoopKind,
    pub over: Node,
    /// Of `map` with three arguments: which elements.
    pub filter: Option<Node>,
    pub body: Node,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoopKind {
    Map,
    Filter,
    Exists,
    All,
    ExistsOne,
}

impl LoopKind {
    pub(super) fn named(name: &str) -> Option<Self> {
        [LoopKind::Map, LoopKind::Filter, LoopKind::Exists, LoopKind::All, LoopKind::ExistsOne]
            .into_iter()
            .find(|kind| kind.name() == name)
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            LoopKind::Map => "map",
            LoopKind::Filter => "filter",
            LoopKind::Exists => "exists",
            LoopKind::All => "all",
            LoopKind::ExistsOne => "exists_one",
        }
    }
}

/// The operators that need the values of both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}
