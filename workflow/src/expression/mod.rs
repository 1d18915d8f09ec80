//! The expressions and templates of a document: CEL, made total and pure (language L2).
//!
//! [`Expression`] is one bare CEL text: compiled once, evaluated against a [`Scope`]. [`Template`] is a JSON value
//! whose texts may hold `${…}`. A scope hands out [`Operand`]s: values, or [`View`]s that make their members only
//! when asked, so that reading `steps.a.status` does not build the state of a whole execution.
//!
//! What holds:
//!
//! - evaluating is a function of expression and scope alone: no clock, no randomness, no I/O, maps in key order;
//! - it ends after at most [`STEPS_MAX`] steps, and builds no value over [`BYTES_MAX`];
//! - no text, however hostile, overflows the stack or panics;
//! - what leaves an expression is finite, normalised (a whole double within i64 is an integer) and can be stored.
//!
//! ```text
//! text ─ lexer ─▶ Token ─ parser (Names) ─▶ Node ─ evaluate (Scope, Meter) ─▶ Operand ─ leave ─▶ Value
//! ```

use std::fmt;
use std::sync::Arc;

use crate::value::Value;

mod evaluate;
mod function;
mod leave;
mod lexer;
mod literal;
mod meter;
mod names;
mod node;
mod operator;
mod parser;
mod references;
mod scope;
mod template;
pub mod text;

pub use meter::{BYTES_MAX, STEPS_MAX};
pub use names::is_reserved;
pub use parser::{DEPTH_MAX, LOOPS_MAX, NESTING_MAX, TEXT_BYTES_MAX};
pub use references::References;
pub use scope::{Operand, Scope, View};
pub(crate) use template::is_spliced;
pub use template::{Template, TemplateFault};

use evaluate::Evaluator;
use node::Program;

/// An expression cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CompileError {
    /// What is wrong: one sentence without its place.
    pub message: String,
    /// Where: characters (Unicode scalar values) before it in the text.
    pub offset: usize,
}

impl CompileError {
    pub(crate) fn new(offset: usize, message: impl Into<String>) -> Self {
        CompileError { message: message.into(), offset }
    }
}

/// An expression could not be evaluated: `EXPRESSION_ERROR` of the language.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct EvalError {
    /// What is wrong: one sentence.
    pub message: String,
}

impl EvalError {
    /// An error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        EvalError { message: message.into() }
    }
}

/// Compiled bare CEL. Cheap to clone; two are equal when their texts are.
#[derive(Clone)]
pub struct Expression(Arc<Compiled>);

struct Compiled {
    text: String,
    program: Program,
    references: References,
}

impl Expression {
    /// Compiles a text.
    ///
    /// # Errors
    ///
    /// It is no CEL, uses what this language does not have (unknown functions, bytes, structs…), uses `steps` other
    /// than as `steps.<id>`, or is over the bounds: [`TEXT_BYTES_MAX`],
    /// [`NESTING_MAX`], [`LOOPS_MAX`], [`DEPTH_MAX`].
    pub fn compile(text: &str) -> Result<Self, CompileError> {
        let (program, references) = parser::parse(text)?;
        Ok(Expression(Arc::new(Compiled { text: text.to_owned(), program, references })))
    }

    /// The text it was compiled from.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// What it mentions.
    pub fn references(&self) -> &References {
        &self.0.references
    }

    /// The value of the expression, normalised.
    ///
    /// # Errors
    ///
    /// Whatever the language calls an error: wrong types, null where an operator needs a value, division by zero,
    /// too many steps, too big a value.
    pub fn evaluate(&self, scope: &dyn Scope) -> Result<Value, EvalError> {
        self.run(scope, evaluate::result)
    }

    /// The value of an expression that is a condition.
    ///
    /// # Errors
    ///
    /// As [`Expression::evaluate`], and for every value that is no boolean, null included.
    pub fn condition(&self, scope: &dyn Scope) -> Result<bool, EvalError> {
        self.run(scope, |evaluator, root| evaluator.condition(root))
    }

    fn run<T>(
        &self,
        scope: &dyn Scope,
        with: impl FnOnce(&mut Evaluator<'_, '_>, &node::Node) -> Result<T, EvalError>,
    ) -> Result<T, EvalError> {
        let program = &self.0.program;
        with(&mut Evaluator::new(program, scope), &program.root)
            .map_err(|error| EvalError::new(format!("{} in `{}`", error.message, excerpt(&self.0.text))))
    }
}

/// So much of a text as fits into a message.
fn excerpt(text: &str) -> String {
    const CHARACTERS_MAX: usize = 120;
    match text.char_indices().nth(CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Expression {}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Expression").field(&self.0.text).finish()
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

#[cfg(test)]
mod tests;
