//! The functions and methods of the language: what each is called with, and what it does.

use super::EvalError;
use super::meter::Meter;
use super::node::LoopKind;
use super::scope::Operand;
use crate::value::Value;

mod convert;
mod list;
mod map;
pub(super) mod pattern;
mod string;

/// How a function is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// `name(a, b)`.
    Function,
    /// `a.name(b)`; the receiver is the first argument.
    Method,
}

/// A function of the language. A name that is both a function and a method stands twice.
#[derive(Debug)]
pub(super) struct Function {
    name: &'static str,
    style: Style,
    /// Fewest and most arguments, a receiver not counted.
    arity: (usize, usize),
    pub call: Call,
}

/// What a function does with its arguments.
pub(super) enum Call {
    /// It looks at views without making values of them.
    Operands(for<'a> fn(Vec<Operand<'a>>, &mut Meter) -> Result<Operand<'a>, EvalError>),
    Values(fn(&[Value], &mut Meter) -> Result<Value, EvalError>),
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Call::Operands(_) => "Operands",
            Call::Values(_) => "Values",
        })
    }
}

type Values = fn(&[Value], &mut Meter) -> Result<Value, EvalError>;

const fn function(name: &'static str, least: usize, most: usize, call: Values) -> Function {
    Function { name, style: Style::Function, arity: (least, most), call: Call::Values(call) }
}

const fn method(name: &'static str, arguments: usize, call: Values) -> Function {
    Function { name, style: Style::Method, arity: (arguments, arguments), call: Call::Values(call) }
}

const ANY: usize = usize::MAX;

static FUNCTIONS: [Function; 42] = [
    Function { name: "size", style: Style::Function, arity: (1, 1), call: Call::Operands(convert::size) },
    Function { name: "size", style: Style::Method, arity: (0, 0), call: Call::Operands(convert::size) },
    Function { name: "coalesce", style: Style::Function, arity: (0, ANY), call: Call::Operands(convert::coalesce) },
    function("string", 1, 1, convert::string),
    function("int", 1, 1, convert::int),
    function("double", 1, 1, convert::double),
    function("bool", 1, 1, convert::bool),
    function("range", 1, 1, list::range),
    function("merge", 0, ANY, map::merge),
    function("json", 1, 1, convert::json),
    function("toJson", 1, 1, convert::to_json),
    function("base64", 1, 1, string::base64),
    function("sha256", 1, 1, string::sha256),
    function("duration", 1, 1, string::duration),
    function("timestamp", 1, 1, string::timestamp),
    method("sum", 0, list::sum),
    method("min", 0, list::min),
    method("max", 0, list::max),
    method("flatten", 0, list::flatten),
    method("distinct", 0, list::distinct),
    method("chunk", 1, list::chunk),
    method("sort", 0, list::sort),
    method("slice", 2, list::slice),
    method("join", 1, list::join),
    method("indexOf", 1, list::index_of),
    method("keys", 0, map::keys),
    method("values", 0, map::values),
    method("entries", 0, map::entries),
    method("startsWith", 1, string::starts_with),
    method("endsWith", 1, string::ends_with),
    method("contains", 1, string::contains),
    // The evaluator does this one itself: it keeps the compiled patterns.
    method("matches", 1, string::contains),
    method("split", 1, string::split),
    method("lowerAscii", 0, string::lower_ascii),
    method("upperAscii", 0, string::upper_ascii),
    method("replace", 2, string::replace),
    method("trim", 0, string::trim),
    // Macros, which the parser knows: they stand here to be suggested.
    method(LoopKind::Map.name(), ANY, string::contains),
    method(LoopKind::Filter.name(), ANY, string::contains),
    method(LoopKind::Exists.name(), ANY, string::contains),
    method(LoopKind::All.name(), ANY, string::contains),
    method(LoopKind::ExistsOne.name(), ANY, string::contains),
];

