//! JSON values whose texts may hold expressions.
//!
//! A text that is exactly one `${…}` yields the typed value; in any other text each `${…}` is spliced in: strings
//! raw, null empty, all else as compact JSON. `$${` is a literal `${`. Braces and quotes inside are matched, not
//! searched, so `${'}'}` and `${{'k': 1}}` are one expression each.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::leave::leave;
use super::meter::{BYTES_MAX, too_big};
use super::{CompileError, EvalError, Expression, Scope, literal};
use crate::value::Value;

/// A compiled template. Cheap to clone; two are equal when they were compiled from equal values.
#[derive(Clone, Debug)]
pub struct Template(Arc<Compiled>);

#[derive(Debug)]
struct Compiled {
    source: serde_json::Value,
    part: Part,
    /// The expressions, in document order.
    expressions: Vec<Placed>,
    constant: Option<Value>,
}

/// An expression and where it stands.
#[derive(Debug)]
struct Placed {
    /// The text that holds it.
    pointer: String,
    /// Characters before it in the text.
    offset: usize,
    expression: Expression,
}

/// A text of a template cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TemplateFault {
    /// The JSON pointer of the text inside the value; empty for the value itself.
    pub pointer: String,
    /// What is wrong: one sentence without its place.
    pub message: String,
    /// Where: characters before it in the text.
    pub offset: usize,
}

#[derive(Debug)]
enum Part {
    /// Nothing in it is evaluated.
    Constant(Value),
    /// A text that is exactly one `${…}`.
    Typed(Expression),
    Spliced(Vec<Piece>),
    List(Vec<Part>),
    Map(Vec<(Arc<str>, Part)>),
}

#[derive(Debug)]
enum Piece {
    Text(String),
    Expression(Expression),
}

impl Template {
    /// Compiles a value.
    ///
    /// # Errors
    ///
    /// All faults at once: expressions that cannot be compiled, `${` without its `}`.
    pub fn compile(value: &serde_json::Value) -> Result<Self, Vec<TemplateFault>> {
        let mut compiler = Compiler::default();
        let part = compiler.part(value);
        if !compiler.faults.is_empty() {
            return Err(compiler.faults);
        }
        let constant = match &part {
            Part::Constant(value) => Some(value.clone()),
            _ => None,
        };
        let expressions = compiler.expressions;
        Ok(Template(Arc::new(Compiled { source: value.clone(), part, expressions, constant })))
    }

    /// Compiles a single text.
    ///
    /// # Errors
    ///
    /// As [`Template::compile`].
    pub fn text(text: &str) -> Result<Self, Vec<TemplateFault>> {
        Template::compile(&serde_json::Value::from(text))
    }

    /// The value of a template without expressions.
    pub fn constant(&self) -> Option<&Value> {
        self.0.constant.as_ref()
    }

    /// The expressions, each with the JSON pointer of the text that holds it.
    pub fn expressions(&self) -> impl Iterator<Item = (&str, &Expression)> {
        self.0.expressions.iter().map(|placed| (placed.pointer.as_str(), &placed.expression))
    }

    /// The expressions, each with the characters that stand before it in its text.
    pub(crate) fn offsets(&self) -> impl Iterator<Item = (usize, &Expression)> {
        self.0.expressions.iter().map(|placed| (placed.offset, &placed.expression))
    }

    /// The value with every expression evaluated, normalised. Each expression has a budget of its own.
    ///
    /// # Errors
    ///
    /// The first error of an expression, or a result over the bounds of a value.
    pub fn evaluate(&self, scope: &dyn Scope) -> Result<Value, EvalError> {
        match &self.0.part {
            Part::Constant(value) => Ok(value.clone()),
            Part::Typed(expression) => expression.evaluate(scope),
            part => leave(&part.evaluate(scope)?),
        }
    }

    /// What it was compiled from.
    pub fn source(&self) -> serde_json::Value {
        self.0.source.clone()
    }
}

impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        self.0.source == other.0.source
    }
}

impl Part {
    fn evaluate(&self, scope: &dyn Scope) -> Result<Value, EvalError> {
        match self {
            Part::Constant(value) => Ok(value.clone()),
            Part::Typed(expression) => expression.evaluate(scope),
            Part::Spliced(pieces) => spliced(pieces, scope),
            Part::List(parts) => {
                Ok(Value::from(parts.iter().map(|part| part.evaluate(scope)).collect::<Result<Vec<_>, _>>()?))
            }
            Part::Map(parts) => {
                let entries = parts.iter().map(|(key, part)| Ok((Arc::clone(key), part.evaluate(scope)?)));
                Ok(Value::from(entries.collect::<Result<BTreeMap<_, _>, _>>()?))
            }
        }
    }
}

fn spliced(pieces: &[Piece], scope: &dyn Scope) -> Result<Value, EvalError> {
    let mut text = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(literal) => text.push_str(literal),
            Piece::Expression(expression) => match expression.evaluate(scope)? {
                Value::Null => {}
                Value::String(string) => text.push_str(&string),
                other => text.push_str(&other.to_json()),
            },
        }
        if text.len() > BYTES_MAX {
            return Err(too_big());
        }
    }
    Ok(Value::from(text))
}

#[derive(Default)]
struct Compiler {
    pointer: String,
    expressions: Vec<Placed>,
    faults: Vec<TemplateFault>,
}

