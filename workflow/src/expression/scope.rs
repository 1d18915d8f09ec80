//! What an expression reads from: variables, and views of state that is not worth turning into values first.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use super::EvalError;
use super::meter::Meter;
use crate::value::Value;

/// The variables of one evaluation. Each is asked for at most once.
pub trait Scope {
    /// The variable of this name, `steps` included; none makes the evaluation fail with "unknown name".
    fn variable(&self, name: &str) -> Option<Operand<'_>>;
}

impl Scope for BTreeMap<String, Value> {
    fn variable(&self, name: &str) -> Option<Operand<'_>> {
        self.get(name).map(|value| Operand::Value(value.clone()))
    }
}

/// Something that looks like a map but makes its members when asked, borrowing from state that lives for `'a`.
///
/// Implemented for a struct that holds `&'a State`: its members are then values, or further views that hold the same
/// reference.
pub trait View<'a> {
    /// The member of this name; `Operand::null()` when there is none.
    ///
    /// # Errors
    ///
    /// The member exists and cannot be read.
    fn member(&self, name: &str) -> Result<Operand<'a>, EvalError>;

    /// Whether there is a member of this name, its value null or not.
    fn has(&self, name: &str) -> bool;

    /// The whole as a value, when it is compared, stored or given to a function.
    ///
    /// # Errors
    ///
    /// It is no value, as `steps` itself.
    fn to_value(&self) -> Result<Value, EvalError>;
}

/// What a part of an expression evaluates to.
#[derive(Clone)]
pub enum Operand<'a> {
    /// A value.
    Value(Value),
    /// A list of which at least one element is a view.
    List(Rc<Vec<Operand<'a>>>),
    /// A view.
    View(Rc<dyn View<'a> + 'a>),
}

impl<'a> Operand<'a> {
    /// Null.
    pub fn null() -> Self {
        Operand::Value(Value::Null)
    }

    /// A value.
    pub fn value(value: impl Into<Value>) -> Self {
        Operand::Value(value.into())
    }

    /// A view.
    pub fn view(view: impl View<'a> + 'a) -> Self {
        Operand::View(Rc::new(view))
    }

    /// A list of operands; of values alone it is a value.
    pub fn list(elements: Vec<Operand<'a>>) -> Self {
        if elements.iter().any(|element| !matches!(element, Operand::Value(_))) {
            return Operand::List(Rc::new(elements));
        }
        let values = elements.into_iter().filter_map(|element| match element {
            Operand::Value(value) => Some(value),
            Operand::List(_) | Operand::View(_) => None,
        });
        Operand::Value(Value::list(values))
    }

    /// The value it stands for; views are read whole.
    ///
    /// # Errors
    ///
    /// A view in it is no value.
    pub fn to_value(&self) -> Result<Value, EvalError> {
        match self {
            Operand::Value(value) => Ok(value.clone()),
            Operand::List(elements) => {
                Ok(Value::from(elements.iter().map(Operand::to_value).collect::<Result<Vec<_>, _>>()?))
            }
            Operand::View(view) => view.to_value(),
        }
    }

    /// As [`Operand::to_value`], without a copy where it is a value already. Parts that a list shares are made anew
    /// for each place, so each is paid for before it is made.
    pub(super) fn into_value(self, meter: &mut Meter) -> Result<Value, EvalError> {
        match self {
            Operand::Value(value) => Ok(value),
            Operand::List(elements) => {
                meter.elements(elements.len())?;
                let values = elements.iter().map(|element| element.clone().into_value(meter));
                Ok(Value::from(values.collect::<Result<Vec<_>, _>>()?))
            }
            Operand::View(view) => {
                meter.step()?;
                view.to_value()
            }
        }
    }

    /// What it is, as messages name it.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Operand::Value(value) => value.kind(),
            Operand::List(_) => "list",
            Operand::View(_) => "map",
        }
    }
}

impl From<Value> for Operand<'_> {
    fn from(value: Value) -> Self {
        Operand::Value(value)
    }
}

impl fmt::Debug for Operand<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operand::Value(value) => value.fmt(f),
            Operand::List(elements) => f.debug_list().entries(elements.iter()).finish(),
            Operand::View(_) => f.write_str("view"),
        }
    }
}
