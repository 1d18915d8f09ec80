//! From tokens to a [`Node`] tree, in one pass: CEL's grammar, with names and functions resolved on the way.
//!
//! ```text
//! conditional  logical ( ? conditional : conditional )?          postfix  primary ( .name | .name(…) | […] )*
//! logical      || over && over comparisons over + - over * / %   primary  literal, name, name(…), (…), […], {…}
//! unary        ( ! | - )* postfix
//! ```

use super::CompileError;
use super::function::{self, Style, pattern};
use super::lexer::{Kind, Token, tokens};
use super::names::{Names, is_reserved};
use super::node::{Loop, LoopKind, Node, Operator, Pattern, Program};
use super::references::References;
use crate::value::Value;

/// How long the text of one expression may be, in bytes.
pub const TEXT_BYTES_MAX: usize = 64 << 10;

/// How deep the parts of an expression may lie in each other; in a chain like `a + b + c` each operator counts as one
/// level, in a chain of `&&` or `||` none does.
pub const DEPTH_MAX: usize = 200;

/// How many brackets, branches of `? :` and signs may be open at once: the parser recurses through all levels of
/// precedence for each, in a debug build with kilobytes of stack.
pub const NESTING_MAX: usize = 64;

/// How many macros may stand inside each other.
pub const LOOPS_MAX: usize = 16;

/// Compiles a text.
pub(super) fn parse(text: &str) -> Result<(Program, References), CompileError> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(CompileError::new(0, format!("an expression is at most {TEXT_BYTES_MAX} bytes long")));
    }
    let mut parser = Parser { tokens: tokens(text)?, at: 0, depth: 0, names: Names::default() };
    let root = parser.conditional()?.node;
    if !matches!(parser.kind(), Kind::End) {
        return Err(parser.unexpected("the end"));
    }
    let (variables, references) = parser.names.finish();
    Ok((Program { root, variables }, references))
}

/// A node and how deep it is. Evaluating recurses as deep as that, so it is bounded here.
struct Part {
    node: Node,
    depth: usize,
    /// Where it begins.
    offset: usize,
}

struct Parser<'t> {
    tokens: Vec<Token<'t>>,
    at: usize,
    /// How many brackets, conditionals and signs are open around the current token.
    depth: usize,
    names: Names<'t>,
}

type Parsed<T = Part> = Result<T, CompileError>;