impl Compiler {
    fn part(&mut self, value: &serde_json::Value) -> Part {
        match value {
            serde_json::Value::String(text) => self.text(text),
            serde_json::Value::Array(values) => {
                let parts = values.iter().enumerate().map(|(place, value)| self.inside(&place.to_string(), value));
                let parts = parts.collect::<Vec<_>>();
                match parts.iter().map(Part::constant).collect::<Option<Vec<_>>>() {
                    Some(values) => Part::Constant(Value::from(values)),
                    None => Part::List(parts),
                }
            }
            serde_json::Value::Object(entries) => {
                let parts = entries.iter().map(|(key, value)| {
                    let escaped = key.replace('~', "~0").replace('/', "~1");
                    (Arc::from(key.as_str()), self.inside(&escaped, value))
                });
                let parts = parts.collect::<Vec<(Arc<str>, _)>>();
                let constants = parts.iter().map(|(key, part)| Some((Arc::clone(key), part.constant()?)));
                match constants.collect::<Option<BTreeMap<_, _>>>() {
                    Some(entries) => Part::Constant(Value::from(entries)),
                    None => Part::Map(parts),
                }
            }
            // As it would leave an expression: `2.0` is 2.
            other => Part::Constant(normalised(other.into())),
        }
    }

    fn inside(&mut self, step: &str, value: &serde_json::Value) -> Part {
        let length = self.pointer.len();
        self.pointer.push('/');
        self.pointer.push_str(step);
        let part = self.part(value);
        self.pointer.truncate(length);
        part
    }

    fn text(&mut self, text: &str) -> Part {
        let pieces = match pieces(text) {
            Ok(pieces) => pieces,
            Err(fault) => {
                self.fault(0, fault);
                return Part::Constant(Value::Null);
            }
        };
        let compiled = pieces
            .into_iter()
            .filter_map(|piece| match piece {
                RawPiece::Text(text) => Some(Piece::Text(text)),
                RawPiece::Expression { source, offset } => match Expression::compile(source) {
                    Ok(expression) => {
                        let (pointer, placed) = (self.pointer.clone(), expression.clone());
                        self.expressions.push(Placed { pointer, offset, expression: placed });
                        Some(Piece::Expression(expression))
                    }
                    Err(fault) => {
                        self.fault(offset, fault);
                        None
                    }
                },
            })
            .collect::<Vec<_>>();
        match compiled.as_slice() {
            [] => Part::Constant(Value::from("")),
            [Piece::Text(text)] => Part::Constant(Value::from(text.as_str())),
            [Piece::Expression(expression)] => Part::Typed(expression.clone()),
            _ => Part::Spliced(compiled),
        }
    }

    fn fault(&mut self, before: usize, fault: CompileError) {
        let CompileError { message, offset } = fault;
        self.faults.push(TemplateFault { pointer: self.pointer.clone(), message, offset: before + offset });
    }
}

impl Part {
    fn constant(&self) -> Option<Value> {
        match self {
            Part::Constant(value) => Some(value.clone()),
            _ => None,
        }
    }
}

fn normalised(value: Value) -> Value {
    value.as_i64().map_or(value, Value::Int)
}

/// Whether anything in a text is evaluated: `$${` is not.
pub(crate) fn is_spliced(text: &str) -> bool {
    let mut rest = text;
    while let Some(dollar) = rest.find('$') {
        rest = &rest[dollar..];
        match rest.strip_prefix("$${") {
            Some(after) => rest = after,
            None if rest.starts_with("${") => return true,
            None => rest = &rest[1..],
        }
    }
    false
}

enum RawPiece<'t> {
    Text(String),
    /// The source between the braces, and the characters before it in the text.
    Expression {
        source: &'t str,
        offset: usize,
    },
}

/// A text cut into literal pieces and expressions.
fn pieces(text: &str) -> Result<Vec<RawPiece<'_>>, CompileError> {
    let (mut pieces, mut literal_text, mut rest) = (Vec::new(), String::new(), text);
    // Characters are counted on from the last expression, not from the beginning each time.
    let (mut counted_bytes, mut counted) = (0, 0);
    while let Some(dollar) = rest.find('$') {
        literal_text.push_str(&rest[..dollar]);
        rest = &rest[dollar..];
        if let Some(after) = rest.strip_prefix("$${") {
            literal_text.push_str("${");
            rest = after;
        } else if let Some(inner) = rest.strip_prefix("${") {
            let here = text.len() - inner.len();
            counted += text[counted_bytes..here].chars().count();
            counted_bytes = here;
            let offset = counted;
            let Some(length) = matched(inner) else {
                return Err(CompileError::new(offset - 2, "`${` without its `}`"));
            };
            if !literal_text.is_empty() {
                pieces.push(RawPiece::Text(std::mem::take(&mut literal_text)));
            }
            pieces.push(RawPiece::Expression { source: &inner[..length], offset });
            rest = &inner[length + 1..];
        } else {
            literal_text.push('$');
            rest = &rest[1..];
        }
    }
    literal_text.push_str(rest);
    if !literal_text.is_empty() {
        pieces.push(RawPiece::Text(literal_text));
    }
    Ok(pieces)
}

/// How long the expression is that begins here and ends before the `}` that belongs to it.
fn matched(text: &str) -> Option<usize> {
    let (mut at, mut depth) = (0, 0_usize);
    let mut in_name = false;
    loop {
        let rest = &text[at..];
        let next = rest.chars().next()?;
        // The r of `r'\'` belongs to the string; that of `year'` would not be one.
        let prefix = if in_name { literal::prefix(rest).filter(|length| *length == 0) } else { literal::prefix(rest) };
        if let Some(prefix) = prefix {
            at += literal::quoted_length(rest, prefix)?;
            in_name = false;
            continue;
        }
        match next {
            '{' => depth += 1,
            '}' if depth == 0 => return Some(at),
            '}' => depth -= 1,
            _ => {}
        }
        in_name = next.is_ascii_alphanumeric() || next == '_';
        at += next.len_utf8();
    }
}
