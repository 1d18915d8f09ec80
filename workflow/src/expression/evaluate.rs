//! Walks a compiled expression: one step for each node visited.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use regex::Regex;

use super::EvalError;
use super::function::{Call, pattern};
use super::leave;
use super::meter::Meter;
use super::node::{Loop, LoopKind, Node, Operator, Pattern, Program};
use super::operator::{add, arithmetic, compare, equal, negate};
use super::scope::{Operand, Scope};
use crate::value::Value;

/// One evaluation.
pub(super) struct Evaluator<'e, 's> {
    program: &'e Program,
    scope: &'s dyn Scope,
    /// Free names that have been read, so that a loop does not ask the scope again and again.
    variables: Vec<Option<Operand<'s>>>,
    /// Loop variables, outermost first.
    locals: Vec<Operand<'s>>,
    /// Patterns that were no literals; their compilation is paid for once.
    patterns: BTreeMap<Arc<str>, Regex>,
    meter: Meter,
}

type Evaluated<'s> = Result<Operand<'s>, EvalError>;

impl<'e, 's> Evaluator<'e, 's> {
    pub(super) fn new(program: &'e Program, scope: &'s dyn Scope) -> Self {
        let variables = vec![None; program.variables.len()];
        Evaluator { program, scope, variables, locals: Vec::new(), patterns: BTreeMap::new(), meter: Meter::new() }
    }