impl<'t> Parser<'t> {
    fn token(&self) -> &Token<'t> {
        // The last token is `End`, and `next` stops at it.
        &self.tokens[self.at]
    }

    fn kind(&self) -> &Kind<'t> {
        &self.token().kind
    }

    fn offset(&self) -> usize {
        self.token().offset
    }

    fn next(&mut self) -> Token<'t> {
        let token = self.token().clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn peek(&self, ahead: usize) -> &Kind<'t> {
        self.tokens.get(self.at + ahead).map_or(&Kind::End, |token| &token.kind)
    }

    fn is(&self, symbol: &'static str) -> bool {
        *self.kind() == Kind::Symbol(symbol)
    }

    fn eat(&mut self, symbol: &'static str) -> bool {
        let found = self.is(symbol);
        if found {
            self.next();
        }
        found
    }

    fn expect(&mut self, symbol: &'static str) -> Parsed<()> {
        if self.eat(symbol) { Ok(()) } else { Err(self.unexpected(&format!("`{symbol}`"))) }
    }

    fn unexpected(&self, expected: &str) -> CompileError {
        let found = match self.kind() {
            Kind::End => return CompileError::new(self.offset(), format!("ends where {expected} is expected")),
            Kind::Integer(_) | Kind::Unsigned(_) | Kind::Double(_) => "a number".to_owned(),
            Kind::Text(_) => "a string".to_owned(),
            Kind::Name(name) => format!("`{name}`"),
            Kind::Symbol(symbol) => format!("`{symbol}`"),
        };
        let message = format!("{found} where {expected} is expected");
        let before = self.at.checked_sub(1).map(|at| &self.tokens[at].kind);
        let hint = match (before, self.kind()) {
            (_, Kind::Name("and" | "AND")) => ": and is `&&`",
            (_, Kind::Name("or" | "OR")) => ": or is `||`",
            (Some(Kind::Name("not" | "NOT")), _) => ": not is `!`",
            _ => "",
        };
        CompileError::new(self.offset(), message + hint)
    }

    /// One level further in, for the parser's own recursion.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth == NESTING_MAX {
            let message = format!("more than {NESTING_MAX} brackets, signs and branches of `? :` open at once");
            return Err(CompileError::new(self.offset(), message));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn conditional(&mut self) -> Parsed {
        let condition = self.logic(true)?;
        let offset = self.offset();
        if !self.eat("?") {
            return Ok(condition);
        }
        let yes = self.nested(Self::conditional)?;
        self.expect(":")?;
        let no = self.nested(Self::conditional)?;
        let depth = condition.depth.max(yes.depth).max(no.depth);
        above(depth, offset, condition.offset, Node::Conditional(Box::new([condition.node, yes.node, no.node])))
    }

    /// `||` over `&&`: chains become one node.
    fn logic(&mut self, or: bool) -> Parsed {
        let symbol = if or { "||" } else { "&&" };
        let side = |parser: &mut Self| if or { parser.logic(false) } else { parser.binary(0) };
        let first = side(self)?;
        if !self.is(symbol) {
            return Ok(first);
        }
        let (operator, start, mut depth) = (self.offset(), first.offset, first.depth);
        let mut sides = vec![first.node];
        while self.eat(symbol) {
            let part = side(self)?;
            depth = depth.max(part.depth);
            sides.push(part.node);
        }
        above(depth, operator, start, Node::Logic { decides: or, sides })
    }

    /// The operators of one level of precedence, left to right.
    fn binary(&mut self, level: usize) -> Parsed {
        if level == LEVELS {
            return self.unary();
        }
        let mut left = self.binary(level + 1)?;
        while let Some(operator) = operator(self.kind(), level) {
            let offset = self.next().offset;
            let right = self.binary(level + 1)?;
            if matches!(operator, Operator::Equal | Operator::NotEqual | Operator::In) {
                self.names.guard(&left.node);
                self.names.compared(&left.node, &right.node, left.offset);
            }
            if matches!(operator, Operator::Equal | Operator::NotEqual) {
                self.names.guard(&right.node);
                self.names.compared(&right.node, &left.node, right.offset);
            }
            let depth = left.depth.max(right.depth);
            left = above(depth, offset, left.offset, Node::Binary(operator, Box::new([left.node, right.node])))?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Parsed {
        let offset = self.offset();
        if self.eat("!") {
            let of = self.nested(Self::unary)?;
            return above(of.depth, offset, offset, Node::Not(Box::new(of.node)));
        }
        if self.eat("-") {
            if let Kind::Integer(magnitude) = *self.kind() {
                self.next();
                let integer = 0i64.checked_sub_unsigned(magnitude).ok_or_else(|| beyond(offset))?;
                return self.postfix(Part { node: Node::Literal(Value::Int(integer)), depth: 1, offset });
            }
            let of = self.nested(Self::unary)?;
            return above(of.depth, offset, offset, Node::Negate(Box::new(of.node)));
        }
        let primary = self.primary()?;
        self.postfix(primary)
    }

    fn postfix(&mut self, mut of: Part) -> Parsed {
        loop {
            let offset = self.offset();
            if self.eat(".") {
                of = self.member_or_method(of)?;
            } else if self.eat("[") {
                let index = self.nested(Self::conditional)?;
                self.expect("]")?;
                let depth = of.depth.max(index.depth);
                let node = match index.node {
                    // The same, and a step may be named so.
                    Node::Literal(Value::String(name)) => self.names.member(of.node, name, of.offset),
                    index => Node::Index(Box::new([of.node, index])),
                };
                of = above(depth, offset, of.offset, node)?;
            } else {
                return Ok(of);
            }
        }
    }

    fn member_or_method(&mut self, of: Part) -> Parsed {
        let offset = self.offset();
        let Kind::Name(name) = *self.kind() else {
            return Err(if self.is("?") { not_ours(offset, "optional members") } else { self.unexpected("a name") });
        };
        if let "in" | "true" | "false" | "null" = name {
            return Err(CompileError::new(offset, format!("`{name}` is no member name: write ['{name}']")));
        }
        self.next();
        if !self.is("(") {
            if self.is("{") && matches!(of.node, Node::Variable(_) | Node::Member(..)) {
                return Err(not_ours(of.offset, "messages"));
            }
            return above(of.depth, offset, of.offset, self.names.member(of.node, name.into(), of.offset));
        }
        if self.names.is_steps(&of.node) {
            return Err(steps_alone(of.offset));
        }
        self.next();
        self.names.function(name, offset);
        match LoopKind::named(name) {
            Some(kind) => self.macro_(kind, of, offset),
            None => self.method(name, of, offset),
        }
    }

    /// The arguments of a call, behind its opening bracket.
    fn arguments(&mut self) -> Parsed<Vec<Part>> {
        let mut parts = Vec::new();
        if self.eat(")") {
            return Ok(parts);
        }
        loop {
            parts.push(self.nested(Self::conditional)?);
            if self.eat(")") {
                return Ok(parts);
            }
            if !self.eat(",") {
                return Err(self.unexpected("`,` or `)`"));
            }
        }
    }

    fn method(&mut self, name: &'t str, of: Part, offset: usize) -> Parsed {
        let mut arguments = self.arguments()?;
        let function = function::find(name, Style::Method, arguments.len())
            .map_err(|message| CompileError::new(offset, message))?;
        let start = of.offset;
        let depth = arguments.iter().map(|part| part.depth).fold(of.depth, usize::max);
        if name == "matches"
            && let Some(argument) = arguments.pop()
        {
            let pattern = match argument.node {
                Node::Literal(Value::String(text)) => Pattern::Fixed(
                    pattern::compile(&text).map_err(|error| CompileError::new(argument.offset, error.message))?,
                ),
                node => Pattern::Computed(Box::new(node)),
            };
            return above(depth, offset, start, Node::Matches { text: Box::new(of.node), pattern });
        }
        let nodes = std::iter::once(of).chain(arguments).map(|part| part.node).collect();
        above(depth, offset, start, Node::Call(function, nodes))
    }

    fn macro_(&mut self, kind: LoopKind, over: Part, offset: usize) -> Parsed {
        let name = kind.name();
        let shape = if kind == LoopKind::Map { "(x, value) or (x, condition, value)" } else { "(x, condition)" };
        let fault = |offset| CompileError::new(offset, format!("`{name}` is a macro: .{name}{shape}, x a new name"));
        let (Kind::Name(variable), Kind::Symbol(",")) = (self.kind().clone(), self.peek(1)) else {
            return Err(fault(self.offset()));
        };
        if is_reserved(variable) {
            return Err(reserved(self.offset(), variable));
        }
        if self.names.loops() == LOOPS_MAX {
            return Err(CompileError::new(offset, format!("more than {LOOPS_MAX} macros inside each other")));
        }
        self.next();
        self.next();
        self.names.bind(variable);
        let parts = self.arguments();
        self.names.unbind();
        let mut parts = parts?;
        let depth = parts.iter().map(|part| part.depth).fold(over.depth, usize::max);
        let (body, filter) = (parts.pop(), parts.pop());
        let Some(body) = body.filter(|_| parts.is_empty() && (filter.is_none() || kind == LoopKind::Map)) else {
            return Err(fault(offset));
        };
        let filter = filter.map(|part| part.node);
        above(depth, offset, over.offset, Node::Loop(Box::new(Loop { kind, over: over.node, filter, body: body.node })))
    }

    fn primary(&mut self) -> Parsed {
        let token = self.token().clone();
        let offset = token.offset;
        let literal = match token.kind {
            Kind::Integer(magnitude) => Value::Int(i64::try_from(magnitude).map_err(|_| beyond(offset))?),
            Kind::Unsigned(value) => Value::from(value),
            Kind::Double(value) => Value::Double(value),
            Kind::Text(text) => Value::from(text),
            Kind::Name("true") => Value::Bool(true),
            Kind::Name("false") => Value::Bool(false),
            Kind::Name("null") => Value::Null,
            Kind::Name(name) => return self.name(name),
            Kind::Symbol("(") => {
                self.next();
                let inner = self.nested(Self::conditional)?;
                self.expect(")")?;
                return Ok(inner);
            }
            Kind::Symbol("[") => return self.list(),
            Kind::Symbol("{") => return self.map(),
            Kind::Symbol(_) | Kind::End => return Err(self.unexpected("an expression")),
        };
        self.next();
        Ok(Part { node: Node::Literal(literal), depth: 1, offset })
    }

    fn name(&mut self, name: &'t str) -> Parsed {
        let offset = self.next().offset;
        if is_reserved(name) {
            return Err(reserved(offset, name));
        }
        if self.is("{") {
            return Err(not_ours(offset, "messages"));
        }
        if self.eat("(") {
            return self.function(name, offset);
        }
        let node = self.names.read(name, offset);
        let names_a_step = matches!(
            (self.kind(), self.peek(1), self.peek(2)),
            (Kind::Symbol("."), Kind::Name(_), _) | (Kind::Symbol("["), Kind::Text(_), Kind::Symbol("]"))
        );
        if self.names.is_steps(&node) && !names_a_step {
            return Err(steps_alone(offset));
        }
        Ok(Part { node, depth: 1, offset })
    }

    fn function(&mut self, name: &'t str, offset: usize) -> Parsed {
        let mut arguments = self.arguments()?;
        self.names.function(name, offset);
        if name == "has" {
            return match (arguments.pop(), arguments.is_empty()) {
                (Some(Part { node: node @ Node::Member(..), depth, .. }), true) => {
                    self.names.guard(&node);
                    let Node::Member(of, member) = node else { return Err(not_ours(offset, "has() of this")) };
                    self.names.guard(&of);
                    Ok(Part { node: Node::Has(of, member), depth, offset })
                }
                _ => Err(CompileError::new(offset, "has() takes one member, as in has(m.k)")),
            };
        }
        let function = function::find(name, Style::Function, arguments.len())
            .map_err(|message| CompileError::new(offset, message))?;
        if name == "coalesce" {
            arguments.iter().for_each(|part| self.names.guard(&part.node));
        }
        let depth = arguments.iter().map(|part| part.depth).max().unwrap_or(0);
        let nodes = arguments.into_iter().map(|part| part.node).collect();
        above(depth, offset, offset, Node::Call(function, nodes))
    }

    fn list(&mut self) -> Parsed {
        let offset = self.next().offset;
        let (mut nodes, mut depth) = (Vec::new(), 0);
        while !self.eat("]") {
            if self.is("?") {
                return Err(not_ours(self.offset(), "optional elements"));
            }
            let part = self.nested(Self::conditional)?;
            depth = depth.max(part.depth);
            nodes.push(part.node);
            if !self.eat(",") && !self.is("]") {
                return Err(self.unexpected("`,` or `]`"));
            }
        }
        above(depth, offset, offset, Node::List(nodes))
    }

    fn map(&mut self) -> Parsed {
        let offset = self.next().offset;
        let (mut entries, mut depth) = (Vec::new(), 0);
        while !self.eat("}") {
            if self.is("?") {
                return Err(not_ours(self.offset(), "optional entries"));
            }
            let key = self.nested(Self::conditional)?;
            self.expect(":")?;
            let value = self.nested(Self::conditional)?;
            depth = depth.max(key.depth).max(value.depth);
            entries.push([key.node, value.node]);
            if !self.eat(",") && !self.is("}") {
                return Err(self.unexpected("`,` or `}`"));
            }
        }
        above(depth, offset, offset, Node::Map(entries))
    }
}

/// A node above parts of this depth.
fn above(depth: usize, offset: usize, start: usize, node: Node) -> Parsed {
    if depth >= DEPTH_MAX { Err(too_deep(offset)) } else { Ok(Part { node, depth: depth + 1, offset: start }) }
}

/// Comparisons, sums, products.
const LEVELS: usize = 3;

fn operator(kind: &Kind<'_>, level: usize) -> Option<Operator> {
    let (own, operator) = match kind {
        Kind::Symbol("==") => (0, Operator::Equal),
        Kind::Symbol("!=") => (0, Operator::NotEqual),
        Kind::Symbol("<") => (0, Operator::Less),
        Kind::Symbol("<=") => (0, Operator::LessOrEqual),
        Kind::Symbol(">") => (0, Operator::Greater),
        Kind::Symbol(">=") => (0, Operator::GreaterOrEqual),
        Kind::Name("in") => (0, Operator::In),
        Kind::Symbol("+") => (1, Operator::Add),
        Kind::Symbol("-") => (1, Operator::Subtract),
        Kind::Symbol("*") => (2, Operator::Multiply),
        Kind::Symbol("/") => (2, Operator::Divide),
        Kind::Symbol("%") => (2, Operator::Remainder),
        _ => return None,
    };
    (own == level).then_some(operator)
}

fn too_deep(offset: usize) -> CompileError {
    CompileError::new(offset, format!("nested more than {DEPTH_MAX} levels deep"))
}

fn beyond(offset: usize) -> CompileError {
    CompileError::new(offset, "an integer beyond 64 bits: write it as a double, as in 1e20")
}

fn reserved(offset: usize, word: &str) -> CompileError {
    CompileError::new(offset, format!("`{word}` is reserved by CEL and can be no name"))
}

fn not_ours(offset: usize, what: &str) -> CompileError {
    CompileError::new(offset, format!("{what} are not part of this language"))
}

fn steps_alone(offset: usize) -> CompileError {
    CompileError::new(offset, "`steps` is no value by itself: name a step, as in steps.<id>")
}