/// The function that a call means.
///
/// # Errors
///
/// Why there is none, with the nearest name there is.
pub(super) fn find(name: &str, style: Style, arguments: usize) -> Result<&'static Function, String> {
    let named = || FUNCTIONS.iter().filter(|function| function.name == name);
    if let Some(function) = named().find(|function| function.style == style) {
        let (least, most) = function.arity;
        if (least..=most).contains(&arguments) {
            return Ok(function);
        }
        let plural = if least == 1 { "" } else { "s" };
        return Err(format!("`{name}` takes {least} argument{plural}, not {arguments}"));
    }
    Err(match (named().next(), style) {
        (Some(_), Style::Function) => format!("`{name}` is a method: write x.{name}(…)"),
        (Some(_), Style::Method) => format!("`{name}` is a function: write {name}(…)"),
        (None, _) if matches!(name, "len" | "length" | "count") => {
            format!("unknown function `{name}`: is `size` meant?")
        }
        (None, _) if name == "not" => format!("unknown function `{name}`: not is `!`"),
        (None, _) => match nearest(name) {
            Some(near) => format!("unknown function `{name}`: is `{near}` meant?"),
            None => format!("unknown function `{name}`"),
        },
    })
}

/// The name that differs in the fewest letters, if they are few.
fn nearest(name: &str) -> Option<&'static str> {
    let names = FUNCTIONS.iter().map(|function| function.name).chain(["has"]);
    let (distance, near) = names.map(|known| (distance(name, known), known)).min()?;
    (distance <= (name.len() / 3).max(1)).then_some(near)
}

/// How many letters must be changed, added or left out, upper and lower case being the same.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.to_ascii_lowercase(), b.to_ascii_lowercase());
    if a.len().abs_diff(b.len()) > b.len() {
        return usize::MAX;
    }
    let mut row = (0..=b.len()).collect::<Vec<_>>();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let changed = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// The receiver of a method, or an argument, that must be a list.
fn list_in<'v>(arguments: &'v [Value], place: usize, name: &str) -> Result<&'v [Value], EvalError> {
    let value = arguments.get(place).unwrap_or(&Value::Null);
    value.as_list().ok_or_else(|| wrong(name, "a list", value))
}

fn text_in<'v>(arguments: &'v [Value], place: usize, name: &str) -> Result<&'v str, EvalError> {
    let value = arguments.get(place).unwrap_or(&Value::Null);
    value.as_str().ok_or_else(|| wrong(name, "a string", value))
}

fn integer_in(arguments: &[Value], place: usize, name: &str) -> Result<i64, EvalError> {
    match arguments.get(place) {
        Some(Value::Int(integer)) => Ok(*integer),
        other => Err(wrong(name, "an integer", other.unwrap_or(&Value::Null))),
    }
}

fn wrong(name: &str, needed: &str, found: &Value) -> EvalError {
    EvalError::new(format!("{name}() needs {needed}, not {}", found.kind()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_call_is_told_what_is_meant() {
        for (name, style, arguments, message) in [
            ("sizee", Style::Function, 1, "unknown function `sizee`: is `size` meant?"),
            ("tojson", Style::Function, 1, "unknown function `tojson`: is `toJson` meant?"),
            ("existsOne", Style::Method, 2, "unknown function `existsOne`: is `exists_one` meant?"),
            ("len", Style::Function, 1, "unknown function `len`: is `size` meant?"),
            ("not", Style::Function, 1, "unknown function `not`: not is `!`"),
            ("frobnicate", Style::Method, 0, "unknown function `frobnicate`"),
            ("sort", Style::Function, 1, "`sort` is a method: write x.sort(…)"),
            ("range", Style::Method, 0, "`range` is a function: write range(…)"),
            ("chunk", Style::Method, 0, "`chunk` takes 1 argument, not 0"),
            ("slice", Style::Method, 1, "`slice` takes 2 arguments, not 1"),
        ] {
            assert_eq!(find(name, style, arguments).unwrap_err(), message);
        }
    }
}