    pub(super) fn evaluate(&mut self, node: &Node) -> Evaluated<'s> {
        self.meter.step()?;
        match node {
            Node::Literal(value) => Ok(Operand::Value(value.clone())),
            Node::Variable(place) => self.variable(*place),
            // A loop binds its variable in the place that the parser has counted.
            Node::Local(slot) => Ok(self.locals.get(*slot).cloned().unwrap_or_else(Operand::null)),
            Node::Member(of, name) => self.member(of, name),
            Node::Has(of, name) => self.has(of, name),
            Node::Index(sides) => self.index(&sides[0], &sides[1]),
            Node::Not(of) => Ok(truth(!self.condition(of)?)),
            Node::Negate(of) => Ok(Operand::Value(negate(&self.value(of)?)?)),
            Node::Logic { decides, sides } => self.logic(*decides, sides),
            Node::Conditional(parts) => self.conditional(parts),
            Node::Binary(operator, sides) => self.binary(*operator, &sides[0], &sides[1]),
            Node::List(nodes) => self.list(nodes),
            Node::Map(entries) => self.map(entries),
            Node::Call(function, arguments) => self.call(&function.call, arguments),
            Node::Matches { text, pattern } => self.matches(text, pattern),
            Node::Loop(loop_) => self.run_loop(loop_),
        }
    }

    /// The value of a condition: a boolean and nothing else.
    pub(super) fn condition(&mut self, node: &Node) -> Result<bool, EvalError> {
        match self.evaluate(node)? {
            Operand::Value(Value::Bool(value)) => Ok(value),
            other => Err(EvalError::new(format!("a condition must be true or false, not {}", other.kind()))),
        }
    }

    /// The value of a node that an operator or function needs whole.
    fn value(&mut self, node: &Node) -> Result<Value, EvalError> {
        let operand = self.evaluate(node)?;
        self.whole_value(operand)
    }

    fn whole_value(&mut self, operand: Operand<'s>) -> Result<Value, EvalError> {
        let was_value = matches!(operand, Operand::Value(_));
        let value = operand.into_value(&mut self.meter)?;
        if !was_value {
            // Making a value of views has cost about as much as it is wide.
            self.meter.elements(width(&value, 3))?;
        }
        Ok(value)
    }

    fn variable(&mut self, place: usize) -> Evaluated<'s> {
        if let Some(Some(operand)) = self.variables.get(place) {
            return Ok(operand.clone());
        }
        // The parser has given every variable its place.
        let name = self.program.variables.get(place).map_or("", |name| name);
        let operand = self.scope.variable(name).ok_or_else(|| EvalError::new(format!("unknown name `{name}`")))?;
        if let Some(known) = self.variables.get_mut(place) {
            *known = Some(operand.clone());
        }
        Ok(operand)
    }

    fn has(&mut self, of: &Node, name: &str) -> Evaluated<'s> {
        Ok(truth(match self.evaluate(of)? {
            Operand::View(view) => view.has(name),
            Operand::Value(value) => value.get(name).is_some(),
            Operand::List(_) => false,
        }))
    }

    fn member(&mut self, of: &Node, name: &str) -> Evaluated<'s> {
        let of = self.evaluate(of)?;
        self.member_of(&of, name)
    }

    fn member_of(&mut self, of: &Operand<'s>, name: &str) -> Evaluated<'s> {
        match of {
            Operand::View(view) => {
                let member = view.member(name)?;
                match &member {
                    Operand::List(elements) => self.meter.elements(elements.len())?,
                    // A view may have made it for this very question, as the outputs of a fan-out.
                    Operand::Value(Value::List(values)) => self.meter.elements(values.len())?,
                    Operand::Value(_) | Operand::View(_) => {}
                }
                Ok(member)
            }
            Operand::Value(Value::Map(entries)) => Ok(Operand::Value(entries.get(name).cloned().unwrap_or_default())),
            Operand::Value(Value::Null) => Ok(Operand::null()),
            other => Err(EvalError::new(format!("no member `{name}` on a {}", other.kind()))),
        }
    }

    /// Indexes of lists from 0, keys of maps; what is not there reads null.
    fn index(&mut self, of: &Node, index: &Node) -> Evaluated<'s> {
        let of = self.evaluate(of)?;
        let index = self.value(index)?;
        let place = |index: &Value| match index {
            Value::Int(integer) => Ok(usize::try_from(*integer).ok()),
            // A whole one beyond i64 is beyond every list.
            Value::Double(double) if double.is_finite() && double.fract() == 0.0 => {
                Ok(index.as_i64().and_then(|index| usize::try_from(index).ok()))
            }
            other => Err(EvalError::new(format!("the index of a list is an integer, not {}", described(other)))),
        };
        match &of {
            Operand::List(elements) => {
                Ok(place(&index)?.and_then(|place| elements.get(place)).cloned().unwrap_or_else(Operand::null))
            }
            Operand::Value(Value::List(values)) => {
                Ok(Operand::Value(place(&index)?.and_then(|place| values.get(place)).cloned().unwrap_or_default()))
            }
            Operand::Value(Value::Map(_) | Value::Null) | Operand::View(_) => match &index {
                Value::String(name) => self.member_of(&of, name),
                _ => Ok(Operand::null()),
            },
            other => Err(EvalError::new(format!("no index on a {}", other.kind()))),
        }
    }

    fn conditional(&mut self, parts: &[Node; 3]) -> Evaluated<'s> {
        let side = if self.condition(&parts[0])? { &parts[1] } else { &parts[2] };
        self.evaluate(side)
    }

    fn call(&mut self, call: &Call, arguments: &[Node]) -> Evaluated<'s> {
        match call {
            Call::Operands(call) => {
                let arguments = arguments.iter().map(|node| self.evaluate(node)).collect::<Result<Vec<_>, _>>()?;
                call(arguments, &mut self.meter)
            }
            Call::Values(call) => {
                let arguments = arguments.iter().map(|node| self.value(node)).collect::<Result<Vec<_>, _>>()?;
                call(&arguments, &mut self.meter).map(Operand::Value)
            }
        }
    }

    fn list(&mut self, nodes: &[Node]) -> Evaluated<'s> {
        self.meter.list_of(nodes.len())?;
        Ok(Operand::list(nodes.iter().map(|node| self.evaluate(node)).collect::<Result<_, _>>()?))
    }

    fn map(&mut self, entries: &[[Node; 2]]) -> Evaluated<'s> {
        self.meter.list_of(entries.len())?;
        let mut map = BTreeMap::new();
        for [key, value] in entries {
            let Value::String(key) = self.value(key)? else {
                return Err(EvalError::new("the key of a map is a string"));
            };
            let value = self.value(value)?;
            map.insert(key, value);
        }
        Ok(Operand::value(map))
    }

    /// `&&` and `||`: the side that decides wins, also over an error on another side.
    fn logic(&mut self, decides: bool, sides: &[Node]) -> Evaluated<'s> {
        // A chain of n sides is n - 1 operators, of which one has been paid for.
        self.meter.steps(sides.len().saturating_sub(2) as u64)?;
        let mut fold = Fold::new(decides);
        for side in sides {
            let result = self.condition(side);
            if fold.take(result, &self.meter)? {
                return Ok(truth(decides));
            }
        }
        fold.finish()
    }

    fn binary(&mut self, operator: Operator, a: &Node, b: &Node) -> Evaluated<'s> {
        let (a, b) = (self.value(a)?, self.value(b)?);
        let meter = &mut self.meter;
        Ok(match operator {
            Operator::Equal => truth(equal(&a, &b, meter)?),
            Operator::NotEqual => truth(!equal(&a, &b, meter)?),
            Operator::In => truth(contains(&a, &b, meter)?),
            Operator::Less | Operator::LessOrEqual | Operator::Greater | Operator::GreaterOrEqual => {
                truth(compare(operator, &a, &b, meter)?)
            }
            Operator::Add => Operand::Value(add(&a, &b, meter)?),
            Operator::Subtract | Operator::Multiply | Operator::Divide | Operator::Remainder => {
                Operand::Value(arithmetic(operator, &a, &b)?)
            }
        })
    }

    fn matches(&mut self, text: &Node, pattern: &Pattern) -> Evaluated<'s> {
        let text = self.value(text)?;
        let Value::String(text) = &text else {
            return Err(EvalError::new(format!("matches() is no method of a {}", text.kind())));
        };
        self.meter.bytes(text.len().saturating_mul(pattern::COST_PER_BYTE))?;
        match pattern {
            Pattern::Fixed(regex) => Ok(truth(regex.is_match(text))),
            Pattern::Computed(node) => {
                let Value::String(source) = self.value(node)? else {
                    return Err(EvalError::new("the pattern of matches() is a string"));
                };
                if let Some(regex) = self.patterns.get(&source) {
                    return Ok(truth(regex.is_match(text)));
                }
                self.meter.steps(pattern::COST_TO_COMPILE)?;
                let regex = pattern::compile(&source)?;
                let matched = regex.is_match(text);
                self.patterns.insert(source, regex);
                Ok(truth(matched))
            }
        }
    }

    fn run_loop(&mut self, loop_: &Loop) -> Evaluated<'s> {
        let over = self.evaluate(&loop_.over)?;
        let over = match over {
            Operand::List(_) | Operand::Value(_) => over,
            Operand::View(_) => Operand::Value(self.whole_value(over)?),
        };
        if let Operand::Value(Value::Map(entries)) = &over {
            // Its keys are made a list first.
            self.meter.elements(entries.len())?;
        }
        let items = Items::of(&over)?;
        match loop_.kind {
            LoopKind::Map => {
                let mut results = Vec::new();
                match &loop_.filter {
                    None => items.each(|item| self.bound(item, &loop_.body).map(|result| results.push(result)))?,
                    Some(filter) => items.each(|item| {
                        if self.bound_condition(item.clone(), filter)? {
                            results.push(self.bound(item, &loop_.body)?);
                        }
                        Ok(())
                    })?,
                }
                self.collected(results)
            }
            LoopKind::Filter => {
                let mut results = Vec::new();
                items.each(|item| {
                    if self.bound_condition(item.clone(), &loop_.body)? {
                        results.push(item);
                    }
                    Ok(())
                })?;
                self.collected(results)
            }
            LoopKind::ExistsOne => {
                let mut count = 0;
                items.each(|item| {
                    count += usize::from(self.bound_condition(item, &loop_.body)?);
                    Ok(())
                })?;
                Ok(truth(count == 1))
            }
            // `exists` is a chain of `||`, `all` one of `&&`.
            LoopKind::Exists | LoopKind::All => {
                let decides = loop_.kind == LoopKind::Exists;
                let mut fold = Fold::new(decides);
                for place in 0..items.len() {
                    let result = self.bound_condition(items.get(place), &loop_.body);
                    if fold.take(result, &self.meter)? {
                        return Ok(truth(decides));
                    }
                }
                fold.finish()
            }
        }
    }

    fn collected(&mut self, results: Vec<Operand<'s>>) -> Evaluated<'s> {
        self.meter.list_of(results.len())?;
        Ok(Operand::list(results))
    }

    fn bound(&mut self, item: Operand<'s>, body: &Node) -> Evaluated<'s> {
        self.locals.push(item);
        let result = self.evaluate(body);
        self.locals.pop();
        result
    }

    fn bound_condition(&mut self, item: Operand<'s>, body: &Node) -> Result<bool, EvalError> {
        self.locals.push(item);
        let result = self.condition(body);
        self.locals.pop();
        result
    }
}

/// What a loop runs over: the elements of a list, the keys of a map.
enum Items<'s> {
    Operands(Rc<Vec<Operand<'s>>>),
    Values(Arc<Vec<Value>>),
    Keys(Vec<Arc<str>>),
}

impl<'s> Items<'s> {
    fn of(over: &Operand<'s>) -> Result<Self, EvalError> {
        match over {
            Operand::List(elements) => Ok(Items::Operands(Rc::clone(elements))),
            Operand::Value(Value::List(values)) => Ok(Items::Values(Arc::clone(values))),
            Operand::Value(Value::Map(entries)) => Ok(Items::Keys(entries.keys().cloned().collect())),
            other => Err(EvalError::new(format!("a macro runs over a list or a map, not {}", other.kind()))),
        }
    }

    fn len(&self) -> usize {
        match self {
            Items::Operands(elements) => elements.len(),
            Items::Values(values) => values.len(),
            Items::Keys(keys) => keys.len(),
        }
    }

    fn get(&self, place: usize) -> Operand<'s> {
        let item = match self {
            Items::Operands(elements) => elements.get(place).cloned(),
            Items::Values(values) => values.get(place).cloned().map(Operand::Value),
            Items::Keys(keys) => keys.get(place).cloned().map(Operand::value),
        };
        item.unwrap_or_else(Operand::null)
    }

    fn each(&self, mut with: impl FnMut(Operand<'s>) -> Result<(), EvalError>) -> Result<(), EvalError> {
        (0..self.len()).try_for_each(|place| with(self.get(place)))
    }
}

/// A chain of conditions: one that decides wins over errors, an error over those that do not decide.
struct Fold {
    decides: bool,
    error: Option<EvalError>,
}

impl Fold {
    fn new(decides: bool) -> Self {
        Fold { decides, error: None }
    }

    /// Whether this result decides. Running out of steps is an error that nothing wins over.
    fn take(&mut self, result: Result<bool, EvalError>, meter: &Meter) -> Result<bool, EvalError> {
        match result {
            Ok(value) => Ok(value == self.decides),
            Err(error) if meter.is_exhausted() => Err(error),
            Err(error) => {
                self.error.get_or_insert(error);
                Ok(false)
            }
        }
    }

    fn finish<'s>(self) -> Evaluated<'s> {
        self.error.map_or(Ok(truth(!self.decides)), Err)
    }
}

fn truth<'s>(value: bool) -> Operand<'s> {
    Operand::Value(Value::Bool(value))
}

/// `a in b`: an element of a list, a key of a map; nothing is in null.
fn contains(a: &Value, b: &Value, meter: &mut Meter) -> Result<bool, EvalError> {
    match b {
        Value::List(values) => {
            for value in values.iter() {
                if equal(a, value, meter)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Value::Map(entries) => Ok(a.as_str().is_some_and(|key| entries.contains_key(key))),
        Value::Null => Ok(false),
        other => Err(EvalError::new(format!("`in` needs a list or a map on its right, not {}", other.kind()))),
    }
}

fn described(value: &Value) -> String {
    match value {
        Value::Double(double) => format!("{double}"),
        other => other.kind().to_owned(),
    }
}

/// How many elements lie in the outer levels of a value.
fn width(value: &Value, levels: usize) -> usize {
    match value {
        _ if levels == 0 => 1,
        Value::List(values) => values.iter().map(|value| width(value, levels - 1)).sum::<usize>() + 1,
        Value::Map(entries) => entries.values().map(|value| width(value, levels - 1)).sum::<usize>() + 1,
        _ => 1,
    }
}

/// What leaves an evaluation.
pub(super) fn result(evaluator: &mut Evaluator<'_, '_>, node: &Node) -> Result<Value, EvalError> {
    let operand = evaluator.evaluate(node)?;
    leave::leave(&operand.into_value(&mut evaluator.meter)?)
}
